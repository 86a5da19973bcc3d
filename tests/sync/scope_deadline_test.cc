// SPDX-License-Identifier: MIT
//
// Closing scopes with a deadline, and moving the deadlines of scopes: what each call returns, what
// is cancelled and what continues, nested scopes, and the race with the alarm.
#include <atomic>
#include <thread>

#include "support/runtime.h"
#include "support/scope.h"

namespace
{

using namespace test;

// A deadline that has passed.
constexpr int64_t past = 1;

// ---- closing ----

TASK_TEST(CloseUntil, WaitsForTasksThatEndInTime)
{
	Scope scope;
	std::atomic<int> ended{0};

	for (int i = 0; i < 20; i++)
		scope.go([&, i] {
			EXPECT_EQ(0, sn_sleep(i % 3 * ms));
			ended++;
			return i;
		});
	EXPECT_EQ(0, scope.close_until(sn_after(forever)));
	EXPECT_EQ(20, ended);
	EXPECT_EQ(nullptr, sn_scope_current());
}

TASK_TEST(CloseUntil, CancelsTheOthersAndWaitsForThem)
{
	Scope scope;
	const int64_t deadline = sn_after(5 * ms);
	std::atomic<int> timed_out{0}, cleaned_up{0};

	for (int i = 0; i < 10; i++)
		scope.go([&] {
			const int err = sn_sleep(forever);

			EXPECT_GE(sn_now(), deadline);
			timed_out += err == -ETIMEDOUT;
			sn_cancel_mask();
			EXPECT_EQ(0, sn_sleep(5 * ms)) << "a last message";
			sn_cancel_unmask();
			cleaned_up++;
			return -EIO;
		});
	scope.go([] { return 0; });
	EXPECT_EQ(-ETIMEDOUT, scope.close_until(deadline)) << "not the tasks' own results";
	EXPECT_EQ(10, timed_out);
	EXPECT_EQ(10, cleaned_up);
	EXPECT_EQ(0, sn_cancelled());
}

TASK_TEST(CloseUntil, ReachesTheScopesInside)
{
	Scope scope;
	std::atomic<int> opened{0};

	scope.go([&] {
		Scope inner;

		inner.go([] { return sn_sleep(forever); });
		opened++;
		EXPECT_EQ(-ETIMEDOUT, inner.close_until(sn_after(forever)));
		return 0;
	});
	EXPECT_TRUE(test::eventually([&] { return opened == 1; }));
	EXPECT_EQ(-ETIMEDOUT, scope.close_until(sn_after(5 * ms)));
}

TASK_TEST(CloseUntil, ReturnsTheErrorThatCameFirst)
{
	Scope failed, cancelled;

	cancelled.cancel();
	EXPECT_EQ(-ECANCELED, cancelled.close_until(past));
	failed.go([] { return -EPROTO; });
	EXPECT_EQ(-ECANCELED, sn_sleep(forever));
	EXPECT_EQ(-EPROTO, failed.close_until(past));
}

TASK_TEST(CloseUntil, InThePastCancelsAtOnce)
{
	for (int64_t deadline : {past, int64_t(-5), sn_now()}) {
		Scope scope, empty;

		EXPECT_EQ(0, empty.close_until(deadline)) << "nothing had to be cancelled";
		scope.go([] { return sn_sleep(forever); });
		EXPECT_EQ(-ETIMEDOUT, scope.close_until(deadline));
	}
}

TASK_TEST(CloseUntil, TheEarlierDeadlineCounts)
{
	const auto sleep = [] { return sn_sleep(forever); };
	const int64_t from = sn_now();

	{
		Scope scope(sn_after(forever));

		scope.go(sleep);
		EXPECT_EQ(-ETIMEDOUT, scope.close_until(sn_after(5 * ms)));
	}
	{
		Scope scope;

		scope.go(sleep);
		EXPECT_EQ(0, sn_scope_set_deadline(scope.get(), sn_after(50 * ms)));
		EXPECT_EQ(-ETIMEDOUT, scope.close_until(sn_after(forever)));
	}
	EXPECT_LT(sn_now() - from, forever / 2);
}

// A task of a server cannot keep the server from shutting down in time.
TASK_TEST(CloseUntil, CannotBeMovedLater)
{
	for (int64_t later : {sn_after(forever), SN_NO_DEADLINE}) {
		Scope scope;
		std::atomic<bool> closing{false};

		scope.go([&, later] {
			int err;

			while (!closing)
				EXPECT_EQ(0, sn_yield());
			while ((err = sn_scope_set_deadline(sn_scope_current(), later)) == 0)
				sn_sleep(ms);
			EXPECT_EQ(-ETIMEDOUT, err);
			return sn_sleep(forever);
		});
		closing = true;
		EXPECT_EQ(-ETIMEDOUT, scope.close_until(sn_after(10 * ms)));
	}
}

TASK_TEST(CloseUntil, CanBeMovedEarlier)
{
	Scope scope;
	const int64_t closing_until = sn_after(forever);

	scope.go([&] {
		while (sn_scope_deadline() != closing_until)
			EXPECT_EQ(0, sn_yield());
		EXPECT_EQ(0, sn_scope_set_deadline(sn_scope_current(), sn_after(ms)));
		return sn_sleep(forever);
	});
	EXPECT_EQ(-ETIMEDOUT, scope.close_until(closing_until));
}

TASK_TEST(CloseUntil, NeverIsAnOrdinaryClose)
{
	Scope scope;

	scope.go([] { return sn_sleep(5 * ms); });
	EXPECT_EQ(0, scope.close_until(SN_NO_DEADLINE));
}

TEST(CloseUntil, Misuse)
{
	EXPECT_EQ(-ENOTSUP, sn_scope_close_until(nullptr, past));
	test::run([] {
		Scope scope;
		sn_scope *closed = scope.get();

		EXPECT_EQ(0, sn_scope_close_until(nullptr, past)) << "as free() does";
		EXPECT_EQ(0, scope.close_until(past));
		EXPECT_EQ(-ESRCH, sn_scope_close_until(closed, past));
	});
}

// A result of 0 means that no task was cancelled, even when the last task ends just when the time
// is over.
TEST(CloseUntil, SaysWhetherItHadToCancel)
{
	test::Environment race("SENNIT_RACE", "1");
	std::atomic<int> in_time{0}, too_late{0};

	test::run([&] {
		for (int i = 0; i < test::scaled(4000); i++) {
			Scope scope;
			std::atomic<int> cancelled{0};
			const int64_t pause = i % 40 * test::us;

			for (int j = 0; j < 2; j++)
				scope.go([&] {
					cancelled += sn_sleep(pause) < 0;
					return 0;
				});
			const int err = scope.close_until(sn_after(60 * test::us));

			if (err == 0)
				EXPECT_EQ(0, cancelled.load());
			else
				EXPECT_EQ(-ETIMEDOUT, err);
			(err == 0 ? in_time : too_late)++;
		}
	});
	printf("%d in time, %d too late\n", in_time.load(), too_late.load());
}

// ---- moving ----

TASK_TEST(SetDeadline, EarlierEndsWhatWaits)
{
	Scope scope(sn_after(forever));
	std::atomic<int> waiting{0}, timed_out{0};

	for (int i = 0; i < 5; i++)
		scope.go([&] {
			waiting++;
			timed_out += sn_sleep(forever) == -ETIMEDOUT;
			return 0;
		});
	EXPECT_TRUE(test::eventually([&] { return waiting == 5; }));
	const int64_t deadline = sn_after(5 * ms);
	EXPECT_EQ(0, sn_scope_set_deadline(scope.get(), deadline));
	EXPECT_EQ(-ETIMEDOUT, sn_sleep(forever));
	EXPECT_GE(sn_now(), deadline);
	EXPECT_EQ(-ETIMEDOUT, scope.close());
	EXPECT_EQ(5, timed_out);
}

// Moves the deadline of a scope in which a task waits. Returns false if the machine was so slow
// that the deadline had passed before.
bool outlives(int64_t time, int64_t later)
{
	Scope scope(sn_after(time));

	if (scope.go([time] { return sn_sleep(2 * time); }) < 0 ||
	    sn_scope_set_deadline(scope.get(), later) < 0) {
		EXPECT_EQ(-ETIMEDOUT, scope.close());
		return false;
	}
	EXPECT_EQ(0, scope.close());
	return true;
}

TASK_TEST(SetDeadline, LaterLetsTasksGoOn)
{
	for (int64_t time = 10 * ms; !outlives(time, sn_after(forever)); time *= 2)
		ASSERT_GT(test::patience, time);
}

TASK_TEST(SetDeadline, CanBeRemoved)
{
	for (int64_t time = 10 * ms; !outlives(time, SN_NO_DEADLINE); time *= 2)
		ASSERT_GT(test::patience, time);
}

TASK_TEST(SetDeadline, OfAScopeWithoutOne)
{
	Scope scope;

	EXPECT_EQ(0, sn_scope_set_deadline(scope.get(), SN_NO_DEADLINE));
	EXPECT_EQ(0, sn_sleep(ms));
	EXPECT_EQ(0, sn_scope_set_deadline(scope.get(), sn_after(5 * ms)));
	EXPECT_EQ(-ETIMEDOUT, sn_sleep(forever));
	EXPECT_EQ(-ETIMEDOUT, scope.close());
}

TASK_TEST(SetDeadline, InThePastCancelsBeforeItReturns)
{
	for (int64_t first : {SN_NO_DEADLINE, sn_after(forever)}) {
		Scope scope(first);

		EXPECT_EQ(0, sn_scope_set_deadline(scope.get(), past));
		EXPECT_EQ(-ETIMEDOUT, sn_cancelled());
		EXPECT_EQ(-ETIMEDOUT, scope.close());
	}
}

TASK_TEST(SetDeadline, FromAnyTaskOrThread)
{
	Scope scope(sn_after(forever));
	std::atomic<int> moved{0};

	Task elsewhere(
		[&] { moved += sn_scope_set_deadline(scope.get(), sn_after(forever)) == 0; });
	scope.go([&] {
		moved += sn_scope_set_deadline(scope.get(), SN_NO_DEADLINE) == 0;
		return 0;
	});
	std::thread thread([&] {
		// No other calls come in between, so that this one starts the timer.
		while (moved < 2)
			usleep(100);
		EXPECT_EQ(0, sn_scope_set_deadline(scope.get(), SN_NO_DEADLINE));
		EXPECT_EQ(0, sn_scope_set_deadline(scope.get(), sn_now() + 5 * ms));
	});

	EXPECT_EQ(-ETIMEDOUT, sn_sleep(forever));
	sn_enter_blocking();
	thread.join();
	sn_exit_blocking();
	EXPECT_EQ(0, elsewhere.join());
	EXPECT_EQ(-ETIMEDOUT, scope.close());
}

// All processors are idle, and the first timer is an hour away.
TASK_TEST(SetDeadline, EarlierWakesAnIdleMachine)
{
	Scope scope(sn_after(forever));
	std::thread thread([&] {
		usleep(20000);
		EXPECT_EQ(0, sn_scope_set_deadline(scope.get(), sn_now() + 5 * ms));
	});

	EXPECT_EQ(-ETIMEDOUT, sn_sleep(2 * forever));
	sn_enter_blocking();
	thread.join();
	sn_exit_blocking();
	EXPECT_EQ(-ETIMEDOUT, scope.close());
}

TASK_TEST(SetDeadline, IsRefusedOnceCancelled)
{
	Scope scope;
	sn_scope *closed = scope.get();

	scope.cancel();
	EXPECT_EQ(-ECANCELED, sn_scope_set_deadline(scope.get(), sn_after(forever)));
	EXPECT_EQ(-ECANCELED, sn_scope_set_deadline(scope.get(), past));
	EXPECT_EQ(-ECANCELED, scope.close());
	EXPECT_EQ(-ESRCH, sn_scope_set_deadline(closed, past));
	EXPECT_EQ(-EINVAL, sn_scope_set_deadline(nullptr, past));

	Scope late(past);
	EXPECT_EQ(-ETIMEDOUT, sn_sleep(forever));
	EXPECT_EQ(-ETIMEDOUT, sn_scope_set_deadline(late.get(), SN_NO_DEADLINE));
	EXPECT_EQ(-ETIMEDOUT, late.close());
}

TEST(SetDeadline, OutsideARun)
{
	sn_scope *left = nullptr;

	test::run(1, [&] { left = sn_scope_current(); });
	EXPECT_EQ(-EINVAL, sn_scope_set_deadline(left, past));
	test::run(1, [&] {
		Scope scope;

		left = scope.get();
		EXPECT_EQ(0, scope.close());
	});
	EXPECT_EQ(-ESRCH, sn_scope_set_deadline(left, past));
	EXPECT_EQ(SN_NO_DEADLINE, sn_scope_deadline());
}

// Either the alarm or the call wins, and both agree on which.
TEST(SetDeadline, RacesWithTheAlarm)
{
	test::Environment race("SENNIT_RACE", "1");
	std::atomic<int> moved{0}, late{0};

	test::run([&] {
		for (int i = 0; i < test::scaled(4000); i++) {
			const int64_t deadline = sn_now() + 20 * test::us;
			const int64_t moves = deadline + (i % 40 - 25) * test::us;
			Scope scope(deadline);

			// On other processors the alarm may fire at any of these moments.
			while (sn_now() < moves)
				sn_yield();
			const int err = sn_scope_set_deadline(
				scope.get(), i % 2 ? SN_NO_DEADLINE : sn_after(forever));

			(err == 0 ? moved : late)++;
			EXPECT_EQ(err, sn_sleep(err == 0 ? 40 * test::us : forever));
			EXPECT_EQ(err, scope.close());
		}
	});
	printf("%d moved in time, %d too late\n", moved.load(), late.load());
}

// Several tasks move the deadline at the same time, and then it is removed: no effect of the moves
// is left.
TEST(SetDeadline, ByManyAtOnce)
{
	test::Environment race("SENNIT_RACE", "1");

	test::run([] {
		for (int round = 0; round < test::scaled(200); round++) {
			Scope outer;
			sn_scope *shared = outer.get();

			{
				Scope inner;

				for (int i = 0; i < 8; i++)
					inner.go([=] {
						for (int j = 0; j < 10; j++)
							EXPECT_EQ(
								0,
								sn_scope_set_deadline(
									shared,
									(i + j) % 3
										? sn_after(forever +
											   j)
										: SN_NO_DEADLINE));
						return 0;
					});
				EXPECT_EQ(0, inner.close());
			}
			EXPECT_EQ(0, sn_scope_set_deadline(shared, sn_after(100 * test::us)));
			EXPECT_EQ(-ETIMEDOUT, sn_sleep(forever));
			EXPECT_EQ(-ETIMEDOUT, outer.close());
		}
		EXPECT_TRUE(test::all_ended());
	});
}

// ---- nested scopes ----

TASK_TEST(NestedDeadline, TheEarliestCounts)
{
	const int64_t from = sn_now();
	const int64_t soon = from + forever, later = from + 2 * forever;

	EXPECT_EQ(SN_NO_DEADLINE, sn_scope_deadline());
	Scope outer(soon);
	EXPECT_EQ(soon, sn_scope_deadline());
	{
		Scope inner(later);

		EXPECT_EQ(soon, sn_scope_deadline()) << "no longer than the outer scope";
		Scope around_task;

		around_task.go([&] {
			EXPECT_EQ(soon, sn_scope_deadline());
			return 0;
		});
		EXPECT_EQ(0, around_task.close());
		EXPECT_EQ(0, sn_scope_set_deadline(outer.get(), SN_NO_DEADLINE));
		EXPECT_EQ(later, sn_scope_deadline()) << "the inner scope kept its own deadline";
		EXPECT_EQ(0, sn_scope_set_deadline(inner.get(), SN_NO_DEADLINE));
		EXPECT_EQ(SN_NO_DEADLINE, sn_scope_deadline());
		EXPECT_EQ(0, inner.close());
	}
	EXPECT_EQ(0, outer.close());
	Task outside([] { EXPECT_EQ(SN_NO_DEADLINE, sn_scope_deadline()); });
	outside.join();
}

TASK_TEST(NestedDeadline, MaskedIsNone)
{
	const int64_t soon = sn_after(forever);
	Scope outer(soon);

	sn_cancel_mask();
	EXPECT_EQ(SN_NO_DEADLINE, sn_scope_deadline());
	{
		Scope inner(soon + 1);

		EXPECT_EQ(soon + 1, sn_scope_deadline()) << "not cancelled with outer";
		EXPECT_EQ(0, inner.close());
	}
	sn_cancel_unmask();
	EXPECT_EQ(soon, sn_scope_deadline());
	EXPECT_EQ(0, outer.close());
}

TASK_TEST(NestedDeadline, OuterMovedLaterDoesNotLengthenInner)
{
	Scope outer(sn_after(forever));
	Scope inner(sn_after(10 * ms));

	EXPECT_EQ(0, sn_scope_set_deadline(outer.get(), sn_after(2 * forever)));
	EXPECT_EQ(-ETIMEDOUT, sn_sleep(forever));
	EXPECT_EQ(-ETIMEDOUT, inner.close());
	EXPECT_EQ(0, sn_sleep(ms)) << "the outer scope continues";
	EXPECT_EQ(0, outer.close());
}

TASK_TEST(NestedDeadline, OuterMovedEarlierEndsInner)
{
	Scope outer(sn_after(2 * forever));
	Scope inner(sn_after(forever));

	inner.go([&] {
		EXPECT_EQ(0, sn_scope_set_deadline(outer.get(), sn_after(2 * ms)));
		return sn_sleep(forever);
	});
	EXPECT_EQ(-ETIMEDOUT, inner.close());
	EXPECT_EQ(-ETIMEDOUT, outer.close());
}

TASK_TEST(NestedDeadline, InnerMovedLaterStillEndsWithOuter)
{
	Scope outer(sn_after(20 * ms));
	sn_scope *open = nullptr;

	if (sn_scope_open(&open, sn_after(10 * ms)) == 0) {
		Scope inner(open);
		const int err = sn_scope_set_deadline(inner.get(), sn_after(forever));

		EXPECT_TRUE(err == 0 || err == -ETIMEDOUT) << err;
		EXPECT_EQ(-ETIMEDOUT, sn_sleep(forever));
		EXPECT_EQ(-ETIMEDOUT, inner.close());
	}
	EXPECT_EQ(-ETIMEDOUT, sn_sleep(forever));
	EXPECT_EQ(-ETIMEDOUT, outer.close());
}

} // namespace
