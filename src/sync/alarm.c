/* SPDX-License-Identifier: MIT */
/*
 * Alarms: a function that runs as a new task at a given time.
 *
 * The timer fires under its heap's lock, where nothing can be allocated. The firing therefore puts
 * the alarm on the list of work that is done after the lock (struct sn_deferred), and sets FIRED in
 * its state. The deferred work, start_task(), makes the task, clears FIRED, and only then makes the
 * task runnable, because it may free the alarm. Starting and stopping wait until FIRED is clear,
 * which takes little time: the thread that has fired the timer is on its way to start_task(). A
 * periodic firing that finds FIRED set is skipped.
 *
 * That is not enough for an alarm that is already due while sn_alarm_start() still holds its guard,
 * because the task could free the alarm before the guard is released. The firing of an alarm that
 * fires once is therefore repeated a little later if it finds the guard held. The release of the
 * guard is the last access of sn_alarm_start() to the alarm, and the firing acquires it. A periodic
 * alarm has to be stopped before it is freed, which takes the guard, so its firings do not check
 * the guard. models/alarm.pml checks this.
 *
 * Rejected: start_task() waits for the guard. A thread may hold the guard while it waits for
 * start_task() to clear FIRED; the model finds that deadlock, too.
 *
 * If there is no memory for the task of an alarm that fires once, start_task() sets the timer again
 * before it clears FIRED. An alarm can therefore become active again after its timer was found
 * inactive. The state counts firings, so that a thread that stops the alarm notices this.
 *
 * Who may write what:
 *   timer             the heap; started by the thread with the guard, or, while FIRED is set, by
 *                     start_task()
 *   state             the firing adds FIRING|FIRED; a thread that stops the alarm sets AWAITED
 *                     while FIRED is set; start_task() clears FIRED and AWAITED
 *   period, fn, arg   the thread with the guard, while the timer is inactive and FIRED clear
 *   run               the thread with the guard; it also clears the state then
 */
#include <sennit/timer.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <sennit/clock.h>

#include "sched/timer.h"
#include "sync/period.h"
#include "task/spawn.h"
#include "wait/backoff.h"
#include "wait/checked.h"
#include "wait/futex.h"

/* The delay before another attempt after a lack of memory: short, so that the task does not begin
 * much later than necessary. */
#define RETRY_NS 10000000

/*
 * A wait for FIRED takes about a microsecond, unless the thread that clears it is not running. In
 * the tests of timers ("alarm" in docs/waiting.md) a third of the waits took less than 1 us, the
 * others 8 to 33.
 */
#define SPIN_NS 5000

/* The delay after which a firing that has found the guard held is repeated. A guard is held for far
 * less than a microsecond, unless its holder is not running. */
#define GUARDED_NS 20000

/* The bits of the state; the rest is a count, in units of FIRING. */
#define FIRED 1u
#define AWAITED 2u
#define FIRING 4u

struct alarm {
	struct sn_timer timer;
	struct sn_deferred deferred;
	struct sn_lock guard; /* held to start or stop the alarm */
	_Atomic uint32_t state;
	int64_t period;
	sn_fn *fn;
	void *arg;
	uint32_t run; /* the run that the timer and the state belong to */
};
_Static_assert(sizeof(struct alarm) <= sizeof(sn_alarm), "sn_alarm has room");
_Static_assert(_Alignof(struct alarm) <= _Alignof(sn_alarm), "sn_alarm is aligned");

static void start_task(struct sn_thread *self, struct sn_deferred *deferred)
{
	struct alarm *alarm = sn_container_of(deferred, struct alarm, deferred);
	struct sn_task *task;
	int err = 0;

	task = sn_task_new(self, alarm->fn, alarm->arg, NULL, (const void *)alarm->fn, &err);
	if (!task && alarm->period == 0 &&
	    sn_timer_start(self, &alarm->timer, sn_now() + RETRY_NS) < 0)
		sn_log("no memory to set an alarm again, so it is lost");
	SN_RACE_WINDOW();
	if (atomic_fetch_and(&alarm->state, ~(FIRED | AWAITED)) & AWAITED)
		sn_futex_wake(&alarm->state, 1); /* uses only the address: the alarm may be gone */
	if (task)
		sn_task_launch(self, task);
}

