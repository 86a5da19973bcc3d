/* SPDX-License-Identifier: MIT */
/*
 * The task's control block. It lies at the top of the task's own stack, so that an idle task
 * touches one page.
 *
 * Who may write what:
 *   word          see status.h and scan.h; it outlives the task, with its stack
 *   context       the thread that switches away from the task (see context.h)
 *   next          whoever has the task in a list of his own; the queue that it is in
 *   bound         the thread that waits with this task on it, before it queues the task
 *   join, result  the protocol in task.c
 *   wake_reason   who makes the task runnable, before doing so
 *   cancel, cancel_masks, in_waiter, in_side    see cancel.h
 *   home, in_scope, on_end    sync/scope.c
 *   asked_*       see scan.h
 *   waits_*       the task itself, before it parks; hints for reports
 *   name          the task itself, after who has made it
 *   the rest      sn_spawn(), before the task is published
 *
 * What is atomic from waits_for on is read by sn_tasks_each(), which has no right to the task: relaxed,
 * and only believed when id is the same before and after (see sn_task_create()).
 */
#ifndef SENNIT_SCHED_TASK_H
#define SENNIT_SCHED_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/scan.h>
#include <sennit/task.h>

#include "sched/context.h"
#include "sched/stack.h"
#include "sched/status.h"

/* A place in a list, or the list itself. */
struct sn_link {
	struct sn_link *next, *prev;
};

struct sn_cancel;
struct sn_side;
struct sn_thread;
struct sn_waiter;

struct sn_task {
	/* What a switch touches is on one line. */
	struct sn_task_status_word word;
	int wake_reason; /* what sn_park() returns: 0 or a negative errno */
	struct sn_context context;
	struct sn_task *next;

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
	struct sn_stack stack;

	/* scan.h: a request, who has set ASKING until he sets ASKED. */
	sn_task_scan_fn *asked_fn;
	void *asked_arg;

	const char *_Atomic waits_for; /* what kind of thing it is parked in */
	const void *_Atomic waits_in;  /* the object */
	const void *_Atomic spawned_at;
	_Atomic uint64_t spawned_by;
	_Atomic uint64_t id; /* 0 while the others are written */
	_Atomic char name[SN_TASK_NAME_MAX + 1];
};

/* The control block in a stack, whether there is a task or not. On a cache line of its own, so that the
 * deepest frames do not share one with it. */
static inline struct sn_task *sn_stack_task(struct sn_stack stack)
{
	return (struct sn_task *)(((uintptr_t)stack.high - sizeof(struct sn_task)) &
				  ~(uintptr_t)63);
}

/* Says, for reports, what the calling task is about to wait in. kind: a string that stays valid. */
static inline void sn_task_waits(struct sn_task *task, const char *kind, const void *object)
{
	atomic_store_explicit(&task->waits_for, kind, memory_order_relaxed);
	atomic_store_explicit(&task->waits_in, object, memory_order_relaxed);
}

/* Makes the task's frame and control block on a fresh stack. Does not publish it. */
struct sn_task *sn_task_create(struct sn_stack stack, sn_fn *fn, void *arg,
			       const struct sn_task_attr *attr);

/*
 * Spawning in steps, for who has something to do with the task before it may run: a new detached task,
 * NULL with *err when there cannot be one (at: where in the program that was asked for); then either makes it runnable or throws it away. self: NULL
 * on a thread of the program's own, between sn_foreign_enter() and sn_foreign_leave().
 */
struct sn_task *sn_task_new(struct sn_thread *self, sn_fn *fn, void *arg,
			    const struct sn_task_attr *attr, const void *at, int *err);
void sn_task_launch(struct sn_thread *self, struct sn_task *task);
void sn_task_discard(struct sn_thread *self, struct sn_task *task);

/* Allocates an id. Any thread. */
uint64_t sn_task_next_id(void);

#endif
