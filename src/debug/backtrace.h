/* SPDX-License-Identifier: MIT */
/*
 * Backtraces from registers, by the call-frame information that is in memory with every program
 * (.eh_frame, found through .eh_frame_hdr), so that code without frame pointers can be walked, too.
 *
 * Contract. Async-signal-safe: no heap, no lock, no thread-local. A walk reads only within the
 * bounds of the given stack, so a wrong frame ends the walk and not the process. It ends cleanly at
 * a task's entry, sn_arch_task_start, whose return address the information declares undefined. All
 * state is the caller's.
 *
 * Rejected: libgcc's unwinder, which can only begin where it is called; libunwind, which defines
 * libgcc's names a second time; frame pointers, which the C library and most programs are built
 * without.
 *
 * 32-bit ARM has tables of another kind (ehabi.h), which are valid at calls only: the second frame
 * of a task that was interrupted in a prologue may be missing. On that machine a C program has
 * tables only if it was compiled with -funwind-tables; a walk ends at the first function without
 * them.
 */
#ifndef SENNIT_DEBUG_BACKTRACE_H
#define SENNIT_DEBUG_BACKTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/registers.h"
#include "debug/call_frames.h"
#include "debug/modules.h"

#define SN_FRAME_RULES 256

/*
 * Writes at most limit return addresses, starting with the registers' pc, and returns how many it
 * has written. The stack is [low, high). If exact, the first pc is not a return address. Afterwards
 * *registers are those of the last frame, and *complete says whether the walk has reached the
 * stack's first frame.
 */
size_t sn_backtrace(struct sn_modules *modules, struct sn_registers *registers, const void *low,
		    const void *high, bool exact, uintptr_t *pcs, size_t limit, bool *complete);

#endif
