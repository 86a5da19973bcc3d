/* SPDX-License-Identifier: MIT */
/*
 * The processors together: which of them are idle, in use, or too many, and which thread has which.
 */
#ifndef SENNIT_SCHED_PROCESSORS_H
#define SENNIT_SCHED_PROCESSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/thread.h"

/*
 * The processor is the thread's from now on. The monitor reads thread only to know whom to look at,
 * and under the lease's protocol checks what it saw, so relaxed would do; release makes it see the
 * thread's block initialised.
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
 * Whether the processor is one too many. Exact under the lock; without it a hint, which is enough to
 * begin with: release() asks again under the lock.
 */
static inline bool sn_processor_is_surplus(const struct sn_processor *p)
{
	return p->id >= atomic_load_explicit(&sn_runtime.wanted, memory_order_relaxed);
}

/*
 * Then nobody runs who could queue a task that is worth waiting for: whoever does it from outside
 * wakes a thread, and what comes by the network is what this one is going to sleep for. A
 * connection that waits after every few KiB took 5 us of looking, and a poll that found nothing,
 * each time.
 */
static inline bool sn_all_others_idle(void)
{
	return atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed) + 1 >=
	       sn_processors_in_use();
}

/* The list of idle processors. The lock is held, but by the third. */
void sn_idle_put(struct sn_processor *p);
struct sn_processor *sn_idle_get(void);
struct sn_processor *sn_idle_get_locking(void);

/* The list of idle threads. The lock is held. */
void sn_idle_thread_put(struct sn_thread *thread);
void sn_idle_thread_remove(struct sn_thread *thread);

/* Gives the processor to a sleeping thread, or to a new one; it is counted in spinning, if so. */
void sn_processor_start(struct sn_processor *p, bool spinning);

#endif
