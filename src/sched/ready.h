/* SPDX-License-Identifier: MIT */
/*
 * The queue of runnable tasks that all processors share, which is called the global queue. ready.c
 * has it; switch.h declares the calls that make tasks runnable.
 *
 * Contract. Tasks leave the queue in the order in which they came, except that those that spill
 * over from a ring may go to the front (ready.c). A task that only one thread can run is in this
 * queue or in that thread's own (tie.h), never in a ring.
 *
 * Who may write what: all of the queue, any thread, under the runtime's lock. Its length
 * (sn_runtime.global_size) is also read without the lock.
 */
#ifndef SENNIT_SCHED_READY_H
#define SENNIT_SCHED_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/processor.h"
#include "sched/runqueue.h"
#include "sched/thread.h"

/* Called when a run begins: the global queue is empty. */
void sn_ready_begin(void);

/* Puts tasks into the global queue, which the caller then announces (wake.h). */
void sn_global_put(struct sn_queue *tasks, uint32_t n);

/* Moves the tasks of a processor that no thread has to the global queue, which the caller then
 * announces: to its front if the first of them has waited for longer than any task there. The lock
 * is held. */
void sn_global_put_ring(struct sn_processor *p);

/* Puts a task that is bound to a thread into the global queue, which the caller then announces. The
 * lock is held. */
void sn_global_put_bound(struct sn_task *task);

/*
 * Takes a fair share of the global queue, at most `most` tasks. Returns one of them, and puts the
 * others into the processor's ring. With by_age, takes none if the processor has a task that has
 * waited for longer. A task that is bound to a thread is returned, and never put into the ring,
 * because the fast path runs tasks from there without a check.
 */
struct sn_task *sn_global_get(struct sn_processor *p, uint32_t most, bool by_age);

/* Stores the time since which the first task of the global queue has been runnable, as of
 * sn_status_clock. Returns false if the queue is empty, or the time is not known yet. */
bool sn_global_since(uint32_t *since);

/* Takes the first task out of the global queue whose thread waits for a processor to run it. With
 * only_tied, looks at tied tasks alone. The caller hands that thread a processor. The lock is
 * held. */
struct sn_task *sn_global_take_bound(bool only_tied);

/* Makes the tasks that the poller has found runnable, in their order. */
void sn_ready_each(struct sn_thread *self, struct sn_queue *ready);

#endif
