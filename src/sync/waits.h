/* SPDX-License-Identifier: MIT */
/*
 * What the locks share: lists of waits, and the locks of these lists.
 *
 * The lists' locks are in a table, chosen by the address of the object that is waited for, rather
 * than in that object. A caller that releases a waiter can therefore make its last access to the
 * object by one store to the object's word, and still hold the list's lock. The released waiter, or
 * a newcomer that finds the object free, may free the memory immediately. A lock inside the object
 * would be touched once more, to release it (the mistake of many semaphores). A table also keeps
 * the objects that programs embed small. Two addresses that share a lock only wait for each other's
 * list operations, about 50 ns each.
 *
 * A wait lies on the stack of the waiting party. The list's lock guards it, except the waiter's own
 * words, and the list that it is in. (wait.list may be the old address of a list that was moved.) A
 * caller that ends waits takes them off their list under the lock, claiming each, and wakes them
 * when it has released the lock: a claimed waiter stays until then. A wait that a deadline or a
 * cancellation has already claimed is dropped from the list.
 *
 * Many at once. A thread that wakes tasks is inside the runtime, so nobody can take its processor;
 * 100,000 wake-ups would hold the processor for tens of milliseconds. Between two batches the
 * thread therefore leaves the runtime and enters it again, which is where it lends a processor that
 * it has had for too long (sched/lease.h). If the run ends there, the tasks that were to be woken
 * end with it; threads of the program do not, so they are woken first.
 *
 * Order of locks: a timer heap's lock, then one of these, then nothing.
 *
 * Rejected: moving waits from a condition variable's list to its mutex's when they are signalled.
 * It saves a switch to a task that then finds the mutex taken. But a deadline or a cancellation may
 * end the wait at any moment in between, and would first have to find out which list it is in.
 */
#ifndef SENNIT_SYNC_WAITS_H
#define SENNIT_SYNC_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/base.h>

#include "base/fork.h"
#include "sched/foreign.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "task/waiter.h"
#include "wait/lock.h"

struct sn_wait {
	struct sn_wait *next, *prev;
	struct sn_private_waits *list; /* NULL: not in a list */
	bool gave_up;                  /* the wait was in its list when it failed: see
	                                * sn_wait_park() */
	int64_t ticks;                 /* ticker.c: the result of the wait */
	int64_t missed_at; /* mutex.c: when the waiter, once woken, found the mutex taken; 0:
	                    * never */
	struct sn_waiter waiter;
};

/* Claimed waits, linked by next, which are woken after the lock has been released: those of
 * threads, then those of tasks. */
struct sn_wait_chain {
	struct sn_wait *first, *last;
	struct sn_wait *last_thread; /* NULL: there is none */
};

/* Wake-ups in a batch: at some 200 ns each, about 50 us. */
#define SN_WAKE_BATCH 256

/* Called between two batches, without a lock. Does not return if the run ends. self stays valid. */
static inline void sn_wakes_pause(struct sn_thread *self)
{
	if (self) {
		sn_runtime_leave();
		sn_runtime_enter();
	}
}

struct sn_lock *sn_waits_lock_of(const volatile void *address);

/* The lock is held. */
void sn_waits_put_first(struct sn_private_waits *list, struct sn_wait *wait);
void sn_waits_put_last(struct sn_private_waits *list, struct sn_wait *wait);
/* Takes the wait off its list. Returns false, and does nothing, if it has already been claimed or
 * dropped. */
bool sn_waits_remove(struct sn_wait *wait);

/* Takes the first wait that it can claim off the list. NULL: there is none, and the list is empty.
 * The lock is held. */
struct sn_wait *sn_waits_claim(struct sn_private_waits *list);

/* Claims the first n waits, or all (SN_WAITS_ALL), and appends them to the chain. Returns how many
 * it has claimed. The lock is held. */
#define SN_WAITS_ALL UINT32_MAX
uint32_t sn_waits_claim_several(struct sn_private_waits *list, uint32_t n,
				struct sn_wait_chain *chain);

/* Wakes the waits of the chain, in their order. Called without a lock, when the caller has nothing
 * left to do for others, because with many tasks it may not return (sn_wakes_pause()). */
void sn_waits_wake(struct sn_thread *self, struct sn_wait_chain *chain, int result,
		   enum sn_ready_place place);

/*
 * Releases the lock and waits until the wait, which is in a list, is ended. After an error (a
 * negative result) the caller has the lock again, and the wait is in no list. If gave_up is true,
 * the wait was still in its list, and the caller adjusts the object for the waiters that remain. If
 * gave_up is false, the wait had been dropped, and the object may be gone. In either case the
 * caller releases the lock. kind: what kind of object it is, for reports. Parks, so self is stale
 * afterwards.
 */
int sn_wait_park(struct sn_wait *wait, struct sn_lock *lock, const char *kind);

/* The calling thread's block after a park: NULL if it was NULL before. */
static inline struct sn_thread *sn_thread_again(struct sn_thread *self)
{
	return self ? sn_thread_self() : NULL;
}

/* Begin and end calls that the program's own threads may make, too. Those are marked, because they
 * take the locks of lists, which a fork() takes, and of channels, for which other threads may wait
 * with such a lock: a signal handler must not wait for them (sched/foreign.h). */
static inline struct sn_thread *sn_waits_enter(const char *call)
{
	struct sn_thread *self = sn_runtime_enter_for(call);

	if (sn_unlikely(!self))
		sn_foreign_mark();
	return self;
}

static inline void sn_waits_leave(bool task)
{
	if (sn_likely(task))
		sn_runtime_leave();
	else
		sn_foreign_unmark();
}

void sn_waits_fork(enum sn_fork_phase phase);
void sn_scopes_fork(enum sn_fork_phase phase); /* scope_memory.c */

/* Identifies the caller, for reports of mistakes: a task's address, or one that belongs to the
 * thread. */
uintptr_t sn_caller(void);

#endif
