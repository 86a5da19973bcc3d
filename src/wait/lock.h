/* SPDX-License-Identifier: MIT */
/*
 * The lock of the runtime's own shared state: spins briefly, then sleeps on a futex. For threads.
 * Zero is unlocked. Unlocking is the last access to the lock, so the next owner may free it.
 *
 * It is not held while any code of the program is called, nor across a switch, with one exception:
 * the lock of a queue of exclusive waiters (task/waiter.h). The task that parks takes it, and the
 * thread that has switched away from the task releases it, with nothing but that switch in between
 * (run_at_once() in sched/switch.c). models/scan.pml covers this.
 *
 * Unlocking is a plain store, which halves the cost of an uncontended pair: 7 ns instead of 14 on
 * the machine that this was written on. A plain store does not show the unlocking thread whether
 * another one sleeps. The unlocking thread looks into a table instead, in which a thread that is
 * about to sleep counts itself:
 *
 *	sleeper: sleepers++; barrier everywhere; sleep while the word is held
 *	unlock:  word = free; compiler barrier; if sleepers > 0 wake one
 *
 * This is Dekker's handshake, in which the rare side pays for both, as in sched/lease.h. When the
 * sleeper's membarrier() has returned, there are two cases. Either the unlocking thread's store is
 * visible, and the sleeper does not sleep. Or that thread has yet to load the count, and sees it.
 * Where membarrier is not available, or not registered yet, the unlocking thread executes a fence
 * instead.
 *
 * All locks share the table, because a lock may be gone when the table is read. A thread that
 * shares a count with a sleeper of another lock makes an unnecessary system call.
 *
 * Each lock has a line in rank.h, which SN_LOCK_INIT() or sn_lock_init() names. Only the checked
 * build keeps it (checked.h): in the word above the first bit, so that no structure grows.
 */
#ifndef SENNIT_WAIT_LOCK_H
#define SENNIT_WAIT_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "wait/checked.h"
#include "wait/rank.h"

struct sn_lock {
	_Atomic uint32_t word; /* the first bit: held; the others never change */
};

/* So many that two locks which both have sleepers seldom share a count. */
#define SN_LOCK_COUNTS 64

/* sleepers[]: written by threads on their way to sleep and back. asymmetric: set once, by
 * sn_lock_registered(). */
extern struct sn_lock_table {
	_Alignas(SN_CACHE_LINE) _Atomic bool asymmetric;
	_Atomic uint32_t sleepers[SN_LOCK_COUNTS];
} sn_lock_table;

void sn_lock_slow(struct sn_lock *lock);
void sn_unlock_slow(struct sn_lock *lock);

/* Called in a child of fork(), where the threads that sleep do not exist. */
void sn_lock_forget_sleepers(void);

/* Called when the process has registered for expedited private membarriers, which is permanent. */
void sn_lock_registered(void);

static inline _Atomic uint32_t *sn_lock_sleepers(struct sn_lock *lock)
{
	return &sn_lock_table.sleepers[(uintptr_t)lock / SN_CACHE_LINE % SN_LOCK_COUNTS];
}

#define SN_LOCK_HELD 1u

#if SENNIT_CHECKED
#	define SN_LOCK_INIT(rank)           \
		{                            \
			(uint32_t)(rank) * 2 \
		}

static inline enum sn_lock_rank sn_lock_rank(struct sn_lock *lock)
{
	return (enum sn_lock_rank)(atomic_load_explicit(&lock->word, memory_order_relaxed) / 2);
}

/* Initializes a lock in memory that is zero, or that was a lock of the same rank before. */
static inline void sn_lock_init(struct sn_lock *lock, enum sn_lock_rank rank)
{
	uint32_t zero = 0;

	atomic_compare_exchange_strong(&lock->word, &zero, (uint32_t)rank * 2);
}

/* The value of the word while the lock is free. */
static inline uint32_t sn_lock_free_word(struct sn_lock *lock)
{
	return (uint32_t)sn_lock_rank(lock) * 2;
}
#else
#	define SN_LOCK_INIT(rank) \
		{                  \
			0          \
		}

static inline void sn_lock_init(struct sn_lock *lock, enum sn_lock_rank rank)
{
	(void)lock, (void)rank;
}

static inline uint32_t sn_lock_free_word(struct sn_lock *lock)
{
	(void)lock;
	return 0;
}
#endif

static inline void sn_lock(struct sn_lock *lock)
{
	uint32_t unlocked = sn_lock_free_word(lock);

	sn_checked_lock(lock);
	if (sn_unlikely(!atomic_compare_exchange_strong_explicit(
		    &lock->word, &unlocked, unlocked | SN_LOCK_HELD, memory_order_acquire,
		    memory_order_relaxed)))
		sn_lock_slow(lock);
	sn_checked_locked(lock);
}

/* Whether any thread holds the lock. If none does, the caller sees what earlier holders did
 * (acquire). */
static inline bool sn_lock_is_held(struct sn_lock *lock)
{
	return atomic_load_explicit(&lock->word, memory_order_acquire) != sn_lock_free_word(lock);
}

static inline void sn_unlock(struct sn_lock *lock)
{
	_Atomic uint32_t *sleepers = sn_lock_sleepers(lock);

	SN_ASSERT(atomic_load_explicit(&lock->word, memory_order_relaxed) & SN_LOCK_HELD);
	sn_checked_unlock(lock);
	atomic_store_explicit(&lock->word, sn_lock_free_word(lock), memory_order_release);
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

/* Makes the lock free in a child of fork(). Its holder is the calling thread, which took it before
 * the fork (mine), or a thread that the child does not have. */
static inline void sn_lock_forget(struct sn_lock *lock, bool mine)
{
	if (mine)
		sn_checked_unlock(lock);
	atomic_store(&lock->word, sn_lock_free_word(lock));
}

#endif
