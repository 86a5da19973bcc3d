// SPDX-License-Identifier: MIT
//
// What sn_gc_init() refuses. Each case has a process of its own, because initialisation cannot be
// undone.
#include <thread>

#include <sennit/collector.h>

#include "gc/heap.h"
#include "support/child.h"

namespace
{

using namespace test;

template <class F>
void expect_success(F body)
{
	EXPECT_EQ(0, in_child(body));
}

// This is the program's only test, so nothing is initialised yet.
TEST(GcInit, Refusals)
{
	struct sn_gc_stats stats;

	EXPECT_EQ(-ENODEV, sn_gc_stats(&stats));
	std::thread([] { EXPECT_EQ(-EPERM, sn_gc_init()); }).join();
	expect_success([] {
		GC_INIT();
		CHILD_CHECK(sn_run([](void *) { return sn_gc_init(); }, nullptr) == -EBUSY);
		CHILD_CHECK(sn_gc_init() == 0);
		CHILD_CHECK(sn_run([](void *) { return GC_MALLOC(10) ? 5 : 6; }, nullptr) == 5);
	});
	expect_success([] {
		GC_INIT();
		GC_enable_incremental();
		if (GC_is_incremental_mode())
			CHILD_CHECK(sn_gc_init() == -ENOTSUP);
	});
	expect_success([] {
		static struct sn_collector other = {}, half = {};

		half.free = free;
		CHILD_CHECK(sn_collector_install(nullptr) == -EINVAL);
		CHILD_CHECK(sn_collector_install(&half) == -EINVAL);
		CHILD_CHECK(sn_collector_install(&other) == 0);
		CHILD_CHECK(sn_collector_install(&other) == 0);
		CHILD_CHECK(sn_gc_init() == -EEXIST);
	});
	// A channel that was made before sn_gc_init() keeps its memory.
	expect_success([] {
		sn_chan *chan;

		CHILD_CHECK(sn_chan_new(&chan, 8, 8) == 0);
		CHILD_CHECK(sn_gc_init() == 0);
		sn_chan_unref(chan);
	});
	// All signals are blocked in the thread that calls sn_run(), and all threads inherit its
	// mask.
	expect_success([] {
		sigset_t all;

		CHILD_CHECK(sn_gc_init() == 0);
		sigfillset(&all);
		CHILD_CHECK(pthread_sigmask(SIG_SETMASK, &all, nullptr) == 0);
		run(2, [] {
			Task other([] { collect(); });
			collect();
			other.join();
		});
		CHILD_CHECK(!testing::Test::HasFailure());
	});
	// The usual order, as in most programs.
	EXPECT_EQ(0, sn_gc_init());
	EXPECT_EQ(0, sn_gc_init());
	EXPECT_EQ(0, sn_gc_stats(&stats));
	GC_gcollect();
}

} // namespace
