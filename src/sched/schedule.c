/* SPDX-License-Identifier: MIT */
/*
 * The scheduler.
 *
 * A task that parks picks its successor itself when one is at hand on its processor, and switches
 * straight to it; everything slower happens in the scheduler's loop on the thread's own stack
 * (sn_schedule()). What has to be done with the task that was left, once its registers are saved,
 * is done by whoever runs next (after_switch()), because only then may another thread resume it.
 *
 * No work is forgotten. Whoever makes a task runnable puts it into a queue first and then looks
 * whether to wake a processor; a thread that finds nothing announces itself idle first and then
 * looks into all queues again. Both sides have a sequentially consistent fence between the two
 * steps, so at least one of them sees the other:
 *
 *	waker: queue; fence; if idle_count > 0 and spinning == 0 wake one	(submitted())
 *	idler: release processor: idle_count++; spinning--; fence; look again	(become_idle())
 *
 * The fences make this hold whatever the order of the accesses around them: of the two fences one
 * is first in their total order, and what precedes it is seen by what follows the other. So the
 * queues themselves need only what passes a task from hand to hand, release and acquire.
 *
 * At most one thread is woken at a time: it is counted in spinning until it has found something,
 * and then wakes the next if there are idle processors left (stop_spinning()). So a burst of tasks
 * raises threads one after the other, and a trickle of them raises one.
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
 * One that leaves the poller would wake another to take its place, each time: for a task that only
 * moves a few KiB and waits again, that is two threads' switches and a second CPU for nothing. So
 * when all that has come are a few tasks that are brief (sn_brief_begin()), it wakes nobody, but
 * notes in owes_poller that it owes this. It pays as soon as it is about to run anything else, to
 * sleep elsewhere, or when the task's call ends; or never, when it comes back to the poller first.
 * Should the task have much to do after all, it polls in the poller's stead every so often
 * (sn_brief_poll()). So news waits for at most BRIEF_POLL_NS and one piece, never for user code that has
 * not promised to be as brief (SN_TASK_BRIEF).
 *
 * Nor does it wake anybody for the brief tasks that such a task makes runnable, as long as they are
 * few: it owes that, too. They are in its own queue, where it finds them before it looks into the
 * poller again; pay_poller() looks for them, and sn_brief_poll() pays when any were left waiting. In
 * a relay, where each connection started two tasks and each event woke one, the other thread was
 * woken for most of them, found little and slept again: with 64 short connections at once on two
 * processors that were busy besides, sennit-relay went to and fro between 80 us of CPU for a
 * connection and 150, with 0.2 context switches of the OS or 16.
 *
 * A task that is woken to run next is announced like any other, as the one that woke it may go on
 * to compute for long. Where it does not, but waits at once, as in a ping-pong, the thief finds
 * nothing, or a next task that is there only because waking the thief took its processor so long;
 * then the two answer each other across processors, 20 us for what takes 0.2 on one. Soon the
 * thief has nothing and sleeps, and is woken again. So who has nothing so soon after it looked,
 * NAP_AFTER times in a row, does not become idle but *naps*: it keeps its processor, stays counted
 * in spinning, so that nobody wakes anybody, and sleeps for NAP_NS at most, in the poller if
 * nobody else does. That is looking for work, slowly, and so the argument above covers it. Who
 * queues anything but a next task ends the nap, by the same handshake, and so does the network:
 *
 *	waker:  queue; fence; if nap != NONE end it			(announce(), end_nap())
 *	napper: nap = POLLING or PARKED; fence; look; sleep; nap = NONE	(nap())
 *
 * It naps on while the others decide so often what to run that no next task waits for long. As
 * nobody else is the last to look while it naps, who stops looking, leaves the poller without a
 * processor, or would wake somebody, ends the nap where that is due. The price: a next task that
 * has to be stolen after all waits for NAP_NS more, and who comes back from foreign code has to
 * wake the napper for a processor. bench-tasks on two processors, medians of seven runs in turns
 * with and without: ping-pong 311 to 192 ns, select 445 to 359, the mutex of eight tasks 66 to 54;
 * 27,500 context switches of the OS in a second of ping-pong to 6,200.
 *
 * Rejected: one scheduler context through which every switch goes (Go's g0): two switches for each
 * park, and the second is half of the cost of a ping-pong. A poller thread of its own: two context
 * switches of the OS per wake-up under light load. A processor-less poll with tasks pushed to the
 * global queue under load: the lock there becomes hot.
 */
#include "sched/schedule.h"

#include <errno.h>
#include <stdlib.h>

#include <sennit/clock.h>

#include "sched/netpoll.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/sanitizer.h"
#include "sched/scan.h"
#include "sched/sysmon.h"
#include "sched/task.h"
#include "wait/backoff.h"

/*
 * Every so many decisions the timers, the network and one task of the global queue, in this order, go
 * before the local queue. At some 50 ns a switch this is 3 us. With tasks that run for longer the time
 * decides: after FAIR_NS the monitor has the next decision be such a one (sysmon.c). A power of two near
 * Go's and tokio's 61.
 */
#define FAIR_TICKS 64
#define HURRY_TICKS 8

/* As late as the network's news may be while a brief task stands in for the poller: about what
 * waking a sleeping thread takes when the machine is busy. */
#define BRIEF_POLL_NS 50000

/* So many brief tasks are done before another thread would be awake. */
#define FEW_BRIEF 4

/* A busy processor polls the network itself, at most this often: a system call of 0.5 us each. */
#define BUSY_POLL_NS 100000

/* Operations that a task may do without parking: at 1 us for a small read, about 100 us of
 * processor. */
#define IO_BUDGET 128

/* At most so many tasks are moved from the global to a local queue at once: half of what fits. */
#define GLOBAL_BATCH (SN_RUNQUEUE_CAPACITY / 2)

/*
 * How long an idle thread looks for work before it sleeps. Waking a sleeper takes 5 to 50 us, and a
 * peer's answer over loopback 10 to 20; longer would take CPU from whoever prepares that answer.
 * How much it finds depends on the load ("idle" in docs/waiting.md, where "slept" are those that found
 * nothing): 69 of 100 times something, nearly always within 4 us, when tasks make tasks (bench-dump);
 * 80 when they pass a lock (bench-mutex); once in 200 in a relay, which loses 3 % of a CPU to it.
 */
#define IDLE_SPIN_NS 5000

/*
 * A thief that stole a single task, and is back so soon, lets the other prepare some more first.
 * Where one spawns tasks shorter than that, it would take each as soon as it is there, and the two
 * would spend their time in passing the lines of the queue to each other and, when one was late
 * for once, in sleeping and waking.
 */
