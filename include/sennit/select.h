/* SPDX-License-Identifier: MIT */
/*
 * Select: waits for the first of several things, and does it: a channel that can be received from
 * or sent to, a time, the end of a task, a descriptor that is ready, the end of a scope.
 *
 *	struct sn_case cases[] = {
 *		sn_case_recv(jobs, &job),
 *		sn_case_join(worker, &result),
 *		sn_case_poll(fd, POLLIN),
 *		sn_case_time(sn_now() + 5000000000),
 *	};
 *
 *	switch (sn_select(cases, 4, SN_NO_DEADLINE)) {
 *
 * Signals have no case of their own: sn_signal_send_to() (signal.h) sends them to a channel.
 * Several times in one select are several timers; sn_ticker (timer.h) is a periodic one.
 *
 * Threads outside the runtime: selects over channels only; others return -ENOTSUP. Signal handlers:
 * none.
 */
#ifndef SENNIT_SELECT_H
#define SENNIT_SELECT_H

#include <sennit/base.h>
#include <sennit/channel.h>
#include <sennit/scope.h>
#include <sennit/task.h>

SN_BEGIN

/* What a case of sn_select() waits for, and does. */
enum sn_case_op {
	SN_CASE_RECV,  /* receives an element from a channel */
	SN_CASE_SEND,  /* sends one */
	SN_CASE_TIME,  /* a time has come */
	SN_CASE_JOIN,  /* joins a task that has ended */
	SN_CASE_POLL,  /* a descriptor is ready */
	SN_CASE_SCOPE, /* all tasks of a scope have ended, or it was cancelled */
};

/* A descriptor, and the events that it is to be ready for. */
struct sn_case_poll {
	int fd;     /* negative: never ready */
	int events; /* as in sn_fd_wait() (fd.h) */
};

/*
 * One of the things that sn_select() may do; see also the initialisers at the end. One of these
 * members says what it is about:
 *
 *	sn_chan *chan               RECV, SEND; NULL: never ready
 *	int64_t time                TIME: on sn_now()'s clock; SN_NO_DEADLINE: never ready
 *	sn_task *task               JOIN; NULL: never ready
 *	struct sn_case_poll poll    POLL
 *	sn_scope *scope             SCOPE; NULL: never ready
 */
struct sn_case {
	__extension__ union {
		sn_chan *chan;
		int64_t time;
		sn_task *task;
		struct sn_case_poll poll;
		sn_scope *scope;
	};
	void *elem; /* RECV, SEND: as for sn_chan_recv(), or sn_chan_send(), which only reads it.
		     * JOIN: an int for the task's result, or NULL. Otherwise ignored */
	enum sn_case_op op; /* what it waits for */
	int result;         /* out, of the chosen case: see below */
};

/*
 * Waits until one of the cases can proceed, and does it. If several can, one is chosen at
 * random, each with the same probability. Returns its index. A channel, a descriptor or a scope may
 * be in several cases, a task in one. The result of the chosen case:
 *
 *   RECV, SEND   0; -EPIPE: the channel is closed
 *   TIME         0
 *   JOIN         as sn_join(). After 0 the handle is gone, so set it to NULL before the next
 *                select. A mistake makes the case ready immediately: -ESRCH, -EINVAL, -EBUSY when
 *                another task joins it or has it in a select, -EDEADLK for the calling task
 *   POLL         the events that the descriptor is ready for, at least one, with POLLERR and
 *                POLLHUP among them; -EBADF: it is not open, or is closed during the wait (fd.h).
 *                If another case was chosen just then, the next select does not learn of that
 *                sn_fd_closing() any more
 *   SCOPE        0: the scope has no tasks, because all have ended or none was started; or the
 *                reason, as of sn_scope_close(), if it was cancelled; -ESRCH: it is no longer open;
 *                -EDEADLK: the calling task was started in it. The select does not close the scope,
 *                and tasks may still be started in it. This case is for tasks that supervise a
 *                scope: a task that works in the scope gets the reason of its cancellation as an
 *                error
 *
 * Waits until the deadline, then returns -ETIMEDOUT. With SN_TRY, or a deadline in the past, it
 * does not wait, like a select with a default in Go. Without cases, or with those that are never
 * ready, it waits just as long. Up to 16 cases of channels, or 8 if there are others among them,
 * need no memory except two kilobytes of the caller's stack, and what a timer or a wait for a
 * descriptor needs. Descriptors cost one poll(2) for all of them at each call, and when it waits an
 * epoll_ctl(2) for each.
 *
 * Errors: -EAGAIN, -ETIMEDOUT, -ECANCELED and the like, -ENOMEM, as for channels (channel.h), also
 * when a task that would be joined has ended; of descriptors, -ENOMEM, -ENOSPC, -EMFILE, -ENFILE,
 * -EPERM, -ELOOP, as sn_fd_wait() and sn_fd_wait_any(); -EINVAL for an unknown op, an element that
 * is missing, events that cannot be asked for, a task in two cases, more than INT_MAX cases, or
 * more with descriptors than the process may have (RLIMIT_NOFILE). After an error none of the cases
 * was done. May park.
 */
SN_API SN_CHECK_RESULT int sn_select(struct sn_case *cases, size_t n, int64_t deadline);

SN_END

/* ---- initialisers of a struct sn_case, for C ---- */

#ifndef __cplusplus

/* struct sn_case cases[] = {sn_case_recv(a, &x), sn_case_time(t)}; The first two are for channels
 * with types (channel.h). */
#	define sn_case_recv(from, to)                                                       \
		{                                                                            \
			.chan = sn_untyped(from), .elem = sn_private_elem_pointer(from, to), \
			.op = SN_CASE_RECV                                                   \
		}
#	define sn_case_send(to, ...)                                                        \
		{                                                                            \
			.chan = sn_untyped(to),                                              \
			.elem = (void *)(uintptr_t)(1 ? (__VA_ARGS__)                        \
						      : (const __typeof__((**(to))[0]) *)0), \
			.op = SN_CASE_SEND                                                   \
		}
#	define sn_case_time(at)                         \
		{                                        \
			.time = (at), .op = SN_CASE_TIME \
		}
#	define sn_case_join(joined, result)                                   \
		{                                                              \
			.task = (joined), .elem = (result), .op = SN_CASE_JOIN \
		}
#	define sn_case_poll(of, what)                             \
		{                                                  \
			.poll = {(of), (what)}, .op = SN_CASE_POLL \
		}
#	define sn_case_scope(ends)                          \
		{                                            \
			.scope = (ends), .op = SN_CASE_SCOPE \
		}

#endif

#endif
