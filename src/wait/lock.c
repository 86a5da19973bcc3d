/* SPDX-License-Identifier: MIT */
#include "wait/lock.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sennit/clock.h>

#include "wait/backoff.h"
#include "wait/futex.h"

/*
 * The work under these locks takes well under a microsecond. A holder that has not released the
 * lock after 5 us is most likely not running, and more spinning would only keep the CPU from it.
 * The histograms of "lock" (docs/waiting.md) have two peaks: 92 % of the waits in a relay, and 97 %
 * in bench-mutex, take less than 1 us, nearly none take 2 to 16, and the others take 30 to 300,
 * which is a sleep and a wake-up.
 */
#define SPIN_NS 5000

/* How long a sleep may last if the sleeper's membarrier has failed although unlocking threads rely
 * on it. */
#define UNSURE_NS 1000000

#define MEMBARRIER_PRIVATE_EXPEDITED (1 << 3)

struct sn_lock_table sn_lock_table;

void sn_lock_registered(void)
{
	atomic_store_explicit(&sn_lock_table.asymmetric, true, memory_order_release);
}

void sn_lock_forget_sleepers(void)
{
	for (int i = 0; i < SN_LOCK_COUNTS; i++)
		atomic_store(&sn_lock_table.sleepers[i], 0);
}

/*
 * Makes every thread execute a barrier. The membarrier is tried even before this thread knows of
 * the registration, because other threads may know of it. If it fails because there was none at
 * that time, every thread that unlocks without a fence does so after this thread has been counted.
 * Returns false when the membarrier should have worked but has not: in a child of fork() whose
 * kernel has forgotten the registration.
 */
static bool barrier_everywhere(void)
{
	int saved = errno;
	bool done;

	atomic_thread_fence(memory_order_seq_cst);
	done = syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) == 0;
	errno = saved;
	return done || !atomic_load(&sn_lock_table.asymmetric);
}

static bool try_lock(struct sn_lock *lock)
{
	uint32_t unlocked = sn_lock_free_word(lock);

	return atomic_load_explicit(&lock->word, memory_order_relaxed) == unlocked &&
	       atomic_compare_exchange_strong_explicit(&lock->word, &unlocked,
						       unlocked | SN_LOCK_HELD,
						       memory_order_acquire, memory_order_relaxed);
}

void sn_lock_slow(struct sn_lock *lock)
{
	SN_BACKOFF(backoff, SN_WAIT_LOCK, SPIN_NS, 0);
	_Atomic uint32_t *sleepers = sn_lock_sleepers(lock);
	bool sure;

	while (sn_backoff_pause(&backoff))
		if (try_lock(lock))
			return;
	atomic_fetch_add(sleepers, 1);
	/* This sleep is allowed with another lock held: the order of locks makes it safe, and
	 * holders are brief. */
	sn_checked_pass();
	sure = barrier_everywhere();
	while (!try_lock(lock))
		sn_futex_wait(&lock->word, sn_lock_free_word(lock) | SN_LOCK_HELD,
			      sure ? 0 : sn_now() + UNSURE_NS);
	sn_checked_pass_end();
	atomic_fetch_sub(sleepers, 1);
}

void sn_unlock_slow(struct sn_lock *lock)
{
	sn_futex_wake(&lock->word, 1);
}