#define POOR_STEAL_NS 1500

/*
 * A nap: as long as waking a sleeper may take; after so many looks for nothing that followed each
 * other as quickly as that; and on only while so many decisions are taken meanwhile. Debug builds
 * nap instead of every other sleep while others work.
 */
#define NAP_NS 100000
#if SENNIT_DEBUG
#	define NAP_AFTER 2
#	define NAP_QUICK_NS INT64_MAX
#else
#	define NAP_AFTER 3
#	define NAP_QUICK_NS 50000
#endif
#define NAP_TICKS 32

#define NOT_POLLING INT64_MIN

/*
 * A thread that has been idle for so long ends, if more than one a processor are idle: after a
 * burst of blocking calls the next one is likely within this time, and a thread costs 100 us to
 * start.
 */
#define IDLE_THREAD_NS 2000000000

struct sn_runtime sn_runtime;

/* ---- switching ---- */

static inline void after_switch(struct sn_thread *self)
{
	struct sn_task *prev = self->prev;
	bool asked = false;

	if (prev) {
		self->prev = NULL;
		/* Only now are its registers saved. The right to change it goes on with the commit. */
		if (sn_likely(atomic_load_explicit(&prev->word.status, memory_order_relaxed) !=
			      SN_TASK_ENDED)) {
			sn_status_set(&prev->word, SN_TASK_PARKED, SN_BY_LEAVER);
			/* The scan protocol: after the status, and nothing but the compiler between. */
			sn_compiler_barrier();
			if (sn_unlikely(
				    atomic_load_explicit(&prev->word.scan, memory_order_relaxed)))
				asked = sn_scan_hold_left(prev);
		}
		if (!self->commit(self, prev, self->commit_arg))
			sn_ready(self, prev, SN_READY_LAST);
		/* Only now, as the commit may let go a lock that the callback needs. */
		if (sn_unlikely(asked)) {
			sn_scan_release(prev);
			/* The time that it took is not the next task's. */
			if (self->processor)
				sn_tick(self->processor);
		}
	}
}

/* Leaves context from for context to; the caller has set self->task. Returns on whatever thread
 * resumes from. */
static inline void switch_context(struct sn_thread *self, struct sn_context *from,
				  struct sn_context *to, bool exiting)
{
	from->saved_errno = *self->errno_location;
	if (self->cxx) {
		from->cxx = *self->cxx;
		*self->cxx = to->cxx;
	}
#if SN_ASAN || SN_TSAN
	sn_sanitizer_switch(from, to, exiting);
#else
	(void)exiting;
	sn_arch_switch(&from->sp, to->sp);
#endif
	self = sn_thread_self();
	after_switch(self);
	*self->errno_location = from->saved_errno;
}

static inline void set_task(struct sn_thread *self, struct sn_task *task)
{
	/* Atomic: who asks for a scan looks which thread has the task. */
	__atomic_store_n(&self->task, task, __ATOMIC_RELAXED);
}

static void pay_poller(struct sn_thread *self);

static inline void begin_turn(struct sn_thread *self, struct sn_task *task)
{
	struct sn_processor *p = self->processor;

	set_task(self, task);
	p->io_budget = IO_BUDGET;
	sn_count(&p->stats.switches, 1);
}

/*
 * The task may be switched to at once: nothing has to be done before that calls anybody back, maps memory
 * or starts a thread. The task that is being left may have a lock that its commit lets go (waiter.h).
 */
static inline bool run_at_once(struct sn_thread *self, struct sn_task *task)
{
	struct sn_processor *p = self->processor;

	if (sn_unlikely(self->owes_poller) && !task->brief)
		return false;
	if (sn_unlikely(!task->context.sp) && p->stacks[task->stack_class].count == 0)
		return false;
	sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
	sn_compiler_barrier();
	if (sn_unlikely(atomic_load_explicit(&task->word.scan, memory_order_relaxed)) &&
	    !sn_scan_is_free(task)) {
		/* As if it were in a queue still. */
		sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_RUNNER);
		return false;
	}
	/* From the processor's own cache: nothing but memory. */
	if (sn_unlikely(!task->context.sp) && !sn_task_bind(self, task))
		sn_fatal("a stack that was in the cache is not");
	begin_turn(self, task);
	return true;
}

/* False: a scanner has the task's stack (scan.h), or there is no stack for it (task.h). Who will queue it
 * again is settled. */
static inline bool about_to_run(struct sn_thread *self, struct sn_task *task)
{
	if (sn_unlikely(self->owes_poller) && !task->brief)
		pay_poller(self);
	sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
	sn_compiler_barrier();
	if (sn_unlikely(atomic_load_explicit(&task->word.scan, memory_order_relaxed)) &&
	    !sn_scan_before_run(task))
		return false;
	if (sn_unlikely(!task->context.sp) && !sn_task_bind(self, task))
		return false;
	begin_turn(self, task);
	return true;
}

/*
 * next_fair and next_runs are the processor's owner's, but for what the monitor puts there when one of
 * the orders below has lasted too long (sysmon.c). They are plain for their owner, so either may
 * overwrite the other; then the owner has just been fair, or the monitor does it again at its next look.
 */
static inline bool is_fair_tick(struct sn_processor *p, uint32_t tick)
{
	/* It wraps. */
	return (int32_t)(tick - atomic_load_explicit(&p->next_fair, memory_order_relaxed)) >= 0;
}

/* The next task, but not more than SN_NEXT_RUNS in a row, or the first in the ring. */
static inline struct sn_task *take_local(struct sn_processor *p)
{
	uint32_t runs = atomic_load_explicit(&p->next_runs, memory_order_relaxed);
	struct sn_task *task;

	if (runs < SN_NEXT_RUNS) {
		task = sn_runqueue_take_next(&p->queue);
		if (task) {
			atomic_store_explicit(&p->next_runs, runs + 1, memory_order_relaxed);
			return task;
		}
	}
	atomic_store_explicit(&p->next_runs, 0, memory_order_relaxed);
	return sn_runqueue_get(&p->queue);
}

/* The next task by the fast rules, or NULL when the scheduler's loop must decide. */
static inline struct sn_task *pick_local(struct sn_processor *p)
{
	if (sn_unlikely(is_fair_tick(p, sn_tick(p))))
		return NULL;
	return take_local(p);
}

