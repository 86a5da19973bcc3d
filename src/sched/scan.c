/* SPDX-License-Identifier: MIT */
#include "sched/scan.h"

#include <errno.h>

#include "sched/runtime.h"
#include "sched/stack.h"

/* ---- all tasks ---- */

/* The order of reads is argued at describe() in task.c. */
bool sn_task_describe(struct sn_task *task, struct sn_stack stack, struct sn_task_info *info)
{
	enum sn_task_status status = sn_status_get(&task->word);
	uint64_t id = sn_task_id(task);
	uint32_t since;

	if (status == SN_TASK_FREE || status == SN_TASK_NEW || id == 0)
		return false;
	since = atomic_load_explicit(&task->word.since, memory_order_relaxed);
	*info = (struct sn_task_info){
		.task = task,
		.id = id,
		.state = (enum sn_task_state)status,
		.stack_low = stack.low,
		.stack_high = stack.high,
		.stack_saved = __atomic_load_n(&task->context.sp, __ATOMIC_RELAXED),
		.spawned_at = atomic_load_explicit(&task->spawned_at, memory_order_relaxed),
		.spawned_by = atomic_load_explicit(&task->spawned_by, memory_order_relaxed),
	};
	/* Unsigned: the clock's 32 bits wrap. It may have been read before the status was set. */
	since = atomic_load_explicit(&sn_status_clock.ms, memory_order_relaxed) - since;
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
};

static int visit(struct sn_stack stack, void *arg)
{
	const struct each *each = arg;
	struct sn_task_info info;

	if (!sn_task_describe(sn_stack_task(stack), stack, &info))
		return 0;
	return each->fn(&info, each->arg);
}

int sn_tasks_each(sn_task_visitor *fn, void *arg)
{
	struct each each = {fn, arg};
	int result;

	if (!fn)
		return -EINVAL;
	/* Also in a task: the slabs stay as long as somebody is counted. */
	result = sn_foreign_enter();
	if (result < 0)
		return result;
	result = sn_stack_each(visit, &each);
	sn_foreign_leave();
	return result;
}
