// SPDX-License-Identifier: MIT
//
// Alarms and tickers: when they fire and how often, setting them again, stopping them while they
// fire, and many at a time, from tasks and from plain threads.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "support/locks.h"

// The linker calls the first one in place of the second, except within the file that has it
// (CMakeLists.txt). It makes the task of an alarm.
extern "C" {
sn_task *__wrap_sn_task_new(struct sn_thread *self, sn_fn *fn, void *arg,
			    const struct sn_task_attr *attr, const void *at, int *err);
sn_task *__real_sn_task_new(struct sn_thread *self, sn_fn *fn, void *arg,
			    const struct sn_task_attr *attr, const void *at, int *err);
}
static std::atomic<int> tasks_without_memory{0}; // that are still to fail

extern "C" sn_task *__wrap_sn_task_new(struct sn_thread *self, sn_fn *fn, void *arg,
				       const struct sn_task_attr *attr, const void *at, int *err)
{
	if (tasks_without_memory > 0) {
		tasks_without_memory--;
		*err = -ENOMEM;
		return nullptr;
	}
	return __real_sn_task_new(self, fn, arg, attr, at, err);
}

namespace
{

using namespace test;

constexpr int64_t forever = 3600 * second;

struct Ring {
	std::atomic<int> rung{0};
	std::atomic<int64_t> first{0};