static void leave_task(struct sn_thread *self, sn_commit *commit, void *arg, bool exiting)
{
	struct sn_task *task = self->task;
	/* A pinned task's thread runs nothing else: its loop gives the processor away. */
	struct sn_task *next = self->pinned ? NULL : pick_local(self->processor);
	struct sn_context *to = &self->idle;

	__atomic_store_n(&self->lease.blocking, 0, __ATOMIC_RELAXED);
	self->prev = task;
	self->commit = commit;
	self->commit_arg = arg;
	if (sn_likely(next != NULL) && sn_likely(run_at_once(self, next))) {
		to = &next->context;
	} else {
		self->picked = next;
		set_task(self, NULL);
	}
	/* One place for both, so that tasks that wait at the same place have the same backtrace. */
	switch_context(self, &task->context, to, exiting);
}

int sn_park(struct sn_thread *self, sn_commit *commit, void *arg)
{
	struct sn_task *task = self->task;

	if (SENNIT_DEBUG)
		sn_check_park(self);
	task->wake_reason = 0;
	leave_task(self, commit, arg, false);
	return task->wake_reason;
}

void sn_exit_task(struct sn_thread *self, sn_commit *after)
{
	struct sn_task *task = self->task;

	sn_status_set(&task->word, SN_TASK_ENDED, SN_BY_RUNNER);
	sn_compiler_barrier();
	if (sn_unlikely(atomic_load_explicit(&task->word.scan, memory_order_relaxed)))
		sn_scan_ended(task);
	leave_task(self, after, NULL, true);
	sn_fatal("a task that had ended was resumed");
}

static bool commit_reschedule(struct sn_thread *self, struct sn_task *task, void *arg)
{
	(void)arg;
	sn_ready(self, task, SN_READY_LAST);
	return true;
}

static bool anything_to_run(struct sn_processor *p)
{
	return atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed) > 0 ||
	       !sn_runqueue_empty(&p->queue);
}

bool sn_reschedule(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;

	if (SENNIT_DEBUG)
		sn_check_park(self);
	/* With nothing else to run it is not worth a switch, but the network and the timers get
	 * their turn. */
	if (!anything_to_run(p) && !is_fair_tick(p, sn_tick(p)))
		return false;
	leave_task(self, commit_reschedule, NULL, false);
	return true;
}

bool sn_fair_chance(struct sn_thread *self)
{
	if (sn_likely(--self->processor->io_budget > 0))
		return false;
	self->processor->io_budget = IO_BUDGET;
	sn_reschedule(self);
	return true;
}

void sn_task_entered(void)
{
	struct sn_thread *self = sn_thread_self();

	after_switch(self);
	*self->errno_location = 0;
}

void sn_abandon(struct sn_thread *self)
{
	struct sn_task *task = self->task;

	set_task(self, NULL);
	switch_context(self, &task->context, &self->idle, true);
	sn_fatal("a task that had been abandoned was resumed");
}

/* ---- processors and threads ---- */

/*
 * The processor is the thread's from now on. The monitor reads thread only to know whom to look at,
 * and under the lease's protocol checks what it saw, so relaxed would do; release makes it see the
 * thread's block initialised.
 */
static void assign(struct sn_thread *thread, struct sn_processor *p)
{
	thread->processor = p;
	atomic_store_explicit(&p->thread, thread, memory_order_release);
}

static struct sn_processor *unassign(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;

	self->processor = NULL;
	atomic_store_explicit(&p->thread, NULL, memory_order_relaxed);
	return p;
}

static uint32_t active_processors(void)
{
	return atomic_load_explicit(&sn_runtime.nprocessors, memory_order_relaxed);
}

/*
 * Whether the processor is one too many. Exact under the lock; without it a hint, which is enough to
 * begin with: release() asks again under the lock.
 */
static bool is_surplus(const struct sn_processor *p)
{
	return p->id >= atomic_load_explicit(&sn_runtime.wanted, memory_order_relaxed);
}

/* The lock is held. A surplus one comes here only if it cannot retire now, see there. */
static void idle_put(struct sn_processor *p)
{
	p->next_idle = sn_runtime.idle_processors;
	sn_runtime.idle_processors = p;
	atomic_fetch_add(&sn_runtime.idle_count, 1);
}

/* The lock is held. */
static struct sn_processor *idle_get(void)
{
	struct sn_processor *p = sn_runtime.idle_processors;

	if (p) {
		sn_runtime.idle_processors = p->next_idle;
		atomic_fetch_sub(&sn_runtime.idle_count, 1);
		if (sn_runtime.monitor_sleeps)
			sn_sysmon_wake();
	}
	return p;
}

static struct sn_processor *idle_get_locking(void)
{
	struct sn_processor *p;

	if (atomic_load(&sn_runtime.idle_count) == 0)
		return NULL;
	sn_lock(&sn_runtime.lock);
	p = idle_get();
	sn_unlock(&sn_runtime.lock);
	return p;
}

/* The lock is held. */
static void idle_thread_put(struct sn_thread *thread)
{
	thread->prev_idle = NULL;
	thread->next_idle = sn_runtime.idle_threads;
	if (thread->next_idle)
		thread->next_idle->prev_idle = thread;
	sn_runtime.idle_threads = thread;
	sn_runtime.idle_thread_count++;
	thread->is_idle = true;
}

/* The lock is held, and the thread in the list. */
static void idle_thread_remove(struct sn_thread *thread)
{
	if (thread->prev_idle)
		thread->prev_idle->next_idle = thread->next_idle;
	else
		sn_runtime.idle_threads = thread->next_idle;
	if (thread->next_idle)
		thread->next_idle->prev_idle = thread->prev_idle;
	sn_runtime.idle_thread_count--;
	thread->is_idle = false;
}

/* Takes the first task out of the global queue that is bound to a thread. The lock is held. */
static struct sn_task *take_bound(void)
{
	struct sn_queue rest = {0};
	struct sn_task *task, *found = NULL;

	while ((task = sn_queue_get(&sn_runtime.global)) != NULL)
		if (!found && task->bound)
			found = task;
		else
			sn_queue_put(&rest, task);
	sn_runtime.global = rest;
	if (found)
		atomic_fetch_sub(&sn_runtime.global_size, 1);
	return found;
}

/* To one that was just taken out of the list of idle threads. */
static void hand_to_sleeper(struct sn_thread *thread, struct sn_processor *p, bool spinning)
{
	thread->spinning = spinning;
	atomic_store_explicit(&thread->handed, p, memory_order_release);
	sn_parker_release(&thread->parker);
}

/*
 * Gives the processor to a sleeping thread, or to a new one. A thread that the end of the runtime
 * takes out of its sleep meanwhile is not freed before this thread has ended too (run/run.c).
 */
