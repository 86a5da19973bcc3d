// SPDX-License-Identifier: MIT
//
// The system refuses threads (RLIMIT_NPROC, pids.max, memory for their stacks). This program's own
// pthread_create() stands for it, so it can count how often the runtime tries. The sanitizers need
// theirs.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "support/runtime.h"
#include "support/yields.h"

#if !TEST_TSAN && !TEST_ASAN

namespace
{

std::atomic<bool> refuses{false};
std::atomic<int> refused{0};

} // namespace

extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
			      void *arg) noexcept
{
	static const auto real =
		reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));

	if (refuses) {
		refused++;
		return EAGAIN;
	}
	return real(thread, attr, body, arg);
}

namespace
{

// How often the runtime may try again: RETRY_NS of src/sched/thread_list.c.
constexpr int64_t retry = 20 * test::ms;

// All threads but one are blocked, and no other can be started. That costs an attempt now and then,
// and nothing for each task; and it is over when the system grants threads.
TEST(RefusedThreads, AreTriedForNowAndThen)
{
	const int n = test::scaled(10000);

	test::run(2, [=] {
		const double before = test::cost_of_a_yield(n);
		std::atomic<int> in{0};
		std::vector<test::Task> blocked;
		int gate[2];

		ASSERT_EQ(0, pipe2(gate, O_CLOEXEC));
		const auto block = [&] {
			blocked.emplace_back([&] {
				char byte;

				in++;
				EXPECT_EQ(1, read(gate[0], &byte, 1));
			});
		};
		const int64_t begin = sn_now();
		refused = 0;
		refuses = true;
		// One is left, on which this task and those that yield run.
		const int threads = int(test::stats().threads), blocking = threads + 8;
		for (int i = 1; i < threads; i++)
			block();
		EXPECT_TRUE(test::eventually([&] { return in == threads - 1; }));
		const double at_the_limit = test::cost_of_a_yield(n);
		const int tries = refused;
		EXPECT_GT(tries, 0);
		const int64_t passed = sn_now() - begin;
		printf("a yield: %.0f ns, without threads %.0f ns; %d attempts in %lld ms\n",
		       before, at_the_limit, tries, static_cast<long long>(passed / test::ms));
		EXPECT_LT(at_the_limit, 8 * before);
		EXPECT_LE(tries, 2 + passed / retry);

		refuses = false;
		while (int(blocked.size()) < blocking)
			block();
		EXPECT_TRUE(test::eventually([&] { return in == blocking; }));
		for (int i = 0; i < blocking; i++)
			EXPECT_EQ(1, write(gate[1], "x", 1));
		test::join_all(blocked);
		close(gate[0]);
		close(gate[1]);
	});
}

} // namespace

#else

TEST(RefusedThreads, AreTriedForNowAndThen)
{
	GTEST_SKIP() << "the sanitizers need their own pthread_create()";
}

#endif
