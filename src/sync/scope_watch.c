/* SPDX-License-Identifier: MIT */
/*
 * Waiting for the end of a scope without closing it: a case of a select (sennit/select.h).
 *
 * A scope has ended when it has no task, or is cancelled. The last task, or the thread that
 * cancels, then notifies the watches in the list, under the scope's lock. It releases the lock
 * after every SN_SCOPE_VISITS watches, and leaves a marker in the list. A task checks under the
 * same lock whether the scope has ended before it enters its watch into the list, so it misses
 * nothing. The watch holds a count of active, like a thread that cancels: the scope stays alive
 * until the watch has left, even if the opener closes the scope in between. The opener does not
 * wait long for that, because closing first waits for the last task, which notifies the watches.
 *
 * While the scope is being cancelled its list of tasks has a marker in it, so it may not look empty
 * when the last task leaves. The thread that cancels notifies the watches itself.
 */
#include "sync/scope.h"

#include "sched/ready.h"
#include "sync/waits.h"

/* The lock is held. */
static bool over(struct sn_scope *scope, int *result)
{
	/* Acquire: error was written before reason. */
	const bool cancelled =
		atomic_load_explicit(&scope->cancel.reason, memory_order_acquire) < 0;

	*result = cancelled ? atomic_load_explicit(&scope->error, memory_order_relaxed) : 0;
	return cancelled || scope->tasks.next == &scope->tasks;
}

bool sn_scope_over(struct sn_thread *self, const sn_scope *handle, int *result)
{
	struct sn_scope *scope;
	bool is_over;

	if (sn_scope_hold_handle(self, &scope, handle, false) < 0) {
		*result = -ESRCH;
		return true;
	}
	sn_lock(&scope->lock);
	is_over = over(scope, result);
	sn_unlock(&scope->lock);
	if (!is_over && self->task->scope == &scope->cancel) {
		*result = -EDEADLK;
		is_over = true;
	}
	sn_scope_let_go(self, scope);
	return is_over;
}

/* Puts the watch into the list after prev; NULL: as the first. The lock is held. */
static void list_after(struct sn_scope_watch *watch, struct sn_scope_watch *prev)
{
	struct sn_scope_watch **place = prev ? &prev->next : &watch->scope->watches;

	watch->prev = prev;
	watch->next = *place;
	if (watch->next)
		watch->next->prev = watch;
	*place = watch;
	watch->listed = true;
}

bool sn_scope_watch_begin(struct sn_thread *self, struct sn_scope_watch *watch,
			  struct sn_waiter *waiter, const sn_scope *handle)
{
	struct sn_scope *scope;
	bool is_over;

	if (sn_scope_hold_handle(self, &scope, handle, false) < 0)
		return false;
	*watch = (struct sn_scope_watch){.scope = scope, .waiter = waiter};
	sn_lock(&scope->lock);
	is_over = over(scope, &watch->result);
	if (!is_over) {
		list_after(watch, NULL);
	}
	sn_unlock(&scope->lock);
	if (is_over)
		sn_scope_let_go(self, scope);
	return !is_over;
}

static void unlist(struct sn_scope_watch *watch)
{
	if (watch->next)
		watch->next->prev = watch->prev;
	if (watch->prev)
		watch->prev->next = watch->next;
	else
		watch->scope->watches = watch->next;
	watch->listed = false;
}

bool sn_scope_watch_end(struct sn_thread *self, struct sn_scope_watch *watch)
{
	struct sn_scope *scope = watch->scope;

	/* Always with the lock: the thread that notifies this watch may not be done with it. */
	sn_lock(&scope->lock);
	if (watch->listed)
		unlist(watch);
	sn_unlock(&scope->lock);
	sn_scope_let_go(self, scope);
	return watch->told;
}

struct sn_queue sn_scope_tell(struct sn_thread *self, struct sn_scope *scope, bool pauses)
{
	struct sn_scope_watch marker = {.scope = scope}, *watch;
	struct sn_queue ready = {0};
	int result, visits = 0;

	over(scope, &result);
	/* Watches that begin from now on enter before the marker: they may wait for new tasks. */
	list_after(&marker, NULL);
	while ((watch = marker.next) != NULL) {
		struct sn_task *task = NULL;

		unlist(watch->waiter ? watch : &marker);
		if (!watch->waiter) { /* the marker of another thread that notifies */
			list_after(&marker, watch);
		} else if (sn_waiter_claim(watch->waiter)) {
			watch->told = true;
			watch->result = result;
			task = sn_waiter_finish(watch->waiter, 0);
		}
		if (task)
			sn_queue_put(&ready, task);
		if (++visits % SN_SCOPE_VISITS == 0) {
			sn_unlock(&scope->lock);
			sn_ready_each(self, &ready);
			if (pauses)
				sn_wakes_pause(self);
			sn_lock(&scope->lock);
		}
	}
	unlist(&marker);
	return ready;
}
