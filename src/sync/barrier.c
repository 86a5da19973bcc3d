/* SPDX-License-Identifier: MIT */
/*
 * Barriers. All fields are read and written under the lock of the list. The list has the parties
 * that have arrived; arrived is their number. The last party to arrive takes all of them off and
 * wakes them.
 *
 * A deadline or a cancellation may be ending one of these waits at that moment. The last party may
 * already have claimed the others, and claims cannot be given back, so the round cannot be called
 * off. Instead, the party whose wait was ended counts as arrived, too: when it is about to give up
 * and finds itself off the list, it returns 0. All parties of a round therefore agree that it is
 * complete.
 */
#include <sennit/barrier.h>

#include <errno.h>

#include "sync/waits.h"

static int wait_inside(struct sn_thread *self, sn_barrier *barrier, int64_t deadline)
{
	struct sn_lock *lock = sn_waits_lock_of(barrier);
	struct sn_wait_chain chain = {0};
	struct sn_wait wait;
	int result;

	sn_lock(lock);
	if (barrier->arrived + 1 >= barrier->parties) {
		if (barrier->parties > 0)
			barrier->arrived = 0;
		result = barrier->parties > 0 ? SN_BARRIER_SERIAL : -EINVAL;
		sn_waits_claim_several(&barrier->waits, SN_WAITS_ALL, &chain);
		sn_unlock(lock);
		sn_waits_wake(self, &chain, 0, SN_READY_LAST);
		return result;
	}
	barrier->arrived++;
	sn_waiter_init(&wait.waiter, self, deadline, 0);
	sn_waits_put_last(&barrier->waits, &wait);
	result = sn_wait_park(&wait, lock, "a barrier");
	if (result < 0) {
		if (wait.gave_up)
			barrier->arrived--;
		else
			result = 0;
		sn_unlock(lock);
	}
	return result;
}

static int wait_until(sn_barrier *barrier, int64_t deadline, const char *call)
{
	struct sn_thread *self;
	int result;

	if (!barrier)
		return -EINVAL;
	self = sn_waits_enter(call);
	result = wait_inside(self, barrier, deadline);
	sn_waits_leave(sn_thread_again(self));
	return result;
}

int sn_barrier_wait(sn_barrier *barrier)
{
	return wait_until(barrier, SN_NO_DEADLINE, __func__);
}

int sn_barrier_wait_until(sn_barrier *barrier, int64_t deadline)
{
	return wait_until(barrier, deadline, __func__);
}
