/* SPDX-License-Identifier: MIT */
/*
 * The life of a task on its stack, from its first run to its end.
 *
 * Contract. A task begins on a stack that the scheduler has bound to it (sched/task_stack.h). It
 * gives the stack back when it has ended, whether or not it is joined. join.h says which party then
 * frees its block.
 *
 * The end. A task that has ended uses its stack until it has switched away, so the commit of that
 * last switch (commit_end()) gives the stack back.
 *
 * Who may write what: see sched/task.h and join.h.
 */
#ifndef SENNIT_TASK_LIFE_H
#define SENNIT_TASK_LIFE_H

struct sn_task;
struct sn_thread;

/* The value of sn_task_main: runs a task's function, as the first function on its stack. Does not
 * return. */
void sn_task_live(void *task);

/* Frees the block of a task that has ended, or has never run. The caller has the claim (join.h). */
void sn_task_free(struct sn_thread *self, struct sn_task *task);

#endif
