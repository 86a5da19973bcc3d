/* SPDX-License-Identifier: MIT */
/*
 * The calls that the vDSO serves, and the system calls that replace it where it is missing.
 *
 * Each call goes through one function pointer of `way`. At first it points to a function that
 * resolves all pointers and then makes the call through the new one. No call therefore has to check
 * whether it is the first, and each costs one indirect call on top of the kernel's function. A
 * constructor resolves before main() wherever there is a libc to run it, so that nothing is left to
 * do when the program enters a sandbox later. In constructors that run earlier, and in programs
 * without libc, the first call resolves.
 *
 * Memory ordering: each pointer is published and read relaxed. It points to code, or to data that
 * was there from the start, so nothing else needs to be ordered with it, not even on ARM. Two
 * threads, or a signal handler and the code that it interrupted, may both resolve, because they
 * store the same values. Where a function needs a second pointer (the 32-bit functions below), the
 * initial value of the second one already works, so a thread that sees the first without the second
 * only makes a system call.
 *
 * sn_time() is inlined into programs that are compiled with the header, except on arm: the kernel's
 * function takes 2.4 ns, so a second indirect jump matters. Such programs call through
 * sn_private_seconds, an exported copy of `way.seconds`. A copy relocation may place it in the
 * program's own memory. If the library was linked with -Bsymbolic, the program's copy then keeps
 * the function that resolves, which is slower, but correct.
 *
 * Rejected: IFUNC. Its resolver runs before relocation is finished and may not call getauxval(),
 * differs between static and dynamic programs, runs before the sanitizers, draws a warning from the
 * dynamic linker in a preloaded library, and musl has none; and sn_time() could not resolve to the
 * kernel's function, which takes an argument. Rejected: a seqlock reader on the kernel's vvar page,
 * which would save a call: its layout is not a stable interface and has changed in most releases.
 */
#define SN_PRIVATE_OUT_OF_LINE 1

#include "clock/clock.h"

#include <errno.h>

#if __SIZEOF_LONG__ == 4
#	define NARROW 1
#else
#	define NARROW 0
#endif

/* With 32-bit longs the kernel has two versions of each function: an old one, and one with 64-bit
 * time. */
struct narrow_time {
	int32_t sec, fraction;
};

typedef int time_function(int id, struct sn_timespec *time);
typedef int narrow_function(int id, struct narrow_time *time);
typedef long seconds_function(long *seconds);
typedef int day_function(struct sn_timeval *time, struct sn_timezone *zone);
typedef int narrow_day_function(struct narrow_time *time, struct sn_timezone *zone);
typedef long cpu_function(unsigned int *cpu, unsigned int *node, void *unused);

static time_function first_gettime, first_getres;
static seconds_function first_seconds;
static day_function first_day;
static cpu_function first_cpu;
static ssize_t first_random(void *, size_t, unsigned int, void *, size_t);

/* Written by resolve() only. */
static struct {
	_Atomic(time_function *) gettime, getres;
	_Atomic(seconds_function *) seconds;
	_Atomic(day_function *) day;
	_Atomic(cpu_function *) cpu;
	_Atomic(sn_getrandom_function *) random;
	_Atomic unsigned char source[SN_CLOCK_CALLS];
} way = {
	first_gettime, first_getres, first_seconds, first_day, first_cpu, first_random, {0},
};

#define WAY(which) atomic_load_explicit(&way.which, memory_order_relaxed)

sn_private_seconds_function *sn_private_seconds = first_seconds;

#ifdef SN_VDSO_ENTRY
_Atomic(void *) sn_clock_entry;
#endif

/* --- system calls ------------------------------------------------------------------------------
 */

#if NARROW
/*
 * Kernels before 5.1 lack the calls with 64-bit time, and sandboxes that were written before then
 * refuse them with EPERM.
 */
static int call_64_or_32(long call64, long call32, int id, struct sn_timespec *time)
{
	long error = sn_clock_sys3(call64, id, (long)time, 0);
	int64_t both;

	if (error != -ENOSYS && error != -EPERM)
		return (int)error;
	/*
	 * The kernel writes into the caller's memory here, too, so that a bad pointer gives EFAULT.
	 * The first call writes into the second half, because that half may lie on another page.
	 */
	error = time ? sn_clock_sys3(call32, id, (long)&time->tv_nsec, 0) : 0;
	if (error == 0)
		error = sn_clock_sys3(call32, id, (long)time, 0);
	if (error == 0 && time) {
		both = time->tv_sec;
		time->tv_sec = (int32_t)both;
		time->tv_nsec = both >> 32;
	}
	return (int)error;
}

