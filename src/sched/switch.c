/* SPDX-License-Identifier: MIT */
/*
 * Switching: a task is left, and another begins or continues.
 *
 * A task that parks picks its successor itself if one is at hand on its processor, and switches
 * directly to it. Everything slower happens in the scheduler's loop on the thread's own stack
 * (sn_schedule()). Another thread may resume the task that was left only once its registers are
 * saved. The context that was switched to therefore commits the park (after_switch()).
 *
 * Rejected: one scheduler context through which every switch goes (Go's g0). Each park then takes
 * two switches, and the second is half of the cost of a ping-pong.
 */
#include "sched/switch.h"

#include "sched/idle.h"
#include "sched/processor_list.h"
#include "sched/record.h"
#include "sched/runtime.h"
#include "sched/scan.h"
#include "sched/sysmon_sleep.h"
#include "sched/task.h"
#include "sched/task_stack.h"
#include "sched/turn.h"
#include "sched/wake.h"
#include "stack/sanitizer.h"
#include "wait/checked.h"

/* ---- from one context to another ---- */

/* Makes the task that was left runnable again, because what it was to wait for has happened
 * already. */
static sn_noinline void stay(struct sn_thread *self, struct sn_task *task)
{
	sn_record_ready(self, task, sn_record_what(SN_RECORD_STAY, 0, sn_record_id(task)), 0);
	sn_ready_recorded(self, task, SN_READY_LAST);
}

static inline void after_switch(struct sn_thread *self)
{
	struct sn_task *prev = self->prev;
	bool asked = false;

	if (prev) {
		self->prev = NULL;
		/* Its registers are saved now. With the commit, the right to change the status
		 * passes on. */
		if (sn_likely(atomic_load_explicit(&prev->word.status, memory_order_relaxed) !=
			      SN_TASK_ENDED)) {
			sn_status_set(&prev->word, SN_TASK_PARKED, SN_BY_LEAVER);
			/* The handshake of scan.h: the scan word is read after the store of the
			 * status, and a compiler barrier between the two suffices. */
			sn_compiler_barrier();
			if (sn_unlikely(
				    atomic_load_explicit(&prev->word.scan, memory_order_relaxed)))
				asked = sn_scan_hold_left(prev);
		}
		if (sn_unlikely(!self->commit(self, prev, self->commit_arg)))
			stay(self, prev);
		/* After the commit, which may release a lock that the callback needs. */
		if (sn_unlikely(asked)) {
			if (sn_scan_give_back(prev))
				sn_requeue(prev);
			/* A new decision, so that the monitor does not charge the time of the
			 * callback to the next task. */
			if (self->processor)
				sn_tick(self->processor);
		}
	}
}

/* Leaves context from for context to; the caller has set self->task. Returns on the thread that
 * resumes from. */
static inline void switch_context(struct sn_thread *self, struct sn_context *from,
				  struct sn_context *to, bool exiting)
{
	/* Kept on the stack that is left, because the task may be resumed on another thread. */
	const int saved_errno = *self->errno_location;

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
	*self->errno_location = saved_errno;
}

static inline void set_task(struct sn_thread *self, struct sn_task *task)
{
	/* Atomic, because a thread that requests a scan reads which thread has the task. */
	__atomic_store_n(&self->task, task, __ATOMIC_RELAXED);
}

static inline void begin_turn(struct sn_thread *self, struct sn_task *task)
{
	struct sn_processor *p = self->processor;

	set_task(self, task);
	p->io_budget = SN_IO_BUDGET;
	sn_count(&p->stats.switches, 1);
}

/*
 * Prepares a direct switch to the task. Returns false if something has to be done first that calls
 * back, maps memory, starts a thread, or wakes the monitor: the task that is being left may hold a
 * lock that its commit releases (task/waiter.h).
 */
static inline bool run_at_once(struct sn_thread *self, struct sn_task *task)
{
	struct sn_processor *p = self->processor;

	if (sn_unlikely(self->owes_poller) && !task->brief)
		return false;
	if (sn_unlikely(task->may_block))
		return false;
	if (sn_unlikely(!task->context.sp) && p->stacks[task->stack_class].count == 0)
		return false;
	sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
	sn_compiler_barrier();
	if (sn_unlikely(atomic_load_explicit(&task->word.scan, memory_order_relaxed)) &&
	    !sn_scan_is_free(task)) {
		/* Its status is again that of a task in a queue. */
		sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_RUNNER);
		return false;
	}
	/* The stack comes from the processor's own cache, so this only touches memory. */
	if (sn_unlikely(!task->context.sp) && !sn_task_bind(self, task))
		sn_fatal("a stack is missing from the cache");
	begin_turn(self, task);
	return true;
}

/* Prepares a switch from the loop to the task. Returns false if a scanner has the task's stack
 * (scan.h), or if there is no stack for it (task_stack.h); then another party will queue it
 * again. */
