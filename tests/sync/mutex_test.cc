// SPDX-License-Identifier: MIT
// Labels: machine
//
// Mutexes between tasks, between plain threads, and between the two: exclusion, order, deadlines,
// cancellation, fairness, and what debug builds report. The tests follow Go's TestMutex,
// HammerMutex and TestMutexFairness, and add what can go wrong with deadlines, which Go's mutex
// does not have.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/locks.h"

namespace
{

using namespace test;

// Only the task that holds the lock may access this.
struct Guarded {
	sn_mutex lock = SN_MUTEX_INIT;
	std::atomic<int> holders{0};
	long value = 0;

	void use(bool yields)
	{
		ASSERT_EQ(0, holders.fetch_add(1));
		value++;
		if (yields)
			sn_yield();
		ASSERT_EQ(1, holders.fetch_sub(1));
	}
};

TEST(Mutex, ZerosAreUnlocked)
{
	sn_mutex zeros;
	sn_mutex initialised = SN_MUTEX_INIT;

	memset(&zeros, 0, sizeof zeros);
	for (sn_mutex *lock : {&zeros, &initialised}) {
		EXPECT_EQ(0, sn_mutex_try_lock(lock));
		EXPECT_EQ(-EBUSY, sn_mutex_try_lock(lock));
		EXPECT_EQ(0, sn_mutex_unlock(lock));
		EXPECT_EQ(0, sn_mutex_lock(lock));
		EXPECT_EQ(0, sn_mutex_unlock(lock));
		EXPECT_EQ(0, sn_mutex_lock_until(lock, 1))
			<< "it is free, so the deadline does not matter";
		EXPECT_EQ(0, sn_mutex_unlock(lock));
	}
}

TEST(Mutex, HammeredByTasksAndThreads)
{
	const int rounds = test::scaled(20000);

	test::run([&] {
		Guarded guarded;
		std::vector<Task> tasks;
		std::vector<std::thread> threads;
		std::atomic<long> failed{0};
		auto hammer = [&](int seed, bool task) {
			for (int i = 0; i < rounds; i++) {
				if (i % 3 == 0 && sn_mutex_try_lock(&guarded.lock) < 0)
					failed++;
				else if (i % 3 && sn_mutex_lock(&guarded.lock) < 0)
					ADD_FAILURE();
				else {
					guarded.use(task && (i + seed) % 64 == 0);
					EXPECT_EQ(0, sn_mutex_unlock(&guarded.lock));
				}
			}
		};

		for (int t = 0; t < 6; t++)
			tasks.emplace_back([&, t] { hammer(t, true); });
		for (int t = 0; t < 2; t++)
			threads.emplace_back([&, t] { hammer(t, false); });
		join_all(tasks);
		join_all(threads);
		EXPECT_EQ(8L * rounds - failed.load(), guarded.value);
		EXPECT_EQ(0, sn_mutex_try_lock(&guarded.lock))
			<< "the mutex is unlocked at the end";
		sn_mutex_unlock(&guarded.lock);
	});
}

TASK_TEST(Mutex, WaitersAreServedInOrder)
{
	sn_mutex lock = SN_MUTEX_INIT;
	std::vector<int> order;
	std::vector<Task> tasks;

	ASSERT_EQ(0, sn_mutex_lock(&lock));
	for (int i = 0; i < 20; i++) {
		tasks.emplace_back([&, i] {
			ASSERT_EQ(0, sn_mutex_lock(&lock));
			order.push_back(i);
			sn_mutex_unlock(&lock);
		});
		ASSERT_TRUE(test::waiting(lock, i + 1));
	}
	sn_mutex_unlock(&lock);
	join_all(tasks);
	ASSERT_EQ(20u, order.size());
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(i, order[i]);
}

void hog_until(std::atomic<bool> &stop, sn_mutex &lock)
{
	while (!stop) {
		ASSERT_EQ(0, sn_mutex_lock(&lock));
		const int64_t until = sn_now() + 100 * test::us;
		while (sn_now() < until)
			continue;
		sn_mutex_unlock(&lock);
	}
}

// Go's TestMutexFairness: one task holds the mutex nearly all the time, and unlocks it only to lock
// it again.
TASK_TEST(Mutex, AHogDoesNotStarveOthers)
{
	sn_mutex lock = SN_MUTEX_INIT;
	std::atomic<bool> stop{false};
	Task hog([&] { hog_until(stop, lock); });
	std::vector<Task> others;

	for (int t = 0; t < 3; t++)
		others.emplace_back([&] {
			for (int i = 0; i < 10; i++) {
				sn_sleep(100 * test::us);
				ASSERT_EQ(0, sn_mutex_lock_until(&lock, sn_now() + test::patience));
				sn_mutex_unlock(&lock);
			}
		});
	join_all(others);
	stop = true;
	hog.join();
}

TASK_TEST(Mutex, AThreadGetsItFromAHoggingTask)
{
	sn_mutex lock = SN_MUTEX_INIT;
	std::atomic<bool> stop{false};
	Task hog([&] { hog_until(stop, lock); });
	std::thread thread([&] {
		for (int i = 0; i < 10; i++) {
			usleep(100);
			EXPECT_EQ(0, sn_mutex_lock_until(&lock, sn_now() + test::patience));
			sn_mutex_unlock(&lock);
		}
		stop = true;
	});

	hog.join();
	thread.join();
}

TASK_TEST(Mutex, DeadlineEndsTheWait)
{
	sn_mutex lock = SN_MUTEX_INIT;
	auto late = [&] {
		const int64_t deadline = sn_now() + 5 * ms;

		EXPECT_EQ(-ETIMEDOUT, sn_mutex_lock_until(&lock, deadline));
		EXPECT_GE(sn_now(), deadline);
		EXPECT_EQ(-ETIMEDOUT, sn_mutex_lock_until(&lock, 1)) << "long past";
	};

	ASSERT_EQ(0, sn_mutex_lock(&lock));
	Task task(late);
	std::thread thread(late);
	task.join();
	thread.join();
	EXPECT_EQ(0, sn_mutex_unlock(&lock));
	EXPECT_EQ(0, sn_mutex_try_lock(&lock)) << "a waiter that gave up must leave no trace";
	sn_mutex_unlock(&lock);
}

TASK_TEST(Mutex, CancellationEndsTheWaitOnly)
{
	sn_mutex taken = SN_MUTEX_INIT, unlocked = SN_MUTEX_INIT;
	sn_scope *scope = nullptr;

	ASSERT_EQ(0, sn_mutex_lock(&taken));
	Task waiter([&] {
		EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		EXPECT_EQ(-ECANCELED, sn_mutex_lock(&taken));
		EXPECT_EQ(-ECANCELED, sn_mutex_lock(&taken)) << "before it waits";
		EXPECT_EQ(-ECANCELED, sn_mutex_lock_until(&taken, sn_now() + second));
		EXPECT_EQ(0, sn_mutex_lock(&unlocked)) << "it need not wait";
		sn_mutex_unlock(&unlocked);
		EXPECT_EQ(0, sn_cancel_mask());
		EXPECT_EQ(-ETIMEDOUT, sn_mutex_lock_until(&taken, sn_now() + ms));
		EXPECT_EQ(0, sn_cancel_unmask());
		EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
	});

	ASSERT_TRUE(test::waiting(taken, 1));
	EXPECT_EQ(0, sn_scope_cancel(scope));
	waiter.join();
	sn_mutex_unlock(&taken);
	EXPECT_EQ(0, sn_mutex_try_lock(&taken));
	sn_mutex_unlock(&taken);
}

// Deadlines and cancellation race with unlocking. A task that gets 0 has the lock, one that gets an
// error does not, and the lock is never lost.
TEST(Mutex, DeadlinesAndCancellationRaceWithSuccess)
{
	test::Random random;
	const int rounds = test::scaled(400);

	test::run([&] {
		Guarded guarded;
		std::atomic<long> got{0}, late{0}, cancelled{0};
		std::vector<std::thread> threads;
		const uint64_t seed = random.next();

		for (int t = 0; t < 2; t++)
			threads.emplace_back([&, t] {
				test::Random own(seed + 100 + t);
				for (int i = 0; i < rounds; i++) {
					int err = sn_mutex_lock_until(
						&guarded.lock,
						sn_now() + (int64_t)own.below(100000));
					if (err == 0) {
						guarded.use(false);
						got++;
						sn_mutex_unlock(&guarded.lock);
					} else {
						EXPECT_EQ(-ETIMEDOUT, err);
						late++;
					}
				}
			});
		for (int i = 0; i < rounds / 10; i++) {
			sn_scope *scope = nullptr;

			ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
			for (int t = 0; t < 8; t++)
				test::scope_go(scope, [&, own = test::Random(seed + i * 8 +
									     t)]() mutable {
					for (int k = 0; k < 10; k++) {
						int64_t deadline =
							own.below(2)
								? SN_NO_DEADLINE
								: sn_now() +
									  (int64_t)own.below(50000);
						int err = sn_mutex_lock_until(&guarded.lock,
									      deadline);

						if (err == 0) {
							guarded.use(own.below(2));
							got++;
							sn_mutex_unlock(&guarded.lock);
						} else if (err == -ETIMEDOUT) {
							late++;
						} else {
							EXPECT_EQ(-ECANCELED, err);
							cancelled++;
						}
					}
					return 0;
				});
			sn_sleep((int64_t)random.below(200000));
			sn_scope_cancel(scope);
			EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
		}
		join_all(threads);
		EXPECT_EQ(got.load(), guarded.value);
		EXPECT_EQ(0, guarded.lock.word) << "no waiter and no holder is left";
		EXPECT_EQ(nullptr, guarded.lock.waits.first);
	});
}

// The memory may be freed as soon as the last user has unlocked, as POSIX asks of its mutexes.
TEST(Mutex, MayBeFreedByTheLastUser)
{
	struct Counted {
		sn_mutex lock = SN_MUTEX_INIT;
		int users = 3;
	};
	const int rounds = test::scaled(20000);

	test::run([&] {
		for (int i = 0; i < rounds / 10; i++) {
			auto *counted = new Counted;
			auto drop = [counted] {
				int err;

				// A waiter that gives up and tries again leaves the unlocker with
				// no waiter to wake.
				do {
					err = sn_mutex_lock_until(&counted->lock, sn_now() + 2000);
				} while (err == -ETIMEDOUT);
				ASSERT_EQ(0, err);
				const bool last = --counted->users == 0;
				sn_mutex_unlock(&counted->lock);
				if (last)
					delete counted;
			};
			Task a(drop), b(drop);

			drop();
			a.join();
			b.join();
		}
	});
}

TEST(Mutex, UnlockingAnUnlockedOneIsAMistake)
{
	sn_mutex lock = SN_MUTEX_INIT;

	TEST_MISTAKE(sn_mutex_unlock(&lock), -EPERM, "sn_mutex_unlock\\(\\)");
}

#if SENNIT_DEBUG
TEST(MutexDeathTest, RelockingIsReported)
{
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	sn_mutex lock = SN_MUTEX_INIT;

	ASSERT_EQ(0, sn_mutex_lock(&lock));
	EXPECT_DEATH((void)sn_mutex_lock(&lock), "sn_mutex_lock\\(\\).*already");
	EXPECT_DEATH((void)sn_mutex_lock_until(&lock, 1), "sn_mutex_lock_until\\(\\).*already");
	EXPECT_DEATH(test::run(1,
			       [] {
				       sn_mutex own = SN_MUTEX_INIT;

				       (void)sn_mutex_lock(&own);
				       sn_yield();
				       (void)sn_mutex_lock(&own);
			       }),
		     "sn_mutex_lock\\(\\).*already");
	sn_mutex_unlock(&lock);
}

TEST(MutexDeathTest, ParkingWithALockOfTheThreadIsReported)
{
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	auto parks = [](int locks) {
		test::run(1, [=] {
			for (int i = 0; i < 3; i++)
				sn_debug_foreign_locks(1);
			sn_debug_foreign_locks(locks - 3);
			sn_sleep(1);
			sn_debug_foreign_locks(-locks);
		});
	};

	parks(0);
	EXPECT_DEATH(parks(1), "sn_sleep.*\\(\\) called in task [0-9]+, which holds 1 lock of its");
	EXPECT_DEATH(parks(2), "holds 2 locks of its");
}

TEST(MutexDeathTest, UnlockingByAnotherIsReported)
{
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	sn_mutex lock = SN_MUTEX_INIT;

	ASSERT_EQ(0, sn_mutex_lock(&lock));
	EXPECT_DEATH(std::thread([&] { sn_mutex_unlock(&lock); }).join(),
		     "sn_mutex_unlock\\(\\).*another");
	EXPECT_DEATH(test::run(1,
			       [] {
				       sn_mutex own = SN_MUTEX_INIT;

				       (void)sn_mutex_lock(&own);
				       Task([&] { sn_mutex_unlock(&own); }).join();
			       }),
		     "sn_mutex_unlock\\(\\).*another");
	sn_mutex_unlock(&lock);
}
#endif

} // namespace
