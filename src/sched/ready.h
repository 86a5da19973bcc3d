/* SPDX-License-Identifier: MIT */
/*
 * Tasks that can run: what schedule.h has not, of making them so and of the queue that all processors
 * share.
 */
#ifndef SENNIT_SCHED_READY_H
#define SENNIT_SCHED_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/processor.h"
#include "sched/runqueue.h"
#include "sched/thread.h"

/* Puts tasks into the global queue, which the caller then announces (wake.h). */
void sn_global_put(struct sn_queue *tasks, uint32_t n);

/*
 * Takes a fair share of the global queue, at most so many: one task is returned, the others go to the
 * local queue. by_age: none, when the processor has a task that has waited for longer. A task that is
 * bound to a thread is taken alone, because what is in a local queue may be run by the fast path,
 * which does not look.
 */
struct sn_task *sn_global_get(struct sn_processor *p, uint32_t most, bool by_age);

/* Takes the first task out of the global queue that is bound to a thread. The lock is held. */
struct sn_task *sn_global_take_bound(void);

/* Makes the tasks that the poller found runnable, in their order. */
void sn_ready_each(struct sn_thread *self, struct sn_queue *ready);

#endif
