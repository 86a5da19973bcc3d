/* SPDX-License-Identifier: MIT */
/*
 * Tasks that wait for an object of the C library, in lists by its address.
 *
 * Contract. A waiter is on the stack of its task. Under its list's lock it is linked, and whoever
 * wakes it takes it out, into a chain of the caller's own. The caller gives each waiter of the
 * chain its permit when it has released the lock, because a thread that wakes a task may have to
 * wait for a processor. A permit is the last that anybody touches of a waiter, so one that has it
 * may return. A waiter whose time is over takes the lock, and itself out of the list. If it has
 * been taken out before, it was woken, and waits for its permit, which is on its way.
 *
 * A list's length counts the waiters that are in it. A waker that reads 0 without the lock need not
 * look into the list.
 */
#ifndef SENNIT_RUN_LIBRARY_WAITERS_H
#define SENNIT_RUN_LIBRARY_WAITERS_H

#include <string.h>

#include "adopted.h"

#define SN_RUN_LIST_BITS 12 /* objects with the same list delay each other's wakers */
#define SN_RUN_LISTS (1 << SN_RUN_LIST_BITS)

struct sn_run_waiter {
	const void *object;
	_Atomic int state;                  /* cond.c */
	struct sn_run_waiter *next, **link; /* link: NULL when it is in no list */
	sn_semaphore woken;
};

/* A line of the cache each. */
struct sn_run_list {
	pthread_mutex_t lock;
	_Atomic int length;
	_Atomic bool wanted;                /* sem.c */
	struct sn_run_waiter *first, **end; /* under lock; end: NULL while first is */
} __attribute__((aligned(64)));

/* Waiters that the caller has taken out, in their order. */
struct sn_run_chain {
	struct sn_run_waiter *first, *last;
};

/* The number of the object's list. */
static inline unsigned sn_run_list_of(const void *object)
{
	return (uint32_t)((uintptr_t)object >> 4) * UINT32_C(2654435761) >> (32 - SN_RUN_LIST_BITS);
}

static inline void sn_run_count(struct sn_run_list *list, int by)
{
	atomic_fetch_add(&list->length, by);
}

/* ---- under the lock ---- */

/* The waiter is counted. */
static inline void sn_run_link(struct sn_run_list *list, struct sn_run_waiter *waiter)
{
	if (!list->first)
		list->end = &list->first;
	waiter->next = NULL;
	waiter->link = list->end;
	*list->end = waiter;
	list->end = &waiter->next;
}

static inline void sn_run_take_out(struct sn_run_list *list, struct sn_run_waiter *waiter)
{
	*waiter->link = waiter->next;
	if (waiter->next)
		waiter->next->link = waiter->link;
	else
		list->end = waiter->link;
	waiter->link = NULL;
	sn_run_count(list, -1);
}

static inline void sn_run_move(struct sn_run_list *list, struct sn_run_waiter *waiter,
			       struct sn_run_chain *chain)
{
	sn_run_take_out(list, waiter);
	waiter->next = NULL;
	if (chain->first)
		chain->last->next = waiter;
	else
		chain->first = waiter;
	chain->last = waiter;
}

/* ---- without it ---- */

/* Gives a permit to each waiter of the chain. */
static inline void sn_run_wake(const struct sn_run_chain *chain)
{
	for (struct sn_run_waiter *waiter = chain->first, *next; waiter; waiter = next) {
		next = waiter->next;
		sn_world_release(&waiter->woken);
	}
}

static inline int sn_run_park(struct sn_run_waiter *self, int64_t deadline)
{
	int err;

	sn_foreign_tie();
	err = deadline == SN_NO_DEADLINE ? sn_semaphore_acquire(&self->woken)
					 : sn_semaphore_acquire_until(&self->woken, deadline);
	sn_foreign_untie();
	return err;
}

/* Parks the caller, which is in the list, until it is woken. Returns 0; -ETIMEDOUT; another
 * negative errno value if it could not wait: there was no memory for a timer. Then it is no longer
 * in the list. The lock is released by unlock(). */
static inline int sn_run_wait(struct sn_run_list *list, struct sn_run_waiter *self,
			      int64_t deadline, void (*unlock)(struct sn_run_list *list))
{
	bool waits;
	int err;

	atomic_fetch_add_explicit(&sn_run_counts.parked, 1, memory_order_relaxed);
	err = sn_run_park(self, deadline);
	if (err == 0)
		return 0;
	pthread_mutex_lock(&list->lock);
	waits = self->link;
	if (waits)
		sn_run_take_out(list, self);
	unlock(list);
	if (waits)
		return err;
	while (sn_run_park(self, SN_NO_DEADLINE) < 0)
		;
	return 0;
}

/* In a child of fork(): the waiters are tasks of the parent. Most lists were never used, and are
 * only read, which takes no memory. */
static inline void sn_run_forget_waiters(struct sn_run_list *lists)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	for (int i = 0; i < SN_RUN_LISTS; i++) {
		if (atomic_load(&lists[i].length) == 0 &&
		    memcmp(&lists[i].lock, &unlocked, sizeof unlocked) == 0)
			continue;
		pthread_mutex_init(&lists[i].lock, NULL);
		atomic_store(&lists[i].length, 0);
		lists[i].first = NULL;
	}
}

#endif
