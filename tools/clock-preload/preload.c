/* SPDX-License-Identifier: MIT */
/*
 * libsennit-clock-preload.so: gives an unmodified program sennit's clocks in place of libc's.
 *
 *     LD_PRELOAD=/usr/lib/libsennit-clock-preload.so program
 *
 * It takes the place of time, gettimeofday, clock_gettime, clock_getres and getcpu, and on 32-bit
 * machines also of the names that programs with 64-bit time (_TIME_BITS=64) call. It keeps libc's
 * contract: -1 and errno on failure, EOVERFLOW for a time that a 32-bit time_t cannot hold. It does
 * not change what libc does inside itself, as for std::chrono in a libstdc++ that is linked
 * statically.
 *
 * Nothing here needs libc to have started: the dynamic linker may call these for other libraries'
 * constructors.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#include <sennit/clock.h>

#define REPLACES __attribute__((visibility("default")))

/* libc declares some of these with attributes that a second declaration must not contradict. */
REPLACES int sn_libc_clock_gettime(clockid_t id, struct timespec *time) __asm__("clock_gettime");
REPLACES int sn_libc_clock_getres(clockid_t id, struct timespec *time) __asm__("clock_getres");
REPLACES int sn_libc_gettimeofday(struct timeval *time, void *zone) __asm__("gettimeofday");
REPLACES time_t sn_libc_time(time_t *seconds) __asm__("time");
REPLACES int sn_libc_getcpu(unsigned int *cpu, unsigned int *node) __asm__("getcpu");

static int fail(int error)
{
	errno = -error;
	return -1;
}

int sn_libc_getcpu(unsigned int *cpu, unsigned int *node)
{
	int error = sn_getcpu(cpu, node);

	return error ? fail(error) : 0;
}

#if __SIZEOF_LONG__ == 8

/* The same layout: nothing is converted. */
int sn_libc_clock_gettime(clockid_t id, struct timespec *time)
{
	int error = sn_clock_gettime(id, (struct sn_timespec *)time);

	return __builtin_expect(error, 0) ? fail(error) : 0;
}

int sn_libc_clock_getres(clockid_t id, struct timespec *resolution)
{
	int error = sn_clock_getres(id, (struct sn_timespec *)resolution);

	return __builtin_expect(error, 0) ? fail(error) : 0;
}

int sn_libc_gettimeofday(struct timeval *time, void *zone)
{
	int error = sn_gettimeofday((struct sn_timeval *)time, zone);

	return __builtin_expect(error, 0) ? fail(error) : 0;
}

time_t sn_libc_time(time_t *seconds)
{
	time_t now = (time_t)sn_time();

	if (seconds)
		*seconds = now;
	return now;
}

#else

REPLACES int __clock_gettime64(clockid_t id, struct sn_timespec *time);
REPLACES int __clock_getres64(clockid_t id, struct sn_timespec *resolution);
REPLACES int __gettimeofday64(struct sn_timeval *time, void *zone);
REPLACES int64_t __time64(int64_t *seconds);

/* glibc's 64-bit structures have the nanoseconds as a long, and padding after it. */
int __clock_gettime64(clockid_t id, struct sn_timespec *time)
{
	int error = sn_clock_gettime(id, time);

	return __builtin_expect(error, 0) ? fail(error) : 0;
}

int __clock_getres64(clockid_t id, struct sn_timespec *resolution)
{
	int error = sn_clock_getres(id, resolution);

	return __builtin_expect(error, 0) ? fail(error) : 0;
}

int __gettimeofday64(struct sn_timeval *time, void *zone)
{
	int error = sn_gettimeofday(time, zone);

	return __builtin_expect(error, 0) ? fail(error) : 0;
}

int64_t __time64(int64_t *seconds)
{
	int64_t now = sn_time();

	if (seconds)
		*seconds = now;
	return now;
}

int sn_libc_clock_gettime(clockid_t id, struct timespec *time)
{
	struct sn_timespec wide;
	int error = sn_clock_gettime(id, &wide);

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
	int error = sn_clock_getres(id, &wide);

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
	int error = sn_gettimeofday(time ? &wide : NULL, zone);

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
	int64_t now = sn_time();

	if (now != (time_t)now)
		return (time_t)fail(-EOVERFLOW);
	if (seconds)
		*seconds = (time_t)now;
	return (time_t)now;
}

#endif
