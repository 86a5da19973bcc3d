/* SPDX-License-Identifier: MIT */
/*
 * sn_time() over the centuries: src/clock/clock.c is compiled on a vDSO of the test's own, whose
 * clock can be set further than a machine's. On 32-bit machines the kernel's function for seconds
 * has 32 bits, which wrap in February 2106.
 */
#define SN_PRIVATE_OUT_OF_LINE 1

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clock/clock.h"

static int64_t now_there; /* the time that the kernel's clock shows */
static int gettime_error; /* what its other function returns */
static long forbidden;    /* what its function for seconds returns instead */

static int kernels_gettime(int id, struct sn_timespec *time)
{
	(void)id;
	time->tv_sec = now_there;
	time->tv_nsec = 0;
	return gettime_error;
}

static long kernels_time(long *unused)
{
	(void)unused;
	return forbidden ? forbidden : (long)now_there;
}

int sn_vdso_self(struct sn_vdso *vdso)
{
	(void)vdso;
	return 0;
}

void *sn_vdso_find(const struct sn_vdso *vdso, const char *version, const char *name)
{
	(void)vdso, (void)version;
	if (!strncmp(name, SN_VDSO_PREFIX "clock_gettime",
		     sizeof(SN_VDSO_PREFIX "clock_gettime") - 1))
		return (void *)kernels_gettime;
	return strcmp(name, SN_VDSO_PREFIX "time") ? NULL : (void *)kernels_time;
}

#undef SN_PRIVATE_OUT_OF_LINE
#include "clock/clock.c"

static int failed;

static void expect(int64_t expected)
{
	int64_t now = sn_time();

	if (now != expected) {
		printf("%lld instead of %lld\n", (long long)now, (long long)expected);
		failed = 1;
	}
}

int main(void)
{
	/* 2^31 is in January 2038, 2^32 in February 2106; the kernel's clock ends in 2232. */
	static const int64_t points[] = {0,         1790000000, 1LL << 31,
					 1LL << 32, 3LL << 31,  8200000000};
	enum { POINTS = sizeof(points) / sizeof(points[0]) };

	/* Goes over each point second by second, and jumps from each point to each, as if the clock
	 * had been set. */
	for (int from = 0; from < POINTS; from++) {
		for (int64_t i = from ? -5000 : 0; i < 5000; i++) {
			now_there = points[from] + i;
			expect(now_there);
			expect(now_there);
		}
		for (int to = 0; to < POINTS; to++) {
			now_there = points[from] + 1;
			expect(now_there);
			now_there = points[to] + 2;
			expect(now_there);
		}
	}

	/* A sandbox that allows only the old call, and one that allows none. */
	gettime_error = -EPERM;
	now_there = 1790001000;
#if defined(__NR_time) || __SIZEOF_LONG__ == 8
	expect(now_there);
	forbidden = -EACCES;
	expect(-EACCES);
#else
	expect(-EPERM);
#endif

	printf(failed ? "FAILED\n" : "ok\n");
	return failed;
}
