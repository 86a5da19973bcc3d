/* SPDX-License-Identifier: MIT */
/*
 * How processors change hands: from thread to thread, to the idle ones, out of use and back into
 * use.
 */
#include "sched/processors.h"

#include <sennit/clock.h>

#include "base/counters.h"
#include "sched/abandon.h"
#include "sched/birth.h"
#include "sched/block.h"
#include "sched/lease.h"
#include "sched/mailbox.h"
#include "sched/netpoll.h"
#include "sched/off_cpu.h"
#include "sched/ready.h"
#include "sched/record.h"
#include "sched/schedule.h"
#include "sched/sysmon_sleep.h"
#include "sched/task.h"
#include "sched/threads.h"
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

/* The lock is held. A surplus processor comes here only if it cannot retire now, see release(). */
void sn_idle_put(struct sn_processor *p)
{
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

/* The lock is held. Those that run tasks apart are the last to be taken for others, so that nothing
 * is tied to them. */
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

/* The lock is held, and the thread in the list. */
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

/* Leaves it to the monitor to start a thread. The lock is held. */
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
 * Gives the processor to a sleeping thread, or to a new one. If the end of the runtime meanwhile
 * wakes the sleeping thread, that thread is not freed before the calling thread has ended too
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
	/* Known without trying: at the limit this is done for nearly every task that is queued. */
	refused = !thread && !waiter && sn_threads_refused();
	asks = !thread && !waiter && !refused && !sn_may_start_threads();
	if (asks)
		ask_for_thread(p, spinning);
	sn_unlock(&sn_runtime.lock);
	if (asks)
		return;
	if (waiter) {
		/* One that waits in line for a processor is there. */
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
	 * No more threads can be started. A thread that waits with its task for a processor can
	 * have it. Otherwise the processor waits for a thread; if there is a poller, that is the
	 * next one.
	 */
	sn_lock(&sn_runtime.lock);
	/* A thread may have come to the list meanwhile; one that comes later finds the
	 * processor. */
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
		/* A surplus processor, too, because the lock must not be released before: it
		 * retires when a thread takes it, or at the next recount. */
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
		/* Relaxed: a thread that sleeps is tied no more tasks. */
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
 * its timers to the first processor, and its caches to the shared stores. Pending wake-ups belong
 * to its thread, which pays them before it sleeps (sn_sleep_without_processor()). Returns false
 * when there is no memory to move the timers to.
 */
static bool bequeath(struct sn_processor *p)
{
	struct sn_queue tasks = {0};
	struct sn_task *task;
	uint32_t n = 0;

	for (; (task = sn_take_any_local(p)) != NULL; n++)
		sn_queue_put(&tasks, task);
	if (n)
		sn_global_put(&tasks, n);
	sn_stack_flush(p->stacks);
	sn_block_flush(&p->blocks);
	return sn_timers_move(&p->timers, &sn_runtime.processors[0].timers);
}

/*
 * Puts a processor that no thread has, and that is in no list, with the idle ones, or out of use if
 * it is surplus. This is the only place where a processor retires. Nothing can be added to it
 * meanwhile: only the thread that has it could do that, and timers are added to the first
 * processor, which is never surplus. The caller then checks whether a thread has to be woken for
 * what was moved.
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

/* Wakes a thread if there is something that an idle processor could do, or would notice. */
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
		 * A thread that left the poller for a brief task, and that had this processor, owes
		 * a wake-up which it can no longer pay (sn_brief_pay()).
		 */
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed) > 0 &&
		    sn_nobody_would_notice())
			sn_wake_one();
		return;
	}
	release(p);
	/*
	 * As in become_idle(), except that the caller continues with something else: where a thread
	 * would have become the poller, another must. The fence pairs with the one in
	 * sn_submitted(), and with the poller's giving up the role.
	 */
	wake_for_released();
}

void sn_processors_adjust(int wanted)
{
	struct sn_processor **link = &sn_idle.processors, *p, *surplus = NULL;

	sn_lock(&sn_runtime.lock);
	atomic_store(&sn_runtime.wanted, (uint32_t)wanted);
	/* The idle ones retire at once; those in use follow when their threads come by
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
	 * For sn_submitted_by(): a thread that has seen a single processor has queued its task by
	 * now, or will see the others. Without membarrier the monitor finds the task after HOG_NS.
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
		sn_tick(p); /* a turn of its own, for the monitor too */
		p->io_budget = SN_IO_BUDGET;
		sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
		sn_record_timed(p->record, sn_record_what(SN_RECORD_REGAIN, 0, sn_record_id(task)));
		sn_tie_came_back(self, lost_at);
		return;
	}
	const int64_t since = sn_off_cpu_is_on() ? sn_ticks_now() : 0;

	sn_record_outside(sn_record_what(SN_RECORD_RETURN, 0, sn_record_id(task)), 0);
	/* Stands in the global queue like a runnable task; the thread that takes it there hands
	 * over. It is no tied task meanwhile, of those that this thread looks for. */
	sn_task_bind_to(task, self);
	task->tied = SN_TIED_NOT;
	sn_queue_put(&one, task);
	sn_global_put(&one, 1);
	sn_submitted();
	sn_sysmon_hurry();
	SN_BACKOFF(backoff, SN_WAIT_PROCESSOR, 0, 0);
	sn_backoff_sleeps(&backoff, sn_now());
	/* From here on a signal may serve scans, see observe/scan_signal.h, because no lock is
	 * held. */
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
	/* The network alone is left to the monitor, see POLL_NS there. */
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
