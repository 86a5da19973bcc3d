/* SPDX-License-Identifier: MIT */
/*
 * Making tasks: sn_spawn(), sn_go(), and the steps that they are made of.
 *
 * Contract. A spawn takes a control block. It also takes a stack if stacks are scarce, or if the
 * argument goes to the top of the stack (sched/task.h). It takes both before it writes anything, so
 * a spawn that fails leaves no trace. Until the task is queued no other thread knows it, except
 * those that walk over all blocks: describe() in spawn.c says which of its fields they may believe.
 *
 * Who may write what: see sched/task.h. Until the task is queued, its creator.
 */
#ifndef SENNIT_TASK_SPAWN_H
#define SENNIT_TASK_SPAWN_H

#include "sched/task.h"

struct sn_thread;

/* Makes a task in a block. stack may be NULL. Does not publish the task. */
void sn_task_create(struct sn_task *task, const struct sn_stack *stack, sn_fn *fn, void *arg,
		    const struct sn_task_attr *attr);

/*
 * Spawning in steps, for a caller that has to do something with the task before it may run. The
 * first makes a detached task; it returns NULL with a negative errno in *err if it cannot. `at` is
 * the address in the program that made the call. sn_task_launch() makes the task runnable. self is
 * NULL on a thread of the program's own, between sn_foreign_enter() and sn_foreign_leave().
 */
struct sn_task *sn_task_new(struct sn_thread *self, sn_fn *fn, void *arg,
			    const struct sn_task_attr *attr, const void *at, int *err);
void sn_task_launch(struct sn_thread *self, struct sn_task *task);
/* Counts a task that is launched in another way. */
void sn_task_count(struct sn_thread *self);

#endif
