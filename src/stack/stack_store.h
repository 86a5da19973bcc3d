/* SPDX-License-Identifier: MIT */
/*
 * The store: the free stacks that all processors share.
 *
 * Contract. For each class the store knows which slots of which slabs are free: *warm* ones, which
 * may have pages, and *cold* ones, which have none: they were cooled, or have never been used. It
 * hands out the warm ones first. Everything here is done under sn_stack_lock, which also guards
 * what stack_slab.h and stack_guard.h say.
 *
 * A stack in the store stays warm, because a first touch and an madvise() cost 2.5 us each where
 * spawning costs 0.2. What nobody has needed for a while is *idle*: that is the fewest warm stacks
 * that the store held in that time. stack_cool.h takes those out, to cool them.
 *
 * Slots that have never been used go, where stacks are not scarce, to a processor's cache
 * SN_STACK_GUARDS_AT_ONCE at a time: it installs their guards without the lock, which others would
 * have to wait for meanwhile.
 *
 * Who may write what:
 *   all of struct sn_stack_store   under the lock; warm is also read without
 *   whether anything is warm       under the lock: true by sn_stack_give_warm(), false by
 *                                  sn_stack_note_idle() and at the end of a run
 *   the count of mapped stacks     anyone, atomically
 */
#ifndef SENNIT_STACK_STACK_STORE_H
#define SENNIT_STACK_STACK_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "stack/stack_slab.h"
#include "wait/lock.h"

/* What is free of a class: first the slabs that were given something last. */
struct sn_stack_store {
	struct sn_slab *first[SN_STACK_WARMTHS], *last[SN_STACK_WARMTHS];
	uint32_t warm; /* stacks */
	uint32_t idle; /* the fewest there were since the last look: no task needed those */
	uint32_t owed; /* of those, the ones still to be cooled */
};

extern struct sn_lock sn_stack_lock sn_hidden;
extern struct sn_stack_store sn_stack_stores[SN_STACK_CLASSES] sn_hidden;
extern _Atomic uint64_t sn_stack_mapped_count sn_hidden;

/* Without the lock: with an old number the caller takes the lock for nothing, or a new stack where
 * a warm one was. What the stacks hold is passed on under the lock. */
static inline bool sn_stack_any_warm_of(int class)
{
	return __atomic_load_n(&sn_stack_stores[class].warm, __ATOMIC_RELAXED) > 0;
}

/* So many more slots have been used at least once, or could be without a further guard. */
static inline void sn_stack_count_mapped(void)
{
	atomic_fetch_add_explicit(&sn_stack_mapped_count, 1, memory_order_relaxed);
}

/* ---- under the lock ---- */

/* A warm stack; false: there is none. */
bool sn_stack_take_warm(int class, struct sn_stack *stack);
void sn_stack_give_warm(struct sn_stack stack);

/*
 * A cold stack, from a new slab if need be. 0, or -ENOMEM with *why; 1: the cache, which had none,
 * has unused slots now, and the caller takes one of those. cache: NULL on a thread without a
 * processor.
 */
int sn_stack_take_cold(int class, struct sn_stack *stack, struct sn_stack_cache *cache,
		       const char **why);
void sn_stack_give_cold(struct sn_slab *slab, uint64_t slots);

/* Any free slot that has a guard, warm or cold, when no other can have one. */
bool sn_stack_take_guarded(int class, struct sn_stack *stack);

/* Takes the unused slots back that a cache has left. */
void sn_stack_give_unused(struct sn_stack_cache *cache);

/* Forgets what is free, with the slabs that it was in. */
void sn_stack_store_clear(void);

/* ---- for cooling ---- */

/* False: there has been nothing warm since the last sn_stack_note_idle(). Without the lock. */
bool sn_stack_any_warm(void);

/* Under the lock: what nobody has needed since the last call is owed to the kernel. */
void sn_stack_note_idle(void);

/* Under the lock: takes warm stacks that are owed out of the slab that was given some longest ago.
 * NULL: none are owed. */
struct sn_slab *sn_stack_take_idle(uint64_t *slots);

#endif
