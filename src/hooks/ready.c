/* SPDX-License-Identifier: MIT */
/*
 * Waiting for several descriptors: poll, ppoll, select, pselect and epoll_wait.
 *
 * The result is that of the C library's own call, made without waiting; only the wait in between is
 * sennit's, and ends with EBADF where another task has closed a descriptor in it. select() on
 * more than MOST_SELECTED descriptors, and a call that changes the signal mask, are passed through.
 */
#include <errno.h>
#include <string.h>
#include <sys/time.h>

#include <sennit/clock.h>
#include <sennit/fd.h>
#include <sennit/scope.h>

#include "hooks/call.h"

#define MOST_SELECTED 64

/* ---- poll ---- */

static bool has_descriptor(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].fd >= 0)
			return true;
	return false;
}

/*
 * Waits for the descriptors. deadline: SN_NO_DEADLINE for none. With PASS the caller has to make
 * the call that blocks. That includes a call without a time limit and without a descriptor: like
 * pause(), only a signal ends it, but no signal ends a wait here. As with the C library's calls,
 * errno stays the same unless the call fails. The task may be on another thread afterwards.
 */
static int poll_until(struct pollfd *fds, nfds_t n, int64_t deadline, enum sn_hook_step *step)
{
	const int err = sn_hook_errno();
	int found;

	*step = SN_HOOK_PASS;
	if (deadline == SN_NO_DEADLINE && !has_descriptor(fds, n)) {
		sn_hook_count_pass();
		return -1;
	}
	*step = SN_HOOK_AGAIN;
	sn_hook_leave_thread();
	found = sn_fd_wait_any(fds, n, deadline);
	sn_hook_back();
	if (found == -ETIMEDOUT && !sn_cancelled())
		found = 0;
	if (found < 0) {
		*step = sn_hook_ended(found, ETIMEDOUT);
		if (*step == SN_HOOK_PASS) {
			sn_hook_count_pass();
			sn_hook_fail(err);
		}
		return -1;
	}
	sn_hook_fail(err);
	return found;
}

/* The same for calls that are made again after the wait. One whose descriptor was closed during the
 * wait fails, because the number may be another's. */
static int poll_open(struct pollfd *fds, nfds_t n, int64_t deadline, enum sn_hook_step *step)
{
	const int found = poll_until(fds, n, deadline, step);

	for (nfds_t i = 0; found > 0 && i < n; i++)
		if (fds[i].revents & POLLNVAL) {
			*step = SN_HOOK_FAIL;
			return sn_hook_fail(EBADF);
		}
	return found;
}

/* What is left for the C library's calls, or the most that one call can wait. */
static int ms_left(int64_t deadline)
{
	int64_t ms;

	if (deadline == SN_NO_DEADLINE)
		return -1;
	ms = (deadline - sn_now() + 999999) / 1000000;
	return ms > INT_MAX ? INT_MAX : ms > 0 ? (int)ms : 0;
}

static int wait_in_poll(struct pollfd *fds, nfds_t n, int64_t deadline, int found)
{
	enum sn_hook_step step = SN_HOOK_PASS;

	if (found == 0 && sn_hook_may_park())
		found = poll_until(fds, n, deadline, &step);
	else if (found != 0)
		return found;
	if (step != SN_HOOK_PASS)
		return found;
	do
		found = sn_real.poll(fds, n, ms_left(deadline));
	while (found == 0 && sn_now() < deadline);
	return found;
}

SN_HOOK(int, poll, (struct pollfd * fds, nfds_t n, int timeout))
{
	if (!sn_hook_caller() || timeout == 0)
		return sn_real.poll(fds, n, timeout);
	return wait_in_poll(
		fds, n, timeout < 0 ? SN_NO_DEADLINE : sn_hook_deadline((int64_t)timeout * 1000000),
		sn_real.poll(fds, n, 0));
}

/* The value of ns for a call without a limit. */
#define NO_LIMIT INT64_MIN

/* The deadline after ns. -1 for a time that is invalid, which the C library is to judge, or too
 * short for a wait. */
static int64_t deadline_of(int64_t ns)
{
	if (ns == NO_LIMIT)
		return SN_NO_DEADLINE;
	return ns <= 0 ? -1 : sn_hook_deadline(ns);
}

static int64_t ns_of(const struct timespec *time)
{
	return time ? sn_hook_ns(time->tv_sec, time->tv_nsec) : NO_LIMIT;
}

SN_HOOK(int, ppoll,
	(struct pollfd * fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask))
{
	int64_t deadline;

	if (!sn_hook_caller() || mask || (deadline = deadline_of(ns_of(timeout))) < 0)
		return sn_real.ppoll(fds, n, timeout, mask);
	return wait_in_poll(fds, n, deadline, sn_real.poll(fds, n, 0));
}

/* ---- select ---- */

struct sets {
	fd_set set[3]; /* to read, to write, special */
	fd_set *user[3];
	int n;
};

