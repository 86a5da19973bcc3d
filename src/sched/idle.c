/* SPDX-License-Identifier: MIT */
/*
 * Idle threads: the poller, naps, and sleep in the parker.
 *
 * One idle thread at a time sleeps in epoll ("polling" is 1), until the earliest timer of any
 * processor; the other idle threads sleep in their parkers. It gives the role up before it looks
 * for a processor:
 *
 *	poller: polling = 0; take an idle processor, else park
 *	idler:  release processor (idle); polling == 0? then take the role
 *
 * so a processor never stays idle with nobody polling. Whoever adds a timer earlier than poll_until
 * kicks the poller; it announces poll_until = "never" before it reads the processors' earliest
 * times, so again one sees the other.
 *
 * A task that is woken to run next is announced like any other, as the one that woke it may go on
 * to compute for long. Where it does not, but waits at once, as in a ping-pong, the thief finds
 * nothing, or a next task that is there only because waking the thief took its processor so long;
 * then the two answer each other across processors, 20 us for what takes 0.2 on one. Soon the
 * thief has nothing and sleeps, and is woken again. So a thread that has nothing so soon after it
 * looked, SN_NAP_AFTER times in a row, does not become idle but *naps*: it keeps its processor, stays
 * counted in spinning, so that nobody wakes anybody, and sleeps for NAP_NS at most, in the poller if
 * nobody else does. That is looking for work, slowly, and so the argument in wake.c covers it. A
 * thread that queues anything but a next task ends the nap, by the handshake there, and so does the
 * network.
 *
 * It naps on while the others decide so often what to run that no next task waits for long. As
 * nobody else is the last to look while it naps, a thread that stops looking, leaves the poller
 * without a processor, or would wake somebody, ends the nap where that is due. The price: a next task
 * that has to be stolen after all waits for NAP_NS more, and a thread that comes back from foreign
 * code has to wake the napper for a processor. bench-tasks on two processors, medians of seven runs in
 * turns with and without: ping-pong 311 to 192 ns, select 445 to 359, the mutex of eight tasks 66 to
 * 54; 27,500 context switches of the OS in a second of ping-pong to 6,200.
 *
 * Rejected: a poller thread of its own: two context switches of the OS per wake-up under light load. A
 * processor-less poll with tasks pushed to the global queue under load: the lock there becomes hot.
 */
#include "sched/idle.h"

#include <errno.h>

#include <sennit/clock.h>

#include "sched/netpoll.h"
#include "sched/processors.h"
#include "sched/ready.h"
#include "sched/runtime.h"
#include "sched/schedule.h"
#include "sched/steal.h"
#include "sched/task.h"
#include "sched/timer.h"
#include "sched/wake.h"

/*
 * A nap: as long as waking a sleeper may take; after so many looks for nothing that followed each
 * other as quickly as that; and on only while so many decisions are taken meanwhile.
 */
#define NAP_NS 100000
#if SENNIT_DEBUG
#	define NAP_QUICK_NS INT64_MAX
#else
#	define NAP_QUICK_NS 50000
#endif
#define NAP_TICKS 32

/*
 * A thread that has been idle for so long ends, if more than one a processor are idle: after a
 * burst of blocking calls the next one is likely within this time, and a thread costs 100 us to
 * start.
 */
#define IDLE_THREAD_NS 2000000000

/* ---- the poller ---- */

/* Whether that is all: a few brief tasks. */
static bool are_brief(const struct sn_queue *ready, int n)
{
	const struct sn_task *task = ready->head;

	if (n <= 0 || n > SN_FEW_BRIEF)
		return false;
	while (task && task->brief)
		task = task->next;
	return !task;
}

/*
 * How long the poller may sleep: until the earliest timer, and no longer than a time, which is
 * announced. -1: for ever.
 */
static int64_t time_to_sleep(int64_t latest)
{
	int64_t until, now;

	atomic_store(&sn_runtime.poll_until, SN_TIMER_NEVER);
	until = sn_earliest_timer();
	if (until > latest)
		until = latest;
	atomic_store(&sn_runtime.poll_until, until);
	if (atomic_load(&sn_runtime.stopping))
		return 0;
	if (until == SN_TIMER_NEVER)
		return -1;
	now = sn_now();
	return until <= now ? 0 : until - now;
}

/* What a thread with a processor does with what the poller has told it. */
static void take_news(struct sn_thread *self, struct sn_queue *ready, int n)
{
	if (are_brief(ready, n)) {
		self->processor->last_poll = sn_now();
		self->owes_poller = true;
	}
	sn_ready_each(self, ready);
}

/*
 * Sleeps in the poller, if nobody does. True with a processor and perhaps tasks in its queue; false
 * without: the thread should park.
 */
