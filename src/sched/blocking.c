/* SPDX-License-Identifier: MIT */
#include <sennit/blocking.h>

#include <errno.h>

#include "sched/task.h"
#include "sched/thread.h"

int sn_blocking(sn_fn *fn, void *arg)
{
	int result;

	sn_enter_blocking();
	result = fn(arg);
	sn_exit_blocking();
	return result;
}

int sn_pin(void)
{
	struct sn_thread *self = sn_runtime_enter();

	if (!self)
		return -EPERM;
	if (self->pins++ == 0) {
		self->pinned = self->task;
		self->task->bound = self;
	}
	sn_runtime_leave();
	return 0;
}

int sn_unpin(void)
{
	struct sn_thread *self = sn_runtime_enter();
	int err = 0;

	if (!self)
		return -EPERM;
	if (self->pins == 0) {
		err = -EINVAL;
	} else if (--self->pins == 0) {
		self->pinned = NULL;
		self->task->bound = NULL;
	}
	sn_runtime_leave();
	return err;
}