static size_t bytes_of(int n)
{
	const size_t bits = 8 * sizeof(long);

	return ((size_t)n + bits - 1) / bits * sizeof(long);
}

static void copy_sets(struct sets *sets, bool back)
{
	for (int i = 0; i < 3; i++)
		if (sets->user[i])
			memcpy(back ? sets->user[i] : &sets->set[i],
			       back ? &sets->set[i] : sets->user[i], bytes_of(sets->n));
}

static bool has(const struct sets *sets, int i, int fd)
{
	return sets->user[i] && FD_ISSET(fd, &sets->set[i]);
}

/* Lists the descriptors of the sets. Returns how many there are, or -1 if there are too many. */
static int list_of(const struct sets *sets, struct pollfd *list)
{
	static const short events[3] = {POLLIN | POLLRDNORM | POLLRDBAND, POLLOUT | POLLWRNORM,
					POLLPRI};
	int n = 0;

	for (int fd = 0; fd < sets->n; fd++) {
		short wanted = 0;

		for (int i = 0; i < 3; i++)
			if (has(sets, i, fd))
				wanted |= events[i];
		if (!wanted)
			continue;
		if (n == MOST_SELECTED)
			return -1;
		list[n++] = (struct pollfd){.fd = fd, .events = wanted};
	}
	return n;
}

/* select() without a wait. If nothing is ready, the user's sets are as before. */
static int look(struct sets *sets)
{
	struct timeval none = {0, 0};
	const int found =
		sn_real.select(sets->n, sets->user[0], sets->user[1], sets->user[2], &none);

	if (found == 0)
		copy_sets(sets, true);
	return found;
}

static void clear(struct sets *sets)
{
	for (int i = 0; i < 3; i++)
		if (sets->user[i])
			memset(sets->user[i], 0, bytes_of(sets->n));
}

/*
 * select() up to a deadline. With PASS the caller has to make the call that blocks; the user's sets
 * are as they were. The rounds are limited because some descriptors are ready for poll() only, such
 * as one in the third set whose peer has closed.
 */
static int select_until(struct sets *sets, int64_t deadline, enum sn_hook_step *step)
{
	struct pollfd list[MOST_SELECTED];
	bool begun = false;
	int found = 0, rounds = 0, n;

	copy_sets(sets, false);
	n = list_of(sets, list);
	*step = n < 0 ? SN_HOOK_PASS : SN_HOOK_AGAIN;
	while (*step == SN_HOOK_AGAIN) {
		found = look(sets);
		if (found != 0)
			return found;
		if (!begun && !sn_hook_may_park()) {
			*step = SN_HOOK_PASS;
		} else if (!sn_hook_another_round(&rounds, list, (nfds_t)n)) {
			sn_hook_count_pass();
			*step = SN_HOOK_PASS;
		} else if (poll_open(list, (size_t)n, deadline, step) == 0 &&
			   *step == SN_HOOK_AGAIN) {
			clear(sets);
			return 0;
		}
		begun = true;
	}
	return -1;
}

/*
 * select() for a time, with the time that is left in *left. With PASS the wait is not possible, or
 * no longer possible. The caller then makes the call that blocks, with the time that is left.
 */
static enum sn_hook_step select_for(struct sets *sets, int64_t ns, int64_t *left, int *found)
{
	const int64_t deadline = deadline_of(ns);
	enum sn_hook_step step;

	*left = ns;
	if (sets->n < 0 || sets->n > FD_SETSIZE || deadline < 0)
		return SN_HOOK_PASS;
	*found = select_until(sets, deadline, &step);
	if (ns != NO_LIMIT) {
		*left = deadline - sn_now();
		*left = *left > 0 ? *left : 0;
	}
	return step;
}

static int64_t ns_of_timeval(const struct timeval *time)
{
	if (!time)
		return NO_LIMIT;
	return time->tv_usec < 0 || time->tv_usec >= 1000000
		       ? -1
		       : sn_hook_ns(time->tv_sec, (int64_t)time->tv_usec * 1000);
}

/* Like Linux, stores how much time is left. */
SN_HOOK(int, select, (int n, fd_set *in, fd_set *out, fd_set *special, struct timeval *timeout))
{
	struct sets sets = {.user = {in, out, special}, .n = n};
	enum sn_hook_step step;
	int64_t left, ns;
	int found;

	if (!sn_hook_caller())
		return sn_real.select(n, in, out, special, timeout);
	ns = ns_of_timeval(timeout);
	step = select_for(&sets, ns, &left, &found);
	if (left != ns)
		*timeout = (struct timeval){(time_t)(left / 1000000000),
					    (suseconds_t)(left % 1000000000 / 1000)};
	return step == SN_HOOK_PASS ? sn_real.select(n, in, out, special, timeout) : found;
}

