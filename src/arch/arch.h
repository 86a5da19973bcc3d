/* SPDX-License-Identifier: MIT */
/*
 * What an architecture provides. Each folder beside this file holds one architecture:
 *
 *   machine.h  sn_cpu_relax(), sn_arch_modes(), sn_arch_prepare(), SN_DEFAULT_STACK_SIZE and so on
 *   switch.S   sn_arch_switch() and sn_arch_task_start
 *
 * A saved context is one word, the stack pointer. Everything else that the calling convention
 * requires a callee to preserve lies on the stack, at that address and above. Below it may be
 * memory that the switch still needs: no more than SN_RED_ZONE (registers.h).
 *
 * The folder portable is for every other 64-bit architecture, and for builds that ask for it
 * (SENNIT_PORTABLE_SWITCH). It has switch.c in the place of switch.S.
 */
#ifndef SENNIT_ARCH_ARCH_H
#define SENNIT_ARCH_ARCH_H

#include <stddef.h>
#include <stdint.h>

#include "arch/compiler.h"

/*
 * Saves the caller's callee-saved registers on its stack and the stack pointer in *save, then
 * continues the context whose stack pointer is target. Returns when another context switches back
 * to *save, which may happen on another thread.
 */
void sn_arch_switch(void **save, void *target);

/* Where a prepared context begins: calls the function and passes the argument that it was prepared
 * with. */
void sn_arch_task_start(void);

#if SENNIT_PORTABLE_SWITCH
#	include "arch/portable/machine.h"
#elif defined(__x86_64__) && defined(__LP64__)
#	include "arch/x86_64/machine.h"
#elif defined(__i386__)
#	include "arch/i386/machine.h"
#elif defined(__aarch64__)
#	include "arch/aarch64/machine.h"
#elif defined(__arm__)
#	include "arch/arm/machine.h"
#elif defined(__riscv) && defined(__LP64__)
#	include "arch/riscv64/machine.h"
#else
#	error "sennit has no context switch for this architecture"
#endif

#endif
