/* SPDX-License-Identifier: MIT */
#include "task/pin.h"

#include <errno.h>
#include <stdatomic.h>

#include "sched/task.h"
#include "sched/thread.h"
#include "sched/thread_list.h"

static _Atomic uint32_t pinned_threads;

void sn_pins_begin(void)
{
	atomic_store(&pinned_threads, 0);
}

/* At least one thread must stay unpinned, to run all other tasks, and to serve the poller and the
 * timers. */
sn_noinline int sn_thread_pin(struct sn_thread *self)
{
	if (atomic_fetch_add(&pinned_threads, 1) + 1 >= (uint32_t)sn_threads.most) {
		atomic_fetch_sub(&pinned_threads, 1);
		return -EAGAIN;
	}
	self->pins = 1;
	self->altered = true;
	__atomic_store_n(&self->pinned, self->task, __ATOMIC_RELAXED);
	sn_task_bind_to(self->task, self);
	self->task->tied = SN_TIED_NOT;
	return 0;
}

sn_noinline void sn_thread_unpin(struct sn_thread *self)
{
	if (!self->pinned)
		return;
	__atomic_store_n(&self->pinned, NULL, __ATOMIC_RELAXED);
	self->pins = 0;
	atomic_fetch_sub(&pinned_threads, 1);
}

sn_noinline void sn_thread_task_ends(struct sn_thread *self)
{
	self->ends = true;
	sn_thread_unpin(self);
}
