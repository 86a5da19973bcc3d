/* SPDX-License-Identifier: MIT */
#include "wait/lock.h"

#include "wait/backoff.h"
#include "wait/futex.h"

/*
 * What these locks guard takes well under a microsecond, so a holder that has not let go after 5 is
 * not running, and spinning on would only keep the CPU from it.
 */
#define SPIN_NS 5000

void sn_lock_slow(struct sn_lock *lock)
{
	struct sn_backoff backoff = SN_BACKOFF(SPIN_NS, 0);
	uint32_t unlocked;

	while (sn_backoff_pause(&backoff)) {
		unlocked = 0;
		if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong_explicit(
			    &lock->word, &unlocked, 1, memory_order_acquire, memory_order_relaxed))
			return;
	}
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		sn_futex_wait(&lock->word, 2, 0);
}

void sn_unlock_slow(struct sn_lock *lock)
{
	sn_futex_wake(&lock->word, 1);
}