	static int ring(void *arg)
	{
		auto *self = static_cast<Ring *>(arg);

		int64_t none = 0;

		self->first.compare_exchange_strong(none, sn_now());
		self->rung++; // the last access: after it, a waiter may free the object
		return 0;
	}
};

TASK_TEST(Alarm, RingsOnceNotEarly)
{
	sn_alarm alarm = SN_ALARM_INIT;
	Ring ring;
	const int64_t when = sn_now() + 3 * ms;

	EXPECT_EQ(0, sn_alarm_start(&alarm, when, 0, Ring::ring, &ring));
	ASSERT_TRUE(test::eventually([&] { return ring.rung == 1; }));
	EXPECT_GE(ring.first.load(), when);
	EXPECT_EQ(0, sn_alarm_stop(&alarm)) << "there was nothing left to prevent";
	// An alarm that is already due rings immediately. An alarm can be set again.
	EXPECT_EQ(0, sn_alarm_start(&alarm, 1, 0, Ring::ring, &ring));
	ASSERT_TRUE(test::eventually([&] { return ring.rung == 2; }));
}

TASK_TEST(Alarm, RingsPeriodically)
{
	static Ring ring; // a task that was started may begin after the alarm was stopped
	sn_alarm alarm = SN_ALARM_INIT;

	ring.rung = 0;
	EXPECT_EQ(0, sn_alarm_start(&alarm, sn_now() + ms, ms, Ring::ring, &ring));
	ASSERT_TRUE(test::eventually([&] { return ring.rung >= 10; }));
	EXPECT_EQ(1, sn_alarm_stop(&alarm));
	EXPECT_EQ(0, sn_alarm_stop(&alarm));
	EXPECT_TRUE(test::eventually([&] {
		const int rung = ring.rung;
		sn_sleep(10 * ms);
		return ring.rung == rung && test::stats().tasks_alive == 1;
	}));
}

TASK_TEST(Alarm, IsNotLostForLackOfMemory)
{
	static Ring ring; // as above
	sn_alarm once = SN_ALARM_INIT, periodic = SN_ALARM_INIT;

	ring.rung = 0;
	tasks_without_memory = 3;
	EXPECT_EQ(0, sn_alarm_start(&once, 1, 0, Ring::ring, &ring));
	EXPECT_TRUE(test::eventually([&] { return ring.rung == 1; }));
	EXPECT_EQ(0, tasks_without_memory);
	EXPECT_EQ(0, sn_alarm_stop(&once));
	// Of a periodic one the later firings come.
	tasks_without_memory = 3;
	EXPECT_EQ(0, sn_alarm_start(&periodic, 1, ms, Ring::ring, &ring));
	EXPECT_TRUE(test::eventually([&] { return ring.rung >= 3; }));
	EXPECT_EQ(0, tasks_without_memory);
	EXPECT_EQ(1, sn_alarm_stop(&periodic));
}

TASK_TEST(Alarm, SettingItAgainPreventsThePreviousOne)
{
	sn_alarm alarm = SN_ALARM_INIT;
	Ring former, later;

	EXPECT_EQ(0, sn_alarm_start(&alarm, sn_now() + forever, 0, Ring::ring, &former));
	EXPECT_EQ(1, sn_alarm_start(&alarm, sn_now() + forever, ms, Ring::ring, &former));
	EXPECT_EQ(1, sn_alarm_start(&alarm, sn_now() + ms, 0, Ring::ring, &later));
	ASSERT_TRUE(test::eventually([&] { return later.rung == 1; }));
	EXPECT_EQ(0, former.rung);
}

TEST(Alarm, BadArguments)
{
	sn_alarm alarm = SN_ALARM_INIT;
	sn_ticker ticker = SN_TICKER_INIT;

	EXPECT_EQ(-ESRCH, sn_alarm_start(&alarm, 1, 0, Ring::ring, nullptr)) << "no runtime";
	EXPECT_EQ(-ESRCH, sn_ticker_start(&ticker, 1, 0));
	EXPECT_EQ(0, sn_alarm_stop(&alarm));
	EXPECT_EQ(0, sn_ticker_stop(&ticker));
	EXPECT_EQ(-EAGAIN, sn_ticker_try_wait(&ticker));
	test::run(1, [&] {
		EXPECT_EQ(-EINVAL, sn_alarm_start(&alarm, 0, 0, Ring::ring, nullptr));
		EXPECT_EQ(-EINVAL, sn_alarm_start(&alarm, -1, 0, Ring::ring, nullptr));
		EXPECT_EQ(-EINVAL, sn_alarm_start(&alarm, 1, -1, Ring::ring, nullptr));
		EXPECT_EQ(-EINVAL, sn_alarm_start(&alarm, 1, 0, nullptr, nullptr));
		EXPECT_EQ(-EINVAL, sn_ticker_start(&ticker, 0, 0));
		EXPECT_EQ(-EINVAL, sn_ticker_start(&ticker, 1, -1));
		// Periods that are longer than the clock's range never pass, and do not count as
		// past.
		EXPECT_EQ(0, sn_ticker_start(&ticker, 1, INT64_MAX));
		EXPECT_EQ(1, sn_ticker_wait(&ticker));
		EXPECT_EQ(-ETIMEDOUT, sn_ticker_wait_until(&ticker, sn_now() + ms));
		EXPECT_EQ(1, sn_ticker_stop(&ticker));
	});
}

// Stopping races with firing. Each alarm either was prevented or rings, never both or neither.
TEST(Alarm, StoppedOrRungNeverBothNeverNeither)
{
	const int rounds = test::scaled(3000);
	test::Random random;

	test::run([&] {
		int prevented = 0, rang = 0;

		for (int i = 0; i < rounds; i++) {
			auto alarm = std::make_unique<sn_alarm>();
			Ring ring;

			*alarm = SN_ALARM_INIT;
			ASSERT_EQ(0, sn_alarm_start(alarm.get(), sn_now() + random.below(30000), 0,
						    Ring::ring, &ring));
			if (random.below(2))
				sn_sleep((int64_t)random.below(30000));
			const int64_t until = sn_now() + (int64_t)random.below(30000);
			while (sn_now() < until)
				continue;
			const bool stopped =
				random.below(2) ? sn_alarm_stop(alarm.get()) == 1 : [&] {
					bool result = false;
					std::thread([&] {
						result = sn_alarm_stop(alarm.get()) == 1;
					}).join();
					return result;
				}();
			alarm.reset(); // the runtime no longer touches it
			if (stopped) {
				EXPECT_EQ(0, ring.rung);
				prevented++;
			} else {
				ASSERT_TRUE(test::eventually([&] { return ring.rung == 1; }));
				rang++;
			}
			// The task of an alarm that rang may still use ring until it has ended.
			ASSERT_TRUE(test::all_ended());
			EXPECT_EQ(stopped ? 0 : 1, ring.rung);
		}
		printf("%d prevented, %d rang\n", prevented, rang);
	});
}

struct Own {
	sn_alarm alarm;
	std::atomic<int> *freed;

