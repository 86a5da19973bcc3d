/* SPDX-License-Identifier: MIT */
/*
 * Once flags. The word is NEW, then RUNNING while a caller runs its function, then DONE, which is
 * final. All changes are made under the list's lock; only DONE is checked without it. If the
 * function fails while others wait, the first of them runs its own function next, and the word
 * stays RUNNING.
 *
 * owner identifies the caller that runs its function, which is the only one that writes it. Other
 * callers that read it may see any value except their own.
 */
#include <sennit/once.h>

#include <errno.h>
#include <stdbool.h>

#include "sync/waits.h"
#include "wait/checked.h"

enum { NEW = 0, RUNNING = 1, DONE = 2 };

/* The result of a wait after which the waiter runs its own function. */
#define RUN 1

static int wait_inside(struct sn_thread *self, sn_once_flag *once, int64_t deadline,
		       const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(once);
	struct sn_wait wait;
	int result;

	if (__atomic_load_n(&once->owner, __ATOMIC_RELAXED) == sn_caller()) {
		if (SENNIT_DEBUG)
			sn_misuse("%s() called by the function that it is running", call);
		return -EDEADLK;
	}
	sn_lock(lock);
	if (once->word != RUNNING) {
		result = once->word == NEW ? RUN : 0;
		if (result == RUN)
			__atomic_store_n(&once->word, RUNNING, __ATOMIC_RELAXED);
		sn_unlock(lock);
		return result;
	}
	sn_waiter_init(&wait.waiter, self, deadline, 0);
	sn_waits_put_last(&once->waits, &wait);
	result = sn_wait_park(&wait, lock, "a once");
	if (result < 0)
		sn_unlock(lock);
	return result;
}

static void finish(sn_once_flag *once, bool succeeded, const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(once);
	struct sn_thread *self = sn_waits_enter(call);
	struct sn_wait_chain chain = {0};

	__atomic_store_n(&once->owner, 0, __ATOMIC_RELAXED);
	sn_lock(lock);
	sn_waits_claim_several(&once->waits, succeeded ? SN_WAITS_ALL : 1, &chain);
	if (succeeded)
		__atomic_store_n(&once->word, DONE, __ATOMIC_RELEASE);
	else if (!chain.first)
		__atomic_store_n(&once->word, NEW, __ATOMIC_RELAXED);
	sn_unlock(lock);
	sn_waits_wake(self, &chain, succeeded ? 0 : RUN, SN_READY_LAST);
	sn_waits_leave(self);
}

static int run_or_wait(sn_once_flag *once, sn_fn *fn, void *arg, int64_t deadline, const char *call)
{
	struct sn_thread *self;
	int result;

	if (!once || !fn)
		return -EINVAL;
	if (sn_once_done(once))
		return 0;
	self = sn_waits_enter(call);
	result = wait_inside(self, once, deadline, call);
	sn_waits_leave(self);
	if (result != RUN)
		return result;
	__atomic_store_n(&once->owner, sn_caller(), __ATOMIC_RELAXED);
	sn_checked_callback("function");
	result = fn(arg);
	finish(once, result >= 0, call);
	return result < 0 ? result : 0;
}

int sn_once_until(sn_once_flag *once, sn_fn *fn, void *arg, int64_t deadline)
{
	return run_or_wait(once, fn, arg, deadline, __func__);
}

int sn_once(sn_once_flag *once, sn_fn *fn, void *arg)
{
	return run_or_wait(once, fn, arg, SN_NO_DEADLINE, __func__);
}

int sn_once_done(const sn_once_flag *once)
{
	/* Acquire: what the function did is seen. */
	return once && __atomic_load_n(&once->word, __ATOMIC_ACQUIRE) == DONE;
}
