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
 * marker in the list. There, a task that cancels by a call may also lend its processor (waits.h).
 * If the run ends at that point, the task ends in the middle of its visit, as do the tasks that it
 * has not visited.
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

static void take(struct sn_task *task, struct sn_queue *taken)
{
	if (sn_cancel_take(task))
		sn_queue_put(taken, task);
}

/* Called with the lock, which it releases from time to time, and to wake tasks, because that may
 * take long. Tasks that it has not woken are left in taken. */
static void visit_tasks(struct sn_thread *self, struct sn_scope *scope, struct sn_queue *taken,
			bool pauses)
{
	struct sn_link marker;
	int visits = 0;

	sn_link_add(&scope->tasks, &marker);
	sn_link_move_after(&marker, &scope->tasks);
	while (marker.next != &scope->tasks) {
		struct sn_task *task = sn_container_of(marker.next, struct sn_task, in_scope);

		sn_link_move_after(&marker, &task->in_scope);
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

/* Called by the thread that has set the error. Appends the scopes inside to the list of work. */
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
	told = sn_scope_tell(self, scope);
	sn_unlock(&scope->lock);
	sn_ready_each(self, &taken);
	sn_ready_each(self, &told);
}

static void cancel(struct sn_thread *self, struct sn_scope *scope, int error, int reason,
		   bool pauses)
{
	struct sn_scope *work = NULL, *next = scope;
	bool first = true;

	sn_scope_hold(scope);
	do {
		int none = 0;

		if (atomic_compare_exchange_strong(&next->error, &none, error)) {
			atomic_store_explicit(&next->cancel.reason, reason, memory_order_release);
			visit(self, next, &work, pauses);
		}
		sn_scope_let_go(self, next);
		if (first)
			error = reason;
		first = false;
		next = work;
		if (work)
			work = work->work_next;
	} while (next);
}

void sn_scope_cancel_for(struct sn_thread *self, struct sn_scope *scope, int error, int reason)
{
	cancel(self, scope, error, reason, false);
}

/* self: as for sn_scope_cancel_for(). */
static int cancel_handle(struct sn_thread *self, const sn_scope *handle)
{
	struct sn_scope *scope;
	int err = sn_scope_hold_handle(self, &scope, handle, false);

	if (err < 0)
		return err;
	cancel(self, scope, -ECANCELED, -ECANCELED, true);
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
