/* SPDX-License-Identifier: MIT */
/*
 * Scopes: structured concurrency, cancellation and deadlines.
 *
 * A scope owns the tasks that are started in it. The task that opens a scope works in it from then
 * on, and closes it. Closing waits until every task of the scope has ended, so what these tasks
 * borrow from their opener lives as long as they do. Scopes nest: a task works in the scope that it
 * opened last, or else in the one that it was started in. A task that sn_go() or sn_spawn() starts
 * is in no scope.
 *
 *	sn_scope *scope;
 *	int err = sn_scope_open(&scope, sn_now() + 5000000000);
 *
 *	if (err < 0)
 *		return err;
 *	for (int i = 0; i < n; i++)
 *		sn_scope_go(scope, fetch, &jobs[i]);
 *	return sn_scope_close(scope);
 *
 * Cancellation. A scope is cancelled by sn_scope_cancel() (-ECANCELED), by its deadline
 * (-ETIMEDOUT), when one of its tasks returns a negative value (that value; the others get
 * -ECANCELED), or with the scope around it, for the same reason. The first of these counts. From
 * then on each call of the library that would wait, or already waits, fails with the reason:
 * sleeping, joining, channels, locks, the network. That holds for every task that works in the
 * scope or in one inside it. Calls that move data fail even when they would not have to wait, so
 * that a busy task notices. A call that fails with the reason has done nothing: what it would have
 * sent is not sent, and what it would have received is still there. But a call that moves many
 * bytes, such as sn_tcp_write_all() or sn_copy(), may have moved some of them. Code that computes
 * for long asks sn_cancelled(). Foreign code is not interrupted; ask after a bracket (blocking.h).
 * Nothing is ended by force. A loop that retries after -ETIMEDOUT has to ask sn_cancelled(), too;
 * otherwise it would take the scope's deadline for one more timeout and never end.
 *
 * Clean-up in a cancelled scope that has to wait, such as a last message, goes between
 * sn_cancel_mask() and sn_cancel_unmask().
 *
 * Values that belong to a scope (sn_scope_set_value()) are visible to all tasks that work in it or
 * in scopes inside it, without being passed through every call.
 *
 * A scope that is open when sn_run() returns ends with the run. Calls with a scope that was closed,
 * or has ended in this way, return -ESRCH. They reach no other scope until four million scopes have
 * used the same place in memory (63 in a 32-bit process).
 *
 * Threads outside the runtime: starting tasks in a scope, cancelling it, moving its deadline, and
 * the queries, which find no scope; the others return -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_SCOPE_H
#define SENNIT_SCOPE_H

#include <sennit/base.h>
#include <sennit/run.h>
#include <sennit/task.h>

SN_BEGIN

/* A scope that is open. */
typedef struct sn_scope sn_scope;

/*
 * Opens a scope in the one that the calling task works in; the task works in the new one from then
 * on. deadline: when the scope is cancelled with -ETIMEDOUT, on sn_now()'s clock; SN_NO_DEADLINE
 * for never. The caller must close it, before those that it opened earlier. Parks only when it
 * fails. Returns 0; -ENOMEM; the reason, when the task's present scope is cancelled; -EINVAL for
 * NULL; -ENOTSUP outside a task.
 *
 * Between sn_cancel_mask() and sn_cancel_unmask() the new scope is not cancelled with those around
 * it.
 */
SN_API SN_CHECK_RESULT int sn_scope_open(sn_scope **scope, int64_t deadline);

/*
 * Starts fn(arg) as a task in the scope. When it returns a negative value the scope is cancelled.
 * Any task or thread that knows the scope to be open, usually its opener or its own tasks. Does not
 * park. Returns 0; the reason when the scope is cancelled; -ESRCH when it is no longer open;
 * -EINVAL, -ENOMEM, -ESRCH as sn_go().
 */
SN_API int sn_scope_go(sn_scope *scope, sn_fn *fn, void *arg);

/* As sn_scope_go(), with attributes (see sn_spawn()). */
SN_API int sn_scope_spawn(sn_scope *scope, sn_fn *fn, void *arg, const struct sn_task_attr *attr);

/*
 * Cancels the scope and all in it, with -ECANCELED. It has no effect when the scope is cancelled
 * already. It does not wait until the tasks have ended; sn_scope_close() does. Any task or thread
 * that knows the scope to be open. Does not park. Returns 0; -EINVAL for NULL; -ESRCH when it is no
 * longer open, or no runtime runs.
 */
SN_API int sn_scope_cancel(sn_scope *scope);

