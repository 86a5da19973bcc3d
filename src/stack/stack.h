/* SPDX-License-Identifier: MIT */
/*
 * Task stacks, as the scheduler takes and gives them.
 *
 * Contract. A stack is a guard, and above it a power of two of usable bytes (stack_size.h,
 * stack_guard.h). The guard is installed when the slot is used for the first time, and stays.
 * The holder of a stack owns its pages until it gives the stack back.
 *
 * Freed stacks go to the processor's cache, warm, and from there, when it is full, to the store
 * that all processors share (stack_store.h), still warm. The monitor cools what stays there
 * unneeded (stack_cool.h). The store hands out slots of slabs (stack_slab.h).
 *
 * Who may write what:
 *   a cache   the thread that has the processor
 *
 * Rejected: growing stacks by copying, as Go does: C code keeps addresses of its locals. Segmented
 * stacks: foreign code is not compiled for them.
 */
#ifndef SENNIT_STACK_STACK_H
#define SENNIT_STACK_STACK_H

#include <stdint.h>

#include "base/fork.h"
#include "stack/stack_size.h"

struct sn_slab;

/* A stack in use. low is the lowest usable byte, high the end; the guard ends at low. */
struct sn_stack {
	char *low, *high;
	struct sn_slab *slab;
};

/*
 * Where the first frame or argument of a task on this stack ends; a multiple of 64.
 *
 * It lies up to SN_STACK_SHIFT_MAX bytes below high. Without that, the hot lines of all parked
 * tasks, which are the uppermost of their stacks, would have the same offsets in their pages, and
 * so share a sixteenth of the sets of each cache: of 1,000 relayed connections with small requests,
 * each switch then missed the second-level cache. By the slot, so that what lies above is never
 * written, and reads as zero for a collector. Sixteen places suffice for that, and leave the lines
 * of a connection at rest within one page.
 */
#define SN_STACK_SHIFT_MAX 960
static inline uintptr_t sn_stack_top(const struct sn_stack *stack)
{
	uint32_t page = (uint32_t)((uintptr_t)stack->high >> 12);

	return ((uintptr_t)stack->high & ~(uintptr_t)63) - (page * 0x9E3779B1u >> 28) * 64;
}

/*
 * One class's cache, owned by one processor: stacks, and the slots [next, end) of a slab that have
 * never been used, if slab is not NULL; those below guarded have a guard.
 */
#define SN_STACK_CACHE_SIZE 32
struct sn_stack_cache {
	uint32_t count;
	struct sn_stack stacks[SN_STACK_CACHE_SIZE];
	struct sn_slab *slab;
	int next, guarded, end;
};

/* The beginning of a run. Idempotent. */
void sn_stacks_init(void);

/*
 * A stack of the class from the processor's caches (an array of SN_STACK_CLASSES, or NULL) or from
 * the store. Returns 0 or -ENOMEM; then *why says which resource ran out.
 */
int sn_stack_alloc(struct sn_stack *stack, int class, struct sn_stack_cache *caches,
		   const char **why);
void sn_stack_free(struct sn_stack stack, struct sn_stack_cache *caches);

/* Puts a stack into the class's cache if that is empty, except for large ones. May fail. */
void sn_stack_have_spare(int class, struct sn_stack_cache *caches);

/* Gives all that a processor's caches hold to the store. By the owner of the processor. */
void sn_stack_flush(struct sn_stack_cache *caches);

/* Leaves everything mapped and forgets it: a thread may still stand on one of the stacks. */
void sn_stacks_forget(void);

/* Unmaps everything. No stack may be in use. */
void sn_stacks_destroy(void);
void sn_stacks_fork(enum sn_fork_phase phase);

/* Stacks that have been used at least once, or could be without a further guard, and are still
 * mapped; not those that are in a cache unused. */
uint64_t sn_stacks_mapped(void);

#endif
