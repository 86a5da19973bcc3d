/* SPDX-License-Identifier: MIT */
#include <sennit/blocking.h>

#include "sched/runtime.h"
#include "sched/schedule.h"
#include "sched/task.h"
#include "sched/thread.h"

int sn_blocking(sn_fn *fn, void *arg)
{
	struct sn_thread *self = sn_runtime_enter();
	int result, saved_errno;

	if (!self)
		return fn(arg);
	atomic_store_explicit(&self->task->status, SN_TASK_BLOCKING, memory_order_relaxed);
	atomic_fetch_add_explicit(&sn_runtime.blocking, 1, memory_order_relaxed);
	sn_processor_release(self);

	result = fn(arg); /* without a processor, but on this thread: self stays right */

	saved_errno = *self->errno_location;
	atomic_fetch_sub_explicit(&sn_runtime.blocking, 1, memory_order_relaxed);
	sn_processor_regain(self);
	atomic_store_explicit(&self->task->status, SN_TASK_RUNNING, memory_order_relaxed);
	*self->errno_location = saved_errno;
	sn_runtime_leave();
	return result;
}
