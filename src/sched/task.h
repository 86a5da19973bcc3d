/* SPDX-License-Identifier: MIT */
/*
 * The task's control block; block.h has its memory.
 *
 * A task gets its stack from the thread that runs it first: until then context.sp is NULL, also
 * while it waits to begin (net/when_readable.c). Where
 * stacks are scarce (stack_slab.h), or the task takes a large argument with it, it gets its stack
 * when it is spawned. It gives the stack back when it has ended, joined or not.
 *
 * Who may write what:
 *   word          see status.h and scan.h; it outlives the task, with its block
 *   context       the thread that switches away from the task (see context.h)
 *   next          the party that has the task in a list of its own; the queue that it is in
 *   bound         the thread that waits with this task on it, before it queues the task
 *   join, result  see join.h
 *   generation    the party that frees the task, before its block can be another's; see handle.h
 *   wake_reason   the party that makes the task runnable, before doing so
 *   cancel, cancel_masks, in_waiter, in_side    see cancel.h
 *   home, in_scope, on_end    sync/scope.h
 *   on_begin      net/when_readable.c
 *   asked_*       see scan_ask.h
 *   trimmed       the monitor
 *   foreign       see sennit/foreign.h
 *   locals*       see local.h
 *   waits_*       the task itself, before it parks; hints for reports
 *   left_at, ready_at    see off_cpu.h
 *   name          the thread that makes the task; then the task itself
 *   stack         sn_spawn() or the thread that runs the task first; the party that
 *                 disposes of the ended task. Atomic, relaxed, as what follows.
 *   the rest      sn_spawn(), before the task is published
 *
 * The id, and what is atomic from waits_for on, is read by sn_tasks_each(), which has no right to
 * the task: relaxed, and only believed when id is the same before and after (see sn_task_create()).
 */
#ifndef SENNIT_SCHED_TASK_H
#define SENNIT_SCHED_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/foreign.h>
#include <sennit/scan.h>
#include <sennit/task.h>

#include "sched/context.h"
#include "sched/handle.h"
#include "sched/stack.h"
#include "sched/status.h"

/*
 * Larger arguments go to the top of the stack, which the task then needs at once. This is enough
 * for what most calls of sn::go() capture, and for all that sn_go() is given. Each byte is one of
 * every task, also of those that have not begun (net/when_readable.c).
 */
#define SN_TASK_KEPT 64

/* A place in a list, or the list itself. */
struct sn_link {
	struct sn_link *next, *prev;
};

struct sn_cancel;
struct sn_local_node;
struct sn_side;
struct sn_thread;
struct sn_waiter;

struct sn_task {
	/* What a switch touches is on one line. */
	struct sn_task_status_word word;
	int wake_reason;     /* what sn_park() returns: 0 or a negative errno */
	_Atomic uint64_t id; /* 0 while what sn_tasks_each() reads is written */
	struct sn_context context;
	struct sn_task *next;

	/* Not NULL: only this thread may run the task: it is pinned, or waits there for a
	 * processor. */
	struct sn_thread *bound;

	_Atomic uintptr_t join; /* enum sn_join_state, or the address of the joiner: join.h */
	int result;
	struct sn_foreign foreign;

	uint32_t cancel_masks; /* while not 0, cancel is not heeded */
	/* SN_TASK_BRIEF, and how many sn_brief_begin(). Written by the task itself. Read by the
	 * thread that has made it runnable, or has taken it out of a queue, which orders it as it
	 * does context. */
	uint8_t brief;
	uint8_t stack_class;      /* of the stack that it gets when it runs first */
	uint8_t locals_round;     /* 0 when no task is in the block */
	struct sn_cancel *cancel; /* NULL: nothing ever cancels the task */
	struct sn_waiter *in_waiter;
	struct sn_side *in_side;
	struct sn_cancel *home;  /* what it was started in; NULL: nothing */
	struct sn_link in_scope; /* among the tasks of that */
	/* Called in the task, inside the runtime, before its function. Must not park. */
	void (*on_begin)(struct sn_task *task);
	/* The same when its function has returned. May park. */
	void (*on_end)(struct sn_task *task);

	sn_fn *fn;
	struct sn_stack stack;       /* low and high NULL: none */
	_Atomic uint32_t generation; /* of the tasks in this block: it outlives them */
	uint32_t trimmed; /* trim.c's: when it had parked that its stack was trimmed for */
	uint64_t modes;   /* floating-point, to begin with */

