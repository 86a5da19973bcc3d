// SPDX-License-Identifier: MIT
//
// Read-write locks, condition variables, semaphores, once, wait groups and barriers, between tasks
// and plain threads. The tests check the same as Go's own tests, and also the forms with deadlines,
// cancellation, and mistakes. Stress tests with seeds let success, deadlines and cancellation race.
#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include <sennit/foreign.h>

#include "support/locks.h"

namespace
{

using namespace test;

// Runs the body in tasks and in plain threads at the same time, and waits for all.
template <class F>
void in_tasks_and_threads(int tasks, int threads, F body)
{
	std::vector<Task> all;
	std::vector<std::thread> others;

	for (int i = 0; i < tasks; i++)
		all.emplace_back([&body, i] { body(i); });
	for (int i = 0; i < threads; i++)
		others.emplace_back([&body, i, tasks] {
			body(tasks + i);
			EXPECT_FALSE(sn_private_is_runtime());
		});
	join_all(all);
	join_all(others);
}

// Expects the call to fail with -ECANCELED in a task whose scope is cancelled while it waits.
template <class F, class W>
void expect_cancelled(F call, W waits)
{
	sn_scope *scope = nullptr;
	Task task([&] {
		EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		EXPECT_EQ(-ECANCELED, call()) << "while it waits";
		EXPECT_EQ(-ECANCELED, call()) << "before it waits";
		EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
	});

	EXPECT_TRUE(test::eventually(waits));
	EXPECT_EQ(0, sn_scope_cancel(scope));
	task.join();
}

// ---- read-write locks ----

TASK_TEST(RwLock, ReadersShareAndWritersDoNot)
{
	sn_rwlock lock = SN_RWLOCK_INIT;

	EXPECT_EQ(0, sn_rwlock_read(&lock));
	EXPECT_EQ(0, sn_rwlock_try_read(&lock));
	EXPECT_EQ(-EBUSY, sn_rwlock_try_write(&lock));
	EXPECT_EQ(-ETIMEDOUT, sn_rwlock_write_until(&lock, sn_now() + ms));
	EXPECT_EQ(0, sn_rwlock_try_read(&lock)) << "the writer that gave up is forgotten";
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(0, sn_rwlock_read_unlock(&lock));
	EXPECT_EQ(0, sn_rwlock_try_write(&lock));
	EXPECT_EQ(-EBUSY, sn_rwlock_try_read(&lock));
	EXPECT_EQ(-EBUSY, sn_rwlock_try_write(&lock));
	EXPECT_EQ(0, sn_rwlock_write_unlock(&lock));
	EXPECT_EQ(0u, lock.word);
}

TASK_TEST(RwLock, TakesTurns)
{
	sn_rwlock lock = SN_RWLOCK_INIT;
	std::vector<Task> tasks;
	std::string order;
	sn_mutex order_lock = SN_MUTEX_INIT;
	auto add = [&](bool writes) {
		const unsigned readers = probe_waiting(&lock, &lock.readers),
			       writers = probe_waiting(&lock, &lock.writers);

		tasks.emplace_back([&, writes] {
			EXPECT_EQ(0, writes ? sn_rwlock_write(&lock) : sn_rwlock_read(&lock));
			EXPECT_EQ(0, sn_mutex_lock(&order_lock));
			order += writes ? 'w' : 'r';
			sn_mutex_unlock(&order_lock);
			sn_yield();
			writes ? sn_rwlock_write_unlock(&lock) : sn_rwlock_read_unlock(&lock);
		});
		ASSERT_TRUE(test::eventually([&] {
			return probe_waiting(&lock, &lock.readers) == readers + !writes &&
			       probe_waiting(&lock, &lock.writers) == writers + writes;
		}));
	};

	// A writer waits for a reader. Every task that comes after it waits, even a reader.
	ASSERT_EQ(0, sn_rwlock_read(&lock));
	add(true);
	add(false);
	add(true);
	add(false);
	EXPECT_EQ(-EBUSY, sn_rwlock_try_read(&lock));
	sn_rwlock_read_unlock(&lock);
	join_all(tasks);
	EXPECT_EQ("wrrw", order);
	EXPECT_EQ(0u, lock.word);
}

TASK_TEST(RwLock, NeitherSideStarves)
{
	sn_rwlock lock = SN_RWLOCK_INIT;
	std::atomic<bool> stop{false};
	std::vector<Task> crowd;

	// First there are overlapping readers, so that the lock is never free of readers,
	// and then writers likewise.
	for (bool writers : {false, true}) {
		stop = false;
		for (int i = 0; i < 4; i++)
			crowd.emplace_back([&] {
				while (!stop) {
					EXPECT_EQ(0, writers ? sn_rwlock_write(&lock)
							     : sn_rwlock_read(&lock));
					sn_yield();
					writers ? sn_rwlock_write_unlock(&lock)
						: sn_rwlock_read_unlock(&lock);
				}
			});
		for (int i = 0; i < 20; i++) {
			const int64_t until = sn_now() + test::patience;

			EXPECT_EQ(0, writers ? sn_rwlock_read_until(&lock, until)
					     : sn_rwlock_write_until(&lock, until));
			writers ? sn_rwlock_read_unlock(&lock) : sn_rwlock_write_unlock(&lock);
			sn_yield();
		}
		stop = true;
		join_all(crowd);
		crowd.clear();
	}
}

// Go's HammerRWMutex, but with deadlines and with threads.
TEST(RwLock, HammeredWithDeadlines)
{
	const int rounds = test::scaled(5000);
	test::Random random;
	const uint64_t seed = random.next();

	test::run([&] {
		sn_rwlock lock = SN_RWLOCK_INIT;
		std::atomic<int> activity{0};
		std::atomic<long> written{0};
		long value = 0;

		in_tasks_and_threads(8, 2, [&](int me) {
			test::Random own(seed + me);

			for (int i = 0; i < rounds; i++) {
				const bool writes = own.below(5) == 0;
				const int64_t deadline =
					own.below(2) ? SN_NO_DEADLINE
						     : sn_now() + (int64_t)own.below(20000);
				const int err = writes ? sn_rwlock_write_until(&lock, deadline)
						       : sn_rwlock_read_until(&lock, deadline);

				if (err < 0) {
					ASSERT_EQ(-ETIMEDOUT, err);
					continue;
				}
				if (writes) {
					ASSERT_EQ(0, activity.fetch_add(10000));
					value++;
					written++;
				} else {
					ASSERT_LT(activity.fetch_add(1), 9999);
				}
				if (own.below(32) == 0)
					sn_yield();
				activity -= writes ? 10000 : 1;
				ASSERT_EQ(0, writes ? sn_rwlock_write_unlock(&lock)
						    : sn_rwlock_read_unlock(&lock));
			}
		});
		EXPECT_EQ(written.load(), value);
		EXPECT_EQ(0u, lock.word);
		EXPECT_EQ(0u, probe_waiting(&lock, &lock.readers));
		EXPECT_EQ(0u, probe_waiting(&lock, &lock.writers));
	});
}

TASK_TEST(RwLock, CancellationEndsTheWait)
{
	sn_rwlock lock = SN_RWLOCK_INIT;

	EXPECT_EQ(0, sn_rwlock_read(&lock));
	expect_cancelled([&] { return sn_rwlock_write(&lock); },
			 [&] { return probe_waiting(&lock, &lock.writers) == 1; });
	EXPECT_EQ(0, sn_rwlock_try_read(&lock)) << "no writer is waiting";
	sn_rwlock_read_unlock(&lock);
	sn_rwlock_read_unlock(&lock);
	EXPECT_EQ(0u, lock.word);
}

// Returns false if the writer gave up before the reader came.
bool goes_on_behind_a_writer(int64_t time)
{
	sn_rwlock lock = SN_RWLOCK_INIT;
	std::atomic<bool> gave_up{false};

	EXPECT_EQ(0, sn_rwlock_read(&lock));
	Task writer([&] {
		EXPECT_EQ(-ETIMEDOUT, sn_rwlock_write_until(&lock, sn_now() + time));
		gave_up = true;
	});
	EXPECT_TRUE(test::eventually([&] {
		return __atomic_load_n(&lock.word, __ATOMIC_RELAXED) == 6 ||
		       probe_waiting(&lock, &lock.writers) == 1 || gave_up;
	}));
	const bool in_time = !gave_up;
	EXPECT_EQ(0, sn_rwlock_read_until(&lock, sn_now() + test::patience));
	writer.join();
	sn_rwlock_read_unlock(&lock);
	sn_rwlock_read_unlock(&lock);
	EXPECT_EQ(0u, lock.word);
	return in_time;
}

TASK_TEST(RwLock, AReaderBehindAWriterThatGivesUpGoesOn)
{
	for (int64_t time = 20 * ms; !goes_on_behind_a_writer(time); time *= 2)
		ASSERT_GT(test::patience, time);
}

TEST(RwLock, UnlockingWhatIsNotLocked)
{
	sn_rwlock lock = SN_RWLOCK_INIT;

	TEST_MISTAKE(sn_rwlock_read_unlock(&lock), -EPERM, "sn_rwlock_read_unlock\\(\\)");
	TEST_MISTAKE(sn_rwlock_write_unlock(&lock), -EPERM, "sn_rwlock_write_unlock\\(\\)");
	EXPECT_EQ(0, sn_rwlock_read(&lock));
	TEST_MISTAKE(sn_rwlock_write_unlock(&lock), -EPERM, "sn_rwlock_write_unlock\\(\\)");
	EXPECT_EQ(0, sn_rwlock_read_unlock(&lock));
}

// ---- condition variables ----

TASK_TEST(Cond, SignalWakesOneAndBroadcastAll)
{
	sn_mutex lock = SN_MUTEX_INIT;
	sn_cond cond = SN_COND_INIT;
	std::vector<int> woken;
	std::vector<Task> tasks;

	EXPECT_EQ(0, sn_cond_signal(&cond)) << "no task waits";
	for (int i = 0; i < 10; i++) {
		tasks.emplace_back([&, i] {
			ASSERT_EQ(0, sn_mutex_lock(&lock));
			EXPECT_EQ(0, sn_cond_wait(&cond, &lock));
			woken.push_back(i);
			EXPECT_EQ(-EBUSY, sn_mutex_try_lock(&lock)) << "the task holds the mutex";
			sn_mutex_unlock(&lock);
		});
		ASSERT_TRUE(test::waiting(cond, i + 1));
	}
	auto count = [&] {
		EXPECT_EQ(0, sn_mutex_lock(&lock));
		const size_t n = woken.size();
		sn_mutex_unlock(&lock);
		return n;
	};
	for (size_t i = 0; i < 4; i++) {
		EXPECT_EQ(1, sn_cond_signal(&cond));
		ASSERT_TRUE(test::eventually([&] { return count() == i + 1; }));
	}
	EXPECT_EQ((std::vector<int>{0, 1, 2, 3}), woken) << "in order";
	EXPECT_EQ(6, sn_cond_broadcast(&cond));
	join_all(tasks);
	EXPECT_EQ(10u, woken.size());
}

TASK_TEST(Cond, AFailedWaitHoldsTheMutex)
{
	sn_mutex lock = SN_MUTEX_INIT;
	sn_cond cond = SN_COND_INIT;

	ASSERT_EQ(0, sn_mutex_lock(&lock));
	EXPECT_EQ(-ETIMEDOUT, sn_cond_wait_until(&cond, &lock, sn_now() + ms));
	EXPECT_EQ(-EBUSY, sn_mutex_try_lock(&lock));
	EXPECT_EQ(0u, probe_waiting(&cond, &cond.waits));
	sn_mutex_unlock(&lock);
	expect_cancelled(
		[&] {
			EXPECT_EQ(0, sn_mutex_lock(&lock));
			const int err = sn_cond_wait(&cond, &lock);
			EXPECT_EQ(-EBUSY, sn_mutex_try_lock(&lock));
			sn_mutex_unlock(&lock);
			return err;
		},
		[&] { return probe_waiting(&cond, &cond.waits) == 1; });
	EXPECT_EQ(0u, probe_waiting(&cond, &cond.waits));

	// If the task is cancelled while another one has the mutex, it waits for the mutex,
	// and that wait cannot be cancelled.
	sn_scope *scope = nullptr;
	std::atomic<bool> returned{false};
	Task task([&] {
		EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		EXPECT_EQ(0, sn_mutex_lock(&lock));
		EXPECT_EQ(-ECANCELED, sn_cond_wait(&cond, &lock));
		returned = true;
		sn_mutex_unlock(&lock);
		(void)sn_scope_close(scope);
	});
	ASSERT_TRUE(test::waiting(cond, 1));
	ASSERT_EQ(0, sn_mutex_lock(&lock));
	sn_scope_cancel(scope);
	ASSERT_TRUE(test::waiting(lock, 1));
	EXPECT_FALSE(returned);
	sn_mutex_unlock(&lock);
	task.join();
}

// Tasks and threads fill a queue, and signal with and without the mutex held, while some waiters
// give up. Every item whose producer has signalled is fetched.
TEST(Cond, NoSignalIsLost)
{
	const int items = test::scaled(20000);
	test::Random random;
	const uint64_t seed = random.next();

	test::run([&] {
		sn_mutex lock = SN_MUTEX_INIT;
		sn_cond filled = SN_COND_INIT;
		std::deque<int> queue;
		std::atomic<long> sum{0};
		std::atomic<int> fetched{0};

		in_tasks_and_threads(6, 4, [&](int me) {
			test::Random own(seed + me);

			if (me % 2) { // a producer: 3 tasks, 2 threads
				for (int i = 0; i < items / 5; i++) {
					const bool within = own.below(2);

					ASSERT_EQ(0, sn_mutex_lock(&lock));
					queue.push_back(i);
					if (within)
						sn_cond_signal(&filled);
					sn_mutex_unlock(&lock);
					if (!within)
						sn_cond_signal(&filled);
				}
				return;
			}
			for (;;) {
				int err = 0;

				ASSERT_EQ(0, sn_mutex_lock(&lock));
				while (queue.empty() && fetched < items / 5 * 5 && err == 0)
					err = sn_cond_wait_until(
						&filled, &lock,
						own.below(4)
							? sn_now() + test::patience
							: sn_now() + (int64_t)own.below(10000));
				if (!queue.empty()) {
					sum += queue.front();
					queue.pop_front();
					if (++fetched == items / 5 * 5)
						sn_cond_broadcast(&filled);
				}
				const bool done = fetched >= items / 5 * 5;
				sn_mutex_unlock(&lock);
				if (done)
					return;
			}
		});
		const long each = items / 5;
		EXPECT_EQ(5 * (each * (each - 1) / 2), sum.load());
		EXPECT_EQ(0u, lock.word);
	});
}

TEST(Cond, WaitingWithoutTheMutexIsAMistake)
{
	sn_mutex lock = SN_MUTEX_INIT;
	sn_cond cond = SN_COND_INIT;

	TEST_MISTAKE(sn_cond_wait(&cond, &lock), -EPERM, "sn_cond_wait\\(\\)");
}

// ---- semaphores ----

TEST(Semaphore, CountsAndRefuses)
{
	sn_semaphore s = SN_SEMAPHORE_INIT(2);

	EXPECT_EQ(0, sn_semaphore_acquire(&s));
	EXPECT_EQ(0, sn_semaphore_try_acquire(&s));
	EXPECT_EQ(-EAGAIN, sn_semaphore_try_acquire(&s));
	EXPECT_EQ(-ETIMEDOUT, sn_semaphore_acquire_until(&s, sn_now() + ms));
	EXPECT_EQ(-EINVAL, sn_semaphore_release(&s, 0));
	EXPECT_EQ(-EINVAL, sn_semaphore_release(&s, -1));
	EXPECT_EQ(0, sn_semaphore_release(&s, SN_SEMAPHORE_MAX));
	EXPECT_EQ(-EOVERFLOW, sn_semaphore_release(&s, 1));
	EXPECT_EQ(0, sn_semaphore_try_acquire(&s));
	EXPECT_EQ(0, sn_semaphore_release(&s, 1));
}

TASK_TEST(Semaphore, WakesInOrderAndKeepsTheRest)
{
	sn_semaphore s = SN_SEMAPHORE_INIT(0);
	std::vector<Task> tasks;
	std::atomic<int> got{0};

	for (int i = 0; i < 3; i++) {
		tasks.emplace_back([&] {
			EXPECT_EQ(0, sn_semaphore_acquire(&s));
			got++;
		});
		ASSERT_TRUE(test::waiting(s, i + 1));
	}
	EXPECT_EQ(0, sn_semaphore_release(&s, 2));
	EXPECT_EQ(1u, probe_waiting(&s, &s.waits)) << "two were let through";
	EXPECT_EQ(0, sn_semaphore_release(&s, 3));
	join_all(tasks);
	EXPECT_EQ(0, sn_semaphore_try_acquire(&s));
	EXPECT_EQ(0, sn_semaphore_try_acquire(&s));
	EXPECT_EQ(-EAGAIN, sn_semaphore_try_acquire(&s));
	expect_cancelled([&] { return sn_semaphore_acquire(&s); },
			 [&] { return probe_waiting(&s, &s.waits) == 1; });
	EXPECT_EQ(0u, s.word);
}

TEST(Semaphore, NoPermitIsLostOrGainedUnderDeadlines)
{
	const int rounds = test::scaled(10000), permits = 3;
	test::Random random;
	const uint64_t seed = random.next();

	test::run([&] {
		sn_semaphore s = SN_SEMAPHORE_INIT(permits);
		std::atomic<int> inside{0};

		in_tasks_and_threads(8, 2, [&](int me) {
			test::Random own(seed + me);

			for (int i = 0; i < rounds; i++) {
				const int err = sn_semaphore_acquire_until(
					&s, own.below(2) ? SN_NO_DEADLINE
							 : sn_now() + (int64_t)own.below(10000));

				if (err < 0) {
					ASSERT_EQ(-ETIMEDOUT, err);
					continue;
				}
				ASSERT_LT(inside.fetch_add(1), permits);
				if (own.below(16) == 0)
					sn_yield();
				inside--;
				ASSERT_EQ(0, sn_semaphore_release(&s, 1));
			}
		});
		for (int i = 0; i < permits; i++)
			EXPECT_EQ(0, sn_semaphore_try_acquire(&s));
		EXPECT_EQ(-EAGAIN, sn_semaphore_try_acquire(&s));
	});
}

// The mistake that glibc's semaphores once made: the acquirer frees the semaphore while the release
// has not returned yet.
TASK_TEST(Semaphore, MayBeFreedByTheAcquirer)
{
	for (int i = 0; i < test::scaled(5000); i++) {
		auto *s = new sn_semaphore SN_SEMAPHORE_INIT(0);
		Task releaser([s] { EXPECT_EQ(0, sn_semaphore_release(s, 1)); });

		EXPECT_EQ(0, sn_semaphore_acquire(s));
		delete s;
		releaser.join();
	}
}

// ---- once ----

struct Counting {
	std::atomic<int> calls{0};
	int result = 0;
	sn_once_flag *again = nullptr;

