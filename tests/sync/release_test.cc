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

using namespace test;

// So many that waking them takes several batches.
constexpr int many = 3000;

// Returns how many of the waiters have run when release() returns. There is one processor, so a
// task that has arrived waits when another task runs.
int run_during(const std::function<void()> &wait, const std::function<void()> &release)
{
	std::atomic<int> arrived{0}, released{0};
	std::atomic<bool> over{false};
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
			probe_expire();
	});
	release();
	const int during = released;
	over = true;
	monitor.join();
	join_all(tasks);
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

// Opens a scope in which many tasks sleep, and ends it. Returns how many of them have run when that
// is over.
int run_during_end(const std::function<void(sn_scope *)> &end, int reason)
{
	struct {
		std::atomic<int> arrived{0}, released{0};
		int reason;
	} seen;
	const auto wait = [](void *arg) {
		auto *counts = static_cast<decltype(seen) *>(arg);

		counts->arrived++;
		EXPECT_EQ(counts->reason, sn_sleep(3600 * second));
		counts->released++;
		return 0;
	};
	std::atomic<bool> over{false};
	sn_scope *scope;

	seen.reason = reason;
	EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	for (int i = 0; i < many; i++)
		EXPECT_EQ(0, sn_scope_go(scope, wait, &seen));
	while (seen.arrived < many)
		sn_yield();
	std::thread monitor([&] {
		while (!over)
			probe_expire();
	});
	end(scope);
	const int during = seen.released;
	over = true;
	monitor.join();
	EXPECT_EQ(reason, sn_scope_close(scope));
	return during;
}

TEST(Release, CancellingAScopeLetsOthersRun)
{
	expect_some([] {
		return run_during_end([](sn_scope *scope) { EXPECT_EQ(0, sn_scope_cancel(scope)); },
				      -ECANCELED);
	});
}

TEST(Release, APastDeadlineLetsOthersRun)
{
	expect_some([] {
		return run_during_end(
			[](sn_scope *scope) { EXPECT_EQ(0, sn_scope_set_deadline(scope, 1)); },
			-ETIMEDOUT);
	});
}

// Many tasks wait in a scope, the last of them to receive, and a deadline passes while no task
// runs: the scope's own or, if inside, that of the scope around. Returns whether one of the tasks
// that run then finds that the last one still waits.
int last_waits_when_another_runs(bool inside)
{
	Chan<int> chan;
	std::atomic<int> arrived{0}, left{0}, found{0}, got{0};
	std::atomic<bool> over{false};
	std::vector<std::function<int()>> waits(many, [&] {
		arrived++;
		EXPECT_EQ(-ETIMEDOUT, sn_sleep(3600 * second));
		EXPECT_EQ(0, sn_cancel_mask()); // or sending fails with the reason
		if (chan.try_send(1) == 0)
			found = 1;
		left++;
		return sn_cancel_unmask();
	});

	waits.back() = [&] {
		int value;

		arrived++;
		if (sn_chan_recv(chan.get(), &value) == 0)
			got = 1;
		left++;
		return 0;
	};
	const auto body = [&](sn_scope *scope, sn_scope *outer) {
		for (auto &wait : waits)
			EXPECT_EQ(0, sn_scope_go(
					     scope,
					     [](void *arg) {
						     return (*static_cast<std::function<int()> *>(
							     arg))();
					     },
					     &wait));
		while (arrived < many)
			sn_yield();
		sn_yield();
		std::thread monitor([&] {
			while (!over)
				probe_expire();
		});
		EXPECT_EQ(0, sn_scope_set_deadline(outer, sn_now() + test::ms));
		EXPECT_EQ(0, sn_cancel_mask());
		while (left < many)
			sn_sleep(test::ms);
		EXPECT_EQ(0, sn_cancel_unmask());
		over = true;
		monitor.join();
	};
	EXPECT_EQ(-ETIMEDOUT, test::in_scope([&](sn_scope *outer) {
		if (!inside)
			return body(outer, outer);
		EXPECT_EQ(-ETIMEDOUT, test::in_scope([&](sn_scope *scope) { body(scope, outer); }));
	}));
	EXPECT_EQ(got, found);
	return found;
}

TEST(Release, ADeadlineLetsOthersRun)
{
	expect_some([] { return last_waits_when_another_runs(false); });
}

TEST(Release, TheDeadlineOfAScopeAroundLetsOthersRun)
{
	expect_some([] { return last_waits_when_another_runs(true); });
}

} // namespace
