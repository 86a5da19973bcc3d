/* SPDX-License-Identifier: MIT */
#include "sync/waits.h"

#include "base/fork.h"
#include "sched/task.h"

/* As many as in task/cancel.c, which gives the reason. */
#define LOCKS 1024

static struct {
	_Alignas(SN_CACHE_LINE) struct sn_lock lock;
} locks[LOCKS] = {[0 ... LOCKS - 1] = {SN_LOCK_INIT(SN_RANK_WAITS)}};

struct sn_lock *sn_waits_lock_of(const volatile void *address)
{
	/* Neighbours in an array of locks should differ. They are at least 16 bytes apart. */
	uint32_t hash = (uint32_t)((uintptr_t)address >> 4) * 2654435761u;

	return &locks[hash >> 22].lock;
}
_Static_assert(LOCKS == 1 << (32 - 22), "the hash has as many values as there are locks");

void sn_waits_put_first(struct sn_private_waits *list, struct sn_wait *wait)
{
	wait->list = list;
	wait->prev = NULL;
	wait->next = list->first;
	if (wait->next)
		wait->next->prev = wait;
	else
		list->last = wait;
	list->first = wait;
}

void sn_waits_put_last(struct sn_private_waits *list, struct sn_wait *wait)
{
	wait->list = list;
	wait->next = NULL;
	wait->prev = list->last;
	/* list->first is stored atomically, here and below, because sn_cond_signal() reads it
	 * without the lock. */
	if (wait->prev)
		wait->prev->next = wait;
	else
		__atomic_store_n(&list->first, (void *)wait, __ATOMIC_RELAXED);
	list->last = wait;
}

static void take_off(struct sn_private_waits *list, struct sn_wait *wait)
{
	if (wait->next)
		wait->next->prev = wait->prev;
	else
		list->last = wait->prev;
	if (wait->prev)
		wait->prev->next = wait->next;
	else
		__atomic_store_n(&list->first, (void *)wait->next, __ATOMIC_RELAXED);
	wait->list = NULL;
}

struct sn_wait *sn_waits_claim(struct sn_private_waits *list)
{
	struct sn_wait *wait;

	while ((wait = list->first) != NULL) {
		take_off(list, wait);
		SN_RACE_WINDOW();
		if (sn_waiter_claim(&wait->waiter))
			return wait;
	}
	return NULL;
}

static void append(struct sn_wait_chain *chain, struct sn_wait *wait)
{
	struct sn_wait *before = wait->waiter.task ? chain->last : chain->last_thread;

	wait->next = before ? before->next : chain->first;
	if (before)
		before->next = wait;
	else
		chain->first = wait;
	if (!wait->next)
		chain->last = wait;
	if (!wait->waiter.task)
		chain->last_thread = wait;
}

uint32_t sn_waits_claim_several(struct sn_private_waits *list, uint32_t n,
				struct sn_wait_chain *chain)
{
	struct sn_wait *wait;
	uint32_t claimed = 0;

	while (claimed < n && (wait = sn_waits_claim(list)) != NULL) {
		append(chain, wait);
		claimed++;
	}
	return claimed;
}

void sn_waits_wake(struct sn_thread *self, struct sn_wait_chain *chain, int result,
		   enum sn_ready_place place)
{
	struct sn_wait *wait = chain->first;
	unsigned tasks = 0;

	while (wait) {
		struct sn_wait *next = wait->next; /* read before the wait is gone */

		if (wait->waiter.task && ++tasks % SN_WAKE_BATCH == 0)
			sn_wakes_pause(self);
		sn_waiter_wake(self, &wait->waiter, result, place);
		wait = next;
	}
}

bool sn_waits_remove(struct sn_wait *wait)
{
	if (!wait->list)
		return false;
	take_off(wait->list, wait);
	return true;
}

int sn_wait_park(struct sn_wait *wait, struct sn_lock *lock, const char *kind)
{
	int result;

	if (wait->waiter.task)
		sn_task_waits(wait->waiter.task, kind, wait->list);
	result = sn_waiter_park(&wait->waiter, lock);

	if (result < 0) {
		sn_lock(lock);
		wait->gave_up = sn_waits_remove(wait);
	}
	return result;
}

uintptr_t sn_caller(void)
{
	static __thread char here;
	struct sn_thread *self = sn_thread_self();

	return self && self->task ? (uintptr_t)self->task : (uintptr_t)&here;
}

void sn_waits_fork(enum sn_fork_phase phase)
{
	for (int i = 0; i < LOCKS; i++)
		sn_fork_lock(&locks[i].lock, phase);
}
