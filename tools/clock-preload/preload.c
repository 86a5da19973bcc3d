/* SPDX-License-Identifier: MIT */
/*
 * libsennit-clock-preload.so: gives an unmodified program sennit's clocks in place of libc's.
 *
 *     LD_PRELOAD=/usr/lib/libsennit-clock-preload.so program
 *
 * It replaces time, gettimeofday, clock_gettime, clock_getres, getcpu, timespec_get,
 * timespec_getres and ftime, the second names that glibc exports for some of them (__gettimeofday,
 * __clock_gettime), and on 32-bit machines also the names that programs with 64-bit time
 * (_TIME_BITS=64) call. It keeps libc's contract: -1 and errno on failure, EOVERFLOW for a time
 * that a 32-bit time_t cannot hold. It does not change the calls that libc makes itself.
 *
 * On x86_64 time() stays glibc's, which the dynamic linker binds directly to the vDSO's function:
 * a replacement here would add a jump. (A replacement that is bound the same way, an IFUNC, makes
 * the dynamic linker print a warning for each library that calls it.) sched_getcpu() stays glibc's
 * everywhere: it reads the thread's rseq area, which is cheaper still. clock() stays too: it
 * measures CPU time, by a system call.
 *
 * Another library that replaces a clock, such as libfaketime, is respected wherever it stands in
 * LD_PRELOAD: a definition that comes after this library, and is not libc's, is called.
 *
 * Nothing here requires that libc has been initialized: constructors of other libraries may call
 * these functions before that.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#include <sennit/clock.h>

#ifdef __GLIBC__
#	include <gnu/lib-names.h>
#endif

#define REPLACES __attribute__((visibility("default")))
#if !(defined(__x86_64__) && defined(__LP64__) && defined(__GLIBC__))
#	define REPLACES_TIME 1
#endif

/* libc declares some of these with attributes that a second declaration must not contradict. */
REPLACES int sn_libc_clock_gettime(clockid_t id, struct timespec *time) __asm__("clock_gettime");
REPLACES int sn_libc_clock_getres(clockid_t id, struct timespec *time) __asm__("clock_getres");
REPLACES int sn_libc_gettimeofday(struct timeval *time, void *zone) __asm__("gettimeofday");
#ifdef REPLACES_TIME
REPLACES time_t sn_libc_time(time_t *seconds) __asm__("time");
#endif
REPLACES int sn_libc_getcpu(unsigned int *cpu, unsigned int *node) __asm__("getcpu");
REPLACES int sn_libc_timespec_get(struct timespec *time, int base) __asm__("timespec_get");
REPLACES int sn_libc_timespec_getres(struct timespec *resolution,
				     int base) __asm__("timespec_getres");
/* The structure of <sys/timeb.h>. glibc has announced that it will remove this header. */
struct libc_timeb {
	time_t time;
	unsigned short millitm;
	short timezone, dstflag; /* not filled in any more */
};
REPLACES int sn_libc_ftime(struct libc_timeb *now) __asm__("ftime");
#ifdef __GLIBC__
REPLACES int __gettimeofday(struct timeval *time, void *zone)
	__attribute__((alias("gettimeofday")));
REPLACES int __clock_gettime(clockid_t id, struct timespec *time)
	__attribute__((alias("clock_gettime")));
#endif

#if __SIZEOF_LONG__ == 4
REPLACES int __clock_gettime64(clockid_t id, struct sn_timespec *time);
REPLACES int __clock_getres64(clockid_t id, struct sn_timespec *resolution);
REPLACES int __gettimeofday64(struct sn_timeval *time, void *zone);
REPLACES int64_t __time64(int64_t *seconds);
REPLACES int __timespec_get64(struct sn_timespec *time, int base);
REPLACES int __timespec_getres64(struct sn_timespec *resolution, int base);
#endif

/*
 * The functions of another library; NULL if no other library replaces the function. Written before
 * main() by one thread. A call before that, from an earlier constructor, gets sennit's time.
 */
static struct {
	__typeof__(sn_libc_clock_gettime) *clock_gettime;
	__typeof__(sn_libc_clock_getres) *clock_getres;
	__typeof__(sn_libc_gettimeofday) *gettimeofday;
	__typeof__(sn_libc_getcpu) *getcpu;
	__typeof__(sn_libc_timespec_get) *timespec_get;
	__typeof__(sn_libc_timespec_getres) *timespec_getres;
	__typeof__(sn_libc_ftime) *ftime;
#ifdef REPLACES_TIME
	__typeof__(sn_libc_time) *time;
#endif
#if __SIZEOF_LONG__ == 4
	__typeof__(__clock_gettime64) *clock_gettime64;
	__typeof__(__clock_getres64) *clock_getres64;
	__typeof__(__gettimeofday64) *gettimeofday64;
	__typeof__(__time64) *time64;
	__typeof__(__timespec_get64) *timespec_get64;
	__typeof__(__timespec_getres64) *timespec_getres64;
#endif
} other;

