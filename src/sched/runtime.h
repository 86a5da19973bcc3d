/* SPDX-License-Identifier: MIT */
/*
 * The state that all processors share. There is one runtime in a process at a time.
 */
#ifndef SENNIT_SCHED_RUNTIME_H
#define SENNIT_SCHED_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/processor.h"
#include "sched/runqueue.h"
#include "sched/thread.h"
#include "wait/lock.h"

struct sn_runtime {
	/* Set by run.c before the first thread starts. */
	struct sn_processor *processors;
	int nprocessors;
	int max_threads;

	/* Under the lock. */
	struct sn_lock lock;
	struct sn_queue global;
	struct sn_processor *idle_processors;
	struct sn_thread *idle_threads;
	bool thread_limit_told;

	/* Written under the lock, read also without. */
	_Atomic uint32_t global_size;
	_Atomic uint32_t idle_count; /* length of idle_processors */
	_Atomic uint32_t nthreads;
	struct sn_thread *_Atomic all_threads;

	/* Threads that look for work, or are on their way to. schedule.c has the protocol. */
	_Atomic uint32_t spinning;

	/* 1 while a thread sleeps in the poller, and until when; SN_TIMER_NEVER's opposite when
	 * none does. */
	_Atomic uint32_t polling;
	_Atomic int64_t poll_until;

	_Atomic bool running;
	_Atomic bool stopping;
	_Atomic uint32_t blocking; /* threads inside sn_blocking() */
	_Atomic uint64_t polls;
	_Atomic uint64_t accept_pauses;
	_Atomic uint64_t foreign_spawned; /* by threads without a processor */
};

extern struct sn_runtime sn_runtime;

/* Starts a thread that begins with the processor. 0 or a negative errno. thread.c. */
int sn_thread_start(struct sn_processor *processor, bool spinning);

#endif
