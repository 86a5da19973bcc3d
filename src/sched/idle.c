/* SPDX-License-Identifier: MIT */
/*
 * Idle threads: the poller, naps, and what a thread does between tasks. sleeper.c has the sleep in
 * the parker.
 *
 * One idle thread at a time, the poller, sleeps in epoll ("polling" is not NONE), until the
 * earliest timer of any processor. The other idle threads sleep in their parkers. A thread that
 * leaves the poller gives up that role before it looks for a processor:
 *
 *	poller: polling = NONE; take an idle processor, else park
 *	idler:  release processor (idle); polling == NONE? then take the role
 *
 * One of the two sees the other, so no processor stays idle while no thread polls. A thread that
 * adds a timer earlier than poll_until wakes the poller. The poller stores "never" in poll_until
 * before it reads the processors' earliest times, so here, too, one of the two sees the other.
 *
 * A task that is woken to run next is announced like any other, because the task that woke it may
 * continue to compute for long. If the waker parks right away instead, as in a ping-pong, the thief
 * that was woken finds nothing. Or it finds a next task that is still there only because waking the
 * thief kept the victim's processor busy; the two tasks then answer each other across processors,
 * which takes 20 us instead of 0.2 on one processor. In both cases the thief soon has nothing to
 * do, sleeps, and is woken again. Therefore a thread that finds nothing shortly after it last
 * looked, SN_NAP_AFTER times in a row, does not become idle but *naps*. It keeps its processor,
 * stays counted in spinning, so that no thread wakes another, and sleeps for NAP_NS at most, in the
 * poller if no other thread is there. A nap is a slow search for work, so the argument in wake.c
 * covers it. A thread that queues anything but a next task ends the nap, by the handshake in
 * wake.c, and so does an event of the network.
 *
 * The thread keeps napping while the others take scheduling decisions so often that no next task
 * waits for long. The last thread that stops looking for work must look once more. While a thread
 * naps it counts as looking, so no other thread is the last one. Therefore a thread that stops
 * looking while there is work, that leaves the poller without a processor, or that would wake
 * another thread ends the nap. The price: a next task that has to be stolen after all waits for
 * NAP_NS more, and a thread that returns from foreign code has to wake the napper to get its
 * processor. In bench-tasks on two processors (medians of seven alternating runs without and with
 * naps), ping-pong went from 311 to 192 ns, select from 445 to 359, and the mutex of eight tasks
 * from 66 to 54. A second of ping-pong went from 27,500 context switches of the OS to 6,200.
 *
 * The poller *rests* where it would only be in the way. Two tasks that wake each other over a
 * connection within the process are best served by one thread, which polls whenever it has nothing
 * else to run, and finds the other task at once. But each of these events also wakes a thread that
 * sleeps in the poller. That thread is as fast as the first one and takes the task to its own
 * processor, so the two threads alternate. Therefore, while other threads often find something in
 * their polls, the poller sleeps for REST_NS at a time without looking at the network. It keeps the
 * role of the poller, and wakes in time for the timers. It also watches the eventfd, through which
 * others end the rest when perhaps no thread polls any more:
 *
 *	poller: polling = RESTS; any processor in use? rest
 *	others: release processor (idle); polling == RESTS? end the rest
 *
 * The price: if the other thread stops polling without becoming idle, because a task begins to
 * compute, an event waits until the end of that rest. If the other thread had already found enough
 * since the rest before, the event also waits for the next one. Round trips of 64 bytes over one
 * Unix connection on two processors went from 68,000 a second to 90,000, and from 13 us of CPU each
 * to 9 (make bench-unix, medians of nine alternating runs without and with rests).
 *
 * Rejected:
 *   - A thread of its own for the poller: under light load each wake-up would cost two context
 *     switches of the OS.
 *   - Polling without a processor, and pushing the tasks to the global queue: under load, the lock
 *     of that queue would become hot.
 */
#include "sched/idle.h"

#include <errno.h>

#include <sennit/clock.h>

#include "sched/find_work.h"
#include "sched/mailbox.h"
#include "sched/netpoll.h"
#include "sched/processor_list.h"
#include "sched/ready.h"
#include "sched/record.h"
#include "sched/runtime.h"
#include "sched/switch.h"
#include "sched/sysmon_sleep.h"
#include "sched/task.h"
#include "sched/thread_list.h"
#include "sched/timer.h"
#include "sched/wake.h"

/*
 * A nap lasts as long as waking a sleeper may take. A thread naps after SN_NAP_AFTER fruitless
 * looks, each no later than NAP_QUICK_NS after the one before. It naps again only if the others
 * took at least NAP_TICKS decisions during the nap.
 */
#define NAP_NS 100000
#if SENNIT_DEBUG
#	define NAP_QUICK_NS INT64_MAX
#else
#	define NAP_QUICK_NS 50000
#endif
#define NAP_TICKS 32