	static int call(void *arg)
	{
		auto *self = static_cast<Counting *>(arg);

		self->calls++;
		sn_yield();
		if (self->again)
			return sn_once(self->again, call, arg);
		return self->result;
	}
};

TASK_TEST(Once, ExactlyOneOfManyRunsIt)
{
	for (int i = 0; i < test::scaled(500); i++) {
		sn_once_flag once = SN_ONCE_INIT;
		Counting counting;

		in_tasks_and_threads(4, i % 20 ? 0 : 2, [&](int) {
			EXPECT_EQ(0, sn_once(&once, Counting::call, &counting));
			EXPECT_EQ(1, counting.calls) << "it has ended";
			EXPECT_TRUE(sn_once_done(&once));
		});
	}
}

TASK_TEST(Once, AFailureLetsTheNextTry)
{
	sn_once_flag once = SN_ONCE_INIT;
	Counting counting;
	std::atomic<int> failed{0}, succeeded{0};

	counting.result = -EIO;
	EXPECT_EQ(-EIO, sn_once(&once, Counting::call, &counting));
	EXPECT_FALSE(sn_once_done(&once));
	in_tasks_and_threads(5, 1, [&](int) {
		const int err = sn_once(
			&once,
			[](void *arg) {
				auto *c = static_cast<Counting *>(arg);
				sn_yield();
				// the third call of these tasks
				return ++c->calls == 4 ? 7 : -EIO;
			},
			&counting);
		(err < 0 ? failed : succeeded)++;
	});
	EXPECT_EQ(2, failed);
	EXPECT_EQ(4, succeeded);
	EXPECT_EQ(4, counting.calls);
}

TASK_TEST(Once, DeadlineAndCancellationEndWaitingOnly)
{
	sn_once_flag once = SN_ONCE_INIT;
	std::atomic<bool> go_on{false};
	Counting counting;
	Task runner([&] {
		EXPECT_EQ(0, sn_once(
				     &once,
				     [](void *arg) {
					     return test::eventually([&] {
						     return static_cast<std::atomic<bool> *>(arg)
							     ->load();
					     })
							    ? 0
							    : -1;
				     },
				     &go_on));
	});

	ASSERT_TRUE(test::eventually(
		[&] { return __atomic_load_n(&once.word, __ATOMIC_RELAXED) == 1; }));
	EXPECT_EQ(-ETIMEDOUT, sn_once_until(&once, Counting::call, &counting, sn_now() + ms));
	expect_cancelled([&] { return sn_once(&once, Counting::call, &counting); },
			 [&] { return probe_waiting(&once, &once.waits) == 1; });
	go_on = true;
	runner.join();
	EXPECT_EQ(0, counting.calls);
	EXPECT_EQ(0, sn_once(&once, Counting::call, &counting));
}

TEST(Once, WithinItselfIsAMistake)
{
	sn_once_flag once = SN_ONCE_INIT;
	Counting counting;

	counting.again = &once;
	TEST_MISTAKE(sn_once(&once, Counting::call, &counting), -EDEADLK, "sn_once\\(\\)");
	EXPECT_FALSE(sn_once_done(&once));
}

// ---- wait groups ----

TASK_TEST(WaitGroup, WaitsForAll)
{
	for (int round = 0; round < 20; round++) {
		sn_waitgroup group = SN_WAITGROUP_INIT;
		std::atomic<int> done{0};
		std::vector<Task> tasks;

		EXPECT_EQ(0, sn_waitgroup_wait(&group)) << "nothing to wait for";
		EXPECT_EQ(0, sn_waitgroup_add(&group, 16));
		EXPECT_EQ(-EAGAIN, sn_waitgroup_try_wait(&group));
		for (int i = 0; i < 16; i++)
			tasks.emplace_back([&] {
				sn_yield();
				done++;
				EXPECT_EQ(0, sn_waitgroup_done(&group));
			});
		std::thread other([&] {
			EXPECT_EQ(0, sn_waitgroup_wait(&group));
			EXPECT_EQ(16, done);
		});
		EXPECT_EQ(0, sn_waitgroup_wait(&group));
		EXPECT_EQ(16, done);
		other.join();
		join_all(tasks);
		EXPECT_EQ(0u, group.word);
	}
}

TASK_TEST(WaitGroup, MayBeFreedByTheWaiter)
{
	for (int i = 0; i < test::scaled(5000); i++) {
		auto *group = new sn_waitgroup SN_WAITGROUP_INIT;

		EXPECT_EQ(0, sn_waitgroup_add(group, 2));
		Task a([group] { sn_waitgroup_done(group); });
		Task b([group] { sn_waitgroup_done(group); });
		EXPECT_EQ(0, sn_waitgroup_wait(group));
		delete group;
		a.join();
		b.join();
	}
}

TASK_TEST(WaitGroup, DeadlineCancellationAndLimits)
{
	sn_waitgroup group = SN_WAITGROUP_INIT;

	EXPECT_EQ(0, sn_waitgroup_add(&group, INT32_MAX));
	EXPECT_EQ(-EOVERFLOW, sn_waitgroup_add(&group, 1));
	EXPECT_EQ(0, sn_waitgroup_add(&group, 1 - INT32_MAX));
	EXPECT_EQ(-ETIMEDOUT, sn_waitgroup_wait_until(&group, sn_now() + ms));
	expect_cancelled([&] { return sn_waitgroup_wait(&group); },
			 [&] { return probe_waiting(&group, &group.waits) == 1; });
	EXPECT_EQ(2u, group.word) << "one to be done, and no waiter";
	EXPECT_EQ(0, sn_waitgroup_done(&group));
}

TEST(WaitGroup, NegativeIsAMistake)
{
	sn_waitgroup group = SN_WAITGROUP_INIT;

	TEST_MISTAKE(sn_waitgroup_done(&group), -EINVAL, "sn_waitgroup_done\\(\\).*negative");
	TEST_MISTAKE(sn_waitgroup_add(&group, INT32_MIN), -EINVAL,
		     "sn_waitgroup_add\\(\\).*negative");
	EXPECT_EQ(0u, group.word);
}

// ---- barriers ----

TEST(Barrier, RoundsDoNotMixAndOneIsSerial)
{
	const int rounds = test::scaled(2000);

	test::run([&] {
		sn_barrier barrier = SN_BARRIER_INIT(6);
		std::atomic<int> come{0}, serial{0};

		in_tasks_and_threads(4, 2, [&](int) {
			for (int i = 0; i < rounds; i++) {
				come++;
				const int result = sn_barrier_wait(&barrier);
				ASSERT_GE(result, 0);
				if (result == SN_BARRIER_SERIAL)
					serial++;
				ASSERT_GE(come.load(), 6 * (i + 1)) << "all had arrived";
				ASSERT_LE(come.load(), 6 * (i + 2));
			}
		});
		EXPECT_EQ(rounds, serial.load());
	});
}

TASK_TEST(Barrier, GivingUpDoesNotCountAsArrival)
{
	sn_barrier barrier = SN_BARRIER_INIT(2), alone = SN_BARRIER_INIT(1),
		   none = SN_BARRIER_INIT(0);

	EXPECT_EQ(SN_BARRIER_SERIAL, sn_barrier_wait(&alone));
	EXPECT_EQ(-EINVAL, sn_barrier_wait(&none));
	EXPECT_EQ(-ETIMEDOUT, sn_barrier_wait_until(&barrier, sn_now() + ms));
	expect_cancelled([&] { return sn_barrier_wait(&barrier); },
			 [&] { return probe_waiting(&barrier, &barrier.waits) == 1; });
	EXPECT_EQ(0u, barrier.arrived);
	Task other([&] { return sn_barrier_wait(&barrier); });
	ASSERT_TRUE(test::waiting(barrier, 1));
	EXPECT_EQ(SN_BARRIER_SERIAL, sn_barrier_wait(&barrier));
	EXPECT_EQ(0, other.join());
}

// In each round, either all parties come through, or those that came give up, so the number of
// successes is always a multiple of the number of parties.
TEST(Barrier, DeadlinesRaceWithTheLastArrival)
{
	const int rounds = test::scaled(5000);
	test::Random random;
	const uint64_t seed = random.next();

	test::run([&] {
		sn_barrier barrier = SN_BARRIER_INIT(3);
		std::atomic<int> through{0}, serial{0};

		in_tasks_and_threads(5, 1, [&](int me) {
			test::Random own(seed + me);

			for (int i = 0; i < rounds; i++) {
				const int result = sn_barrier_wait_until(
					&barrier, sn_now() + 1 + (int64_t)own.below(20000));
				if (result < 0) {
					ASSERT_EQ(-ETIMEDOUT, result);
					continue;
				}
				through++;
				serial += result == SN_BARRIER_SERIAL;
			}
		});
		EXPECT_EQ(3 * serial.load(), through.load());
		EXPECT_EQ(0u, barrier.arrived);
		EXPECT_EQ(0u, probe_waiting(&barrier, &barrier.waits));
	});
}

} // namespace