SN_HOOK(int, pselect,
	(int n, fd_set *in, fd_set *out, fd_set *special, const struct timespec *timeout,
	 const sigset_t *mask))
{
	struct sets sets = {.user = {in, out, special}, .n = n};
	struct timespec rest;
	int64_t left, ns;
	int found;

	if (!sn_hook_caller() || mask)
		return sn_real.pselect(n, in, out, special, timeout, mask);
	ns = ns_of(timeout);
	if (select_for(&sets, ns, &left, &found) != SN_HOOK_PASS)
		return found;
	if (left != ns) {
		rest = (struct timespec){(time_t)(left / 1000000000), (long)(left % 1000000000)};
		timeout = &rest;
	}
	return sn_real.pselect(n, in, out, special, timeout, mask);
}

/* ---- for programs with 64-bit times ---- */

#if SN_HOOK_TIME64
static int64_t ns_of64(const struct sn_timespec64 *time)
{
	return time ? sn_hook_ns(time->sec, time->nsec) : NO_LIMIT;
}

SN_HOOK(int, __ppoll64,
	(struct pollfd * fds, nfds_t n, const struct sn_timespec64 *timeout, const sigset_t *mask))
{
	int64_t deadline;

	if (!sn_hook_caller() || mask || (deadline = deadline_of(ns_of64(timeout))) < 0)
		return sn_real.__ppoll64(fds, n, timeout, mask);
	return wait_in_poll(fds, n, deadline, sn_real.poll(fds, n, 0));
}

SN_HOOK(int, __select64,
	(int n, fd_set *in, fd_set *out, fd_set *special, struct sn_timeval64 *timeout))
{
	struct sets sets = {.user = {in, out, special}, .n = n};
	enum sn_hook_step step;
	int64_t left, ns = NO_LIMIT;
	int found;

	if (!sn_hook_caller())
		return sn_real.__select64(n, in, out, special, timeout);
	if (timeout)
		ns = timeout->usec < 0 || timeout->usec >= 1000000
			     ? -1
			     : sn_hook_ns(timeout->sec, timeout->usec * 1000);
	step = select_for(&sets, ns, &left, &found);
	if (left != ns)
		*timeout = (struct sn_timeval64){left / 1000000000, left % 1000000000 / 1000};
	return step == SN_HOOK_PASS ? sn_real.__select64(n, in, out, special, timeout) : found;
}

SN_HOOK(int, __pselect64,
	(int n, fd_set *in, fd_set *out, fd_set *special, const struct sn_timespec64 *timeout,
	 const sigset_t *mask))
{
	struct sets sets = {.user = {in, out, special}, .n = n};
	struct sn_timespec64 rest;
	int64_t left, ns;
	int found;

	if (!sn_hook_caller() || mask)
		return sn_real.__pselect64(n, in, out, special, timeout, mask);
	ns = ns_of64(timeout);
	if (select_for(&sets, ns, &left, &found) != SN_HOOK_PASS)
		return found;
	if (left != ns) {
		rest = (struct sn_timespec64){left / 1000000000, (int32_t)(left % 1000000000), 0};
		timeout = &rest;
	}
	return sn_real.__pselect64(n, in, out, special, timeout, mask);
}
#endif

/* ---- epoll ---- */

SN_HOOK(int, epoll_wait, (int fd, struct epoll_event *events, int n, int timeout))
{
	int64_t deadline;
	enum sn_hook_step step = SN_HOOK_AGAIN;
	int found, rounds = 0;

	if (!sn_hook_caller() || timeout == 0)
		return sn_real.epoll_wait(fd, events, n, timeout);
	deadline = timeout < 0 ? SN_NO_DEADLINE : sn_hook_deadline((int64_t)timeout * 1000000);
	found = sn_real.epoll_wait(fd, events, n, 0);
	if (found == 0 && !sn_hook_may_park())
		step = SN_HOOK_PASS;
	while (found == 0 && step == SN_HOOK_AGAIN) {
		struct pollfd one = {.fd = fd, .events = POLLIN};

		if (!sn_hook_another_round(&rounds, &one, 1)) {
			sn_hook_count_pass();
			step = SN_HOOK_PASS;
		} else if (poll_open(&one, 1, deadline, &step) <= 0) {
			break;
		} else {
			found = sn_real.epoll_wait(fd, events, n, 0);
		}
	}
	if (step == SN_HOOK_FAIL)
		return -1;
	return step == SN_HOOK_PASS ? sn_real.epoll_wait(fd, events, n, ms_left(deadline)) : found;
}

#ifdef __GLIBC__
_Noreturn void __chk_fail(void);

SN_HOOK(int, __poll_chk, (struct pollfd * fds, nfds_t n, int timeout, size_t size))
{
	if (size / sizeof *fds < n)
		__chk_fail();
	return sn_hook_poll(fds, n, timeout);
}

SN_HOOK(int, __ppoll_chk,
	(struct pollfd * fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
	 size_t size))
{
	if (size / sizeof *fds < n)
		__chk_fail();
	return sn_hook_ppoll(fds, n, timeout, mask);
}
#endif
