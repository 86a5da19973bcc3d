/* SPDX-License-Identifier: MIT */
/*
 * How processors change hands: from thread to thread, into the list of idle ones, out of use and
 * back into use. processor_list.h has the contract.
 */
#include "sched/processor_list.h"

#include <sennit/clock.h>

#include "base/counters.h"
#include "sched/abandon.h"
#include "sched/birth.h"
#include "sched/control_block.h"
#include "sched/lease.h"
#include "sched/mailbox.h"
#include "sched/netpoll.h"
#include "sched/off_cpu.h"
#include "sched/ready.h"
#include "sched/record.h"
#include "sched/switch.h"
#include "sched/sysmon_sleep.h"
#include "sched/task.h"
#include "sched/thread_list.h"
#include "sched/turn.h"
#include "sched/wake.h"
#include "stack/stack.h"
#include "wait/backoff.h"

struct sn_idle sn_idle;

void sn_idle_begin(void)
{
	sn_idle = (struct sn_idle){0};
}

/* ---- idle ones ---- */

/*
 * The lock is held. A surplus processor is put here only if it cannot retire now (release()).
 *
 * At the limit of threads a processor becomes idle that has tasks: those of a task that blocked,
 * computed or is pinned. They would wait until a thread takes this processor, or has so little to
 * do that it steals, which may be never. The thread that has lost the processor need not come back
 * to it: from the moment at which it is revoked until it is in this list, that thread may take
 * another one. So the tasks go to the global queue, from which every thread takes its share. All
 * this is within one section with the search for a thread (sn_processor_start()): a thread that
 * enters the list of idle threads later finds the work (sleeper.c).
 */
void sn_idle_put(struct sn_processor *p)
{
	sn_global_put_ring(p);
	p->next_idle = sn_idle.processors;
	sn_idle.processors = p;
	atomic_fetch_add(&sn_runtime.idle_count, 1);
}

/* The lock is held. */
struct sn_processor *sn_idle_get(void)
{
	struct sn_processor *p = sn_idle.processors;

	if (p) {
		sn_idle.processors = p->next_idle;
		sn_sysmon_wake_if_asleep();
		if (atomic_fetch_sub(&sn_runtime.idle_count, 1) == 1)
			sn_sysmon_all_taken();
	}
	return p;
}

struct sn_processor *sn_idle_get_locking(void)
{
	struct sn_processor *p;

	if (atomic_load(&sn_runtime.idle_count) == 0)
		return NULL;
	sn_lock(&sn_runtime.lock);
	p = sn_idle_get();
	sn_unlock(&sn_runtime.lock);
	return p;
}

/* The lock is held. Threads that stay free for tasks which run apart (tie.h) go to the end of the
 * list. They are the last to be taken for other tasks, so that no task is tied to them. */
void sn_idle_thread_put(struct sn_thread *thread)
{
	struct sn_thread *before = NULL, *after = sn_idle.threads;

	while (thread->apart && after) {
		before = after;
		after = after->next_idle;
	}
	thread->prev_idle = before;
	thread->next_idle = after;
	if (after)
		after->prev_idle = thread;
	if (before)
		before->next_idle = thread;
	else
		sn_idle.threads = thread;
	sn_idle.thread_count++;
	thread->is_idle = true;
	sn_tie_rest(thread, SN_REST_PARKED);
}

/* The lock is held, and the thread is in the list. */
void sn_idle_thread_remove(struct sn_thread *thread)
{
	if (thread->prev_idle)
		thread->prev_idle->next_idle = thread->next_idle;
	else
		sn_idle.threads = thread->next_idle;
	if (thread->next_idle)
		thread->next_idle->prev_idle = thread->prev_idle;
	sn_idle.thread_count--;
	thread->is_idle = false;
	thread->apart = false;
	sn_tie_rest(thread, SN_REST_NONE);
}

/* ---- to another thread ---- */

