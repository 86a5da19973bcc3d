/* SPDX-License-Identifier: MIT */
/*
 * What all processors of a run share: which they are, one lock, and the few words that every
 * wake-up and every search for work reads. There is one runtime in a process at a time.
 *
 * Contract. The lock guards the lists of those that share it: idle processors and threads
 * (processors.h), threads (threads.h), the global queue (ready.c), the monitor's sleep
 * (sysmon_sleep.h). Each of them keeps its own state. Only the words below stand together: a thread
 * that queues a task reads several of them, and they are written far less often than they are read,
 * so on lines of their own they would cost it a line each.
 *
 * Who may write what:
 *   processors, capacity   run/run.c, before the first thread of a run starts
 *   global_size            ready.c, under the lock
 *   idle_count             processors.c, under the lock
 *   nprocessors            processors.c, under the lock
 *   wanted                 the monitor, under the lock
 *   spinning               the threads that look for work, each for itself, or the waker for the
 *                          thread that it wakes: wake.c has the protocol
 *   nap                    by compare-and-swap: from NONE, the thread that naps; to ENDED, anyone;
 *                          NONE again, the thread that napped
 *   polling, poll_until    the thread in the poller: idle.c
 *   run, stopping          run/run.c
 *
 * Rejected: a structure for each owner of these words. They would be spread over five lines.
 */
#ifndef SENNIT_SCHED_RUNTIME_H
#define SENNIT_SCHED_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "sched/thread.h"
#include "wait/lock.h"

struct sn_processor;

/* What the thread in the poller does. */
enum sn_polling {
	SN_POLLING_NONE,   /* there is none */
	SN_POLLING_SLEEPS, /* until an event */
	SN_POLLING_RESTS,  /* for a moment, while another thread polls: idle.c */
};

struct sn_runtime {
	struct sn_lock lock; /* first: it outlives a run, see run/run.c */

	struct sn_processor *processors;
	int capacity; /* length of processors: all that there may ever be */

	/* On a line apart from the lock, which is contended. */
	_Alignas(SN_CACHE_LINE) _Atomic uint32_t global_size;
	_Atomic uint32_t idle_count;  /* of idle processors */
	_Atomic uint32_t nprocessors; /* those that are not retired */
	_Atomic uint32_t wanted;    /* those of lower number are to be in use, at least the first */
	_Atomic uint32_t spinning;  /* threads that look for work, or are on their way to */
	_Atomic int nap;            /* enum sn_nap: one of them sleeps for a moment */
	_Atomic uint32_t polling;   /* enum sn_polling: whether a thread is in the poller, */
	_Atomic int64_t poll_until; /* and until when; SN_NOT_POLLING when none does */

	_Atomic uint32_t run; /* the number of the present run, or of the last */
	_Atomic bool stopping;
};

extern struct sn_runtime sn_runtime;

/* The run that the thread belongs to ends, or has ended, and perhaps another one has begun: orphan
 * was set before that one cleared stopping. */
static inline bool sn_thread_must_end(struct sn_thread *self)
{
	return atomic_load(&sn_runtime.stopping) || atomic_load(&self->orphan);
}

#endif
