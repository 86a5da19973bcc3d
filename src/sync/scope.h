/* SPDX-License-Identifier: MIT */
/*
 * Scopes: what their files share.
 *
 * scope.c opens and closes scopes and starts tasks in them, scope_cancel.c cancels them,
 * scope_deadline.c cancels them at a given time, scope_watch.c reports their end to selects,
 * scope_memory.c keeps their memory, and scope_current.c has what a task can do in one.
 *
 * Life. Two counters keep a scope alive: running counts the tasks, and the parties to the deadline
 * (scope_deadline.c); active counts threads that cancel or watch it. The opener has a count of
 * each. Closing drops the opener's count of running and waits until the last task has ended; until
 * then the deadline and the scope around can cancel those tasks. Then the opener stops the timer
 * and takes the scope out of the list of the scope around, drops its count of active, and waits for
 * the threads that still have one. The thread that takes a counter to zero wakes the opener, which
 * in the end frees the scope. A scope therefore needs no owner except its opener, and no reference
 * to a freed scope is held.
 *
 * Handles (base/handle.h). The memory of scopes is only ever used for scopes: a caller with a stale
 * handle finds another generation. Before it relies on the generation, the caller takes a count,
 * which is possible only while the counter is not zero, that is, while the scope is not being
 * closed. Then it compares the generation, which cannot change while the count is held. If it is
 * another scope's, the caller gives the count back. A scope that was open when its run ended has
 * the number of that run, which no longer is the present one; its memory is lost.
 *
 * Order of locks: the outer scope's, the inner scope's, then the lock of a task (task/cancel.h).
 *
 * Who may write what:
 *   cancel.reason, error   the thread that cancels first, once each
 *   running, active        any holder of one
 *   deadline, close_by     under the lock; deadline is read by tasks inside at any time
 *   expired                the firing of the timer, under its heap's lock
 *   tasks, inner, watches  under the lock
 *   values                 the opener; a node is never changed, so others may read them at any time
 *   closer                 the opener, before it drops a count
 *   generation             the opener, before it frees the scope
 *   work_next              the thread that cancels the scope around, once
 *   next_free              under the lock of the list that the free scope is in
 *   the rest               the opener, in sn_scope_open()
 *
 * Rejected: a reference count and no join (Go's contexts): tasks outlive what they borrow. A lock
 * for the whole tree: every start and end of a task in the program would contend for it.
 */
#ifndef SENNIT_SYNC_SCOPE_H
#define SENNIT_SYNC_SCOPE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sennit/scope.h>

#include "base/handle.h"
#include "sched/runtime.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/timer.h"
#include "task/cancel.h"
#include "task/waiter.h"
#include "wait/lock.h"

struct sn_scope_value_node;
struct sn_scope_watch;

struct sn_scope {
	_Alignas(SN_HANDLE_ALIGN) struct sn_cancel
		cancel; /* first: what a task works in is task->cancel */
	_Atomic uint32_t generation;
	_Atomic uint32_t run; /* sn_runtime.run when it was opened */
	_Atomic int error;    /* what close returns */
	_Atomic uint32_t running, active;
	struct sn_waiter *closer;
	struct sn_task *opener;
	uint32_t masks;         /* the opener's cancel_masks outside the scope */
	struct sn_scope *outer; /* the scope in which the opener worked; NULL: none */
	bool linked;            /* in outer's list: is cancelled with it */

	struct sn_timer timer;
	struct sn_deferred expiry;
	_Atomic bool expired;     /* the timer has fired: the cancellation is on its way */
	_Atomic int64_t deadline; /* SN_NO_DEADLINE: none */
	int64_t close_by;         /* the deadline cannot be later; SN_NO_DEADLINE: any */

	struct sn_lock lock;
	struct sn_link tasks;
	struct sn_link inner;       /* scopes opened in this one */
	struct sn_link among_inner; /* this one, in outer's list */
	struct sn_scope_watch *watches;
	struct sn_scope_value_node *_Atomic values;
	struct sn_scope *work_next;
	struct sn_scope *next_free;
};

