/* SPDX-License-Identifier: MIT */
/*
 * Guards: the inaccessible bytes below a stack, where an overflow ends the program.
 *
 * Contract. Once installed, a guard refuses access until its slab is unmapped. There are two ways
 * to install it:
 *   - by MADV_GUARD_INSTALL (Linux 6.13), which lives in the page table and splits no mapping, so
 *     that a million guarded stacks fit under vm.max_map_count;
 *   - otherwise by mprotect(), which costs two mappings a stack, while a budget of half of
 *     vm.max_map_count lasts. When it is used up, a stack that needs a new guard fails with
 *     -ENOMEM. An unguarded stack is never handed out, because its overflow would silently corrupt
 *     another task.
 * At start this module probes whether the kernel really refuses access, because emulators accept
 * advice that they do not know. If the program locks its memory later, by mlockall(), the kernel
 * refuses MADV_GUARD_INSTALL from then on; single guards are then installed by mprotect().
 *
 * Several guards are installed by one process_madvise() where the kernel has it (Linux 6.15).
 *
 * Who may write what:
 *   the kind, and whether one call can install several   sn_stack_guards_choose(), once
 *   the budget of mappings                               any thread, under sn_stack_lock
 *                                                        (stack_store.h)
 *
 * Rejected: believing the kernel's version, or that the advice was accepted, because of emulators.
 */
#ifndef SENNIT_STACK_STACK_GUARD_H
#define SENNIT_STACK_STACK_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/compiler.h"

#if UINTPTR_MAX > 0xffffffffu
/* A frame larger than the guard can jump over it; I/O buffers of 64 KiB on the stack are usual. */
#	define SN_STACK_GUARD_SIZE ((size_t)64 << 10)
#else
#	define SN_STACK_GUARD_SIZE ((size_t)16 << 10)
#endif

/*
 * How many guards one system call installs: each then takes 0.85 us instead of 1.25, mostly for the
 * page table. With more of them there is little left to gain, and a task waits longer for the one
 * that it needs.
 */
#define SN_STACK_GUARDS_AT_ONCE 16

enum sn_stack_guard {
	SN_STACK_GUARD_MADVISE,
	SN_STACK_GUARD_MPROTECT,
};

/* Chooses the kind. SENNIT_STACK_GUARD=mprotect in the environment forces the fallback. Only the
 * first call has an effect. The lock is held. */
void sn_stack_guards_choose(void);

extern enum sn_stack_guard sn_stack_guard_chosen sn_hidden;

static inline enum sn_stack_guard sn_stack_guard_kind(void)
{
	return sn_stack_guard_chosen;
}

/* Whether one system call can install several guards. Valid after sn_stack_guards_choose(). */
bool sn_stack_guards_at_once(void);

/*
 * Installs the guard at that address. Returns false, with errno, if the system refuses it.
 * Increments *mprotected, for sn_stack_guards_unmapped(), if it used mprotect(). The lock is held,
 * because it guards the budget of mappings.
 */
bool sn_stack_guard_install(char *at, int *mprotected);

/*
 * Installs the guards of n slots, 0 < n <= SN_STACK_GUARDS_AT_ONCE, the first of which begins at
 * that address. Returns how many of them have a guard now, at least one, or a negative errno. For
 * SN_STACK_GUARD_MADVISE only. Needs no lock.
 */
int sn_stack_guards_install(char *at, size_t slot_size, int n);

/* That many guards made by mprotect() were unmapped with their slab. The lock is held. */
void sn_stack_guards_unmapped(int mprotected);

#endif
