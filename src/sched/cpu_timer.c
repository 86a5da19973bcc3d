/* SPDX-License-Identifier: MIT */
#include "sched/cpu_timer.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "sched/runtime.h"
#include "sched/thread.h"
#include "sched/thread_list.h"

/* Not all C libraries define this name. */
#ifndef sigev_notify_thread_id
#	define sigev_notify_thread_id _sigev_un._tid
#endif

static struct {
	int signum; /* 0 while the timers are off */
	int64_t period_ns;
	unsigned missing; /* threads that began since then and got no timer */
} timers;

/* The lock is held. */
static int make(struct sn_thread *thread)
{
	const struct timespec period = {.tv_sec = (time_t)(timers.period_ns / 1000000000),
					.tv_nsec = (long)(timers.period_ns % 1000000000)};
	const struct itimerspec when = {.it_interval = period, .it_value = period};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = timers.signum};
	int err = 0;

	/* The system did not give the thread's CPU clock (sn_thread_attach()), and no other clock
	 * would do. */
	if (thread->cpu_clock == CLOCK_MONOTONIC)
		return -ENOTSUP;
	event.sigev_value.sival_ptr = thread;
	event.sigev_notify_thread_id = thread->tid;
	if (timer_create(thread->cpu_clock, &event, &thread->timer) < 0)
		return errno == EAGAIN || errno == ENOMEM ? -EAGAIN : -ENOTSUP;
	thread->has_timer = true;
	if (timer_settime(thread->timer, 0, &when, NULL) < 0) {
		err = -ENOTSUP;
		sn_cpu_timer_end(thread);
	}
	return err;
}

static void end_all(void)
{
	for (struct sn_thread *thread = sn_threads.all; thread; thread = thread->next_all)
		sn_cpu_timer_end(thread);
	timers.signum = 0;
}

int sn_cpu_timers_start(int signum, int64_t period_ns)
{
	int err = 0;

	sn_lock(&sn_runtime.lock);
	timers.signum = signum;
	timers.period_ns = period_ns;
	timers.missing = 0;
	for (struct sn_thread *thread = sn_threads.all; thread && err == 0;
	     thread = thread->next_all)
		if (thread->attached)
			err = make(thread);
	if (err < 0)
		end_all();
	sn_unlock(&sn_runtime.lock);
	return err;
}

unsigned sn_cpu_timers_stop(void)
{
	unsigned missing;

	sn_lock(&sn_runtime.lock);
	end_all();
	missing = timers.missing;
	sn_unlock(&sn_runtime.lock);
	return missing;
}

void sn_cpu_timer_begin(struct sn_thread *self)
{
	sn_lock(&sn_runtime.lock);
	/* An orphan is in no list. */
	if (!atomic_load(&self->orphan)) {
		self->attached = true;
		if (timers.signum && make(self) < 0)
			timers.missing++;
	}
	sn_unlock(&sn_runtime.lock);
}

void sn_cpu_timer_end(struct sn_thread *thread)
{
	if (thread->has_timer)
		timer_delete(thread->timer);
	thread->has_timer = false;
}

void sn_cpu_timers_fork(enum sn_fork_phase phase)
{
	if (phase == SN_FORK_CHILD)
		timers.signum = 0;
}
