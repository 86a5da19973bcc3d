/* SPDX-License-Identifier: MIT */
/*
 * A processor: the right to run tasks, and what running them needs.
 *
 * All fields belong to the thread that has the processor, except: the shared parts of the run queue
 * and of the timers (see there); next_idle, retired and spins (under the runtime's lock); the
 * atomic fields, which others may read; and next_fair and next_runs, which the monitor writes as
 * well (turn.h). record never changes.
 */
#ifndef SENNIT_SCHED_PROCESSOR_H
#define SENNIT_SCHED_PROCESSOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/block.h"
#include "sched/runqueue.h"
#include "sched/timer.h"
#include "stack/stack.h"

struct sn_record_ring;

/* How often in a row a woken task may overtake the queue. More would only help pairs that starve
 * the rest. */
#define SN_NEXT_RUNS 32

/* In next_runs: one more turn of the ring. */
#define SN_RING_TURN 256

struct sn_processor {
	struct sn_runqueue queue;
	struct sn_timers timers;
	struct sn_thread *_Atomic thread; /* that has it, for the monitor; NULL: none */
	struct sn_record_ring *record;    /* record.h; NULL: nothing is recorded */
	_Atomic uint32_t tick;            /* scheduling decisions; see sn_tick() */
	/* The tick at which the timers, the network and the global queue get their turn. */
	_Atomic uint32_t next_fair;
	/* How often in a row the next task was preferred to the ring; and in units of SN_RING_TURN,
	 * how often the ring has had its turn. */
	_Atomic uint32_t next_runs;
	_Atomic uint32_t fair_turns; /* how often they have had their turn */
	uint32_t io_budget; /* operations that the running task may still do without parking */
	int64_t last_poll;
	_Atomic uint32_t polled; /* polls by its thread that have found a task; written by that */
	uint32_t id;
	struct sn_processor *next_idle;
	bool spins;   /* while the monitor is to start its thread: that counts as spinning */
	bool retired; /* not in use: there are fewer CPUs; under the runtime's lock */
	struct sn_block_cache blocks;
	struct sn_stack_cache stacks[SN_STACK_CLASSES];

	uint64_t last_id, ids_end; /* of the tasks that it spawns: next_id() in task/spawn.c */

	/* Written by the owner with plain increments, read by sn_run_stats(): see sn_count(). */
	struct {
		_Atomic uint64_t spawned, ended, switches, steals;
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
