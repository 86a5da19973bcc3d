/* SPDX-License-Identifier: MIT */
/*
 * Yielding and sleeping: a task lets others run, once or until a time.
 *
 * Contract. Only a task may call these; on other threads they return -ENOTSUP. A sleep ends before
 * its time only if the task's scope is cancelled, of which the scope's deadline is one case, or if
 * there is no memory for its timer.
 */
#include <sennit/task.h>

#include <errno.h>
#include <time.h>

#include <sennit/blocking.h>
#include <sennit/clock.h>

#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "task/cancel.h"
#include "task/waiter.h"

/* How long a sleep blocks its thread if there is no memory for a timer. */
#define PAUSE_NS 1000000

int sn_yield(void)
{
	struct sn_thread *self = sn_runtime_enter();

	if (!self)
		return -ENOTSUP;
	sn_reschedule(self);
	sn_runtime_leave();
	return 0;
}

/* Blocks the thread for a moment after a sleep for which there was no timer, so that a program that
 * repeats the call does not spin. Called outside the runtime. */
static void block_briefly(int64_t deadline)
{
	const int64_t left = deadline - sn_now();
	const struct timespec pause = {.tv_nsec = left < 0 ? 0 : left < PAUSE_NS ? left : PAUSE_NS};

	sn_enter_blocking_as("a time");
	nanosleep(&pause, NULL);
	sn_exit_blocking();
}

int sn_sleep_until(int64_t deadline)
{
	struct sn_thread *self = sn_runtime_enter();
	int err;

	if (!self)
		return -ENOTSUP;
	err = sn_cancel_reason(self->task);
	if (err == 0 && deadline <= sn_now()) {
		sn_reschedule(self);
	} else if (err == 0) {
		struct sn_waiter waiter;

		sn_task_waits(self->task, "a time", NULL);
		sn_waiter_init(&waiter, self, deadline, 0);
		err = sn_waiter_park(&waiter, NULL);
		/* If the time has come, the sleep is complete, even if the scope's deadline has
		 * ended it. */
		if (err == -ETIMEDOUT && sn_now() >= deadline)
			err = 0;
	}
	sn_runtime_leave();
	if (sn_unlikely(err == -ENOMEM))
		block_briefly(deadline);
	return err;
}

int sn_sleep(int64_t ns)
{
	int64_t now = sn_now();

	if (ns <= 0)
		return sn_yield();
	/* A time that overflows means forever, not the past. */
	return sn_sleep_until(ns > INT64_MAX - 1 - now ? INT64_MAX - 1 : now + ns);
}
