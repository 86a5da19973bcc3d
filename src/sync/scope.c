/* SPDX-License-Identifier: MIT */
/*
 * Scopes.
 *
 * Life. running counts the tasks; active counts who cancels, which includes a deadline that has
 * fired; the opener has one of each. Closing gives up the first and waits until the last task has
 * ended: until then the deadline and the scope around can cancel what it waits for. Only then it
 * takes the scope out of their reach, gives up the second, and waits for those who came late. Who
 * takes a count to zero wakes the opener, which frees the scope at last. So a scope needs no owner
 * but its opener, and nobody holds a reference to a scope that is gone.
 *
 * Cancelling. error is the first reason, set once. Whoever set it goes through the tasks and the
 * scopes inside, under the lock, and ends their waits (cancel.h). A task is added, and a scope
 * opened inside, under the same lock: each either is found there, or sees the reason (a task before
 * it waits, a scope when it is opened). As only the one who set the reason goes through the lists,
 * there is at most one at a time. He leaves the lock every so many tasks, with a marker in the
 * list, as tasks that begin or end wait for it.
 *
 * The scopes inside are put on a list of work, with a count of their own held, instead of being
 * visited recursively: they may be nested deeper than a stack is large. The list goes through
 * work_next, which only whoever cancels the scope around writes, once.
 *
 * Handles (sched/handle.h). The memory of scopes stays theirs: a caller with the handle of a scope that was
 * closed finds another generation. Counting makes sure: it takes a count only while there is one, so of a
 * scope that is not being closed, and then looks at the generation, which stays as long as the count is
 * held. One that was taken of a successor is given back, as if it had been its own. A scope that was open when its
 * run ended is known by the number of that run; its memory is lost.
 *
 * Locks nest from the outer scope to the inner, and then the lock of a task in cancel.h.
 *
 * Who may write what:
 *   cancel.reason, error   who cancels first, once each
 *   running, active        anyone who holds one
 *   tasks, inner           under the lock
 *   values                 the opener; a node is never changed, so others may read them at any time
 *   closer                 the opener, before it gives up a count
 *   generation             the opener, before it frees the scope
 *   the rest               the opener, in sn_scope_open()
 *
 * Rejected: a count of references and no join (Go's contexts): tasks outlive what they borrow. A
 * lock for the whole tree: every start and end of a task in the program would meet in it.
 */
#include <sennit/scope.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/clock.h>
#include <sennit/collector.h>

#include "sched/cancel.h"
#include "sched/foreign.h"
#include "sched/fork.h"
#include "sched/handle.h"
#include "sched/runtime.h"
#include "sched/schedule.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "sched/timer.h"
#include "sched/waiter.h"
#include "sync/waits.h"
#include "wait/lock.h"

/* Tasks visited without leaving the lock: at some 100 ns each, about 6 us. */
#define VISITS 64

struct value {
	struct value *next;
	const void *key;
	void *value;
};

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
	struct sn_timer timer;  /* the deadline */
	struct sn_deferred expired;

	struct sn_lock lock;
	struct sn_link tasks;
	struct sn_link inner;       /* scopes opened in this one */
	struct sn_link among_inner; /* this one, in outer's list */
	struct value *_Atomic values;
	struct sn_scope *work_next;
	struct sn_scope *next_free;
};

/* ---- memory ---- */

/* Each thread has one of these lists, which it shares with few: who opens and closes scopes all the time seldom
 * meets another. */
#define LISTS 16

/* So many are made at a time. */
#define SCOPES_MADE 16

static struct {
	_Alignas(SN_CACHE_LINE) struct sn_lock lock;
	struct sn_scope *_Atomic free; /* under the lock, but for a look whether there is one */
} lists[LISTS];

static int list_of(struct sn_thread *self)
{
	return (int)((uint32_t)((uintptr_t)self / SN_CACHE_LINE) * 2654435761u >> 28);
}
_Static_assert(LISTS == 1 << (32 - 28), "the hash has as many values as there are lists");

static struct sn_scope *take_free(int list)
{
	struct sn_scope *scope;

	if (!atomic_load_explicit(&lists[list].free, memory_order_relaxed))
		return NULL;
	sn_lock(&lists[list].lock);
	scope = atomic_load_explicit(&lists[list].free, memory_order_relaxed);
	if (scope)
		atomic_store_explicit(&lists[list].free, scope->next_free, memory_order_relaxed);
	sn_unlock(&lists[list].lock);
	return scope;
}

