/* SPDX-License-Identifier: MIT */
#include "debug/late.h"

#include <errno.h>
#include <stdatomic.h>

#include "arch/compiler.h"
#include "base/environment.h"
#include "debug/dump.h"
#include "sched/processor.h"
#include "sched/ready.h"
#include "sched/runqueue.h"
#include "sched/runtime.h"
#include "sched/status.h"
#include "sched/task.h"

/* Written by sn_late_init(), while no monitor runs, and by the monitor. */
static uint32_t late_ms;   /* 0 if no trace is wanted */
static int64_t busy_since; /* since when no look has found all processors idle; 0 if the last did */

int sn_late_init(void)
{
	long ms = sn_environment_number("SENNIT_LATE_MS", 0, 86400000, 0);

	late_ms = ms < 0 ? 0 : (uint32_t)ms;
	busy_since = 0;
	return ms < 0 ? -EINVAL : 0;
}

/*
 * Whether the task has waited for too long. It may have left the queue, but its block may be read
 * for as long as the run lasts, and a task that is RUNNABLE waits, in whichever queue it is now.
 * `since` was stored before that status, so it is the beginning of this wait, or of a later one.
 */
static bool is_late(struct sn_task *task, uint32_t now)
{
	return task && sn_status_get(&task->word) == SN_TASK_RUNNABLE &&
	       (int32_t)(now - atomic_load_explicit(&task->word.since, memory_order_relaxed)) >
		       (int32_t)late_ms;
}

static bool has_late(struct sn_runqueue *queue, uint32_t now)
{
	return is_late(sn_runqueue_peek(queue), now) ||
	       is_late(atomic_load_explicit(&queue->next, memory_order_acquire), now);
}

void sn_late_step(int64_t now, bool idle)
{
	const uint32_t ms = (uint32_t)(now / 1000000);
	uint32_t since;

	if (sn_likely(!late_ms))
		return;
	if (idle || !busy_since)
		busy_since = idle ? 0 : now;
	/* The status's clock stands still while all processors are idle. A task that has ended such
	 * a phase may therefore seem to have waited for all of it. */
	if (!busy_since || now - busy_since <= late_ms * INT64_C(1000000))
		return;
	for (int i = 0; i < sn_runtime.capacity; i++) {
		if (!has_late(&sn_runtime.processors[i].queue, ms))
			continue;
		sn_dump_note_stall();
		return;
	}
	if (sn_global_since(&since) && (int32_t)(ms - since) > (int32_t)late_ms)
		sn_dump_note_stall();
}