	static int free_me(void *arg)
	{
		auto *self = static_cast<Own *>(arg);

		(*self->freed)++;
		delete self;
		return 0;
	}
};

TEST(Alarm, ItsFunctionMayFreeIt)
{
	const int n = test::scaled(10000);

	test::run([&] {
		std::atomic<int> freed{0};

		for (int i = 0; i < n; i++) {
			auto *own = new Own{SN_ALARM_INIT, &freed};

			ASSERT_EQ(0, sn_alarm_start(&own->alarm, sn_now() + i % 1000, 0,
						    Own::free_me, own));
		}
		EXPECT_TRUE(test::eventually([&] { return freed == n; }));
		EXPECT_TRUE(test::all_ended());
	});
}

// Several tasks and threads set and stop the same alarm, which serves them one after the other.
TEST(Alarm, ConcurrentStartsAndStops)
{
	const int rounds = test::scaled(2000);
	test::Random random;
	const uint64_t seed = random.next();

	test::run([&] {
		sn_alarm alarm = SN_ALARM_INIT;
		Ring ring;
		std::vector<Task> tasks;
		std::atomic<int> starts{0}, prevented{0};
		auto hand = [&](int me) {
			test::Random own(seed + me);

			for (int i = 0; i < rounds; i++) {
				int result;

				if (own.below(3)) {
					starts++;
					result = sn_alarm_start(&alarm,
								sn_now() + (int64_t)own.below(5000),
								0, Ring::ring, &ring);
				} else {
					result = sn_alarm_stop(&alarm);
				}
				ASSERT_GE(result, 0);
				prevented += result;
			}
		};

		for (int t = 0; t < 4; t++)
			tasks.emplace_back([&, t] { hand(t); });
		std::thread thread([&] { hand(100); });
		join_all(tasks);
		thread.join();
		prevented += sn_alarm_stop(&alarm);
		// A task that was started may not have begun yet.
		EXPECT_TRUE(test::eventually([&] { return starts == prevented + ring.rung; }))
			<< "each was prevented or rang";
		EXPECT_TRUE(test::all_ended());
		EXPECT_EQ(starts.load(), prevented.load() + ring.rung.load());
	});
}

TEST(Alarm, AHundredThousandAtOnce)
{
	const int n = test::scaled(100000);

	test::run([&] {
		std::vector<sn_alarm> alarms(n, SN_ALARM_INIT);
		Ring ring;
		int prevented = 0;

		// Every second alarm is far away and is stopped. The others ring soon.
		for (int i = 0; i < n; i++)
			ASSERT_EQ(0, sn_alarm_start(&alarms[i],
						    sn_now() + (i % 2 ? forever : i % 1000 * 1000),
						    0, Ring::ring, &ring));
		for (int i = 1; i < n; i += 2)
			prevented += sn_alarm_stop(&alarms[i]);
		EXPECT_EQ(n / 2, prevented);
		EXPECT_TRUE(test::eventually([&] { return ring.rung == n - n / 2; }));
		for (sn_alarm &alarm : alarms)
			EXPECT_EQ(0, sn_alarm_stop(&alarm));
		EXPECT_TRUE(test::all_ended());
	});
}

TASK_TEST(Ticker, TicksOnceAndPeriodically)
{
	sn_ticker ticker = SN_TICKER_INIT;
	const int64_t first = sn_now() + 2 * ms;
	int64_t ticks = 0;

	EXPECT_EQ(0, sn_ticker_start(&ticker, first, 0));
	EXPECT_EQ(1, sn_ticker_wait(&ticker));
	EXPECT_GE(sn_now(), first);
	EXPECT_EQ(-EAGAIN, sn_ticker_try_wait(&ticker));
	EXPECT_EQ(-ETIMEDOUT, sn_ticker_wait_until(&ticker, sn_now() + ms));

	const int64_t began = sn_now();
	EXPECT_EQ(0, sn_ticker_start(&ticker, began + ms, ms));
	while (ticks < 10) {
		const int64_t n = sn_ticker_wait(&ticker);
		ASSERT_GE(n, 1);
		ticks += n;
		EXPECT_GE(sn_now(), began + ticks * ms) << "no tick is early";
	}
	// Ticks are counted while no task waits for them. On a busy machine some may be
	// late, and come with the next one. A lost tick never comes.
	sn_sleep(20 * ms);
	EXPECT_TRUE(test::eventually([&] {
		const int64_t n = sn_ticker_wait(&ticker);

		EXPECT_GE(n, 1);
		ticks += n;
		return ticks >= (sn_now() - began) / ms - 5;
	}));
	EXPECT_EQ(1, sn_ticker_stop(&ticker));
	EXPECT_EQ(-EAGAIN, sn_ticker_try_wait(&ticker));
}

TASK_TEST(Ticker, StoppingForgetsTicks)
{
	sn_ticker ticker = SN_TICKER_INIT;

	EXPECT_EQ(0, sn_ticker_start(&ticker, 1, 0));
	sn_sleep(5 * ms);
	EXPECT_EQ(1, sn_ticker_stop(&ticker)) << "the ticker or its tick was still there";
	EXPECT_EQ(-EAGAIN, sn_ticker_try_wait(&ticker));
	EXPECT_EQ(0, sn_ticker_stop(&ticker));
}

TASK_TEST(Ticker, WaitingEndsByCancellationAndStartsLater)
{
	sn_ticker ticker = SN_TICKER_INIT;
	std::atomic<sn_scope *> scope{nullptr};
	Task task([&] {
		sn_scope *own = nullptr;

		EXPECT_EQ(0, sn_scope_open(&own, SN_NO_DEADLINE));
		scope = own;
		EXPECT_EQ(-ECANCELED, sn_ticker_wait(&ticker));
		EXPECT_EQ(-ECANCELED, sn_ticker_try_wait(&ticker));
		EXPECT_EQ(-ECANCELED, sn_scope_close(own));
	});

	// usually the task waits by now, but the result is the same if it does not
	sn_sleep(2 * ms);
	ASSERT_TRUE(test::eventually([&] { return scope != nullptr; }));
	sn_scope_cancel(scope);
	task.join();
	std::atomic<int> got{0};
	auto wait = [&] {
		EXPECT_EQ(1, sn_ticker_wait(&ticker));
		got++;
	};
	Task waiter(wait);
	std::thread thread(wait);
	EXPECT_EQ(0, sn_ticker_stop(&ticker)) << "the tasks still wait";
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(0, sn_ticker_start(&ticker, sn_now() + ms, 0));
		ASSERT_TRUE(test::eventually([&] { return got == i + 1; }));
	}
	waiter.join();
	thread.join();
}