static bool sleep_in_poller(struct sn_thread *self)
{
	struct sn_queue ready = {0};
	uint32_t nobody = 0;
	struct sn_processor *p;
	int n;

	if (!atomic_compare_exchange_strong(&sn_runtime.polling, &nobody, 1))
		return false;
	/* Edges of descriptors that nobody waits for are no reason to look for work: each piece that
	 * arrives while its reader is busy with the one before is such an edge. */
	do {
		n = sn_netpoll(time_to_sleep(SN_TIMER_NEVER), &ready);
	} while (n == -EAGAIN);
	atomic_store(&sn_runtime.poll_until, SN_NOT_POLLING);
	atomic_store(&sn_runtime.polling, 0);

	p = sn_idle_get_locking();
	if (p) {
		sn_processor_assign(self, p);
		sn_start_spinning(self);
		take_news(self, &ready, n);
		return true;
	}
	/* All processors are busy: whoever is free first takes them. Or one of them naps, who has to take
	 * the role, and to see to the timers. */
	if (n > 0)
		sn_ready_all(&ready);
	sn_end_nap();
	return false;
}

/* ---- naps ---- */

static uint32_t all_ticks(void)
{
	uint32_t sum = 0;

	for (int i = 0; i < sn_runtime.capacity; i++)
		sum += atomic_load_explicit(&sn_runtime.processors[i].tick, memory_order_relaxed);
	return sum;
}

/* Until the time is over, somebody ends the nap, or, in the poller, there is news: how many tasks. */
static int sleep_in_nap(enum sn_nap where, struct sn_queue *ready)
{
	int64_t until = sn_now() + NAP_NS;
	int n;

	if (where == SN_NAP_PARKED) {
		sn_parker_wait(&sn_runtime.nap_parker, until);
		return 0;
	}
	n = sn_netpoll(time_to_sleep(until), ready);
	atomic_store(&sn_runtime.poll_until, SN_NOT_POLLING);
	return n;
}

/* Where. PARKED when there is somebody in the poller, or it cannot sleep for so short a time. */
static enum sn_nap take_nap_place(void)
{
	uint32_t nobody = 0;

	return sn_netpoll_is_exact() &&
			       atomic_compare_exchange_strong(&sn_runtime.polling, &nobody, 1)
		       ? SN_NAP_POLLING
		       : SN_NAP_PARKED;
}

/*
 * Sleeps for a moment instead of becoming idle, if that is worth it: true, and the thread should
 * look again. It was counted in spinning before it last looked. Who queues something before the
 * nap is announced is seen here; who does later ends it. One thread at a time, in the poller if
 * nobody is there: a token that comes late to the parker ends another nap at once, which is as
 * good. Who leaves the poller without a processor ends it as well, and so a nap in the parker begins
 * only while somebody is in the poller, who then pays what this thread may owe.
 */
static bool nap(struct sn_thread *self)
{
	struct sn_queue ready = {0};
	int none = SN_NAP_NONE, n = 0;
	int64_t now = sn_now();
	bool again = false;
	enum sn_nap where;
	uint32_t before;

	self->fruitless = now - self->nothing_at < NAP_QUICK_NS ? self->fruitless + 1 : 0;
	self->nothing_at = now;
	if (!self->spinning || self->fruitless < SN_NAP_AFTER || sn_all_others_idle() ||
	    atomic_load(&sn_runtime.nap) != SN_NAP_NONE)
		return false;
	where = take_nap_place();
	if (atomic_compare_exchange_strong(&sn_runtime.nap, &none, where)) {
		before = all_ticks();
		atomic_thread_fence(memory_order_seq_cst);
		again = sn_ring_work_exists();
		if (!again && atomic_load(&sn_runtime.polling)) {
			self->owes_poller = false;
			n = sleep_in_nap(where, &ready);
			again = true;
		}
		if (n <= 0 && all_ticks() - before < NAP_TICKS)
			self->fruitless = 0;
	}
	/* In this order: who naps next finds the role free, or taken by somebody else. */
	if (where == SN_NAP_POLLING)
		atomic_store(&sn_runtime.polling, 0);
	if (none == SN_NAP_NONE)
		atomic_store(&sn_runtime.nap, SN_NAP_NONE);
	self->nothing_at = sn_now();
	if (n > 0)
		take_news(self, &ready, n);
	return again;
}

/*
 * A thread that looked has found something. A next task that was stolen need not have waited: waking
 * the thief takes its processor longer than a switch. How soon nothing is left tells.
 */
static void note_found(struct sn_thread *self)
{
	if (!self->stole_next)
		self->fruitless = 0;
	self->stole_next = false;
}

/* ---- the parker ---- */

int sn_await_processor(struct sn_thread *self, int64_t deadline)
{
	struct sn_processor *handed;
	int err;

	do {
		err = sn_parker_wait(&self->parker, deadline);
		handed = atomic_load_explicit(&self->handed, memory_order_acquire);
	} while (err == 0 && !handed && !atomic_load(&sn_runtime.stopping));
	if (err == 0 && handed) {
		sn_processor_assign(self, handed);
		atomic_store_explicit(&self->handed, NULL, memory_order_relaxed);
	}
	return err;
}

