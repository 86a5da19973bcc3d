/* SPDX-License-Identifier: MIT */
/*
 * Threads without a processor: they sleep in their parkers until another thread hands one over.
 *
 * An idle thread is in the list of idle threads. The thread that hands it a processor takes it off
 * the list, under the runtime's lock. It leaves the list by itself when it retires, or when a task
 * that is tied to it is runnable (tie.h); in the second case that task represents it in the global
 * queue. It does not enter the list if a processor waits for a thread. A thread that waits with a
 * task of its own is in no list: sn_processor_regain() puts that task into the global queue.
 */
#include "sched/idle.h"

#include <errno.h>

#include <sennit/clock.h>

#include "sched/mailbox.h"
#include "sched/processor_list.h"
#include "sched/runtime.h"
#include "sched/switch.h"
#include "sched/thread_list.h"
#include "sched/tie.h"
#include "sched/wake.h"

/*
 * Leaves the list of idle threads for good, if the thread is still in it and the list has more
 * threads than there are processors. It is called only after the thread was idle for a while: after
 * a burst of blocking calls the next burst is likely within that time, and starting a thread takes
 * 100 us.
 */
static bool retire(struct sn_thread *self)
{
	bool retires;

	sn_lock(&sn_runtime.lock);
	/* Relaxed: no task can be tied to the thread while it sleeps. */
	retires = self->is_idle && sn_idle.thread_count > sn_processors_in_use() &&
		  atomic_load_explicit(&self->ties.owned, memory_order_relaxed) == 0;
	if (retires)
		sn_idle_thread_remove(self);
	sn_unlock(&sn_runtime.lock);
	return retires;
}

/*
 * Sleeps until another thread hands over a processor. Returns false if the thread is to end.
 *
 * A processor may need this thread. At the limit of threads, a processor for which there was work
 * was put with the idle ones if no thread was in the list (sn_processor_start()). Another one may
 * wait until the monitor has started a thread for it. Both sides hold the same lock: either the
 * thread that gives the processor away finds this thread in the list, or this thread finds the
 * processor.
 */
static bool sleep_in_list(struct sn_thread *self)
{
	int64_t deadline = sn_now() + sn_threads.idle_ns;
	struct sn_processor *p;
	bool spinning, tied;

	sn_lock(&sn_runtime.lock);
	if (atomic_load(&sn_runtime.stopping)) {
		sn_unlock(&sn_runtime.lock);
		return false;
	}
	p = sn_idle_take_asked(&spinning);
	if (p) {
		sn_unlock(&sn_runtime.lock);
		sn_processor_assign(self, p);
		self->spinning = spinning;
		return true;
	}
	if (sn_idle.threadless) {
		if (sn_work_exists() || sn_nobody_would_notice())
			p = sn_idle_get();
		sn_idle.threadless = p && sn_idle.processors;
	}
	if (!p)
		sn_idle_thread_put(self);
	/* Looks for tied tasks after it has entered the list: see the handshake in tie.h. */
	tied = !p && sn_ties_wait_after_all(self);
	if (tied)
		sn_idle_thread_remove(self);
	sn_unlock(&sn_runtime.lock);
	if (p) {
		sn_processor_assign(self, p);
		sn_start_spinning(self);
		return true;
	}
	if (tied)
		return true;
	if (sn_await_processor(self, deadline) == -ETIMEDOUT) {
		if (retire(self))
			return false;
		/* The thread is still needed, or another one has taken it off the list and is about
		 * to release its parker. */
		sn_await_processor(self, 0);
	}
	return !atomic_load(&sn_runtime.stopping);
}

/* Waits for a processor in order to run the task, which is tied to the thread. Returns false if the
 * runtime ends. */
static bool stand_in_line(struct sn_thread *self, struct sn_task *task)
{
	struct sn_processor *p;

	sn_lock(&sn_runtime.lock);
	if (atomic_load(&sn_runtime.stopping)) {
		sn_unlock(&sn_runtime.lock);
		return false;
	}
	p = sn_idle_get();
	if (!p)
		sn_tie_stand_in_line(self, task);
	sn_unlock(&sn_runtime.lock);
	if (p) {
		sn_processor_assign(self, p);
		self->picked = task;
		return true;
	}
	/* Announces the task in the global queue. */
	sn_submitted();
	sn_await_processor(self, 0);
	return !atomic_load(&sn_runtime.stopping);
}

bool sn_sleep_without_processor(struct sn_thread *self)
{
	struct sn_task *task;

	sn_brief_pay(self);
	do {
		task = sn_tie_take(self);
		if (task)
			return stand_in_line(self, task);
		if (!sleep_in_list(self))
			return false;
	} while (!self->processor);
	return true;
}
