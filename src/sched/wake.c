/* SPDX-License-Identifier: MIT */
/*
 * Waking.
 *
 * No work is forgotten. A thread that makes a task runnable first puts it into a queue, and then
 * checks whether to wake a processor. A thread that finds nothing first announces itself idle, and
 * then looks into all queues again. Both sides have a sequentially consistent fence between the two
 * steps, so at least one of them sees the other:
 *
 *   waker: queue; fence; if idle_count > 0 and spinning == 0 wake one        (sn_submitted())
 *   idler: release processor: idle_count++; spinning--; fence; look again    (become_idle())
 *
 * This holds whatever the order of the accesses around the fences: one of the two fences is first
 * in their total order, and the accesses before it are visible to those after the other. The queues
 * themselves therefore need only the ordering that hands a task from one thread to another: release
 * and acquire.
 *
 * At most one thread is woken at a time. It is counted in spinning until it has found something,
 * and then wakes the next one if there are idle processors left (sn_stop_spinning()). A burst of
 * tasks thus wakes threads one after the other, and a trickle of them wakes one.
 *
 * A thread that naps (idle.c) is counted in spinning, too. A waker that finds it counted ends the
 * nap, unless the task that it has queued may wait until the nap is over:
 *
 *   waker:  queue; fence; if nap != NONE end it             (sn_announce(), sn_end_nap())
 *   napper: nap = POLLING or PARKED; fence; look; sleep; nap = NONE                (nap())
 *
 * Who may write what: spinning and nap, see runtime.h.
 */
#include "sched/wake.h"

#include <sennit/clock.h>

#include "sched/netpoll.h"
#include "sched/processor_list.h"
#include "sched/ready.h"
#include "sched/runqueue.h"
#include "sched/switch.h"
#include "sched/thread_list.h"
#include "sched/timer.h"

struct sn_parker sn_nap_parker;

void sn_wake_begin(void)
{
	atomic_store(&sn_nap_parker.word, 0);
}

/* ---- is there work? ---- */

/* Whether a task is in the global queue, or in the queue of any processor except `but`, which may
 * be NULL. */
static bool work_exists_beside(const struct sn_processor *but)
{
	if (atomic_load(&sn_runtime.global_size) > 0)
		return true;
	for (int i = 0; i < sn_runtime.capacity; i++)
		if (&sn_runtime.processors[i] != but &&
		    !sn_runqueue_empty(&sn_runtime.processors[i].queue))
			return true;
	return false;
}

bool sn_work_exists(void)
{
	return work_exists_beside(NULL);
}

int64_t sn_earliest_timer(void)
{
	int64_t earliest = SN_TIMER_NEVER;

	for (int i = 0; i < sn_runtime.capacity; i++) {
		int64_t when = sn_timers_earliest(&sn_runtime.processors[i].timers);

		if (when < earliest)
			earliest = when;
	}
	return earliest;
}

bool sn_nobody_would_notice(void)
{
	return atomic_load(&sn_runtime.polling) == 0 &&
	       (sn_netpoll_used() || sn_earliest_timer() != SN_TIMER_NEVER);
}

bool sn_ring_work_exists(void)
{
	if (atomic_load(&sn_runtime.global_size) > 0)
		return true;
	for (int i = 0; i < sn_runtime.capacity; i++)
		if (!sn_runqueue_ring_empty(&sn_runtime.processors[i].queue))
			return true;
	return false;
}

/* ---- waking ---- */

sn_noinline void sn_end_nap(void)
{
	int where = atomic_load(&sn_runtime.nap);

	/* The nap stays ENDED until the napper is awake, because the parker serves one thread at a
	 * time. */
	if ((where != SN_NAP_POLLING && where != SN_NAP_PARKED) ||
	    !atomic_compare_exchange_strong(&sn_runtime.nap, &where, SN_NAP_ENDED))
		return;
	if (where == SN_NAP_POLLING)
		sn_netpoll_wake();
	else
		sn_parker_release(&sn_nap_parker);
}

/*
 * While this caller counts in spinning, other wakers leave the waking to it. If it finds no idle
 * processor, it therefore decrements the count under the same lock under which it has looked. A
 * processor that becomes idle later does so under this lock, too, so a waker that sees that
 * processor idle also sees the count without this caller.
 */
