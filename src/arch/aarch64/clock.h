/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_AARCH64_CLOCK_H
#define SENNIT_ARCH_AARCH64_CLOCK_H

#include <stddef.h>

#define SN_LARGEST_PAGE 65536

#define SN_VDSO_VERSION "LINUX_2.6.39"
#define SN_VDSO_PREFIX "__kernel_"

#define SN_WALLTIME_BY_COUNTER 0

#define SN_COUNTER_CLOCKSOURCE "arch_sys_counter"
#define SN_COUNTER_SHIFT 24 /* from 4 MHz on; machines have 19.2 MHz to 1 GHz */

static inline long sn_sys6(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

static inline long sn_sys5(long number, long a, long b, long c, long d, long e)
{
	return sn_sys6(number, a, b, c, d, e, 0);
}

static inline long sn_sys_map(void *place, size_t size, int protection, int flags)
{
	return sn_sys6(__NR_mmap, (long)place, (long)size, protection, flags, -1, 0);
}

/*
 * isb keeps the processor from reading the counter before the control flow up to here is decided;
 * dmb ishld keeps it from reading the counter before an earlier load has its value.
 */
static inline unsigned long sn_counter_halves(unsigned long *high)
{
	uint64_t value;

	__asm__ volatile("dmb ishld\n\tisb\n\tmrs %0, cntvct_el0" : "=r"(value)::"memory");
	*high = value >> 32;
	return (uint32_t)value;
}

/*
 * The architecture guarantees that the counter is constant and does not stop. Where a chip breaks
 * that guarantee, the kernel works around it with another clock source name or without the vDSO;
 * the caller checks both.
 */
static inline int sn_counter_usable(void)
{
	return 1;
}

#endif