/* libc's own, for time bases that are newer than this library. Written like `other`. */
static struct {
	__typeof__(sn_libc_timespec_get) *timespec_get;
	__typeof__(sn_libc_timespec_getres) *timespec_getres;
#if __SIZEOF_LONG__ == 4
	__typeof__(__timespec_get64) *timespec_get64;
	__typeof__(__timespec_getres64) *timespec_getres64;
#endif
} libcs;

#define OTHER(name) __builtin_expect(other.name != NULL, 0)

#ifdef LIBC_SO
static void *find_other(void *libc, const char *name)
{
	void *next = dlsym(RTLD_NEXT, name);

	return next != dlsym(libc, name) ? next : NULL;
}

__attribute__((constructor)) static void find_others(void)
{
	int saved = errno;
	void *libc = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);

	if (!libc)
		return;
	other.clock_gettime = find_other(libc, "clock_gettime");
	other.clock_getres = find_other(libc, "clock_getres");
	other.gettimeofday = find_other(libc, "gettimeofday");
	other.getcpu = find_other(libc, "getcpu");
	other.timespec_get = find_other(libc, "timespec_get");
	other.timespec_getres = find_other(libc, "timespec_getres");
	other.ftime = find_other(libc, "ftime");
	libcs.timespec_get = dlsym(libc, "timespec_get");
	libcs.timespec_getres = dlsym(libc, "timespec_getres");
#	ifdef REPLACES_TIME
	other.time = find_other(libc, "time");
#	endif
#	if __SIZEOF_LONG__ == 4
	other.clock_gettime64 = find_other(libc, "__clock_gettime64");
	other.clock_getres64 = find_other(libc, "__clock_getres64");
	other.gettimeofday64 = find_other(libc, "__gettimeofday64");
	other.time64 = find_other(libc, "__time64");
	other.timespec_get64 = find_other(libc, "__timespec_get64");
	other.timespec_getres64 = find_other(libc, "__timespec_getres64");
	libcs.timespec_get64 = dlsym(libc, "__timespec_get64");
	libcs.timespec_getres64 = dlsym(libc, "__timespec_getres64");
#	endif
	dlclose(libc);
	dlerror(); /* the program must not see errors for functions that libc lacks */
	errno = saved;
}
#endif

static int fail(int error)
{
	errno = -error;
	return -1;
}

/* What libc's call returns for the result of sennit's. */
static inline int libc_result(int error)
{
	return __builtin_expect(error, 0) ? fail(error) : 0;
}

int sn_libc_getcpu(unsigned int *cpu, unsigned int *node)
{
	if (OTHER(getcpu))
		return other.getcpu(cpu, node);
	return libc_result(sn_getcpu(cpu, node));
}

#if __SIZEOF_LONG__ == 8

/* Both structures have the same layout, so nothing is converted. */
int sn_libc_clock_gettime(clockid_t id, struct timespec *time)
{
	if (OTHER(clock_gettime))
		return other.clock_gettime(id, time);
	return libc_result(sn_clock_gettime(id, (struct sn_timespec *)time));
}

int sn_libc_clock_getres(clockid_t id, struct timespec *resolution)
{
	if (OTHER(clock_getres))
		return other.clock_getres(id, resolution);
	return libc_result(sn_clock_getres(id, (struct sn_timespec *)resolution));
}

int sn_libc_gettimeofday(struct timeval *time, void *zone)
{
	if (OTHER(gettimeofday))
		return other.gettimeofday(time, zone);
	return libc_result(sn_gettimeofday((struct sn_timeval *)time, zone));
}

#	ifdef REPLACES_TIME
time_t sn_libc_time(time_t *seconds)
{
	int64_t now;

	if (OTHER(time))
		return other.time(seconds);
	now = sn_time();
	if (__builtin_expect(now < 0, 0))
		return fail((int)now);
	if (seconds)
		*seconds = (time_t)now;
	return (time_t)now;
}
#	endif

#else

/* glibc's 64-bit structures have the nanoseconds as a long, and padding after it. */
int __clock_gettime64(clockid_t id, struct sn_timespec *time)
{
	if (OTHER(clock_gettime64))
		return other.clock_gettime64(id, time);
	return libc_result(sn_clock_gettime(id, time));
}

int __clock_getres64(clockid_t id, struct sn_timespec *resolution)
{
	if (OTHER(clock_getres64))
		return other.clock_getres64(id, resolution);
	return libc_result(sn_clock_getres(id, resolution));
}

int __gettimeofday64(struct sn_timeval *time, void *zone)
{
	if (OTHER(gettimeofday64))
		return other.gettimeofday64(time, zone);
	return libc_result(sn_gettimeofday(time, zone));
}

