// SPDX-License-Identifier: MIT
//
// Threads without a processor: those that a burst of blocking calls has started end when they have
// been idle for long enough, except as many as there are processors.
#include <atomic>
#include <vector>

#include <unistd.h>

#include "support/runtime.h"

namespace
{

constexpr int processors = 4;
constexpr int64_t idle = 10 * test::ms; // the value of SENNIT_IDLE_MS

// Blocks so many threads at the same time.
void block(int n)
{
	std::atomic<int> in{0};
	std::vector<test::Task> tasks;

	for (int i = 0; i < n; i++)
		tasks.emplace_back([&] {
			in++;
			while (in < n)
				usleep(1000);
		});
	test::join_all(tasks);
}

TEST(Sleeper, OneThreadForEachProcessorStays)
{
	test::Environment soon("SENNIT_IDLE_MS", "10");

	test::run({processors}, [] {
		// One more runs this task, or waits for its timer.
		const auto left = [] { return int(test::stats().threads) - 1; };

		block(3 * processors);
		EXPECT_TRUE(test::eventually([&] { return left() <= processors; })) << left();
		for (int i = 0; i < 20; i++) {
			sn_sleep(idle);
			EXPECT_LE(processors, left());
		}
	});
}

} // namespace
