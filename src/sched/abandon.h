/* SPDX-License-Identifier: MIT */
/*
 * Leaving a task that will never continue: the runtime ends, and the task is on its way back from
 * foreign code. Apart from switch.h, because here nothing is decided: the thread returns to its own
 * loop, which finds out why.
 */
#ifndef SENNIT_SCHED_ABANDON_H
#define SENNIT_SCHED_ABANDON_H

struct sn_thread;

/* Abandons the running task for good, and returns to the thread's own loop. What is on the task's
 * stack is neither unwound nor freed. */
_Noreturn void sn_abandon(struct sn_thread *self);

#endif
