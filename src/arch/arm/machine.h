/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_ARM_MACHINE_H
#define SENNIT_ARCH_ARM_MACHINE_H

#include <stdint.h>

/*
 * The runtime's 64-bit atomics are inline ldrexd and strexd. Without these the compiler would call
 * a library that takes locks, also in signal handlers.
 */
#if !(__ARM_FEATURE_LDREX & 8)
#	error "sennit needs exclusive accesses of 64 bits: ARMv6K or later (ARMv7-A is what is tested)"
#endif

/*
 * Waits a moment in a wait loop. The hint for that, yield, is a nop on the cores of ARMv7; isb
 * drains the pipeline, some tens of cycles, much as pause does on x86.
 */
static inline void sn_cpu_relax(void)
{
#if __ARM_ARCH >= 7
	__asm__ volatile("isb" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* The floating-point modes of who calls. A new task begins with those of the task that spawned it, as a
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
 * Lays out a context below top (8-byte aligned) that begins by calling entry(arg), with these modes, and
 * returns its stack pointer. Must mirror the frame that switch.S pops. Whether the code is ARM or Thumb the
 * addresses of functions say themselves, in bit 0.
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
	/* r7 and r11, whichever is the frame pointer, are 0: the end of its chain. */
	/* lr: after sn_arch_task_start's nop. Thumb's is of two bytes. */
#if defined(__thumb2__)
	sp[integers + 8] = (uintptr_t)sn_arch_task_start + 2;
#else
	sp[integers + 8] = (uintptr_t)sn_arch_task_start + 4;
#endif
	return sp;
}

#endif
