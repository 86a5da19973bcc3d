/* SPDX-License-Identifier: MIT */
/*
 * What identifies a task to others: its handle, its id, its name.
 *
 * Contract. All may be asked for on any thread, also by a stale handle, which identifies no task.
 *
 * Who may write what: see task.h.
 */
#include <errno.h>

#include "sched/task.h"
#include "sched/thread.h"

sn_task *sn_self(void)
{
	struct sn_thread *self = sn_thread_self();

	return self && self->task ? sn_task_handle(self->task) : NULL;
}

uint64_t sn_task_id(const sn_task *handle)
{
	const struct sn_task *task = sn_task_of(handle);
	uint64_t id;

	if (!task)
		return 0;
	/* Acquire: an id of the block's next task comes with that task's generation. */
	id = atomic_load_explicit(&task->id, memory_order_acquire);
	return sn_task_of(handle) ? id : 0;
}

const char *sn_task_name(const sn_task *handle)
{
	const struct sn_task *task = sn_task_of(handle);

	if (!task)
		return "";
	/* Its bytes are atomic for those that read it while the task gives itself another. */
	return task->name[0] ? (const char *)task->name : "task";
}

int sn_task_set_name(const char *name)
{
	struct sn_thread *self = sn_thread_self();

	if (!self || !self->task)
		return -ENOTSUP;
	sn_task_put_name(self->task, name);
	return 0;
}
