/* SPDX-License-Identifier: MIT */
/*
 * Task stacks, as the scheduler takes and gives them.
 *
 * Contract. A stack is a guard, and above it a power of two of usable bytes (stack_size.h,
 * stack_guard.h). The guard is installed when the slot is used for the first time, and stays.
 * The holder of a stack owns its pages until it gives the stack back.
 *
 * A freed stack goes to the processor's cache with its pages: it is *warm*. When the cache is full,
 * half of it goes, still warm, to the store that all processors share (stack_store.h). The monitor
 * returns the pages of stacks that nobody needs there to the kernel (stack_cool.h). The store hands
 * out slots of slabs (stack_slab.h).
 *
 * Who may write what:
 *   a cache   the thread that has the processor
 *
 * Rejected: growing stacks by copying, as Go does, because C code keeps addresses of its locals;
 * segmented stacks, because foreign code is not compiled for them.
 */
#ifndef SENNIT_STACK_STACK_H
#define SENNIT_STACK_STACK_H

#include <stdint.h>

#include "base/fork.h"
#include "stack/stack_size.h"

struct sn_slab;

/* A stack. low is its lowest usable byte, at which the guard ends; high is one past its highest. */
struct sn_stack {
	char *low, *high;
	struct sn_slab *slab;
};

/*
 * Where the first frame or argument of a task on this stack ends; a multiple of 64.
 *
 * It lies up to SN_STACK_SHIFT_MAX bytes below high. The hot lines of a parked task are the
 * uppermost of its stack. Without the shift they would have the same offsets in their pages in all
 * tasks, and so share a sixteenth of the sets of each cache: with 1,000 relayed connections and
 * small requests, each switch then missed the second-level cache. The shift depends on the slot
 * alone, so the bytes above are never written, and a collector reads zeros there. Sixteen places
 * suffice, and keep the lines of an idle connection within one page.
 */
#define SN_STACK_SHIFT_MAX 960
static inline uintptr_t sn_stack_top(const struct sn_stack *stack)
{
	uint32_t page = (uint32_t)((uintptr_t)stack->high >> 12);

	return ((uintptr_t)stack->high & ~(uintptr_t)63) - (page * 0x9E3779B1u >> 28) * 64;
}

/*
 * The stacks of one class that one processor owns. If slab is not NULL, the cache also owns the
 * slots [next, end) of that slab, which have never been used; those below `guarded` have a guard.
 */
#define SN_STACK_CACHE_SIZE 32
struct sn_stack_cache {
	uint32_t count;
	struct sn_stack stacks[SN_STACK_CACHE_SIZE];
	struct sn_slab *slab;
	int next, guarded, end;
};

/* Called when a run begins; only the first call has an effect. */
void sn_stacks_init(void);

/*
 * Takes a stack of the class from the processor's caches (an array of SN_STACK_CLASSES, or NULL) or
 * from the store. Returns 0, or -ENOMEM; then *why says which resource ran out.
 */
int sn_stack_alloc(struct sn_stack *stack, int class, struct sn_stack_cache *caches,
		   const char **why);
void sn_stack_free(struct sn_stack stack, struct sn_stack_cache *caches);

/* Puts a stack into the class's cache if that is empty and the class is not large. May fail, and
 * then leaves the cache empty. */
void sn_stack_have_spare(int class, struct sn_stack_cache *caches);

/* Moves everything in a processor's caches to the store. Called by the owner of the processor. */
void sn_stack_flush(struct sn_stack_cache *caches);

/* Forgets all stacks but leaves them mapped, because a thread may still run on one of them. */
void sn_stacks_forget(void);

/* Unmaps everything. No stack may be in use. */
void sn_stacks_destroy(void);
void sn_stacks_fork(enum sn_fork_phase phase);

/* The number of mapped stacks that have been used, or that the store could hand out without
 * installing a guard. The unused slots in a processor's cache do not count. */
uint64_t sn_stacks_mapped(void);

#endif
