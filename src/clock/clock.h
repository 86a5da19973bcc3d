/* SPDX-License-Identifier: MIT */
/*
 * What the files of this layer share: the kernel's numbers of clocks, pages of their own, and the
 * fastest way into the kernel.
 *
 * Contract. Everything here works without a libc, in any thread and in signal handlers, before
 * main(), and in a child of fork(). Nothing waits, and nothing sets errno.
 *
 * Who may write what: sn_clock_entry, whoever resolves first (clock.c): all store the same value.
 */
#ifndef SENNIT_CLOCK_CLOCK_H
#define SENNIT_CLOCK_CLOCK_H

#include <stdatomic.h>

#include <sennit/clock.h>
#include <sennit/vdso.h>

#include "arch/compiler.h"
#include "arch/machine_clock.h"

/* The kernel's numbers of its clocks; <time.h> would need a libc. */
#define SN_ID_REALTIME 0
#define SN_ID_MONOTONIC 1
#define SN_ID_MONOTONIC_RAW 4
#define SN_ID_REALTIME_COARSE 5
#define SN_ID_MONOTONIC_COARSE 6
#define SN_ID_BOOTTIME 7
#define SN_ID_TAI 11

static inline int64_t sn_to_ns(const struct sn_timespec *ts)
{
	return ts->tv_sec * 1000000000 + ts->tv_nsec;
}

/* The kernel's wall clock, whatever sn_walltime() uses. */
int64_t sn_walltime_by_kernel(void);

/*
 * Memory that the kernel has to treat in a special way, and which therefore has a page of its own.
 * It is part of the library's zeroed data, so dlclose() frees it. sn_page() aligns it, because not
 * all loaders align to more than a page, and only the kernel knows how large a page is.
 */
struct sn_page {
	char bytes[2 * SN_LARGEST_PAGE];
};

#define SN_PAGE_BYTES 4096 /* the part to use; the system calls round up to the kernel's page */

static inline void *sn_page(struct sn_page *page)
{
	uintptr_t start = ((uintptr_t)page->bytes + SN_LARGEST_PAGE - 1) & -SN_LARGEST_PAGE;

	__asm__("" : "+r"(start)); /* the compiler no longer sees an array of characters */
	return (void *)start;
}

/* The vDSO's function for random bytes, NULL where there is none. */
typedef ssize_t sn_getrandom_function(void *bytes, size_t size, unsigned int flags, void *state,
				      size_t state_size);
sn_getrandom_function *sn_clock_getrandom_function(void);

/* Makes a system call by the fastest way into the kernel that there is. */
#ifdef SN_VDSO_ENTRY
extern _Atomic(void *) sn_clock_entry; /* NULL: none, or not resolved yet */

static inline long sn_clock_sys3(long number, long a, long b, long c)
{
	void *entry = atomic_load_explicit(&sn_clock_entry, memory_order_relaxed);

	return entry ? sn_sys3_by(entry, number, a, b, c) : sn_sys3(number, a, b, c);
}
#else
static inline long sn_clock_sys3(long number, long a, long b, long c)
{
	return sn_sys3(number, a, b, c);
}
#endif

/* Whether the vDSO serves clock_gettime. */
int sn_clock_by_vdso(void);

/* What resolving found for a call: SN_CLOCK_SOURCE_VDSO or _SYSCALL. */
int sn_clock_source_of(enum sn_clock_call call);

int sn_ticks_source(void);
int sn_getrandom_source(void);

/* Decides whether the counter is reliable and takes the first measurement. May be called again. */
void sn_ticks_prepare(void);

#endif
