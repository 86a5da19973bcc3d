/* SPDX-License-Identifier: MIT */
/*
 * Counting semaphores. The word is the number of permits, times two, plus WAITERS.
 *
 * WAITERS is set only when there are no permits. Permits that are released while it is set go to
 * the waiters, under the list's lock. With WAITERS the number of permits is therefore zero, and
 * only a thread that holds the lock changes the word. Without WAITERS everything is done by
 * compare-and-swap. The store that ends a release is its last access to the semaphore: see waits.h.
 */
#include <sennit/semaphore.h>

#include <errno.h>
#include <stdbool.h>

#include "sync/waits.h"

#define WAITERS 1u
#define PERMIT 2u

/* Acquire: what was done before the permit was released is seen. */
static bool take(sn_semaphore *s)
{
	uint32_t word = __atomic_load_n(&s->word, __ATOMIC_RELAXED);

	while (word >= PERMIT)
		if (__atomic_compare_exchange_n(&s->word, &word, word - PERMIT, true,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* Sets WAITERS when there is no permit. The lock is held. */
static bool announce(sn_semaphore *s)
{
	uint32_t word = 0;

	return __atomic_compare_exchange_n(&s->word, &word, WAITERS, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED) ||
	       word == WAITERS;
}

static int acquire(sn_semaphore *s, int64_t deadline, const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(s);
	struct sn_thread *self = sn_waits_enter(call);
	struct sn_wait wait;
	int result;

	for (;;) {
		sn_lock(lock);
		if (announce(s))
			break;
		sn_unlock(lock);
		if (take(s)) {
			sn_waits_leave(self);
			return 0;
		}
	}
	sn_waiter_init(&wait.waiter, self, deadline, 0);
	sn_waits_put_last(&s->waits, &wait);
	result = sn_wait_park(&wait, lock, "a semaphore");
	if (result < 0) {
		if (wait.gave_up && !s->waits.first)
			__atomic_store_n(&s->word, 0, __ATOMIC_RELAXED);
		sn_unlock(lock);
	}
	sn_waits_leave(sn_thread_again(self));
	return result;
}

int sn_semaphore_acquire(sn_semaphore *s)
{
	if (sn_unlikely(!s))
		return -EINVAL;
	return sn_likely(take(s)) ? 0 : acquire(s, SN_NO_DEADLINE, __func__);
}

int sn_semaphore_acquire_until(sn_semaphore *s, int64_t deadline)
{
	if (sn_unlikely(!s))
		return -EINVAL;
	return sn_likely(take(s)) ? 0 : acquire(s, deadline, __func__);
}

int sn_semaphore_try_acquire(sn_semaphore *s)
{
	return sn_unlikely(!s) ? -EINVAL : take(s) ? 0 : -EAGAIN;
}

/* Gives the permits to the waiters. Returns false, and does nothing, if WAITERS is no longer
 * set. */
static bool give(sn_semaphore *s, uint32_t n, const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(s);
	struct sn_thread *self = sn_waits_enter(call);
	struct sn_wait_chain chain = {0};
	bool waited;

	sn_lock(lock);
	waited = __atomic_load_n(&s->word, __ATOMIC_RELAXED) == WAITERS;
	if (waited) {
		n -= sn_waits_claim_several(&s->waits, n, &chain);
		/* Release: a caller that takes one of the rest sees what was done before. */
		if (!s->waits.first)
			__atomic_store_n(&s->word, n * PERMIT, __ATOMIC_RELEASE);
	}
	sn_unlock(lock);
	sn_waits_wake(self, &chain, 0, SN_READY_LAST);
	sn_waits_leave(self);
	return waited;
}

/* Not for signal handlers, with one exception: sennit-run's sem_post() calls this in handlers that
 * have interrupted a task's own code (tools/run/library/sem.c says why it may). No lock of the
 * runtime is held there, because each is taken with lease.inside set, after
 * sn_waits_enter(). */
int sn_semaphore_release(sn_semaphore *s, int n)
{
	uint32_t word;

	if (!s || n < 1)
		return -EINVAL;
	word = __atomic_load_n(&s->word, __ATOMIC_RELAXED);
	for (;;) {
		if (word == WAITERS) {
			if (give(s, (uint32_t)n, __func__))
				return 0;
			word = __atomic_load_n(&s->word, __ATOMIC_RELAXED);
		} else if ((uint32_t)n > SN_SEMAPHORE_MAX - word / PERMIT) {
			return -EOVERFLOW;
		} else if (__atomic_compare_exchange_n(&s->word, &word, word + (uint32_t)n * PERMIT,
						       true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
			return 0;
		}
	}
}
