/* SPDX-License-Identifier: MIT */
/*
 * Cancelling what a task waits for.
 *
 * A task that works in a scope has task->cancel, through which the scope says whether, and why, the
 * task's waits are to end. Whoever cancels first sets the reason and then visits the tasks
 * (sn_cancel_take()). A task that is about to wait publishes what it waits in and looks at the
 * reason, both while it holds the lock that belongs to it; the visitor holds the same lock while it
 * looks for something published. So whichever comes first, the other sees it: a wait that begins
 * after the reason is set fails at once, one that began before is found and ended.
 *
 * The locks lie in a table, chosen by the task's address, because one in the task or the scope
 * would have to outlive the task that it has just let go: a wait that is published may end, and
 * with it the task and the scope, before its publisher has unlocked. Tasks without a scope never
 * come here: they pay for a load and a branch.
 *
 * Who may write what:
 *   reason                       who cancels, once, from 0 to a negative errno
 *   task->cancel, cancel_masks   the task itself, while nothing is published (so who finds something
 *                                may read them); its creator before it is runnable
 *   task->in_waiter, in_side     the task itself, under its lock here
 *
 * Rejected: a sequentially consistent fence on both sides instead of the lock. It tells the
 * canceller that there is a wait, but not that the memory of the wait is still there when it
 * touches it.
 */
#ifndef SENNIT_SCHED_CANCEL_H
#define SENNIT_SCHED_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "sched/fork.h"
#include "sched/task.h"
#include "wait/lock.h"

struct sn_side;
struct sn_waiter;

struct sn_cancel {
	_Atomic int reason; /* 0: not cancelled; -ECANCELED or -ETIMEDOUT */
};

/* 0, or why what the task does is to end. Only the task itself asks. */
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
 * The task is about to wait in the waiter: 0, and a visitor can find it from now on, or the reason
 * why it must not wait. sn_cancel_retract() must follow before the waiter goes away.
 */
int sn_cancel_publish(struct sn_task *task, struct sn_waiter *waiter);
void sn_cancel_retract(struct sn_task *task);

/*
 * Ends the wait that the task has published, if its own task->cancel has a reason by now: the task
 * may work in another scope than the one that is being cancelled. Returns the task when it has to
 * be made runnable, else NULL. The caller keeps it from being freed; once taken, it stays until it
 * is made runnable.
 */
struct sn_task *sn_cancel_take(struct sn_task *task);

void sn_cancel_fork(enum sn_fork_phase phase);

#endif
