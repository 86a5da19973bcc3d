/* SPDX-License-Identifier: MIT */
/*
 * The stack of a task: bound when a thread first runs the task, and taken when it has ended.
 *
 * Contract. A task that is runnable for the first time has no stack, unless it got one when it was
 * spawned (task.h): the thread that runs it binds one to it. What happens on that stack is not the
 * scheduler's business: it begins with sn_task_main(), which the layer of the tasks provides
 * (task/life.h). No call goes through that pointer. It is written into a new stack, as the place to
 * which the first switch returns.
 *
 * Starving. When there is no stack to be had the task waits in a list, starved, and spawning more
 * is refused. The list is fed whenever a stack is given back, one task for one stack. The monitor
 * feeds it as well: a stack may have been given back just before the task came into the list, and
 * address space may be had again for other reasons.
 *
 * Who may write what:
 *   sn_task_main              run/run.c, before the first thread of a run starts
 *   the list of the starved   under its lock
 *   whether any starve        under that lock; read without: a spawn that does not see it yet tries
 *                             for itself, and the monitor comes again
 */
#ifndef SENNIT_SCHED_TASK_STACK_H
#define SENNIT_SCHED_TASK_STACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "base/fork.h"
#include "sched/task.h"

struct sn_thread;

/* The first function on the stack of a task, which is its argument. Does not return. */
extern void (*sn_task_main)(void *task) sn_hidden;

/*
 * The thread is about to run the task, which has no stack yet. False: there is none to be had, and
 * the task is left to sn_tasks_feed().
 */
bool sn_task_bind(struct sn_thread *self, struct sn_task *task);

/* For tasks that get one before. top: the lowest address in the stack that is taken. */
void sn_task_give_stack(struct sn_task *task, struct sn_stack stack, uintptr_t top);

static inline void sn_task_set_stack(struct sn_task *task, struct sn_stack stack)
{
	__atomic_store_n(&task->stack.low, stack.low, __ATOMIC_RELAXED);
	__atomic_store_n(&task->stack.high, stack.high, __ATOMIC_RELAXED);
	task->stack.slab = stack.slab;
}

/* Takes it away again, if it has one. No thread stands on it any more. */
void sn_task_take_stack(struct sn_thread *self, struct sn_task *task);

/* Once in the life of the process: a program that retries would otherwise fill its log with it. */
void sn_log_no_stack(const char *why);

extern _Atomic bool sn_any_task_starves sn_hidden;

static inline bool sn_tasks_starve(void)
{
	return atomic_load_explicit(&sn_any_task_starves, memory_order_relaxed);
}

/* A chore of the monitor's: queues some of the starved tasks, which try again. */
void sn_tasks_feed(int64_t now, bool idle);

/* The end of a run. */
void sn_tasks_forget_starved(void);

void sn_tasks_fork(enum sn_fork_phase phase);

#endif
