/* SPDX-License-Identifier: MIT */
/*
 * The lock of the runtime's own shared state: spins briefly, then sleeps on a futex. For threads.
 * Zero is unlocked. Unlocking is the last access to the lock, so the next owner may free it.
 *
 * It is not held while any code of the program is called, nor across a switch, with one exception:
 * the lock of a queue of exclusive waiters (sched/waiter.h). The task that parks takes it, and the
 * thread that has switched away from the task releases it, with nothing but that switch in between
 * (run_at_once() in sched/switch.c). models/scan.pml covers this.
 *
 * Unlocking is a plain store, which halves the cost of an uncontended pair: 7 ns instead of 14 on
 * the machine that this was written on. So the unlocking thread cannot learn from the lock itself
 * whether another sleeps. It looks into a table, in which a thread that is about to sleep counts
 * itself:
 *
 *	sleeper: sleepers++; barrier everywhere; sleep while the word is held
 *	unlock:  word = free; compiler barrier; if sleepers > 0 wake one
 *
 * This is Dekker's handshake, in which the rare side pays for both, as in sched/lease.h. When the
 * sleeper's membarrier() has returned, either the unlocking thread's store is visible, and there is
 * no sleep, or that thread has yet to load the count, and sees it. Where membarrier is not
 * available, or not registered yet, the unlocking thread executes a fence instead.
 *
 * All locks share the table, because a lock may be gone when the table is read. A thread that
 * shares a count with a sleeper of another lock makes an unnecessary system call.
 */
#ifndef SENNIT_WAIT_LOCK_H
#define SENNIT_WAIT_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"

struct sn_lock {
	_Atomic uint32_t word; /* 0 free, 1 held */
};

/* Enough that locks with sleepers at the same time seldom share a count. */
#define SN_LOCK_COUNTS 64

/* Written by sleepers, on their way to sleep and back, and once by sn_lock_registered(). */
extern struct sn_lock_table {
	_Alignas(SN_CACHE_LINE) _Atomic bool asymmetric;
	_Atomic uint32_t sleepers[SN_LOCK_COUNTS];
} sn_lock_table;

void sn_lock_slow(struct sn_lock *lock);
void sn_unlock_slow(struct sn_lock *lock);

/* For a child of fork(), where the sleepers do not exist. */
void sn_lock_forget_sleepers(void);

/* The process has registered for expedited private membarriers, which is permanent. */
void sn_lock_registered(void);

static inline _Atomic uint32_t *sn_lock_sleepers(struct sn_lock *lock)
{
	return &sn_lock_table.sleepers[(uintptr_t)lock / SN_CACHE_LINE % SN_LOCK_COUNTS];
}

static inline void sn_lock(struct sn_lock *lock)
{
	uint32_t unlocked = 0;

	if (sn_unlikely(!atomic_compare_exchange_strong_explicit(
		    &lock->word, &unlocked, 1, memory_order_acquire, memory_order_relaxed)))
		sn_lock_slow(lock);
}

/* Whether anybody has it. If not, acquires what was done by those that have had it. */
static inline bool sn_lock_is_held(struct sn_lock *lock)
{
	return atomic_load_explicit(&lock->word, memory_order_acquire) != 0;
}

static inline void sn_unlock(struct sn_lock *lock)
{
	_Atomic uint32_t *sleepers = sn_lock_sleepers(lock);

	SN_ASSERT(atomic_load_explicit(&lock->word, memory_order_relaxed) == 1);
	atomic_store_explicit(&lock->word, 0, memory_order_release);
	/*
	 * Acquire: a thread that sees the registration also sees the counts of those that slept
	 * without a membarrier, because they were counted before it.
	 */
	if (sn_likely(atomic_load_explicit(&sn_lock_table.asymmetric, memory_order_acquire)))
		sn_compiler_barrier();
	else
		atomic_thread_fence(memory_order_seq_cst);
	if (sn_unlikely(atomic_load_explicit(sleepers, memory_order_relaxed) > 0))
		sn_unlock_slow(lock);
}

#endif
