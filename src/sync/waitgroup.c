/* SPDX-License-Identifier: MIT */
/*
 * Wait groups. The word is the count, times two, plus WAITERS when the list is not empty.
 *
 * The count is changed by compare-and-swap, except for the step to zero with WAITERS set, which is
 * made under the list's lock, as is setting WAITERS. That step is the last access to the group; the
 * list of waits was copied before. A thread that finds zero, or was woken, may therefore free the
 * group immediately (waits.h). The waits stay valid as long as the lock is held.
 */
#include <sennit/waitgroup.h>

#include <errno.h>
#include <stdbool.h>

#include "sync/waits.h"

#define WAITERS 1u
#define ONE 2u
#define MOST (UINT32_MAX / ONE)

/* Acquire: what was done before the count reached zero is seen. */
static bool is_zero(sn_waitgroup *group)
{
	return __atomic_load_n(&group->word, __ATOMIC_ACQUIRE) < ONE;
}

/*
 * Makes the step from a word with WAITERS to zero. Returns false, and changes nothing, if the word
 * has another value.
 */
static bool end(sn_waitgroup *group, uint32_t word, const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(group);
	struct sn_thread *self = sn_waits_enter(call);
	struct sn_wait_chain chain = {0};
	struct sn_private_waits waits;
	bool ended;

	sn_lock(lock);
	waits = group->waits;
	group->waits = (struct sn_private_waits){0};
	SN_RACE_WINDOW();
	/* Release and acquire: a waiter sees everything done by all callers that have decremented
	 * the count. */
	ended = __atomic_compare_exchange_n(&group->word, &word, 0, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED);
	if (ended)
		sn_waits_claim_several(&waits, SN_WAITS_ALL, &chain);
	else
		group->waits = waits;
	sn_unlock(lock);
	sn_waits_wake(self, &chain, 0, SN_READY_LAST);
	sn_waits_leave(self);
	return ended;
}

static int add(sn_waitgroup *group, int n, const char *call)
{
	uint32_t word;

	if (sn_unlikely(!group))
		return -EINVAL;
	word = __atomic_load_n(&group->word, __ATOMIC_RELAXED);
	for (;;) {
		int64_t count = (int64_t)(word / ONE) + n;

		if (count < 0) {
			if (SENNIT_DEBUG)
				sn_misuse("%s() makes the count of a wait group negative", call);
			return -EINVAL;
		}
		if (count > MOST)
			return -EOVERFLOW;
		if (count == 0 && (word & WAITERS)) {
			if (end(group, word, call))
				return 0;
			word = __atomic_load_n(&group->word, __ATOMIC_RELAXED);
		} else if (__atomic_compare_exchange_n(&group->word, &word,
						       (uint32_t)count * ONE | (word & WAITERS),
						       true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
			return 0;
		}
	}
}

int sn_waitgroup_add(sn_waitgroup *group, int n)
{
	return add(group, n, __func__);
}

int sn_waitgroup_done(sn_waitgroup *group)
{
	return add(group, -1, __func__);
}

/* Sets WAITERS unless the count is zero. The lock is held. */
static bool announce(sn_waitgroup *group)
{
	uint32_t word = __atomic_load_n(&group->word, __ATOMIC_ACQUIRE);

	while (word >= ONE)
		if (__atomic_compare_exchange_n(&group->word, &word, word | WAITERS, true,
						__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

static int wait_inside(struct sn_thread *self, sn_waitgroup *group, int64_t deadline)
{
	struct sn_lock *lock = sn_waits_lock_of(group);
	struct sn_wait wait;
	int result;

	sn_lock(lock);
	if (!announce(group)) {
		sn_unlock(lock);
		return 0;
	}
	sn_waiter_init(&wait.waiter, self, deadline, 0);
	sn_waits_put_last(&group->waits, &wait);
	result = sn_wait_park(&wait, lock, "a wait group");
	if (result < 0) {
		if (wait.gave_up && !group->waits.first)
			__atomic_fetch_and(&group->word, ~WAITERS, __ATOMIC_RELAXED);
		sn_unlock(lock);
	}
	return result;
}

static int wait_until(sn_waitgroup *group, int64_t deadline, const char *call)
{
	struct sn_thread *self;
	int result;

	if (sn_unlikely(!group))
		return -EINVAL;
	if (is_zero(group))
		return 0;
	self = sn_waits_enter(call);
	result = wait_inside(self, group, deadline);
	sn_waits_leave(sn_thread_again(self));
	return result;
}

int sn_waitgroup_wait(sn_waitgroup *group)
{
	return wait_until(group, SN_NO_DEADLINE, __func__);
}

int sn_waitgroup_wait_until(sn_waitgroup *group, int64_t deadline)
{
	return wait_until(group, deadline, __func__);
}

int sn_waitgroup_try_wait(sn_waitgroup *group)
{
	return !group ? -EINVAL : is_zero(group) ? 0 : -EAGAIN;
}
