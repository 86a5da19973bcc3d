/* SPDX-License-Identifier: MIT */
/*
 * The task's control block; block.h has its memory.
 *
 * A task gets its stack from the thread that runs it first: until then context.sp is NULL, also
 * while it waits to begin (stream/when_readable.c). Where stacks are scarce (stack/stack_slab.h),
 * or the task takes a large argument with it, it gets its stack when it is spawned. It gives the
 * stack back when it has ended, joined or not.
 *
 * Lines. On 64-bit machines the fields are in groups of one cache line each. Where tens of
 * thousands of tasks are alive at once, their blocks do not fit into the caches, and a task costs
 * as much as the lines that it touches. A spawn writes two of them, and a third with a small
 * argument; a task's first turn and its end need these and one more. So a spawn does not clear what
 * only some tasks use: the party that ends or frees a task leaves that as a free block has it
 * (clean() in task/life.c), which costs little, because only what is at hand then can have been
 * written. Debug builds check it at each spawn.
 *
 * Who may write what:
 *   word          see status.h and scan.h; it outlives the task, with its block
 *   context       the thread that switches away from the task (see stack/context.h)
 *   next, ahead   the party that has the task in a list of its own; the queue that it is in
 *   bound, is_bound    the thread that waits with this task on it, before it queues the task
 *   tied, apart   see tie.h
 *   join, result  see task/join.h
 *   generation    the party that frees the task, before its block can be another's; see
 *                 base/handle.h
 *   wake_reason   the party that makes the task runnable, before doing so
 *   cancel, cancel_masks, in_waiter, in_side    see task/cancel.h
 *   home, in_scope, on_end    sync/scope.h
 *   on_begin      stream/when_readable.c
 *   asked_*       see observe/scan_ask.h
 *   trimmed       the monitor
 *   foreign       see sennit/foreign.h
 *   locals*       see task/local.h
 *   waits_*       the task itself, before it parks; hints for reports
 *   left_at, ready_at    see off_cpu.h
 *   name, named   the thread that makes the task; then the task itself; the party that frees it
 *   stack         sn_spawn() or the thread that runs the task first; the party that
 *                 disposes of the ended task. Atomic, relaxed, as what follows.
 *   the rest      sn_spawn(), before the task is published
 *
 * The id, and what is atomic after it, is read by sn_tasks_each(), which has no right to the task:
 * relaxed, and only believed when id is the same before and after (see describe() in task/spawn.c).
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

#include "base/handle.h"
#include "sched/status.h"
#include "sched/tie.h"
#include "stack/context.h"
#include "stack/stack.h"

/*
 * Larger arguments go to the top of the stack, which the task then needs at once. This is enough
 * for what most calls of sn::go() capture, and for all that sn_go() is given. Each byte is one of
 * every task, also of those that have not begun (stream/when_readable.c).
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
	/* ---- for queues and switches ---- */

	struct sn_task_status_word word;
	int16_t wake_reason; /* what sn_park() returns: 0 or a negative errno */
	bool is_bound;       /* bound is not NULL; false in a free block */
	uint8_t tied;        /* enum sn_tied; SN_TIED_NOT in a free block */
	_Atomic uint64_t id; /* 0 while what sn_tasks_each() reads is written */
	struct sn_context context;
	struct sn_task *next;
	struct sn_task *ahead; /* a task further back in the global queue, or any: see ready.c */

	/* ---- for a turn; all zeros in a free block ---- */

	/* Not NULL, as is_bound says: only this thread may run the task: it is pinned, tied,
	 * or waits there for a processor. Or SN_NO_HOME. */
	struct sn_thread *bound;
	struct sn_stack stack;    /* low and high NULL: none */
	struct sn_cancel *cancel; /* NULL: nothing ever cancels the task */
	/* Called in the task, inside the runtime, before its function. Must not park. */
	void (*on_begin)(struct sn_task *task);
	/* The same when its function has returned. May park. */
	void (*on_end)(struct sn_task *task);
	uint32_t cancel_masks; /* while not 0, cancel is ignored */
	struct sn_foreign foreign;

	/* ---- for waits ---- */

	struct sn_waiter *in_waiter; /* these two: NULL in a free block */
	struct sn_side *in_side;
	struct sn_link in_scope; /* among the tasks of home */
	/* While it is parked: what kind of thing it is parked in, and the object. */
	const char *_Atomic waits_for;
	const void *_Atomic waits_in;
	/* observe/scan_ask.h: a request, of the asker that has set ASKING, until it sets ASKED. */
	sn_task_scan_fn *asked_fn;
	void *asked_arg;

	/* ---- for few tasks ---- */

	_Atomic char name[SN_TASK_NAME_MAX + 1]; /* empty in a free block */
	struct sn_cancel *home; /* what it was started in; NULL: nothing, also in a free block */
	_Atomic int64_t left_at, ready_at; /* while waits are measured */
	uint32_t trimmed;     /* trim.c's: the park time for which the stack was last trimmed */
	uint8_t locals_round; /* 0 when no task is in the block */

	/* ---- for a spawn ---- */

	_Atomic uint32_t generation; /* of the tasks in this block: it outlives them */
	/* The SN_TASK_BRIEF bit plus the nesting depth of sn_brief_begin(). Written by the task
	 * itself. Read by the thread that has made it runnable, or has taken it out of a queue,
	 * which orders the read as it does that of context. */
	uint8_t brief;
	uint8_t stack_class; /* of the stack that it gets when it runs first */
	bool apart; /* it runs on threads to which nothing is tied; false in a free block */
	bool named; /* the name was written; false in a free block */
	_Atomic uintptr_t join; /* enum sn_join_state, or the address of the joiner: task/join.h */
	union {
		uint64_t modes; /* until it has a stack: floating-point, to begin with */
		int result;     /* once its function has returned */
	};
	_Atomic uint64_t spawned_by;
	const void *_Atomic spawned_at;
	sn_fn *fn;

	/* From here to the end is what a collector has to look at: sn_task_info.own_low. */
	void *arg;
	struct sn_local_node *locals;         /* NULL when no task is in the block */
	_Alignas(64) char kept[SN_TASK_KEPT]; /* a small argument that the task takes with it */
};

