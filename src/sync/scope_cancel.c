/* SPDX-License-Identifier: MIT */
/*
 * Cancelling scopes.
 *
 * Contract. A scope is cancelled once: error is the first reason. The thread that has set it visits
 * the tasks and the scopes inside, under the lock, and ends their waits (task/cancel.h). Tasks are
 * added, and scopes opened inside, under the same lock. Each of them is therefore either visited,
 * or sees the reason itself (a task before it waits, a scope when it is opened). Only the thread
 * that has set the reason visits the lists, so there is at most one visitor. Tasks that begin or
 * end wait for the lock, so the visitor releases it after every SN_SCOPE_VISITS tasks, and leaves a
 * marker in the list. There, a task that cancels may also lend its processor (waits.h). If the run
 * ends at that point, the task ends in the middle of its visit, as do the tasks that it has not
 * visited.
 *
 * A thread that serves timers runs no task, so it cannot lend its processor in the middle. When a
 * deadline has passed, it sets the error. It then visits at most SN_WAKE_BATCH tasks itself, and
 * has a new task visit the rest: all of a scope that has more, or the scopes inside that are left.
 * Without memory for that task the thread visits them, too. So does a thread that has no processor.
 * models/scope_cancel.pml has the visits, and who hands what over.
 *
 * The scopes inside are put on a list of work, with a count of each of them held. They are not
 * visited recursively, because they may be nested deeper than the stack allows. The list is linked
 * by work_next, which only the thread that cancels the scope around writes, once.
 */
#include "sync/scope.h"

#include "sched/foreign.h"
#include "sched/ready.h"
#include "sched/thread.h"
#include "sync/waits.h"
#include "task/spawn.h"

static void take(struct sn_task *task, struct sn_queue *taken)
{
	if (sn_cancel_take(task))
		sn_queue_put(taken, task);
}

/* Called with the lock. Releases it from time to time, and while it wakes tasks, because waking
 * them may take long. Tasks that it has not woken are left in taken. */
static void visit_tasks(struct sn_thread *self, struct sn_scope *scope, struct sn_queue *taken,
			bool pauses)
{
	struct sn_link marker;
	int visits = 0;

	sn_link_add(&scope->tasks, &marker);
	sn_link_move_after(&marker, &scope->tasks);
	while (marker.next != &scope->tasks) {
		struct sn_task *task = sn_container_of(marker.next, struct sn_task, scope_link);

		sn_link_move_after(&marker, &task->scope_link);
		take(task, taken);
		if (++visits % SN_SCOPE_VISITS == 0) {
			sn_unlock(&scope->lock);
			sn_ready_each(self, taken);
			if (pauses)
				sn_wakes_pause(self);
			sn_lock(&scope->lock);
		}
	}
	sn_link_remove(&marker);
}

/* Called by the thread that has set the error. Puts the scopes inside on the list of work. */
static void visit(struct sn_thread *self, struct sn_scope *scope, struct sn_scope **work,
		  bool pauses)
{
	struct sn_queue taken = {0}, told;

	sn_lock(&scope->lock);
	visit_tasks(self, scope, &taken, pauses);
	take(scope->opener, &taken);
	for (struct sn_link *link = scope->inner.next; link != &scope->inner; link = link->next) {
		struct sn_scope *inner = sn_container_of(link, struct sn_scope, among_inner);

		sn_scope_hold(inner);
		inner->work_next = *work;
		*work = inner;
	}
	told = sn_scope_tell(self, scope, pauses);
	sn_unlock(&scope->lock);
	sn_ready_each(self, &taken);
	sn_ready_each(self, &told);
}

/* True: it was not cancelled, and the caller has to visit it. */
static bool set_error(struct sn_scope *scope, int error, int reason)
{
	int none = 0;

	if (!atomic_compare_exchange_strong(&scope->error, &none, error))
		return false;
	atomic_store_explicit(&scope->cancel.reason, reason, memory_order_release);
	return true;
}

/* Cancels the first scope in the list of work, and takes it off. */
static void cancel_next(struct sn_thread *self, struct sn_scope **work, int reason, bool pauses)
{
	struct sn_scope *next = *work;

	*work = next->work_next;
	if (set_error(next, reason, reason))
		visit(self, next, work, pauses);
	sn_scope_let_go(self, next);
}

void sn_scope_cancel_for(struct sn_thread *self, struct sn_scope *scope, int error, int reason)
{
	struct sn_scope *work = NULL;

	if (set_error(scope, error, reason))
		visit(self, scope, &work, true);
	while (work)
		cancel_next(self, &work, reason, true);
}

/* ---- a deadline has passed ---- */

static int visit_expired(void *arg)
{
	struct sn_thread *self = sn_runtime_enter();
	struct sn_scope *scope = arg, *work = NULL;

	visit(self, scope, &work, true);
	sn_scope_give_up(self, scope, &scope->running);
	while (work)
		cancel_next(self, &work, -ETIMEDOUT, true);
	sn_runtime_leave();
	return 0;
}

static int cancel_rest(void *arg)
{
	struct sn_thread *self = sn_runtime_enter();
	struct sn_scope *work = arg;

	while (work)
		cancel_next(self, &work, -ETIMEDOUT, true);
	sn_runtime_leave();
	return 0;
}

/* Whether the thread need not visit them itself. */
static bool hand_over(struct sn_thread *self, sn_fn *fn, struct sn_scope *scope)
{
	const struct sn_task_attr attr = SN_TASK_ATTR_INIT(.name = "deadline of a scope");
	struct sn_task *task;
	int err;

	if (!self)
		return false;
	task = sn_task_new(self, fn, scope, &attr, (const void *)fn, &err);
	if (task)
		sn_task_launch(self, task);
	return task != NULL;
}

/* How many tasks and watches there are to visit in a scope, and a few: a hint. */
static uint32_t visits_of(struct sn_scope *scope)
{
	return atomic_load_explicit(&scope->running, memory_order_relaxed) +
	       atomic_load_explicit(&scope->active, memory_order_relaxed);
}

void sn_scope_expire(struct sn_thread *self, struct sn_scope *scope)
{
	uint32_t visits = visits_of(scope);
	struct sn_scope *work = NULL;

	if (set_error(scope, -ETIMEDOUT, -ETIMEDOUT)) {
		if (visits > SN_WAKE_BATCH && hand_over(self, visit_expired, scope))
			return;
		visit(self, scope, &work, false);
	}
	sn_scope_give_up(self, scope, &scope->running);
	while (work) {
		visits += visits_of(work);
		if (visits > SN_WAKE_BATCH && hand_over(self, cancel_rest, work))
			return;
		cancel_next(self, &work, -ETIMEDOUT, false);
	}
}

/* ---- cancelling by a call ---- */

/* self: as for sn_scope_cancel_for(). */
static int cancel_handle(struct sn_thread *self, const sn_scope *handle)
{
	struct sn_scope *scope;
	int err = sn_scope_hold_handle(self, &scope, handle, false);

	if (err < 0)
		return err;
	sn_scope_cancel_for(self, scope, -ECANCELED, -ECANCELED);
	sn_scope_let_go(self, scope);
	return 0;
}

int sn_scope_cancel(sn_scope *scope)
{
	struct sn_thread *self;
	int err;

	if (!scope)
		return -EINVAL;
	self = sn_runtime_enter();
	if (self) {
		err = cancel_handle(self, scope);
		sn_runtime_leave();
		return err;
	}
	err = sn_foreign_enter();
	if (err < 0)
		return err;
	err = cancel_handle(NULL, scope);
	sn_foreign_leave();
	return err;
}
