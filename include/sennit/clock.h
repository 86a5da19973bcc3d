/* SPDX-License-Identifier: MIT */
/*
 * Clocks, read through the vDSO, so without a system call where the kernel allows it.
 *
 * All calls here have this in common: they do not park, any thread may call them, they are
 * async-signal-safe, preserve errno, allocate nothing, and use less than 1 KiB of stack
 * (docs/clock.md says how that is measured). They work without the runtime, and in the library
 * sennit::clock without the rest of sennit. Time has 64 bits everywhere, so nothing ends in 2038.
 *
 * A bad pointer has the effect that it has in libc: clocks that the vDSO serves write through it
 * and crash with SIGSEGV; those that need a system call return -EFAULT.
 *
 * Threads outside the runtime: all calls. Signal handlers: all calls.
 */
#ifndef SENNIT_CLOCK_H
#define SENNIT_CLOCK_H

#include <sennit/base.h>

SN_BEGIN

/* A point in time or a span, as the kernel lays it out for 64-bit time, on every architecture. */
struct sn_timespec {
	int64_t tv_sec;  /* seconds */
	int64_t tv_nsec; /* 0 to 999999999 */
};

/* The same in microseconds, for sn_gettimeofday(). */
struct sn_timeval {
	int64_t tv_sec;  /* seconds */
	int64_t tv_usec; /* 0 to 999999 */
};

/* The kernel's time zone: 0, 0 on nearly every system. */
struct sn_timezone {
	int tz_minuteswest; /* of Greenwich */
	int tz_dsttime;     /* a kind of daylight saving time, obsolete */
};

/*
 * The clocks that cannot fail return the time. They return a negative errno value, that of the
 * system call, only in a process that has no vDSO and has forbidden itself the system call too.
 */

/* Monotonic time in nanoseconds (CLOCK_MONOTONIC), the clock of all deadlines. */
SN_API int64_t sn_now(void);

/*
 * Nanoseconds since 1970 (CLOCK_REALTIME). On i386, where sn_clock_source(SN_CLOCK_CALL_WALLTIME)
 * says SN_CLOCK_SOURCE_COUNTER, it is read from the counter, as sn_ticks_now() is, with the same
 * error bound. There, a change of the wall clock shows up to 5 ms late.
 */
SN_API int64_t sn_walltime(void);

/*
 * Seconds since 1970, from the cheapest of all clocks. The second begins with the kernel's next
 * tick, so it may lag sn_time_exact() by up to one tick (1 to 10 ms, depending on the kernel's
 * configuration). It is never ahead.
 */
SN_API int64_t sn_time(void);

/*
 * What the inline sn_time() uses; src/clock/clock.c explains it. Not for programs: the kernel's
 * function where there is one, and, where that returns only the lower half of the seconds, what the
 * upper half is derived from.
 */
typedef long sn_private_seconds_function(long *seconds);
extern SN_API sn_private_seconds_function *sn_private_seconds;
extern SN_API uint32_t sn_private_last_second;
SN_API int64_t sn_private_whole_second(uint32_t low);

/* One indirect call, as in libc's time(). Its address is that of the library's own sn_time(). */
#if defined(SN_PRIVATE_OUT_OF_LINE)
/* The library's own source defines it. */
#elif __SIZEOF_LONG__ == 8
extern inline __attribute__((gnu_inline, always_inline)) int64_t sn_time(void)
{
	return __atomic_load_n(&sn_private_seconds, __ATOMIC_RELAXED)(NULL);
}
#elif defined(__i386__)
extern inline __attribute__((gnu_inline, always_inline)) int64_t sn_time(void)
{
	uint32_t low = (uint32_t)__atomic_load_n(&sn_private_seconds, __ATOMIC_RELAXED)(NULL);
	uint32_t last = __atomic_load_n(&sn_private_last_second, __ATOMIC_RELAXED);

	if (__builtin_expect((low << 1 ^ last) > 1, 0))
		return sn_private_whole_second(low);
	return (int64_t)(last & 1) << 32 | low;
}
#endif

/* Seconds since 1970, without that lag: the second of CLOCK_REALTIME. */
SN_API int64_t sn_time_exact(void);

