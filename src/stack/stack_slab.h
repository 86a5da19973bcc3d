/* SPDX-License-Identifier: MIT */
/*
 * Slabs: the address space of stacks.
 *
 * A *slab* is one mapping that holds a number of equal *slots*; a slot is a guard, then the usable
 * stack, growing down towards the guard. The mapping is reserved, not committed: the kernel gives a
 * page at its first touch, and never a huge one.
 *
 * Contract. A slab stays mapped until the end of the run, and if threads are left behind at the
 * end, forever. So sn_stack_find() can walk all slabs without a lock, in a signal handler too: it
 * says whether an address lies in a stack.
 *
 * Finding against the end. A finder counts itself, then reads the list of slabs. The end takes the
 * list away, then waits until no finder is counted, and only then unmaps. One of the two sees the
 * other.
 *
 * Who may write what:
 *   the list of slabs, and whether the system has refused   under sn_stack_lock (stack_store.h)
 *   the count of finders   each finder; zero, by the end, and by the child of fork()
 *   next, base, slot_size, class, slots   sn_stack_slab_create()
 *   used, mprotected, free, before, after   under sn_stack_lock
 *
 * Rejected: one mmap() a stack, which is two system calls and up to three mappings each, where the
 * kernel's mapping lock becomes the bottleneck of spawning.
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

/* What a free slot may hold; stack_store.h keeps a list of slabs for each. */
enum sn_stack_warmth {
	SN_STACK_WARM, /* it may have pages */
	SN_STACK_COLD, /* it has none */
	SN_STACK_WARMTHS,
};

struct sn_slab {
	struct sn_slab *next; /* in the list of all; never changes once published */
	char *base;
	size_t slot_size;
	int class;
	int slots;
	/* Slots from used on have never been used, and belong to no cache; a bit for each of the
	 * others that is free. */
	int used;
	int mprotected; /* how many of the guards are by mprotect() */
	uint64_t free[SN_STACK_WARMTHS];
	/* In a list while it has what the list is for. */
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

/* Large stacks may have touched much, and are rare: not worth keeping warm. */
static inline bool sn_stack_is_large(int class)
{
	return sn_stack_class_size(class) > 4 * SN_STACK_DEFAULT_SIZE;
}

/*
 * Whether stacks of the class may run out before memory does: of address space in a 32-bit process
 * or when they are large, of mappings with guards by mprotect(). Then a task gets its stack when it
 * is spawned, so that -ENOMEM is the spawn's.
 */
bool sn_stack_is_scarce(int class);

/*
 * Notes whether the system has granted what was asked for; errno is that of the call when it has
 * not. Then *why says what ran out. Returns granted. Under the lock.
 */
bool sn_stack_note_grant(bool granted, const char *what, const char **why);

/* A new slab, no slot of which has been used. NULL: there is no room for it, as *why says. Under
 * the lock. */
struct sn_slab *sn_stack_slab_create(int class, const char **why);

/* Gives the pages of these slots back to the kernel. Their guards stay. Without the lock, by the
 * owner of the slots. */
void sn_stack_slab_cool(struct sn_slab *slab, uint64_t slots);

/* The end of a run: leaves all slabs mapped, or unmaps them. Under the lock. */
void sn_stack_slabs_forget(void);
void sn_stack_slabs_destroy(void);

/* In the child of fork() no finder is left. */
void sn_stack_slabs_fork_child(void);

/*
 * What lies at an address, in this run or in one whose orphans are alive: a stack's slot (true,
 * with the stack in *stack; *in_guard says which part of it) or no stack (false).
 * Async-signal-safe: takes no lock.
 */
bool sn_stack_find(const void *address, struct sn_stack *stack, bool *in_guard);

#endif