// Ticks are neither lost nor duplicated, whichever task or thread waits, and however long.
TEST(Ticker, AllTicksAreFetchedOnce)
{
	test::Random random;
	const uint64_t seed = random.next();

	test::run([&] {
		sn_ticker ticker = SN_TICKER_INIT;
		std::atomic<bool> stop{false};
		std::atomic<int64_t> fetched{0};
		std::vector<Task> tasks;
		auto fetch = [&](int me) {
			test::Random own(seed + me);

			while (!stop) {
				const int64_t n = sn_ticker_wait_until(
					&ticker, sn_now() + 1 + (int64_t)own.below(50000));
				if (n > 0)
					fetched += n;
				else
					ASSERT_EQ(-ETIMEDOUT, n);
			}
		};
		const int64_t began = sn_now();

		ASSERT_EQ(0, sn_ticker_start(&ticker, began + 20000, 20000));
		for (int t = 0; t < 3; t++)
			tasks.emplace_back([&, t] { fetch(t); });
		std::thread thread([&] { fetch(100); });
		sn_sleep(50 * ms);
		stop = true;
		join_all(tasks);
		thread.join();
		// All ticks have come, except those of the last moment. On a busy machine a moment
		// may be long, so the test repeats this. Lost ticks would be missing forever.
		const int64_t moment = (TEST_EMULATED ? 20 : 2) * ms / 20000;
		EXPECT_TRUE(test::eventually([&] {
			const int64_t rest = sn_ticker_wait(&ticker);

			EXPECT_GE(rest, 1);
			fetched += rest;
			const int64_t most = (sn_now() - began) / 20000;
			EXPECT_LE(fetched, most);
			return fetched >= most - moment;
		}));
		sn_ticker_stop(&ticker);
	});
}

// ---- timers that outlive a run ----

