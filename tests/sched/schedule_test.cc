// SPDX-License-Identifier: MIT
//
// Sleeps end in order and never early. Yields are fair, so that no pair of busy tasks starves a
// third.
#include <algorithm>
#include <atomic>
#include <vector>

#include <sennit/channel.h>

#include "support/runtime.h"

namespace
{

using test::Task;

TEST(Sleep, IsNotShorterThanAsked)
{
	test::Random seeds;

	test::run([&] {
		std::vector<Task> tasks;

		for (int t = 0; t < 50; t++)
			tasks.emplace_back([&, seed = seeds.next()] {
				test::Random random(seed);

				for (int i = 0; i < 20; i++) {
					const int64_t ns = int64_t(random.below(3 * test::ms));
					const int64_t before = sn_now();

					ASSERT_EQ(0, sn_sleep(ns));
					ASSERT_GE(sn_now() - before, ns);
					const int64_t until = sn_now() + ns;
					ASSERT_EQ(0, sn_sleep_until(until));
					ASSERT_GE(sn_now(), until);
				}
			});
		test::join_all(tasks);
	});
}

// With one processor the order is exact. The distances are far above the time that queueing takes.
TEST(Sleep, WakesInTheOrderOfTime)
{
	// Returns whether all tasks had begun to sleep before the first was due, and no processor
	// was revoked. If the machine stalls a thread for so long that its processor goes to
	// another one, the stalled task runs in parallel with the next ones.
	const auto in_order = [] {
		const uint64_t revocations = test::stats().revocations;
		std::vector<int> order, expected;
		std::vector<Task> tasks;
		const int64_t begin = sn_now() + 20 * test::ms;
		bool in_time = true;

		for (int i : {5, 2, 8, 1, 9, 3, 7, 4, 6, 0})
			tasks.emplace_back([&, i] {
				if (sn_now() >= begin)
					in_time = false;
				sn_sleep_until(begin + i * 200 * test::us);
				order.push_back(i);
			});
		test::join_all(tasks);
		for (int i = 0; i < 10; i++)
			expected.push_back(i);
		in_time &= test::stats().revocations == revocations;
		if (in_time) {
			EXPECT_EQ(expected, order);
		}
		return in_time;
	};

	test::run(1, [&] {
		const int64_t start = sn_now();

		// A busy machine may stall the test for longer than that. Then the test tries
		// again.
		while (!in_order())
			ASSERT_LT(sn_now() - start, test::patience);
	});
}

TASK_TEST(Sleep, OfZeroOrLessYields)
{
	for (int64_t ns : {int64_t(0), int64_t(-1), -test::second, INT64_MIN}) {
		std::atomic<bool> ran{false};
		Task other([&] { ran = true; });
		const int64_t before = sn_now();

		// Each call lets others go first, so the other task runs soon.
		while (!ran.load() && sn_now() - before < test::patience)
			EXPECT_EQ(0, sn_sleep(ns));
		EXPECT_TRUE(ran.load()) << ns;
		EXPECT_EQ(0, sn_sleep_until(ns));
		other.join();
	}
}

// A sleep that is longer than the clock can represent must not wrap into the past.
TASK_TEST(Sleep, ForeverIsNotThePast)
{
	static std::atomic<int> awake;

	awake = 0;
	// They are abandoned when the first task returns, so they must own no memory.
	sn_fn *const forever[] = {
		[](void *) {
			sn_sleep(INT64_MAX);
			return int(awake++);
		},
		[](void *) {
			sn_sleep(INT64_MAX - 1);
			return int(awake++);
		},
		[](void *) {
			sn_sleep(INT64_MAX / 2);
			return int(awake++);
		},
		[](void *) {
			sn_sleep_until(INT64_MAX);
			return int(awake++);
		},
	};
	for (sn_fn *body : forever)
		ASSERT_EQ(0, sn_go(body, nullptr));
	const int64_t end = sn_now() + 50 * test::ms;
	while (sn_now() < end)
		sn_sleep(test::ms);
	EXPECT_EQ(0, awake.load());
	EXPECT_EQ(5u, test::stats().tasks_alive);
}

// A long sleep that is armed first must not delay shorter ones that are armed while the poller
// sleeps for it.
TASK_TEST(Sleep, AShorterOneEndsFirst)
{
	ASSERT_EQ(0, sn_go([](void *) { return sn_sleep(3600 * test::second); }, nullptr));
	sn_sleep(5 * test::ms);
	const int64_t before = sn_now();

	for (int i = 0; i < 50; i++)
		sn_sleep(test::ms);
	EXPECT_LT(sn_now() - before, test::patience);
}

/*
 * Many sleeps of very different lengths on all processors, while threads become idle and wake. If a
 * wake-up is lost, a task sleeps forever, so each task checks that it is not far too late.
 */
TEST(Sleep, NoWakeUpIsLost)
{
	test::Random seeds;

	test::run({1, 2, 4, 8}, [&] {
		const int64_t duration = (TEST_TSAN || TEST_ASAN ? 3 : 2) * test::second;
		const int64_t end = sn_now() + (test::is_short() ? duration / 2 : duration);
		std::atomic<int64_t> latest{0};
		std::vector<Task> tasks;

		for (int t = 0; t < 24; t++)
			tasks.emplace_back([&, seed = seeds.next()] {
				test::Random random(seed);

				while (sn_now() < end) {
					const int64_t until =
						sn_now() + int64_t(random.below(
								   random.below(2) ? 100 * test::us
										   : 5 * test::ms));
					sn_sleep_until(until);
					int64_t late = sn_now() - until, seen = latest.load();
					while (late > seen &&
					       !latest.compare_exchange_weak(seen, late))
						continue;
				}
			});
		test::join_all(tasks);
		EXPECT_LT(latest.load(), test::patience) << "seed " << seeds.seed();
	});
}

TASK_TEST(Yield, ReturnsAtOnceWhenAlone)
{
	const int64_t before = sn_now();

	for (int i = 0; i < 1000; i++)
		ASSERT_EQ(0, sn_yield());
	EXPECT_LT(sn_now() - before, test::patience);
}

// On one processor a round of yields gives every task its turn.
TEST(Yield, GivesEveryTaskItsTurn)
{
	// Returns by how many turns one task was ahead of another. The counts are atomic, because a
	// task whose processor is revoked while it computes continues in parallel.
	const auto widest_gap = [] {
		const int n = 10, rounds = 1000;
		std::vector<std::atomic<int>> turns(n);
		std::vector<Task> tasks;
		std::atomic<int> widest{0};

		for (int t = 0; t < n; t++)
			tasks.emplace_back([&, t] {
				for (int i = 0; i < rounds; i++) {
					turns[size_t(t)]++;
					const auto [least, most] =
						std::minmax_element(turns.begin(), turns.end());

					widest = std::max(widest.load(), *most - *least);
					sn_yield();
				}
			});
		test::join_all(tasks);
		return widest.load();
	};

	test::run(1, [&] {
		const int64_t start = sn_now();

		// If the machine stalls a thread for long, its processor is revoked, and its task
		// loses the turn.
		for (;;) {
			const uint64_t before = test::stats().revocations;
			const int gap = widest_gap();

			if (gap <= 3)
				break;
			ASSERT_NE(before, test::stats().revocations) << gap;
			ASSERT_LT(sn_now() - start, test::patience) << gap;
		}
	});
}

// Tasks that only yield, and tasks that join fresh children all the time, so that something is
// always about to run. They continue until a third task has had its turns.
TASK_TEST(Yield, BusyPairsDoNotStarveAThird, 1, 2)
{
	std::atomic<bool> done{false};
	std::vector<Task> busy;

	for (int i = 0; i < 4; i++) {
		busy.emplace_back([&] {
			while (!done.load())
				sn_yield();
		});
		busy.emplace_back([&] {
			while (!done.load()) {
				Task child([] {});
				child.join();
			}
		});
	}
	const int64_t before = sn_now();
	Task third([&] {
		for (int i = 0; i < 100; i++)
			sn_yield();
		sn_sleep(test::ms);
		done = true;
	});
	third.join();
	test::join_all(busy);
	EXPECT_LT(sn_now() - before, test::patience);
}

// A task that a foreign thread spawns goes through the global queue, which busy processors must not
// forget.
TASK_TEST(Yield, BusyProcessorsServeTimersAndTheGlobalQueue, 1, 2)
{
	std::atomic<bool> done{false};
	std::vector<Task> busy;

	for (int i = 0; i < 4; i++)
		busy.emplace_back([&] {
			while (!done.load())
				sn_yield();
		});
	Task sleeper([] { sn_sleep(test::ms); });
	sleeper.join();
	// More than a ring holds, so that some overflow to the global queue.
	std::atomic<int> ran{0};
	std::vector<Task> many;
	for (int i = 0; i < 1000; i++)
		many.emplace_back([&] { ran++; });
	test::join_all(many);
	EXPECT_EQ(1000, ran.load());
	done = true;
	test::join_all(busy);
}

// Two tasks that keep waking each other to run next make the threads that look for work nap. A nap
// must end for a task that no other thread can run: a task whose spawner continues to compute, and
// one that such a task has woken to run next.
TASK_TEST(Steal, NapsEndForWork, 3, 4)
{
	sn_chan *there = nullptr, *back = nullptr;
	std::vector<Task> pair;
	long ball = 0;

	ASSERT_EQ(0, sn_chan_new(&there, sizeof ball, 0));
	ASSERT_EQ(0, sn_chan_new(&back, sizeof ball, 0));
	pair.emplace_back([&] {
		long served = 0, returned = 0;
		while (sn_chan_send(there, &served) == 0 && sn_chan_recv(back, &returned) == 0)
			EXPECT_EQ(served++, returned);
	});
	pair.emplace_back([&] {
		long returned = 0;
		while (sn_chan_recv(there, &returned) == 0 && sn_chan_send(back, &returned) == 0)
			;
	});
	for (int i = 0; i < 100; i++) {
		std::atomic<bool> ran{false};
		sn_chan *wake = nullptr;
		char token = 0;

		ASSERT_EQ(0, sn_chan_new(&wake, 1, 0));
		Task woken([&] {
			char got = 0;
			if (i % 2) {
				EXPECT_EQ(0, sn_chan_recv(wake, &got));
			}
			ran = true;
		});

		sn_sleep(int64_t(i % 10) * 100 * test::us);
		if (i % 2) {
			EXPECT_EQ(0, sn_chan_send(wake, &token));
		}
		// This task computes, so its thread cannot run the other.
		const int64_t start = sn_now();
		while (!ran)
			ASSERT_LT(sn_now() - start, test::patience) << i;
		woken.join();
		sn_chan_unref(wake);
	}
	sn_chan_close(there);
	sn_chan_close(back);
	test::join_all(pair);
	sn_chan_unref(there);
	sn_chan_unref(back);
}

// Work that one processor makes is shared: with several processors and CPUs, some of it is stolen.
TASK_TEST(Steal, WorkSpreads, 4)
{
	std::atomic<int> ran{0};

	const bool stolen = test::eventually([&] {
		std::vector<Task> tasks;

		for (int i = 0; i < 200; i++)
			tasks.emplace_back([&] {
				const int64_t end = sn_now() + 20 * test::us;

				while (sn_now() < end)
					continue;
				ran++;
			});
		test::join_all(tasks);
		return test::stats().steals > 0;
	});
	EXPECT_TRUE(stolen);
	EXPECT_GT(test::stats().threads, 1u);
}

} // namespace
