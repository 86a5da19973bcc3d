/* SPDX-License-Identifier: MIT */
/*
 * The clock layers on an architecture that sennit does not know: system calls through the C
 * library, the vDSO where its functions are called as other functions are, and no counter.
 */
#ifndef SENNIT_ARCH_PORTABLE_CLOCK_H
#define SENNIT_ARCH_PORTABLE_CLOCK_H

#ifdef SENNIT_NO_LIBC
#	error "without a C library sennit's clocks know only x86_64, i386, aarch64, arm and riscv64"
#endif

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define SN_LARGEST_PAGE 65536

#if defined(__s390x__)
#	define SN_VDSO_VERSION "LINUX_2.6.29"
#	define SN_VDSO_PREFIX "__kernel_"
#elif defined(__loongarch_lp64)
#	define SN_VDSO_VERSION "LINUX_5.10"
#	define SN_VDSO_PREFIX "__vdso_"
#else
/* No symbol is found. On powerpc, for example, the functions report errors in a condition
 * register. */
#	define SN_VDSO_VERSION "LINUX_NONE"
#	define SN_VDSO_PREFIX "unknown "
#endif

#define SN_WALLTIME_BY_COUNTER 0

#define SN_COUNTER_CLOCKSOURCE "none"
#define SN_COUNTER_SHIFT 24

static inline long sn_sys5(long number, long a, long b, long c, long d, long e)
{
	int saved = errno;
	long result = syscall(number, a, b, c, d, e);

	if (result == -1) {
		result = -errno;
		errno = saved;
	}
	return result;
}

/* Not by sn_sys5(), because the number of arguments and their form differ (s390). */
static inline long sn_sys_map(void *place, size_t size, int protection, int flags)
{
	int saved = errno;
	void *result = mmap(place, size, protection, flags, -1, 0);

	if (result == MAP_FAILED) {
		long error = -errno;

		errno = saved;
		return error;
	}
	return (long)result;
}

static inline unsigned long sn_counter_halves(unsigned long *high)
{
	return *high = 0;
}

static inline int sn_counter_usable(void)
{
	return 0;
}

#endif
