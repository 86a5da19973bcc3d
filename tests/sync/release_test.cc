// SPDX-License-Identifier: MIT
//
// A call that releases many waiters lends its processor in the middle, when it has had the
// processor for too long. No result depends on how long something takes: the test requests the
// processor, as the monitor would, again and again during the call.
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "support/channel.h"
#include "support/internals.h"
#include "support/locks.h"

namespace
{

using test::Chan;
using test::second;
using test::Task;

// So many that waking them takes several batches.
constexpr int many = 3000;

// Returns how many of the waiters have run when release() returns. There is one processor, so a
// task that has arrived waits when another task runs.
int run_during(const std::function<void()> &wait, const std::function<void()> &release)
{
	std::atomic<int> arrived{0}, released{0};
	std::atomic<bool> over{false};
	const void *self = probe_thread();
	std::vector<Task> tasks;

	for (int i = 0; i < many; i++)
		tasks.emplace_back([&] {
			arrived++;
			wait();
			released++;
		});
	while (arrived < many)
		sn_yield();
	sn_yield();
	std::thread monitor([&] {
		while (!over)
			probe_expire(self);
	});
	release();
	const int during = released;
	over = true;
	monitor.join();
	for (Task &task : tasks)
		task.join();
	return during;
}

void expect_some(const std::function<int()> &attempt)
{
	test::run(1, [&] {
		// Repeated, because the other thread may not have run during the call.
		for (int i = 0; i < 100; i++)
			if (attempt() > 0)
				return;
		ADD_FAILURE() << "none has run";
	});
}

TEST(Release, ClosingAChannelLetsOthersRun)
{
	expect_some([] {
		Chan<int> chan;

		return run_during(
			[&] {
				int value;
				EXPECT_EQ(-EPIPE, sn_chan_recv(chan.get(), &value));
			},
			[&] { EXPECT_EQ(0, sn_chan_close(chan.get())); });
	});
}

TEST(Release, ABroadcastLetsOthersRun)
{
	expect_some([] {
		sn_mutex lock = SN_MUTEX_INIT;
		sn_cond cond = SN_COND_INIT;
		bool may_go = false;

		return run_during(
			[&] {
				EXPECT_EQ(0, sn_mutex_lock(&lock));
				while (!may_go)
					EXPECT_EQ(0, sn_cond_wait(&cond, &lock));
				sn_mutex_unlock(&lock);
			},
			[&] {
				EXPECT_EQ(0, sn_mutex_lock(&lock));
				may_go = true;
				sn_mutex_unlock(&lock);
				EXPECT_GE(sn_cond_broadcast(&cond), 0);
			});
	});
}

TEST(Release, TheEndOfAWaitGroupLetsOthersRun)
{
	expect_some([] {
		sn_waitgroup group = SN_WAITGROUP_INIT;

		EXPECT_EQ(0, sn_waitgroup_add(&group, 1));
		return run_during([&] { EXPECT_EQ(0, sn_waitgroup_wait(&group)); },
				  [&] { EXPECT_EQ(0, sn_waitgroup_done(&group)); });
	});
}

TEST(Release, ManyPermitsLetOthersRun)
{
	expect_some([] {
		sn_semaphore permits = SN_SEMAPHORE_INIT(0);

		return run_during([&] { EXPECT_EQ(0, sn_semaphore_acquire(&permits)); },
				  [&] { EXPECT_EQ(0, sn_semaphore_release(&permits, many)); });
	});
}

TEST(Release, CancellingAScopeLetsOthersRun)
{
	struct {
		std::atomic<int> arrived{0}, released{0};
	} seen;
	const auto wait = [](void *arg) {
		auto *counts = static_cast<decltype(seen) *>(arg);

		counts->arrived++;
		EXPECT_EQ(-ECANCELED, sn_sleep(3600 * second));
		counts->released++;
		return 0;
	};

	expect_some([&] {
		std::atomic<bool> over{false};
		const void *self = probe_thread();
		sn_scope *scope;

		seen.arrived = seen.released = 0;
		EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		for (int i = 0; i < many; i++)
			EXPECT_EQ(0, sn_scope_go(scope, wait, &seen));
		while (seen.arrived < many)
			sn_yield();
		std::thread monitor([&] {
			while (!over)
				probe_expire(self);
		});
		EXPECT_EQ(0, sn_scope_cancel(scope));
		const int during = seen.released;
		over = true;
		monitor.join();
		EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
		return during;
	});
}

} // namespace
