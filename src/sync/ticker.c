/* SPDX-License-Identifier: MIT */
/*
 * Tickers: timers that tasks wait for.
 *
 * A firing happens under its heap's lock, and takes the lock of the list of waits (waits.h) within
 * it. The firing gives its tick, together with those that have not been fetched, to the first
 * waiter; if there is none, it leaves them in ticks. A thread that starts or stops the ticker holds
 * the guard, and takes the other two locks one after the other: first it stops the timer, then it
 * clears ticks. sn_timer_stop() waits for a firing that is under way, so no old tick comes after
 * that.
 *
 * Who may write what:
 *   timer    the heap; started by the thread with the guard
 *   period   the thread with the guard, while the timer is inactive
 *   run      the thread with the guard, under the lock of the list
 *   ticks, waits, waits_run, outside, outside_next   any thread, under the lock of the list
 */
#include <sennit/timer.h>

#include <errno.h>
#include <stdbool.h>

#include <sennit/run.h>

#include "sync/period.h"
#include "sync/waits.h"
#include "task/cancel.h"

struct ticker {
	struct sn_timer timer;
	struct sn_lock guard; /* held to start or stop the ticker */
	uint32_t run;         /* the run that the timer and the ticks belong to */
	uint32_t waits_run;   /* the run whose tasks may be among the waits */
	bool outside_next;    /* which of the two lists gets a tick when both have waits */
	int64_t period;
	int64_t ticks;
	struct sn_private_waits waits;
	/* Those of threads outside the runtime, which the end of a run does not abandon: they must
	 * not be linked with waits whose memory may be gone. */
	struct sn_private_waits outside;
};
_Static_assert(sizeof(struct ticker) <= sizeof(sn_ticker), "sn_ticker has room");
_Static_assert(_Alignof(struct ticker) <= _Alignof(sn_ticker), "sn_ticker is aligned");

/* Takes a wait that it can claim; in turns from the tasks and from the other threads. The lock is
 * held. */
static struct sn_wait *claim(struct ticker *ticker)
{
	struct sn_private_waits *first = ticker->outside_next ? &ticker->outside : &ticker->waits;
	struct sn_private_waits *second = ticker->outside_next ? &ticker->waits : &ticker->outside;
	struct sn_wait *wait = sn_waits_claim(first);

	ticker->outside_next = !ticker->outside_next;
	return wait ? wait : sn_waits_claim(second);
}

static struct sn_task *fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired)
{
	struct ticker *ticker = sn_container_of(timer, struct ticker, timer);
	struct sn_lock *lock = sn_waits_lock_of(ticker);
	struct sn_wait *wait;
	int64_t due = 1;

	if (ticker->period > 0)
		fired->again = sn_period_next(timer->when, ticker->period, now, &due);
	sn_lock(lock);
	ticker->ticks += due;
	wait = claim(ticker);
	if (wait) {
		wait->ticks = ticker->ticks;
		ticker->ticks = 0;
	}
	sn_unlock(lock);
	if (!wait)
		return NULL;
	if (wait->waiter.task)
		return sn_waiter_finish(&wait->waiter, 0);
	/* A plain thread may be woken here, under the heap's lock, because that only wakes a
	 * futex. */
	sn_waiter_wake(NULL, &wait->waiter, 0, SN_READY_LAST);
	return NULL;
}

/* The guard is held. */
static bool stop(struct ticker *ticker)
{
	struct sn_lock *lock = sn_waits_lock_of(ticker);
	bool prevented = sn_timer_stop(&ticker->timer);

	SN_RACE_WINDOW();
	sn_lock(lock);
	prevented |= ticker->ticks > 0;
	ticker->ticks = 0;
	sn_unlock(lock);
	return prevented;
}

/* Forgets the waits of tasks that the end of their run has abandoned, whose stacks are gone. The
 * lock of the list is held. */
static void forget_abandoned(struct ticker *ticker)
{
	if (ticker->waits_run != sn_private_run())
		ticker->waits = (struct sn_private_waits){0};
}

