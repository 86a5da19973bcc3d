// SPDX-License-Identifier: MIT
//
// Collections while tasks start programs.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "gc/heap.h"
#include "support/hanging.h"
#include "support/net.h"

namespace
{

// The thread that loads a program takes no signals until it is loaded, and a collection must not
// wait for it. What the task refers to is found all the same.
TEST(GcProcess, LoadingDelaysNoCollection)
{
	ASSERT_EQ(0, sn_gc_init());
	test::run({2}, [] {
		test::HangingProgram program;
		std::atomic<bool> collected{false}, started{false};

		if (!program.hangs())
			GTEST_SKIP() << "the file system has no leases";
		test::Task starts([&] {
			// In the collected heap, and only this stack refers to it.
			char *volatile name =
				static_cast<char *>(GC_MALLOC_ATOMIC(program.path().size() + 1));
			strcpy(name, program.path().c_str());
			const char *const argv[] = {name, nullptr};
			sn_process *process = nullptr;
			const int err = sn_process_start(&process, argv, nullptr);

			started = true;
			EXPECT_EQ(program.path(), static_cast<char *>(name));
			EXPECT_EQ(0, err);
			if (err == 0) {
				EXPECT_EQ(0, sn_process_wait(process, nullptr, test::soon()));
				EXPECT_EQ(0, sn_process_close(process));
			}
		});
		EXPECT_TRUE(test::eventually([&] { return program.has_someone_waiting(); }));
		test::Task collects([&] {
			for (int i = 0; i < 3; i++) {
				GC_gcollect();
				for (int j = 0; j < 1000; j++)
					memset(GC_MALLOC_ATOMIC(64), 'x', 64);
			}
			collected = true;
		});
		// A thread of the program's, because those of the runtime may be stopped.
		std::thread watch([&] {
			EXPECT_TRUE(test::eventually_in_thread([&] { return collected.load(); }));
			EXPECT_FALSE(started);
			program.end();
		});
		collects.join();
		starts.join();
		watch.join();
	});
}

} // namespace