static int gettime_by_syscall(int id, struct sn_timespec *time)
{
	return call_64_or_32(__NR_clock_gettime64, __NR_clock_gettime, id, time);
}

static int getres_by_syscall(int id, struct sn_timespec *time)
{
	return call_64_or_32(__NR_clock_getres_time64, __NR_clock_getres, id, time);
}

static int narrow_gettime_by_syscall(int id, struct narrow_time *time)
{
	return (int)sn_clock_sys3(__NR_clock_gettime, id, (long)time, 0);
}

static int narrow_getres_by_syscall(int id, struct narrow_time *time)
{
	return (int)sn_clock_sys3(__NR_clock_getres, id, (long)time, 0);
}

static int narrow_day_by_syscall(struct narrow_time *time, struct sn_timezone *zone)
{
	return (int)sn_clock_sys3(__NR_gettimeofday, (long)time, (long)zone, 0);
}
#else
static int gettime_by_syscall(int id, struct sn_timespec *time)
{
	return (int)sn_clock_sys3(__NR_clock_gettime, id, (long)time, 0);
}

static int getres_by_syscall(int id, struct sn_timespec *time)
{
	return (int)sn_clock_sys3(__NR_clock_getres, id, (long)time, 0);
}

static int day_by_syscall(struct sn_timeval *time, struct sn_timezone *zone)
{
	return (int)sn_clock_sys3(__NR_gettimeofday, (long)time, (long)zone, 0);
}
#endif

#ifdef __NR_time
/* It costs a third less than clock_gettime, because the kernel copies no structure (`make
 * bench-clock`). */
static long seconds_by_syscall(long *unused)
{
	(void)unused;
	return sn_clock_sys3(__NR_time, 0, 0, 0);
}
#endif

/* The coarse clock changes at the tick, as the kernel's own function for the seconds does. */
static long seconds_by_gettime(long *unused)
{
	struct sn_timespec time;
	int error = WAY(gettime)(SN_ID_REALTIME_COARSE, &time);

	(void)unused;
	return error ? error : (long)time.tv_sec;
}

static long cpu_by_syscall(unsigned int *cpu, unsigned int *node, void *unused)
{
	(void)unused;
	return sn_clock_sys3(__NR_getcpu, (long)cpu, (long)node, 0);
}

/*
 * The clocks that vDSOs serve. For other ids the vDSO's functions would make the system call; this
 * library makes it directly, with the caller's own pointer.
 */
static inline int served(int id)
{
	static const uint32_t ids = 1u << SN_ID_REALTIME | 1u << SN_ID_MONOTONIC |
				    1u << SN_ID_MONOTONIC_RAW | 1u << SN_ID_REALTIME_COARSE |
				    1u << SN_ID_MONOTONIC_COARSE | 1u << SN_ID_BOOTTIME |
				    1u << SN_ID_TAI;

	return (unsigned int)id <= SN_ID_TAI && (ids >> id & 1);
}

/* --- 32-bit functions of the vDSO --------------------------------------------------------------
 */

#if NARROW
static struct {
	_Atomic(narrow_function *) gettime, getres;
	_Atomic(narrow_day_function *) day;
} narrow_way = {narrow_gettime_by_syscall, narrow_getres_by_syscall, narrow_day_by_syscall};

#	define NARROW_WAY(which) atomic_load_explicit(&narrow_way.which, memory_order_relaxed)

static int widen(int error, const struct narrow_time *from, struct sn_timespec *to)
{
	if (error == 0 && to) {
		to->tv_sec = from->sec;
		to->tv_nsec = from->fraction;
	}
	return error;
}

/* For kernels before 5.3, whose vDSO has no clock with 64-bit time. Correct until 2038, as these
 * kernels are. */
static int gettime_narrow(int id, struct sn_timespec *time)
{
	struct narrow_time narrow;

	if (!served(id))
		return gettime_by_syscall(id, time);
	return widen(NARROW_WAY(gettime)(id, &narrow), &narrow, time);
}

/* No resolution reaches 2^31 seconds. */
static int getres_narrow(int id, struct sn_timespec *time)
{
	struct narrow_time narrow;

	return widen(NARROW_WAY(getres)(id, time ? &narrow : NULL), &narrow, time);
}

