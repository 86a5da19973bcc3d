/* SPDX-License-Identifier: MIT */
/*
 * Cancelling the wait of a task.
 *
 * Contract. A task that works in a scope has task->cancel, through which the scope says whether the
 * task's waits are to end, and why. The canceller first sets the reason, and then visits the tasks
 * (sn_cancel_take()). A task that is about to wait publishes its wait and reads the reason, both
 * while it holds its lock. The visitor holds the same lock while it looks for a published wait. If
 * the task comes first, the visitor finds the wait and ends it. If the visitor comes first, the
 * task sees the reason, and the wait fails immediately.
 *
 * The locks are in a table, chosen by the task's address. A lock in the task or in the scope might
 * be freed too early: as soon as a wait is published, another party may end it, and with it the
 * task and the scope, before the publisher has unlocked. Tasks without a scope take no lock here;
 * they pay for a load and a branch.
 *
 * Who may write what:
 *   reason                       the canceller, once, from 0 to a negative errno
 *   task->cancel, cancel_masks   the task itself, only while it has published no wait; a visitor
 *                                that finds a published wait may therefore read them. Its creator,
 *                                before it is runnable
 *   task->in_waiter, in_side     the task itself, under its lock here
 *
 * Rejected: a sequentially consistent fence on both sides instead of the lock. The canceller would
 * then know that there was a wait, but not whether its memory still exists.
 */
#ifndef SENNIT_TASK_CANCEL_H
#define SENNIT_TASK_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/fork.h"
#include "sched/task.h"
#include "wait/lock.h"

struct sn_side;
struct sn_waiter;

struct sn_cancel {
	_Atomic int reason; /* 0 if not cancelled; otherwise -ECANCELED or -ETIMEDOUT */
};

/* Returns 0, or the reason why the task's work is to end. Called by the task itself, or under the
 * task's lock. */
static inline int sn_cancel_reason(const struct sn_task *task)
{
	if (sn_likely(!task->cancel) || task->cancel_masks)
		return 0;
	return atomic_load_explicit(&task->cancel->reason, memory_order_acquire);
}

/* Whether waits of this task can be cancelled. */
static inline bool sn_cancel_possible(const struct sn_task *task)
{
	return sn_unlikely(task->cancel != NULL) && !task->cancel_masks;
}

struct sn_lock *sn_cancel_lock_of(const struct sn_task *task);

/*
 * Called by a task that is about to wait in the waiter. Returns 0 if the wait is published, so that
 * a visitor can find it from now on; otherwise returns the reason why the task must not wait.
 * sn_cancel_retract() must follow before the waiter's memory is reused.
 */
int sn_cancel_publish(struct sn_task *task, struct sn_waiter *waiter);
void sn_cancel_retract(struct sn_task *task);

/*
 * Ends the wait that the task has published, if the task's own task->cancel has a reason. The check
 * is needed because the task may work in another scope than the one that is being cancelled.
 * Returns the task if the caller has to make it runnable, otherwise NULL. The caller keeps the task
 * from being freed; after this has returned the task, nothing else makes it runnable.
 */
struct sn_task *sn_cancel_take(struct sn_task *task);

void sn_cancel_fork(enum sn_fork_phase phase);

#endif