static void start_processor(struct sn_processor *p, bool spinning)
{
	struct sn_thread *thread;
	struct sn_task *waiter;

	sn_lock(&sn_runtime.lock);
	thread = sn_runtime.idle_threads;
	if (thread)
		idle_thread_remove(thread);
	sn_unlock(&sn_runtime.lock);
	if (thread) {
		hand_to_sleeper(thread, p, spinning);
		return;
	}
	if (sn_thread_start(p, spinning) == 0)
		return;
	/*
	 * No more threads. One that waits with its task for a processor can have it; otherwise the
	 * processor waits for a thread, of which the poller, if there is one, is the next.
	 */
	sn_lock(&sn_runtime.lock);
	/* One may have come to the list meanwhile; who comes later finds the processor. */
	if (sn_runtime.idle_threads) {
		thread = sn_runtime.idle_threads;
		idle_thread_remove(thread);
		sn_unlock(&sn_runtime.lock);
		hand_to_sleeper(thread, p, spinning);
		return;
	}
	waiter = take_bound();
	if (waiter) {
		atomic_store_explicit(&waiter->bound->handed, p, memory_order_release);
		sn_parker_release(&waiter->bound->parker);
	} else {
		/* Also one that is surplus, as the lock must not be let go before: it retires when a thread
		 * takes it, or at the next recount. */
		sn_runtime.threadless = true;
		idle_put(p);
	}
	if (spinning)
		atomic_fetch_sub(&sn_runtime.spinning, 1);
	sn_unlock(&sn_runtime.lock);
	if (!waiter)
		sn_netpoll_kick();
}

/* In any queue but that of one processor; NULL: in any. */
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

/* Descriptors or timers are waited for, and no thread sleeps in the poller. */
static bool nobody_would_notice(void)
{
	return atomic_load(&sn_runtime.polling) == 0 &&
	       (sn_netpoll_used() || sn_earliest_timer() != SN_TIMER_NEVER);
}

/* In a queue that is not waited for to be looked at: not as next task alone. */
static bool ring_work_exists(void)
{
	if (atomic_load(&sn_runtime.global_size) > 0)
		return true;
	for (int i = 0; i < sn_runtime.capacity; i++)
		if (!sn_runqueue_ring_empty(&sn_runtime.processors[i].queue))
			return true;
	return false;
}

static sn_noinline void end_nap(void)
{
	int where = atomic_load(&sn_runtime.nap);

	/* ENDED until the napper is up: the parker is for one thread at a time. */
	if ((where != SN_NAP_POLLING && where != SN_NAP_PARKED) ||
	    !atomic_compare_exchange_strong(&sn_runtime.nap, &where, SN_NAP_ENDED))
		return;
	if (where == SN_NAP_POLLING)
		sn_netpoll_kick();
	else
		sn_parker_release(&sn_runtime.nap_parker);
}

/*
 * Wakes one thread with an idle processor to look for work, unless one is looking already.
 *
 * While this counts in spinning, other wakers leave the waking to it. So when it finds no processor
 * it takes itself out again under the lock: a processor that becomes idle does so under the same
 * lock, hence after that, and a waker that sees it idle sees the count without us.
 */
static void wake_one(void)
{
	uint32_t none = 0;
	struct sn_processor *p;

	if (!atomic_compare_exchange_strong(&sn_runtime.spinning, &none, 1)) {
		end_nap(); /* if that one naps */
		return;
	}
	sn_lock(&sn_runtime.lock);
	p = idle_get();
	if (!p)
		atomic_fetch_sub(&sn_runtime.spinning, 1);
	sn_unlock(&sn_runtime.lock);
	if (p)
		start_processor(p, true);
}

/* A task was queued: the waker's half of the handshake above. may_wait: for a nap to end. */
static inline void announce(bool may_wait)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed) > 0 &&
	    atomic_load_explicit(&sn_runtime.spinning, memory_order_relaxed) == 0)
		wake_one();
	else if (!may_wait && atomic_load_explicit(&sn_runtime.nap, memory_order_relaxed))
		end_nap();
}

static inline void submitted(void)
{
	announce(false);
}

/*
 * The same by a thread with a processor. When that is the only one nobody can be idle, and whoever gets
 * it next, even by revoking it, sees what was queued under it: no fence, a fifth of a switch. Should
 * there be more processors at this moment, whoever adds them looks for work itself.
 */
static inline void submitted_by(struct sn_thread *self, bool may_wait)
{
	if (self && self->processor && active_processors() == 1)
		return;
	announce(may_wait);
}

static void start_spinning(struct sn_thread *self)
{
	if (!self->spinning) {
		self->spinning = true;
		atomic_fetch_add(&sn_runtime.spinning, 1);
	}
}

/*
 * The others that are counted look, too; or one of them naps, and has looked before what is in the
 * queues by now was there, such as the rest of a batch that this thread has stolen.
 */
static void end_nap_for_work(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&sn_runtime.nap, memory_order_relaxed) && ring_work_exists())
		end_nap();
}

/*
 * The thread has found something. Wakers saw it looking and woke nobody, so if it was the last to
 * look, and there is more, it wakes the next itself: more is also the role of the poller, which
 * this thread may just have left, while processors are idle.
 */
static void stop_spinning(struct sn_thread *self)
{
	bool owes = self->owes_poller;

	if (!self->spinning)
		return;
	self->spinning = false;
	/* The few tasks that it came with are its own, see owes_poller; what others have queued while
	 * they saw it looking is not. */
	if (atomic_fetch_sub(&sn_runtime.spinning, 1) > 1)
		end_nap_for_work();
	else if (atomic_load(&sn_runtime.idle_count) > 0 &&
		 (work_exists_beside(owes ? self->processor : NULL) ||
		  (!owes && nobody_would_notice())))
		wake_one();
}

