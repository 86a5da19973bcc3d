/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_I386_MACHINE_H
#define SENNIT_ARCH_I386_MACHINE_H

#include <stdint.h>

/* Tells the core that this is a wait loop. On processors without it, pause is a nop. */
static inline void sn_cpu_relax(void)
{
	__asm__ volatile("pause" ::: "memory");
}

/* As on x86_64. */
static inline uint64_t sn_arch_modes(void)
{
	uint32_t mxcsr = 0;
	uint16_t x87;

#ifdef __SSE__
	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
#endif
	__asm__ volatile("fnstcw %0" : "=m"(x87));
	return (uint64_t)x87 << 32 | mxcsr;
}

/* As on x86_64: lays out what switch.S pops. */
static inline void *sn_arch_prepare(void *top, void (*entry)(void *), void *arg, uint64_t modes)
{
	uintptr_t *sp = (uintptr_t *)top;

	*--sp = 0; /* four words, so that the stack is aligned to 16 at sn_arch_task_start's call */
	*--sp = 0;
	*--sp = 0;
	*--sp = 0;
	*--sp = (uintptr_t)sn_arch_task_start + 1; /* after its nop */
	*--sp = 0;                                 /* ebp */
	*--sp = (uintptr_t)entry;                  /* ebx */
	*--sp = (uintptr_t)arg;                    /* esi */
	*--sp = 0;                                 /* edi */
	*--sp = (uint32_t)(modes >> 32);
	*--sp = (uint32_t)modes;
	return sp;
}

#endif
