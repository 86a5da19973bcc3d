/* SPDX-License-Identifier: MIT */
/*
 * Waiting for descriptors that the program owns. A wait looks with poll() first, parks only if
 * nothing is ready, and looks again when it was woken for no event that it can report, and from
 * time to time. watch.h has what happens in between.
 */
#include <sennit/poll.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include <sennit/clock.h>

#include "io/sys.h"
#include "io/watch.h"
#include "sched/foreign.h"
#include "sched/netpoll.h"
#include "sched/ready.h"
#include "sched/schedule.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "task/cancel.h"

/*
 * A wait looks whether its descriptors were closed without a word, by a system call for example:
 * after the first of these times, then after twice as long each time, up to the second. So a wait
 * that was short ends soon, and 100,000 tasks that have waited for long cost 1,600 looks a second.
 */
#define FIRST_LOOK_NS INT64_C(1000000000)
#define LAST_LOOK_NS INT64_C(64000000000)

/* So many descriptors need no memory beyond the stack. */
#define FEW 8

/* Begins all waits. 0, or an error, after which some may have begun. */
static int begin(struct pollfd *fds, struct sn_watch_wait *waits, size_t n,
		 struct sn_waiter *waiter)
{
	struct sn_queue ready = {0};
	int err = 0;

	/* All of them first: end() looks also at those that an error keeps from beginning. */
	for (size_t i = 0; i < n; i++)
		sn_watch_init(&waits[i], waiter, (uint32_t)fds[i].events);
	for (size_t i = 0; i < n && err == 0; i++) {
		if (fds[i].fd >= 0)
			err = sn_watch_add(&waits[i], fds[i].fd, &ready);
		/* It was closed after poll() had looked, so it is reported in the same way. */
		if (err == -EBADF)
			waits[i].closed = true;
	}
	sn_ready_each(sn_thread_self(), &ready);
	return err;
}

/* Ends them, and says how many have something to report. */
static int end(struct pollfd *fds, struct sn_watch_wait *waits, size_t n)
{
	int count = 0;

	for (size_t i = 0; i < n; i++) {
		sn_watch_remove(&waits[i]);
		fds[i].revents = (short)(waits[i].got      ? waits[i].got
					 : waits[i].closed ? POLLNVAL
							   : 0);
		count += fds[i].revents != 0;
	}
	return count;
}

static bool has_descriptor(const struct pollfd *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i].fd >= 0)
			return true;
	return false;
}

/* Those that were closed have something to report now. */
static void look(const struct pollfd *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i].fd >= 0)
			sn_watch_look(sn_thread_self(), fds[i].fd);
}

/* Waits once, up to the deadline or the next look: how many have something to report, 0 if that is
 * to be looked for again, or an error. */
static int wait_once(struct pollfd *fds, struct sn_watch_wait *waits, size_t n, int64_t deadline,
		     int64_t patience)
{
	struct sn_thread *self = sn_thread_self();
	/* Without one, nothing wakes the task: this may be a deadlock. */
	const bool polls = has_descriptor(fds, n);
	const int64_t next_look = polls ? sn_now() + patience : SN_NO_DEADLINE;
	const bool looks = polls && (!deadline || next_look < deadline);
	struct sn_waiter waiter;
	int err, count;

	sn_waiter_init(&waiter, self, looks ? next_look : deadline, SN_WAITER_SHARED);
	if (polls)
		sn_netpoll_add();
	err = begin(fds, waits, n, &waiter);
	if (err == 0) {
		sn_task_waits(waiter.task, "a descriptor of the program's", NULL);
		err = sn_waiter_park(&waiter, NULL);
	}
	/* The deadline of a scope is the same error. */
	if (looks && err == -ETIMEDOUT && sn_cancel_reason(sn_thread_self()->task) == 0) {
		look(fds, n);
		err = 0;
	}
	count = end(fds, waits, n);
	if (polls)
		sn_netpoll_remove();
	return count > 0 ? count : err;
}

/* May park: the caller's self is stale. */
static int wait_for(struct pollfd *fds, struct sn_watch_wait *waits, size_t n, int64_t deadline)
{
	int found = sn_cancel_reason(sn_thread_self()->task);
	int64_t patience = FIRST_LOOK_NS;

	for (size_t i = 0; i < n; i++)
		if (fds[i].events & ~SN_WATCH_EVENTS)
			return -EINVAL;
	while (found == 0) {
		found = sn_sys_poll_now(fds, n);
		if (found > 0)
			sn_fair_chance(sn_thread_self());
		else if (found == 0 && deadline && sn_now() >= deadline)
			found = -ETIMEDOUT;
		else if (found == 0)
			found = wait_once(fds, waits, n, deadline, patience);
		if (patience < LAST_LOOK_NS)
			patience *= 2;
	}
	return found;
}

int sn_fd_wait(int fd, int events, int64_t deadline)
{
	struct pollfd one = {.fd = fd, .events = (short)events};
	struct sn_watch_wait wait;
	int n;

	if (!sn_runtime_enter())
		return -ENOTSUP;
	if (fd < 0)
		n = -EBADF;
	else
		n = events & ~SN_WATCH_EVENTS ? -EINVAL : wait_for(&one, &wait, 1, deadline);
	sn_runtime_leave();
	if (n < 0)
		return n;
	return one.revents & POLLNVAL ? -EBADF : one.revents;
}

static int wait_for_any(struct pollfd *fds, size_t n, int64_t deadline)
{
	struct sn_watch_wait few[FEW], *waits = few;
	int count;

	if (n > FEW)
		waits = calloc(n, sizeof *waits);
	if (!waits)
		return -ENOMEM;
	count = wait_for(fds, waits, n, deadline);
	if (waits != few)
		free(waits);
	return count;
}

int sn_fd_wait_any(struct pollfd *fds, size_t n, int64_t deadline)
{
	int count = -ENOTSUP;

	if ((!fds && n > 0) || n > INT_MAX)
		return -EINVAL;
	if (sn_runtime_enter()) {
		count = wait_for_any(fds, n, deadline);
		sn_runtime_leave();
	}
	for (size_t i = 0; count < 0 && i < n; i++)
		fds[i].revents = 0;
	return count;
}

int sn_fd_closing(int fd)
{
	struct sn_thread *self;

	if (fd < 0)
		return -EBADF;
	self = sn_runtime_enter();
	if (self) {
		sn_watch_closing(self, fd);
		sn_runtime_leave();
	} else if (sn_foreign_enter() == 0) {
		sn_watch_closing(NULL, fd);
		sn_foreign_leave();
	}
	return 0;
}