/* What stop_spinning() left undone. */
static void pay_poller(struct sn_thread *self)
{
	if (!self->owes_poller)
		return;
	self->owes_poller = false;
	/* As in submitted(), for what sn_ready() has queued and not announced. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&sn_runtime.idle_count) > 0 && (sn_work_exists() || nobody_would_notice()))
		wake_one();
}

void sn_brief_pay(struct sn_thread *self)
{
	pay_poller(self);
}

void sn_brief_begin(void)
{
	sn_thread_self()->task->brief++;
}

void sn_brief_end(void)
{
	struct sn_thread *self = sn_thread_self();

	if (--self->task->brief == 0)
		pay_poller(self);
}

/* ---- queues ---- */

/*
 * Whether a has been runnable for longer than b, by the monitor's clock. Both are in queues, where
 * that does not change, or by as little as a thread takes that queues the task it waits with
 * (sn_processor_regain()). A task that has just been stolen from a ring leaves a block that may be read.
 */
static bool is_older(struct sn_task *a, struct sn_task *b)
{
	return (int32_t)(atomic_load_explicit(&a->word.since, memory_order_relaxed) -
			 atomic_load_explicit(&b->word.since, memory_order_relaxed)) < 0;
}

/* The lock is held. */
static void global_append(struct sn_queue *tasks, uint32_t n)
{
	sn_queue_append(&sn_runtime.global, tasks);
	atomic_fetch_add(&sn_runtime.global_size, n);
}

static void global_put(struct sn_queue *tasks, uint32_t n)
{
	sn_lock(&sn_runtime.lock);
	global_append(tasks, n);
	sn_unlock(&sn_runtime.lock);
}

/*
 * What a ring cannot hold: its older half, and the task that did not fit. If these have waited for longer
 * than anything in the global queue they come first there. Otherwise a task that was fetched from the
 * global queue could be sent back to its end each time that somebody fills the ring, and never run. (The
 * one that did not fit, the youngest, comes along: one in as many as half a ring holds.)
 */
static void global_put_spilled(struct sn_queue *tasks, uint32_t n)
{
	sn_lock(&sn_runtime.lock);
	if (sn_runtime.global.head && is_older(tasks->head, sn_runtime.global.head)) {
		sn_queue_append(tasks, &sn_runtime.global);
		sn_runtime.global = *tasks;
		atomic_fetch_add(&sn_runtime.global_size, n);
	} else {
		global_append(tasks, n);
	}
	sn_unlock(&sn_runtime.lock);
}

static void local_put(struct sn_processor *p, struct sn_task *task)
{
	struct sn_queue overflow = {0};
	uint32_t n = sn_runqueue_put(&p->queue, task, &overflow);

	if (n)
		global_put_spilled(&overflow, n);
}

static bool has_few(struct sn_runqueue *queue)
{
	return atomic_load_explicit(&queue->tail, memory_order_relaxed) -
		       atomic_load_explicit(&queue->head, memory_order_relaxed) <=
	       FEW_BRIEF;
}

void sn_ready(struct sn_thread *self, struct sn_task *task, enum sn_ready_place place)
{
	bool only_next = false;

	sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_WAKER);
	if (!self || !self->processor || task->bound) {
		struct sn_queue one = {0};

		sn_queue_put(&one, task);
		global_put(&one, 1);
	} else if (place == SN_READY_NEXT) {
		struct sn_processor *p = self->processor;
		struct sn_task *displaced = sn_runqueue_set_next(&p->queue, task);

		if (displaced)
			local_put(p, displaced);
		only_next = !displaced;
	} else {
		/* The one that runs is brief as well, or this would be paid. Asked before: once it is
		 * queued it may run elsewhere. */
		bool may_be_left = self->owes_poller && task->brief;

		local_put(self->processor, task);
		if (may_be_left && has_few(&self->processor->queue))
			return;
	}
	submitted_by(self, only_next);
}

void sn_requeue(struct sn_task *task)
{
	struct sn_queue one = {0};

	sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_SCANNER);
	sn_queue_put(&one, task);
	global_put(&one, 1);
	submitted();
}

void sn_ready_all(struct sn_queue *tasks)
{
	uint32_t n = 0;

	for (struct sn_task *task = tasks->head; task; task = task->next, n++)
		sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_WAKER);
	if (n)
		global_put(tasks, n);
	submitted();
}

/*
 * While the first task in the global queue is older than the first in the ring, one turn in HURRY_TICKS
 * is fair, and not one in FAIR_TICKS. So each task waits for about HURRY_TICKS times as many turns as there
 * are tasks, wherever they are. Not every second turn: a program that spawns a tree of tasks then goes through
 * it level by level, and a million of them have begun before the first ends. With 2, skynet took 5 times as
 * many pages and 2.3 times as long; with 8 it is as fast as with 64 (make bench-tasks ROWS=skynet). The lock
 * is held.
 */
static void hurry_if_older_is_left(struct sn_processor *p)
{
	struct sn_task *mine = sn_runqueue_first(&p->queue);
	uint32_t soon = atomic_load_explicit(&p->tick, memory_order_relaxed) + HURRY_TICKS;
	uint32_t next = atomic_load_explicit(&p->next_fair, memory_order_relaxed);

	/* Never later than it was to be. */
	if (mine && sn_runtime.global.head && is_older(sn_runtime.global.head, mine) &&
	    (int32_t)(next - soon) > 0)
		atomic_store_explicit(&p->next_fair, soon, memory_order_relaxed);
}

/*
 * Whether the processor has a task that has been runnable for longer than any in the global queue: at a fair
 * turn that goes first. With tasks that run for long every turn is fair (FAIR_NS in sysmon.c), and a global
 * queue that others keep filled would have all of them (models/fair.pml, LONG). The lock is held.
 */
static bool older_is_local(struct sn_processor *p)
{
	struct sn_task *head = sn_runtime.global.head;
	struct sn_task *mine = sn_runqueue_first(&p->queue);
	/* A hint, as mine is: a thief may take it, and leaves a block that may be read. */
	struct sn_task *next = atomic_load_explicit(&p->queue.next, memory_order_acquire);

	return head && ((mine && is_older(mine, head)) || (next && is_older(next, head)));
}

/*
 * Takes a fair share of the global queue: one task is returned, the others go to the local queue. A
 * task that is bound to a thread is taken alone, because what is in a local queue may be run by the
 * fast path, which does not look.
 */
static struct sn_task *global_get(struct sn_processor *p, uint32_t most, bool by_age)
{
	struct sn_task *first = NULL;
	struct sn_queue overflow = {0};

	if (atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed) == 0)
		return NULL;
	sn_lock(&sn_runtime.lock);
	uint32_t size = atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed);
	uint32_t share = size / active_processors() + 1, taken = 0;

	if (share > most)
		share = most;
	if (by_age && older_is_local(p))
		share = 0;
	while (taken < share && sn_runtime.global.head) {
		struct sn_task *task = sn_runtime.global.head;

		if (first && task->bound)
			break;
		sn_queue_get(&sn_runtime.global);
		taken++;
		if (!first) {
			first = task;
			if (task->bound)
				break;
		} else if (sn_runqueue_put(&p->queue, task, &overflow)) {
			break; /* it was full: what overflowed goes back below */
		}
		/* A thief may have what was put, so it is not looked at any more. */
	}
	atomic_fetch_sub(&sn_runtime.global_size, taken);
	if (overflow.head) {
		uint32_t n = 0;

		for (struct sn_task *task = overflow.head; task; task = task->next)
			n++;
		global_append(&overflow, n);
	}
	if (taken > 0)
		hurry_if_older_is_left(p);
	sn_unlock(&sn_runtime.lock);
	return first;
}