static void put_free(int list, struct sn_scope *scope)
{
	sn_lock(&lists[list].lock);
	scope->next_free = atomic_load_explicit(&lists[list].free, memory_order_relaxed);
	atomic_store_explicit(&lists[list].free, scope, memory_order_relaxed);
	sn_unlock(&lists[list].lock);
}

static sn_noinline struct sn_scope *make_some(int list)
{
	/* Kept in sight of leak checkers. */
	static struct sn_scope *_Atomic all;
	struct sn_scope *made =
		aligned_alloc(_Alignof(struct sn_scope), SCOPES_MADE * sizeof *made);

	if (!made)
		return NULL;
	memset(made, 0, SCOPES_MADE * sizeof *made);
	/* The first is no scope: it is the link to those that were made before. */
	made->next_free = atomic_load(&all);
	while (!atomic_compare_exchange_weak(&all, &made->next_free, made))
		continue;
	for (int i = 2; i < SCOPES_MADE; i++)
		put_free(list, &made[i]);
	return &made[1];
}

/* One that is zeros, but for its generation. */
static struct sn_scope *scope_alloc(struct sn_thread *self)
{
	int own = list_of(self);
	struct sn_scope *scope = take_free(own);

	/* Tasks may open here and close there: what is free anywhere is used before there are more. */
	for (int i = 1; !scope && i < LISTS; i++)
		scope = take_free((own + i) % LISTS);
	return scope ? scope : make_some(own);
}

static void scope_dealloc(struct sn_scope *scope)
{
	uint32_t generation = atomic_load_explicit(&scope->generation, memory_order_relaxed);

	/* Relaxed: who looks at it holds a count, or is told so. */
	atomic_store_explicit(&scope->generation, sn_handle_next(generation), memory_order_relaxed);
	put_free(list_of(sn_thread_self()), scope);
}

void sn_scopes_fork(enum sn_fork_phase phase)
{
	for (int i = 0; i < LISTS; i++)
		sn_fork_lock(&lists[i].lock, phase);
}

static sn_scope *handle_of(struct sn_scope *scope)
{
	return sn_handle_make(scope,
			      atomic_load_explicit(&scope->generation, memory_order_relaxed));
}

static bool fits(struct sn_scope *scope, const sn_scope *handle)
{
	return sn_handle_fits(handle,
			      atomic_load_explicit(&scope->generation, memory_order_relaxed)) &&
	       atomic_load_explicit(&scope->run, memory_order_relaxed) ==
		       atomic_load_explicit(&sn_runtime.run, memory_order_relaxed);
}

/* ---- lists ---- */

static void list_init(struct sn_link *list)
{
	list->next = list->prev = list;
}

static void list_add(struct sn_link *list, struct sn_link *link)
{
	link->prev = list->prev;
	link->next = list;
	list->prev->next = link;
	list->prev = link;
}

static void list_remove(struct sn_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

static void list_move_after(struct sn_link *link, struct sn_link *where)
{
	list_remove(link);
	link->prev = where;
	link->next = where->next;
	where->next->prev = link;
	where->next = link;
}

/* ---- counting ---- */

static struct sn_scope *scope_of(struct sn_task *task)
{
	return (struct sn_scope *)task->cancel;
}

static void hold(struct sn_scope *scope)
{
	atomic_fetch_add_explicit(&scope->active, 1, memory_order_relaxed);
}

/* The scope may be gone afterwards. self: as for sn_waiter_wake(). */
static void give_up(struct sn_thread *self, struct sn_scope *scope, _Atomic uint32_t *count)
{
	/* Acquire: closer. Release: what was done with the scope comes before it is freed. */
	if (atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) != 1)
		return;
	sn_waiter_claim(scope->closer);
	sn_waiter_wake(self, scope->closer, 0, SN_READY_LAST);
}

static void let_go(struct sn_thread *self, struct sn_scope *scope)
{
	give_up(self, scope, &scope->active);
}

/* Takes one of a count, while there is one: false when there is none. */
static bool take_count(_Atomic uint32_t *count)
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

/* The scope of a handle, with one of running taken, or of active: 0; -EINVAL for NULL, -ESRCH when it is not open any
 * more. */
static int hold_handle(struct sn_thread *self, struct sn_scope **out, const sn_scope *handle,
		       bool running)
{
	struct sn_scope *scope = *out = sn_handle_object(handle);
	_Atomic uint32_t *count;

	if (!scope)
		return -EINVAL;
	/* First, as a scope of a former run has counts for ever. */
	if (!fits(scope, handle))
		return -ESRCH;
	count = running ? &scope->running : &scope->active;
	if (!take_count(count))
		return -ESRCH;
	if (sn_likely(fits(scope, handle)))
		return 0;
	give_up(self, scope, count);
	return -ESRCH;
}

