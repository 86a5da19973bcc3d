// SPDX-License-Identifier: MIT
// Labels: checked
//
// The collector stops a thread wherever that is, also while it holds a lock of the runtime. The
// checked build, which then sees the system calls of libgc's handlers, lets them be made, and only
// them.
#include <atomic>

#include <signal.h>
#include <unistd.h>

#include "gc/heap.h"
#include "support/checked.h"

namespace
{

using namespace test;

TEST(GcChecked, AThreadIsStoppedAndRestartedUnderALock)
{
	connect();
	run(2, [] {
		std::atomic<bool> holds{false}, collected{false};
		struct sn_gc_stats before, after;
		Task holder([&] {
			checked_take_outer();
			holds = true;
			while (!collected)
				;
			checked_release_outer();
		});

		EXPECT_TRUE(eventually([&] { return holds.load(); }));
		ASSERT_EQ(0, sn_gc_stats(&before));
		collect();
		ASSERT_EQ(0, sn_gc_stats(&after));
		collected = true;
		holder.join();
		EXPECT_LT(before.stops, after.stops);
	});
}

// A thread that another signal has woken may continue before the signal that restarts it arrives.
TEST(GcChecked, ALateRestartUnderALockIsHarmless)
{
	connect();
	run([] {
		checked_take_outer();
		EXPECT_EQ(0, raise(GC_get_thr_restart_signal()));
		checked_release_outer();
	});
}

TEST(GcChecked, OtherWaitsUnderALockAreFatal)
{
	testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE;
	if (!checked_sees_calls())
		GTEST_SKIP() << "the kernel has no system call user dispatch";
	connect();
	EXPECT_DEATH(run([] {
			     checked_take_outer();
			     pause();
		     }),
		     "calls pause");
}

} // namespace
