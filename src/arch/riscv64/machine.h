/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_RISCV64_MACHINE_H
#define SENNIT_ARCH_RISCV64_MACHINE_H

#include <stdint.h>

/* With LP64F the switch would save half of registers that a compiler may use whole. Nothing that
 * runs Linux uses it. */
#if !defined(__riscv_float_abi_double) && !defined(__riscv_float_abi_soft)
#	error "sennit knows the ABIs lp64d and lp64 of riscv64"
#endif

/*
 * Waits a moment in a wait loop: the hint pause of Zihintpause, which is a fence that orders
 * nothing for processors without it. It is written as a number, because assemblers accept the name
 * only where the extension is enabled.
 */
static inline void sn_cpu_relax(void)
{
	__asm__ volatile(".4byte 0x0100000f" ::: "memory");
}

/* The caller's rounding mode. A new task inherits that of the task that spawned it, as a thread
 * does. */
static inline uint64_t sn_arch_modes(void)
{
	uint64_t frm = 0;

#if defined(__riscv_float_abi_double)
	__asm__ volatile("frrm %0" : "=r"(frm));
#endif
	return frm;
}

/*
 * Lays out a context below top (16-byte aligned) that begins by calling entry(arg), with these
 * modes, and returns its stack pointer. Must mirror the frame that switch.S loads.
 */
static inline void *sn_arch_prepare(void *top, void (*entry)(void *), void *arg, uint64_t modes)
{
#if defined(__riscv_float_abi_double)
	const int words = 26;
#else
	const int words = 14;
#endif
	uint64_t *sp = (uint64_t *)top - words;

	for (int i = 0; i < words; i++)
		sp[i] = 0;
	sp[0] = modes; /* or padding */
	/* The last words are s2, s1, s0 and ra. s0 is 0: the end of the chain of frame pointers. */
	sp[words - 4] = (uintptr_t)arg;
	sp[words - 3] = (uintptr_t)entry;
	sp[words - 1] = (uintptr_t)sn_arch_task_start + 4; /* after its nop */
	return sp;
}

#endif
