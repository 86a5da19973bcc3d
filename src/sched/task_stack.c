/* SPDX-License-Identifier: MIT */
#include "sched/task_stack.h"

#include "sched/processor.h"
#include "sched/runqueue.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "stack/sanitizer.h"
#include "wait/lock.h"

/* How many starved tasks may retry when one stack is given back. A larger number would only delay
 * the thread that gives it back. */
#define FED_BY_ONE_STACK 1

/* How many may retry after a round of the monitor; each may cost failing system calls. */
#define FED_AT_A_LOOK 16

static struct sn_lock starved_lock = SN_LOCK_INIT(SN_RANK_STARVED);
static struct sn_queue starved; /* guarded by that lock */
_Atomic bool sn_any_task_starves;

void (*sn_task_main)(void *task);

void sn_tasks_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&starved_lock, phase);
	if (phase == SN_FORK_CHILD)
		sn_tasks_forget_starved();
}

void sn_tasks_forget_starved(void)
{
	starved = (struct sn_queue){0};
	atomic_store(&sn_any_task_starves, false);
}

void sn_log_no_stack(const char *why)
{
	static _Atomic bool logged;

	if (!atomic_exchange_explicit(&logged, true, memory_order_relaxed))
		sn_log("no stack for a new task: out of %s; %llu stacks are in use or cached", why,
		       (unsigned long long)sn_stacks_mapped());
}

void sn_task_give_stack(struct sn_task *task, struct sn_stack stack, uintptr_t top)
{
	sn_task_set_stack(task, stack);
#if SN_ASAN || SN_TSAN || SN_VALGRIND
	task->context.stack_low = stack.low;
	task->context.stack_size = (size_t)(stack.high - stack.low);
	sn_sanitizer_create(&task->context, sn_task_name(task));
#endif
	__atomic_store_n(&task->context.sp,
			 sn_arch_prepare((void *)top, sn_task_main, task, task->modes),
			 __ATOMIC_RELAXED);
}

static sn_noinline void starve(struct sn_task *task, const char *why)
{
	sn_log_no_stack(why);
	sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_RUNNER);
	sn_lock(&starved_lock);
	sn_queue_put(&starved, task);
	atomic_store(&sn_any_task_starves, true);
	sn_unlock(&starved_lock);
}

sn_noinline bool sn_task_bind(struct sn_thread *self, struct sn_task *task)
{
	struct sn_stack stack;
	const char *why;

	if (sn_stack_alloc(&stack, task->stack_class, self->processor->stacks, &why) < 0) {
		starve(task, why);
		return false;
	}
	sn_task_give_stack(task, stack, sn_stack_top(&stack));
	return true;
}

static void feed(int n)
{
	struct sn_task *task;

	while (sn_tasks_starve() && n-- > 0) {
		sn_lock(&starved_lock);
		task = sn_queue_get(&starved);
		if (!starved.head)
			atomic_store(&sn_any_task_starves, false);
		sn_unlock(&starved_lock);
		if (task)
			sn_requeue(task);
	}
}

void sn_tasks_feed(int64_t now, bool idle)
{
	(void)now, (void)idle;
	feed(FED_AT_A_LOOK);
}

void sn_task_take_stack(struct sn_thread *self, struct sn_task *task)
{
	struct sn_stack stack = task->stack;

	if (!stack.low)
		return;
	sn_sanitizer_destroy(&task->context);
	sn_task_set_stack(task, (struct sn_stack){NULL, NULL, NULL});
	__atomic_store_n(&task->context.sp, NULL, __ATOMIC_RELAXED);
	sn_stack_free(stack, self && self->processor ? self->processor->stacks : NULL);
	feed(FED_BY_ONE_STACK);
}
