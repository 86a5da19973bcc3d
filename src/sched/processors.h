/* SPDX-License-Identifier: MIT */
/*
 * The processors as a whole: which of them are idle, in use, or surplus, and which thread has
 * which.
 */
#ifndef SENNIT_SCHED_PROCESSORS_H
#define SENNIT_SCHED_PROCESSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/thread.h"

/*
 * From now on the processor belongs to the thread. The monitor reads p->thread only to find which
 * thread to look at, and checks what it saw under the lease's protocol. So relaxed would do;
 * release makes the monitor see the thread's block initialised.
 */
static inline void sn_processor_assign(struct sn_thread *thread, struct sn_processor *p)
{
	thread->processor = p;
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

/*
 * Whether there is one processor too many, namely this one. Exact under the lock. Without it this
 * is a hint, which is enough to start from, because release() checks again under the lock.
 */
static inline bool sn_processor_is_surplus(const struct sn_processor *p)
{
	return p->id >= atomic_load_explicit(&sn_runtime.wanted, memory_order_relaxed);
}

/*
 * If so, no running thread could queue a task that is worth waiting for. A thread outside that
 * queues one wakes a thread, and this thread is about to sleep until the network reports something.
 * A connection that waits after every few KiB took 5 us of looking each time, and a poll that found
 * nothing.
 */
static inline bool sn_all_others_idle(void)
{
	return atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed) + 1 >=
	       sn_processors_in_use();
}

/*
 * Under the runtime's lock. On a cache line of its own: a neighbour that is written without the
 * lock would slow down the thread that holds it.
 */
extern struct sn_idle {
	/* by next_idle; sn_runtime.idle_count is their number */
	_Alignas(SN_CACHE_LINE) struct sn_processor *processors;
	struct sn_thread *threads; /* by next_idle */
	uint32_t thread_count;
	/* Those for which the monitor is to start a thread, by next_idle. */
	struct sn_processor *_Atomic asked;
	bool threadless; /* a processor was put with the idle ones for want of a thread */
} sn_idle sn_hidden;

/* A run begins: nothing is idle. */
void sn_idle_begin(void);

/* The list of idle processors. The lock is held, except for the third. */
void sn_idle_put(struct sn_processor *p);
struct sn_processor *sn_idle_get(void);
struct sn_processor *sn_idle_get_locking(void);

/* The list of idle threads. The lock is held. */
void sn_idle_thread_put(struct sn_thread *thread);
void sn_idle_thread_remove(struct sn_thread *thread);

/* Hands the processor to a thread that has just been taken out of the list of idle threads. */
void sn_processor_hand(struct sn_thread *thread, struct sn_processor *p, bool spinning);

/* Gives the calling thread's processor to one to which nothing is tied, and which runs the task
 * first. False: there is none, and none can be started. */
bool sn_processor_give_apart(struct sn_thread *self, struct sn_task *task);

/* One for which the monitor is to start a thread, for the caller instead; NULL: there is none. The
 * lock is held. */
struct sn_processor *sn_idle_take_asked(bool *spinning);

/* Gives the processor to a sleeping thread, or to a new one. spinning: the thread is already
 * counted there. */
void sn_processor_start(struct sn_processor *p, bool spinning);

/* Starts the threads that others have asked for (birth.h). The monitor. */
void sn_processors_start_asked(void);

#endif
