/* SPDX-License-Identifier: MIT */
/*
 * Guards: the inaccessible bytes below a stack, where an overflow ends the program.
 *
 * Contract. A guard that was installed refuses access until its slab is unmapped. It is installed
 * in one of two ways:
 *   - by MADV_GUARD_INSTALL (Linux 6.13), which lives in the page table and splits no mapping, so
 *     that a million guarded stacks fit under vm.max_map_count;
 *   - otherwise by mprotect(), which costs two mappings a stack, while a budget of half of
 *     vm.max_map_count lasts. Past it there are no more guards: -ENOMEM. An unguarded stack is
 *     never handed out, because its overflow would corrupt another task in silence.
 * Whether the kernel really refuses access is probed at start: emulators accept advice that they do
 * not know. Where memory is locked, by mlockall() while the program runs, the kernel refuses
 * MADV_GUARD_INSTALL from then on; single guards are then installed by mprotect().
 *
 * Several guards are installed by one process_madvise() where the kernel has it (Linux 6.15).
 *
 * Who may write what:
 *   the kind, and whether several at once work   sn_stack_guards_choose(), once
 *   the budget of mappings   under sn_stack_lock (stack_store.h)
 *
 * Rejected: believing the kernel's version, or that the advice was accepted, for the reason above.
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
 * Guards of one system call: 0.85 us each instead of 1.25, most of which is the page table. With
 * more there is little left to gain, and a task waits longer for the one that it needs.
 */
#define SN_STACK_GUARDS_AT_ONCE 16

enum sn_stack_guard {
	SN_STACK_GUARD_MADVISE,
	SN_STACK_GUARD_MPROTECT,
};

/* Chooses the kind. SENNIT_STACK_GUARD=mprotect in the environment forces the fallback. Idempotent.
 * Under the lock. */
void sn_stack_guards_choose(void);

extern enum sn_stack_guard sn_stack_guard_chosen sn_hidden;

static inline enum sn_stack_guard sn_stack_guard_kind(void)
{
	return sn_stack_guard_chosen;
}

/* Whether several are installed by one call. After sn_stack_guards_choose(). */
bool sn_stack_guards_at_once(void);

/*
 * Installs the guard at that address. False, with errno, when the system refuses it. *mprotected
 * counts those by mprotect(), for sn_stack_guards_unmapped(). Under the lock, for the budget of
 * mappings.
 */
bool sn_stack_guard_install(char *at, int *mprotected);

/*
 * SN_STACK_GUARD_MADVISE only: installs those of n slots, 0 < n <= SN_STACK_GUARDS_AT_ONCE, from
 * that address on. How many have a guard now, or a negative errno. Needs no lock.
 */
int sn_stack_guards_install(char *at, size_t slot_size, int n);

/* So many guards by mprotect() are gone, with the mapping that they were in. Under the lock. */
void sn_stack_guards_unmapped(int mprotected);

#endif
