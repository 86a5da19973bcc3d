// SPDX-License-Identifier: MIT
//
// Fairness: the order in which waiters are served, whether a newcomer can overtake them, and how
// many operations a task can do before others get their turn. No result depends on how long
// something takes. If a thread may have lost its processor during an attempt, the test makes
// another. An unfair lock would fail every one of them.
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/channel.h"
#include "support/locks.h"

namespace
{

using namespace test;

// So many operations are far more than a turn has, and take far less time than the monitor would
// allow.
constexpr int many = 1000;

/*
 * Repeats the attempt until it has an answer, which must be yes. It has none if the machine's load
 * may have interfered. If no attempt has an answer, the test fails.
 */
void expect_yes(const std::function<std::optional<bool>()> &attempt)
{
	for (int i = 0; i < 1000; i++) {
		const std::optional<bool> answer = attempt();

		if (testing::Test::HasFailure())
			return;
		if (answer) {
			EXPECT_TRUE(*answer) << "in attempt " << i;
			return;
		}
	}
	ADD_FAILURE() << "no attempt had an answer";
}

std::vector<int> up_to(int n)
{
	std::vector<int> all;

	for (int i = 0; i < n; i++)
		all.push_back(i);
	return all;
}

void pass(int64_t ns)
{
	const int64_t until = sn_now() + ns;

	while (sn_now() <= until)
		sn_sleep(100 * test::us);
}

// ---- the mutex ----

constexpr int64_t starving_after = ms; // mutex.h

/*
 * The caller holds the mutex, and so many tasks wait for it. Unlocks it and takes it again before
 * the first waiter can, so that this waiter waits again, at the front. Returns false if a waiter
 * was faster; the caller then no longer holds the mutex. had() says whether a waiter has had it.
 */
template <class F>
bool miss(sn_mutex &lock, unsigned waiters, F had)
{
	EXPECT_EQ(0, sn_mutex_unlock(&lock));
	if (sn_mutex_try_lock(&lock) != 0)
		return false;
	// The result of had() does not change while the caller holds the mutex.
	if (had()) {
		EXPECT_EQ(0, sn_mutex_unlock(&lock));
		return false;
	}
	return test::waiting(lock, waiters);
}

// Usually an unlocked mutex is free, so a running task need not wait until a waiter has been woken.
TASK_TEST(FairMutex, IsUsuallyFreeWhenUnlocked)
{
	expect_yes([]() -> std::optional<bool> {
		sn_mutex lock = SN_MUTEX_INIT;
		std::atomic<bool> had{false};
		std::optional<bool> answer;

		EXPECT_EQ(0, sn_mutex_lock(&lock));
		Task waiter([&] {
			EXPECT_EQ(0, sn_mutex_lock(&lock));
			had = true;
			sn_mutex_unlock(&lock);
		});
		EXPECT_TRUE(test::waiting(lock, 1));
		sn_mutex_unlock(&lock);
		if (sn_mutex_try_lock(&lock) == 0) {
			if (!had)
				answer = true;
			sn_mutex_unlock(&lock);
		}
		waiter.join();
		return answer;
	});
}

// A task that locks the mutex and holds it until end() is called.
struct Holder {
	std::atomic<bool> has{false}, may_go{false};
	Task task;

