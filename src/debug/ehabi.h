/* SPDX-License-Identifier: MIT */
/*
 * One step of a backtrace on 32-bit ARM, by tables that are not DWARF's: see ehabi.c. For
 * backtrace.c only. Async-signal-safe; reads the stack only between low and high.
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
 * pc: in the function, that is before the return address; with interrupted, the exact place. Other
 * architectures have no such tables: the step is unknown there.
 */
enum sn_step sn_ehabi_step(const struct sn_module *module, uintptr_t pc, bool interrupted,
			   struct sn_registers *registers, uintptr_t low, uintptr_t high);

#endif
