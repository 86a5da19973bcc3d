/* SPDX-License-Identifier: MIT */
#include "task/waiter.h"

#include <errno.h>

#include <sennit/clock.h>

#include "sched/foreign.h"
#include "sched/scan_serve.h"

static void make_runnable(struct sn_thread *self, struct sn_task *task, enum sn_ready_place place)
{
	if (self) {
		sn_ready(self, task, place);
	} else if (sn_foreign_enter() == 0) {
		sn_ready(NULL, task, place);
		sn_foreign_leave();
	}
	/* If sn_foreign_enter() fails, the runtime has ended, and the task with it. */
}

void sn_waiter_wake(struct sn_thread *self, struct sn_waiter *waiter, int result,
		    enum sn_ready_place place)
{
	struct sn_task *task = waiter->task;

	if (!task) {
		waiter->result = result;
		sn_parker_release(&waiter->parker);
	} else if (waiter->exclusive) {
		waiter->result = result;
		make_runnable(self, task, place);
	} else if (sn_waiter_done(waiter, result)) {
		make_runnable(self, task, place);
	}
}

static struct sn_task *deadline_fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired)
{
	(void)now, (void)fired;
	return sn_waiter_end(sn_container_of(timer, struct sn_waiter, timer), -ETIMEDOUT);
}

struct park {
	struct sn_waiter *waiter;
	struct sn_lock *unlock;
};

static bool commit_exclusive(struct sn_thread *self, struct sn_task *task, void *unlock)
{
	(void)self, (void)task;
	/* From here on the task may run on another thread. */
	if (unlock)
		sn_unlock(unlock);
	return true;
}

static bool commit_park(struct sn_thread *self, struct sn_task *task, void *arg)
{
	struct sn_waiter *waiter = arg;

	(void)self, (void)task;
	SN_RACE_WINDOW();
	return !(atomic_fetch_or_explicit(&waiter->state, SN_WAITER_PARKED, memory_order_acq_rel) &
		 SN_WAITER_DONE);
}

/* Ends the calling task's own wait, which cannot begin, if no other party has ended it. */
static void end_self(struct sn_waiter *waiter, int result)
{
	if (sn_waiter_claim(waiter))
		sn_waiter_done(waiter, result);
}

static int park_shared(struct sn_waiter *waiter, struct sn_lock *unlock)
{
	struct sn_thread *self = sn_thread_self();
	int err = 0;

	if (unlock)
		sn_unlock(unlock);
	if (waiter->cancellable)
		err = sn_cancel_publish(waiter->task, waiter);
	if (err == 0 && waiter->deadline) {
		waiter->timer.fire = deadline_fire;
		err = sn_timer_start(self, &waiter->timer, waiter->deadline);
	}
	if (err < 0)
		end_self(waiter, err);
	/* Does not park if the wait is over already. */
	if (!(atomic_load_explicit(&waiter->state, memory_order_acquire) & SN_WAITER_DONE))
		sn_park(self, commit_park, waiter);
	if (waiter->deadline)
		sn_timer_stop(&waiter->timer);
	if (waiter->cancellable)
		sn_cancel_retract(waiter->task);
	return waiter->result;
}

static int park_thread(struct sn_waiter *waiter, struct sn_lock *unlock)
{
	if (unlock)
		sn_unlock(unlock);
	/* A scan's callback must not wait: the event may have to come from the scanned task. */
	if (sn_unlikely(sn_scan_depth > 0) && sn_waiter_claim(waiter))
		return -EDEADLK;
	if (sn_parker_wait(&waiter->parker, waiter->deadline) == -ETIMEDOUT) {
		if (sn_waiter_claim(waiter))
			return -ETIMEDOUT;
		sn_parker_wait(&waiter->parker, 0); /* another party is about to wake it */
	}
	return waiter->result;
}

int sn_waiter_park(struct sn_waiter *waiter, struct sn_lock *unlock)
{
	if (!waiter->task)
		return park_thread(waiter, unlock);
	if (!waiter->exclusive)
		return park_shared(waiter, unlock);
	sn_checked_hand_over(unlock);
	sn_park(sn_thread_self(), commit_exclusive, unlock);
	return waiter->result;
}
