/* SPDX-License-Identifier: MIT */
#include "sched/netpoll.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/standard.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/thread.h"

/* How many events one call takes. The next call takes the rest, so no edge is lost. */
#define MOST_EVENTS 128

/*
 * The tag of the eventfd that ends a poll early; no other descriptor has it. The eventfd is
 * level-triggered, and only a poll that may sleep drains it: a passing poll must not swallow the
 * wake-up that was meant for a sleeper.
 */
#define WAKEUP_EVENT UINT64_MAX

/* Orders the closing of epoll_fd and wakeup_fd with fork(). */
static struct sn_lock lock = SN_LOCK_INIT(SN_RANK_NETPOLL);
static int epoll_fd = -1, wakeup_fd = -1;
static sn_netpoll_hook *on_events; /* constant while a runtime runs */
static _Atomic uint32_t wakeup_pending;
static _Atomic uint32_t open_fds, waits;
static _Atomic bool no_pwait2; /* the kernel lacks it, or a seccomp filter refuses it */

/* The lock is held, or this is a child of fork(). A child therefore finds either both descriptors
 * open or neither. */
static void close_own(void)
{
	sn_checked_pass(); /* closing an epoll descriptor or an eventfd never waits */
	if (wakeup_fd >= 0)
		close(wakeup_fd);
	if (epoll_fd >= 0)
		close(epoll_fd);
	wakeup_fd = epoll_fd = -1;
	sn_checked_pass_end();
}

int sn_netpoll_init(sn_netpoll_hook *hook)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKEUP_EVENT};
	int err;

	on_events = hook;
	epoll_fd = sn_above_standard(epoll_create1(EPOLL_CLOEXEC));
	if (epoll_fd < 0)
		return -errno;
	wakeup_fd = sn_above_standard(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (wakeup_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wakeup_fd, &event) < 0) {
		err = -errno;
		sn_netpoll_destroy();
		return err;
	}
	atomic_store(&wakeup_pending, 0);
	return 0;
}

void sn_netpoll_destroy(void)
{
	sn_lock(&lock);
	close_own();
	sn_unlock(&lock);
}

/* The child closes its two descriptors, because they refer to the parent's epoll: what the child
 * registered would be reported to the parent, too. */
void sn_netpoll_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
	if (phase == SN_FORK_CHILD)
		close_own();
}

bool sn_netpoll_used(void)
{
	return atomic_load_explicit(&open_fds, memory_order_relaxed) > 0 ||
	       atomic_load_explicit(&waits, memory_order_relaxed) > 0;
}

void sn_netpoll_add(void)
{
	atomic_fetch_add(&open_fds, 1);
}

void sn_netpoll_remove(void)
{
	atomic_fetch_sub(&open_fds, 1);
}

void sn_netpoll_wait_begins(void)
{
	atomic_fetch_add(&waits, 1);
}

void sn_netpoll_wait_ends(void)
{
	atomic_fetch_sub(&waits, 1);
}

void sn_netpoll_forget_waits(void)
{
	atomic_store(&waits, 0);
}

void sn_netpoll_forget(void)
{
	atomic_store(&open_fds, 0);
	sn_netpoll_forget_waits();
}

int sn_netpoll_update(int operation, int fd, uint64_t tag, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = tag};

	return epoll_ctl(epoll_fd, operation, fd, &event) < 0 ? -errno : 0;
}

void sn_netpoll_wake(void)
{
	uint64_t one = 1;
	int saved = errno;

	/* One write serves all wakers until a poller has seen it; drain_wakeup() says why no
	 * wake-up is lost. */
	if (atomic_exchange(&wakeup_pending, 1) == 0)
		(void)!write(wakeup_fd, &one,
			     sizeof one); /* fails only if it is readable already */
	errno = saved;
}

void sn_netpoll_probe(void)
{
#ifdef SYS_epoll_pwait2
	const int saved = errno;
	const int64_t none[2] = {0, 0};
	struct epoll_event event;

	if (syscall(SYS_epoll_pwait2, -1, &event, 1, none, NULL, 0) < 0 &&
	    (errno == ENOSYS || errno == EPERM))
		atomic_store_explicit(&no_pwait2, true, memory_order_relaxed);
	errno = saved;
#endif
}