void sn_processor_hand(struct sn_thread *thread, struct sn_processor *p, bool spinning)
{
	thread->spinning = spinning;
	atomic_store_explicit(&thread->handed, p, memory_order_release);
	sn_parker_release(&thread->parker);
}

/* Asks the monitor to start a thread for the processor. The lock is held. */
static void ask_for_thread(struct sn_processor *p, bool spinning)
{
	p->spins = spinning;
	p->next_idle = atomic_load(&sn_idle.asked);
	atomic_store(&sn_idle.asked, p);
	sn_sysmon_wake();
}

struct sn_processor *sn_idle_take_asked(bool *spinning)
{
	struct sn_processor *p = atomic_load(&sn_idle.asked);

	if (p) {
		*spinning = p->spins;
		atomic_store(&sn_idle.asked, p->next_idle);
	}
	return p;
}

void sn_processors_start_asked(void)
{
	struct sn_processor *p;
	bool spinning;

	while (atomic_load(&sn_idle.asked)) {
		sn_lock(&sn_runtime.lock);
		p = sn_idle_take_asked(&spinning);
		sn_unlock(&sn_runtime.lock);
		if (p)
			sn_processor_start(p, spinning);
	}
}

/*
 * Gives the processor to a sleeping thread, or to a new one. The end of the runtime may wake the
 * sleeping thread first, but that thread is not freed before the calling thread has ended, too
 * (run/run.c).
 */
void sn_processor_start(struct sn_processor *p, bool spinning)
{
	struct sn_thread *thread;
	struct sn_task *waiter = NULL;
	bool refused, asks;

	sn_lock(&sn_runtime.lock);
	thread = sn_idle.threads;
	if (thread)
		sn_idle_thread_remove(thread);
	else
		waiter = sn_global_take_bound(true);
	/* Finds this out without trying to start a thread, because at the limit of threads the
	 * question arises for nearly every task that is queued. */
	refused = !thread && !waiter && sn_threads_refused();
	asks = !thread && !waiter && !refused && !sn_may_start_threads();
	if (asks)
		ask_for_thread(p, spinning);
	sn_unlock(&sn_runtime.lock);
	if (asks)
		return;
	if (waiter) {
		/* The home of a tied task stands in line for a processor. */
		sn_processor_hand(waiter->bound, p, spinning);
		return;
	}
	if (thread) {
		sn_processor_hand(thread, p, spinning);
		return;
	}
	if (!refused && sn_thread_start(p, spinning, NULL) == 0)
		return;
	/*
	 * No more threads can be started. If a thread waits for a processor to run its task, it
	 * gets this one. Otherwise the processor becomes idle until a thread takes it. If a thread
	 * is in the poller, that one is woken to do so.
	 */
	sn_lock(&sn_runtime.lock);
	/* A thread may have entered the list while the lock was released. One that enters it later
	 * finds the processor (sleeper.c). */
	if (sn_idle.threads) {
		thread = sn_idle.threads;
		sn_idle_thread_remove(thread);
		sn_unlock(&sn_runtime.lock);
		sn_processor_hand(thread, p, spinning);
		return;
	}
	waiter = sn_global_take_bound(false);
	if (waiter) {
		atomic_store_explicit(&waiter->bound->handed, p, memory_order_release);
		sn_parker_release(&waiter->bound->parker);
	} else {
		/* A surplus processor becomes idle, too. For release(), the lock would have to be
		 * released first, and a thread could then enter the list and miss the processor.
		 * The processor retires when a thread takes it, or at the next recount. */
		sn_idle.threadless = true;
		sn_idle_put(p);
	}
	if (spinning)
		atomic_fetch_sub(&sn_runtime.spinning, 1);
	sn_unlock(&sn_runtime.lock);
	if (!waiter)
		sn_netpoll_wake();
}

