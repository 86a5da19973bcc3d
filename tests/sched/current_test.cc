// SPDX-License-Identifier: MIT
//
// The calling thread's lease, as programs find it by a call where the header has no instructions
// for it: on i386 and ARM, and under the thread sanitizer.
#include <thread>

#include "support/runtime.h"

namespace
{

TASK_TEST(Current, TheCallFindsWhatTheInstructionsFind)
{
	struct sn_private_lease *const lease = sn_private_current_slow();

	EXPECT_NE(nullptr, lease);
	EXPECT_EQ(sn_private_self(), lease);
	std::thread([] { EXPECT_EQ(nullptr, sn_private_current_slow()); }).join();
}

// On a thread of the runtime's own, and after a task has come to another one.
TASK_TEST(Current, TheCallFollowsATaskToAnotherThread, 2)
{
	std::atomic<bool> stop{false};
	test::Task other([&] {
		while (!stop)
			sn_yield();
	});

	for (int i = 0; i < 100; i++) {
		sn_sleep(10 * test::us);
		ASSERT_NE(nullptr, sn_private_current_slow());
		ASSERT_EQ(sn_private_self(), sn_private_current_slow());
	}
	stop = true;
	other.join();
}

} // namespace
