/* SPDX-License-Identifier: MIT */
/*
 * Waiting for descriptors that the program owns. A wait first looks with poll(), and parks only if
 * nothing is ready. It looks again when it was woken without an event that it can report, and at
 * growing intervals. watch.h explains what happens while it is parked.
 */
#include <sennit/fd.h>

#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <sennit/clock.h>

#include "base/pages.h"
#include "io/sys.h"
#include "io/watch.h"
#include "sched/foreign.h"
#include "sched/netpoll.h"
#include "sched/ready.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "task/cancel.h"

/* Waits for up to this many descriptors need little stack (under 500 bytes), or some (3.5 KiB), and
 * no other memory. */
#define FEW 8
#define SOME 64

/* Begins all waits. Returns 0, or an error, after which some of them may have begun. */
static int begin(struct pollfd *fds, struct sn_watch_wait *waits, size_t n,
		 struct sn_waiter *waiter)
{
	struct sn_queue ready = {0};
	int err = 0;

	/* All are initialized before the first begins: end() also looks at those that did not begin
	 * because of an error. */
	for (size_t i = 0; i < n; i++)
		sn_watch_init(&waits[i], waiter, (uint32_t)fds[i].events & SN_WATCH_EVENTS);
	for (size_t i = 0; i < n && err == 0; i++) {
		if (fds[i].fd >= 0)
			err = sn_watch_add(&waits[i], fds[i].fd, &ready);
		/* The descriptor was closed after poll() had looked. This is reported like a close
		 * during the wait. */
		if (err == -EBADF)
			waits[i].closed = true;
	}
	sn_ready_each(sn_thread_self(), &ready);
	return err;
}

/* Ends all waits. Returns how many descriptors have something to report. */
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

/* Looks whether the descriptors still exist; the waits of closed ones have something to report
 * then. */
static void look(const struct pollfd *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i].fd >= 0)
			sn_watch_look(sn_thread_self(), fds[i].fd);
}

/* Waits once, up to the deadline or the next look. Returns how many descriptors have something to
 * report, 0 if the caller should look again, or an error. */
static int wait_once(struct pollfd *fds, struct sn_watch_wait *waits, size_t n, int64_t deadline,
		     int64_t patience)
{
	struct sn_thread *self = sn_thread_self();
	/* Without a descriptor no event can wake the task, so the wait is not counted as
	 * polling: it may be a deadlock. */
	const bool polls = has_descriptor(fds, n);
	const int64_t next_look = polls ? sn_now() + patience : SN_NO_DEADLINE;
	const bool looks = polls && (!deadline || next_look < deadline);
	struct sn_waiter waiter;
	int err, count;

	sn_waiter_init(&waiter, self, looks ? next_look : deadline, SN_WAITER_SHARED);
	if (polls)
		sn_netpoll_wait_begins();
	err = begin(fds, waits, n, &waiter);
	if (err == 0) {
		sn_task_waits(waiter.task, "a descriptor of the program's", NULL);
		err = sn_waiter_park(&waiter, NULL);
	}
	/* A scope's deadline also ends the wait with -ETIMEDOUT, but then the task has a reason to
	 * stop. */
	if (looks && err == -ETIMEDOUT && sn_cancel_reason(sn_thread_self()->task) == 0) {
		look(fds, n);
		err = 0;
	}
	count = end(fds, waits, n);
	if (polls)
		sn_netpoll_wait_ends();
	return count > 0 ? count : err;
}

/* May park, after which the caller's self is stale. */
static int wait_for(struct pollfd *fds, struct sn_watch_wait *waits, size_t n, int64_t deadline)
{
	int found = sn_cancel_reason(sn_thread_self()->task);
	int64_t patience = SN_WATCH_FIRST_LOOK_NS;

	while (found == 0) {
		found = sn_sys_poll_now(fds, n);
		if (found > 0)
			sn_fair_chance(sn_thread_self());
		else if (found == 0 && deadline && sn_now() >= deadline)
			found = -ETIMEDOUT;
		else if (found == 0)
			found = wait_once(fds, waits, n, deadline, patience);
		if (patience < SN_WATCH_LAST_LOOK_NS)
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

static int wait_for_few(struct pollfd *fds, size_t n, int64_t deadline)
{
	struct sn_watch_wait waits[FEW];

	return wait_for(fds, waits, n, deadline);
}

/* Not inlined, so that its frame is there only if it is needed. */
sn_noinline static int wait_for_some(struct pollfd *fds, size_t n, int64_t deadline)
{
	struct sn_watch_wait waits[SOME];

	return wait_for(fds, waits, n, deadline);
}

static int wait_for_many(struct pollfd *fds, size_t n, int64_t deadline)
{
	struct sn_watch_wait *waits = sn_pages_take(n * sizeof *waits);
	int count;

	if (!waits)
		return -ENOMEM;
	count = wait_for(fds, waits, n, deadline);
	sn_pages_give(waits, n * sizeof *waits);
	return count;
}

static int wait_for_any(struct pollfd *fds, size_t n, int64_t deadline)
{
	if (n <= FEW)
		return wait_for_few(fds, n, deadline);
	return n <= SOME ? wait_for_some(fds, n, deadline) : wait_for_many(fds, n, deadline);
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
	int copy = -1;

	if (fd < 0)
		return -EBADF;
	self = sn_runtime_enter();
	if (self) {
		sn_watch_closing_leave_copy(self, fd, &copy);
		sn_runtime_leave();
	} else if (sn_foreign_enter() == 0) {
		sn_watch_closing_leave_copy(NULL, fd, &copy);
		sn_foreign_leave();
	}
	if (copy >= 0)
		close(copy);
	return 0;
}
