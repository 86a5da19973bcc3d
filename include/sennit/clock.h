/* SPDX-License-Identifier: MIT */
/*
 * Clocks, read through the vDSO: without a system call where the kernel allows it.
 *
 * What holds for every call here: it does not park, any thread may call it, it is
 * async-signal-safe, leaves errno alone, allocates nothing, and uses less than 1 KiB of stack
 * (docs/clock.md tells how that is measured). They work without the runtime, and in the library
 * sennit::clock without the rest of sennit. 64-bit time everywhere, so nothing ends in 2038.
 *
 * A bad pointer is a bug of the caller's and does what it does in libc: clocks that the vDSO serves
 * write through it and crash with SIGSEGV, those that need a system call return -EFAULT.
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

/* The kernel's idea of the time zone: 0, 0 on nearly every system. */
struct sn_timezone {
	int tz_minuteswest; /* of Greenwich */
	int tz_dsttime;     /* a kind of daylight saving time that is not used any more */
};

/*
 * The clocks that cannot fail return the time. Only where a process has no vDSO and has forbidden
 * itself the system call as well do they return that call's negative errno value.
 */

/* Monotonic time in nanoseconds (CLOCK_MONOTONIC): what deadlines are points on. */
SN_API int64_t sn_now(void);

/*
 * Nanoseconds since 1970 (CLOCK_REALTIME). On i386, where sn_clock_source(SN_CLOCK_CALL_WALLTIME)
 * says SN_CLOCK_SOURCE_COUNTER, it is read off the counter as sn_ticks_now() is, with its error
 * bound, and shows that somebody set the clock up to 5 ms late.
 */
SN_API int64_t sn_walltime(void);

/*
 * Seconds since 1970, the cheapest of all. The second begins with the kernel's next tick, so it may
 * lag sn_time_exact() by up to one tick (1 to 10 ms, by the kernel's configuration), and never
 * leads.
 */
SN_API int64_t sn_time(void);

/*
 * What the inline sn_time() uses; src/clock/clock.c tells how. Not for programs: the kernel's function
 * where there is one, and where it gives half of the seconds only, what the other half is.
 */
typedef long sn__seconds_function(long *seconds);
extern SN_API sn__seconds_function *sn__seconds;
extern SN_API uint32_t sn__last_second;
SN_API int64_t sn__whole_second(uint32_t low);

/* One indirect call, as libc's time() is. Its address is that of the library's own sn_time(). */
#if defined(SN__OUT_OF_LINE)
/* The library's own source defines it. */
#elif __SIZEOF_LONG__ == 8
extern inline __attribute__((gnu_inline, always_inline)) int64_t sn_time(void)
{
	return __atomic_load_n(&sn__seconds, __ATOMIC_RELAXED)(NULL);
}
#elif defined(__i386__)
extern inline __attribute__((gnu_inline, always_inline)) int64_t sn_time(void)
{
	uint32_t low = (uint32_t)__atomic_load_n(&sn__seconds, __ATOMIC_RELAXED)(NULL);
	uint32_t last = __atomic_load_n(&sn__last_second, __ATOMIC_RELAXED);

	if (__builtin_expect((low << 1 ^ last) > 1, 0))
		return sn__whole_second(low);
	return (int64_t)(last & 1) << 32 | low;
}
#endif

/* Seconds since 1970, without that lag: the second of CLOCK_REALTIME. */
SN_API int64_t sn_time_exact(void);

/*
 * The time of a clock by its id (CLOCK_REALTIME and so on, from <time.h>, or one made from a
 * process, thread or clock device). 0, or -EINVAL for an id that the kernel does not know. Those
 * that the vDSO does not serve, such as CPU times, take a system call.
 */
SN_API int sn_clock_gettime(int id, struct sn_timespec *time);

/* The resolution of a clock; `resolution` may be NULL. 0, or -EINVAL as above. */
SN_API int sn_clock_getres(int id, struct sn_timespec *resolution);

/* CLOCK_REALTIME in microseconds, and the time zone. Each may be NULL. 0; fails as sn_now() does.
 */
SN_API int sn_gettimeofday(struct sn_timeval *time, struct sn_timezone *zone);

/*
 * The CPU and the NUMA node that the caller runs on; either may be NULL. They may have changed
 * before the call returns. 0, or a negative errno value.
 */
SN_API int sn_getcpu(unsigned int *cpu, unsigned int *node);

/*
 * Random bytes fit for keys, by getrandom(2)'s flags and rules: the number of bytes written, which
 * is `size` up to 256, and for more may be less when a signal arrives; or a negative errno value:
 * -EAGAIN with GRND_NONBLOCK before the kernel has seeded itself, -EINVAL for unknown flags,
 * -ENOSYS before Linux 3.17. Bytes are not repeated after fork(). Linux 6.11 and later make them
 * without a system call; it then keeps one page, mapped by the first call.
 */
SN_API ssize_t sn_getrandom(void *bytes, size_t size, unsigned int flags);

/*
 * The counter itself (TSC, CNTVCT), or sn_now() where there is none to be trusted. For short spans
 * on one machine; it is read after everything before it in program order is done.
 */
SN_API uint64_t sn_ticks(void);

/*
 * Monotonic time in nanoseconds off the counter: for a little more than the counter read it gives
 * CLOCK_MONOTONIC to within the bound that docs/clock.md states. It never goes back in a process,
 * whichever of its threads reads, and is measured against the kernel's clock 250 times a second, by
 * whoever calls it then. Where the counter cannot be trusted, in the first 20 ms, and in the first
 * 20 ms after fork(), it is sn_now(). After fork() the child may read up to the error bound less
 * than the parent just did.
 *
 * When a process enters another time namespace with setns(), which the kernel allows only while it has
 * one thread, this clock follows within 10 ms, and goes back if CLOCK_MONOTONIC did. sn_now() and
 * all others follow at once.
 */
SN_API int64_t sn_ticks_now(void);

/* Which way a call takes. */
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
 * Which way the call takes now, or -EINVAL for an unknown one. With SN_CLOCK_SOURCE_VDSO the
 * kernel's function decides: it makes a system call of its own for CPU times and other ids that it
 * does not serve, and for all of them while the machine's clock source cannot be read by programs
 * (/sys/devices/system/clocksource/clocksource0/current_clocksource).
 */
SN_API int sn_clock_source(enum sn_clock_call call);

/* "system call", "vDSO", "counter"; "unknown" for anything else. Static, never NULL. */
SN_API const char *sn_clock_source_name(int source);

SN_END

#endif
