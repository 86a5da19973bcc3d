/* SPDX-License-Identifier: MIT */
#include "task/join.h"

#include <errno.h>

#include "sched/foreign.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "task/cancel.h"
#include "task/life.h"
#include "task/waiter.h"
#include "wait/lock.h"

/* The task of a handle. A claim succeeds only while its block has this generation. */
struct target {
	struct sn_task *task;
	uint32_t generation;
};

/* Finds the task of a handle. Returns 0, -EINVAL for NULL, or -ESRCH if the task was freed. */
static int find(struct target *target, const sn_task *handle)
{
	struct sn_task *task = sn_handle_object(handle);

	if (!task)
		return -EINVAL;
	/* Relaxed: see sn_task_of(). */
	*target = (struct target){task, sn_task_generation(task)};
	return sn_handle_fits(handle, target->generation) ? 0 : -ESRCH;
}

/* Changes the join word from a state to `to`: claims a task that has ended, or begins to wait. */
static bool claim(struct target target, enum sn_join_state from, uintptr_t to)
{
	uintptr_t word = sn_join_word(from, target.generation);

	return atomic_compare_exchange_strong_explicit(&target.task->join, &word, to,
						       memory_order_acq_rel, memory_order_acquire);
}

/* Why a claim has failed: -EBUSY if another task joins the task, -EINVAL if it was detached, -ESRCH
 * if it was freed. */
static int why_not(struct target target)
{
	uintptr_t word = atomic_load_explicit(&target.task->join, memory_order_acquire);

	if (sn_task_generation(target.task) != target.generation)
		return -ESRCH;
	return word == sn_join_word(SN_JOIN_DETACHED, target.generation) ? -EINVAL : -EBUSY;
}

/* If the joiner does not get the claim, this is the last time that it touches the task. */
static bool commit_join(struct sn_thread *self, struct sn_task *joiner, void *arg)
{
	/* A copy, because the original is on the stack of the joiner, which may run as soon as its
	 * address is in the word. */
	const struct target target = *(struct target *)arg;

	(void)self;
	if (claim(target, SN_JOIN_RUNNING, (uintptr_t)joiner))
		return true;
	if (!claim(target, SN_JOIN_ENDED, (uintptr_t)joiner))
		joiner->wake_reason = why_not(target);
	return false;
}

/* ---- waits that may be given up: see join.h ---- */

static bool begin(struct sn_join_wait *wait, struct sn_waiter *waiter, struct target target)
{
	*wait = (struct sn_join_wait){waiter, target.task, target.generation, false};
	return claim(target, SN_JOIN_RUNNING, (uintptr_t)wait | SN_JOIN_WAITER);
}

/* Called after the waiter was ended: returns whether the task's end has ended it. Otherwise puts
 * RUNNING back, so that the task does not find the wait any more. */
static bool end(struct sn_join_wait *wait)
{
	struct sn_lock *lock = sn_cancel_lock_of(wait->task);
	uintptr_t word = (uintptr_t)wait | SN_JOIN_WAITER;

	if (wait->ended)
		return true;
	sn_lock(lock);
	atomic_compare_exchange_strong_explicit(&wait->task->join, &word,
						sn_join_word(SN_JOIN_RUNNING, wait->generation),
						memory_order_acq_rel, memory_order_acquire);
	sn_unlock(lock);
	return false;
}

static int join_patiently(struct sn_thread *self, struct target target, int64_t deadline)
{
	struct sn_waiter waiter;
	struct sn_join_wait wait;
	int err;

	sn_waiter_init(&waiter, self, deadline, SN_WAITER_SHARED);
	if (!begin(&wait, &waiter, target))
		return claim(target, SN_JOIN_ENDED, (uintptr_t)self->task) ? 0 : why_not(target);
	err = sn_waiter_park(&waiter, NULL);
	return end(&wait) ? 0 : err;
}

/* Takes the result of a task that was claimed, and frees it. self is the thread on which the caller
 * runs now. */