bool sn_netpoll_is_exact(void)
{
#ifdef SYS_epoll_pwait2
	return !atomic_load_explicit(&no_pwait2, memory_order_relaxed);
#else
	return false;
#endif
}

/*
 * epoll_pwait2() takes nanoseconds. Before Linux 5.11 there is only epoll_wait(), which takes
 * milliseconds. These are rounded up, because a poller that wakes before its timer is due would
 * spin.
 */
static int wait_for_events(struct epoll_event *events, int64_t timeout)
{
	int64_t ms;

#ifdef SYS_epoll_pwait2
	if (timeout > 0 && !atomic_load_explicit(&no_pwait2, memory_order_relaxed)) {
		struct {
			int64_t sec, nsec;
		} ts = {timeout / 1000000000, timeout % 1000000000};
		long n = syscall(SYS_epoll_pwait2, epoll_fd, events, MOST_EVENTS, &ts, NULL, 0);

		/* Old seccomp profiles refuse unknown calls with EPERM. */
		if (n >= 0 || (errno != ENOSYS && errno != EPERM))
			return (int)n;
		atomic_store_explicit(&no_pwait2, true, memory_order_relaxed);
	}
#endif
	ms = timeout <= 0 ? timeout : (timeout + 999999) / 1000000;
	return epoll_wait(epoll_fd, events, MOST_EVENTS, ms > INT32_MAX ? INT32_MAX : (int)ms);
}

bool sn_netpoll_rest(int64_t timeout)
{
	struct pollfd wakeup = {.fd = wakeup_fd, .events = POLLIN};
	struct timespec ts = {.tv_sec = timeout / 1000000000, .tv_nsec = timeout % 1000000000};
	int saved = errno, n = ppoll(&wakeup, 1, &ts, NULL);

	errno = saved;
	return n == 0;
}

/*
 * Reads the eventfd first, then clears the flag. A waker that comes in between finds the flag set
 * and does not write to the eventfd. The exchange here reads what that waker stored in the flag, so
 * the poller, which looks for work after this, sees the work for which it was woken. In the other
 * order, the read could swallow what such a waker has written and leave the flag set; then no
 * thread would ever write to the eventfd again.
 */
static void drain_wakeup(void)
{
	uint64_t count;

	(void)!read(wakeup_fd, &count, sizeof count);
	atomic_exchange(&wakeup_pending, 0);
}

/* By processor, because the processors of a busy program poll all the time. The poller that sleeps
 * for long and the monitor have none. */
static void count_poll(void)
{
	struct sn_thread *self = sn_thread_self();

	if (self && self->processor)
		sn_count(&self->processor->stats.polls, 1);
	else
		atomic_fetch_add_explicit(&sn_counters.polls, 1, memory_order_relaxed);
}

/* Removes the eventfd's event, if it is there. Returns how many others there are. */
static int leave_out_wakeup(struct epoll_event *events, int n)
{
	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 == WAKEUP_EVENT) {
			events[i] = events[n - 1];
			return n - 1;
		}
	}
	return n;
}

int sn_netpoll(int64_t timeout, struct sn_queue *ready)
{
	struct epoll_event events[MOST_EVENTS];
	int saved = errno, count = 0;
	int n = wait_for_events(events, timeout), others;
	bool woken = false;

	count_poll();
	if (n < 0 && errno != EINTR)
		sn_fatal("epoll_wait() failed (%s); expected an open epoll descriptor",
			 strerror(errno));
	others = leave_out_wakeup(events, n);
	if (others < n) {
		woken = true;
		if (timeout != 0)
			drain_wakeup();
	}
	if (others > 0)
		count = on_events(events, others, ready);
	errno = saved;
	return count == 0 && n > 0 && !woken && timeout != 0 ? -EAGAIN : count;
}
