/* SPDX-License-Identifier: MIT */
/*
 * Sleeping for a relative time, or until a time of the monotonic clock. A sleep until a time of the
 * wall clock has to follow the steps of that clock, so it is left to the C library.
 */
#include <errno.h>

#include <sennit/clock.h>
#include <sennit/task.h>

#include "hooks/call.h"

/*
 * Returns PASS if the task cannot sleep here. Otherwise sets *err to 0 or an error number, of which
 * there is one reason: the task's scope is cancelled. Nothing is left of such a sleep, and none of
 * no length (waits is false) fails, so a loop that sleeps for what is left ends, whatever it takes
 * for the sign that a signal has come.
 */
static enum sn_hook_step sleep_until(int64_t deadline, bool waits, int *err)
{
	const int before = sn_hook_errno();

	if (!sn_hook_may_park())
		return SN_HOOK_PASS;
	sn_hook_leave_thread();
	*err = sn_sleep_until(deadline);
	sn_hook_back();
	if (*err < 0 && !waits)
		*err = 0;
	if (*err < 0 && sn_hook_ended(*err, EINTR) == SN_HOOK_FAIL) {
		*err = sn_hook_errno();
		return SN_HOOK_AGAIN;
	}
	sn_hook_fail(before);
	return *err < 0 ? SN_HOOK_PASS : SN_HOOK_AGAIN;
}

/* ns: a duration; -1 for an invalid one, which the C library is to judge. Returns PASS if the task
 * cannot sleep here. */
static enum sn_hook_step sleep_for(int64_t ns, int *err)
{
	return ns < 0 ? SN_HOOK_PASS : sleep_until(sn_hook_deadline(ns), ns > 0, err);
}

static int64_t ns_of(const struct timespec *time)
{
	return time ? sn_hook_ns(time->tv_sec, time->tv_nsec) : -1;
}

static void put_nothing(struct timespec *rest)
{
	if (rest)
		*rest = (struct timespec){0, 0};
}

SN_HOOK(int, nanosleep, (const struct timespec *time, struct timespec *rest))
{
	int err;

	if (!sn_hook_caller() || sleep_for(ns_of(time), &err) == SN_HOOK_PASS)
		return sn_real.nanosleep(time, rest);
	if (!err)
		return 0;
	put_nothing(rest);
	return sn_hook_fail(err);
}

/* clock_nanosleep(). Returns PASS if the task cannot sleep here. */
static enum sn_hook_step sleep_by(clockid_t clock, int flags, int64_t ns, int *err)
{
	if (flags == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME))
		return sleep_for(ns, err);
	if (flags == TIMER_ABSTIME && clock == CLOCK_MONOTONIC && ns > 0)
		return sleep_until(ns, ns > sn_now(), err);
	return SN_HOOK_PASS;
}

SN_HOOK(int, clock_nanosleep,
	(clockid_t clock, int flags, const struct timespec *time, struct timespec *rest))
{
	int err;

	if (!sn_hook_caller() || sleep_by(clock, flags, ns_of(time), &err) == SN_HOOK_PASS)
		return sn_real.clock_nanosleep(clock, flags, time, rest);
	if (err && flags == 0)
		put_nothing(rest);
	return err;
}

SN_HOOK(int, usleep, (useconds_t us))
{
	int err;

	if (!sn_hook_caller() || sleep_for((int64_t)us * 1000, &err) == SN_HOOK_PASS)
		return sn_real.usleep(us);
	return err ? sn_hook_fail(err) : 0;
}

SN_HOOK(unsigned, sleep, (unsigned seconds))
{
	int err;

	if (!sn_hook_caller() || sleep_for((int64_t)seconds * 1000000000, &err) == SN_HOOK_PASS)
		return sn_real.sleep(seconds);
	return 0;
}

/* The standard's results: -1 if the sleep was interrupted, another negative value for an error,
 * which is -2 in glibc and musl. */
SN_HOOK(int, thrd_sleep, (const struct timespec *time, struct timespec *rest))
{
	int err;

	if (!sn_hook_caller() || sleep_for(ns_of(time), &err) == SN_HOOK_PASS)
		return sn_real.thrd_sleep(time, rest);
	if (err)
		put_nothing(rest);
	return err ? -2 : 0;
}

/* ---- for programs with 64-bit times ---- */

#if SN_HOOK_TIME64
static int64_t ns_of64(const struct sn_timespec64 *time)
{
	return time ? sn_hook_ns(time->sec, time->nsec) : -1;
}

static void put_nothing64(struct sn_timespec64 *rest)
{
	if (rest)
		*rest = (struct sn_timespec64){0, 0, 0};
}

SN_HOOK(int, __nanosleep64, (const struct sn_timespec64 *time, struct sn_timespec64 *rest))
{
	int err;

	if (!sn_hook_caller() || sleep_for(ns_of64(time), &err) == SN_HOOK_PASS)
		return sn_real.__nanosleep64(time, rest);
	if (!err)
		return 0;
	put_nothing64(rest);
	return sn_hook_fail(err);
}

SN_HOOK(int, __clock_nanosleep_time64,
	(clockid_t clock, int flags, const struct sn_timespec64 *time, struct sn_timespec64 *rest))
{
	int err;

	if (!sn_hook_caller() || sleep_by(clock, flags, ns_of64(time), &err) == SN_HOOK_PASS)
		return sn_real.__clock_nanosleep_time64(clock, flags, time, rest);
	if (err && flags == 0)
		put_nothing64(rest);
	return err;
}

SN_HOOK(int, __thrd_sleep64, (const struct sn_timespec64 *time, struct sn_timespec64 *rest))
{
	int err;

	if (!sn_hook_caller() || sleep_for(ns_of64(time), &err) == SN_HOOK_PASS)
		return sn_real.__thrd_sleep64(time, rest);
	if (err)
		put_nothing64(rest);
	return err ? -2 : 0;
}
#endif
