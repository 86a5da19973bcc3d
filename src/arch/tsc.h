/* SPDX-License-Identifier: MIT */
/*
 * The time-stamp counter, for both x86 architectures: what arch/machine_clock.h expects of a
 * machine's clock.h, which includes this file.
 *
 * Contract. sn_counter_usable() asks the processor and the kernel, and is to be called before the
 * first sn_counter_halves(), which would otherwise end a process that has forbidden itself rdtsc.
 * It cannot know whether the counters of all CPUs agree. The kernel watches that, and takes another
 * clock source than SN_COUNTER_CLOCKSOURCE where they do not (clock/ticks.c asks which it takes).
 * Any thread and signal handlers may call both; neither uses the C library, nor touches errno.
 */
#ifndef SENNIT_ARCH_TSC_H
#define SENNIT_ARCH_TSC_H

#include <asm/unistd.h>
#include <cpuid.h>
#include <linux/prctl.h>
#include <stdint.h>

static inline long sn_sys5(long number, long a, long b, long c, long d, long e);

#define SN_COUNTER_CLOCKSOURCE "tsc"
/* The result of the shift is the whole upper half of a product, which costs nothing on i386.
 * Counters below 1 GHz are rejected. */
#define SN_COUNTER_SHIFT 32

/*
 * rdtsc alone may run ahead of earlier loads, so a thread that has loaded another thread's time
 * could then read an earlier one; lfence waits for those loads. rdtscp waits too, costs the same
 * here (14.3 ns against 14.4, rdtsc alone 9.0) and is missing on some processors.
 */
static inline unsigned long sn_counter_halves(unsigned long *high)
{
	unsigned long low; /* rdtsc clears the registers' upper halves, where they have them */

	__asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(*high)::"memory");
	return low;
}

/*
 * Invariant TSC is the processor's guarantee for what the kernel shows as constant_tsc and
 * nonstop_tsc. A process can forbid itself rdtsc, which then kills it.
 */
static inline int sn_counter_usable(void)
{
	unsigned int a, b, c, d;
	int allowed = PR_TSC_ENABLE;

	/* lfence came with SSE2. */
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(d & bit_SSE2))
		return 0;
	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
		return 0;
	if (sn_sys5(__NR_prctl, PR_GET_TSC, (long)&allowed, 0, 0, 0) < 0)
		return 0;
	return allowed == PR_TSC_ENABLE;
}

#endif