/* The poller rests for REST_NS at a time (the timer slack of its thread comes on top), while other
 * threads find something in at least one poll every REST_POLL_NS. */
#define REST_NS 50000
#define REST_POLL_NS 25000

/* ---- the poller ---- */

/* Whether the poller has found only a few tasks, all of them brief (brief.c). */
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
 * Returns for how many ns the poller may sleep: until the earliest timer, or until latest if that
 * is earlier; -1 means forever. Announces the time in poll_until. Returns 0 also if the run ends,
 * or a task that is tied to this thread is runnable.
 */
static int64_t time_to_sleep(struct sn_thread *self, int64_t latest)
{
	int64_t until, now;

	atomic_store(&sn_runtime.poll_until, SN_TIMER_NEVER);
	until = sn_earliest_timer();
	if (until > latest)
		until = latest;
	atomic_store(&sn_runtime.poll_until, until);
	if (atomic_load(&sn_runtime.stopping) || sn_ties_wait_after_all(self))
		return 0;
	if (until == SN_TIMER_NEVER)
		return -1;
	now = sn_now();
	return until <= now ? 0 : until - now;
}

/* Queues the tasks that the poller has found. The thread has a processor. */
static void take_news(struct sn_thread *self, struct sn_queue *ready, int n)
{
	if (are_brief(ready, n)) {
		self->processor->last_poll = sn_now();
		self->owes_poller = true;
	}
	if (n > 0)
		sn_record_timed(self->processor->record,
				sn_record_what(SN_RECORD_POLL, 0, (unsigned)n));
	sn_ready_each(self, ready);
}

/* How many polls by threads with a processor have found something so far. */
static uint32_t all_polled(void)
{
	uint32_t sum = 0;

	for (int i = 0; i < sn_runtime.capacity; i++)
		sum += atomic_load_explicit(&sn_runtime.processors[i].polled, memory_order_relaxed);
	return sum;
}

/* Whether other threads find something so often that the poller need not poll. It is measured again
 * every REST_NS. */
static bool others_poll(struct sn_thread *self)
{
	const int64_t now = sn_now(), passed = now - self->asked_at;

	if (passed >= REST_NS) {
		const uint32_t polled = all_polled() - self->polled;

		self->others_poll =
			(int64_t)(polled - self->others_polled) * REST_POLL_NS >= passed;
		self->others_polled = polled;
		self->asked_at = now;
	}
	return self->others_poll;
}

/* Whether a thread has a processor and looks for work, or runs a task. */
static bool anyone_works(void)
{
	return atomic_load(&sn_runtime.idle_count) < atomic_load(&sn_runtime.nprocessors) &&
	       atomic_load(&sn_runtime.nap) == SN_NAP_NONE;
}

/* Rests while others poll, but no longer than until a timer or a wake-up. */
static void rest_in_poller(struct sn_thread *self)
{
	int64_t ns;

	atomic_store(&sn_runtime.polling, SN_POLLING_RESTS);
	do {
		ns = anyone_works() ? time_to_sleep(self, sn_now() + REST_NS) : 0;
	} while (ns > 0 && sn_netpoll_rest(ns) && others_poll(self));
	atomic_store(&sn_runtime.polling, SN_POLLING_SLEEPS);
}

/* Passes the tasks that are tied to other threads to those threads. Returns whether this leaves no
 * task. The poller then stays: if it left, another thread would have to be woken to take its
 * place. */
static bool only_for_others(struct sn_thread *self, struct sn_queue *ready, int *n)
{
	const int gone = *n > 0 ? sn_ties_sort_out(self, ready, self) : 0;

	*n -= gone;
	return gone > 0 && *n == 0;
}

/*
 * Sleeps in the poller, if no other thread does. Returns true with a processor, and perhaps tasks
 * in its queue. Returns false without a processor: the thread should park.
 */
