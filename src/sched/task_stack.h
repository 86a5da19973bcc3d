/* SPDX-License-Identifier: MIT */
/*
 * The stack of a task: bound when a thread first runs the task, and taken when it has ended.
 *
 * Contract. A task that is runnable for the first time has no stack, unless it got one when it was
 * spawned (task.h). The thread that runs it binds one to it. Execution on that stack begins with
 * sn_task_main(), which the layer of the tasks provides (task/life.h). No call goes through that
 * pointer: it is written into a new stack, as the place to which the first switch returns.
 *
 * Starving. If no stack is available, the task is put into a list of starved tasks, and further
 * spawns are refused. Each time that a stack is given back, one starved task becomes runnable again
 * and retries. The monitor also lets some retry, because a stack may have been given back just
 * before the task came into the list, and address space may become free for other reasons.
 *
 * Who may write what:
 *   sn_task_main               run/run.c, before the first thread of a run starts
 *   the list of starved tasks  any thread, under its lock
 *   whether there are any      any thread, under that lock; read without it: a spawn that sees an
 *                              old value tries to get a stack, and the monitor looks again later
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

/* The first function on the stack of a task. Its argument is the task. It does not return. */
extern void (*sn_task_main)(void *task) sn_hidden;

/*
 * Gives the task a stack; the thread is about to run it, and it has none yet. Returns false if no
 * stack is available; then the task starves, and sn_tasks_feed() will queue it.
 */
bool sn_task_bind(struct sn_thread *self, struct sn_task *task);

/* Gives the task this stack. top is the lowest address that is in use above the first frame. */
void sn_task_give_stack(struct sn_task *task, struct sn_stack stack, uintptr_t top);

static inline void sn_task_set_stack(struct sn_task *task, struct sn_stack stack)
{
	__atomic_store_n(&task->stack.low, stack.low, __ATOMIC_RELAXED);
	__atomic_store_n(&task->stack.high, stack.high, __ATOMIC_RELAXED);
	task->stack.slab = stack.slab;
}

/* Takes the stack away from the task, if it has one. No thread may be running on it any more. */
void sn_task_take_stack(struct sn_thread *self, struct sn_task *task);

/* Logs that there is no stack, once in the life of the process: a program that retries would
 * otherwise fill its log. */
void sn_log_no_stack(const char *why);

extern _Atomic bool sn_any_task_starves sn_hidden;

static inline bool sn_tasks_starve(void)
{
	return atomic_load_explicit(&sn_any_task_starves, memory_order_relaxed);
}

/* A chore of the monitor: queues some of the starved tasks, which try again. */
void sn_tasks_feed(int64_t now, bool idle);

/* Called at the end of a run: forgets the starved tasks. */
void sn_tasks_forget_starved(void);

void sn_tasks_fork(enum sn_fork_phase phase);

#endif
