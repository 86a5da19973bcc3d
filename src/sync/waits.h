/* SPDX-License-Identifier: MIT */
/*
 * What the locks share: lists of those who wait for them, and the locks of these lists.
 *
 * The lists' locks lie in a table, chosen by the address of what is waited for, instead of in it.
 * So who lets somebody go can give up the last claim that he has on its memory by one store to its
 * own word, and still hold the list's lock: whoever was let go, or comes and finds it free, may
 * free the memory at once. A lock inside would be touched once more, to release it (the mistake of
 * many semaphores). It also keeps what programs embed small. Two addresses that share a lock only
 * wait for each other's list operations, some 50 ns each.
 *
 * A wait lies on the stack of who waits. Everything in it but the waiter's own words, and the list
 * that it is in, is guarded by the lock (list: also what a list that was moved was before). Who
 * ends waits takes them off their list under the lock, claiming each, and wakes them when it has
 * released it: a claimed waiter stays until then. One whose claim is taken already, by its
 * deadline or a cancellation, is dropped from the list.
 *
 * Order of locks: a timer heap's lock, then one of these, then nothing.
 *
 * Rejected: moving waits from a condition's list to its mutex's when they are signalled. It saves
 * a switch to a task that then finds the mutex taken, but a deadline or a cancellation may end the
 * wait at any moment in between, in which list it then has to be looked for.
 */
#ifndef SENNIT_SYNC_WAITS_H
#define SENNIT_SYNC_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/base.h>

#include "sched/fork.h"
#include "sched/schedule.h"
#include "sched/thread.h"
#include "sched/waiter.h"
#include "wait/lock.h"

struct sn_wait {
	struct sn_wait *next, *prev;
	struct sn__waits *list; /* NULL: in none */
	bool gave_up;           /* see sn_wait_park() */
	int64_t ticks;          /* ticker.c: what the wait is ended with */
	int64_t missed_at;      /* mutex.c: when it was woken in vain; 0: it was not */
	struct sn_waiter waiter;
};

/* What is claimed, linked by next, to be woken without the lock. */
struct sn_wait_chain {
	struct sn_wait *first, *last;
};

struct sn_lock *sn_waits_lock_of(const volatile void *address);

/* With the lock held. */
void sn_waits_put_first(struct sn__waits *list, struct sn_wait *wait);
void sn_waits_put_last(struct sn__waits *list, struct sn_wait *wait);
/* False, and nothing is done, when it has been claimed or dropped already. */
bool sn_waits_remove(struct sn_wait *wait);

/* Takes the first that it can claim off the list; NULL when there is none, and the list is empty.
 * With the lock held. */
struct sn_wait *sn_waits_claim(struct sn__waits *list);

/* The first n, or all; returns how many they were. With the lock held. */
#define SN_WAITS_ALL UINT32_MAX
uint32_t sn_waits_claim_several(struct sn__waits *list, uint32_t n, struct sn_wait_chain *chain);

/* Wakes them in their order. The lock is not held. */
void sn_waits_wake(struct sn_thread *self, struct sn_wait_chain *chain, int result,
		   enum sn_ready_place place);

/*
 * Waits, put into a list, until the wait is ended; releases the lock. After an error (a negative
 * result) it has the lock again, and the wait is in no list; if gave_up is true it still was in
 * its list, the caller does what leaving that means for the others, and in any case releases the
 * lock. If false it had been dropped, and what it waited for may be gone. kind: what it is,
 * for reports. Parks: self is stale.
 */
int sn_wait_park(struct sn_wait *wait, struct sn_lock *lock, const char *kind);

/* The calling thread's block after a park: NULL if it was before. */
static inline struct sn_thread *sn_thread_again(struct sn_thread *self)
{
	return self ? sn_thread_self() : NULL;
}

/* sn_runtime_leave() for calls that the program's own threads may make too. */
static inline void sn_runtime_leave_if(struct sn_thread *self)
{
	if (self)
		sn_runtime_leave();
}

void sn_waits_fork(enum sn_fork_phase phase);
void sn_scopes_fork(enum sn_fork_phase phase); /* scope.c */

/* Who calls, for reports of mistakes: a task's address, or one that each thread has of its own. */
uintptr_t sn_caller(void);

#endif