/* Begins a call that starts or stops the ticker; as sn_period_begin(). */
static int begin(struct sn_thread **self, struct ticker *ticker, const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(ticker);
	int result = sn_period_begin(self, &ticker->guard, &ticker->timer, &ticker->run, call);

	if (result > 0) {
		sn_lock(lock);
		ticker->ticks = 0;
		ticker->run = atomic_load(&sn_runtime.run);
		forget_abandoned(ticker);
		sn_unlock(lock);
	}
	return result;
}

int sn_ticker_start(sn_ticker *opaque, int64_t first, int64_t period)
{
	struct ticker *ticker = (struct ticker *)opaque;
	struct sn_thread *self;
	bool prevented;
	int err;

	if (!opaque || first <= 0 || period < 0)
		return -EINVAL;
	err = begin(&self, ticker, __func__);
	if (err < 0)
		return err;
	prevented = stop(ticker);
	ticker->timer.fire = fire;
	ticker->period = period;
	err = sn_timer_start(self, &ticker->timer, first);
	sn_period_end(self, &ticker->guard);
	return err < 0 ? err : prevented;
}

int sn_ticker_stop(sn_ticker *opaque)
{
	struct ticker *ticker = (struct ticker *)opaque;
	struct sn_thread *self;
	bool prevented;

	if (!opaque)
		return -EINVAL;
	if (begin(&self, ticker, __func__) < 0)
		return 0;
	prevented = stop(ticker);
	sn_period_end(self, &ticker->guard);
	return prevented;
}

/* Takes the pending ticks; -EAGAIN when there are none. The lock is held. */
static int64_t fetch(struct ticker *ticker)
{
	/* The ticks of an earlier run are nobody's. */
	int64_t ticks = ticker->run == atomic_load(&sn_runtime.run) ? ticker->ticks : 0;

	ticker->ticks = 0;
	return ticks > 0 ? ticks : -EAGAIN;
}

static int64_t wait_inside(struct sn_thread *self, struct ticker *ticker, int64_t deadline,
			   bool waits)
{
	struct sn_lock *lock = sn_waits_lock_of(ticker);
	int64_t ticks = self ? sn_cancel_reason(self->task) : 0;
	struct sn_wait wait;
	int err;

	if (ticks < 0)
		return ticks;
	sn_lock(lock);
	ticks = fetch(ticker);
	if (ticks > 0 || !waits) {
		sn_unlock(lock);
		return ticks;
	}
	/* Shared, because exclusive waiters cannot be ended under the lock of a heap. */
	sn_waiter_init(&wait.waiter, self, deadline, SN_WAITER_SHARED);
	if (self) {
		forget_abandoned(ticker);
		ticker->waits_run = atomic_load(&sn_runtime.run);
	}
	sn_waits_put_last(self ? &ticker->waits : &ticker->outside, &wait);
	err = sn_wait_park(&wait, lock, "a ticker");
	if (err < 0) {
		sn_unlock(lock);
		return err;
	}
	return wait.ticks;
}

static int64_t wait_until(sn_ticker *ticker, int64_t deadline, bool waits, const char *call)
{
	struct sn_thread *self;
	int64_t ticks;

	if (!ticker)
		return -EINVAL;
	self = sn_waits_enter(call);
	ticks = wait_inside(self, (struct ticker *)ticker, deadline, waits);
	sn_waits_leave(sn_thread_again(self));
	return ticks;
}

int64_t sn_ticker_wait(sn_ticker *ticker)
{
	return wait_until(ticker, SN_NO_DEADLINE, true, __func__);
}

int64_t sn_ticker_wait_until(sn_ticker *ticker, int64_t deadline)
{
	return wait_until(ticker, deadline, true, __func__);
}

int64_t sn_ticker_try_wait(sn_ticker *ticker)
{
	return wait_until(ticker, SN_NO_DEADLINE, false, __func__);
}
