/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_X86_64_MACHINE_H
#define SENNIT_ARCH_X86_64_MACHINE_H

#include <stdint.h>

/* Tells the core that this is a wait loop. This saves power, and leaves the sibling its
 * resources. */
static inline void sn_cpu_relax(void)
{
	__asm__ volatile("pause" ::: "memory");
}

/* The caller's floating-point modes. A new task inherits those of the task that spawned it, as a
 * thread does. */
static inline uint64_t sn_arch_modes(void)
{
	uint32_t mxcsr;
	uint16_t x87;

	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	__asm__ volatile("fnstcw %0" : "=m"(x87));
	return (uint64_t)x87 << 32 | mxcsr;
}

/*
 * Lays out a context below top (16-byte aligned) that begins by calling entry(arg), with these
 * modes, and returns its stack pointer. Must mirror the frame that switch.S pops.
 */
static inline void *sn_arch_prepare(void *top, void (*entry)(void *), void *arg, uint64_t modes)
{
	uintptr_t *sp = (uintptr_t *)top;

	*--sp = 0; /* two words, so that the stack is aligned to 16 at sn_arch_task_start's call */
	*--sp = 0;
	*--sp = (uintptr_t)sn_arch_task_start + 1; /* after its nop */
	*--sp = 0;                                 /* rbp: ends the chain of frame pointers */
	*--sp = (uintptr_t)entry;                  /* rbx */
	*--sp = (uintptr_t)arg;                    /* r12 */
	*--sp = 0;                                 /* r13 */
	*--sp = 0;                                 /* r14 */
	*--sp = 0;                                 /* r15 */
	*--sp = modes;
	return sp;
}

#endif
