/* SPDX-License-Identifier: MIT */
#include <sennit/blocking.h>

#include <errno.h>

#include "sched/runtime.h"
#include "sched/task.h"
#include "sched/thread.h"

int sn_blocking(sn_fn *fn, void *arg)
{
	int result;

	if (!fn)
		return -EINVAL;
	sn_enter_blocking();
	result = fn(arg);
	sn_exit_blocking();
	return result;
}

/* At least one thread must remain to run everything else, and to serve the poller and the
 * timers. */
static sn_noinline int pin(struct sn_thread *self)
{
	if (atomic_fetch_add(&sn_runtime.pinned_threads, 1) + 1 >=
	    (uint32_t)sn_runtime.max_threads) {
		atomic_fetch_sub(&sn_runtime.pinned_threads, 1);
		return -EAGAIN;
	}
	self->pins = 1;
	self->pinned = self->task;
	self->task->bound = self;
	return 0;
}

int sn_pin(void)
{
	struct sn_thread *self = sn_runtime_enter();
	int err = 0;

	if (!self)
		return -ENOTSUP;
	if (self->pins > 0)
		self->pins++;
	else
		err = pin(self);
	sn_runtime_leave();
	return err;
}

int sn_unpin(void)
{
	struct sn_thread *self = sn_runtime_enter();
	int err = 0;

	if (!self)
		return -ENOTSUP;
	if (self->pins == 0) {
		err = -EINVAL;
	} else if (self->pins > 1) {
		self->pins--;
	} else {
		self->task->bound = NULL;
		sn_thread_unpin(self);
	}
	sn_runtime_leave();
	return err;
}

sn_noinline void sn_thread_unpin(struct sn_thread *self)
{
	if (!self->pinned)
		return;
	self->pinned = NULL;
	self->pins = 0;
	atomic_fetch_sub(&sn_runtime.pinned_threads, 1);
}
