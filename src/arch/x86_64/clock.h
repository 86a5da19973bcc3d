/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_X86_64_CLOCK_H
#define SENNIT_ARCH_X86_64_CLOCK_H

#include <stddef.h>

#include "arch/tsc.h"

#define SN_LARGEST_PAGE 4096

#define SN_VDSO_VERSION "LINUX_2.6"
#define SN_VDSO_PREFIX "__vdso_"

/* The kernel's function takes some 20 ns, near the 14 of the counter itself (`make
 * bench-clock`). */
#define SN_WALLTIME_BY_COUNTER 0

static inline long sn_sys6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline long sn_sys5(long number, long a, long b, long c, long d, long e)
{
	return sn_sys6(number, a, b, c, d, e, 0);
}

static inline long sn_sys_map(void *place, size_t size, int protection, int flags)
{
	return sn_sys6(__NR_mmap, (long)place, (long)size, protection, flags, -1, 0);
}

#endif