/* ---- memory ---- */

/* Allocates a scope, or returns NULL if there is no memory. Only the generation, the lock, and zero
 * counts are valid. sn_scope_dealloc() takes it back. */
struct sn_scope *sn_scope_alloc(struct sn_thread *self);
void sn_scope_dealloc(struct sn_scope *scope);

/* ---- handles ---- */

static inline sn_scope *sn_scope_handle(struct sn_scope *scope)
{
	return sn_handle_make(scope,
			      atomic_load_explicit(&scope->generation, memory_order_relaxed));
}

static inline bool sn_scope_fits(struct sn_scope *scope, const sn_scope *handle)
{
	return sn_handle_fits(handle,
			      atomic_load_explicit(&scope->generation, memory_order_relaxed)) &&
	       atomic_load_explicit(&scope->run, memory_order_relaxed) ==
		       atomic_load_explicit(&sn_runtime.run, memory_order_relaxed);
}

/* ---- lists ---- */

static inline void sn_link_init(struct sn_link *list)
{
	list->next = list->prev = list;
}

static inline void sn_link_add(struct sn_link *list, struct sn_link *link)
{
	link->prev = list->prev;
	link->next = list;
	list->prev->next = link;
	list->prev = link;
}

static inline void sn_link_remove(struct sn_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

static inline void sn_link_move_after(struct sn_link *link, struct sn_link *where)
{
	sn_link_remove(link);
	link->prev = where;
	link->next = where->next;
	where->next->prev = link;
	where->next = link;
}

/* ---- counting ---- */

static inline struct sn_scope *sn_scope_of(struct sn_task *task)
{
	return (struct sn_scope *)task->cancel;
}

static inline void sn_scope_hold(struct sn_scope *scope)
{
	atomic_fetch_add_explicit(&scope->active, 1, memory_order_relaxed);
}

/* Drops one of the count; the last one wakes the opener. The scope may be gone afterwards. self: as
 * for sn_waiter_wake(). */
static inline void sn_scope_give_up(struct sn_thread *self, struct sn_scope *scope,
				    _Atomic uint32_t *count)
{
	/* Acquire: the last one sees closer. Release: what was done with the scope comes before it
	 * is freed. */
	if (atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) != 1)
		return;
	sn_waiter_claim(scope->closer);
	sn_waiter_wake(self, scope->closer, 0, SN_READY_LAST);
}

static inline void sn_scope_let_go(struct sn_thread *self, struct sn_scope *scope)
{
	sn_scope_give_up(self, scope, &scope->active);
}

/* Adds one to a count that is not zero; returns false if it is zero. */
static inline bool sn_scope_take_count(_Atomic uint32_t *count)
{
	uint32_t n = atomic_load_explicit(count, memory_order_relaxed);

	/* Acquire: sees what the opener wrote before it set the count to 1. */
	do {
		if (n == 0)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(count, &n, n + 1, memory_order_acquire,
							memory_order_relaxed));
	return true;
}

/* Finds the scope of a handle, and adds one to running or to active, which the caller has to give
 * up. Returns 0; -EINVAL for NULL; -ESRCH when the scope is no longer open. */
static inline int sn_scope_hold_handle(struct sn_thread *self, struct sn_scope **out,
				       const sn_scope *handle, bool running)
{
	struct sn_scope *scope = *out = sn_handle_object(handle);
	_Atomic uint32_t *count;

	if (!scope)
		return -EINVAL;
	/* First, because a scope of an earlier run has counts forever. */
	if (!sn_scope_fits(scope, handle))
		return -ESRCH;
	count = running ? &scope->running : &scope->active;
	if (!sn_scope_take_count(count))
		return -ESRCH;
	if (sn_likely(sn_scope_fits(scope, handle)))
		return 0;
	sn_scope_give_up(self, scope, count);
	return -ESRCH;
}

