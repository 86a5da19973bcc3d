/* SPDX-License-Identifier: MIT */
/*
 * The life of a task on its stack, from its first run to its end.
 *
 * Contract. It begins on a stack that the scheduler has bound to it (sched/task_stack.h). It gives
 * the stack back when it has ended, joined or not. join.h says which call then frees its block.
 *
 * The end. A task that has ended still stands on its stack until it has switched away, so its stack
 * is disposed of in the commit of that last switch (commit_end()).
 */
#ifndef SENNIT_TASK_LIFE_H
#define SENNIT_TASK_LIFE_H

struct sn_task;
struct sn_thread;

/* Runs a task's function, from the beginning of its stack. Does not return. For sn_task_main. */
void sn_task_live(void *task);

/* Frees the block of a task that has ended, or has never run. The caller has the claim. */
void sn_task_free(struct sn_thread *self, struct sn_task *task);

#endif
