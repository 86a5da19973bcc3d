/* SPDX-License-Identifier: MIT */
/*
 * Sleeping. Only a relative time, or a point on the monotonic clock: what is meant by the wall clock
 * follows its steps, which the C library's call does.
 */
#include <errno.h>

#include <sennit/clock.h>
#include <sennit/task.h>

#include "hooks/call.h"

/* PASS: not here. Otherwise 0 or an error number, and what is left. */
static enum sn_hook_step sleep_until(int64_t deadline, int *err, int64_t *left)
{
	if (!sn_hook_may_park())
		return SN_HOOK_PASS;
	sn_hook_count_park();
	*err = sn_sleep_until(deadline);
	*left = deadline - sn_now();
	if (*left < 0)
		*left = 0;
	if (*err < 0 && sn_hook_ended(*err, EINTR) == SN_HOOK_PASS)
		return SN_HOOK_PASS;
	*err = *err < 0 ? sn_hook_errno() : 0;
	return SN_HOOK_AGAIN;
}

/* A relative time, as nanosleep(). The error number. */
static enum sn_hook_step sleep_for(const struct timespec *time, struct timespec *rest, int *err)
{
	const int64_t ns = time ? sn_hook_ns(time->tv_sec, time->tv_nsec) : -1;
	int64_t left;

	if (ns < 0 || !sn_hook_caller() ||
	    sleep_until(sn_hook_deadline(ns), err, &left) == SN_HOOK_PASS)
		return SN_HOOK_PASS;
	if (*err && rest)
		*rest = (struct timespec){(time_t)(left / 1000000000), (long)(left % 1000000000)};
	return SN_HOOK_AGAIN;
}

SN_HOOK(int, nanosleep, (const struct timespec *time, struct timespec *left))
{
	int err;

	if (sn_likely(!sn_hook_caller()) || sleep_for(time, left, &err) == SN_HOOK_PASS)
		return sn_real.nanosleep(time, left);
	return err ? sn_hook_fail(err) : 0;
}

SN_HOOK(int, clock_nanosleep,
	(clockid_t clock, int flags, const struct timespec *time, struct timespec *left))
{
	int64_t point, rest;
	int err;

	if (sn_likely(!sn_hook_caller()) || !time)
		return sn_real.clock_nanosleep(clock, flags, time, left);
	if (flags == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME) &&
	    sleep_for(time, left, &err) != SN_HOOK_PASS)
		return err;
	point = sn_hook_ns(time->tv_sec, time->tv_nsec);
	if (flags == TIMER_ABSTIME && clock == CLOCK_MONOTONIC && point > 0 &&
	    sleep_until(point, &err, &rest) != SN_HOOK_PASS)
		return err;
	return sn_real.clock_nanosleep(clock, flags, time, left);
}

SN_HOOK(int, usleep, (useconds_t us))
{
	const struct timespec time = {us / 1000000, (long)(us % 1000000) * 1000};
	int err;

	if (sn_likely(!sn_hook_caller()) || sleep_for(&time, NULL, &err) == SN_HOOK_PASS)
		return sn_real.usleep(us);
	return err ? sn_hook_fail(err) : 0;
}

SN_HOOK(unsigned, sleep, (unsigned seconds))
{
	struct timespec time = {(time_t)seconds, 0}, left;
	int err;

	if (sn_likely(!sn_hook_caller()) || sleep_for(&time, &left, &err) == SN_HOOK_PASS)
		return sn_real.sleep(seconds);
	/* Rounded as the C library does. */
	return err ? (unsigned)left.tv_sec + (left.tv_nsec >= 500000000) : 0;
}

/* -1: interrupted; other negative values: an error. */
SN_HOOK(int, thrd_sleep, (const struct timespec *time, struct timespec *left))
{
	int err;

	if (sn_likely(!sn_hook_caller()) || sleep_for(time, left, &err) == SN_HOOK_PASS)
		return sn_real.thrd_sleep(time, left);
	return err ? -1 : 0;
}
