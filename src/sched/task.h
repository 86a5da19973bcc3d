/* SPDX-License-Identifier: MIT */
/*
 * The task's control block. It lies at the top of the task's own stack, so that an idle task
 * touches one page.
 *
 * Who may write what:
 *   context       the thread that switches away from the task (see context.h)
 *   next          whoever has the task in a list of his own; the queue that it is in
 *   status        for readers only, see enum sn_task_status
 *   bound         the thread that waits with this task on it, before it queues the task
 *   join, result  the protocol in task.c
 *   wake_reason   who makes the task runnable, before doing so
 *   cancel, cancel_masks, in_waiter, in_side    see cancel.h
 *   home, in_scope, on_end    sync/scope.c
 *   the rest      sn_spawn(), before the task is published
 */
#ifndef SENNIT_SCHED_TASK_H
#define SENNIT_SCHED_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/task.h>

#include "sched/context.h"
#include "sched/stack.h"

/* A place in a list, or the list itself. */
struct sn_link {
	struct sn_link *next, *prev;
};

struct sn_cancel;
struct sn_side;
struct sn_thread;
struct sn_waiter;

/* Where a task stands, for reports. No decision is made on it. */
enum sn_task_status {
	SN_TASK_FREE = 0, /* the stack is in a cache, there is no task */
	SN_TASK_RUNNABLE,
	SN_TASK_RUNNING,
	SN_TASK_PARKED,
	SN_TASK_ENDED,
};

struct sn_task {
	struct sn_context context;
	struct sn_task *next;
	_Atomic uint32_t status;
	int wake_reason; /* what sn_park() returns: 0 or a negative errno */

	/* Not NULL: only this thread may run the task: it is pinned, or waits there for a
	 * processor. */
	struct sn_thread *bound;

	_Atomic uintptr_t join; /* task.c: enum join_state, or the address of who joins */
	int result;

	struct sn_cancel *cancel; /* NULL: nothing ever cancels the task */
	uint32_t cancel_masks;    /* while not 0, cancel is not heeded */
	struct sn_waiter *in_waiter;
	struct sn_side *in_side;
	struct sn_cancel *home;  /* what it was started in; NULL: nothing */
	struct sn_link in_scope; /* among the tasks of that */
	/* Called in the task, inside the runtime, when its function has returned. May park. */
	void (*on_end)(struct sn_task *task);

	sn_fn *fn;
	void *arg;
	uint64_t id;
	struct sn_stack stack;
	char name[SN_TASK_NAME_MAX + 1];
};

/* Makes the task's frame and control block on a fresh stack. Does not publish it. */
struct sn_task *sn_task_create(struct sn_stack stack, sn_fn *fn, void *arg,
			       const struct sn_task_attr *attr);

/*
 * Spawning in steps, for who has something to do with the task before it may run: a new detached task,
 * NULL with *err when there cannot be one; then either makes it runnable or throws it away. self: NULL
 * on a thread of the program's own, between sn_foreign_enter() and sn_foreign_leave().
 */
struct sn_task *sn_task_new(struct sn_thread *self, sn_fn *fn, void *arg,
			    const struct sn_task_attr *attr, int *err);
void sn_task_launch(struct sn_thread *self, struct sn_task *task);
void sn_task_discard(struct sn_thread *self, struct sn_task *task);

/* Allocates an id. Any thread. */
uint64_t sn_task_next_id(void);

#endif
