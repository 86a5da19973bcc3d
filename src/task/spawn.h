/* SPDX-License-Identifier: MIT */
/*
 * Making tasks: sn_spawn(), sn_go(), and the steps that they are made of.
 *
 * Contract. A spawn takes a control block, and a stack where stacks are scarce or the argument goes
 * to the top of it (sched/task.h); it takes both before it writes anything, so one that fails
 * leaves no trace. Until the task is queued no other thread knows it, except walks over all blocks:
 * describe() in spawn.c says what those may believe.
 */
#ifndef SENNIT_TASK_SPAWN_H
#define SENNIT_TASK_SPAWN_H

#include "sched/task.h"

struct sn_thread;

/* Makes a task in a block, with a stack or without (NULL). Does not publish it. */
void sn_task_create(struct sn_task *task, const struct sn_stack *stack, sn_fn *fn, void *arg,
		    const struct sn_task_attr *attr);

/*
 * Spawning in steps, for a caller that has something to do with the task before it may run: a new
 * detached task, NULL with *err when there cannot be one (at: where in the program that was asked
 * for). sn_task_launch() makes it runnable. self: NULL on a thread of the program's own, between
 * sn_foreign_enter() and sn_foreign_leave().
 */
struct sn_task *sn_task_new(struct sn_thread *self, sn_fn *fn, void *arg,
			    const struct sn_task_attr *attr, const void *at, int *err);
void sn_task_launch(struct sn_thread *self, struct sn_task *task);
/* Counts a task that is launched in another way. */
void sn_task_count(struct sn_thread *self);

#endif