/* The opener gives up its own, and waits until it was the last. Parks. */
static void await_last(struct sn_scope *scope, _Atomic uint32_t *count)
{
	struct sn_waiter waiter;

	sn_waiter_init(&waiter, sn_thread_self(), SN_NO_DEADLINE,
		       SN_WAITER_SHARED | SN_WAITER_UNCANCELLABLE);
	scope->closer = &waiter;
	sn_task_waits(waiter.task, "the tasks of a scope", handle_of(scope));
	if (atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) != 1)
		sn_waiter_park(&waiter, NULL);
}

/* ---- cancelling ---- */

static void make_runnable(struct sn_thread *self, struct sn_queue *taken)
{
	struct sn_task *task;

	while ((task = sn_queue_get(taken)) != NULL)
		sn_ready(self, task, SN_READY_LAST);
}

static void take(struct sn_task *task, struct sn_queue *taken)
{
	if (sn_cancel_take(task))
		sn_queue_put(taken, task);
}

/* Under the lock, which it leaves from time to time; not with tasks taken, as waking may take long. */
static void visit_tasks(struct sn_thread *self, struct sn_scope *scope, struct sn_queue *taken)
{
	struct sn_link marker;
	int visits = 0;

	list_add(&scope->tasks, &marker);
	list_move_after(&marker, &scope->tasks);
	while (marker.next != &scope->tasks) {
		struct sn_task *task = sn_container_of(marker.next, struct sn_task, in_scope);

		list_move_after(&marker, &task->in_scope);
		take(task, taken);
		if (++visits % VISITS == 0) {
			sn_unlock(&scope->lock);
			make_runnable(self, taken);
			sn_lock(&scope->lock);
		}
	}
	list_remove(&marker);
}

/* Whoever has set the error. Appends the scopes inside to the work. */
static void visit(struct sn_thread *self, struct sn_scope *scope, struct sn_scope **work)
{
	struct sn_queue taken = {0};

	sn_lock(&scope->lock);
	visit_tasks(self, scope, &taken);
	take(scope->opener, &taken);
	for (struct sn_link *link = scope->inner.next; link != &scope->inner; link = link->next) {
		struct sn_scope *inner = sn_container_of(link, struct sn_scope, among_inner);

		hold(inner);
		inner->work_next = *work;
		*work = inner;
	}
	sn_unlock(&scope->lock);
	make_runnable(self, &taken);
}

/*
 * error: what close is to return. reason: what the waits return. The caller holds a count. self:
 * NULL on a thread of the program's own, which is inside by sn_foreign_enter().
 */
static void cancel(struct sn_thread *self, struct sn_scope *scope, int error, int reason)
{
	struct sn_scope *work = NULL, *next = scope;
	bool first = true;

	hold(scope);
	do {
		int none = 0;

		if (atomic_compare_exchange_strong(&next->error, &none, error)) {
			atomic_store_explicit(&next->cancel.reason, reason, memory_order_release);
			visit(self, next, &work);
		}
		let_go(self, next);
		if (first)
			error = reason;
		first = false;
		next = work;
		if (work)
			work = work->work_next;
	} while (next);
}

static void expire(struct sn_thread *self, struct sn_deferred *deferred)
{
	struct sn_scope *scope = sn_container_of(deferred, struct sn_scope, expired);

	cancel(self, scope, -ETIMEDOUT, -ETIMEDOUT);
	let_go(self, scope);
}

static struct sn_task *deadline_fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired)
{
	struct sn_scope *scope = sn_container_of(timer, struct sn_scope, timer);

	(void)now;
	hold(scope);
	fired->later = &scope->expired;
	return NULL;
}

