/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_RISCV64_CLOCK_H
#define SENNIT_ARCH_RISCV64_CLOCK_H

#include <stddef.h>

#define SN_LARGEST_PAGE 4096

/* The image has no function for the seconds alone: sn_time() reads CLOCK_REALTIME_COARSE. */
#define SN_VDSO_VERSION "LINUX_4.15"
#define SN_VDSO_PREFIX "__vdso_"

#define SN_WALLTIME_BY_COUNTER 0

#define SN_COUNTER_CLOCKSOURCE "riscv_clocksource"
#define SN_COUNTER_SHIFT 22 /* from 1 MHz on; machines have 1 MHz to 1 GHz */

static inline long sn_sys6(long number, long a, long b, long c, long d, long e, long f)
{
	register long a7 __asm__("a7") = number;
	register long a0 __asm__("a0") = a;
	register long a1 __asm__("a1") = b;
	register long a2 __asm__("a2") = c;
	register long a3 __asm__("a3") = d;
	register long a4 __asm__("a4") = e;
	register long a5 __asm__("a5") = f;

	__asm__ volatile("ecall"
			 : "+r"(a0)
			 : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
			 : "memory");
	return a0;
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
 * Reads of counters are ordered as a device's input is. The fence keeps the processor from reading
 * the counter before an earlier load has its value.
 */
static inline unsigned long sn_counter_halves(unsigned long *high)
{
	uint64_t value;

	__asm__ volatile("fence r, i\n\trdtime %0" : "=r"(value)::"memory");
	*high = value >> 32;
	return (uint32_t)value;
}

/*
 * The architecture requires that the counter has a constant frequency and that all harts agree to
 * within one step. The kernel reads the same register in its vDSO; where a machine has none, its
 * firmware emulates it for both.
 */
static inline int sn_counter_usable(void)
{
	return 1;
}

#endif
