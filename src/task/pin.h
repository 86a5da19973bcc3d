/* SPDX-License-Identifier: MIT */
/*
 * Pinning: a task that may run on one thread only, and that thread, which may run no other task.
 *
 * Contract. sn_pin() and sn_unpin() (blocking.c) count; here are the first pin and the last unpin.
 * Fewer threads are pinned than there may be.
 *
 * A pinned task may make its thread different from the others: give it a namespace, an identity,
 * CPUs, or thread-locals. By unpinning it says that other tasks may have the thread as it is. A
 * task that ends without that takes the thread with it: the thread runs no other, gives its
 * processor away (sched/idle.c) and ends. Either way, what was changed does not spread, because a
 * thread to which a task was pinned starts no others (sched/birth.h).
 *
 * Rejected: ending the thread at the last unpin as well, because a pin around a few calls of a
 * library would then cost a thread. Looking whether the task has changed anything: some thirty
 * system calls, which would still miss thread-locals.
 *
 * Who may write what:
 *   thread->pinned, pins, altered, ends   the thread itself
 *   task->bound            see sched/task.h
 *   how many are pinned    each pinned thread, for itself
 */
#ifndef SENNIT_TASK_PIN_H
#define SENNIT_TASK_PIN_H

struct sn_thread;

/* From now on the thread may run its task only, which may run nowhere else. 0, or -EAGAIN: too many
 * are pinned. */
int sn_thread_pin(struct sn_thread *self);
/* It may run any task again. */
void sn_thread_unpin(struct sn_thread *self);
/* Its task has ended: if that was pinned, it may run none. */
void sn_thread_task_ends(struct sn_thread *self);

/* A run begins: no thread is pinned. */
void sn_pins_begin(void);

#endif