bool sn_processor_give_apart(struct sn_thread *self, struct sn_task *task)
{
	struct sn_thread *thread;
	struct sn_processor *p;

	sn_lock(&sn_runtime.lock);
	for (thread = sn_idle.threads; thread; thread = thread->next_idle)
		/* Relaxed: no task can be tied to a thread while it sleeps. */
		if (atomic_load_explicit(&thread->ties.owned, memory_order_relaxed) == 0)
			break;
	if (thread)
		sn_idle_thread_remove(thread);
	sn_unlock(&sn_runtime.lock);
	p = sn_processor_unassign(self);
	if (thread) {
		thread->picked = task;
		thread->apart = true;
		sn_processor_hand(thread, p, false);
		return true;
	}
	if (sn_may_start_threads() && sn_thread_start(p, false, task) == 0)
		return true;
	sn_processor_assign(self, p);
	return false;
}

/* ---- into use and out of it ---- */

/*
 * Gives everything that an unowned processor holds to new owners. Its tasks go to the global queue,
 * its timers to the first processor, and its caches to the shared stores. An owed wake-up (brief.c)
 * stays with the thread that had the processor, which pays it before it sleeps
 * (sn_sleep_without_processor()). Returns false when there is no memory to move the timers to.
 */
static bool bequeath(struct sn_processor *p)
{
	sn_lock(&sn_runtime.lock);
	sn_global_put_ring(p);
	sn_unlock(&sn_runtime.lock);
	sn_stack_flush(p->stacks);
	sn_block_flush(&p->blocks);
	return sn_timers_move(&p->timers, &sn_runtime.processors[0].timers);
}

/*
 * Makes a processor idle that no thread has and that is in no list, or retires it if it is surplus.
 * No other function retires one. Nothing can be added to the processor after bequeath() has emptied
 * it: only a thread that has it adds tasks to it, and other threads add timers to the first
 * processor, which is never surplus. The caller then checks whether it must wake a thread for what
 * was moved.
 */
static void release(struct sn_processor *p)
{
	for (bool done = false; !done;) {
		bool surplus = sn_processor_is_surplus(p);
		bool emptied = surplus && bequeath(p);

		sn_lock(&sn_runtime.lock);
		if (emptied && sn_processor_is_surplus(p)) {
			p->retired = true;
			atomic_fetch_sub(&sn_runtime.nprocessors, 1);
			done = true;
		} else if (surplus || !sn_processor_is_surplus(p)) {
			/* It could not be emptied, so it stays in use until the next recount tries
			 * again. */
			if (sn_processor_is_surplus(p))
				atomic_store(&sn_runtime.wanted, p->id + 1);
			sn_idle_put(p);
			done = true;
		}
		sn_unlock(&sn_runtime.lock);
	}
}

/* Wakes a thread if an idle processor has something to do: tasks to run, or the poller to take
 * over. */
static void wake_for_released(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (sn_work_exists() || atomic_load(&sn_runtime.polling) == 0)
		sn_wake_one();
	else
		sn_poller_needed();
}

void sn_processor_give(struct sn_processor *p)
{
	if (!sn_processor_is_surplus(p) &&
	    (sn_anything_to_run(p) || sn_timers_earliest(&p->timers) <= sn_now())) {
		sn_processor_start(p, false);
		/*
		 * The thread that had this processor may have left the poller for a brief task, and
		 * then owes a wake-up (brief.c). It may no longer be able to pay, so the caller
		 * pays.
		 */
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed) > 0 &&
		    sn_nobody_would_notice())
			sn_wake_one();
		return;
	}
	release(p);
	/*
	 * Does what become_idle() does after it has released a processor, except that the caller
	 * cannot become the poller itself, and wakes another thread for that. The fence pairs with
	 * the one in sn_submitted(), and with the store by which the poller gives up its role.
	 */
	wake_for_released();
}