void sn_wake_one(void)
{
	uint32_t none = 0;
	struct sn_processor *p;

	if (!atomic_compare_exchange_strong(&sn_runtime.spinning, &none, 1)) {
		sn_end_nap(); /* if the thread that is counted naps */
		return;
	}
	sn_lock(&sn_runtime.lock);
	p = sn_idle_get();
	if (!p)
		atomic_fetch_sub(&sn_runtime.spinning, 1);
	sn_unlock(&sn_runtime.lock);
	if (p)
		sn_processor_start(p, true);
}

void sn_start_spinning(struct sn_thread *self)
{
	if (!self->spinning) {
		self->spinning = true;
		atomic_fetch_add(&sn_runtime.spinning, 1);
	}
}

/*
 * Called if other threads are still counted as spinning. Those that look find the tasks. But one of
 * them may nap, and have looked before some tasks were queued, such as the rest of a batch that
 * this thread has stolen.
 */
static void end_nap_for_work(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&sn_runtime.nap, memory_order_relaxed) && sn_ring_work_exists())
		sn_end_nap();
}

/*
 * The thread has found something. While it looked, wakers woke no other thread. If it was the last
 * one to look, and there is more to do, it therefore wakes the next one itself. The role of the
 * poller, which this thread may just have left, also counts as more to do while processors are
 * idle.
 */
void sn_stop_spinning(struct sn_thread *self)
{
	bool owes = self->owes_poller;

	if (!self->spinning)
		return;
	self->spinning = false;
	/* If the thread owes a poller (brief.c), the few tasks in its own queue do not count as
	 * more to do. Tasks in other queues do: others may have queued them while this thread
	 * looked. */
	if (atomic_fetch_sub(&sn_runtime.spinning, 1) > 1)
		end_nap_for_work();
	else if (atomic_load(&sn_runtime.idle_count) > 0 &&
		 (work_exists_beside(owes ? self->processor : NULL) ||
		  (!owes && sn_nobody_would_notice())))
		sn_wake_one();
}

void sn_poller_needed(void)
{
	if (atomic_load(&sn_runtime.polling) == SN_POLLING_RESTS)
		sn_netpoll_wake();
	else
		sn_poller_expect(sn_earliest_timer());
}

/* Fires all timers that are due, on a thread without a processor. */
static void fire_timers(int64_t now)
{
	for (int i = 0; i < sn_runtime.capacity; i++) {
		struct sn_due due;

		sn_timers_run(&sn_runtime.processors[i].timers, now, &due);
		if (due.ready.head)
			sn_ready_all(&due.ready);
		while (due.later) {
			struct sn_deferred *deferred = due.later;

			due.later = deferred->next;
			deferred->run(NULL, deferred);
		}
	}
}

/* Whether a processor is idle for want of a thread, and stays so: every thread is in foreign code,
 * or waits for the task that is pinned to it, and no other thread could be started. The lock is
 * held. */
static bool threads_are_missing(void)
{
	return sn_idle.threadless && !sn_idle.threads;
}

bool sn_only_the_monitor_serves(void)
{
	return threads_are_missing() && atomic_load(&sn_runtime.polling) == 0 &&
	       (sn_netpoll_used() || sn_earliest_timer() != SN_TIMER_NEVER ||
		(sn_work_exists() && sn_threads_may_be_started()));
}

/* Whether threads are missing. With another, also whether one could be started by now. */
static bool are_missing(bool another)
{
	bool missing;

	sn_lock(&sn_runtime.lock);
	missing = threads_are_missing() && (!another || sn_threads_may_be_started());
	sn_unlock(&sn_runtime.lock);
	return missing;
}

void sn_processors_notice(int64_t now)
{
	const bool late = sn_earliest_timer() <= now;

	if (atomic_load(&sn_runtime.idle_count) == 0 || atomic_load(&sn_runtime.polling) != 0)
		return;
	/* Work may exist because the system has refused a thread, and all other threads have
	 * ended. */
	if (!late && !(sn_work_exists() && are_missing(true)))
		return;
	sn_wake_one();
	/* If there is no thread to serve the timers, the monitor fires them: a pinned task may wait
	 * for one of them, and its thread can run that task. */
	if (late && are_missing(false))
		fire_timers(now);
}

/* Pays the debt of brief.c: does what sn_stop_spinning() left undone. */
void sn_brief_pay(struct sn_thread *self)
{
	if (!self->owes_poller)
		return;
	self->owes_poller = false;
	/* As in sn_submitted(), for the tasks that sn_ready() has queued without announcing
	 * them. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&sn_runtime.idle_count) > 0 &&
	    (sn_work_exists() || sn_nobody_would_notice()))
		sn_wake_one();
}
