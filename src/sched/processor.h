/* SPDX-License-Identifier: MIT */
/*
 * A processor: the right to run tasks, and what running them needs.
 *
 * Who may write what: the thread that has the processor writes all fields, with these exceptions:
 *   queue, timers              see runqueue.h and timer.h for their shared parts
 *   thread                     also the monitor, when it revokes the processor (lease.h)
 *   next_fair, next_runs       also the monitor (turn.h)
 *   next_idle, retired, spins  any thread, under the runtime's lock
 *   id, record                 run/run.c, before the first thread of a run starts
 * Other threads read the atomic fields at any time.
 */
#ifndef SENNIT_SCHED_PROCESSOR_H
#define SENNIT_SCHED_PROCESSOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/control_block.h"
#include "sched/runqueue.h"
#include "sched/timer.h"
#include "stack/stack.h"

struct sn_record_ring;

/* How many woken tasks in a row may overtake the queue. A larger number would only help pairs of
 * tasks that starve the rest. */
#define SN_NEXT_RUNS 32

/* What one more turn of the ring adds to next_runs. */
#define SN_RING_TURN 256

struct sn_processor {
	struct sn_runqueue queue;
	struct sn_timers timers;
	struct sn_thread *_Atomic thread; /* the one that has it, or NULL; for the monitor */
	struct sn_record_ring *record;    /* record.h; NULL if nothing is recorded */
	_Atomic uint32_t tick;            /* counts scheduling decisions; see sn_tick() */
	/* The tick at which the timers, the network and the global queue get their turn. */
	_Atomic uint32_t next_fair;
	/* How many times in a row the next task was preferred to the ring, plus SN_RING_TURN times
	 * the number of turns that the ring has had. */
	_Atomic uint32_t next_runs;
	/* How often the timers, the network and the global queue have had their turn. */
	_Atomic uint32_t fair_turns;
	uint32_t io_budget; /* operations that the running task may still do without parking */
	int64_t last_poll;
	/* The processor that this one watches, its tick then, and this one's (find_work.c). Not
	 * atomic: whoever gets the processor next has synchronized with the thread that had it. */
	uint32_t watched, watched_tick, watched_since;
	_Atomic uint32_t polled; /* how many polls by its thread have found a task */
	uint32_t id;
	struct sn_processor *next_idle;
	bool spins;   /* the thread that the monitor is to start for it counts as spinning */
	bool retired; /* not in use, because there are fewer CPUs */
	struct sn_block_cache blocks;
	struct sn_stack_cache stacks[SN_STACK_CLASSES];

	uint64_t last_id, ids_end; /* the ids for tasks spawned here: next_id() in task/spawn.c */

	/* Written by the owner with plain increments: see sn_count(). Read by sn_run_stats(), and
	 * polls by sn_processors_polls(). */
	struct {
		_Atomic uint64_t spawned, ended, switches, steals, polls;
	} stats;
};

/*
 * Adds to a counter that one thread at a time writes. Not a read-modify-write: readers see some
 * recent value, which is all that statistics promise.
 */
static inline void sn_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* Counts a scheduling decision. One writer, as for sn_count(). */
static inline uint32_t sn_tick(struct sn_processor *p)
{
	uint32_t tick = atomic_load_explicit(&p->tick, memory_order_relaxed) + 1;

	atomic_store_explicit(&p->tick, tick, memory_order_relaxed);
	return tick;
}

#endif