	Holder(
		sn_mutex &lock, std::function<void()> then = [] {})
	    : task([this, &lock, then = std::move(then)] {
		      EXPECT_EQ(0, sn_mutex_lock(&lock));
		      has = true;
		      EXPECT_TRUE(test::eventually([this] { return may_go.load(); }));
		      sn_mutex_unlock(&lock);
		      then();
	      })
	{
	}
	void end()
	{
		may_go = true;
		task.join();
	}
};

// A waiter that has waited for long, and lost the race after a wake-up, is handed the mutex. The
// task that unlocks it cannot take it again.
TASK_TEST(FairMutex, IsHandedToAStarvingWaiter)
{
	expect_yes([]() -> std::optional<bool> {
		sn_mutex lock = SN_MUTEX_INIT;
		std::optional<bool> answer;

		EXPECT_EQ(0, sn_mutex_lock(&lock));
		Holder waiter(lock);
		EXPECT_TRUE(test::waiting(lock, 1));
		pass(starving_after);
		if (miss(lock, 1, [&] { return waiter.has.load(); })) {
			sn_mutex_unlock(&lock);
			answer = sn_mutex_try_lock(&lock) == -EBUSY;
			if (!*answer)
				sn_mutex_unlock(&lock);
			EXPECT_TRUE(test::eventually([&] { return waiter.has.load(); }));
		}
		waiter.end();
		EXPECT_EQ(0u, lock.word);
		return answer;
	});
}

// A waiter that lost the race but has not waited for long is not handed the mutex.
TASK_TEST(FairMutex, IsNotHandedToAWaiterThatDoesNotStarve, 1)
{
	expect_yes([]() -> std::optional<bool> {
		const int64_t before = sn_now();
		sn_mutex lock = SN_MUTEX_INIT;
		std::optional<bool> answer;

		EXPECT_EQ(0, sn_mutex_lock(&lock));
		Holder waiter(lock);
		sn_yield();
		sn_mutex_unlock(&lock);
		if (sn_mutex_try_lock(&lock) == 0) {
			sn_yield();
			if (probe_waiting(&lock, &lock.waits) == 1 &&
			    sn_now() - before < starving_after) {
				sn_mutex_unlock(&lock);
				if (sn_mutex_try_lock(&lock) == 0)
					answer = true;
				else if (!waiter.has)
					answer = false;
			}
			if (!answer || *answer)
				sn_mutex_unlock(&lock);
		}
		waiter.end();
		return answer;
	});
}

// While a waiter starves, all are served in order, and newcomers are last.
TASK_TEST(FairMutex, IsHandedOverInOrderWhileAWaiterStarves)
{
	expect_yes([]() -> std::optional<bool> {
		sn_mutex lock = SN_MUTEX_INIT;
		std::vector<Task> waiters;
		std::vector<int> order;
		const auto enter = [&](int who) {
			EXPECT_EQ(0, sn_mutex_lock(&lock));
			order.push_back(who);
			sn_yield();
			sn_mutex_unlock(&lock);
		};
		bool missed;

		EXPECT_EQ(0, sn_mutex_lock(&lock));
		for (int i = 0; i < 3; i++) {
			waiters.emplace_back([&, i] { enter(i); });
			EXPECT_TRUE(test::waiting(lock, unsigned(i) + 1));
		}
		pass(starving_after);
		missed = miss(lock, 3, [&] { return !order.empty(); });
		if (missed) {
			sn_mutex_unlock(&lock);
			enter(3);
		}
		join_all(waiters);
		if (!missed)
			return std::nullopt;
		EXPECT_EQ(up_to(4), order);
		return order == up_to(4);
	});
}

// The last waiter has been handed the mutex. For a waiter that comes later, the mutex is in its
// usual mode again.
TASK_TEST(FairMutex, IsNotHandedOnAfterTheLastWaiter)
{
	expect_yes([]() -> std::optional<bool> {
		sn_mutex lock = SN_MUTEX_INIT;
		std::optional<bool> answer;
		std::atomic<bool> late_had{false}, handed{false};

		EXPECT_EQ(0, sn_mutex_lock(&lock));
		Task starved([&] {
			EXPECT_EQ(0, sn_mutex_lock(&lock));
			handed = true;
			EXPECT_TRUE(test::waiting(lock, 1));
			sn_mutex_unlock(&lock);
			if (sn_mutex_try_lock(&lock) == 0) {
				if (!late_had)
					answer = true;
				sn_mutex_unlock(&lock);
			}
		});
		EXPECT_TRUE(test::waiting(lock, 1));
		pass(starving_after);
		if (miss(lock, 1, [&] { return handed.load(); }))
			sn_mutex_unlock(&lock);
		EXPECT_TRUE(test::eventually([&] { return handed.load(); }));
		Task late([&] {
			EXPECT_EQ(0, sn_mutex_lock(&lock));
			late_had = true;
			sn_mutex_unlock(&lock);
		});
		starved.join();
		late.join();
		return answer;
	});
}

// A waiter that is handed the mutex after a short wait ends the hand-overs.
TASK_TEST(FairMutex, IsNotHandedOnAfterAShortWait, 1)
{
	expect_yes([]() -> std::optional<bool> {
		sn_mutex lock = SN_MUTEX_INIT;
		std::optional<bool> answer;
		std::atomic<bool> had{false}, last_had{false};

		EXPECT_EQ(0, sn_mutex_lock(&lock));
		Task starved([&] {
			EXPECT_EQ(0, sn_mutex_lock(&lock));
			had = true;
			sn_mutex_unlock(&lock);
		});
		EXPECT_TRUE(test::waiting(lock, 1));
		pass(starving_after);
		const bool missed = miss(lock, 1, [&] { return had.load(); });
		Task brief([&] {
			const int64_t since = sn_now();

			EXPECT_EQ(0, sn_mutex_lock(&lock));
			const bool was_brief = sn_now() - since < starving_after;
			const bool others = probe_waiting(&lock, &lock.waits) == 1;

			sn_mutex_unlock(&lock);
			if (sn_mutex_try_lock(&lock) == 0) {
				if (missed && others && was_brief && !last_had)
					answer = true;
				sn_mutex_unlock(&lock);
			}
		});
		Task last([&] {
			EXPECT_EQ(0, sn_mutex_lock(&lock));
			last_had = true;
			sn_mutex_unlock(&lock);
		});
		sn_yield();
		if (missed)
			sn_mutex_unlock(&lock);
		starved.join();
		brief.join();
		last.join();
		return answer;
	});
}

// A waiter that lost the race after a wake-up keeps its place.
TASK_TEST(FairMutex, KeepsThePlaceOfAWaiterThatLostTheRace)
{
	expect_yes([]() -> std::optional<bool> {
		sn_mutex lock = SN_MUTEX_INIT;
		std::vector<Task> waiters;
		std::vector<int> order;
		bool missed;

		EXPECT_EQ(0, sn_mutex_lock(&lock));
		for (int i = 0; i < 3; i++) {
			waiters.emplace_back([&, i] {
				EXPECT_EQ(0, sn_mutex_lock(&lock));
				order.push_back(i);
				sn_mutex_unlock(&lock);
			});
			EXPECT_TRUE(test::waiting(lock, unsigned(i) + 1));
		}
		missed = miss(lock, 3, [&] { return !order.empty(); });
		if (missed)
			sn_mutex_unlock(&lock);
		join_all(waiters);
		if (!missed)
			return std::nullopt;
		EXPECT_EQ(up_to(3), order);
		return order == up_to(3);
	});
}

// ---- the read-write lock ----

// A task that locks the lock and holds it until end() is called.
struct RwHolder {
	std::atomic<bool> has{false}, may_go{false};
	Task task;