/* self: as for cancel(). */
static int cancel_handle(struct sn_thread *self, const sn_scope *handle)
{
	struct sn_scope *scope;
	int err = hold_handle(self, &scope, handle, false);

	if (err < 0)
		return err;
	cancel(self, scope, -ECANCELED, -ECANCELED);
	let_go(self, scope);
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

/* ---- opening and closing ---- */

/* 0, or why the scope around is cancelled. */
static int link_to_outer(struct sn_scope *scope)
{
	struct sn_scope *outer = scope->outer;
	int reason;

	sn_lock(&outer->lock);
	reason = atomic_load(&outer->cancel.reason);
	if (reason == 0)
		list_add(&outer->inner, &scope->among_inner);
	sn_unlock(&outer->lock);
	return reason;
}

static void unlink_from_outer(struct sn_scope *scope)
{
	sn_lock(&scope->outer->lock);
	list_remove(&scope->among_inner);
	sn_unlock(&scope->outer->lock);
}

static void work_in(struct sn_task *task, struct sn_scope *scope, uint32_t masks)
{
	task->cancel = scope ? &scope->cancel : NULL;
	task->cancel_masks = masks;
}

static void free_scope(struct sn_scope *scope)
{
	struct value *value = atomic_load_explicit(&scope->values, memory_order_relaxed);

	while (value) {
		struct value *next = value->next;

		sn_collector_free(value);
		value = next;
	}
	scope_dealloc(scope);
}

/* In its opener, which works in it. Parks. */
static int scope_close(struct sn_scope *scope)
{
	struct sn_task *me = scope->opener;
	int error;

	await_last(scope, &scope->running);
	sn_timer_stop(&scope->timer);
	if (scope->linked)
		unlink_from_outer(scope);
	await_last(scope, &scope->active);
	/* What was masked in the scope and not unmasked stays so. */
	work_in(me, scope->outer, scope->masks + me->cancel_masks);
	error = atomic_load_explicit(&scope->error, memory_order_relaxed);
	free_scope(scope);
	return error;
}

/* The task's function has returned. */
static void scope_task_ended(struct sn_task *task)
{
	struct sn_scope *home = (struct sn_scope *)task->home, *open;
	struct sn_thread *self;

	while ((open = scope_of(task)) != home) {
		if (SENNIT_DEBUG)
			sn_fatal("task %llu \"%s\" has ended without sn_scope_close()",
				 (unsigned long long)sn_task_id(task), sn_task_name(task));
		scope_close(open);
	}
	if (!home)
		return;
	self = sn_thread_self();
	if (task->result < 0)
		cancel(self, home, task->result, -ECANCELED);
	sn_lock(&home->lock);
	list_remove(&task->in_scope);
	sn_unlock(&home->lock);
	task->cancel = NULL;
	give_up(self, home, &home->running);
}

static int scope_open(struct sn_thread *self, struct sn_scope **out, int64_t deadline)
{
	struct sn_task *me = self->task;
	struct sn_scope *scope = scope_alloc(self);
	int err = 0;

	if (!scope)
		return -ENOMEM;
	/* What was here before. Its counts are 0, and its timer is stopped. */
	atomic_store_explicit(&scope->cancel.reason, 0, memory_order_relaxed);
	atomic_store_explicit(&scope->error, 0, memory_order_relaxed);
	atomic_store_explicit(&scope->values, NULL, memory_order_relaxed);
	atomic_store_explicit(&scope->run, atomic_load(&sn_runtime.run), memory_order_relaxed);
	scope->opener = me;
	scope->masks = me->cancel_masks;
	scope->outer = scope_of(me);
	scope->linked = scope->outer && !scope->masks;
	list_init(&scope->tasks);
	list_init(&scope->inner);
	/* Release: who takes a count with an old handle sees the rest; see take_count(). */
	atomic_store_explicit(&scope->running, 1, memory_order_release);
	atomic_store_explicit(&scope->active, 1, memory_order_release);
	if (scope->linked)
		err = link_to_outer(scope);
	if (err < 0) {
		await_last(scope, &scope->running);
		await_last(scope, &scope->active);
		scope_dealloc(scope);
		return err;
	}
	work_in(me, scope, 0);
	me->on_end = scope_task_ended;
	if (deadline) {
		scope->timer.fire = deadline_fire;
		scope->expired.run = expire;
		err = sn_timer_start(self, &scope->timer, deadline);
	}
	if (err < 0) {
		scope_close(scope);
		return err;
	}
	*out = handle_of(scope);
	return 0;
}

int sn_scope_open(sn_scope **scope, int64_t deadline)
{
	struct sn_thread *self;
	int err;

	if (!scope)
		return -EINVAL;
	self = sn_runtime_enter();
	if (!self)
		return -ENOTSUP;
	err = scope_open(self, scope, deadline);
	sn_runtime_leave();
	return err;
}

int sn_scope_close(sn_scope *handle)
{
	struct sn_scope *scope = sn_handle_object(handle);
	struct sn_thread *self = sn_runtime_enter();
	int err = -EINVAL;

	if (!self)
		return -ENOTSUP;
	if (!scope)
		err = 0;
	else if (scope_of(self->task) == scope && scope->opener == self->task &&
		 fits(scope, handle))
		err = scope_close(scope);
	else
		SN_MISUSE("sn_scope_close(): not the scope that this task has opened last");
	sn_runtime_leave();
	return err;
}

/* ---- tasks ---- */

static int scope_spawn(struct sn_thread *self, const sn_scope *handle, sn_fn *fn, void *arg,
		       const struct sn_task_attr *attr, const void *at)
{
	struct sn_scope *scope;
	struct sn_task *task;
	int err = hold_handle(self, &scope, handle, true);

	if (err < 0)
		return err;
	err = atomic_load_explicit(&scope->cancel.reason, memory_order_acquire);
	task = err < 0 ? NULL : sn_task_new(self, fn, arg, attr, at, &err);
	if (!task) {
		give_up(self, scope, &scope->running);
		return err;
	}
	/* The count is the task's from now on. */
	task->cancel = task->home = &scope->cancel;
	task->on_end = scope_task_ended;
	sn_lock(&scope->lock);
	list_add(&scope->tasks, &task->in_scope);
	sn_unlock(&scope->lock);
	/* Cancelled meanwhile: the task is started all the same, and finds out for itself. So an
	 * argument that was moved into it is not lost. */
	sn_task_launch(self, task);
	return 0;
}

/* at: for reports, where the program called. */
static inline int scope_spawn_from(sn_scope *scope, sn_fn *fn, void *arg,
				   const struct sn_task_attr *attr, const void *at)
{
	struct sn_thread *self = sn_runtime_enter_for("sn_scope_spawn");
	int err;

	if (self) {
		err = scope_spawn(self, scope, fn, arg, attr, at);
		sn_runtime_leave();
		return err;
	}
	err = sn_foreign_enter();
	if (err < 0)
		return err;
	err = scope_spawn(NULL, scope, fn, arg, attr, at);
	sn_foreign_leave();
	return err;
}

int sn_scope_spawn(sn_scope *scope, sn_fn *fn, void *arg, const struct sn_task_attr *attr)
{
	return scope_spawn_from(scope, fn, arg, attr, __builtin_return_address(0));
}

int sn_scope_go(sn_scope *scope, sn_fn *fn, void *arg)
{
	return scope_spawn_from(scope, fn, arg, NULL, __builtin_return_address(0));
}

/* ---- what a task can ask ---- */

static struct sn_task *running_task(void)
{
	struct sn_thread *self = sn_thread_self();

	return self ? self->task : NULL;
}

sn_scope *sn_scope_current(void)
{
	struct sn_task *me = running_task();

	struct sn_scope *scope = me ? scope_of(me) : NULL;

	return scope ? handle_of(scope) : NULL;
}

int sn_cancelled(void)
{
	struct sn_task *me = running_task();

	return me ? sn_cancel_reason(me) : 0;
}

int sn_cancel_mask(void)
{
	struct sn_task *me = running_task();

	if (!me)
		return -ENOTSUP;
	me->cancel_masks++;
	return 0;
}

int sn_cancel_unmask(void)
{
	struct sn_task *me = running_task();

	if (!me)
		return -ENOTSUP;
	if (me->cancel_masks == 0)
		return -EINVAL;
	me->cancel_masks--;
	return 0;
}

int sn_scope_set_value(sn_scope *handle, const void *key, void *value)
{
	struct sn_scope *scope = sn_handle_object(handle);
	struct value *node;

	if (!scope)
		return -EINVAL;
	if (!fits(scope, handle))
		return -ESRCH;
	if (scope->opener != running_task())
		return -EPERM;
	/* In a collector's sight, as nobody but this list may refer to the value. */
	node = sn_collector_alloc(_Alignof(struct value), sizeof *node);
	if (!node)
		return -ENOMEM;
	*node = (struct value){atomic_load_explicit(&scope->values, memory_order_relaxed), key,
			       value};
	atomic_store_explicit(&scope->values, node, memory_order_release);
	return 0;
}

void *sn_scope_value(const void *key)
{
	struct sn_task *me = running_task();

	for (struct sn_scope *scope = me ? scope_of(me) : NULL; scope; scope = scope->outer) {
		struct value *value = atomic_load_explicit(&scope->values, memory_order_acquire);

		for (; value; value = value->next)
			if (value->key == key)
				return value->value;
	}
	return NULL;
}
