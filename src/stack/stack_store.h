/* SPDX-License-Identifier: MIT */
/*
 * The store: the free stacks that all processors share.
 *
 * Contract. For each class the store knows which slots of which slabs are free. *Warm* ones may
 * have pages. *Cold* ones have none: they were cooled, or have never been used. The store hands out
 * warm ones first. Every caller holds sn_stack_lock, except where a function says otherwise. The
 * lock also guards the fields that stack_slab.h and stack_guard.h name.
 *
 * A stack in the store stays warm, because a first touch and an madvise() cost 2.5 us each, while
 * spawning costs 0.2. The number of *idle* stacks in a period is the fewest warm stacks that the
 * store held during it: nobody has needed that many. stack_cool.h takes as many out to cool them.
 *
 * Where stacks are not scarce, slots that have never been used go to a processor's cache,
 * SN_STACK_GUARDS_AT_ONCE at a time. The processor's thread installs their guards without the lock,
 * so that no other thread has to wait for that.
 *
 * Who may write what:
 *   all of struct sn_stack_store   any thread, under the lock; others read warm without it
 *   whether anything is warm       under the lock: sn_stack_give_warm() sets it,
 *                                  sn_stack_note_idle() and the end of a run clear it
 *   the count of mapped stacks     any thread, atomically
 */
#ifndef SENNIT_STACK_STACK_STORE_H
#define SENNIT_STACK_STACK_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "stack/stack_slab.h"
#include "wait/lock.h"

/* The free stacks of a class. The slab to which a stack was last given comes first in a list. */
struct sn_stack_store {
	struct sn_slab *first[SN_STACK_WARMTHS], *last[SN_STACK_WARMTHS];
	uint32_t warm; /* how many warm stacks the store has */
	uint32_t idle; /* the smallest value of warm since the last sn_stack_note_idle() */
	uint32_t owed; /* how many of those that were idle then are still to be cooled */
};

extern struct sn_lock sn_stack_lock sn_hidden;
extern struct sn_stack_store sn_stack_stores[SN_STACK_CLASSES] sn_hidden;
extern _Atomic uint64_t sn_stack_mapped_count sn_hidden;

/* Called without the lock, hence atomic. Relaxed: with a stale number the caller takes the lock in
 * vain, or a new stack although there is a warm one. A warm stack is passed on under the lock. */
static inline bool sn_stack_any_warm_of(int class)
{
	return __atomic_load_n(&sn_stack_stores[class].warm, __ATOMIC_RELAXED) > 0;
}

/* One more stack is mapped, in the sense of sn_stacks_mapped(). */
static inline void sn_stack_count_mapped(void)
{
	atomic_fetch_add_explicit(&sn_stack_mapped_count, 1, memory_order_relaxed);
}

/* ---- under the lock ---- */

/* Takes a warm stack. Returns false if there is none. */
bool sn_stack_take_warm(int class, struct sn_stack *stack);
void sn_stack_give_warm(struct sn_stack stack);

/*
 * Takes a cold stack, from a new slab if necessary. Returns 0 if *stack is one; 1 if the cache,
 * which must have had no unused slots, has some now, of which the caller takes one; or -ENOMEM with
 * *why. cache is NULL on a thread without a processor.
 */
int sn_stack_take_cold(int class, struct sn_stack *stack, struct sn_stack_cache *cache,
		       const char **why);
void sn_stack_give_cold(struct sn_slab *slab, uint64_t slots);

/* Takes any free slot that has a guard, warm or cold, for use when no new guard can be installed.
 * Returns false if there is none. */
bool sn_stack_take_guarded(int class, struct sn_stack *stack);

/* Takes back the unused slots that a cache still has. */
void sn_stack_give_unused(struct sn_stack_cache *cache);

/* Forgets all free stacks, because their slabs are gone or forgotten. */
void sn_stack_store_clear(void);

/* ---- for cooling ---- */

/* False if no stack has been warm since the last sn_stack_note_idle(). Needs no lock. */
bool sn_stack_any_warm(void);

/* The lock is held. The stacks that were idle since the last call are to be cooled from now on. */
void sn_stack_note_idle(void);

/* The lock is held. Takes stacks that are to be cooled out of the last slab of a list of warm ones,
 * and returns that slab; NULL if no more are to be cooled. */
struct sn_slab *sn_stack_take_idle(uint64_t *slots);

#endif
