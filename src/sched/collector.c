/* SPDX-License-Identifier: MIT */
#include "sched/collector.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "arch/sized.h"
#include "sched/control_block.h"
#include "sched/foreign.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "stack/stack_slab.h"
#include "wait/checked.h"

/* How far below the end of a stack an argument may begin that is too large for the block: it lies
 * at the top of the stack, aligned. */
#define ARGUMENT_ON_STACK (SN_TASK_ARG_MAX + 64 + SN_STACK_SHIFT_MAX)

static const struct sn_collector *_Atomic given; /* the program's */
static struct sn_collector own;                  /* a complete copy of it */
static const struct sn_collector *_Atomic installed;

int sn_collector_install(const struct sn_collector *collector)
{
	const struct sn_collector *none = NULL;
	struct sn_collector copy;
	int err = collector ? SN_SIZED_TAKE(&copy, collector) : -EINVAL;

	if (err < 0)
		return err;
	if (!copy.alloc != !copy.free)
		return -EINVAL;
	if (sn_foreign_admitted())
		return -EBUSY;
	if (!atomic_compare_exchange_strong(&given, &none, collector))
		return none == collector ? 0 : -EEXIST;
	own = copy;
	atomic_store(&installed, &own);
	sn_checked_collector();
	return 0;
}

/* Both accesses are relaxed, because a stronger order would guarantee no more: the monitor may have
 * looked at a thread just before the stop, and then takes its processor. */
static _Atomic bool stops;

void sn_collector_stopping(int stopping)
{
	atomic_store_explicit(&stops, stopping != 0, memory_order_relaxed);
}

bool sn_collector_stops(void)
{
	return atomic_load_explicit(&stops, memory_order_relaxed);
}

void sn_collector_fork(enum sn_fork_phase phase)
{
	/* Neither the thread that stopped the others nor the stopped threads exist in the child. */
	if (phase == SN_FORK_CHILD)
		sn_collector_stopping(0);
}

void sn_collector_thread_begins(void *thread)
{
	const struct sn_collector *collector = atomic_load(&installed);

	sn_checked_callback("thread_begins");
	if (collector && collector->thread_begins)
		collector->thread_begins(thread);
}

void sn_collector_thread_ends(void *thread)
{
	const struct sn_collector *collector = atomic_load(&installed);

	sn_checked_callback("thread_ends");
	if (collector && collector->thread_ends)
		collector->thread_ends(thread);
}

void sn_collector_call_without_signals(void (*fn)(void *arg), void *arg)
{
	const struct sn_collector *collector = atomic_load(&installed);

	sn_checked_callback("call_without_signals");
	if (collector && collector->call_without_signals)
		collector->call_without_signals(fn, arg);
	else
		fn(arg);
}

void *sn_collector_alloc(size_t align, size_t size)
{
	const struct sn_collector *collector = atomic_load(&installed);

	/* aligned_alloc() requires a size that is a multiple of the alignment. */
	if (__builtin_add_overflow(size, align - 1, &size))
		return NULL;
	size &= ~(align - 1);
	sn_checked_callback("alloc");
	if (collector && collector->alloc)
		return collector->alloc(align, size);
	return aligned_alloc(align, size);
}

void sn_collector_free(void *memory)
{
	const struct sn_collector *collector = atomic_load(&installed);

	sn_checked_callback("free");
	if (collector && collector->free)
		collector->free(memory);
	else
		free(memory);
}

struct visit {
	sn_task_roots_visitor *fn;
	void *arg;
	bool forgotten;
};

static int show(struct sn_task *task, void *arg)
{
	const struct visit *visit = arg;
	enum sn_task_status status = sn_status_get(&task->word);
	struct sn_stack stack = sn_task_stack(task);
	char *saved = __atomic_load_n(&task->context.sp, __ATOMIC_RELAXED);
	struct sn_task_roots roots = {
		.own_low = &task->arg,
		.own_high = task + 1,
		.on_thread = status == SN_TASK_RUNNING || status == SN_TASK_BLOCKING ||
			     status == SN_TASK_RETURNING,
	};

	if (status == SN_TASK_FREE || status == SN_TASK_ENDED)
		return 0;
	/* Of the forgotten tasks, only those on the thread of an orphan can still use
	 * references. */
	if (visit->forgotten && !roots.on_thread)
		return 0;
	if (stack.low && stack.high && stack.low < stack.high) {
		roots.stack_low = stack.low;
		roots.stack_high = stack.high;
		if (saved >= stack.low && saved <= stack.high)
			roots.stack_saved = saved;
		else if (status == SN_TASK_NEW)
			roots.stack_saved = stack.high - ARGUMENT_ON_STACK;
	}
	sn_checked_callback("visitor of roots");
	visit->fn(&roots, visit->arg);
	return 0;
}

void sn_collector_roots(sn_task_roots_visitor *fn, void *arg)
{
	struct visit visit = {fn, arg, false};

	(void)sn_block_each(show, &visit);
	visit.forgotten = true;
	(void)sn_block_each_forgotten(show, &visit);
}

static bool lies_on(const struct sn_stack *stack, const void *sp)
{
	return (const char *)sp >= stack->low && (const char *)sp < stack->high;
}

int sn_collector_thread_stack(const void *thread, const void *sp, const void **low,
			      const void **high)
{
	const struct sn_thread *at = thread;
	struct sn_task *task = __atomic_load_n(&at->task, __ATOMIC_RELAXED);
	struct sn_stack stack = {NULL, NULL, NULL};
	bool in_guard;

	if (task)
		stack = sn_task_stack(task);
	if (sp ? !lies_on(&stack, sp) : !stack.low) {
		/* The thread is in the middle of a switch, or the task is about to end. */
		if (!sp || !sn_stack_find(sp, &stack, &in_guard) || in_guard)
			return 0;
	}
	*low = stack.low;
	*high = stack.high;
	return 1;
}
