/* SPDX-License-Identifier: MIT */
/*
 * The task's control block; control_block.h has its memory.
 *
 * A task gets its stack from the thread that runs it first: until then context.sp is NULL, also
 * while it waits to begin (stream/when_readable.c). If stacks are scarce (stack/stack_slab.h), or
 * the task has a large argument, it gets its stack when it is spawned. It gives the stack back when
 * it has ended, whether or not it is joined.
 *
 * Lines. On 64-bit machines the fields are in groups of one cache line each. If tens of thousands
 * of tasks are alive at the same time, their blocks do not fit into the caches, and a task costs as
 * much as the lines that it touches. A spawn writes two of them, and a third if it has a small
 * argument; a task's first turn and its end need these and one more. A spawn therefore does not
 * clear fields that only some tasks use. Instead, the party that ends or frees a task puts these
 * fields into the state of a free block (clean() in task/life.c). That costs little, because only
 * fields on lines that it touches anyway can have been written. Debug builds check it at each
 * spawn.
 *
 * Who may write what:
 *   word          see status.h and scan.h; it outlives the task, with its block
 *   context       the thread that switches away from the task (see stack/context.h)
 *   next, ahead   the party in whose list the task is; for a queue, under its rules
 *   bound, is_bound    the thread that waits with this task on it, before it queues the task; see
 *                 also task/pin.h and tie.h
 *   tied, apart   see tie.h
 *   may_block     the thread that runs the task. It shares a byte with tied: a store of one of the
 *                 two loads and stores the other as well. Their writers are never at work at the
 *                 same time, with one exception: a signal handler on the task's stack may enter
 *                 the runtime in the middle of a store of tied (models/untie.pml). What it writes
 *                 to may_block, a hint, is lost then; tied it leaves as it was
 *   join, result  see task/join.h
 *   generation    the party that frees the task, before its block can be another's; see
 *                 base/handle.h
 *   wake_reason   the party that makes the task runnable, before doing so
 *   cancel, cancel_masks, in_waiter, in_side    see task/cancel.h
 *   scope, scope_link, on_end    sync/scope.h
 *   on_begin      stream/when_readable.c
 *   scan_*        see observe/scan_ask.h
 *   trimmed       the monitor
 *   foreign       see sennit/foreign.h
 *   locals*       see task/local.h
 *   waits_*       the task itself, before it parks; hints for reports
 *   left_at, ready_at    see off_cpu.h
 *   name, named   the thread that makes the task; then the task itself; the party that frees it
 *   stack         sn_spawn() or the thread that runs the task first; the party that
 *                 disposes of the ended task. Its accesses are atomic and relaxed.
 *   the rest      sn_spawn(), before the task is published
 *
 * sn_tasks_each() has no right to the task, but reads the id, the stack, and the atomic fields
 * after the id. Its reads are relaxed. It believes them only if the id is the same before and after
 * them (see describe() in task/spawn.c).
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
 * The largest argument that is kept in the block. A larger one goes to the top of the stack, which
 * the task then needs from the beginning. This is enough for what most calls of sn::go() capture,
 * and for all that sn_go() is given. It should not be more, because every task has these bytes,
 * also one that has not begun (stream/when_readable.c).
 */
#define SN_TASK_KEPT 64

/* For how many turns a task is expected to block again, after the monitor has revoked its processor
 * because it blocked: more than a task usually has between two such calls. */
#define SN_BLOCKS_AGAIN 8

