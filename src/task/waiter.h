/* SPDX-License-Identifier: MIT */
/*
 * A waiter: one wait of a task, or of a thread of the program's own, for something that others end.
 * It lies on the stack of the task or thread that waits. Everything in the sync layer waits through
 * it.
 *
 * A wait can be ended by what it waits for, by its deadline, or by the cancellation of the task's
 * scope. Exactly one of them gets the right to end it (sn_waiter_claim()), does what belongs to its
 * success, and then wakes the waiter with the result (sn_waiter_wake()). The others find the claim
 * taken and leave the waiter alone.
 *
 * The state is three bits, each set once, by an atomic or:
 *
 *   CLAIMED  a party ends the wait; set by claim
 *   DONE     result is written; set by wake
 *   PARKED   the task's registers are saved; set by the commit of its park
 *
 * Whichever of DONE and PARKED comes later makes the task runnable. If wake finds PARKED, it makes
 * the task runnable; if the commit finds DONE, the task does not stay parked. So a waiter can be
 * ended before it has parked. This allows it to be put into several queues, and its timer to be
 * started, one after the other.
 *
 * Memory. A party that may claim must know that the waiter still exists. So queues that hold it are
 * locked, and the waiting task takes it out of them, under their locks, before it returns. Likewise
 * the timer is stopped and the cancellation retracted. After wake the waiter is not touched.
 *
 * When the runtime ends, the tasks that still wait are abandoned and their stacks are freed, while
 * queues may still hold their waiters. So a queue that tasks have waited in must not be used after
 * its run; the public headers say so.
 *
 * Exclusive waiters. A waiter without a deadline, in one queue, of a task that cannot be cancelled,
 * is ended only by a party that finds it in that queue, under the queue's lock. The lock is then
 * held until the commit of the park (unlock in sn_waiter_park()), so no bit is needed at all: claim
 * is true, and wake makes the task runnable. This is the fast path of channels and locks;
 * sn_waiter_init() decides it.
 *
 * Who may write what:
 *   result           the party that has claimed
 *   state            as above
 *   everything else  the task or thread that waits, before the waiter is published
 */
#ifndef SENNIT_TASK_WAITER_H
#define SENNIT_TASK_WAITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/schedule.h"
#include "sched/thread.h"
#include "sched/timer.h"
#include "task/cancel.h"
#include "wait/futex.h"
#include "wait/lock.h"

#define SN_WAITER_CLAIMED 1u
#define SN_WAITER_DONE 2u
#define SN_WAITER_PARKED 4u

/* In sn_waiter_init(): several queues hold the waiter, or it is published without their lock. */
#define SN_WAITER_SHARED 1u
/* Cancellation does not end it: for a lock that must be reacquired, or a scope that joins its
 * tasks. */
#define SN_WAITER_UNCANCELLABLE 2u

struct sn_waiter {
	struct sn_task *task; /* NULL: a thread of the program's own */
	_Atomic uint32_t state;
	bool exclusive;
	bool cancellable;
	int result;
	int64_t deadline;
	struct sn_timer timer;   /* for a task; never started without a deadline */
	struct sn_parker parker; /* for a thread */
};

/*
 * Prepares a waiter for the calling task (self, inside the runtime), or for the calling thread when
 * self is NULL. deadline: SN_NO_DEADLINE for none.
 */
static inline void sn_waiter_init(struct sn_waiter *waiter, struct sn_thread *self,
				  int64_t deadline, uint32_t flags)
{
	waiter->task = self ? self->task : NULL;
	waiter->cancellable =
		self && !(flags & SN_WAITER_UNCANCELLABLE) && sn_cancel_possible(self->task);
	waiter->exclusive =
		self && deadline == 0 && !waiter->cancellable && !(flags & SN_WAITER_SHARED);
	waiter->result = 0;
	waiter->deadline =
		deadline < 0 ? 1 : deadline; /* in the past; the kernel refuses negative times */
	if (sn_unlikely(!waiter->exclusive)) {
		atomic_store_explicit(&waiter->state, 0, memory_order_relaxed);
		atomic_store_explicit(&waiter->timer.heap, NULL, memory_order_relaxed);
		atomic_store_explicit(&waiter->parker.word, 0, memory_order_relaxed);
	}
}

/*
 * True for exactly one caller, which must then call sn_waiter_wake(). Acquire: that caller sees the
 * waiter.
 */
static inline bool sn_waiter_claim(struct sn_waiter *waiter)
{
	if (waiter->exclusive)
		return true;
	if (atomic_load_explicit(&waiter->state, memory_order_relaxed) & SN_WAITER_CLAIMED)
		return false;
	return !(atomic_fetch_or_explicit(&waiter->state, SN_WAITER_CLAIMED, memory_order_acq_rel) &
		 SN_WAITER_CLAIMED);
}

/* Whether the waiter has been claimed: a hint that only ever becomes true. */
static inline bool sn_waiter_claimed(struct sn_waiter *waiter)
{
	return !waiter->exclusive &&
	       (atomic_load_explicit(&waiter->state, memory_order_acquire) & SN_WAITER_CLAIMED);
}

/* The claimer's second step. True when the task is parked and has to be made runnable. */
static inline bool sn_waiter_done(struct sn_waiter *waiter, int result)
{
	waiter->result = result;
	SN_RACE_WINDOW();
	return atomic_fetch_or_explicit(&waiter->state, SN_WAITER_DONE, memory_order_acq_rel) &
	       SN_WAITER_PARKED;
}

/*
 * The claimer ends the wait. self: the calling thread's block, NULL on a thread of the program's
 * own. An exclusive waiter may be woken after its queue's lock has been released, or before: its
 * task cannot run until its commit, which this lock orders, is over.
 */
void sn_waiter_wake(struct sn_thread *self, struct sn_waiter *waiter, int result,
		    enum sn_ready_place place);

/*
 * The same where a held lock forbids making tasks runnable. Returns the task that the caller has to
 * make runnable, or NULL when the task is not parked. Not for exclusive waiters, nor for those of
 * plain threads.
 */
static inline struct sn_task *sn_waiter_finish(struct sn_waiter *waiter, int result)
{
	struct sn_task *task = waiter->task;

	return sn_waiter_done(waiter, result) ? task : NULL;
}

/* Claims and finishes in one. NULL also when another party has the claim. */
static inline struct sn_task *sn_waiter_end(struct sn_waiter *waiter, int result)
{
	return sn_waiter_claim(waiter) ? sn_waiter_finish(waiter, result) : NULL;
}

/*
 * Waits until the waiter has been ended. Returns the result: what the waker gave, -ETIMEDOUT, the
 * reason why the task's scope was cancelled, or -ENOMEM when there was no memory for a timer.
 * unlock: the held lock of the queue that the waiter is in, which is released when that is safe
 * (NULL: none). After an error the caller must take the waiter out of its queues.
 *
 * For a task this parks, and self is stale afterwards. For a thread of the program's own it sleeps
 * in a futex.
 */
int sn_waiter_park(struct sn_waiter *waiter, struct sn_lock *unlock);

#endif
