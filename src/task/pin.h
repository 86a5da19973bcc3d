/* SPDX-License-Identifier: MIT */
/*
 * Pinning: a task that may run on one thread only, and that thread, which may run no other task.
 *
 * Contract. sn_pin() and sn_unpin() (blocking.c) count; the functions here do the first pin and the
 * last unpin. The number of pinned threads stays below the limit of threads.
 *
 * A pinned task may make its thread different from the others: it may give it a namespace, an
 * identity, CPUs, or thread-locals. By unpinning, the task says that other tasks may run on the
 * thread as it is. If a task ends without unpinning, the thread runs no other task, gives its
 * processor away (sched/idle.c) and ends. Either way the changes do not spread, because a thread to
 * which a task was pinned starts no others (sched/birth.h).
 *
 * Rejected: ending the thread at the last unpin as well, because a pin around a few calls of a
 * library would then cost a thread; checking whether the task has changed anything, which takes
 * some thirty system calls and would still miss thread-locals.
 *
 * Who may write what:
 *   thread->pinned, pins, altered, ends   the thread itself
 *   task->bound            see sched/task.h
 *   the count of pinned threads   each pinned thread, for itself, atomically
 */
#ifndef SENNIT_TASK_PIN_H
#define SENNIT_TASK_PIN_H

struct sn_thread;

/* From now on the thread runs only its present task, which runs on no other thread. Returns 0, or
 * -EAGAIN if too many threads are pinned. */
int sn_thread_pin(struct sn_thread *self);
/* From now on the thread may run any task again. */
void sn_thread_unpin(struct sn_thread *self);
/* Called when the pinned task of the thread has ended: the thread runs no task any more. */
void sn_thread_task_ends(struct sn_thread *self);

/* Called when a run begins: no thread is pinned. */
void sn_pins_begin(void);

#endif