void sn_processors_adjust(int wanted)
{
	struct sn_processor **link = &sn_idle.processors, *p, *surplus = NULL;

	sn_lock(&sn_runtime.lock);
	atomic_store(&sn_runtime.wanted, (uint32_t)wanted);
	/* Idle processors retire here; those in use retire when their threads next choose a task
	 * (sn_next_task()). */
	while ((p = *link) != NULL) {
		if (!sn_processor_is_surplus(p)) {
			link = &p->next_idle;
			continue;
		}
		*link = p->next_idle;
		atomic_fetch_sub(&sn_runtime.idle_count, 1);
		p->next_idle = surplus;
		surplus = p;
	}
	for (int i = 0; i < wanted; i++) {
		p = &sn_runtime.processors[i];
		if (p->retired) {
			p->retired = false;
			atomic_fetch_add(&sn_runtime.nprocessors, 1);
			sn_idle_put(p);
		}
	}
	sn_unlock(&sn_runtime.lock);
	while ((p = surplus) != NULL) {
		surplus = p->next_idle;
		release(p);
	}
	/*
	 * For sn_submitted_by(), which skips its fence if it sees a single processor: after this
	 * barrier, such a thread has queued its task, or will see the other processors. Without
	 * membarrier the monitor finds the task after HOG_NS.
	 */
	sn_barrier_everywhere();
	wake_for_released();
}

/* ---- back to a thread that has lost its own ---- */

void sn_processor_regain(struct sn_thread *self)
{
	struct sn_processor *p = sn_idle_get_locking();
	struct sn_task *task = self->task;
	struct sn_thread *const bound = task->bound;
	const uint8_t tied = task->tied;
	const uint32_t lost_at = atomic_load_explicit(&task->word.since, memory_order_relaxed);
	struct sn_queue one = {0};

	if (p) {
		sn_processor_assign(self, p);
		sn_tick(p); /* counts as a decision of its own, also for the monitor */
		p->io_budget = SN_IO_BUDGET;
		sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
		sn_record_timed(p->record, sn_record_what(SN_RECORD_REGAIN, 0, sn_record_id(task)));
		sn_tie_came_back(self, lost_at);
		return;
	}
	const int64_t since = sn_off_cpu_is_on() ? sn_ticks_now() : 0;

	sn_record_outside(sn_record_what(SN_RECORD_RETURN, 0, sn_record_id(task)), 0);
	/* The task stands in the global queue like a runnable one, and the thread that takes it
	 * there hands over its processor. While it stands there it does not count as tied, because
	 * it is none of the tied tasks that wait for this thread to choose them. */
	sn_task_bind_to(task, self);
	task->tied = SN_TIED_NOT;
	sn_queue_put(&one, task);
	sn_global_put(&one, 1);
	sn_submitted();
	sn_sysmon_hurry();
	SN_BACKOFF(backoff, SN_WAIT_PROCESSOR, 0, 0);
	sn_backoff_sleeps(&backoff, sn_now());
	/* No lock is held any more, so from here on a signal may serve scans
	 * (observe/scan_signal.h). */
	sn_status_set(&task->word, SN_TASK_RETURNING, SN_BY_RUNNER);
	sn_await_processor(self, 0);
	if (!self->processor)
		sn_abandon(self); /* the runtime ends */
	sn_task_bind_to(task, bound);
	task->tied = tied;
	sn_tie_came_back(self, lost_at);
	sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
	self->processor->io_budget = SN_IO_BUDGET;
	sn_record_timed(self->processor->record,
			sn_record_what(SN_RECORD_REGAIN, 0, sn_record_id(task)));
	if (sn_unlikely(since))
		sn_off_cpu_regained(task, since);
}

void sn_processor_lend(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;

	sn_brief_pay(self);
	/* If there is at most the network to serve, the monitor does that (POLL_NS in sysmon.c). */
	if (!sn_anything_to_run(p) && sn_timers_earliest(&p->timers) > sn_now())
		return;
	atomic_fetch_add_explicit(&sn_counters.revocations, 1, memory_order_relaxed);
	sn_record_timed(p->record, sn_record_what(SN_RECORD_REVOKE, 1, sn_record_id(self->task)));
	sn_status_set(&self->task->word, SN_TASK_BLOCKING, SN_BY_RUNNER);
	sn_processor_give(sn_processor_unassign(self));
	sn_processor_regain(self);
	if (sn_thread_must_end(self))
		sn_abandon(self);
}
