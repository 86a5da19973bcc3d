/* SPDX-License-Identifier: MIT */
/*
 * Cancelling what a task waits for.
 *
 * A task that works in a scope has task->cancel, through which the scope says whether the task's
 * waits are to end, and why. The canceller sets the reason first, and then visits the tasks
 * (sn_cancel_take()). A task that is about to wait publishes what it waits in and reads the reason,
 * both while it holds its lock. The visitor holds the same lock while it looks for a published
 * wait. So whichever comes first, the other sees it: a wait that begins after the reason is set
 * fails at once, and a wait that began before is found and ended.
 *
 * The locks are in a table, chosen by the task's address. A lock in the task or in the scope would
 * have to outlive the task that it has just released: a published wait may end, and with it the
 * task and the scope, before its publisher has unlocked. Tasks without a scope never come here;
 * they pay for a load and a branch.
 *
 * Who may write what:
 *   reason                       the canceller, once, from 0 to a negative errno
 *   task->cancel, cancel_masks   the task itself, while it has published nothing (so a visitor that
 *                                finds something published may read them); its creator, before it
 *                                is runnable
 *   task->in_waiter, in_side     the task itself, under its lock here
 *
 * Rejected: a sequentially consistent fence on both sides instead of the lock. With it the
 * canceller knows that there is a wait, but not that the memory of the wait is still there when it
 * touches it.
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
	_Atomic int reason; /* 0: not cancelled; -ECANCELED or -ETIMEDOUT */
};

/* 0, or the reason why the task's work is to end. Only the task itself asks. */
static inline int sn_cancel_reason(const struct sn_task *task)
{
	if (sn_likely(!task->cancel) || task->cancel_masks)
		return 0;
	return atomic_load_explicit(&task->cancel->reason, memory_order_acquire);
}

/* Whether waits of this task can be cancelled at all. */
static inline bool sn_cancel_possible(const struct sn_task *task)
{
	return sn_unlikely(task->cancel != NULL) && !task->cancel_masks;
}

struct sn_lock *sn_cancel_lock_of(const struct sn_task *task);

/*
 * The task is about to wait in the waiter. Returns 0, and a visitor can find the wait from now on,
 * or the reason why the task must not wait. sn_cancel_retract() must follow before the waiter goes
 * away.
 */
int sn_cancel_publish(struct sn_task *task, struct sn_waiter *waiter);
void sn_cancel_retract(struct sn_task *task);

/*
 * Ends the wait that the task has published, if the task's own task->cancel has a reason by now:
 * the task may work in another scope than the one that is being cancelled. Returns the task when it
 * has to be made runnable, otherwise NULL. The caller keeps the task from being freed; once taken,
 * it stays until it is made runnable.
 */
struct sn_task *sn_cancel_take(struct sn_task *task);

void sn_cancel_fork(enum sn_fork_phase phase);

#endif