/* gettimeofday has no 64-bit form in any 32-bit kernel. */
static int day_by_gettime(struct sn_timeval *time, struct sn_timezone *zone)
{
	struct sn_timespec now;
	int error;

	if (time) {
		error = WAY(gettime)(SN_ID_REALTIME, &now);
		if (error)
			return error;
		time->tv_sec = now.tv_sec;
		time->tv_usec = (uint32_t)now.tv_nsec / 1000;
	}
	return zone ? NARROW_WAY(day)(NULL, zone) : 0;
}
#endif

/* --- resolving ---------------------------------------------------------------------------------
 */

static void set_source(enum sn_clock_call call, int by_vdso)
{
	atomic_store_explicit(&way.source[call],
			      by_vdso ? SN_CLOCK_SOURCE_VDSO : SN_CLOCK_SOURCE_SYSCALL,
			      memory_order_relaxed);
}

#define SET(target, value) atomic_store_explicit(&(target), value, memory_order_relaxed)
#define FIND(name) (present ? sn_vdso_find(&vdso, SN_VDSO_VERSION, SN_VDSO_PREFIX name) : NULL)

static void resolve(void)
{
	struct sn_vdso vdso;
	int present = sn_vdso_self(&vdso) == 0;
	void *gettime = FIND("clock_gettime"), *getres = FIND("clock_getres");
	void *day = FIND("gettimeofday"), *seconds = FIND("time"), *cpu = FIND("getcpu");
	void *random = FIND("getrandom");

#ifdef SN_VDSO_ENTRY
	SET(sn_clock_entry, present ? sn_vdso_find(&vdso, "LINUX_2.5", SN_VDSO_ENTRY) : NULL);
#endif
#if NARROW
	/*
	 * When the timer is broken, arm kernels before 5.8 remove the 32-bit function from the
	 * image and forget the 64-bit one, which then returns a wrong time.
	 */
	void *gettime64 = gettime ? FIND("clock_gettime64") : NULL;

	if (gettime)
		SET(narrow_way.gettime, (narrow_function *)gettime);
	if (getres)
		SET(narrow_way.getres, (narrow_function *)getres);
	if (day)
		SET(narrow_way.day, (narrow_day_function *)day);
	SET(way.gettime, gettime64 ? (time_function *)gettime64
			 : gettime ? gettime_narrow
				   : gettime_by_syscall);
	SET(way.getres, getres ? getres_narrow : getres_by_syscall);
	SET(way.day, day_by_gettime);
	day = gettime;
#else
	SET(way.gettime, gettime ? (time_function *)gettime : gettime_by_syscall);
	SET(way.getres, getres ? (time_function *)getres : getres_by_syscall);
	SET(way.day, day ? (day_function *)day : day_by_syscall);
#endif
	SET(way.seconds, seconds ? (seconds_function *)seconds : seconds_by_gettime);
#ifdef __NR_time
	if (!seconds && !gettime)
		SET(way.seconds, seconds_by_syscall);
#endif
	__atomic_store_n(&sn_private_seconds, WAY(seconds), __ATOMIC_RELAXED);
	SET(way.cpu, cpu ? (cpu_function *)cpu : cpu_by_syscall);
	SET(way.random, (sn_getrandom_function *)random);

	set_source(SN_CLOCK_CALL_NOW, gettime != NULL);
	set_source(SN_CLOCK_CALL_WALLTIME, gettime != NULL);
	set_source(SN_CLOCK_CALL_TIME, seconds || gettime);
	set_source(SN_CLOCK_CALL_TIME_EXACT, gettime != NULL);
	set_source(SN_CLOCK_CALL_GETTIME, gettime != NULL);
	set_source(SN_CLOCK_CALL_GETRES, getres != NULL);
	set_source(SN_CLOCK_CALL_GETTIMEOFDAY, day != NULL);
	set_source(SN_CLOCK_CALL_GETCPU, cpu != NULL);
	set_source(SN_CLOCK_CALL_GETRANDOM, random != NULL);
}

static int first_gettime(int id, struct sn_timespec *time)
{
	resolve();
	return WAY(gettime)(id, time);
}

static int first_getres(int id, struct sn_timespec *time)
{
	resolve();
	return WAY(getres)(id, time);
}

static long first_seconds(long *seconds)
{
	resolve();
	return WAY(seconds)(seconds);
}

static int first_day(struct sn_timeval *time, struct sn_timezone *zone)
{
	resolve();
	return WAY(day)(time, zone);
}

static long first_cpu(unsigned int *cpu, unsigned int *node, void *unused)
{
	resolve();
	return WAY(cpu)(cpu, node, unused);
}

/* Never called. Its address means "not resolved yet", and NULL that there is no such function. */
static ssize_t first_random(void *bytes, size_t size, unsigned int flags, void *state,
			    size_t state_size)
{
	(void)bytes, (void)size, (void)flags, (void)state, (void)state_size;
	return -ENOSYS;
}