/* ---- tasks ---- */

/*
 * sn_task_new() for a task of the scope. From now on the scope counts the task and cancels it, so
 * the caller must make it runnable sooner or later. Returns NULL with *err also when the scope is
 * cancelled or not open.
 */
struct sn_task *sn_scope_task_new(struct sn_thread *self, const sn_scope *handle, sn_fn *fn,
				  void *arg, const struct sn_task_attr *attr, const void *at,
				  int *err);

/* ---- cancelling ---- */

/*
 * Cancels the scope, unless it is cancelled already. error: what sn_scope_close() returns. reason:
 * what the waits return. The caller holds a count. self: NULL on a plain thread, which has entered
 * by sn_foreign_enter(). With many tasks it may not return (sn_wakes_pause()), so what the caller
 * has to do for others is done.
 */
void sn_scope_cancel_for(struct sn_thread *self, struct sn_scope *scope, int error, int reason);

/* The deadline has passed: cancels the scope, and gives up the count of running that the firing has
 * taken. Called by the thread that has fired the timer, without a lock; self: NULL when that has no
 * processor. The error is set when it returns; of many tasks some may still be waiting then. */
void sn_scope_expire(struct sn_thread *self, struct sn_scope *scope);

/* ---- deadlines ---- */

/* Called by the opener of a new scope. Returns 0 or a negative errno. */
int sn_scope_begin_deadline(struct sn_thread *self, struct sn_scope *scope, int64_t deadline);

/* The scope is closing, and is cancelled at this deadline at the latest. Called by the opener after
 * it has dropped its count of running, and before sn_scope_end_deadline(). */
void sn_scope_close_by(struct sn_thread *self, struct sn_scope *scope, int64_t deadline);

/* Called by the opener once running is 0: afterwards the deadline has no effect any more. */
void sn_scope_end_deadline(struct sn_scope *scope);

/* ---- watching: scope_watch.c ---- */

/* Lies on the stack of a task that waits for the end of a scope. Once the watch has begun, its
 * fields are read and written under the scope's lock. */
struct sn_scope_watch {
	struct sn_scope *scope;
	struct sn_scope_watch *next, *prev;
	struct sn_waiter *waiter; /* not exclusive; NULL: this is a marker of sn_scope_tell() */
	int result;
	bool listed;
	bool told; /* the end of the scope has woken the waiter */
};

/* Returns whether the scope has ended, that is, has no task or is cancelled; then *result is that
 * of SN_CASE_SCOPE (sennit/select.h). The handle may be stale, but not NULL. */
bool sn_scope_over(struct sn_thread *self, const sn_scope *handle, int *result);

/* Begins to wait for the end of the scope. Returns false if it has ended already. Otherwise the
 * watch holds a count of the scope, and the end of the scope wakes the waiter with 0, unless
 * something else has woken it first. */
bool sn_scope_watch_begin(struct sn_thread *self, struct sn_scope_watch *watch,
			  struct sn_waiter *waiter, const sn_scope *handle);

/* Ends a wait that was begun, after its waiter was woken. Returns true if the scope's end has woken
 * it; then result is valid. */
bool sn_scope_watch_end(struct sn_thread *self, struct sn_scope_watch *watch);

/* How many tasks or watches are visited before the scope's lock is released for a moment: at about
 * 100 ns each, 6 us. */
#define SN_SCOPE_VISITS 64

/* The scope has ended: notifies those that watch it now. The lock is held; it is released from time
 * to time, and the scope must stay alive then; pauses: the processor is lent there (waits.h).
 * Returns the tasks that are still to be made runnable when the lock has been released. */
struct sn_queue sn_scope_tell(struct sn_thread *self, struct sn_scope *scope, bool pauses);

/* ---- values ---- */

/* Frees the values of a scope that is being closed. */
void sn_scope_free_values(struct sn_scope *scope);

#endif
