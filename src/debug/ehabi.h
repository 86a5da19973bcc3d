/* SPDX-License-Identifier: MIT */
/*
 * One step of a backtrace on 32-bit ARM, by tables that are not DWARF's: see ehabi.c. Only
 * backtrace.c uses this.
 *
 * Contract. Async-signal-safe. Reads the stack only between low and high. All state is the
 * caller's.
 */
#ifndef SENNIT_DEBUG_EHABI_H
#define SENNIT_DEBUG_EHABI_H

#include "debug/backtrace.h"

enum sn_step {
	SN_STEP_UNKNOWN, /* there is no table, or it makes no sense; the registers are as before */
	SN_STEP_LAST,    /* the function has no caller */
	SN_STEP_DONE,    /* the registers are the caller's */
};

/*
 * pc must be in the function, that is, before the return address; if interrupted, it is the exact
 * place. Other architectures have no such tables, so the result is always SN_STEP_UNKNOWN.
 */
enum sn_step sn_ehabi_step(const struct sn_module *module, uintptr_t pc, bool interrupted,
			   struct sn_registers *registers, uintptr_t low, uintptr_t high);

#endif
