/* SPDX-License-Identifier: MIT */
/*
 * Condition variables: a list of waits.
 *
 * A caller that waits puts itself into the list while it still holds the mutex. A thread that locks
 * the mutex later, changes what the mutex guards, and signals, therefore finds the wait in the
 * list. It may check without the list's lock whether the list is empty, because the mutex has
 * ordered the check after the entry. The wait may be ended before its task has parked.
 *
 * A signal claims the wait that it ends, and passes over one that a deadline or a cancellation has
 * already claimed. A wait that returns an error has therefore consumed no signal.
 */
#include <sennit/cond.h>

#include <errno.h>

#include "sync/mutex.h"
#include "sync/waits.h"
#include "task/cancel.h"

static int wait_inside(struct sn_thread *self, sn_cond *cond, sn_mutex *mutex, int64_t deadline,
		       const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(cond);
	struct sn_wait wait;
	int result = self ? sn_cancel_reason(self->task) : 0;

	if (!sn_mutex_is_locked(mutex, call))
		return -EPERM;
	if (result < 0)
		return result;
	sn_waiter_init(&wait.waiter, self, deadline, SN_WAITER_SHARED);
	sn_lock(lock);
	sn_waits_put_last(&cond->waits, &wait);
	sn_unlock(lock);
	SN_RACE_WINDOW();
	sn_mutex_unlock_inside(self, mutex, call);
	SN_RACE_WINDOW();
	/* If it was signalled, the condition variable may be gone by now. */
	if (wait.waiter.task)
		sn_task_waits(wait.waiter.task, "a condition", cond);
	result = sn_waiter_park(&wait.waiter, NULL);
	if (result < 0) {
		sn_lock(lock);
		sn_waits_remove(&wait);
		sn_unlock(lock);
	}
	/* This lock cannot fail, because it is neither cancellable nor limited by a deadline. */
	if (sn_mutex_lock_inside(sn_thread_again(self), mutex, SN_NO_DEADLINE,
				 SN_WAITER_UNCANCELLABLE, call) < 0)
		sn_fatal("%s() cannot lock its mutex again", call);
	return result;
}

static int wait_until(sn_cond *cond, sn_mutex *mutex, int64_t deadline, const char *call)
{
	struct sn_thread *self;
	int result;

	if (!cond || !mutex)
		return -EINVAL;
	self = sn_waits_enter(call);
	result = wait_inside(self, cond, mutex, deadline, call);
	sn_waits_leave(self);
	return result;
}

int sn_cond_wait(sn_cond *cond, sn_mutex *mutex)
{
	return wait_until(cond, mutex, SN_NO_DEADLINE, __func__);
}

int sn_cond_wait_until(sn_cond *cond, sn_mutex *mutex, int64_t deadline)
{
	return wait_until(cond, mutex, deadline, __func__);
}

static int signal_several(sn_cond *cond, uint32_t most, const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(cond);
	struct sn_wait_chain chain = {0};
	struct sn_thread *self;
	uint32_t n;

	if (!cond)
		return -EINVAL;
	if (!__atomic_load_n(&cond->waits.first, __ATOMIC_RELAXED))
		return 0;
	self = sn_waits_enter(call);
	sn_lock(lock);
	n = sn_waits_claim_several(&cond->waits, most, &chain);
	sn_unlock(lock);
	sn_waits_wake(self, &chain, 0, SN_READY_LAST);
	sn_waits_leave(self);
	return (int)n;
}

int sn_cond_signal(sn_cond *cond)
{
	return signal_several(cond, 1, __func__);
}

int sn_cond_broadcast(sn_cond *cond)
{
	return signal_several(cond, SN_WAITS_ALL, __func__);
}
