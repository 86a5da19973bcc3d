/* SPDX-License-Identifier: MIT */
/*
 * The processors as a whole: which of them are idle, in use, or surplus, and which thread has
 * which.
 *
 * Contract. A processor belongs to one thread, or is in the list of idle ones, or waits for the
 * thread that the monitor is to start for it, or is retired. Each of these functions moves a
 * processor from one of these states to another.
 *
 * Who may write what:
 *   sn_idle              any thread, under the runtime's lock
 *   a thread's processor, and a processor's thread   see thread.h and processor.h
 */
#ifndef SENNIT_SCHED_PROCESSOR_LIST_H
#define SENNIT_SCHED_PROCESSOR_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "base/counters.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/thread.h"

/*
 * From now on the processor belongs to the thread. The monitor reads p->thread only to find which
 * thread to look at, and checks what it saw under the lease's protocol. Release, so that the
 * monitor sees the thread's block initialised.
 */
static inline void sn_processor_assign(struct sn_thread *thread, struct sn_processor *p)
{
	thread->processor = p;
	thread->home = p->id;
	atomic_store_explicit(&p->thread, thread, memory_order_release);
}

static inline struct sn_processor *sn_processor_unassign(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;

	self->processor = NULL;
	atomic_store_explicit(&p->thread, NULL, memory_order_relaxed);
	return p;
}

static inline uint32_t sn_processors_in_use(void)
{
	return atomic_load_explicit(&sn_runtime.nprocessors, memory_order_relaxed);
}

/* How often epoll was polled in this run. The monitor and the search for deadlocks compare two
 * values, to see whether it was polled in between. */
static inline uint64_t sn_processors_polls(void)
{
	uint64_t n = atomic_load_explicit(&sn_counters.polls, memory_order_relaxed);

	for (int i = 0; i < sn_runtime.capacity; i++)
		n += atomic_load_explicit(&sn_runtime.processors[i].stats.polls,
					  memory_order_relaxed);
	return n;
}

/*
 * Whether this processor should retire, because there are more than wanted. Exact under the lock.
 * Without the lock it is a hint, which suffices, because release() checks again under the lock.
 */
static inline bool sn_processor_is_surplus(const struct sn_processor *p)
{
	return p->id >= atomic_load_explicit(&sn_runtime.wanted, memory_order_relaxed);
}

/*
 * Whether all processors except the caller's are idle. Then no running thread can queue a task for
 * which the caller should spin; a thread without a processor that queues one wakes a thread. The
 * caller can go to sleep in the poller right away. Without this, a connection that waits after
 * every few KiB cost 5 us of spinning each time, and a poll that found nothing.
 */
static inline bool sn_all_others_idle(void)
{
	return atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed) + 1 >=
	       sn_processors_in_use();
}

/*
 * Guarded by the runtime's lock. On a cache line of its own, because a neighbour that is written
 * without the lock would slow down the thread that holds it.
 */
extern struct sn_idle {
	/* The idle processors, linked by next_idle; sn_runtime.idle_count is their number. They
	 * have no tasks. */
	_Alignas(SN_CACHE_LINE) struct sn_processor *processors;
	struct sn_thread *threads; /* the idle threads, linked by next_idle */
	uint32_t thread_count;
	/* The processors for which the monitor is to start a thread, linked by next_idle. */
	struct sn_processor *_Atomic asked;
	bool threadless; /* a processor became idle although there was work: no thread was left */
} sn_idle sn_hidden;

/* Called when a run begins: nothing is idle. */
void sn_idle_begin(void);

/* The list of idle processors. The lock is held for the first two; the third takes it. */
void sn_idle_put(struct sn_processor *p);
struct sn_processor *sn_idle_get(void);
struct sn_processor *sn_idle_get_locking(void);

/* The list of idle threads. The lock is held. */
void sn_idle_thread_put(struct sn_thread *thread);
void sn_idle_thread_remove(struct sn_thread *thread);

/* Hands the processor to a thread that has just been taken out of the list of idle threads. */
void sn_processor_hand(struct sn_thread *thread, struct sn_processor *p, bool spinning);

/* Gives the calling thread's processor to a thread to which nothing is tied, and which runs the
 * task first. Returns false if there is no such thread, and none can be started. */
bool sn_processor_give_apart(struct sn_thread *self, struct sn_task *task);

/* Takes a processor for which the monitor was to start a thread, for the caller instead; NULL if
 * there is none. The lock is held. */
struct sn_processor *sn_idle_take_asked(bool *spinning);

/* Gives the processor to a sleeping thread, or to a new one. If spinning, sn_runtime.spinning
 * already counts that thread. */
void sn_processor_start(struct sn_processor *p, bool spinning);

/* Starts the threads that others have asked for (birth.h). Called by the monitor. */
void sn_processors_start_asked(void);

#endif