static bool sleep_in_poller(struct sn_thread *self)
{
	struct sn_queue ready = {0};
	uint32_t nobody = SN_POLLING_NONE;
	struct sn_processor *p;
	int n;

	if (!atomic_compare_exchange_strong(&sn_runtime.polling, &nobody, SN_POLLING_SLEEPS))
		return false;
	/* An edge that no task waits for is no reason to look for work. Each piece of data that
	 * arrives while its reader is busy with the one before causes such an edge. */
	sn_tie_rest(self, SN_REST_POLLING);
	do {
		if (others_poll(self))
			rest_in_poller(self);
		n = sn_netpoll(time_to_sleep(self, SN_TIMER_NEVER), &ready);
	} while ((n == -EAGAIN || only_for_others(self, &ready, &n)) && !sn_ties_wait(self));
	sn_tie_rest(self, SN_REST_NONE);
	atomic_store(&sn_runtime.poll_until, SN_NOT_POLLING);
	atomic_store(&sn_runtime.polling, SN_POLLING_NONE);

	p = sn_idle_get_locking();
	if (p) {
		sn_processor_assign(self, p);
		sn_start_spinning(self);
		take_news(self, &ready, n);
		return true;
	}
	/* No processor is idle. If all are busy, the first thread that has time takes the tasks. If
	 * a thread naps with one, its nap ends, because it has to take over the poller and the
	 * timers. */
	if (n > 0)
		sn_ready_all(&ready);
	else
		sn_sysmon_hurry(); /* makes the monitor serve the timers */
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

/* Sleeps until NAP_NS have passed or another thread ends the nap; in the poller also until an event
 * or a timer. Returns what sn_netpoll() did, or 0 for a nap in the parker. */
static int sleep_in_nap(struct sn_thread *self, enum sn_nap where, struct sn_queue *ready)
{
	int64_t until = sn_now() + NAP_NS;
	int n;

	if (where == SN_NAP_PARKED) {
		sn_parker_wait(&sn_nap_parker, until);
		return 0;
	}
	n = sn_netpoll(time_to_sleep(self, until), ready);
	atomic_store(&sn_runtime.poll_until, SN_NOT_POLLING);
	return n;
}

/* Chooses where to nap. Takes the role of the poller and returns POLLING, or returns PARKED if
 * another thread has the role or the poller cannot sleep for so short a time. */
static enum sn_nap take_nap_place(void)
{
	uint32_t nobody = SN_POLLING_NONE;

	return sn_netpoll_is_exact() && atomic_compare_exchange_strong(&sn_runtime.polling, &nobody,
								       SN_POLLING_SLEEPS)
		       ? SN_NAP_POLLING
		       : SN_NAP_PARKED;
}

/*
 * Sleeps for a moment instead of becoming idle, if that is worthwhile. Returns true if the thread
 * should look again. The thread has been counted in spinning since before its last look. It
 * announces the nap and then looks into the queues, so it sees a task that was queued before the
 * announcement; a thread that queues one later ends the nap.
 *
 * One thread naps at a time, in the poller if no other thread is there. A token that reaches the
 * parker late ends the next nap immediately, which does no harm. A nap in the parker begins only
 * while another thread sleeps in the poller, and that thread ends the nap if it leaves the poller
 * without a processor. In either place the wake-up that this thread may owe (owes_poller) is
 * therefore no longer needed.
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
		sn_tie_rest(self, SN_REST_NAPS);
		atomic_thread_fence(memory_order_seq_cst);
		again = sn_ring_work_exists() || sn_ties_wait_after_all(self);
		if (!again && atomic_load(&sn_runtime.polling) == SN_POLLING_SLEEPS) {
			self->owes_poller = false;
			sn_record_timed(self->processor->record,
					sn_record_what(SN_RECORD_IDLE, 0, 0));
			n = sleep_in_nap(self, where, &ready);
			again = true;
		}
		sn_tie_rest(self, SN_REST_NONE);
		if (n <= 0 && all_ticks() - before < NAP_TICKS)
			self->fruitless = 0;
	}
	/* Gives up the role first, so that the next thread that naps finds it free, or taken by a
	 * third thread. */
	if (where == SN_NAP_POLLING)
		atomic_store(&sn_runtime.polling, SN_POLLING_NONE);
	if (none == SN_NAP_NONE)
		atomic_store(&sn_runtime.nap, SN_NAP_NONE);
	self->nothing_at = sn_now();
	if (n > 0)
		take_news(self, &ready, n);
	return again;
}

/*
 * Called when a look has found a task, which ends the row of fruitless looks. A stolen next task
 * does not end it, because the victim might soon have run that task itself: waking the thief takes
 * the victim longer than a switch. Whether the theft was of use shows in how soon the thief finds
 * nothing again.
 */
static void note_found(struct sn_thread *self)
{
	if (!self->stole_next)
		self->fruitless = 0;
	self->stole_next = false;
}

/* ---- without a processor ---- */

/* Called when there is nothing to do: gives up the processor and sleeps until there is something.
 * Returns false if the run ends. */
static bool become_idle(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;

	sn_lock(&sn_runtime.lock);
	if (atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed) > 0 ||
	    sn_ties_wait(self) || sn_processor_is_surplus(p)) {
		sn_unlock(&sn_runtime.lock);
		return true;
	}
	sn_record_timed(p->record, sn_record_what(SN_RECORD_IDLE, 0, 0));
	sn_processor_unassign(self);
	sn_idle_put(p);
	sn_unlock(&sn_runtime.lock);
	self->owes_poller = false; /* what follows sees to the poller, as on every idle thread */
	if (self->spinning) {
		self->spinning = false;
		atomic_fetch_sub(&sn_runtime.spinning, 1);
	}

	atomic_thread_fence(memory_order_seq_cst);
	if ((sn_work_exists() || sn_ties_wait(self)) && (p = sn_idle_get_locking()) != NULL) {
		sn_processor_assign(self, p);
		sn_start_spinning(self);
		return true;
	}
	if (sleep_in_poller(self))
		return true;
	sn_poller_needed();
	return sn_sleep_without_processor(self);
}

