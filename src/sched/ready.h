/* SPDX-License-Identifier: MIT */
/*
 * Runnable tasks: what schedule.h does not declare of making tasks runnable, and of the queue that
 * all processors share.
 */
#ifndef SENNIT_SCHED_READY_H
#define SENNIT_SCHED_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/processor.h"
#include "sched/runqueue.h"
#include "sched/thread.h"

/* A run begins: the global queue is empty. */
void sn_ready_begin(void);

/* Puts tasks into the global queue, which the caller then announces (wake.h). */
void sn_global_put(struct sn_queue *tasks, uint32_t n);

/* Puts a task that is bound to a thread there; the same. The lock is held. */
void sn_global_put_bound(struct sn_task *task);

/*
 * Takes a fair share of the global queue, at most so many tasks. One is returned, the others go to
 * the local queue. by_age: takes none when the processor has a task that has waited for longer. A
 * task that is bound to a thread is taken alone, because the fast path, which does not check for
 * it, may run what is in a local queue.
 */
struct sn_task *sn_global_get(struct sn_processor *p, uint32_t most, bool by_age);

/* Since when its first task has been runnable, by sn_status_clock; false: it is empty, or the task
 * has only just come. */
bool sn_global_since(uint32_t *since);

/* Takes the first task whose thread waits for it, or with it, out of the global queue; only_tied:
 * of those that are tied. The caller hands that thread a processor. The lock is held. */
struct sn_task *sn_global_take_bound(bool only_tied);

/* Makes the tasks that the poller has found runnable, in their order. */
void sn_ready_each(struct sn_thread *self, struct sn_queue *ready);

#endif
