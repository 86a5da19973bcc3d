/* SPDX-License-Identifier: MIT */
/*
 * What the vdso and clock layers need from an architecture, and io/sys.c its system calls. Each
 * <arch>/clock.h has
 *
 *   SN_VDSO_VERSION, SN_VDSO_PREFIX  the version and the prefix of the kernel's vDSO symbols
 *   sn_sys1() to sn_sys5()           system calls: the result, or a negative errno value. They are
 *                                    not libc's syscall(), because these layers work without a
 *                                    libc and must not touch errno. All but i386 and the
 *                                    portable one have sn_sys6(), too
 *   sn_sys_map()                     anonymous memory at a given place, with mmap's protection and
 *                                    flags
 *   SN_LARGEST_PAGE                  bytes of the largest page that a kernel may be built with
 *   sn_counter_halves()              the free-running counter's lower half; it stores the upper. It
 *                                    is read after everything that precedes it in program order has
 *                                    completed, loads included, so it is not less than a counter
 *                                    value that the caller has got from another thread
 *   SN_COUNTER_CLOCKSOURCE           the kernel's name for it
 *   SN_COUNTER_SHIFT                 a shift with which nanoseconds per step fit into 32 bits
 *   sn_counter_usable()              whether user code may read the counter, and it runs evenly
 *   SN_WALLTIME_BY_COUNTER           whether sn_walltime() gains from reading the counter
 */
#ifndef SENNIT_ARCH_MACHINE_CLOCK_H
#define SENNIT_ARCH_MACHINE_CLOCK_H

#include <asm/unistd.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__LP64__)
#	include "arch/x86_64/clock.h"
#elif defined(__i386__)
#	include "arch/i386/clock.h"
#elif defined(__aarch64__) && defined(__LP64__)
#	include "arch/aarch64/clock.h"
#elif defined(__arm__)
#	include "arch/arm/clock.h"
#elif defined(__riscv) && defined(__LP64__)
#	include "arch/riscv64/clock.h"
#else
#	include "arch/portable/clock.h"
#endif

/* The counter as one value, at the cost of joining the halves. */
static inline uint64_t sn_counter(void)
{
	unsigned long high, low = sn_counter_halves(&high);

	return (uint64_t)high << 32 | low;
}

static inline long sn_sys1(long number, long a)
{
	return sn_sys5(number, a, 0, 0, 0, 0);
}

static inline long sn_sys2(long number, long a, long b)
{
	return sn_sys5(number, a, b, 0, 0, 0);
}

static inline long sn_sys3(long number, long a, long b, long c)
{
	return sn_sys5(number, a, b, c, 0, 0);
}

static inline long sn_sys4(long number, long a, long b, long c, long d)
{
	return sn_sys5(number, a, b, c, d, 0);
}

#endif
