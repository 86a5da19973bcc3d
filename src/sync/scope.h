/* SPDX-License-Identifier: MIT */
/*
 * Scopes: what their files share.
 *
 * scope.c opens and closes them and starts tasks in them, scope_cancel.c cancels them,
 * scope_deadline.c does so at a given time, scope_watch.c tells others, scope_memory.c has their
 * memory, scope_inside.c what a task can ask in one.
 *
 * Life. running counts the tasks, and the parties to the deadline (scope_deadline.c); active counts
 * those that cancel or watch; the opener has one of each. Closing gives up the first and waits
 * until the last task has ended: until then the deadline and the scope around can cancel what it
 * waits for. Only then the opener takes the scope out of their reach, gives up the second, and
 * waits for those that came late. The thread that takes a count to zero wakes the opener, which
 * frees the scope at last. So a scope needs no owner but its opener, and no reference to a scope
 * that is gone is held.
 *
 * Handles (base/handle.h). The memory of scopes stays theirs: a caller with the handle of a scope
 * that was closed finds another generation. Counting makes sure: it takes a count only while there
 * is one, so of a scope that is not being closed, and then looks at the generation, which stays as
 * long as the count is held. One that was taken of a successor is given back, as if it had been its
 * own. A scope that was open when its run ended is known by the number of that run; its memory is
 * lost.
 *
 * Locks nest from the outer scope to the inner, and then the lock of a task in task/cancel.h.
 *
 * Who may write what:
 *   cancel.reason, error   the thread that cancels first, once each
 *   running, active        any holder of one
 *   deadline, close_by     under the lock; deadline is read by tasks inside at any time
 *   expired                the firing of the timer, under its heap's lock
 *   tasks, inner, watches  under the lock
 *   values                 the opener; a node is never changed, so others may read them at any time
 *   closer                 the opener, before it gives up a count
 *   generation             the opener, before it frees the scope
 *   work_next              the thread that cancels the scope around, once
 *   next_free              under the lock of the list that the free scope is in
 *   the rest               the opener, in sn_scope_open()
 *
 * Rejected: a count of references and no join (Go's contexts): tasks outlive what they borrow. A
 * lock for the whole tree: every start and end of a task in the program would meet in it.
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
#include "sched/schedule.h"
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
	_Atomic uint32_t run; /* sn_runtime.run of when it was opened */
	_Atomic int error;    /* what close returns */
	_Atomic uint32_t running, active;
	struct sn_waiter *closer;
	struct sn_task *opener;
	uint32_t masks;         /* the opener's, of outside */
	struct sn_scope *outer; /* what the opener worked in; NULL: nothing */
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

/* A scope whose fields are zero, except for its generation; NULL: no memory. And its release. */
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

/* The scope may be gone afterwards. self: as for sn_waiter_wake(). */
static inline void sn_scope_give_up(struct sn_thread *self, struct sn_scope *scope,
				    _Atomic uint32_t *count)
{
	/* Acquire: closer. Release: what was done with the scope comes before it is freed. */
	if (atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) != 1)
		return;
	sn_waiter_claim(scope->closer);
	sn_waiter_wake(self, scope->closer, 0, SN_READY_LAST);
}

static inline void sn_scope_let_go(struct sn_thread *self, struct sn_scope *scope)
{
	sn_scope_give_up(self, scope, &scope->active);
}

/* Takes one of a count, while there is one: false when there is none. */
static inline bool sn_scope_take_count(_Atomic uint32_t *count)
{
	uint32_t n = atomic_load_explicit(count, memory_order_relaxed);

	/* Acquire: what the opener wrote before it had the first. */
	do {
		if (n == 0)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(count, &n, n + 1, memory_order_acquire,
							memory_order_relaxed));
	return true;
}

/* The scope of a handle, with one of running taken, or of active. 0; -EINVAL for NULL; -ESRCH when
 * it is no longer open. */
static inline int sn_scope_hold_handle(struct sn_thread *self, struct sn_scope **out,
				       const sn_scope *handle, bool running)
{
	struct sn_scope *scope = *out = sn_handle_object(handle);
	_Atomic uint32_t *count;

	if (!scope)
		return -EINVAL;
	/* First, as a scope of a former run has counts forever. */
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
 * sn_task_new() for a task of the scope, which the caller then has to make runnable, sooner or
 * later: it counts as one of the scope's from now on, and is cancelled with it. NULL with *err also
 * when the scope is cancelled or not open.
 */
struct sn_task *sn_scope_task_new(struct sn_thread *self, const sn_scope *handle, sn_fn *fn,
				  void *arg, const struct sn_task_attr *attr, const void *at,
				  int *err);

/* ---- cancelling ---- */

/*
 * Cancels the scope, unless it is cancelled already. error: what close is to return. reason: what
 * the waits return. The caller holds a count. self: NULL on a thread of the program's own, which is
 * inside by sn_foreign_enter().
 */
void sn_scope_cancel_for(struct sn_thread *self, struct sn_scope *scope, int error, int reason);

/* ---- deadlines ---- */

/* At the beginning of a scope. 0 or a negative errno. */
int sn_scope_begin_deadline(struct sn_thread *self, struct sn_scope *scope, int64_t deadline);

/* The scope is closing, and its tasks have to end by then at the latest. By the opener, which has
 * given up its part of running, before sn_scope_end_deadline(). */
void sn_scope_close_by(struct sn_thread *self, struct sn_scope *scope, int64_t deadline);

/* By the opener, once running is 0: afterwards nothing comes from the deadline any more. */
void sn_scope_end_deadline(struct sn_scope *scope);

/* ---- watching: scope_watch.c ---- */

/* On the stack of a task that waits for the end of a scope. Under the scope's lock, once begun. */
struct sn_scope_watch {
	struct sn_scope *scope;
	struct sn_scope_watch *next, *prev;
	struct sn_waiter *waiter; /* not an exclusive one; NULL: a marker of sn_scope_tell() */
	int result;
	bool listed;
	bool told; /* the end of the scope has ended the waiter */
};

/* Whether the scope has ended, that is, has no task or is cancelled; then *result, as of
 * SN_CASE_SCOPE (sennit/select.h). Any handle but NULL. */
bool sn_scope_over(struct sn_thread *self, const sn_scope *handle, int *result);

/* Begins to wait for that: false if the scope has ended. Otherwise the watch holds a count of the
 * scope, and the scope's end ends the waiter with 0, unless something else has. */
bool sn_scope_watch_begin(struct sn_thread *self, struct sn_scope_watch *watch,
			  struct sn_waiter *waiter, const sn_scope *handle);

/* Ends a wait that was begun, once the waiter was ended. True when the scope's end has ended it:
 * then result is valid. */
bool sn_scope_watch_end(struct sn_thread *self, struct sn_scope_watch *watch);

/* Tasks, or watches, visited without leaving the scope's lock: at some 100 ns each, about 6 us. */
#define SN_SCOPE_VISITS 64

/* The scope has ended: tells those that watch it now. The lock is held; it is left from time to
 * time, after which the scope must still be there. Returns what remains to be made runnable after
 * the lock. */
struct sn_queue sn_scope_tell(struct sn_thread *self, struct sn_scope *scope);

/* ---- values ---- */

/* Frees those of a scope that is being closed. */
void sn_scope_free_values(struct sn_scope *scope);

#endif
