/* SPDX-License-Identifier: MIT */
/*
 * Scopes: structured concurrency, cancellation and deadlines.
 *
 * A scope owns the tasks that are started in it. The task that opens it works in it from then on,
 * and closes it; closing waits until every task of the scope has ended, so what they borrow from
 * their opener stays alive for them. Scopes nest: a task works in the scope that it opened last, or
 * else in the one that it was started in. A task that sn_go() or sn_spawn() starts is in no scope.
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
 * (-ETIMEDOUT), when one of its tasks returns a negative value (that value; what the others meet is
 * -ECANCELED), or with the scope around it, for the same reason. The first of them counts. From
 * then on, for every task that works in the scope or in one inside of it, each call of the library
 * that would wait, or waits already, fails with the reason: sleeping, joining, channels, locks, the
 * network. Calls that move data fail also when they would not have to wait, so that a busy task
 * notices. A call that fails so has done nothing: what it would have sent is not sent, what it
 * would have received is still there; but what moves many bytes, such as sn_tcp_write_all() and
 * sn_copy(), has then moved some. Code that computes for long asks sn_cancelled(). Foreign code is
 * not interrupted; ask after a bracket (blocking.h). Nothing is ended by force. A loop that retries
 * after -ETIMEDOUT asks sn_cancelled() too, lest the scope's deadline keep it going.
 *
 * Clean-up in a cancelled scope that has to wait, such as a last message, goes between
 * sn_cancel_mask() and sn_cancel_unmask().
 *
 * Values that belong to a scope (sn_scope_set_value()) are seen by all tasks that work in it or in
 * scopes inside of it, without being passed through every call.
 *
 * A scope that is open when sn_run() returns has ended with it. Calls with a scope that was closed, or has
 * ended so, return -ESRCH, and reach no other scope, until four million of these have had the same place in
 * memory (in a 32-bit process 63).
 *
 * Threads outside the runtime: starting tasks in a scope and cancelling it, and what asks, which finds no
 * scope; the others return -EPERM. Signal handlers: none.
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
 * Opens a scope in the one that the calling task works in, and makes it the one that the task works
 * in. deadline: when it is cancelled with -ETIMEDOUT, on sn_now()'s clock; SN_NO_DEADLINE for
 * never. The caller must close it, before those that it opened earlier. Parks only when it fails.
 * Returns 0; -ENOMEM; why, when the task's present scope is cancelled; -EINVAL for NULL; -EPERM outside
 * a task.
 *
 * Between sn_cancel_mask() and sn_cancel_unmask() the new scope is not cancelled with those around
 * it.
 */
SN_API SN_CHECK_RESULT int sn_scope_open(sn_scope **scope, int64_t deadline);

/*
 * Starts fn(arg) as a task in the scope. When it returns a negative value the scope is cancelled.
 * Any task that knows the scope to be open, usually its opener or its own tasks; any thread
 * likewise. Does not park. Returns 0; the reason when the scope is cancelled; -ESRCH when it is not open
 * any more; -EINVAL, -ENOMEM, -ESRCH as sn_go().
 */
SN_API int sn_scope_go(sn_scope *scope, sn_fn *fn, void *arg);

/* As sn_scope_go(), with attributes, for which see sn_spawn(). */
SN_API int sn_scope_spawn(sn_scope *scope, sn_fn *fn, void *arg, const struct sn_task_attr *attr);

/*
 * Cancels the scope and all in it, with -ECANCELED; of no effect when it is cancelled already. Does
 * not wait until the tasks have ended: that does sn_scope_close(). Whoever knows the scope to be
 * open; any thread. Does not park. Returns 0; -EINVAL for NULL; -ESRCH when it is not open any more, or no
 * runtime runs.
 */
SN_API int sn_scope_cancel(sn_scope *scope);

/*
 * Waits until every task of the scope has ended, frees it, and makes the scope around it the one
 * that the calling task works in. Cancellation does not end this wait, as it ends what is waited
 * for. May park. Returns 0, or why the scope was cancelled: the first negative value that one of
 * its tasks returned, -ECANCELED or -ETIMEDOUT. When it is not the scope that the calling task
 * opened last and has not closed yet: -EINVAL, nothing is closed, and debug builds abort. 0 for NULL.
 * -EPERM outside a task.
 */
SN_API int sn_scope_close(sn_scope *scope);

/* The scope that the calling task works in, or NULL: to start siblings in it. Any thread. */
SN_API sn_scope *sn_scope_current(void);

/*
 * 0, or why the scope that the calling task works in is cancelled: for long computations. Does not
 * park. Any thread: 0 outside a task.
 */
SN_API int sn_cancelled(void);

/*
 * Between these the calling task's waits are not cancelled, sn_cancelled() is 0. They nest. Return
 * 0; -EPERM outside a task; -EINVAL for an unmask without a mask. Do not park.
 */
SN_API int sn_cancel_mask(void);
SN_API int sn_cancel_unmask(void);

/*
 * Gives the scope a value for the key, in place of the one from a scope around it. A key is any
 * address; that of a static variable of your own cannot clash. The value is the caller's, and must
 * outlive the scope. Only the task that has opened the scope. Does not park. Returns 0; -ENOMEM;
 * -EINVAL for NULL; -ESRCH when it is not open any more; -EPERM from any other task.
 */
SN_API int sn_scope_set_value(sn_scope *scope, const void *key, void *value);

/*
 * The value for the key in the innermost scope that has one, NULL when none has. Takes time in
 * proportion to the number of scopes and values around the task. Any thread: NULL outside a task.
 */
SN_API void *sn_scope_value(const void *key);

SN_END

#endif