	/* scan_ask.h: a request, of the asker that has set ASKING, until it sets ASKED. */
	sn_task_scan_fn *asked_fn;
	void *asked_arg;

	const char *_Atomic waits_for; /* what kind of thing it is parked in */
	const void *_Atomic waits_in;  /* the object */
	const void *_Atomic spawned_at;
	_Atomic uint64_t spawned_by;
	_Atomic char name[SN_TASK_NAME_MAX + 1];

	_Atomic int64_t left_at, ready_at; /* while waits are measured */

	/* From here to the end is what a collector has to look at: sn_task_info.own_low. */
	void *arg;
	struct sn_local_node *locals;         /* NULL when no task is in the block */
	_Alignas(64) char kept[SN_TASK_KEPT]; /* a small argument that the task takes with it */
};

/* Fetches the lines of a free block that a spawn begins with. */
static inline void sn_task_prefetch_new(const struct sn_task *task)
{
	__builtin_prefetch(&task->word, 1);
	__builtin_prefetch(&task->generation, 1);
}

/* Its stack, or {NULL, NULL}, for a thread that has no right to the task. */
static inline struct sn_stack sn_task_stack(const struct sn_task *task)
{
	return (struct sn_stack){
		.low = __atomic_load_n(&task->stack.low, __ATOMIC_RELAXED),
		.high = __atomic_load_n(&task->stack.high, __ATOMIC_RELAXED),
	};
}

/*
 * What programs have of a task, to know it again and to join it. The caller keeps the task from
 * being freed. Relaxed: the generation was written before the task was made.
 */
static inline sn_task *sn_task_handle(const struct sn_task *task)
{
	return (sn_task *)sn_handle_make(
		task, atomic_load_explicit(&task->generation, memory_order_relaxed));
}

/*
 * The task of a handle; NULL for NULL, and for a handle whose task was freed. The task can be
 * freed, and its block be another's, at once: a caller that does not know that it stays reads the
 * generation again (join.c). An address without a tag, which is what the runtime uses inside,
 * passes.
 */
static inline struct sn_task *sn_task_of(const sn_task *handle)
{
	struct sn_task *task = (struct sn_task *)sn_handle_object(handle);

	if (sn_unlikely(!task))
		return NULL;
	if (sn_unlikely((const struct sn_task *)handle == task))
		return task;
	/* Relaxed: the caller was given the handle after that generation began. */
	return sn_handle_fits(handle, atomic_load_explicit(&task->generation, memory_order_relaxed))
		       ? task
		       : NULL;
}

/* Says, for reports, what the calling task is about to wait in. kind: a string that stays valid. */
static inline void sn_task_waits(struct sn_task *task, const char *kind, const void *object)
{
	atomic_store_explicit(&task->waits_for, kind, memory_order_relaxed);
	atomic_store_explicit(&task->waits_in, object, memory_order_relaxed);
}

/* As snprintf(), for a name that other threads may be reading. */
static inline void sn_task_put_name(struct sn_task *task, const char *name)
{
	size_t i = 0;

	for (; name && name[i] && i < SN_TASK_NAME_MAX; i++)
		atomic_store_explicit(&task->name[i], name[i], memory_order_relaxed);
	atomic_store_explicit(&task->name[i], 0, memory_order_relaxed);
}

/* Makes a task in a block, with a stack or without (NULL). Does not publish it. */
void sn_task_create(struct sn_task *task, const struct sn_stack *stack, sn_fn *fn, void *arg,
		    const struct sn_task_attr *attr);

/*
 * Spawning in steps, for a caller that has something to do with the task before it may run: a new
 * detached task, NULL with *err when there cannot be one (at: where in the program that was asked
 * for); then either makes it runnable or throws it away. self: NULL on a thread of the program's
 * own, between sn_foreign_enter() and sn_foreign_leave().
 */
struct sn_task *sn_task_new(struct sn_thread *self, sn_fn *fn, void *arg,
			    const struct sn_task_attr *attr, const void *at, int *err);
void sn_task_launch(struct sn_thread *self, struct sn_task *task);
/* Counts a task that is launched in another way. */
void sn_task_count(struct sn_thread *self);
void sn_task_discard(struct sn_thread *self, struct sn_task *task);

#endif
