/* SPDX-License-Identifier: MIT */
/*
 * The lock of the runtime's own shared state: spins briefly, then sleeps on a futex. For threads,
 * never held across a switch or a park. Zero is unlocked.
 */
#ifndef SENNIT_WAIT_LOCK_H
#define SENNIT_WAIT_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "arch/compiler.h"

struct sn_lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody may sleep */
};

void sn_lock_slow(struct sn_lock *lock);
void sn_unlock_slow(struct sn_lock *lock);

static inline void sn_lock(struct sn_lock *lock)
{
	uint32_t unlocked = 0;

	if (sn_unlikely(!atomic_compare_exchange_strong_explicit(
		    &lock->word, &unlocked, 1, memory_order_acquire, memory_order_relaxed)))
		sn_lock_slow(lock);
}

static inline void sn_unlock(struct sn_lock *lock)
{
	if (sn_unlikely(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2))
		sn_unlock_slow(lock);
}

#endif
