/* SPDX-License-Identifier: MIT */
#include "task/cancel.h"

#include "sched/side.h"
#include "task/waiter.h"

/* The number of locks: so many that tasks on a large machine seldom share one. With 64, the tasks
 * of 64 processors nearly always did (docs/scale.md). They take 128 KiB of address space, at two
 * cache lines each, of which only pages with a used lock take memory. A fork() takes every lock, so
 * after it all of these pages take memory, in the child as well. */
#define LOCKS 1024

static struct {
	_Alignas(SN_CACHE_LINE) struct sn_lock lock;
} locks[LOCKS] = {[0 ... LOCKS - 1] = {SN_LOCK_INIT(SN_RANK_CANCEL)}};

struct sn_lock *sn_cancel_lock_of(const struct sn_task *task)
{
	uint32_t hash = (uint32_t)((uintptr_t)task >> 6) * 2654435761u; /* aligned to 64 */

	return &locks[hash >> 22].lock;
}
_Static_assert(LOCKS == 1 << (32 - 22), "the hash has as many values as there are locks");

int sn_cancel_publish(struct sn_task *task, struct sn_waiter *waiter)
{
	struct sn_lock *lock = sn_cancel_lock_of(task);
	int reason;

	sn_lock(lock);
	reason = sn_cancel_reason(task);
	if (reason == 0)
		task->in_waiter = waiter;
	sn_unlock(lock);
	return reason;
}

void sn_cancel_retract(struct sn_task *task)
{
	struct sn_lock *lock = sn_cancel_lock_of(task);

	sn_lock(lock);
	task->in_waiter = NULL;
	task->in_side = NULL;
	sn_unlock(lock);
}

struct sn_task *sn_cancel_take(struct sn_task *task)
{
	struct sn_lock *lock = sn_cancel_lock_of(task);
	struct sn_task *taken = NULL;
	int reason;

	sn_lock(lock);
	if (task->in_waiter && (reason = sn_cancel_reason(task)) != 0)
		taken = sn_waiter_end(task->in_waiter, reason);
	else if (task->in_side && (reason = sn_cancel_reason(task)) != 0 &&
		 sn_side_cancel(task->in_side, task, reason))
		taken = task;
	sn_unlock(lock);
	return taken;
}

void sn_cancel_fork(enum sn_fork_phase phase)
{
	for (int i = 0; i < LOCKS; i++)
		sn_fork_lock(&locks[i].lock, phase);
}
