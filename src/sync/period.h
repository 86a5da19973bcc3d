/* SPDX-License-Identifier: MIT */
/*
 * What alarms and tickers share: the sequence of their times, and the frame of a call that starts
 * or stops them.
 *
 * Contract. The times are the first one plus multiples of the period, whenever a firing really
 * comes, so that lateness does not add up; times that have passed together are one firing. The
 * frame takes the guard of the alarm or ticker, so that of several calls that start or stop it, one
 * runs at a time. It works in a task and on a thread outside the runtime, and keeps the run from
 * ending in between. No task parks while it holds the guard.
 *
 * An alarm or ticker may outlive the run that has started it. Its timer then points into a heap
 * that is gone, so the frame forgets the timer when the number of the run has changed.
 */
#ifndef SENNIT_SYNC_PERIOD_H
#define SENNIT_SYNC_PERIOD_H

#include <stdint.h>

#include "sched/foreign.h"
#include "sched/runtime.h"
#include "sched/thread.h"
#include "sched/timer.h"
#include "wait/lock.h"

/*
 * Returns the first time after now that is `when` plus a multiple of period; `when` is not after
 * now. *ticks: how many of these times are due, including `when`. A time that cannot be represented
 * is never reached.
 */
static inline int64_t sn_period_next(int64_t when, int64_t period, int64_t now, int64_t *ticks)
{
	int64_t due = (now - when) / period + 1;

	*ticks = due;
	/* Only the product with 1 can be too large: if due is more, period is at most now -
	 * when. */
	return period > SN_TIMER_NEVER - 1 - when ? SN_TIMER_NEVER - 1 : when + due * period;
}

/*
 * Begin and end a call that starts or stops such a timer, on any thread, and hold its guard in
 * between. *self is for sn_timer_start(). sn_period_begin() returns 0, or -ESRCH, without the
 * guard, when no runtime runs. It returns 1 if the timer is of another run than the present one:
 * then the timer is inactive now, and the caller clears what else is left of that run, and stores
 * the present run's number in *run.
 */
static inline int sn_period_begin(struct sn_thread **self, struct sn_lock *guard,
				  struct sn_timer *timer, const uint32_t *run, const char *call)
{
	int err = 0;

	*self = sn_runtime_enter_for(call);
	if (!*self)
		err = sn_foreign_enter();
	if (err < 0)
		return err;
	sn_lock_init(guard, SN_RANK_TIMER_GUARD);
	sn_lock(guard);
	if (sn_likely(*run == atomic_load(&sn_runtime.run)))
		return 0;
	atomic_store_explicit(&timer->heap, NULL, memory_order_relaxed);
	return 1;
}

static inline void sn_period_end(struct sn_thread *self, struct sn_lock *guard)
{
	sn_unlock(guard);
	if (self)
		sn_runtime_leave();
	else
		sn_foreign_leave();
}

#endif