// Some alarms of the first run would be at places that the second run's heap does not have, or that
// other alarms have there.
TEST(Alarm, IsSetAgainInALaterRun)
{
	static sn_alarm alarms[8];
	static std::atomic<int> rang;

	for (int run = 0; run < 2; run++) {
		test::run(1, [] {
			const auto set = [](sn_alarm *alarm, int64_t when) {
				return sn_alarm_start(
					alarm, when, 0, [](void *) { return int(rang++); },
					nullptr);
			};

			rang = 0;
			for (int i = 7; i >= 0; i--)
				EXPECT_EQ(0, set(&alarms[i], sn_now() + 3600 * second)) << i;
			EXPECT_EQ(1, set(&alarms[2], sn_now() + ms));
			EXPECT_TRUE(eventually([] { return rang == 1; }));
			EXPECT_EQ(0, sn_alarm_stop(&alarms[2]));
			EXPECT_EQ(1, sn_alarm_stop(&alarms[1]));
		});
		EXPECT_EQ(0, sn_alarm_stop(&alarms[0])) << "no runtime runs";
	}
	test::run(1, [] {
		for (sn_alarm &alarm : alarms)
			EXPECT_EQ(0, sn_alarm_stop(&alarm)) << "it was of another run";
	});
}

TEST(Ticker, IsSetAgainInALaterRun)
{
	static sn_ticker tickers[8];
	static std::atomic<int> waiting;

	for (int run = 0; run < 3; run++)
		test::run(1, [] {
			for (int i = 7; i >= 0; i--)
				EXPECT_EQ(0, sn_ticker_start(&tickers[i], sn_now() + 3600 * second,
							     second))
					<< i;
			EXPECT_EQ(1, sn_ticker_start(&tickers[3], sn_now() + ms, 0));
			EXPECT_EQ(1, sn_ticker_wait(&tickers[3]));
			// One has ticks that nobody fetches, and in another a task waits that the
			// end of the run abandons.
			EXPECT_EQ(1, sn_ticker_start(&tickers[4], sn_now() + ms, 0));
			while (sn_ticker_try_wait(&tickers[4]) != 1)
				EXPECT_EQ(0, sn_sleep(ms));
			EXPECT_EQ(0, sn_ticker_start(&tickers[4], sn_now() + ms, 0));
			EXPECT_EQ(0, sn_sleep(3 * ms));
			waiting = 0;
			EXPECT_EQ(0, sn_go(
					     [](void *) {
						     waiting++;
						     return int(sn_ticker_wait(&tickers[5]));
					     },
					     nullptr));
			EXPECT_TRUE(eventually([] { return waiting == 1; }));
			EXPECT_EQ(0, sn_sleep(ms));
		});
	// A task that waits in one that was not started.
	test::run(1, [] {
		EXPECT_EQ(-EAGAIN, sn_ticker_try_wait(&tickers[4])) << "an earlier run's tick";
		EXPECT_EQ(-ETIMEDOUT, sn_ticker_wait_until(&tickers[5], sn_now() + ms));
	});
}

// The run ends while a task waits in a ticker, and a thread of the program after it. The thread
// gives up when the stack of the task is gone, or another's; or it gets a tick of the next run.
TEST(Ticker, AThreadWaitsBeyondTheEndOfARun)
{
	for (const bool gives_up : {true, false}) {
		sn_ticker ticker = SN_TICKER_INIT;
		std::atomic<int> waiting{0};
		std::atomic<int64_t> got{0};
		std::thread thread;

		test::run(1, [&] {
			Task task([&] {
				waiting++;
				return int(sn_ticker_wait(&ticker));
			});

			EXPECT_TRUE(eventually([&] { return waiting == 1; }));
			thread = std::thread([&] {
				waiting++;
				got = sn_ticker_wait_until(&ticker, gives_up ? sn_now() + 50 * ms
									     : SN_NO_DEADLINE);
			});
			EXPECT_TRUE(eventually([&] { return waiting == 2; }));
			EXPECT_EQ(0, sn_sleep(5 * ms));
			task.detach();
		});
		test::run(1, [&] {
			if (!gives_up)
				EXPECT_EQ(0, sn_ticker_start(&ticker, sn_now() + ms, ms));
			EXPECT_TRUE(eventually([&] { return got != 0; }));
			EXPECT_LE(0, sn_ticker_stop(&ticker));
		});
		thread.join();
		if (gives_up)
			EXPECT_EQ(-ETIMEDOUT, got);
		else
			EXPECT_LE(1, got);
	}
}

TEST(Deadline, IsNeverNoneAndNeverWraps)
{
	const int64_t before = sn_now();
	EXPECT_GE(sn_after(ms), before + ms);
	const int64_t now = sn_after(0);
	EXPECT_GE(now, before);
	EXPECT_LE(now, sn_now());
	EXPECT_EQ(INT64_MAX - 1, sn_after(INT64_MAX));
	EXPECT_GT(sn_after(INT64_MIN), 0);
}

} // namespace
