/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_ARM_MACHINE_H
#define SENNIT_ARCH_ARM_MACHINE_H

#include <stdint.h>

/*
 * The runtime's 64-bit atomics are inline ldrexd and strexd. Without these instructions the
 * compiler would call a library that takes locks, even in signal handlers.
 */
#if !(__ARM_FEATURE_LDREX & 8)
#	error "sennit needs exclusive accesses of 64 bits: ARMv6K or later (ARMv7-A is tested)"
#endif

/*
 * Waits a moment in a wait loop. The hint for that, yield, is a nop on the cores of ARMv7. isb
 * drains the pipeline, which takes some tens of cycles, much as pause does on x86.
 */
static inline void sn_cpu_relax(void)
{
#if __ARM_ARCH >= 7
	__asm__ volatile("isb" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* The caller's floating-point modes. A new task inherits those of the task that spawned it, as a
 * thread does. */
static inline uint64_t sn_arch_modes(void)
{
	uint32_t fpscr = 0;

#if __ARM_FP
	__asm__ volatile("vmrs %0, fpscr" : "=r"(fpscr));
#endif
	return fpscr;
}

/*
 * Lays out a context below top (8-byte aligned) that begins by calling entry(arg), with these
 * modes, and returns its stack pointer. Must mirror the frame that switch.S pops. Bit 0 of a
 * function's address says whether its code is ARM or Thumb.
 */
static inline void *sn_arch_prepare(void *top, void (*entry)(void *), void *arg, uint64_t modes)
{
#if __ARM_FP
	const int words = 26, integers = 17;
#else
	const int words = 10, integers = 1;
#endif
	uint32_t *sp = (uint32_t *)top - words;

	for (int i = 0; i < words; i++)
		sp[i] = 0;
	sp[integers - 1] = (uint32_t)modes; /* or padding */
	sp[integers] = (uintptr_t)entry;    /* r4 */
	sp[integers + 1] = (uintptr_t)arg;  /* r5 */
	/* r7 and r11, one of which is the frame pointer, are 0: the end of its chain. */
	/* lr: the instruction after sn_arch_task_start's nop, which has two bytes in Thumb. */
#if defined(__thumb2__)
	sp[integers + 8] = (uintptr_t)sn_arch_task_start + 2;
#else
	sp[integers + 8] = (uintptr_t)sn_arch_task_start + 4;
#endif
	return sp;
}

#endif
