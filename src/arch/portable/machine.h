/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_PORTABLE_MACHINE_H
#define SENNIT_ARCH_PORTABLE_MACHINE_H

#include <stdint.h>

/* What a saved stack pointer points to. switch.c has the rest of it. */
struct sn_arch_saved {
	/* A place in the switch itself, whose call-frame information says where the registers are:
	 * the program counter, the stack pointer and, where the compiler uses one, the frame
	 * pointer. Until the context begins, pc is where that will be, and fp is 0. */
	uintptr_t pc, sp, fp;
};

static inline void sn_cpu_relax(void)
{
	__asm__ volatile("" ::: "memory");
}

/* The caller's rounding mode. A new task inherits that of the task that spawned it, as a thread
 * does. */
uint64_t sn_arch_modes(void);

/*
 * Lays out a context below top (16-byte aligned) that begins by calling entry(arg), with these
 * modes, and returns its stack pointer.
 */
void *sn_arch_prepare(void *top, void (*entry)(void *), void *arg, uint64_t modes);

#endif
