/* SPDX-License-Identifier: MIT */
/*
 * What all processors of a run share: the array of processors, one lock, and the few words that
 * every wake-up and every search for work reads. There is one runtime in a process at a time.
 *
 * Contract. Several modules share the lock, which guards their lists: idle processors and threads
 * (processor_list.h), all threads (thread_list.h), the global queue (ready.c), the monitor's sleep
 * (sysmon_sleep.h). Each module keeps its own state, except the words below. A thread that queues a
 * task reads several of these, and they are written far less often than they are read. They
 * therefore share a cache line; apart they would cost that thread a line each.
 *
 * Who may write what:
 *   processors, capacity   run/run.c, before the first thread of a run starts
 *   global_size            ready.c, under the lock
 *   idle_count             processor_list.c, under the lock
 *   nprocessors            processor_list.c, under the lock
 *   wanted                 the monitor; and a thread that gives up a processor which cannot be
 *                          emptied; both under the lock
 *   spinning               each thread that looks for work, for itself, or its waker for it: wake.c
 *                          has the protocol
 *   nap                    by compare-and-swap: the thread that naps, from NONE; any thread, to
 *                          ENDED. The thread that napped stores NONE again
 *   polling, poll_until    the thread in the poller: idle.c
 *   run, stopping          run/run.c
 *
 * Rejected: a structure for each owner of these words, which would spread them over five lines.
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
	SN_POLLING_NONE,   /* no thread is in the poller */
	SN_POLLING_SLEEPS, /* until an event */
	SN_POLLING_RESTS,  /* for a moment, while another thread polls: idle.c */
};

struct sn_runtime {
	struct sn_lock lock; /* first, because it outlives a run, see run/run.c */

	struct sn_processor *processors;
	int capacity; /* length of processors: the most that a run can use */

	/* On a line apart from the lock, which is contended. */
	_Alignas(SN_CACHE_LINE) _Atomic uint32_t global_size;
	_Atomic uint32_t idle_count;  /* the number of idle processors */
	_Atomic uint32_t nprocessors; /* the number of processors that are not retired */
	_Atomic uint32_t wanted;      /* how many processors are to be in use, at least one */
	_Atomic uint32_t spinning;    /* threads that look for work, or were woken to do so */
	_Atomic int nap;              /* enum sn_nap: whether one of them sleeps for a moment */
	_Atomic uint32_t polling;     /* enum sn_polling: what the thread in the poller does */
	_Atomic int64_t poll_until;   /* until when it sleeps; SN_NOT_POLLING if there is none */

	_Atomic uint32_t run; /* the number of the present run, or of the last one */
	_Atomic bool stopping;
};

extern struct sn_runtime sn_runtime;

/* Whether the run that the thread belongs to ends, or has ended. If another run has begun, that one
 * has cleared stopping, but orphan was set before. */
static inline bool sn_thread_must_end(struct sn_thread *self)
{
	return atomic_load(&sn_runtime.stopping) || atomic_load(&self->orphan);
}

#endif