sn_getrandom_function *sn_clock_getrandom_function(void)
{
	if (sn_unlikely(WAY(random) == first_random))
		resolve();
	return WAY(random);
}

int sn_clock_source_of(enum sn_clock_call call)
{
	if (!WAY(source[call]))
		resolve();
	return WAY(source[call]);
}

int sn_clock_by_vdso(void)
{
	return sn_clock_source_of(SN_CLOCK_CALL_GETTIME) == SN_CLOCK_SOURCE_VDSO;
}

#ifndef SENNIT_NO_LIBC
/* Early among constructors: 101 is the first that is not the implementation's own. */
__attribute__((constructor(101))) static void prepare(void)
{
	resolve();
}
#endif

/* --- the calls ---------------------------------------------------------------------------------
 */

int sn_clock_gettime(int id, struct sn_timespec *time)
{
	/* If the vDSO made the system call, it would have no fallback for an old sandbox that
	 * refuses 64-bit time. */
	if (NARROW && sn_unlikely(!served(id)))
		return gettime_by_syscall(id, time);
	return WAY(gettime)(id, time);
}

/*
 * The vDSO of Linux 6.18 returns a resolution for auxiliary clocks (ids 16 to 23) that do not
 * exist, where the system call returns EINVAL.
 */
int sn_clock_getres(int id, struct sn_timespec *resolution)
{
	if (sn_unlikely(!served(id)))
		return getres_by_syscall(id, resolution);
	return WAY(getres)(id, resolution);
}

/* The id is a constant wherever this is inlined. */
static inline int64_t read_clock(int id)
{
	struct sn_timespec time;
	int error = WAY(gettime)(id, &time);

	return sn_unlikely(error) ? error : sn_to_ns(&time);
}

int64_t sn_now(void)
{
	return read_clock(SN_ID_MONOTONIC);
}

int64_t sn_walltime_by_kernel(void)
{
	return read_clock(SN_ID_REALTIME);
}

#if !SN_WALLTIME_BY_COUNTER
int64_t sn_walltime(void)
{
	return read_clock(SN_ID_REALTIME);
}
#endif

/*
 * On i386 the kernel's functions for the seconds give the lower half, which wraps in February 2106.
 * A call fetches the full value when the lower half differs from that of the last full value, which
 * is once a second. The last full value is kept in one word, so that two threads cannot mix their
 * halves: bits 0 to 30 of the seconds, and bit 32. Relaxed: nothing else is published with this
 * word.
 */
uint32_t sn_private_last_second;

int64_t sn_private_whole_second(uint32_t low)
{
	struct sn_timespec time;

	/* Sandboxes may allow only the old call. The last 4095 values are its errors. */
	if (WAY(gettime)(SN_ID_REALTIME_COARSE, &time) || time.tv_sec < 0)
		return low > UINT32_MAX - 4095 ? (int32_t)low : (int64_t)low;
	__atomic_store_n(&sn_private_last_second,
			 (uint32_t)time.tv_sec << 1 | (uint32_t)(time.tv_sec >> 32 & 1),
			 __ATOMIC_RELAXED);
	return time.tv_sec;
}

/* For programs that were not compiled with the header's inline version, of which this is a copy. */
int64_t sn_time(void)
{
#if NARROW && !defined(__i386__)
	/* No vDSO here has a function for the seconds. */
	struct sn_timespec time;
	int error = WAY(gettime)(SN_ID_REALTIME_COARSE, &time);

	return sn_unlikely(error) ? error : time.tv_sec;
#elif NARROW
	uint32_t low = (uint32_t)WAY(seconds)(NULL);
	uint32_t last = __atomic_load_n(&sn_private_last_second, __ATOMIC_RELAXED);

	return sn_unlikely((low << 1 ^ last) > 1) ? sn_private_whole_second(low)
						  : ((int64_t)(last & 1) << 32 | low);
#else
	return WAY(seconds)(NULL);
#endif
}

int64_t sn_time_exact(void)
{
	struct sn_timespec time;
	int error = WAY(gettime)(SN_ID_REALTIME, &time);

	return sn_unlikely(error) ? error : time.tv_sec;
}

int sn_gettimeofday(struct sn_timeval *time, struct sn_timezone *zone)
{
	return WAY(day)(time, zone);
}

int sn_getcpu(unsigned int *cpu, unsigned int *node)
{
	return (int)WAY(cpu)(cpu, node, NULL);
}
