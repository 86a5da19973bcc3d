/* SPDX-License-Identifier: MIT */
/*
 * The kernel's own clocks, by system call, and whether the wall clock was set.
 *
 * A test that compares a clock with the kernel's reads the kernel's before and after, so the
 * comparison holds however long the thread or the machine stalls in between. The wall clock may
 * also be set in between; such a round proves nothing, and is repeated.
 */
#ifndef SENNIT_TESTS_CLOCK_KERNEL_CLOCK_H
#define SENNIT_TESTS_CLOCK_KERNEL_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* How often a round with wall times may be repeated before its failure counts. */
#define RETAKES 50

/* Stores a clock's time in nanoseconds. Returns 0, or a negative errno value. */
static inline int kernel_gettime(int id, int64_t *ns)
{
#ifdef SYS_clock_gettime64
	struct {
		int64_t sec, nsec;
	} wide;
	int error = syscall(SYS_clock_gettime64, id, &wide) ? -errno : 0;

	if (error == 0)
		*ns = wide.sec * 1000000000 + wide.nsec;
	if (error != -ENOSYS)
		return error;
#endif
	struct {
		long sec, nsec;
	} narrow;

	if (syscall(SYS_clock_gettime, id, &narrow))
		return -errno;
	*ns = (int64_t)narrow.sec * 1000000000 + narrow.nsec;
	return 0;
}

/* The time of a clock that must exist. */
static inline int64_t kernel_ns(int id)
{
	int64_t ns = 0;

	if (kernel_gettime(id, &ns))
		abort();
	return ns;
}

/*
 * Whether the wall clock was set since the last call. The first call says no.
 *
 * The kernel cancels a timer on that clock when the clock is set, so setting the clock and setting
 * it back does not go unnoticed. The timer is cancelled a moment after the clock is set. Therefore
 * the distance to the monotonic clock is checked too.
 */
static inline int wall_clock_was_set(void)
{
	static int timer = -1, begun;
	static int64_t low = INT64_MIN, high = INT64_MAX;
	int64_t least = 0, most = 0;
	uint64_t expirations;
	int set = 0;

	if (!begun) {
		struct itimerspec never = {{0, 0}, {INT32_MAX, 0}};

		begun = 1;
		timer = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
		/* If this fails, only the distance is checked. */
		timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL);
	} else if (read(timer, &expirations, sizeof(expirations)) < 0 && errno == ECANCELED) {
		set = 1;
	}
	/* The narrowest of several readings, because a thread may be preempted during one. */
	for (int i = 0; i < 5; i++) {
		int64_t before = kernel_ns(CLOCK_MONOTONIC), wall = kernel_ns(CLOCK_REALTIME);
		int64_t after = kernel_ns(CLOCK_MONOTONIC);

		if (i == 0 || after - before < most - least) {
			least = wall - after;
			most = wall - before;
		}
	}
	if (least > high || most < low)
		set = 1;
	low = least;
	high = most;
	return set;
}

#endif
