/* SPDX-License-Identifier: MIT */
/*
 * Slabs: the address space of stacks.
 *
 * A *slab* is one mapping that holds a number of equal *slots*. A slot is a guard, then the usable
 * stack, which grows down towards the guard. The mapping is reserved, not committed: the kernel
 * commits a page at its first access, and never a huge one.
 *
 * Contract. A slab stays mapped until the end of the run, or forever if threads are left behind at
 * the end. sn_stack_find(), which says whether an address lies in a stack, can therefore walk all
 * slabs without a lock, also in a signal handler.
 *
 * Finding against the end. A finder increments the count of finders, then reads the list of slabs.
 * The thread that ends the run replaces the list by NULL, then waits until the count is zero, and
 * only then unmaps. These four accesses are sequentially consistent, so a finder that the ending
 * thread does not see counted finds no slab in the list.
 *
 * Who may write what:
 *   the list of slabs, and whether the system has refused   any thread, under sn_stack_lock
 *                                                           (stack_store.h)
 *   the count of finders   each finder; the ending thread and the child of fork() begin a new one
 *   next, base, slot_size, class, slots   sn_stack_slab_create(), before the slab is in the list
 *                                         (next also when a run with orphans ends)
 *   used, mprotected, free, before, after   any thread, under sn_stack_lock
 *
 * Rejected: one mmap() for each stack. That takes two system calls and up to three mappings a
 * stack, and the kernel's mapping lock becomes the bottleneck of spawning.
 */
#ifndef SENNIT_STACK_STACK_SLAB_H
#define SENNIT_STACK_STACK_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/context.h"
#include "stack/stack.h"
#include "stack/stack_guard.h"

/*
 * A slab of the default class takes 12 MiB of address space: large enough that a million stacks
 * need 16,000 calls of mmap(), small enough for a 32-bit process.
 */
#define SN_STACK_SLOTS_PER_SLAB 64

/* What a free slot may hold; stack_store.h keeps one list of slabs for each value. */
enum sn_stack_warmth {
	SN_STACK_WARM, /* it may have pages */
	SN_STACK_COLD, /* it has none */
	SN_STACK_WARMTHS,
};

struct sn_slab {
	struct sn_slab *next; /* in the list of all slabs of the run, and constant during the run */
	char *base;
	size_t slot_size;
	int class;
	int slots;
	/* The slots from `used` on have never been used, and belong to no cache. Of the others,
	 * free has a bit for each that is free. */
	int used;
	int mprotected; /* how many of the guards are by mprotect() */
	uint64_t free[SN_STACK_WARMTHS];
	/* Links in the store's lists. The slab is in a list while it has slots of that kind. */
	struct sn_slab *before[SN_STACK_WARMTHS], *after[SN_STACK_WARMTHS];
#if SN_VALGRIND
	unsigned valgrind_ids[SN_STACK_SLOTS_PER_SLAB];
#endif
};
_Static_assert(SN_STACK_SLOTS_PER_SLAB <= 64, "free has 64 bits");

static inline char *sn_stack_slot(const struct sn_slab *slab, int slot)
{
	return slab->base + slab->slot_size * (size_t)slot;
}

/* The stack in a slot, and the slot of a stack. */
static inline struct sn_stack sn_stack_in_slot(struct sn_slab *slab, int slot)
{
	char *at = sn_stack_slot(slab, slot);

	return (struct sn_stack){
		.low = at + SN_STACK_GUARD_SIZE, .high = at + slab->slot_size, .slab = slab};
}

static inline int sn_stack_slot_of(struct sn_stack stack)
{
	return (int)((size_t)(stack.low - stack.slab->base) / stack.slab->slot_size);
}

/* Whether stacks of the class are not worth keeping warm: large ones are rare, and may have many
 * pages. */
static inline bool sn_stack_is_large(int class)
{
	return sn_stack_class_size(class) > 4 * SN_STACK_DEFAULT_SIZE;
}

/*
 * Whether stacks of the class may run out before memory does: address space may, in a 32-bit
 * process or if the stacks are large, and so may mappings, if guards are made by mprotect(). A task
 * then gets its stack when it is spawned, so that sn_spawn() can return -ENOMEM.
 */
bool sn_stack_is_scarce(int class);

/*
 * Notes whether the system has granted a request. If it has not, errno is that of the call, and
 * *why then says which resource ran out. Returns granted. The lock is held.
 */
bool sn_stack_note_grant(bool granted, const char *what, const char **why);

/* Makes a slab whose slots have never been used. Returns NULL if there is no room for it; *why says
 * which resource ran out. The lock is held. */
struct sn_slab *sn_stack_slab_create(int class, const char **why);

/* Gives the pages of these slots back to the kernel. Their guards stay. Called by the owner of the
 * slots, without the lock. */
void sn_stack_slab_cool(struct sn_slab *slab, uint64_t slots);

/* Called at the end of a run: the first leaves all slabs mapped, the second unmaps them. The lock
 * is held. */
void sn_stack_slabs_forget(void);
void sn_stack_slabs_destroy(void);

/* Called in the child of fork(), where no finder is left. */
void sn_stack_slabs_fork_child(void);

/*
 * Finds the stack in whose slot an address lies, among those of this run and those that earlier
 * runs left to their orphans. Returns true with the stack in *stack, and *in_guard says whether the
 * address is in the guard. Returns false if the address is in no slot. Async-signal-safe: takes no
 * lock.
 */
bool sn_stack_find(const void *address, struct sn_stack *stack, bool *in_guard);

/*
 * The count of finders. A finder that enters gets the number of the count, and gives it back when
 * it leaves. The end of a run waits until no finder is left, for so many ns at most: finders take
 * microseconds, but if one of them faults and a signal handler leaves it by a jump, it never leaves
 * the count. Then the wait gives up the count and begins a new one, so that a finder which was only
 * stopped for long cannot take the new count below zero. Returns how many were left behind. To
 * enter and to leave is async-signal-safe.
 */
uint32_t sn_stack_finder_enter(void);
void sn_stack_finder_leave(uint32_t count);
uint32_t sn_stack_finders_await(int64_t ns);

#endif