/* Makes the tasks that the poller found runnable, in their order. */
static void inject(struct sn_thread *self, struct sn_queue *ready)
{
	struct sn_task *task;

	while ((task = sn_queue_get(ready)) != NULL)
		sn_ready(self, task, SN_READY_LAST);
}

static void poll_network(struct sn_thread *self, struct sn_processor *p, int64_t now)
{
	struct sn_queue ready = {0};

	p->last_poll = now;
	if (!sn_netpoll_used() || atomic_load_explicit(&sn_runtime.polling, memory_order_relaxed))
		return;
	if (sn_netpoll(0, &ready) > 0)
		inject(self, &ready);
}

/* The poller's work, by who owes it. */
void sn_brief_poll(struct sn_thread *self)
{
	int64_t now = sn_now();
	bool others_wait;

	if (now - self->processor->last_poll < BRIEF_POLL_NS)
		return;
	others_wait = !sn_runqueue_empty(&self->processor->queue);
	poll_network(self, self->processor, now);
	if (others_wait || atomic_load_explicit(&sn_runtime.polling, memory_order_relaxed) ||
	    sn_earliest_timer() <= now)
		pay_poller(self);
}

static uint32_t next_random(struct sn_thread *self)
{
	/* xorshift: the order of victims only has to differ between threads. */
	self->random ^= self->random << 13;
	self->random ^= self->random >> 17;
	self->random ^= self->random << 5;
	return self->random;
}

/* One round over all other processors. */
static struct sn_task *steal(struct sn_thread *self, struct sn_processor *p, bool desperate)
{
	int n = sn_runtime.capacity;
	uint32_t start = next_random(self);

	for (int i = 0; i < n; i++) {
		struct sn_processor *victim =
			&sn_runtime.processors[(start + (uint32_t)i) % (uint32_t)n];
		struct sn_task *task;
		bool from_next;

		if (victim == p)
			continue;
		from_next = desperate && sn_runqueue_ring_empty(&victim->queue);
		task = sn_runqueue_steal(&p->queue, &victim->queue, desperate);
		if (task) {
			self->stole_next = from_next;
			sn_count(&p->stats.steals, 1);
			return task;
		}
		/* Timers of a processor that is busy, or has no thread, are late otherwise. */
		if (desperate && sn_timers_earliest(&victim->timers) <= sn_now() &&
		    sn_timers_run(self, &victim->timers, sn_now()) > 0) {
			task = sn_runqueue_get(&p->queue);
			if (task)
				return task;
		}
	}
	return NULL;
}

/* As take_local(), but a next task that is all there is runs also out of its turn. */
static struct sn_task *take_any_local(struct sn_processor *p)
{
	struct sn_task *task = take_local(p);

	return task ? task : sn_runqueue_take_next(&p->queue);
}

/* ---- processors come into use and go out of it ---- */

/*
 * All that a processor which nobody has may hold gets a new owner. Its tasks go to the global queue, its
 * timers to the first processor, what it has cached to the stores for all; pending wake-ups are its
 * thread's, which pays them before it sleeps (sleep_in_parker()). False: there is no memory to move
 * the timers to.
 */
static bool bequeath(struct sn_processor *p)
{
	struct sn_queue tasks = {0};
	struct sn_task *task;
	uint32_t n = 0;

	for (; (task = take_any_local(p)) != NULL; n++)
		sn_queue_put(&tasks, task);
	if (n)
		global_put(&tasks, n);
	sn_stack_flush(p->stacks);
	sn_block_flush(&p->blocks);
	return sn_timers_move(&p->timers, &sn_runtime.processors[0].timers);
}

/*
 * Puts a processor that nobody has, and that is in no list, with the idle ones, or out of use if it is
 * surplus: this is the only place where one retires. Nothing can be added to it meanwhile: that takes a
 * thread that has it, or, for timers, that it be the first, which is never surplus. The caller then
 * looks whether somebody has to be woken for what was moved.
 */
static void release(struct sn_processor *p)
{
	for (bool done = false; !done;) {
		bool surplus = is_surplus(p);
		bool emptied = surplus && bequeath(p);

		sn_lock(&sn_runtime.lock);
		if (emptied && is_surplus(p)) {
			p->retired = true;
			atomic_fetch_sub(&sn_runtime.nprocessors, 1);
			done = true;
		} else if (surplus || !is_surplus(p)) {
			/* It could not be emptied: it stays in use, until the next recount tries again. */
			if (is_surplus(p))
				atomic_store(&sn_runtime.wanted, p->id + 1);
			idle_put(p);
			done = true;
		}
		sn_unlock(&sn_runtime.lock);
	}
}

/* Wakes somebody if there is something that an idle processor could do, or would notice. */
static void wake_for_released(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (sn_work_exists() || atomic_load(&sn_runtime.polling) == 0)
		wake_one();
	else
		sn_poller_expect(sn_earliest_timer());
}

void sn_processor_give(struct sn_processor *p)
{
	if (!is_surplus(p) && (anything_to_run(p) || sn_timers_earliest(&p->timers) <= sn_now())) {
		start_processor(p, false);
		/*
		 * A thread that left the poller for a brief task, and whose processor this was, owes a
		 * wake-up that it cannot pay any more (pay_poller()).
		 */
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed) > 0 &&
		    nobody_would_notice())
			wake_one();
		return;
	}
	release(p);
	/*
	 * As in become_idle(), but the caller goes on to something else: where a thread would have
	 * become the poller, another must. The fence pairs with submitted()'s, and with the
	 * poller's giving up the role.
	 */
	wake_for_released();
}

void sn_processors_notice(int64_t now)
{
	if (atomic_load(&sn_runtime.idle_count) > 0 && atomic_load(&sn_runtime.polling) == 0 &&
	    sn_earliest_timer() <= now)
		wake_one();
}

