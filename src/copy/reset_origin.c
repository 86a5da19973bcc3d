/* SPDX-License-Identifier: MIT */
#include "copy/reset_origin.h"

#include <errno.h>

#include <sennit/clock.h>

#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "task/waiter.h"
#include "wait/backoff.h"

/*
 * How long the reader waits for the writer's system call. The writer's thread is mostly not running
 * at that time. With connections that close after each request ("reset" in docs/waiting.md), 2 % of
 * 267 waits ended within 8 us, 24 % within 66, half of them within 260, and the last after 13 ms,
 * so spinning does not pay. A yield mostly lets the writer run, and 95 of 100 waits then end
 * without a rest. During a rest, other tasks run.
 */
#define YIELD_NS 30000
#define REST_NS 100000

void sn_reset_origin_begin(struct sn_reset_origin *origin)
{
	atomic_store_explicit(&origin->begun,
			      atomic_load_explicit(&origin->begun, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

void sn_reset_origin_end(struct sn_reset_origin *origin, ssize_t n)
{
	if (n < 0 && n != -EAGAIN)
		atomic_store_explicit(&origin->failed, true, memory_order_relaxed);
	atomic_store_explicit(&origin->ended,
			      atomic_load_explicit(&origin->begun, memory_order_relaxed),
			      memory_order_release);
}

/* Parks for REST_NS; nothing but the timer wakes the task. */
static void rest(void)
{
	struct sn_thread *self = sn_thread_self();
	struct sn_waiter waiter;

	sn_task_waits(self->task, "another task's write", NULL);
	sn_waiter_init(&waiter, self, sn_now() + REST_NS, SN_WAITER_UNCANCELLABLE);
	if (sn_waiter_park(&waiter, NULL) == -ENOMEM)
		sn_reschedule(sn_thread_self());
}

bool sn_reset_origin_is_writer(struct sn_reset_origin *origin)
{
	uint32_t begun = atomic_load_explicit(&origin->begun, memory_order_acquire);
	SN_BACKOFF(backoff, SN_WAIT_RESET, 0, YIELD_NS);

	while ((int32_t)(atomic_load_explicit(&origin->ended, memory_order_acquire) - begun) < 0)
		if (!sn_backoff_pause(&backoff))
			rest();
	return atomic_load_explicit(&origin->failed, memory_order_relaxed);
}
