/* SPDX-License-Identifier: MIT */
/*
 * Pinning: a task that may run on one thread only, and that thread, which may run no other task.
 *
 * Contract. sn_pin() and sn_unpin() (blocking.c) count; here are the first pin and the last unpin.
 * Fewer threads are pinned than there may be.
 *
 * A pinned task may make its thread different from the others: give it a namespace, an identity,
 * CPUs, or thread-locals. By unpinning it says that other tasks may have the thread as it is. A
 * task that ends without that takes the thread with it: the thread runs no other, gives its
 * processor away (idle.c) and ends. Either way, what was changed does not spread, because a thread
 * to which a task was pinned starts no others (birth.h).
 *
 * Rejected: ending the thread at the last unpin as well, because a pin around a few calls of a
 * library would then cost a thread. Looking whether the task has changed anything: some thirty
 * system calls, which would still miss thread-locals.
 *
 * Who may write what:
 *   thread->pinned, pins, altered, ends   the thread itself
 *   task->bound            see task.h
 *   how many are pinned    each pinned thread, for itself
 */
#include <errno.h>
#include <stdatomic.h>

#include "sched/task.h"
#include "sched/thread.h"
#include "sched/threads.h"

static _Atomic uint32_t pinned_threads;

void sn_pins_begin(void)
{
	atomic_store(&pinned_threads, 0);
}

/* At least one thread must remain to run everything else, and to serve the poller and the
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