void sn_processors_adjust(int wanted)
{
	struct sn_processor **link = &sn_runtime.idle_processors, *p, *surplus = NULL;

	sn_lock(&sn_runtime.lock);
	atomic_store(&sn_runtime.wanted, (uint32_t)wanted);
	/* The idle ones at once; those in use follow as their threads come by (next_task()). */
	while ((p = *link) != NULL) {
		if (!is_surplus(p)) {
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
			idle_put(p);
		}
	}
	sn_unlock(&sn_runtime.lock);
	while ((p = surplus) != NULL) {
		surplus = p->next_idle;
		release(p);
	}
	/* For submitted_by(): a thread that has seen a single processor has queued its task by now, or will
	 * see the others. Where there is no membarrier the monitor finds it after HOG_NS. */
	sn_barrier_everywhere();
	wake_for_released();
}

static void let_work_gather(struct sn_thread *self)
{
	int64_t since = self->poor_at ? sn_now() - self->poor_at : POOR_STEAL_NS;

	if (since < POOR_STEAL_NS) {
		SN_BACKOFF(backoff, SN_WAIT_GATHER, POOR_STEAL_NS - since, 0);
		while (sn_backoff_pause(&backoff))
			;
	}
}

/* Spinning: until the others have work to share, or for long enough. */
static struct sn_task *look_at_others(struct sn_thread *self, struct sn_processor *p)
{
	SN_BACKOFF(backoff, SN_WAIT_IDLE, self->fruitless < NAP_AFTER ? IDLE_SPIN_NS : 0, 0);
	struct sn_task *task;

	let_work_gather(self);
	do {
		if (atomic_load_explicit(&sn_runtime.stopping, memory_order_relaxed))
			return NULL;
		if ((task = steal(self, p, false)) != NULL) {
			self->poor_at = sn_runqueue_empty(&p->queue) ? sn_now() : 0;
			return task;
		}
		if ((task = global_get(p, GLOBAL_BATCH, false)) != NULL)
			return task;
	} while (sn_backoff_pause(&backoff));
	return steal(self, p, true);
}

/*
 * Then nobody runs who could queue a task that is worth waiting for: whoever does it from outside
 * wakes a thread, and what comes by the network is what this one is going to sleep for. A
 * connection that waits after every few KiB took 5 us of looking, and a poll that found nothing,
 * each time.
 */
static bool all_others_idle(void)
{
	return atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed) + 1 >=
	       active_processors();
}