/* A link in a doubly linked list, or the list's head. */
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
	uint8_t tied : 2;    /* enum sn_tied; SN_TIED_NOT in a free block */
	/* In so many more turns the task is expected to block its thread; 0 in a free block. */
	uint8_t may_block : 6;
	_Atomic uint64_t id; /* 0 while the fields that sn_tasks_each() reads are being written */
	struct sn_context context;
	struct sn_task *next;
	struct sn_task *ahead; /* a hint: a task further back in the global queue, see ready.c */

	/* ---- for a turn; all zeros in a free block ---- */

	/* If not NULL, which is_bound says as well, only this thread may run the task: the task is
	 * pinned or tied to it, or waits there for a processor. May also be SN_NO_HOME. */
	struct sn_thread *bound;
	struct sn_stack stack;    /* low and high are NULL if it has none */
	struct sn_cancel *cancel; /* NULL if nothing ever cancels the task */
	/* Called in the task, inside the runtime, before its function. Must not park. */
	void (*on_begin)(struct sn_task *task);
	/* Called in the task, inside the runtime, after its function has returned. May park. */
	void (*on_end)(struct sn_task *task);
	uint32_t cancel_masks; /* while not 0, cancel is ignored */
	struct sn_foreign foreign;

	/* ---- for waits ---- */

	struct sn_waiter *in_waiter; /* NULL in a free block */
	struct sn_side *in_side;     /* NULL in a free block */
	struct sn_link scope_link;   /* links the tasks of scope */
	/* While the task is parked: the kind of object in which it waits, and that object. */
	const char *_Atomic waits_for;
	const void *_Atomic waits_in;
	/* A request to scan the task. The asker that has set ASKING writes it, and then sets ASKED:
	 * observe/scan_ask.h. */
	sn_task_scan_fn *scan_fn;
	void *scan_arg;

	/* ---- for few tasks ---- */

	_Atomic char name[SN_TASK_NAME_MAX + 1]; /* empty in a free block */
	struct sn_cancel *scope; /* the scope it was started in, or NULL; NULL in a free block */
	_Atomic int64_t left_at, ready_at; /* valid while waits are measured */
	uint32_t trimmed;     /* the park time for which observe/trim.c last trimmed the stack */
	uint8_t locals_round; /* 0 if no task is in the block */

	/* ---- for a spawn ---- */

	_Atomic uint32_t generation; /* of the task in this block; it outlives the task */
	/* The SN_TASK_BRIEF bit plus the nesting depth of sn_brief_begin(). Written by the task
	 * itself. Read by the thread that has made it runnable, or has taken it out of a queue,
	 * which orders the read as it does that of context. */
	uint8_t brief;
	uint8_t stack_class; /* the class of the stack that it gets when it first runs */
	bool apart; /* it runs on threads to which nothing is tied; false in a free block */
	bool named; /* the name was written; false in a free block */
	_Atomic uintptr_t join; /* enum sn_join_state, or the address of the joiner: task/join.h */
	union {
		uint64_t modes; /* until it has a stack: the floating-point modes it begins with */
		int result;     /* after its function has returned */
	};
	_Atomic uint64_t spawned_by;
	const void *_Atomic spawned_at;
	sn_fn *fn;

	/* A collector has to look at the block from here to its end: sn_task_info.own_low. */
	void *arg;
	struct sn_local_node *locals;         /* NULL if no task is in the block */
	_Alignas(64) char kept[SN_TASK_KEPT]; /* holds a small argument */
};

#if UINTPTR_MAX > UINT32_MAX && !SN_ASAN && !SN_TSAN && !SN_VALGRIND
_Static_assert(offsetof(struct sn_task, bound) == 64 &&
		       offsetof(struct sn_task, in_waiter) == 128 &&
		       offsetof(struct sn_task, name) == 192 &&
		       offsetof(struct sn_task, generation) == 256 &&
		       offsetof(struct sn_task, kept) == 320,
	       "each group has a line");
#endif

/* Prefetches the lines of a free block that a spawn writes. */
static inline void sn_task_prefetch_new(const struct sn_task *task)
{
	__builtin_prefetch(&task->word, 1);
	__builtin_prefetch(&task->generation, 1);
}

/* Prefetches the lines that the first turn of a task needs. Later turns need the first two. */
static inline void sn_task_prefetch_turn(const struct sn_task *task)
{
	__builtin_prefetch(&task->word, 1);
	__builtin_prefetch(&task->bound, 1);
	__builtin_prefetch(&task->generation, 1);
}

