/* SPDX-License-Identifier: MIT */
/*
 * The deadlines of scopes.
 *
 * Contract. A scope has at most one deadline, in one timer. When the timer fires, the scope is
 * cancelled with -ETIMEDOUT. Until then the deadline can be moved and removed. The firing sets
 * expired under the lock of the timer's heap, and a timer is moved or stopped under that lock.
 * Exactly one of the two therefore wins: either the timer was active and is now set to the new
 * time, or expired is set, and the call that moves the deadline returns -ETIMEDOUT.
 *
 * Running. A firing takes a count of running, and holds it until the scope has been cancelled. A
 * deadline that passes while a scope closes therefore does not cancel it once all tasks have ended:
 * closing returns -ETIMEDOUT only if there was a task to be cancelled. A call that moves the
 * deadline also holds a count of running, so no timer is started once running is 0. The opener then
 * stops the timer for good.
 *
 * Scopes inside have deadlines of their own. The scope around cancels them, so moving its deadline
 * does not have to touch their timers.
 *
 * Order of locks: the scope's, then the heap's. The firing has the heap's lock, and takes no other.
 *
 * Rejected: to write only the new deadline, which touches no heap, and let the timer find out when
 * it fires. That would suit a server that moves a deadline of an hour with each request, to close
 * idle sessions. But a removed deadline would leave a timer that keeps an idle machine from
 * sleeping, and a race between firing and moving would have to be decided by a compare-and-swap of
 * 64 bits.
 */
#include "sync/scope.h"

#include <sennit/clock.h>

#include "sched/foreign.h"
#include "sched/thread.h"

/* ---- firing ---- */

static void expire(struct sn_thread *self, struct sn_deferred *deferred)
{
	sn_scope_expire(self, sn_container_of(deferred, struct sn_scope, expiry));
}

static struct sn_task *fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired)
{
	struct sn_scope *scope = sn_container_of(timer, struct sn_scope, timer);

	(void)now;
	if (!sn_scope_take_count(&scope->running))
		return NULL; /* it is closing, and none of its tasks is left */
	/* Relaxed: a thread that reads expired has first found the timer inactive, under the heap's
	 * lock, which orders the read after this store. */
	atomic_store_explicit(&scope->expired, true, memory_order_relaxed);
	fired->later = &scope->expiry;
	return NULL;
}

/* ---- moving ---- */

/* Returns 0, or the reason why there is no deadline to move any more. The lock is held. */
static int reason_of(struct sn_scope *scope)
{
	int reason = atomic_load_explicit(&scope->cancel.reason, memory_order_acquire);

	if (reason == 0 && atomic_load_explicit(&scope->expired, memory_order_relaxed))
		reason = -ETIMEDOUT;
	return reason;
}

/* Moves, starts or stops the timer. Returns 0; the reason if it is too late; -ENOMEM. The lock is
 * held. */
static int set_timer(struct sn_thread *self, struct sn_scope *scope, int64_t deadline)
{
	bool set = deadline ? sn_timer_move(&scope->timer, deadline) : sn_timer_stop(&scope->timer);
	int err = set ? 0 : reason_of(scope);

	if (err == 0 && !set && deadline)
		err = sn_timer_start(self, &scope->timer, deadline);
	if (err == 0)
		atomic_store_explicit(&scope->deadline, deadline, memory_order_relaxed);
	return err;
}

static bool is_later(int64_t deadline, int64_t than)
{
	return than && (!deadline || deadline > than);
}

/* Moves the deadline. If the new one has passed, stops the timer and sets *past instead. The lock
 * is held. */
static int move_locked(struct sn_thread *self, struct sn_scope *scope, int64_t deadline, bool *past)
{
	int err = reason_of(scope);

	if (err < 0)
		return err;
	if (is_later(deadline, scope->close_by))
		deadline = scope->close_by;
	*past = deadline && deadline <= sn_now();
	SN_RACE_WINDOW();
	return set_timer(self, scope, *past ? SN_NO_DEADLINE : deadline);
}

static int move(struct sn_thread *self, struct sn_scope *scope, int64_t deadline)
{
	bool past = false;
	int err;

	sn_lock(&scope->lock);
	err = move_locked(self, scope, deadline, &past);
	sn_unlock(&scope->lock);
	if (err == 0 && past)
		sn_scope_cancel_for(self, scope, -ETIMEDOUT, -ETIMEDOUT);
	return err;
}

static int move_of_handle(struct sn_thread *self, const sn_scope *handle, int64_t deadline)
{
	struct sn_scope *scope;
	int err = sn_scope_hold_handle(self, &scope, handle, true);

	if (err < 0)
		return err;
	err = move(self, scope, deadline);
	sn_scope_give_up(self, scope, &scope->running);
	return err;
}

int sn_scope_set_deadline(sn_scope *scope, int64_t deadline)
{
	struct sn_thread *self;
	int err;

	if (!scope)
		return -EINVAL;
	self = sn_runtime_enter();
	if (self) {
		err = move_of_handle(self, scope, deadline);
		sn_runtime_leave();
		return err;
	}
	err = sn_foreign_enter();
	if (err < 0)
		return err;
	err = move_of_handle(NULL, scope, deadline);
	sn_foreign_leave();
	return err;
}

int64_t sn_scope_deadline(void)
{
	struct sn_thread *self = sn_thread_self();
	struct sn_task *me = self ? self->task : NULL;
	struct sn_scope *scope = me && !me->cancel_masks ? sn_scope_of(me) : NULL;
	int64_t earliest = SN_NO_DEADLINE;

	for (; scope; scope = scope->linked ? scope->outer : NULL) {
		int64_t deadline = atomic_load_explicit(&scope->deadline, memory_order_relaxed);

		if (is_later(earliest, deadline))
			earliest = deadline;
	}
	return earliest;
}

/* ---- the beginning and the end ---- */

int sn_scope_begin_deadline(struct sn_thread *self, struct sn_scope *scope, int64_t deadline)
{
	scope->timer.fire = fire;
	scope->expiry.run = expire;
	scope->close_by = SN_NO_DEADLINE;
	atomic_store_explicit(&scope->expired, false, memory_order_relaxed);
	atomic_store_explicit(&scope->deadline, deadline, memory_order_relaxed);
	return deadline ? sn_timer_start(self, &scope->timer, deadline) : 0;
}

void sn_scope_close_by(struct sn_thread *self, struct sn_scope *scope, int64_t deadline)
{
	int64_t present;
	bool past = false;
	int err = 0;

	sn_lock(&scope->lock);
	scope->close_by = deadline;
	present = atomic_load_explicit(&scope->deadline, memory_order_relaxed);
	if (is_later(present, deadline))
		err = move_locked(self, scope, deadline, &past);
	sn_unlock(&scope->lock);
	if (err == 0 && past)
		sn_scope_cancel_for(self, scope, -ETIMEDOUT, -ETIMEDOUT);
	else if (err == -ENOMEM)
		sn_scope_cancel_for(self, scope, -ENOMEM, -ECANCELED);
}

void sn_scope_end_deadline(struct sn_scope *scope)
{
	sn_timer_stop(&scope->timer);
}