	RwHolder(sn_rwlock &lock, bool writes)
	    : task([this, &lock, writes] {
		      EXPECT_EQ(0, writes ? sn_rwlock_write(&lock) : sn_rwlock_read(&lock));
		      has = true;
		      EXPECT_TRUE(test::eventually([this] { return may_go.load(); }));
		      writes ? sn_rwlock_write_unlock(&lock) : sn_rwlock_read_unlock(&lock);
	      })
	{
	}
	bool holds() const { return has; }
	void end()
	{
		may_go = true;
		task.join();
	}
};

bool waiting(sn_rwlock &lock, unsigned readers, unsigned writers)
{
	return test::eventually([&] {
		return probe_waiting(&lock, &lock.readers) == readers &&
		       probe_waiting(&lock, &lock.writers) == writers;
	});
}

// If others wait, unlocking hands the lock to them, and it is never free in between.
TASK_TEST(FairRwLock, IsHandedOn)
{
	sn_rwlock lock = SN_RWLOCK_INIT;

	EXPECT_EQ(0, sn_rwlock_write(&lock));
	RwHolder first(lock, true);
	ASSERT_TRUE(waiting(lock, 0, 1));
	RwHolder a(lock, false);
	ASSERT_TRUE(waiting(lock, 1, 1));
	RwHolder later(lock, true);
	ASSERT_TRUE(waiting(lock, 1, 2));
	RwHolder b(lock, false);
	ASSERT_TRUE(waiting(lock, 2, 2));

	// After a writer, all waiting readers have their turn, even those that came after
	// another writer.
	EXPECT_EQ(0, sn_rwlock_write_unlock(&lock));
	EXPECT_EQ(-EBUSY, sn_rwlock_try_write(&lock));
	EXPECT_EQ(-EBUSY, sn_rwlock_try_read(&lock)) << "writers wait";
	EXPECT_TRUE(test::eventually([&] { return a.holds() && b.holds(); }));
	EXPECT_FALSE(first.holds() || later.holds());
	// A reader that comes now waits for the next turn.
	RwHolder c(lock, false);
	ASSERT_TRUE(waiting(lock, 1, 2));
	a.end();
	EXPECT_EQ(-EBUSY, sn_rwlock_try_read(&lock));
	EXPECT_TRUE(waiting(lock, 1, 2)) << "there is a reader left";

	// After the last reader, the first writer has its turn.
	b.end();
	EXPECT_EQ(-EBUSY, sn_rwlock_try_read(&lock));
	EXPECT_TRUE(test::eventually([&] { return first.holds(); }));
	EXPECT_FALSE(later.holds() || c.holds());
	first.end();
	EXPECT_EQ(-EBUSY, sn_rwlock_try_read(&lock));
	EXPECT_TRUE(test::eventually([&] { return c.holds(); }));
	EXPECT_FALSE(later.holds());
	c.end();
	EXPECT_EQ(-EBUSY, sn_rwlock_try_read(&lock));
	EXPECT_TRUE(test::eventually([&] { return later.holds(); }));
	later.end();
	EXPECT_EQ(0u, lock.word);
}

TASK_TEST(FairRwLock, WritersAreServedInOrder)
{
	sn_rwlock lock = SN_RWLOCK_INIT;
	std::vector<Task> writers;
	std::vector<int> order;

	EXPECT_EQ(0, sn_rwlock_read(&lock));
	for (int i = 0; i < 10; i++) {
		writers.emplace_back([&, i] {
			EXPECT_EQ(0, sn_rwlock_write(&lock));
			order.push_back(i);
			sn_yield();
			sn_rwlock_write_unlock(&lock);
		});
		ASSERT_TRUE(waiting(lock, 0, unsigned(i) + 1));
	}
	EXPECT_EQ(0, sn_rwlock_read_unlock(&lock));
	join_all(writers);
	EXPECT_EQ(up_to(10), order);
}

// A writer that gives up lets in the readers that waited only for it, and no other task.
TASK_TEST(FairRwLock, GivingUpLeavesTheOthersTheirPlaces)
{
	for (const bool another : {false, true}) {
		sn_rwlock lock = SN_RWLOCK_INIT;
		std::atomic<bool> cancelled{false};
		std::optional<RwHolder> another_writer;
		sn_scope *scope = nullptr;

		EXPECT_EQ(0, sn_rwlock_read(&lock));
		EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		test::scope_go(scope, [&] {
			EXPECT_EQ(-ECANCELED, sn_rwlock_write(&lock));
			cancelled = true;
			return 0;
		});
		ASSERT_TRUE(waiting(lock, 0, 1));
		sn_cancel_mask();
		Task reader([&] {
			EXPECT_EQ(0, sn_rwlock_read(&lock));
			sn_rwlock_read_unlock(&lock);
		});
		ASSERT_TRUE(waiting(lock, 1, 1));
		if (another) {
			another_writer.emplace(lock, true);
			ASSERT_TRUE(waiting(lock, 1, 2));
		}
		EXPECT_EQ(0, sn_scope_cancel(scope));
		ASSERT_TRUE(test::eventually([&] { return cancelled.load(); }));
		if (another) {
			EXPECT_TRUE(waiting(lock, 1, 1)) << "the reader is still behind a writer";
			EXPECT_EQ(-EBUSY, sn_rwlock_try_read(&lock));
			EXPECT_EQ(0, sn_rwlock_read_unlock(&lock));
			EXPECT_TRUE(test::eventually([&] { return another_writer->holds(); }));
			another_writer->end();
			reader.join();
		} else {
			reader.join();
			EXPECT_EQ(0, sn_rwlock_try_read(&lock)) << "readers share";
			sn_rwlock_read_unlock(&lock);
			sn_rwlock_read_unlock(&lock);
		}
		sn_cancel_unmask();
		EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
		EXPECT_EQ(0u, lock.word);
	}
}

// ---- conditions, semaphores, once, groups ----

// Signals wake the waiters one by one in order, even when one in the middle has given up.
TASK_TEST(FairCond, SignalsGoToTheFirst)
{
	sn_mutex lock = SN_MUTEX_INIT;
	sn_cond cond = SN_COND_INIT;
	std::vector<Task> tasks;
	std::vector<int> order, expected;
	sn_scope *scope = nullptr;
	std::atomic<bool> gave_up{false};

	EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	sn_cancel_mask();
	for (int i = 0; i < 10; i++) {
		if (i == 4) {
			test::scope_go(scope, [&] {
				EXPECT_EQ(0, sn_mutex_lock(&lock));
				EXPECT_EQ(-ECANCELED, sn_cond_wait(&cond, &lock));
				sn_mutex_unlock(&lock);
				gave_up = true;
				return 0;
			});
		} else {
			expected.push_back(i);
			tasks.emplace_back([&, i] {
				EXPECT_EQ(0, sn_mutex_lock(&lock));
				// Both with and without a deadline, because the code
				// differs.
				EXPECT_EQ(0, i % 2 ? sn_cond_wait(&cond, &lock)
						   : sn_cond_wait_until(&cond, &lock,
									sn_now() + 3600 * second));
				order.push_back(i);
				sn_mutex_unlock(&lock);
			});
		}
		ASSERT_TRUE(test::waiting(cond, unsigned(i) + 1));
	}
	EXPECT_EQ(0, sn_scope_cancel(scope));
	ASSERT_TRUE(test::eventually([&] { return gave_up.load(); }));
	for (size_t i = 0; i < expected.size(); i++) {
		EXPECT_EQ(1, sn_cond_signal(&cond));
		ASSERT_TRUE(test::eventually([&] {
			EXPECT_EQ(0, sn_mutex_lock(&lock));
			const bool done = order.size() == i + 1;
			sn_mutex_unlock(&lock);
			return done;
		}));
	}
	EXPECT_EQ(0, sn_cond_signal(&cond));
	join_all(tasks);
	EXPECT_EQ(expected, order);
	sn_cancel_unmask();
	EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
}

// One processor runs waiters that are woken together in the order of their waits.
bool woken_in_order(const std::function<int()> &wait, const std::function<bool(unsigned)> &waiting,
		    const std::function<void()> &wake)
{
	std::vector<Task> tasks;
	std::vector<int> order;

	for (int i = 0; i < 10; i++) {
		tasks.emplace_back([&, i] {
			EXPECT_LE(0, wait());
			order.push_back(i);
		});
		EXPECT_TRUE(waiting(unsigned(i) + 1));
	}
	wake();
	join_all(tasks);
	return order == up_to(10);
}

TASK_TEST(FairCond, BroadcastsWakeInOrder, 1)
{
	expect_yes([]() -> std::optional<bool> {
		sn_mutex lock = SN_MUTEX_INIT;
		sn_cond cond = SN_COND_INIT;

		if (woken_in_order(
			    [&] {
				    EXPECT_EQ(0, sn_mutex_lock(&lock));
				    const int err = sn_cond_wait(&cond, &lock);
				    sn_mutex_unlock(&lock);
				    return err;
			    },
			    [&](unsigned n) { return test::waiting(cond, n); },
			    [&] { EXPECT_EQ(10, sn_cond_broadcast(&cond)); }))
			return true;
		return std::nullopt;
	});
}

TASK_TEST(FairWaitGroup, WakesInOrder, 1)
{
	expect_yes([]() -> std::optional<bool> {
		sn_waitgroup group = SN_WAITGROUP_INIT;

		EXPECT_EQ(0, sn_waitgroup_add(&group, 1));
		if (woken_in_order([&] { return sn_waitgroup_wait(&group); },
				   [&](unsigned n) { return test::waiting(group, n); },
				   [&] { EXPECT_EQ(0, sn_waitgroup_done(&group)); }))
			return true;
		return std::nullopt;
	});
}

TASK_TEST(FairBarrier, WakesInOrder, 1)
{
	expect_yes([]() -> std::optional<bool> {
		sn_barrier barrier = SN_BARRIER_INIT(11);

		if (woken_in_order(
			    [&] { return sn_barrier_wait(&barrier); },
			    [&](unsigned n) { return test::waiting(barrier, n); },
			    [&] { EXPECT_EQ(SN_BARRIER_SERIAL, sn_barrier_wait(&barrier)); }))
			return true;
		return std::nullopt;
	});
}

// A permit goes to the first waiter. A newcomer cannot take it on the way.
TASK_TEST(FairSemaphore, NoWaiterIsOvertaken)
{
	sn_semaphore s = SN_SEMAPHORE_INIT(0);
	std::vector<Task> tasks;
	std::atomic<int> last{-1};
	sn_scope *scope = nullptr;
	std::atomic<bool> gave_up{false};

	EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	sn_cancel_mask();
	for (int i = 0; i < 10; i++) {
		if (i == 4) {
			test::scope_go(scope, [&] {
				EXPECT_EQ(-ECANCELED, sn_semaphore_acquire(&s));
				gave_up = true;
				return 0;
			});
		} else {
			tasks.emplace_back([&, i] {
				EXPECT_EQ(0, i % 2 ? sn_semaphore_acquire(&s)
						   : sn_semaphore_acquire_until(
							     &s, sn_now() + 3600 * second));
				last = i;
			});
		}
		ASSERT_TRUE(test::waiting(s, unsigned(i) + 1));
	}
	EXPECT_EQ(0, sn_scope_cancel(scope));
	ASSERT_TRUE(test::eventually([&] { return gave_up.load(); }));
	for (int i = 0; i < 10; i++) {
		if (i == 4)
			continue;
		EXPECT_EQ(0, sn_semaphore_release(&s, 1));
		EXPECT_EQ(-EAGAIN, sn_semaphore_try_acquire(&s)) << i;
		ASSERT_TRUE(test::eventually([&] { return last == i; })) << i;
	}
	join_all(tasks);
	EXPECT_EQ(0u, s.word);
	sn_cancel_unmask();
	EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
}

// After a failure, the first waiter is the next to try.
TEST(FairOnce, TheFirstWaiterIsTheNextToTry)
{
	struct Try {
		// only one task at a time is in the function, so it needs no lock
		std::vector<int> *order;
		std::atomic<int> *begun;
		std::atomic<bool> *may_go;
		int who;
	};

	test::run([] {
		sn_once_flag once = SN_ONCE_INIT;
		std::atomic<bool> may_go{false};
		std::vector<Task> tasks;
		std::atomic<int> begun{0};
		std::vector<Try> tries;
		std::vector<int> order;

		for (int i = 0; i < 10; i++)
			tries.push_back({&order, &begun, &may_go, i});
		for (int i = 0; i < 10; i++) {
			tasks.emplace_back([&, i] {
				EXPECT_EQ(-EIO, sn_once(
							&once,
							[](void *arg) {
								auto *own = static_cast<Try *>(arg);
								own->order->push_back(own->who);
								(*own->begun)++;
								(void)test::eventually([own] {
									return own->may_go->load();
								});
								return -EIO;
							},
							&tries[size_t(i)]));
			});
			if (i > 0)
				ASSERT_TRUE(test::waiting(once, unsigned(i)));
			else
				ASSERT_TRUE(test::eventually([&] { return begun == 1; }));
		}
		may_go = true;
		join_all(tasks);
		EXPECT_EQ(up_to(10), order);
	});
}

// ---- channels ----

// Receives in one of the possible ways. Returns the value.
int receive(Chan<int> &chan, Chan<int> &never, int way)
{
	int value = -1, other = -1;

	if (way % 4 == 0) {
		EXPECT_EQ(0, chan.recv(&value));
	} else if (way % 4 == 1) {
		EXPECT_EQ(0, chan.recv(&value, sn_now() + 3600 * second));
	} else {
		sn_case cases[] = {never.recv_case(&other), chan.recv_case(&value)};

		EXPECT_EQ(1, sn_select(cases, 2,
				       way % 4 == 2 ? SN_NO_DEADLINE : sn_now() + 3600 * second));
	}
	return value;
}

void send(Chan<int> &chan, Chan<int> &never, int way, int value)
{
	int other = -1;

	if (way % 4 == 0) {
		EXPECT_EQ(0, chan.send(value));
	} else if (way % 4 == 1) {
		EXPECT_EQ(0, chan.send(value, sn_now() + 3600 * second));
	} else {
		sn_case cases[] = {never.recv_case(&other), chan.send_case(&value)};

		EXPECT_EQ(1, sn_select(cases, 2,
				       way % 4 == 2 ? SN_NO_DEADLINE : sn_now() + 3600 * second));
	}
}

constexpr int waiters = 13, quitter = 6;

// However they wait, waiters are served in order, and no newcomer gets in between.
TASK_TEST(FairChannel, ReceiversAreServedInOrderHoweverTheyWait)
{
	for (const int capacity : {0, 3}) {
		Chan<int> chan(capacity), never;
		std::vector<Task> tasks;
		std::atomic<bool> gave_up{false};
		int got[waiters] = {}, value, expected = 0;
		sn_scope *scope = nullptr;

		EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		sn_cancel_mask();
		for (int i = 0; i < waiters; i++) {
			if (i == quitter)
				test::scope_go(scope, [&] {
					int none;

					EXPECT_EQ(-ECANCELED, chan.recv(&none));
					gave_up = true;
					return 0;
				});
			else
				tasks.emplace_back([&, i] { got[i] = receive(chan, never, i); });
			ASSERT_TRUE(chan.await_receivers(size_t(i) + 1));
		}
		EXPECT_EQ(0, sn_scope_cancel(scope));
		ASSERT_TRUE(test::eventually([&] { return gave_up.load(); }));
		for (int i = 0; i < waiters - 1; i++) {
			EXPECT_EQ(0, chan.try_send(100 + i));
			EXPECT_EQ(-EAGAIN, chan.try_recv(&value))
				<< "the element has been handed over";
		}
		join_all(tasks);
		for (int i = 0; i < waiters; i++) {
			if (i == quitter)
				continue;
			EXPECT_EQ(100 + expected++, got[i]) << i;
		}
		sn_cancel_unmask();
		EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
	}
}

TASK_TEST(FairChannel, SendersAreServedInOrderHoweverTheyWait)
{
	for (const int capacity : {0, 3}) {
		Chan<int> chan(capacity), never;
		std::vector<Task> tasks;
		std::atomic<bool> gave_up{false};
		sn_scope *scope = nullptr;
		int value = -1;

		EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		sn_cancel_mask();
		for (int i = 0; i < capacity; i++)
			EXPECT_EQ(0, chan.try_send(i));
		for (int i = 0; i < waiters; i++) {
			if (i == quitter)
				test::scope_go(scope, [&] {
					EXPECT_EQ(-ECANCELED, chan.send(-1));
					gave_up = true;
					return 0;
				});
			else
				tasks.emplace_back([&, i] {
					send(chan, never, i, capacity + i - (i > quitter));
				});
			ASSERT_TRUE(chan.await_senders(size_t(i) + 1));
		}
		EXPECT_EQ(0, sn_scope_cancel(scope));
		ASSERT_TRUE(test::eventually([&] { return gave_up.load(); }));
		for (int i = 0; i < capacity + waiters - 1; i++) {
			if (i < waiters - 1) {
				EXPECT_EQ(-EAGAIN, chan.try_send(-1))
					<< "a waiting sender's element has taken the room";
			}
			EXPECT_EQ(0, chan.try_recv(&value));
			EXPECT_EQ(i, value);
		}
		EXPECT_EQ(-EAGAIN, chan.try_recv(&value));
		join_all(tasks);
		sn_cancel_unmask();
		EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
	}
}

// ---- select ----

// With 10,000 choices among four, a count is binomial with a deviation of 43, and off by 430 once
// in 10^22. For tasks, each thread has a generator of its own. Some of the cases are sends.
TASK_TEST(FairSelect, ATaskChoosesReadyCasesEquallyOften)
{
	for (const int64_t deadline : {int64_t(SN_TRY), int64_t(SN_NO_DEADLINE)}) {
		Chan<int> to[2] = {Chan<int>(1), Chan<int>(1)},
			  from[2] = {Chan<int>(1), Chan<int>(1)};
		int counts[4] = {}, value = 0;
		sn_case cases[] = {to[0].send_case(&value), from[0].recv_case(&value),
				   to[1].send_case(&value), from[1].recv_case(&value)};

		EXPECT_EQ(0, from[0].try_send(0));
		EXPECT_EQ(0, from[1].try_send(0));
		for (int i = 0; i < 10000; i++) {
			const int index = sn_select(cases, 4, deadline);

			ASSERT_LE(0, index);
			ASSERT_GT(4, index);
			counts[index]++;
			if (index % 2)
				ASSERT_EQ(0, from[index / 2].try_send(0));
			else
				ASSERT_EQ(0, to[index / 2].try_recv(&value));
		}
		for (const int count : counts)
			EXPECT_NEAR(2500, count, 430);
	}
}

// ---- turns ----

struct Operation {
	const char *name;
	// An operation that succeeds without waiting. With SN_TRY, it uses the form that never
	// waits, where there is one.
	std::function<void(int64_t deadline)> once;
};

/*
 * On one processor another task is runnable, while the calling one does operations that never have
 * to wait. Returns after how many operations the other task runs, or "many" if it did not run
 * before all were done.
 */
int until_another_runs(const std::function<void()> &operation)
{
	std::atomic<bool> runs{false};
	Task other([&] { runs = true; });
	int n = 0;

	while (n < many && !runs) {
		operation();
		n++;
	}
	other.join();
	return n;
}

template <class F>
void each_operation(F body)
{
	Chan<int> buffered(1), a(1), b(1);
	int value = 0;
	const auto drained = [&](Chan<int> &chan) {
		int one;
		while (chan.try_recv(&one) == 0) {}
	};
	const Operation operations[] = {
		{"sending",
		 [&](int64_t deadline) {
			 EXPECT_EQ(0, buffered.send(1, deadline));
			 drained(buffered);
		 }},
		{"receiving",
		 [&](int64_t deadline) {
			 EXPECT_EQ(0, buffered.try_send(1));
			 EXPECT_EQ(0, buffered.recv(&value, deadline));
		 }},
		{"selecting",
		 [&](int64_t deadline) {
			 sn_case cases[] = {a.send_case(&value), b.send_case(&value)};

			 EXPECT_LE(0, sn_select(cases, 2, deadline));
			 drained(a);
			 drained(b);
		 }},
	};

	for (const Operation &operation : operations) {
		SCOPED_TRACE(operation.name);
		body(operation);
	}
}

// A task that never has to wait does not keep the processor. Others get it after a number of
// operations.
TASK_TEST(FairTurns, OperationsThatMayParkLetOthersRun, 1)
{
	each_operation([](const Operation &operation) {
		for (const int64_t deadline : {int64_t(SN_NO_DEADLINE), sn_now() + 3600 * second})
			EXPECT_GT(many, until_another_runs([&] { operation.once(deadline); }));
	});
}

// The forms that only try never park. (A task may lose its processor after 10 ms all the same,
// which is a reason for another attempt.)
TASK_TEST(FairTurns, TryingDoesNotLetOthersRun, 1)
{
	each_operation([](const Operation &operation) {
		expect_yes([&]() -> std::optional<bool> {
			if (until_another_runs([&] { operation.once(SN_TRY); }) == many)
				return true;
			return std::nullopt;
		});
	});
}

} // namespace
