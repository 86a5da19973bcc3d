/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_ARM_CLOCK_H
#define SENNIT_ARCH_ARM_CLOCK_H

#include <stddef.h>

#define SN_LARGEST_PAGE 65536 /* under a 64-bit kernel */

#define SN_VDSO_VERSION "LINUX_2.6"
#define SN_VDSO_PREFIX "__vdso_"

#define SN_WALLTIME_BY_COUNTER 0

#define SN_COUNTER_CLOCKSOURCE "arch_sys_counter"
#define SN_COUNTER_SHIFT 24 /* as on aarch64 */

/*
 * r7 carries the number. It is also Thumb's frame pointer, which no operand may name, so it is
 * saved and restored. The register in which it is saved is fixed, because the compiler might
 * otherwise choose r7 itself.
 */
static inline long sn_sys6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r0 __asm__("r0") = a;
	register long r1 __asm__("r1") = b;
	register long r2 __asm__("r2") = c;
	register long r3 __asm__("r3") = d;
	register long r4 __asm__("r4") = e;
	register long r5 __asm__("r5") = f;
	register long frame __asm__("r8");

	__asm__ volatile("mov %[frame], r7\n\t"
			 "mov r7, %[number]\n\t"
			 "svc #0\n\t"
			 "mov r7, %[frame]"
			 : "+r"(r0), [frame] "=&r"(frame)
			 : [number] "r"(number), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5)
			 : "memory");
	return r0;
}

static inline long sn_sys5(long number, long a, long b, long c, long d, long e)
{
	return sn_sys6(number, a, b, c, d, e, 0);
}

static inline long sn_sys_map(void *place, size_t size, int protection, int flags)
{
	return sn_sys6(__NR_mmap2, (long)place, (long)size, protection, flags, -1, 0);
}

#if __ARM_ARCH >= 7
/* As on aarch64. The register exists when the kernel's vDSO does, which the caller checks. */
static inline unsigned long sn_counter_halves(unsigned long *high)
{
	unsigned long low;

	__asm__ volatile("dmb ish\n\tisb\n\tmrrc p15, 1, %0, %1, c14"
			 : "=r"(low), "=r"(*high)::"memory");
	return low;
}

static inline int sn_counter_usable(void)
{
	return 1;
}
#else
/* The generic timer came with the seventh version of the architecture. */
static inline unsigned long sn_counter_halves(unsigned long *high)
{
	return *high = 0;
}

static inline int sn_counter_usable(void)
{
	return 0;
}
#endif

#endif
