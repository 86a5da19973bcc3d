/* SPDX-License-Identifier: MIT */
#include "observe/inspect.h"

#include <errno.h>

#include <sennit/clock.h>

#include "sched/control_block.h"
#include "sched/foreign.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "wait/checked.h"

/* The order of reads is argued at describe() in task/spawn.c. */
bool sn_task_describe(struct sn_task *task, struct sn_task_info *info)
{
	enum sn_task_status status = sn_status_get(&task->word);
	/* Acquire: no field read below is older than this id. */
	uint64_t id = atomic_load_explicit(&task->id, memory_order_acquire);
	/* Not the stack of an earlier task, which gave it back before the block got this id. */
	struct sn_stack stack = sn_task_stack(task);
	uint32_t since;

	if (status == SN_TASK_FREE || status == SN_TASK_NEW || id == 0)
		return false;
	since = atomic_load_explicit(&task->word.since, memory_order_relaxed);
	*info = (struct sn_task_info){
		.task = sn_task_handle(task),
		.id = id,
		.state = (enum sn_task_state)status,
		.stack_low = stack.low,
		.stack_high = stack.high,
		.own_low = &task->arg,
		.own_high = task + 1,
		.stack_saved = __atomic_load_n(&task->context.sp, __ATOMIC_RELAXED),
		.spawned_at = atomic_load_explicit(&task->spawned_at, memory_order_relaxed),
		.spawned_by = atomic_load_explicit(&task->spawned_by, memory_order_relaxed),
	};
	/* By a real clock, because the monitor's stands still while every processor is idle. The
	 * difference is unsigned, because the 32 bits wrap; it counts as 0 if since is of the
	 * future, which happens if the status changed between the two reads. */
	since = (uint32_t)(sn_now() / 1000000) - since;
	info->state_ns = since > UINT32_MAX / 2 ? 0 : (int64_t)since * 1000000;
	if (status == SN_TASK_PARKED) {
		info->waits_for = atomic_load_explicit(&task->waits_for, memory_order_relaxed);
		info->waits_in = atomic_load_explicit(&task->waits_in, memory_order_relaxed);
	}
	for (int i = 0; i < SN_TASK_NAME_MAX; i++)
		if (!(info->name[i] = atomic_load_explicit(&task->name[i], memory_order_relaxed)))
			break;
	atomic_thread_fence(memory_order_acquire);
	return sn_task_id(task) == id && sn_status_get(&task->word) != SN_TASK_FREE;
}

struct each {
	sn_task_visitor *fn;
	void *arg;
	bool is_task;
	bool run_has_ended; /* the run has ended while this thread was in the callback */
};

static int visit(struct sn_task *task, void *arg)
{
	struct each *each = arg;
	struct sn_task_info info;
	uint32_t run;
	int result;

	if (!sn_task_describe(task, &info))
		return 0;
	if (each->is_task) {
		sn_checked_callback("visitor");
		return each->fn(&info, each->arg);
	}
	run = sn_foreign_go_out();
	sn_checked_callback("visitor");
	result = each->fn(&info, each->arg);
	each->run_has_ended = sn_foreign_come_back(run) < 0;
	return each->run_has_ended && result == 0 ? -ESRCH : result;
}

int sn_tasks_each(sn_task_visitor *fn, void *arg)
{
	/* The slabs stay while this thread runs a task, or is counted as foreign or as a guest
	 * (sched/foreign.h). */
	struct each each = {.fn = fn, .arg = arg, .is_task = sn_thread_self() != NULL};
	int result;

	if (!fn)
		return -EINVAL;
	if (each.is_task)
		return sn_block_each(visit, &each);
	result = sn_foreign_enter();
	if (result < 0)
		return result;
	result = sn_block_each(visit, &each);
	if (!each.run_has_ended)
		sn_foreign_leave();
	return result;
}
