// SPDX-License-Identifier: MIT
//
// Sleeping without memory for a timer: the call fails, but only after a moment, so that a program
// that just repeats it does not take a whole CPU.
#include <atomic>
#include <vector>

#include "support/no_timers.h"
#include "support/runtime.h"

namespace
{

using test::Task;

TASK_TEST(Sleep, WithoutMemoryDoesNotSpin, 1)
{
	std::vector<Task> sleepers;
	std::atomic<bool> done{false};
	int failed = 0;

	test::no_timers = true;
	// Until all timers for which there is memory are in use.
	while (sn_sleep(test::us) == 0 && sleepers.size() < 10000)
		for (int i = 0; i < 16; i++)
			sleepers.emplace_back([&] {
				while (!done)
					if (sn_sleep(20 * test::ms) == -ENOMEM)
						break;
			});
	const int64_t begin = sn_now(), cpu = test::cpu_ns();
	while (sn_now() - begin < 100 * test::ms)
		failed += sn_sleep(test::second) == -ENOMEM;
	const int64_t used = test::cpu_ns() - cpu, passed = sn_now() - begin;
	test::no_timers = false;
	done = true;
	test::join_all(sleepers);
	EXPECT_GT(failed, 0);
	EXPECT_LE(failed, 1 + passed / test::ms) << "each took a millisecond";
	// An emulator also uses the CPU to translate.
	if (!TEST_EMULATED) {
		EXPECT_LT(used, passed / 2);
	}
	EXPECT_EQ(0, sn_sleep(test::us));
}

} // namespace