int64_t __time64(int64_t *seconds)
{
	int64_t now;

	if (OTHER(time64))
		return other.time64(seconds);
	now = sn_time();
	if (__builtin_expect(now < 0, 0))
		return fail((int)now);
	if (seconds)
		*seconds = now;
	return now;
}

int __timespec_get64(struct sn_timespec *time, int base)
{
	if (OTHER(timespec_get64))
		return other.timespec_get64(time, base);
	if (base != TIME_UTC)
		return libcs.timespec_get64 ? libcs.timespec_get64(time, base) : 0;
	return sn_clock_gettime(CLOCK_REALTIME, time) ? 0 : base;
}

int __timespec_getres64(struct sn_timespec *resolution, int base)
{
	if (OTHER(timespec_getres64))
		return other.timespec_getres64(resolution, base);
	if (base != TIME_UTC)
		return libcs.timespec_getres64 ? libcs.timespec_getres64(resolution, base) : 0;
	return sn_clock_getres(CLOCK_REALTIME, resolution) ? 0 : base;
}

int sn_libc_clock_gettime(clockid_t id, struct timespec *time)
{
	struct sn_timespec wide;
	int error;

	if (OTHER(clock_gettime))
		return other.clock_gettime(id, time);
	error = sn_clock_gettime(id, &wide);
	if (__builtin_expect(error, 0))
		return fail(error);
	if (wide.tv_sec != (time_t)wide.tv_sec)
		return fail(-EOVERFLOW);
	time->tv_sec = (time_t)wide.tv_sec;
	time->tv_nsec = (long)wide.tv_nsec;
	return 0;
}

int sn_libc_clock_getres(clockid_t id, struct timespec *resolution)
{
	struct sn_timespec wide;
	int error;

	if (OTHER(clock_getres))
		return other.clock_getres(id, resolution);
	error = sn_clock_getres(id, &wide);
	if (__builtin_expect(error, 0))
		return fail(error);
	if (resolution) {
		resolution->tv_sec = (time_t)wide.tv_sec;
		resolution->tv_nsec = (long)wide.tv_nsec;
	}
	return 0;
}

int sn_libc_gettimeofday(struct timeval *time, void *zone)
{
	struct sn_timeval wide;
	int error;

	if (OTHER(gettimeofday))
		return other.gettimeofday(time, zone);
	error = sn_gettimeofday(time ? &wide : NULL, zone);
	if (__builtin_expect(error, 0))
		return fail(error);
	if (time) {
		if (wide.tv_sec != (time_t)wide.tv_sec)
			return fail(-EOVERFLOW);
		time->tv_sec = (time_t)wide.tv_sec;
		time->tv_usec = (long)wide.tv_usec;
	}
	return 0;
}

time_t sn_libc_time(time_t *seconds)
{
	int64_t now;

	if (OTHER(time))
		return other.time(seconds);
	now = sn_time();
	if (__builtin_expect(now < 0, 0))
		return fail((int)now);
	if (now != (time_t)now)
		return (time_t)fail(-EOVERFLOW);
	if (seconds)
		*seconds = (time_t)now;
	return (time_t)now;
}

#endif

/* --- functions built on the above ------------------------------------------------------------- */

/* sennit's time even if another library replaces clock_gettime(), because libc's functions would
 * not call that replacement either. */
static int wall_time(struct timespec *time)
{
	struct sn_timespec wide;
	int error = sn_clock_gettime(CLOCK_REALTIME, &wide);

	if (error)
		return fail(error);
	if (wide.tv_sec != (time_t)wide.tv_sec)
		return fail(-EOVERFLOW);
	time->tv_sec = (time_t)wide.tv_sec;
	time->tv_nsec = (long)wide.tv_nsec;
	return 0;
}

int sn_libc_timespec_get(struct timespec *time, int base)
{
	if (OTHER(timespec_get))
		return other.timespec_get(time, base);
	if (base != TIME_UTC)
		return libcs.timespec_get ? libcs.timespec_get(time, base) : 0;
	return wall_time(time) ? 0 : base;
}

int sn_libc_timespec_getres(struct timespec *resolution, int base)
{
	struct sn_timespec wide;

	if (OTHER(timespec_getres))
		return other.timespec_getres(resolution, base);
	if (base != TIME_UTC)
		return libcs.timespec_getres ? libcs.timespec_getres(resolution, base) : 0;
	if (sn_clock_getres(CLOCK_REALTIME, &wide))
		return 0;
	if (resolution) {
		resolution->tv_sec = (time_t)wide.tv_sec;
		resolution->tv_nsec = (long)wide.tv_nsec;
	}
	return base;
}

int sn_libc_ftime(struct libc_timeb *now)
{
	struct timespec time;

	if (OTHER(ftime))
		return other.ftime(now);
	if (wall_time(&time))
		return -1;
	*now = (struct libc_timeb){.time = time.tv_sec,
				   .millitm = (unsigned short)(time.tv_nsec / 1000000)};
	return 0;
}
