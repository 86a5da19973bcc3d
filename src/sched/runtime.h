/* SPDX-License-Identifier: MIT */
/*
 * The state that all processors share. There is one runtime in a process at a time.
 */
#ifndef SENNIT_SCHED_RUNTIME_H
#define SENNIT_SCHED_RUNTIME_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/processor.h"
#include "sched/runqueue.h"
#include "sched/thread.h"
#include "wait/lock.h"

enum sn_nap {
	SN_NAP_NONE,
	SN_NAP_POLLING, /* in the poller */
	SN_NAP_PARKED,  /* in nap_parker */
	SN_NAP_ENDED,   /* by somebody, and the napper has not noticed yet */
};

struct sn_runtime {
	struct sn_lock lock; /* first: it outlives a run, see run/run.c */

	/* Set by run/run.c before the first thread starts. */
	struct sn_processor *processors;
	int capacity; /* length of processors: all that there may ever be */
	int max_threads;

	/* Under the lock. */
	struct sn_queue global;
	struct sn_processor *idle_processors;
	struct sn_thread *idle_threads;
	uint32_t idle_thread_count;
	struct sn_thread *all_threads;  /* that live, or are about to */
	struct sn_thread *dead_threads; /* that are to be joined */
	int64_t no_thread_before;       /* the system has refused one */

	/* What sn_run()'s caller had, for every thread, whoever starts it. Constant. */
	struct {
		sigset_t mask;
		char name[16];
		unsigned long timer_slack;
	} inherited;

	bool thread_limit_told;
	bool threadless; /* a processor was put with the idle ones for want of a thread */

	/* Held while a thread is created, so that its handle is known before it can end. */
	struct sn_lock start_lock;

	/* Written under the lock, read also without. */
	_Atomic uint32_t global_size;
	_Atomic uint32_t idle_count;  /* length of idle_processors */
	_Atomic uint32_t nprocessors; /* those that are not retired */
	/* Those of lower number are to be in use, at least the first. Written by the monitor. */
	_Atomic uint32_t wanted;
	_Atomic uint32_t nthreads;
	_Atomic uint32_t pinned_threads; /* each counted by itself */
	_Atomic uint32_t thread_limit_hits;

	/* Threads that look for work, or are on their way to. wake.c has the protocol. */
	_Atomic uint32_t spinning;
	/* One of them sleeps for a moment: enum sn_nap. By compare-and-swap, NONE to where by who
	 * naps, from there to ENDED by anybody; NONE again by who napped, who waits in the parker. */
	_Atomic int nap;
	struct sn_parker nap_parker;

	/* 1 while a thread sleeps in the poller, and until when; SN_TIMER_NEVER's opposite when
	 * none does. */
	_Atomic uint32_t polling;
	_Atomic int64_t poll_until;

	_Atomic uint32_t run; /* the number of the present run, or of the last */
	_Atomic bool stopping;
	_Atomic uint64_t revocations;
	_Atomic uint64_t polls;
	_Atomic uint64_t accept_pauses;
	_Atomic uint64_t foreign_spawned; /* by threads without a processor */
};

extern struct sn_runtime sn_runtime;

/* The runtime ends, or has ended and perhaps begun anew: orphan was set before the next one cleared
 * stopping. */
static inline bool sn_thread_must_end(struct sn_thread *self)
{
	return atomic_load(&sn_runtime.stopping) || atomic_load(&self->orphan);
}

/* Takes a thread out of the list of those that live. The lock is held. */
void sn_thread_unlink(struct sn_thread *thread);

/* Joins and frees threads that have ended. The monitor, or whoever is left at the end. */
void sn_threads_reap(void);

/* Notes what threads are to have of the calling one, and what each is to run: the scheduler's loop,
 * which stands above. */
void sn_threads_inherit(void (*loop)(struct sn_thread *self));

/* Starts a thread that begins with the processor. 0 or a negative errno. thread.c. */
int sn_thread_start(struct sn_processor *processor, bool spinning);

#endif