/* ---- between tasks ---- */

/* Gives this thread's processor to the thread that the task is bound to, which waits to run it. */
static void hand_over(struct sn_thread *self, struct sn_task *task)
{
	struct sn_thread *thread = task->bound;

	/* Stores it in handed and not in the other thread's processor, because the thread of a
	 * pinned task may not have given up its own yet. */
	atomic_store_explicit(&thread->handed, sn_processor_unassign(self), memory_order_release);
	sn_parker_release(&thread->parker);
}

/* Called for a task that must run apart from tied tasks. If any are tied to this thread, gives the
 * task and the processor to another one. Returns false if the task is to run here. */
static bool give_apart(struct sn_thread *self, struct sn_task *task)
{
	return atomic_load_explicit(&self->ties.owned, memory_order_relaxed) > 0 &&
	       sn_processor_give_apart(self, task);
}

/* Called when the task that ran apart has left the thread. Gives the processor to another idle
 * thread, so that this one stays free for the next such task. Returns false if no other thread is
 * idle; this one then runs any task. */
static bool give_back(struct sn_thread *self)
{
	bool others;

	sn_lock(&sn_runtime.lock);
	others = sn_idle.threads != NULL;
	sn_unlock(&sn_runtime.lock);
	self->apart = others;
	if (others) {
		sn_stop_spinning(self);
		sn_processor_give(sn_processor_unassign(self));
	}
	return others;
}

/* Called when the thread has switched away from its pinned task, which is parked or runnable. Gives
 * up the processor, and waits for one on which the task can continue. Returns false if the run
 * ends. */
static bool await_pinned(struct sn_thread *self)
{
	sn_processor_give(sn_processor_unassign(self));
	sn_await_processor(self, 0);
	return !atomic_load(&sn_runtime.stopping);
}

/* Called when this processor is surplus: gives it up, and sleeps until there is another. Returns
 * false if the thread is to end. */
static bool give_up_surplus(struct sn_thread *self)
{
	sn_stop_spinning(self);
	sn_processor_give(sn_processor_unassign(self));
	return sn_sleep_without_processor(self);
}

/* Called when a pinned task has ended on this thread, which then runs no other task (task/pin.h).
 * The thread stops counting towards the limit of threads before it gives up its processor.
 * Otherwise, at the limit, the work here might wait for a thread that never comes. */
static void give_up_thread(struct sn_thread *self)
{
	sn_ties_end(self);
	sn_thread_leaves(self);
	sn_processor_give(sn_processor_unassign(self));
}

struct sn_task *sn_next_task(struct sn_thread *self)
{
	struct sn_task *task;

	for (;;) {
		if (sn_thread_must_end(self))
			return NULL;
		if ((task = self->picked) != NULL) {
			self->picked = NULL;
			/* The thread may have got its processor in order to look for work, and then
			 * it still counts as spinning. */
			sn_stop_spinning(self);
			sn_tie_leave_soon(self);
			return task;
		}
		if (sn_unlikely(self->ends)) {
			give_up_thread(self);
			return NULL;
		}
		if (self->pinned)
			return await_pinned(self) ? self->pinned : NULL;
		if (sn_unlikely(self->apart) && give_back(self)) {
			if (!sn_sleep_without_processor(self))
				return NULL;
			continue;
		}
		if (sn_processor_is_surplus(self->processor)) {
			if (!give_up_surplus(self))
				return NULL;
			continue;
		}
		sn_tick(self->processor);
		task = sn_find_work(self);
		if (task) {
			note_found(self);
			sn_stop_spinning(self);
			if (!task->is_bound || (task->tied == SN_TIED && task->bound == self))
				return task;
			if (task->bound == SN_NO_HOME) {
				if (!give_apart(self, task))
					return task;
				if (!sn_sleep_without_processor(self))
					return NULL;
				continue;
			}
			/* The task came from the global queue, but its home does not stand in line
			 * for a processor. */
			if (task->tied == SN_TIED && !sn_tie_is_in_line(task)) {
				sn_tie_ready(self, task);
				continue;
			}
			hand_over(self, task);
			if (!sn_sleep_without_processor(self))
				return NULL;
		} else if (!nap(self) && !become_idle(self)) {
			return NULL;
		}
	}
}
