/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_ARCH_I386_CLOCK_H
#define SENNIT_ARCH_I386_CLOCK_H

#include <stddef.h>

#include "arch/tsc.h"

#define SN_LARGEST_PAGE 4096

#define SN_VDSO_VERSION "LINUX_2.6"
#define SN_VDSO_ENTRY "__kernel_vsyscall" /* of version LINUX_2.5 */
#define SN_VDSO_PREFIX "__vdso_"

/* The kernel's 32-bit function takes 27 ns, the counter 16 (`make bench-clock`). */
#define SN_WALLTIME_BY_COUNTER 1

/*
 * int $0x80 is the slowest way into the kernel, but it needs nothing from the vDSO. These functions
 * are called where the vDSO is absent.
 */
static inline long sn_sys5(long number, long a, long b, long c, long d, long e)
{
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
			 : "memory");
	return result;
}

/*
 * A system call with three arguments through the vDSO's own entry, __kernel_vsyscall, which uses
 * the processor's fastest instruction for it: a quarter of the time of int $0x80 (`make
 * bench-clock`, random bytes).
 */
static inline long sn_sys3_by(void *entry, long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("call *%%esi"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c), "S"(entry)
			 : "memory", "cc");
	return result;
}

/* The old call takes its six arguments in memory, so it does not need ebp as a sixth register. */
static inline long sn_sys_map(void *place, size_t size, int protection, int flags)
{
	unsigned long arguments[6] = {(unsigned long)place, size, (unsigned long)protection,
				      (unsigned long)flags, -1ul, 0};

	return sn_sys5(__NR_mmap, (long)arguments, 0, 0, 0, 0);
}

#endif
