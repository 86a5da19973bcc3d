/* SPDX-License-Identifier: MIT */
/*
 * The calls of sennit/blocking.h that are no brackets: a function that blocks, and pinning.
 *
 * sn_pin() and sn_unpin() count, so that libraries can nest them. pin.h has what the first and the
 * last of them do. The brackets are inline in sennit/blocking.h.
 */
#include <sennit/blocking.h>

#include <errno.h>

#include "sched/task.h"
#include "sched/thread.h"
#include "task/pin.h"

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

int sn_pin(void)
{
	struct sn_thread *self = sn_runtime_enter();
	int err = 0;

	if (!self)
		return -ENOTSUP;
	if (self->pins > 0)
		self->pins++;
	else
		err = sn_thread_pin(self);
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
		sn_tie_unbind(self->task);
		sn_thread_unpin(self);
	}
	sn_runtime_leave();
	return err;
}
