/* SPDX-License-Identifier: MIT */
/*
 * Turns: which of a processor's own tasks is next, by the fast rules. Each decision counts as one
 * tick. At a fair tick, and when no task is at hand, the slow rules of find_work.c decide.
 *
 * Who may write what: see processor.h. These functions are for the owner of the processor.
 */
#ifndef SENNIT_SCHED_TURN_H
#define SENNIT_SCHED_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/thread.h"

/* How many operations a task may do without parking: at 1 us for a small read, about 100 us of its
 * processor. */
#define SN_IO_BUDGET 128

/*
 * Whether the decision with this tick is a fair one.
 *
 * next_fair and next_runs belong to the owner of the processor, except that the monitor writes them
 * if the ring, or the timers, the network and the global queue, have waited for too long
 * (sysmon.c). Neither uses a read-modify-write, so one may overwrite the other's store. That does
 * no harm: either the owner has just been fair, or the monitor stores again at its next look.
 */
static inline bool sn_is_fair_tick(struct sn_processor *p, uint32_t tick)
{
	/* A signed difference, because the tick wraps. */
	return (int32_t)(tick - atomic_load_explicit(&p->next_fair, memory_order_relaxed)) >= 0;
}

/* Takes the next task, though not more than SN_NEXT_RUNS times in a row, or else the first task in
 * the ring. */
static inline struct sn_task *sn_take_local(struct sn_processor *p)
{
	uint32_t runs = atomic_load_explicit(&p->next_runs, memory_order_relaxed);
	struct sn_task *task;

	if (runs % SN_RING_TURN < SN_NEXT_RUNS) {
		task = sn_runqueue_take_next(&p->queue);
		if (task) {
			atomic_store_explicit(&p->next_runs, runs + 1, memory_order_relaxed);
			return task;
		}
	}
	atomic_store_explicit(&p->next_runs, runs - runs % SN_RING_TURN + SN_RING_TURN,
			      memory_order_relaxed);
	return sn_runqueue_get(&p->queue);
}

/* Takes one of the thread's tied tasks, if there are any and it is their turn; otherwise does the
 * same as sn_take_local(). */
static inline struct sn_task *sn_take_own(struct sn_thread *self, struct sn_processor *p)
{
	return sn_unlikely(sn_ties_wait(self)) ? sn_tie_turn(self, p) : sn_take_local(p);
}

/* As sn_take_local(), but takes the next task also out of its turn if there is no other. */
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
