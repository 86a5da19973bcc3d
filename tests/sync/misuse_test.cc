// SPDX-License-Identifier: MIT
//
// What programs do wrong with channels, locks, timers and the like. Each mistake returns an error,
// or in debug builds causes a report that names the task. No call hangs or spins.
#include <sennit/scan.h>

#include "support/locks.h"
#include "support/misuse.h"
#include "support/scope.h"

namespace
{

using test::expect_each;
using test::ms;

int nothing(void *)
{
	return 0;
}

// Every call of channel.h, mutex.h and so on, with NULL where an object or a function is needed.
void null_arguments()
{
	const int64_t soon = sn_now() + ms;
	int element = 0;
	sn_mutex mutex = SN_MUTEX_INIT;
	sn_cond cond = SN_COND_INIT;
	sn_once_flag once = SN_ONCE_INIT;
	sn_alarm alarm = SN_ALARM_INIT;
	sn_chan *chan = nullptr;

	ASSERT_EQ(0, sn_chan_new(&chan, sizeof(int), 1));
	expect_each({
		MISTAKE(-EINVAL, sn_chan_new(nullptr, 4, 1)),
		MISTAKE(-EINVAL, sn_chan_new_with_ops(nullptr, 4, 1, nullptr)),
		MISTAKE(0, sn_chan_ref(nullptr) != nullptr),
		MISTAKE(0, (sn_chan_unref(nullptr), 0)),
		MISTAKE(-EINVAL, sn_chan_close(nullptr)),
		MISTAKE(-EINVAL, sn_chan_send(nullptr, &element)),
		MISTAKE(-EINVAL, sn_chan_send_until(nullptr, &element, soon)),
		MISTAKE(-EINVAL, sn_chan_try_send(nullptr, &element)),
		MISTAKE(-EINVAL, sn_chan_recv(nullptr, &element)),
		MISTAKE(-EINVAL, sn_chan_recv_until(nullptr, &element, soon)),
		MISTAKE(-EINVAL, sn_chan_try_recv(nullptr, &element)),
		MISTAKE(-EINVAL, sn_chan_send(chan, nullptr)),
		MISTAKE(-EINVAL, sn_chan_try_send(chan, nullptr)),
		MISTAKE(0, sn_chan_len(nullptr)),
		MISTAKE(0, sn_chan_cap(nullptr)),
		MISTAKE(-EINVAL, sn_select(nullptr, 1, SN_TRY)),
		MISTAKE(-EINVAL, sn_mutex_lock(nullptr)),
		MISTAKE(-EINVAL, sn_mutex_lock_uncancelled(nullptr)),
		MISTAKE(-EINVAL, sn_mutex_lock_until(nullptr, soon)),
		MISTAKE(-EINVAL, sn_mutex_try_lock(nullptr)),
		MISTAKE(-EINVAL, sn_mutex_unlock(nullptr)),
		MISTAKE(-EINVAL, sn_rwlock_read(nullptr)),
		MISTAKE(-EINVAL, sn_rwlock_read_uncancelled(nullptr)),
		MISTAKE(-EINVAL, sn_rwlock_read_until(nullptr, soon)),
		MISTAKE(-EINVAL, sn_rwlock_try_read(nullptr)),
		MISTAKE(-EINVAL, sn_rwlock_write(nullptr)),
		MISTAKE(-EINVAL, sn_rwlock_write_uncancelled(nullptr)),
		MISTAKE(-EINVAL, sn_rwlock_write_until(nullptr, soon)),
		MISTAKE(-EINVAL, sn_rwlock_try_write(nullptr)),
		MISTAKE(-EINVAL, sn_rwlock_read_unlock(nullptr)),
		MISTAKE(-EINVAL, sn_rwlock_write_unlock(nullptr)),
		MISTAKE(-EINVAL, sn_cond_wait(nullptr, &mutex)),
		MISTAKE(-EINVAL, sn_cond_wait(&cond, nullptr)),
		MISTAKE(-EINVAL, sn_cond_wait_until(nullptr, &mutex, soon)),
		MISTAKE(-EINVAL, sn_cond_wait_until(&cond, nullptr, soon)),
		MISTAKE(-EINVAL, sn_cond_signal(nullptr)),
		MISTAKE(-EINVAL, sn_cond_broadcast(nullptr)),
		MISTAKE(-EINVAL, sn_semaphore_acquire(nullptr)),
		MISTAKE(-EINVAL, sn_semaphore_acquire_until(nullptr, soon)),
		MISTAKE(-EINVAL, sn_semaphore_try_acquire(nullptr)),
		MISTAKE(-EINVAL, sn_semaphore_release(nullptr, 1)),
		MISTAKE(-EINVAL, sn_waitgroup_add(nullptr, 1)),
		MISTAKE(-EINVAL, sn_waitgroup_done(nullptr)),
		MISTAKE(-EINVAL, sn_waitgroup_wait(nullptr)),
		MISTAKE(-EINVAL, sn_waitgroup_wait_until(nullptr, soon)),
		MISTAKE(-EINVAL, sn_waitgroup_try_wait(nullptr)),
		MISTAKE(-EINVAL, sn_once(nullptr, nothing, nullptr)),
		MISTAKE(-EINVAL, sn_once(&once, nullptr, nullptr)),
		MISTAKE(-EINVAL, sn_once_until(nullptr, nothing, nullptr, soon)),
		MISTAKE(-EINVAL, sn_once_until(&once, nullptr, nullptr, soon)),
		MISTAKE(0, sn_once_done(nullptr)),
		MISTAKE(-EINVAL, sn_barrier_wait(nullptr)),
		MISTAKE(-EINVAL, sn_barrier_wait_until(nullptr, soon)),
		MISTAKE(-EINVAL, sn_alarm_start(nullptr, soon, 0, nothing, nullptr)),
		MISTAKE(-EINVAL, sn_alarm_start(&alarm, soon, 0, nullptr, nullptr)),
		MISTAKE(-EINVAL, sn_alarm_stop(nullptr)),
		MISTAKE(-EINVAL, sn_ticker_start(nullptr, soon, 0)),
		MISTAKE(-EINVAL, sn_ticker_stop(nullptr)),
		MISTAKE(-EINVAL, sn_ticker_wait(nullptr)),
		MISTAKE(-EINVAL, sn_ticker_wait_until(nullptr, soon)),
		MISTAKE(-EINVAL, sn_ticker_try_wait(nullptr)),
	});
	sn_chan_unref(chan);
}

TEST(Misuse, NullArgumentsInATask)
{
	test::run(1, null_arguments);
}

TEST(Misuse, NullArgumentsOnAThread)
{
	null_arguments();
}

// ---- channels that were freed ----

// A handle whose channel was freed. Its memory may have been reused for anything.
sn_chan *stale_channel(size_t elem_size, ssize_t capacity)
{
	sn_chan *chan = nullptr;

	EXPECT_EQ(0, sn_chan_new(&chan, elem_size, capacity));
	sn_chan_unref(chan);
	return chan;
}

#define IN_TASK(...) test::run(1, [] { __VA_ARGS__; })
#define FREED "sn_[a-z_]+\\(\\) called on a channel that was freed.*in task [0-9]+ "

// Yields until that many tasks are parked.
void await_parked(int wanted)
{
	for (;;) {
		int parked = 0;

		sn_tasks_each(
			[](const struct sn_task_info *info, void *arg) {
				*static_cast<int *>(arg) += info->state == SN_STATE_PARKED;
				return 0;
			},
			&parked);
		if (parked >= wanted)
			return;
		sn_yield();
	}
}

// What a call with a freed channel does, as long as the memory has not been reused. In release
// builds ASan's own report would come first.
#if SENNIT_DEBUG
TEST(MisuseDeathTest, FreedChannelsAreReported)
{
	GTEST_FLAG_SET(death_test_style, TEST_DEATH_STYLE);
	EXPECT_DEATH(IN_TASK(int i = 0; (void)!sn_chan_send(stale_channel(4, 0), &i)), FREED);
	EXPECT_DEATH(IN_TASK(int i = 0; (void)!sn_chan_recv(stale_channel(4, 1), &i)), FREED);
	EXPECT_DEATH(IN_TASK(sn_chan_close(stale_channel(4, 1))), FREED);
	EXPECT_DEATH(IN_TASK(sn_chan_unref(stale_channel(4, 1))), FREED);
	EXPECT_DEATH(IN_TASK(sn_chan_len(stale_channel(4, 1))), FREED);
	EXPECT_DEATH(IN_TASK(int i = 0;
			     struct sn_case one = {{stale_channel(4, 1)}, &i, SN_CASE_RECV, 0};
			     (void)!sn_select(&one, 1, SN_TRY)),
		     FREED);
}

TEST(MisuseDeathTest, FreeingAChannelInWhichATaskWaitsIsReported)
{
	GTEST_FLAG_SET(death_test_style, TEST_DEATH_STYLE);
	EXPECT_DEATH(
		test::run(1,
			  [] {
				  sn_chan *chan = nullptr;

				  EXPECT_EQ(0, sn_chan_new(&chan, sizeof(int), 0));
				  test::Task waiter([&] {
					  int i;
					  return sn_chan_recv(chan, &i);
				  });
				  await_parked(1);
				  sn_chan_unref(chan);
			  }),
		"sn_chan_unref\\(\\) drops the last reference to a channel in which others wait");
}
#else
// Whatever would have ended the waits, they end as if the channel had been closed. The waiters
// touch no freed memory, which ASan would notice.
TASK_TEST(Misuse, FreeingAChannelInWhichTasksWaitEndsTheirWaits, 1)
{
	sn_chan *empty = nullptr, *full = nullptr, *other = nullptr;
	int one = 1;

	EXPECT_EQ(0, sn_chan_new(&empty, sizeof(int), 0));
	EXPECT_EQ(0, sn_chan_new(&full, sizeof(int), 1));
	EXPECT_EQ(0, sn_chan_new(&other, sizeof(int), 1));
	EXPECT_EQ(0, sn_chan_send(full, &one));
	test::Task plain([&] {
		int i;
		return sn_chan_recv(empty, &i);
	});
	test::Task timed([&] {
		int i;
		return sn_chan_recv_until(empty, &i, sn_now() + 60000 * ms);
	});
	test::Task sender([&] { return sn_chan_send(full, &one); });
	test::Task selecting([&] {
		int i;
		struct sn_case cases[] = {{{other}, &i, SN_CASE_RECV, 0},
					  {{empty}, &i, SN_CASE_RECV, 0}};
		const int chosen = sn_select(cases, 2, SN_NO_DEADLINE);
		return chosen == 1 ? cases[1].result : -1000 - chosen;
	});
	await_parked(4);
	sn_chan_unref(empty);
	sn_chan_unref(full);
	EXPECT_EQ(-EPIPE, plain.join());
	EXPECT_EQ(-EPIPE, timed.join());
	EXPECT_EQ(-EPIPE, sender.join());
	EXPECT_EQ(-EPIPE, selecting.join());
	sn_chan_unref(other);
}
#endif

#if !SENNIT_DEBUG && !TEST_ASAN
TASK_TEST(Misuse, FreedChannelsAreErrors, 1)
{
	int i = 0;
	struct sn_case one = {{stale_channel(4, 1)}, &i, SN_CASE_RECV, 0};

	expect_each({
		MISTAKE(-EINVAL, sn_chan_send(stale_channel(4, 0), &i)),
		MISTAKE(-EINVAL, sn_chan_try_send(stale_channel(4, 0), &i)),
		MISTAKE(-EINVAL, sn_chan_recv(stale_channel(4, 1), &i)),
		MISTAKE(-EINVAL, sn_chan_recv_until(stale_channel(4, 1), &i, sn_now() + ms)),
		MISTAKE(-EINVAL, sn_chan_close(stale_channel(4, 1))),
		MISTAKE(0, sn_chan_ref(stale_channel(4, 1)) != nullptr),
		MISTAKE(0, (sn_chan_unref(stale_channel(4, 1)), 0)),
		MISTAKE(0, sn_chan_len(stale_channel(4, 1))),
		MISTAKE(0, sn_chan_cap(stale_channel(4, 1))),
		MISTAKE(-EINVAL, sn_select(&one, 1, SN_NO_DEADLINE)),
	});
}

// The next channel of that size gets the memory, as free() and malloc() usually arrange it.
TASK_TEST(Misuse, AFreedChannelIsNotItsSuccessor, 1)
{
	for (int i = 0; i < 64; i++) {
		sn_chan *stale = stale_channel(sizeof i, 1), *next = nullptr;

		ASSERT_EQ(0, sn_chan_new(&next, sizeof i, 1));
		EXPECT_EQ(-EINVAL, sn_chan_send(stale, &i));
		EXPECT_EQ(0, sn_chan_len(next)) << "it received an element for another channel";
		sn_chan_unref(stale);
		EXPECT_EQ(0, sn_chan_send(next, &i));
		sn_chan_unref(next);
	}
}
#endif

// ---- locks ----

#if SENNIT_DEBUG
TEST(MisuseDeathTest, ReportsOfLocksNameTheTask)
{
	GTEST_FLAG_SET(death_test_style, TEST_DEATH_STYLE);
	EXPECT_DEATH(IN_TASK(sn_task_set_name("careless"); sn_mutex m = SN_MUTEX_INIT;
			     (void)sn_mutex_lock(&m); (void)sn_mutex_lock_uncancelled(&m)),
		     "sn_mutex_lock_uncancelled\\(\\).*already, in task [0-9]+ \"careless\"");
	EXPECT_DEATH(IN_TASK(sn_mutex m = SN_MUTEX_INIT; sn_mutex_unlock(&m)),
		     "sn_mutex_unlock\\(\\).*not locked, in task [0-9]+ ");
	EXPECT_DEATH(IN_TASK(sn_rwlock l = SN_RWLOCK_INIT; sn_rwlock_write_unlock(&l)),
		     "sn_rwlock_write_unlock\\(\\).*, in task [0-9]+ ");
	EXPECT_DEATH(IN_TASK(sn_waitgroup g = SN_WAITGROUP_INIT; sn_waitgroup_done(&g)),
		     "sn_waitgroup_done\\(\\).*negative, in task [0-9]+ ");
}
#endif

// Clean-up code in a cancelled scope waits for the lock.
template <class Lock, class Unlock>
void expect_uncancelled(Lock lock, Unlock unlock)
{
	test::run({1, 2}, [&] {
		std::atomic<bool> about{false}, has{false};
		sn_scope *scope = nullptr;

		ASSERT_EQ(0, lock());
		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		test::scope_go(scope, [&] {
			EXPECT_EQ(-ECANCELED, sn_sleep(test::second * 1000));
			about = true;
			EXPECT_EQ(0, lock());
			has = true;
			EXPECT_EQ(-ECANCELED, sn_cancelled())
				<< "the scope is cancelled nevertheless";
			EXPECT_EQ(0, unlock());
			return 0;
		});
		sn_yield();
		EXPECT_EQ(0, sn_scope_cancel(scope));
		sn_cancel_mask();
		EXPECT_TRUE(test::eventually([&] { return about.load(); }));
		EXPECT_FALSE(has) << "the call did not wait";
		sn_cancel_unmask();
		EXPECT_EQ(0, unlock());
		EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
		EXPECT_TRUE(has);
	});
}

TEST(Uncancelled, Mutex)
{
	sn_mutex mutex = SN_MUTEX_INIT;

	expect_uncancelled([&] { return sn_mutex_lock_uncancelled(&mutex); },
			   [&] { return sn_mutex_unlock(&mutex); });
}

TEST(Uncancelled, RwlockOfWriters)
{
	sn_rwlock lock = SN_RWLOCK_INIT;

	expect_uncancelled([&] { return sn_rwlock_write_uncancelled(&lock); },
			   [&] { return sn_rwlock_write_unlock(&lock); });
}

// A reader in clean-up code waits for a writer.
TEST(Uncancelled, RwlockOfReaders)
{
	sn_rwlock lock = SN_RWLOCK_INIT;
	int locked = 0, unlocked = 0;

	expect_uncancelled(
		[&] {
			return locked++ % 2 ? sn_rwlock_read_uncancelled(&lock)
					    : sn_rwlock_write_uncancelled(&lock);
		},
		[&] {
			return unlocked++ % 2 ? sn_rwlock_read_unlock(&lock)
					      : sn_rwlock_write_unlock(&lock);
		});
}

} // namespace
