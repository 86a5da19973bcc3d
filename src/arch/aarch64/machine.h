/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_AARCH64_MACHINE_H
#define SENNIT_ARCH_AARCH64_MACHINE_H

#include <stdint.h>

/*
 * Waits a moment in a wait loop. The hint for that, yield, is a nop on every core without SMT,
 * which is nearly all of them. isb drains the pipeline, which takes some tens of cycles, much as
 * pause does on x86.
 */
static inline void sn_cpu_relax(void)
{
	__asm__ volatile("isb" ::: "memory");
}

/*
 * A saved return address as switch.S expects it. Where this is compiled for signing, the address is
 * signed with the stack pointer at which it will be used. The two instructions are nops on
 * processors without pointer authentication.
 */
static inline uintptr_t sn_arch_sign_return(uintptr_t address, uintptr_t sp)
{
#if defined(__ARM_FEATURE_PAC_DEFAULT)
	register uintptr_t x17 __asm__("x17") = address;
	register uintptr_t x16 __asm__("x16") = sp;

#	if __ARM_FEATURE_PAC_DEFAULT & 1
	__asm__("hint #8" /* pacia1716 */ : "+r"(x17) : "r"(x16));
#	else
	__asm__("hint #10" /* pacib1716 */ : "+r"(x17) : "r"(x16));
#	endif
	return x17;
#else
	(void)sp;
	return address;
#endif
}

/* The caller's floating-point modes. A new task inherits those of the task that spawned it, as a
 * thread does. */
static inline uint64_t sn_arch_modes(void)
{
	uint64_t fpcr;

	__asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
	return fpcr;
}

/*
 * Lays out a context below top (16-byte aligned) that begins by calling entry(arg), with these
 * modes, and returns its stack pointer. Must mirror the frame that switch.S loads.
 */
static inline void *sn_arch_prepare(void *top, void (*entry)(void *), void *arg, uint64_t modes)
{
	uint64_t *sp = (uint64_t *)top - 22;

	for (int i = 0; i < 22; i++)
		sp[i] = 0;
	/* sp[0] is x29: 0 ends the chain of frame pointers. sp[1] is x30: the instruction after
	 * sn_arch_task_start's nop. */
	sp[1] = sn_arch_sign_return((uintptr_t)sn_arch_task_start + 4, (uintptr_t)top);
	sp[2] = (uintptr_t)entry; /* x19 */
	sp[3] = (uintptr_t)arg;   /* x20 */
	sp[20] = modes;
	return sp;
}

#endif
