/* SPDX-License-Identifier: MIT */
/*
 * Waking threads for tasks that were queued.
 *
 * Contract. A task that was queued before sn_submitted() is found: by a thread that is woken for
 * it, or by one that looks for work already. At most one thread is woken at a time, and it wakes
 * the next one when it has found something. wake.c argues why no work is forgotten.
 *
 * Who may write what: sn_runtime.spinning and nap, see runtime.h.
 */
#ifndef SENNIT_SCHED_WAKE_H
#define SENNIT_SCHED_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/netpoll.h"
#include "sched/processor_list.h"
#include "sched/runtime.h"
#include "sched/thread.h"

/* One thread finishes this many brief tasks before another thread would be awake. */
#define SN_FEW_BRIEF 4

/* The values of sn_runtime.nap: whether one of the threads that look for work sleeps for a moment,
 * and where. */
enum sn_nap {
	SN_NAP_NONE,
	SN_NAP_POLLING, /* in the poller */
	SN_NAP_PARKED,  /* in sn_nap_parker */
	SN_NAP_ENDED,   /* another thread has ended the nap, and the napper has not noticed yet */
};

extern struct sn_parker sn_nap_parker;

/* Called when a run begins: no thread naps. */
void sn_wake_begin(void);

/* Wakes one thread with an idle processor to look for work, unless one is looking already. */
void sn_wake_one(void);

/* Ends the nap of the napping thread, if there is one. */
void sn_end_nap(void);

/* The first says that the thread looks for work from now on, the second that it has found some. */
void sn_start_spinning(struct sn_thread *self);
void sn_stop_spinning(struct sn_thread *self);

/* Whether there are tasks in the global queue or in a ring. Those in next slots do not count,
 * because they may wait for their processors. */
bool sn_ring_work_exists(void);

/* Whether tasks may wait for descriptors or timers, and no thread is in the poller. */
bool sn_nobody_would_notice(void);

/* Called after a task was queued: the waker's half of the handshake in wake.c. If may_wait, the
 * task may wait until a nap ends. */
static inline void sn_announce(bool may_wait)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed) > 0 &&
	    atomic_load_explicit(&sn_runtime.spinning, memory_order_relaxed) == 0)
		sn_wake_one();
	else if (!may_wait && atomic_load_explicit(&sn_runtime.nap, memory_order_relaxed))
		sn_end_nap();
}

static inline void sn_submitted(void)
{
	sn_announce(false);
}

/*
 * The same, called by a thread that may have a processor. If that is the only processor, no fence
 * is needed, which would be a fifth of a switch: no processor can be idle, and the thread that gets
 * this one next, even after a revocation, sees the tasks that were queued under it. If the number
 * of processors grows at this moment, the thread that adds them looks for work itself.
 */
static inline void sn_submitted_by(struct sn_thread *self, bool may_wait)
{
	if (self && self->processor && sn_processors_in_use() == 1)
		return;
	sn_announce(may_wait);
}

/* Wakes the thread in the poller if it sleeps until after the given time, so that it determines its
 * deadline again. */
static inline void sn_poller_expect(int64_t when)
{
	if (when < atomic_load(&sn_runtime.poll_until))
		sn_netpoll_wake();
}

/* Called when a processor has become idle while another thread is in the poller. That thread has to
 * serve timers that are earlier than it knew, and must not rest if no thread works any more. */
void sn_poller_needed(void);

#endif