/*
 * Gets the time of a clock by its id (CLOCK_REALTIME and so on, from <time.h>, or an id derived
 * from a process, thread or clock device). Returns 0, or -EINVAL for an id that the kernel does not
 * know. Clocks that the vDSO does not serve, such as CPU times, take a system call.
 */
SN_API int sn_clock_gettime(int id, struct sn_timespec *time);

/* Gets the resolution of a clock; `resolution` may be NULL. Returns 0, or -EINVAL as above. */
SN_API int sn_clock_getres(int id, struct sn_timespec *resolution);

/*
 * CLOCK_REALTIME in microseconds, and the time zone. Each pointer may be NULL. Returns 0; fails as
 * sn_now() does.
 */
SN_API int sn_gettimeofday(struct sn_timeval *time, struct sn_timezone *zone);

/*
 * Gets the CPU and the NUMA node on which the caller runs; either pointer may be NULL. They may
 * have changed before the call returns. Returns 0, or a negative errno value.
 */
SN_API int sn_getcpu(unsigned int *cpu, unsigned int *node);

/*
 * Random bytes fit for keys, with the flags and rules of getrandom(2). Returns the number of bytes
 * written: `size` if that is at most 256; beyond that it may be less when a signal arrives. Errors:
 * -EAGAIN with GRND_NONBLOCK before the kernel's generator is seeded, -EINVAL for unknown flags,
 * -ENOSYS before Linux 3.17. Bytes are not repeated after fork(). Linux 6.11 and later generate
 * them without a system call; that keeps one page, which the first call maps.
 */
SN_API SN_CHECK_RESULT ssize_t sn_getrandom(void *bytes, size_t size, uint32_t flags);

/*
 * Returns the counter itself (TSC, CNTVCT), or sn_now() where there is no reliable counter. For
 * short spans on one machine. The counter is read after everything that precedes the call in
 * program order has completed.
 */
SN_API uint64_t sn_ticks(void);

/*
 * Monotonic time in nanoseconds from the counter: for little more than the counter read it gives
 * CLOCK_MONOTONIC to within the bound that docs/clock.md states. It never goes back in a process,
 * whichever thread reads it. It is compared with the kernel's clock 250 times a second, by
 * whichever caller comes at that moment. Where the counter is not reliable, in the first 20 ms, and
 * in the first 20 ms after fork(), it is sn_now(). After fork() the child may read up to the error
 * bound less than the parent just did.
 *
 * When a process enters another time namespace with setns(), which the kernel allows only while it
 * has one thread, this clock follows within 10 ms, and goes back if CLOCK_MONOTONIC did. sn_now()
 * and all others follow immediately.
 */
SN_API int64_t sn_ticks_now(void);

/* A call whose implementation sn_clock_source() reports. */
enum sn_clock_call {
	SN_CLOCK_CALL_NOW,
	SN_CLOCK_CALL_WALLTIME,
	SN_CLOCK_CALL_TIME,
	SN_CLOCK_CALL_TIME_EXACT,
	SN_CLOCK_CALL_GETTIME,
	SN_CLOCK_CALL_GETRES,
	SN_CLOCK_CALL_GETTIMEOFDAY,
	SN_CLOCK_CALL_GETCPU,
	SN_CLOCK_CALL_GETRANDOM,
	SN_CLOCK_CALL_TICKS,
	SN_CLOCK_CALL_TICKS_NOW,
	SN_CLOCK_CALLS /* how many there are */
};

/* The ways that a call may take. */
enum sn_clock_source {
	SN_CLOCK_SOURCE_SYSCALL = 1, /* a system call */
	SN_CLOCK_SOURCE_VDSO,        /* the kernel's function in the vDSO */
	SN_CLOCK_SOURCE_COUNTER      /* the counter */
};

/*
 * Returns how the call is served now, or -EINVAL for an unknown call. With SN_CLOCK_SOURCE_VDSO the
 * kernel's function decides: it makes a system call of its own for CPU times and other ids that it
 * does not serve, and for all ids while programs cannot read the machine's clock source
 * (/sys/devices/system/clocksource/clocksource0/current_clocksource).
 */
SN_API int sn_clock_source(enum sn_clock_call call);

/* "system call", "vDSO", "counter"; "unknown" for anything else. Static, never NULL. */
SN_API const char *sn_clock_source_name(int source);

SN_END

#endif