/* What goes before the local queue at times. */
static void be_fair(struct sn_thread *self, struct sn_processor *p, uint32_t tick)
{
	int64_t now = sn_now();

	sn_status_clock_advance(now); /* for is_older(), should the monitor be late */
	atomic_store_explicit(&p->next_fair, tick + FAIR_TICKS, memory_order_relaxed);
	/* One writer, and the monitor only looks whether it has changed. */
	atomic_store_explicit(&p->fair_turns,
			      atomic_load_explicit(&p->fair_turns, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (sn_timers_earliest(&p->timers) <= now)
		sn_timers_run(self, &p->timers, now);
	if (now - p->last_poll > BUSY_POLL_NS)
		poll_network(self, p, now);
}

/* Looks everywhere once, and for a while at the other processors, when there are any that work. */
static struct sn_task *look_for_work(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;
	struct sn_task *task;
	uint32_t tick = atomic_load_explicit(&p->tick, memory_order_relaxed);

	/* The order is the promise: nothing that returns early may come before the timers and the network. */
	if (is_fair_tick(p, tick)) {
		be_fair(self, p, tick);
		if ((task = global_get(p, 1, true)) != NULL)
			return task;
	} else if (sn_timers_earliest(&p->timers) != SN_TIMER_NEVER) {
		int64_t now = sn_now();

		if (sn_timers_earliest(&p->timers) <= now)
			sn_timers_run(self, &p->timers, now);
	}
	if ((task = take_any_local(p)) != NULL)
		return task;
	if ((task = global_get(p, GLOBAL_BATCH, false)) != NULL)
		return task;
	if (all_others_idle())
		return steal(self, p, true);
	poll_network(self, p, p->last_poll);
	if ((task = take_any_local(p)) != NULL)
		return task;

	/* Half of the busy processors' number in spinning threads finds work as fast as more would.
	 */
	if (!self->spinning) {
		uint32_t busy = active_processors() -
				atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed);

		if (2 * atomic_load_explicit(&sn_runtime.spinning, memory_order_relaxed) >= busy)
			return NULL;
		start_spinning(self);
	}
	return look_at_others(self, p);
}

void sn_poller_expect(int64_t when)
{
	if (when < atomic_load(&sn_runtime.poll_until))
		sn_netpoll_kick();
}

/* Whether that is all: a few brief tasks. */
static bool are_brief(const struct sn_queue *ready, int n)
{
	const struct sn_task *task = ready->head;

	if (n <= 0 || n > FEW_BRIEF)
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

static uint32_t all_ticks(void)
{
	uint32_t sum = 0;

	for (int i = 0; i < sn_runtime.capacity; i++)
		sum += atomic_load_explicit(&sn_runtime.processors[i].tick, memory_order_relaxed);
	return sum;
}

/* What a thread with a processor does with what the poller has told it. */
static void take_news(struct sn_thread *self, struct sn_queue *ready, int n)
{
	if (are_brief(ready, n)) {
		self->processor->last_poll = sn_now();
		self->owes_poller = true;
	}
	inject(self, ready);
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
	atomic_store(&sn_runtime.poll_until, NOT_POLLING);
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
	if (!self->spinning || self->fruitless < NAP_AFTER || all_others_idle() ||
	    atomic_load(&sn_runtime.nap) != SN_NAP_NONE)
		return false;
	where = take_nap_place();
	if (atomic_compare_exchange_strong(&sn_runtime.nap, &none, where)) {
		before = all_ticks();
		atomic_thread_fence(memory_order_seq_cst);
		again = ring_work_exists();
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
	atomic_store(&sn_runtime.poll_until, NOT_POLLING);
	atomic_store(&sn_runtime.polling, 0);

	p = idle_get_locking();
	if (p) {
		assign(self, p);
		start_spinning(self);
		take_news(self, &ready, n);
		return true;
	}
	/* All processors are busy: whoever is free first takes them. Or one of them naps, who has to take
	 * the role, and to see to the timers. */
	if (n > 0)
		sn_ready_all(&ready);
	end_nap();
	return false;
}

/*
 * Waits in the parker for a processor. -ETIMEDOUT past the deadline (0: none); 0 otherwise, also
 * when the runtime ends.
 */
static int await_processor(struct sn_thread *self, int64_t deadline)
{
	struct sn_processor *handed;
	int err;

	do {
		err = sn_parker_wait(&self->parker, deadline);
		handed = atomic_load_explicit(&self->handed, memory_order_acquire);
	} while (err == 0 && !handed && !atomic_load(&sn_runtime.stopping));
	if (err == 0 && handed) {
		assign(self, handed);
		atomic_store_explicit(&self->handed, NULL, memory_order_relaxed);
	}
	return err;
}

/* Leaves the list of idle threads for good, if it is still in it and there are enough others. */
static bool retire(struct sn_thread *self)
{
	bool retires;

	sn_lock(&sn_runtime.lock);
	retires = self->is_idle && sn_runtime.idle_thread_count > active_processors();
	if (retires)
		idle_thread_remove(self);
	sn_unlock(&sn_runtime.lock);
	return retires;
}

/*
 * Sleeps until somebody hands over a processor. False when the thread is to end.
 *
 * At the limit of threads a processor may have been put with the idle ones, though there was work for
 * it, because no thread was in the list (start_processor()). Both are done under the same lock:
 * either that finds us in the list, or we find the processor.
 */
static bool sleep_in_parker(struct sn_thread *self)
{
	int64_t deadline = sn_now() + IDLE_THREAD_NS;
	struct sn_processor *p = NULL;

	pay_poller(self);
	sn_lock(&sn_runtime.lock);
	if (atomic_load(&sn_runtime.stopping)) {
		sn_unlock(&sn_runtime.lock);
		return false;
	}
	if (sn_runtime.threadless) {
		if (sn_work_exists() || nobody_would_notice())
			p = idle_get();
		sn_runtime.threadless = p && sn_runtime.idle_processors;
	}
	if (!p)
		idle_thread_put(self);
	sn_unlock(&sn_runtime.lock);
	if (p) {
		assign(self, p);
		start_spinning(self);
		return true;
	}
	if (await_processor(self, deadline) == -ETIMEDOUT) {
		if (retire(self))
			return false;
		/* Needed, or handed a processor this very moment: then the parker knows. */
		await_processor(self, 0);
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
	    is_surplus(p)) {
		sn_unlock(&sn_runtime.lock);
		return true;
	}
	unassign(self);
	idle_put(p);
	sn_unlock(&sn_runtime.lock);
	self->owes_poller = false; /* what follows is what any idle thread does */
	if (self->spinning) {
		self->spinning = false;
		atomic_fetch_sub(&sn_runtime.spinning, 1);
	}

	atomic_thread_fence(memory_order_seq_cst);
	if (sn_work_exists() && (p = idle_get_locking()) != NULL) {
		assign(self, p);
		start_spinning(self);
		return true;
	}
	if (sleep_in_poller(self))
		return true;
	sn_poller_expect(sn_earliest_timer());
	return sleep_in_parker(self);
}

/* The task is bound to another thread, which waits for it or with it: gives it our processor. */
static void hand_over(struct sn_thread *self, struct sn_task *task)
{
	struct sn_thread *thread = task->bound;

	/* Not into its processor: a pinned task's thread may not have given up its own yet. */
	atomic_store_explicit(&thread->handed, unassign(self), memory_order_release);
	sn_parker_release(&thread->parker);
}

/* The pinned task was left, parked or runnable: waits until it can go on. False when the runtime
 * ends. */
static bool await_pinned(struct sn_thread *self)
{
	sn_processor_give(unassign(self));
	await_processor(self, 0);
	return !atomic_load(&sn_runtime.stopping);
}

/* There are too many processors: gives up this one. False when the thread is to end. */
static bool give_up_surplus(struct sn_thread *self)
{
	stop_spinning(self);
	sn_processor_give(unassign(self));
	return sleep_in_parker(self);
}

/* The task to run next, with a processor to run it on; NULL when the thread is to end. */
static struct sn_task *next_task(struct sn_thread *self)
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
		if (is_surplus(self->processor)) {
			if (!give_up_surplus(self))
				return NULL;
			continue;
		}
		sn_tick(self->processor);
		task = look_for_work(self);
		if (task) {
			note_found(self);
			stop_spinning(self);
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

void sn_schedule(struct sn_thread *self)
{
	struct sn_task *task;

	atomic_store_explicit(&self->processor->thread, self, memory_order_release);
	while ((task = next_task(self)) != NULL) {
		if (about_to_run(self, task))
			switch_context(self, &self->idle, &task->context, false);
	}
	pay_poller(self);
}

/* ---- leases ---- */

void sn_processor_regain(struct sn_thread *self)
{
	struct sn_processor *p = idle_get_locking();
	struct sn_task *task = self->task;
	struct sn_queue one = {0};

	if (p) {
		assign(self, p);
		sn_tick(p); /* a turn of its own, for the monitor too */
		p->io_budget = IO_BUDGET;
		sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
		return;
	}
	/* Stands in the global queue like a runnable task; whoever takes it there hands over. */
	task->bound = self;
	sn_queue_put(&one, task);
	global_put(&one, 1);
	submitted();
	SN_BACKOFF(backoff, SN_WAIT_PROCESSOR, 0, 0);
	sn_backoff_sleeps(&backoff, sn_now());
	/* From here on a signal may serve scans, see scan.c: no lock is held. */
	sn_status_set(&task->word, SN_TASK_RETURNING, SN_BY_RUNNER);
	await_processor(self, 0);
	if (!self->processor)
		sn_abandon(self); /* the runtime ends */
	if (!self->pinned)
		task->bound = NULL;
	sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
	self->processor->io_budget = IO_BUDGET;
}

void sn_processor_lend(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;

	pay_poller(self);
	/* The network alone is the monitor's, see POLL_NS there. */
	if (!anything_to_run(p) && sn_timers_earliest(&p->timers) > sn_now())
		return;
	atomic_fetch_add_explicit(&sn_runtime.revocations, 1, memory_order_relaxed);
	sn_status_set(&self->task->word, SN_TASK_BLOCKING, SN_BY_RUNNER);
	sn_processor_give(unassign(self));
	sn_processor_regain(self);
	if (sn_thread_must_end(self))
		sn_abandon(self);
}

void sn_runtime_stop(void)
{
	/* Under the lock: a thread that is starting sees it, or is in the list. */
	sn_lock(&sn_runtime.lock);
	atomic_store(&sn_runtime.stopping, true);
	for (struct sn_thread *thread = sn_runtime.all_threads; thread; thread = thread->next_all) {
		sn_lease_end(thread);
		sn_parker_release(&thread->parker);
	}
	sn_sysmon_wake();
	sn_unlock(&sn_runtime.lock);
	sn_netpoll_kick();
}