/* Leaves the list of idle threads for good, if it is still in it and there are enough others. */
static bool retire(struct sn_thread *self)
{
	bool retires;

	sn_lock(&sn_runtime.lock);
	retires = self->is_idle && sn_runtime.idle_thread_count > sn_processors_in_use();
	if (retires)
		sn_idle_thread_remove(self);
	sn_unlock(&sn_runtime.lock);
	return retires;
}

/*
 * Sleeps until somebody hands over a processor. False when the thread is to end.
 *
 * At the limit of threads a processor may have been put with the idle ones, though there was work for
 * it, because no thread was in the list (sn_processor_start()). Both are done under the same lock:
 * either that finds us in the list, or we find the processor.
 */
static bool sleep_in_parker(struct sn_thread *self)
{
	int64_t deadline = sn_now() + IDLE_THREAD_NS;
	struct sn_processor *p = NULL;

	sn_brief_pay(self);
	sn_lock(&sn_runtime.lock);
	if (atomic_load(&sn_runtime.stopping)) {
		sn_unlock(&sn_runtime.lock);
		return false;
	}
	if (sn_runtime.threadless) {
		if (sn_work_exists() || sn_nobody_would_notice())
			p = sn_idle_get();
		sn_runtime.threadless = p && sn_runtime.idle_processors;
	}
	if (!p)
		sn_idle_thread_put(self);
	sn_unlock(&sn_runtime.lock);
	if (p) {
		sn_processor_assign(self, p);
		sn_start_spinning(self);
		return true;
	}
	if (sn_await_processor(self, deadline) == -ETIMEDOUT) {
		if (retire(self))
			return false;
		/* Needed, or handed a processor this very moment: then the parker knows. */
		sn_await_processor(self, 0);
	}
	return !atomic_load(&sn_runtime.stopping);
}

/* Nothing to do: gives the processor up and sleeps until there is something. False when the runtime
 * ends. */
static bool become_idle(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;

	sn_lock(&sn_runtime.lock);
	if (atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed) > 0 ||
	    sn_processor_is_surplus(p)) {
		sn_unlock(&sn_runtime.lock);
		return true;
	}
	sn_processor_unassign(self);
	sn_idle_put(p);
	sn_unlock(&sn_runtime.lock);
	self->owes_poller = false; /* what follows is what any idle thread does */
	if (self->spinning) {
		self->spinning = false;
		atomic_fetch_sub(&sn_runtime.spinning, 1);
	}

	atomic_thread_fence(memory_order_seq_cst);
	if (sn_work_exists() && (p = sn_idle_get_locking()) != NULL) {
		sn_processor_assign(self, p);
		sn_start_spinning(self);
		return true;
	}
	if (sleep_in_poller(self))
		return true;
	sn_poller_expect(sn_earliest_timer());
	return sleep_in_parker(self);
}

/* ---- between tasks ---- */

/* The task is bound to another thread, which waits for it or with it: gives it our processor. */
static void hand_over(struct sn_thread *self, struct sn_task *task)
{
	struct sn_thread *thread = task->bound;

	/* Not into its processor: a pinned task's thread may not have given up its own yet. */
	atomic_store_explicit(&thread->handed, sn_processor_unassign(self), memory_order_release);
	sn_parker_release(&thread->parker);
}

/* The pinned task was left, parked or runnable: waits until it can go on. False when the runtime
 * ends. */
static bool await_pinned(struct sn_thread *self)
{
	sn_processor_give(sn_processor_unassign(self));
	sn_await_processor(self, 0);
	return !atomic_load(&sn_runtime.stopping);
}

/* There are too many processors: gives up this one. False when the thread is to end. */
static bool give_up_surplus(struct sn_thread *self)
{
	sn_stop_spinning(self);
	sn_processor_give(sn_processor_unassign(self));
	return sleep_in_parker(self);
}

struct sn_task *sn_next_task(struct sn_thread *self)
{
	struct sn_task *task;

	for (;;) {
		if (sn_thread_must_end(self))
			return NULL;
		if ((task = self->picked) != NULL) {
			self->picked = NULL;
			return task;
		}
		if (self->pinned)
			return await_pinned(self) ? self->pinned : NULL;
		if (sn_processor_is_surplus(self->processor)) {
			if (!give_up_surplus(self))
				return NULL;
			continue;
		}
		sn_tick(self->processor);
		task = sn_look_for_work(self);
		if (task) {
			note_found(self);
			sn_stop_spinning(self);
			if (!task->bound)
				return task;
			hand_over(self, task);
			if (!sleep_in_parker(self))
				return NULL;
		} else if (!nap(self) && !become_idle(self)) {
			return NULL;
		}
	}
}
