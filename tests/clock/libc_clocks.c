/* SPDX-License-Identifier: MIT */
/*
 * libc_clocks: an unmodified program for the preload library. It checks what libc's manual promises
 * about its clocks, by libc's names only, and passes with libc's own clocks as well. The script
 * runs it with both. It is compiled once with 32-bit and once with 64-bit time where there is a
 * difference. It compares wall times, so it has to be run by retake.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int failed;

/* libc exports these, too. They are declared here because no header declares the first, and
 * <sys/timeb.h> may disappear. */
int __gettimeofday(struct timeval *time, void *zone);
struct timeb {
	long time;
	unsigned short millitm;
	short timezone, dstflag;
};
int ftime(struct timeb *now);

#define CHECK(condition)                                                           \
	do {                                                                       \
		if (!(condition)) {                                                \
			printf("%d: %s, errno %d\n", __LINE__, #condition, errno); \
			failed = 1;                                                \
		}                                                                  \
	} while (0)

int main(int argc, char **argv)
{
	struct timespec a, b, resolution;
	struct timeval day;
	struct {
		long sec, usec;
	} narrow;
	struct timeb old;
	struct timezone zone = {1, 1};
	time_t seconds = 0, now;
	unsigned int cpu = ~0u, node = ~0u;

	if (argc > 1 && !strcmp(argv[1], "--million")) {
		for (int i = 0; i < 1000000; i++) {
			time(NULL);
			gettimeofday(&day, NULL);
			timespec_get(&a, TIME_UTC);
			ftime(&old);
			clock_gettime(CLOCK_MONOTONIC, &a);
			clock_gettime(CLOCK_REALTIME_COARSE, &a);
		}
		return 0;
	}

	for (int id = 0; id < 12; id++) {
		errno = 0;
		if (clock_gettime(id, &a)) {
			CHECK(errno == EINVAL);
			CHECK(id == 8 || id == 9 || id == 10);
			continue;
		}
		CHECK(errno == 0 && a.tv_nsec >= 0 && a.tv_nsec < 1000000000);
		for (int i = 0; i < 1000; i++) {
			clock_gettime(id, &b);
			CHECK(b.tv_sec > a.tv_sec ||
			      (b.tv_sec == a.tv_sec && b.tv_nsec >= a.tv_nsec));
			a = b;
		}
		CHECK(clock_getres(id, &resolution) == 0);
		CHECK(resolution.tv_sec == 0 && resolution.tv_nsec > 0);
		CHECK(clock_getres(id, NULL) == 0);
	}

	CHECK(clock_gettime(1234, &a) == -1 && errno == EINVAL);
	errno = 0;
	CHECK(clock_getres(1234, &a) == -1 && errno == EINVAL);
	errno = 0;
	CHECK(clock_getres(1234, NULL) == -1 && errno == EINVAL);
	errno = 0;

	clock_gettime(CLOCK_REALTIME_COARSE, &a);
	now = time(&seconds);
	CHECK(now == seconds);
	clock_gettime(CLOCK_REALTIME, &b);
	CHECK(a.tv_sec <= now && now <= b.tv_sec);
	CHECK(gettimeofday(&day, &zone) == 0);
	clock_gettime(CLOCK_REALTIME, &a);
	CHECK(b.tv_sec <= day.tv_sec && day.tv_sec <= a.tv_sec);
	CHECK(day.tv_usec >= 0 && day.tv_usec < 1000000);
	CHECK(zone.tz_minuteswest != 1 || zone.tz_dsttime != 1);
	CHECK(gettimeofday(&day, NULL) == 0);

	/* ftime() has the old structure even with 64-bit time. */
	clock_gettime(CLOCK_REALTIME, &a);
	CHECK(__gettimeofday((void *)&narrow, NULL) == 0);
	clock_gettime(CLOCK_REALTIME, &b);
	CHECK(a.tv_sec <= narrow.sec && narrow.sec <= b.tv_sec);
	CHECK(narrow.usec >= 0 && narrow.usec < 1000000);

	memset(&old, 1, sizeof(old));
	CHECK(ftime(&old) == 0);
	clock_gettime(CLOCK_REALTIME, &a);
	CHECK(b.tv_sec <= old.time && old.time <= a.tv_sec && old.millitm < 1000);
	CHECK(old.timezone == 0 && old.dstflag == 0);

	CHECK(timespec_get(&b, TIME_UTC) == TIME_UTC);
	CHECK(b.tv_sec > a.tv_sec || (b.tv_sec == a.tv_sec && b.tv_nsec >= a.tv_nsec));
	clock_gettime(CLOCK_REALTIME, &a);
	CHECK(a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec >= b.tv_nsec));
	CHECK(timespec_get(&b, 1234) == 0);
	errno = 0;

	CHECK(getcpu(&cpu, &node) == 0 && cpu < 4096 && node < 4096);
	CHECK(errno == 0);
	printf(failed ? "FAILED\n" : "ok\n");
	return failed;
}