/* The task's stack, or {NULL, NULL} if it has none. For a thread that has no right to the task. */
static inline struct sn_stack sn_task_stack(const struct sn_task *task)
{
	return (struct sn_stack){
		.low = __atomic_load_n(&task->stack.low, __ATOMIC_RELAXED),
		.high = __atomic_load_n(&task->stack.high, __ATOMIC_RELAXED),
	};
}

/*
 * Prefetches the hot end of the stack: the saved registers and the frames above them, of which a
 * turn that comes back from a wait in a relay reads 22 lines. For a task that is about to run on a
 * processor that has run many others since. A task that is back from foreign code is in a queue
 * while its thread still uses its stack: then this is of no use.
 */
#define SN_STACK_LINES 22
static inline void sn_task_prefetch_stack(const struct sn_task *task)
{
	const char *sp = __atomic_load_n((char *const *)&task->context.sp, __ATOMIC_RELAXED);
	const char *high = sn_task_stack(task).high;

	if (!sp)
		return;
	for (int i = 0; i < SN_STACK_LINES && sp < high; i++, sp += 64)
		__builtin_prefetch(sp);
}

/*
 * The handle by which programs identify the task and join it. The caller keeps the task from being
 * freed. Relaxed: the generation was written before the task was made.
 */
static inline sn_task *sn_task_handle(const struct sn_task *task)
{
	return (sn_task *)sn_handle_make(
		task, atomic_load_explicit(&task->generation, memory_order_relaxed));
}

/*
 * The task of a handle; NULL for NULL, and for a handle whose task was freed. Another thread may
 * free the task, and its block may get another one, at any moment. A caller that does not keep the
 * task must therefore read the generation again later (task/join.c). An address without a tag,
 * which the runtime itself uses, is returned as it is.
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

/* From now on only the thread may run the task, or any thread if it is NULL. */
static inline void sn_task_bind_to(struct sn_task *task, struct sn_thread *thread)
{
	task->bound = thread;
	/* In this order: a signal handler on the task's stack that enters the runtime in between
	 * leaves is_bound as it belongs to bound (sn_processor_regain()). models/untie.pml. */
	sn_compiler_barrier();
	task->is_bound = thread != NULL;
}

/* From now on the task is neither tied nor pinned, as when it begins: any thread may run it, or, if
 * it runs apart, any thread to which nothing is tied. */
static inline void sn_tie_unbind(struct sn_task *task)
{
	const bool apart = task->apart;

	sn_task_bind_to(task, sn_unlikely(apart) ? SN_NO_HOME : NULL);
	/* Last, for signal handlers on the task's stack: see sn_tie_came_back(). */
	sn_compiler_barrier();
	task->tied = apart ? SN_TIED_APART : SN_TIED_NOT;
}

/* Whether the running task is neither tied nor pinned, nor in the middle of becoming it, or of what
 * undoes that: exact also in a signal handler on the task's stack. */
static inline bool sn_tie_is_over(const struct sn_task *task)
{
	return task->bound == NULL ? task->tied == SN_TIED_NOT
				   : task->bound == SN_NO_HOME && task->tied == SN_TIED_APART;
}

/* Notes, for reports, in which object the calling task is about to wait. kind is a string that
 * stays valid. */
static inline void sn_task_waits(struct sn_task *task, const char *kind, const void *object)
{
	atomic_store_explicit(&task->waits_for, kind, memory_order_relaxed);
	atomic_store_explicit(&task->waits_in, object, memory_order_relaxed);
}

/* Stores the name, truncated as by snprintf(). Other threads may be reading the old one. */
static inline void sn_task_put_name(struct sn_task *task, const char *name)
{
	size_t i = 0;

	task->named = true;
	for (; name && name[i] && i < SN_TASK_NAME_MAX; i++)
		atomic_store_explicit(&task->name[i], name[i], memory_order_relaxed);
	atomic_store_explicit(&task->name[i], 0, memory_order_relaxed);
}

#endif