static struct sn_task *fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired)
{
	struct alarm *alarm = sn_container_of(timer, struct alarm, timer);
	uint32_t state = atomic_load(&alarm->state);
	int64_t due;

	if (alarm->period > 0) {
		fired->again = sn_period_next(timer->when, alarm->period, now, &due);
	} else if (sn_lock_is_held(&alarm->guard)) {
		fired->again = now + GUARDED_NS;
		return NULL;
	}
	if (!(state & FIRED)) {
		/* No other thread changes the state while FIRED is clear and the heap's lock is
		 * held. */
		atomic_store(&alarm->state, (state + FIRING) | FIRED);
		alarm->deferred.run = start_task;
		fired->later = &alarm->deferred;
	}
	return NULL;
}

/* Waits until the task of a firing has been made. Returns the state. */
static uint32_t await_task(struct alarm *alarm)
{
	SN_BACKOFF(backoff, SN_WAIT_ALARM, SPIN_NS, 0);
	uint32_t state;

	while ((state = atomic_load(&alarm->state)) & FIRED) {
		if (sn_backoff_pause(&backoff))
			continue;
		if ((state & AWAITED) ||
		    atomic_compare_exchange_strong(&alarm->state, &state, state | AWAITED)) {
			/* This waits with the guard held, but only for start_task(), which runs on
			 * another thread of the runtime and takes no guard. */
			sn_checked_pass();
			sn_futex_wait(&alarm->state, state | AWAITED, 0);
			sn_checked_pass_end();
		}
	}
	return state;
}

/* The guard is held. */
static bool stop(struct alarm *alarm)
{
	bool prevented = false;
	uint32_t state;

	do {
		state = await_task(alarm);
		SN_RACE_WINDOW();
		prevented |= sn_timer_stop(&alarm->timer);
	} while (atomic_load(&alarm->state) != state);
	return prevented;
}

/* Begins a call that starts or stops the alarm; as sn_period_begin(). */
static int begin(struct sn_thread **self, struct alarm *alarm, const char *call)
{
	int result = sn_period_begin(self, &alarm->guard, &alarm->timer, &alarm->run, call);

	if (result > 0) {
		/* If that run ended before it could make the task of a firing, FIRED is set. */
		atomic_store_explicit(&alarm->state, 0, memory_order_relaxed);
		alarm->run = atomic_load(&sn_runtime.run);
	}
	return result;
}

int sn_alarm_start(sn_alarm *opaque, int64_t first, int64_t period, sn_fn *fn, void *arg)
{
	struct alarm *alarm = (struct alarm *)opaque;
	struct sn_thread *self;
	bool prevented;
	int err;

	if (!opaque || first <= 0 || period < 0 || !fn)
		return -EINVAL;
	err = begin(&self, alarm, __func__);
	if (err < 0)
		return err;
	prevented = stop(alarm);
	alarm->timer.fire = fire;
	alarm->period = period;
	alarm->fn = fn;
	alarm->arg = arg;
	err = sn_timer_start(self, &alarm->timer, first);
	SN_RACE_WINDOW();
	sn_period_end(self, &alarm->guard);
	return err < 0 ? err : prevented;
}

int sn_alarm_stop(sn_alarm *opaque)
{
	struct alarm *alarm = (struct alarm *)opaque;
	struct sn_thread *self;
	bool prevented;

	if (!opaque)
		return -EINVAL;
	if (begin(&self, alarm, __func__) < 0)
		return 0;
	prevented = stop(alarm);
	sn_period_end(self, &alarm->guard);
	return prevented;
}