/*
 * Waits until every task of the scope has ended and frees the scope; the calling task works in the
 * one around it again. Cancellation does not end this wait, because it ends what is waited for. May
 * park. Returns 0, or the reason for which the scope was cancelled: the first negative value that
 * one of its tasks returned, -ECANCELED or -ETIMEDOUT. Returns -EINVAL, and closes nothing, when
 * the calling task has a scope open that it opened later, or did not open this one (debug builds
 * abort); -ESRCH when it is no longer open; 0 for NULL; -ENOTSUP outside a task.
 */
SN_API int sn_scope_close(sn_scope *scope);

/*
 * As sn_scope_close(), but waits for the tasks no longer than until the deadline: then it cancels
 * the scope with -ETIMEDOUT, and waits for the rest. For a server that shuts down: its tasks have
 * until then to finish by themselves. If the scope has an earlier deadline, that one stays; no task
 * can move it beyond this deadline any more. SN_NO_DEADLINE: as sn_scope_close(). May park.
 *
 * Returns 0 when all tasks have ended by themselves; -ETIMEDOUT when it had to cancel, even if the
 * tasks then returned other errors; any other reason for which the scope was cancelled before, such
 * as the first negative value of a task. A deadline that has passed cancels immediately, unless no
 * task is left. -ENOMEM when there was no memory for an alarm: the tasks were cancelled
 * immediately, with -ECANCELED, and the scope is closed. The other errors of sn_scope_close() close
 * nothing.
 */
SN_API int sn_scope_close_until(sn_scope *scope, int64_t deadline);

/*
 * Moves the deadline of the scope, to an earlier or a later time; SN_NO_DEADLINE removes it, and a
 * scope without one gets one. Calls that already wait in the scope are cancelled at the new
 * deadline. A deadline that has passed cancels the scope before the call returns. Any task or
 * thread that knows the scope to be open, usually its opener or its own tasks. Does not park.
 *
 * Either this call or the old deadline wins. If that has passed, and its alarm has gone off, the
 * call returns -ETIMEDOUT, and the scope is cancelled, or about to be: sn_cancelled() may still be
 * 0 for a moment. When the call returns 0 the old deadline has no effect any more.
 *
 * Each scope has a deadline of its own, and is cancelled with the scope around it. The earliest
 * deadline therefore counts: moving an outer deadline to a later time does not lengthen an inner
 * one, and moving it to an earlier time cancels what is inside at that time. A deadline later than
 * that of the scope around is kept, and counts if the outer one is moved.
 *
 * Returns 0; the reason, when the scope is cancelled, and nothing is changed; -EINVAL for NULL;
 * -ENOMEM, only for a scope without a deadline; -ESRCH when it is no longer open, or no runtime
 * runs.
 */
SN_API SN_CHECK_RESULT int sn_scope_set_deadline(sn_scope *scope, int64_t deadline);

/*
 * The earliest deadline of the scopes that the calling task works in, for passing it on to another
 * process; SN_NO_DEADLINE when there is none, and between sn_cancel_mask() and sn_cancel_unmask().
 * It may be moved at any time. Takes time in proportion to the number of scopes around the task.
 * Does not park. Any thread: SN_NO_DEADLINE outside a task.
 */
SN_API int64_t sn_scope_deadline(void);

/* The scope that the calling task works in, or NULL; for starting siblings. Any thread. */
SN_API sn_scope *sn_scope_current(void);

/*
 * Returns 0, or the reason for which the scope that the calling task works in is cancelled. For
 * long computations. Does not park. Any thread: 0 outside a task.
 */
SN_API int sn_cancelled(void);

/*
 * Between these calls the waits of the calling task are not cancelled, and sn_cancelled() is 0. The
 * calls nest. Return 0; -ENOTSUP outside a task; -EINVAL for an unmask without a mask. Do not park.
 */
SN_API int sn_cancel_mask(void);
SN_API int sn_cancel_unmask(void);

/*
 * Gives the scope a value for the key, in place of the one from a scope around it. A key is any
 * address; that of a static variable of your own cannot clash. The value is the caller's, and must
 * outlive the scope. Only the task that has opened the scope. Does not park. Returns 0; -ENOMEM;
 * -EINVAL for NULL; -ESRCH when it is no longer open; -EPERM from any other task; -ENOTSUP outside
 * a task.
 */
SN_API int sn_scope_set_value(sn_scope *scope, const void *key, void *value);

/*
 * The value for the key in the innermost scope that has one, NULL when none has. Takes time in
 * proportion to the number of scopes and values around the task. Any thread: NULL outside a task.
 */
SN_API void *sn_scope_value(const void *key);

SN_END

#endif