static inline bool about_to_run(struct sn_thread *self, struct sn_task *task)
{
	if (sn_unlikely(self->owes_poller) && !task->brief)
		sn_brief_pay(self);
	if (sn_unlikely(task->may_block)) {
		task->may_block--;
		sn_sysmon_expect_block();
	}
	sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
	sn_compiler_barrier();
	if (sn_unlikely(atomic_load_explicit(&task->word.scan, memory_order_relaxed)) &&
	    !sn_scan_before_run(task))
		return false;
	if (sn_unlikely(!task->context.sp)) {
		if (!sn_task_bind(self, task))
			return false;
		/* Where short tasks follow each other, a task that ends still uses its stack when
		 * the next one needs one. With a spare stack, run_at_once() can switch to that
		 * directly. */
		sn_stack_have_spare(task->stack_class, self->processor->stacks);
	}
	begin_turn(self, task);
	return true;
}

/* ---- a task leaves ---- */

/*
 * The next task by the fast rules, or NULL if the scheduler's loop must decide. The loop also
 * decides while tied tasks wait. To take one takes a lock (tie.h), and the task that is being left
 * may hold another, which comes later in the order of rank.h (task/waiter.h).
 */
static inline struct sn_task *pick_local(struct sn_thread *self, struct sn_processor *p)
{
	if (sn_unlikely(sn_is_fair_tick(p, sn_tick(p))) || sn_unlikely(sn_ties_wait(self)))
		return NULL;
	return sn_take_local(p);
}

/* Leaves the running task for the next one, or for the scheduler's loop if next is NULL or cannot
 * be switched to directly. */
static inline void leave_for(struct sn_thread *self, struct sn_task *next, sn_commit *commit,
			     void *arg, enum sn_leave_how how)
{
	struct sn_task *task = self->task;
	struct sn_context *to = &self->idle;

	sn_checked_leave();
	sn_record_leave(self->processor, task, how);
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
	/* The same call for both, so that tasks that wait at the same place have the same
	 * backtrace. */
	switch_context(self, &task->context, to, how == SN_LEAVE_END);
}

static void leave_task(struct sn_thread *self, sn_commit *commit, void *arg, enum sn_leave_how how)
{
	/* The thread of a pinned task runs no other task: its loop gives the processor away. */
	struct sn_task *next = self->pinned ? NULL : pick_local(self, self->processor);

	leave_for(self, next, commit, arg, how);
}

int sn_park(struct sn_thread *self, sn_commit *commit, void *arg)
{
	struct sn_task *task = self->task;

	if (SENNIT_DEBUG)
		sn_check_park(self);
	task->wake_reason = 0;
	leave_task(self, commit, arg, SN_LEAVE_PARK);
	return task->wake_reason;
}

void sn_exit_task(struct sn_thread *self, sn_commit *after, struct sn_task *heir)
{
	struct sn_processor *p = self->processor;
	struct sn_task *task = self->task, *next = NULL;

	sn_status_set(&task->word, SN_TASK_ENDED, SN_BY_RUNNER);
	sn_compiler_barrier();
	if (sn_unlikely(atomic_load_explicit(&task->word.scan, memory_order_relaxed)))
		sn_scan_ended(task);
	/* The processor's own tasks come first, because the loop would run them first: the heir
	 * would be the last in the ring. */
	if (sn_likely(!sn_is_fair_tick(p, sn_tick(p)) && !self->ends)) {
		next = sn_take_own(self, p);
		if (!next && heir) {
			sn_record_wake(self, heir, task);
			sn_status_set(&heir->word, SN_TASK_RUNNABLE, SN_BY_WAKER);
			next = heir;
		}
	}
	leave_for(self, next, after, next == heir ? heir : NULL, SN_LEAVE_END);
	sn_fatal("a task that had ended was resumed");
}

static bool commit_reschedule(struct sn_thread *self, struct sn_task *task, void *arg)
{
	(void)arg;
	sn_ready_recorded(self, task, SN_READY_LAST);
	return true;
}

bool sn_reschedule(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;

	if (SENNIT_DEBUG)
		sn_check_park(self);
	/* A switch is not worthwhile if there is nothing else to run, unless it is the turn of the
	 * network and the timers. */
	if (!sn_anything_to_run(p) && !sn_ties_wait(self) && !sn_is_fair_tick(p, sn_tick(p)))
		return false;
	/* The task counts as parked for a moment, in which reports must not show its last wait. */
	sn_task_waits(self->task, NULL, NULL);
	leave_task(self, commit_reschedule, NULL, SN_LEAVE_YIELD);
	return true;
}

bool sn_fair_chance(struct sn_thread *self)
{
	if (sn_likely(--self->processor->io_budget > 0))
		return false;
	self->processor->io_budget = SN_IO_BUDGET;
	sn_reschedule(self);
	return true;
}

void sn_task_entered(void)
{
	struct sn_thread *self = sn_thread_self();

	after_switch(self);
	*self->errno_location = 0;
}

/* ---- the loop ---- */

void sn_schedule(struct sn_thread *self)
{
	struct sn_task *task;

	atomic_store_explicit(&self->processor->thread, self, memory_order_release);
	while ((task = sn_next_task(self)) != NULL) {
		if (!about_to_run(self, task))
			continue;
		sn_record_timed(self->processor->record,
				sn_record_what(SN_RECORD_RUN, 0, sn_record_id(task)));
		switch_context(self, &self->idle, &task->context, false);
	}
	/* When the run ends, the debt is void. An orphan must not even look: its runtime is
	 * gone. */
	if (!sn_thread_must_end(self))
		sn_brief_pay(self);
}