static void finish(struct sn_thread *self, struct sn_task *task, int *result)
{
	if (result)
		*result = task->result;
	sn_task_free(self, task);
}

bool sn_join_looks_over(const sn_task *handle)
{
	struct target target;

	return find(&target, handle) < 0 || target.task == sn_thread_self()->task ||
	       atomic_load_explicit(&target.task->join, memory_order_acquire) !=
		       sn_join_word(SN_JOIN_RUNNING, target.generation);
}

int sn_join_now(struct sn_thread *self, const sn_task *handle, int *result)
{
	struct target target;
	int err = find(&target, handle);

	if (err < 0)
		return err;
	if (target.task == self->task)
		return -EDEADLK;
	if (atomic_load_explicit(&target.task->join, memory_order_acquire) ==
	    sn_join_word(SN_JOIN_RUNNING, target.generation))
		return -EAGAIN;
	if (!claim(target, SN_JOIN_ENDED, (uintptr_t)self->task))
		return why_not(target);
	finish(self, target.task, result);
	return 0;
}

int sn_join_begin(struct sn_join_wait *wait, struct sn_waiter *waiter, const sn_task *handle)
{
	struct target target;

	if (find(&target, handle) < 0 || target.task == waiter->task)
		return -EAGAIN;
	return begin(wait, waiter, target) ? 0 : -EAGAIN;
}

bool sn_join_end(struct sn_join_wait *wait, int *result)
{
	if (!end(wait))
		return false;
	finish(sn_thread_self(), wait->task, result);
	return true;
}

/* ---- calls ---- */

/* Joins a task. Called inside the runtime. */
static int join(struct sn_thread *self, const sn_task *handle, int *result, int64_t deadline)
{
	struct sn_task *me = self->task;
	struct target target;
	uintptr_t word;
	int err = find(&target, handle);

	if (err < 0)
		return err;
	if (target.task == me)
		return -EDEADLK;
	err = sn_cancel_reason(me);
	sn_task_waits(me, "a task's end", handle);
	word = atomic_load_explicit(&target.task->join, memory_order_acquire);
	if (word == sn_join_word(SN_JOIN_ENDED, target.generation))
		err = claim(target, SN_JOIN_ENDED, (uintptr_t)me) ? 0 : why_not(target);
	else if (word != sn_join_word(SN_JOIN_RUNNING, target.generation))
		err = why_not(target);
	else if (err == 0 && (deadline || sn_cancel_possible(me)))
		err = join_patiently(self, target, deadline);
	else if (err == 0)
		err = sn_park(self, commit_join, &target);
	if (err < 0)
		return err;
	finish(sn_thread_self(), target.task, result);
	return 0;
}

int sn_join_until(sn_task *task, int *result, int64_t deadline)
{
	struct sn_thread *self = sn_runtime_enter();
	int err;

	if (!self)
		return -ENOTSUP;
	err = join(self, task, result, deadline);
	sn_runtime_leave();
	return err;
}

int sn_join(sn_task *task, int *result)
{
	return sn_join_until(task, result, SN_NO_DEADLINE);
}

static int detach(struct sn_thread *self, const sn_task *handle)
{
	struct target target;
	int err = find(&target, handle);

	if (err < 0)
		return err;
	if (claim(target, SN_JOIN_RUNNING, sn_join_word(SN_JOIN_DETACHED, target.generation)))
		return 0;
	if (!claim(target, SN_JOIN_ENDED, sn_join_word(SN_JOIN_DETACHED, target.generation)))
		return why_not(target);
	sn_task_free(self, target.task);
	return 0;
}

int sn_detach(sn_task *task)
{
	struct sn_thread *self;
	int err;

	if (!task)
		return 0;
	self = sn_runtime_enter();
	if (self) {
		err = detach(self, task);
		sn_runtime_leave();
		return err;
	}
	err = sn_foreign_enter();
	if (err < 0)
		return err;
	err = detach(NULL, task);
	sn_foreign_leave();
	return err;
}
