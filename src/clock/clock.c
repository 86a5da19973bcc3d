/* SPDX-License-Identifier: MIT */
#include <sennit/clock.h>

#include <time.h>

static int64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t sn_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t sn_walltime(void)
{
	return read_clock(CLOCK_REALTIME);
}

int64_t sn_time(void)
{
	return time(NULL);
}