#if UINTPTR_MAX > UINT32_MAX && !SN_ASAN && !SN_TSAN && !SN_VALGRIND
_Static_assert(offsetof(struct sn_task, bound) == 64 &&
		       offsetof(struct sn_task, in_waiter) == 128 &&
		       offsetof(struct sn_task, name) == 192 &&
		       offsetof(struct sn_task, generation) == 256 &&
		       offsetof(struct sn_task, kept) == 320,
	       "each group has a line");
#endif

/* Fetches the lines of a free block that a spawn writes. */
static inline void sn_task_prefetch_new(const struct sn_task *task)
{
	__builtin_prefetch(&task->word, 1);
	__builtin_prefetch(&task->generation, 1);
}

/* Fetches those that the first turn of a task needs. Later turns need the first two. */
static inline void sn_task_prefetch_turn(const struct sn_task *task)
{
	__builtin_prefetch(&task->word, 1);
	__builtin_prefetch(&task->bound, 1);
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
 * generation again (task/join.c). An address without a tag, which is what the runtime uses inside,
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

/* Only the thread may run the task from now on; NULL: any. */
static inline void sn_task_bind_to(struct sn_task *task, struct sn_thread *thread)
{
	task->bound = thread;
	task->is_bound = thread != NULL;
}

/* It is bound to no thread of its own: in the beginning, and after it was tied or pinned. */
static inline void sn_tie_unbind(struct sn_task *task)
{
	sn_task_bind_to(task, sn_unlikely(task->apart) ? SN_NO_HOME : NULL);
	task->tied = task->apart ? SN_TIED_APART : SN_TIED_NOT;
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

	task->named = true;
	for (; name && name[i] && i < SN_TASK_NAME_MAX; i++)
		atomic_store_explicit(&task->name[i], name[i], memory_order_relaxed);
	atomic_store_explicit(&task->name[i], 0, memory_order_relaxed);
}

#endif
