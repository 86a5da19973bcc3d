/* SPDX-License-Identifier: MIT */
/*
 * What identifies a task: its handle, its id, its name.
 *
 * Contract. Any thread may ask for these. A stale handle identifies no task: its id is 0, and its
 * name is empty.
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
	/* Acquire: if this is the id of the block's next task, the check below sees that task's
	 * generation, too. */
	id = atomic_load_explicit(&task->id, memory_order_acquire);
	return sn_task_of(handle) ? id : 0;
}

const char *sn_task_name(const sn_task *handle)
{
	const struct sn_task *task = sn_task_of(handle);

	if (!task)
		return "";
	/* The bytes are atomic, because others may read them while the task changes its name. */
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
