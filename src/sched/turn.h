/* SPDX-License-Identifier: MIT */
/*
 * Turns: which of a processor's own tasks is next, by the fast rules. A decision is a count of one, a
 * tick; at a fair one, and when nothing is at hand, the slow rules of steal.c decide.
 */
#ifndef SENNIT_SCHED_TURN_H
#define SENNIT_SCHED_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/processor.h"
#include "sched/runtime.h"

/* Operations that a task may do without parking: at 1 us for a small read, about 100 us of
 * processor. */
#define SN_IO_BUDGET 128

/*
 * next_fair and next_runs are the processor's owner's, but for what the monitor puts there when one of
 * the orders below has lasted too long (sysmon.c). They are plain for their owner, so either may
 * overwrite the other; then the owner has just been fair, or the monitor does it again at its next look.
 */
static inline bool sn_is_fair_tick(struct sn_processor *p, uint32_t tick)
{
	/* It wraps. */
	return (int32_t)(tick - atomic_load_explicit(&p->next_fair, memory_order_relaxed)) >= 0;
}

/* The next task, but not more than SN_NEXT_RUNS in a row, or the first in the ring. */
static inline struct sn_task *sn_take_local(struct sn_processor *p)
{
	uint32_t runs = atomic_load_explicit(&p->next_runs, memory_order_relaxed);
	struct sn_task *task;

	if (runs < SN_NEXT_RUNS) {
		task = sn_runqueue_take_next(&p->queue);
		if (task) {
			atomic_store_explicit(&p->next_runs, runs + 1, memory_order_relaxed);
			return task;
		}
	}
	atomic_store_explicit(&p->next_runs, 0, memory_order_relaxed);
	return sn_runqueue_get(&p->queue);
}

/* As sn_take_local(), but a next task that is all there is runs also out of its turn. */
static inline struct sn_task *sn_take_any_local(struct sn_processor *p)
{
	struct sn_task *task = sn_take_local(p);

	return task ? task : sn_runqueue_take_next(&p->queue);
}

static inline bool sn_anything_to_run(struct sn_processor *p)
{
	return atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed) > 0 ||
	       !sn_runqueue_empty(&p->queue);
}

#endif
