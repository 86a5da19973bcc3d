/* SPDX-License-Identifier: MIT */
/*
 * A waiter: one wait of a task, or of a thread of the program's own, which another party ends. It
 * is on the stack of the task or thread that waits. Everything in the sync layer waits through it.
 *
 * Contract. A wait can be ended by the event for which it waits, by its deadline, or by the
 * cancellation of the task's scope. Exactly one party gets the right to end it (sn_waiter_claim()),
 * completes its operation, and then wakes the waiter with the result (sn_waiter_wake()). The others
 * find the claim taken and leave the waiter alone.
 *
 * The state is three bits, each set once, by an atomic or:
 *
 *   CLAIMED  a party ends the wait; set by claim
 *   DONE     result is written; set by wake
 *   PARKED   the task's registers are saved; set by the commit of its park
 *
 * The party that sets the later one of DONE and PARKED makes the task runnable: if wake finds
 * PARKED, it makes the task runnable; if the commit finds DONE, the task does not stay parked. A
 * waiter can therefore be ended before it has parked. This allows the task to put it into several
 * queues, and to start its timer, one after the other.
 *
 * Memory. A party that may claim must know that the waiter still exists. Queues that hold it are
 * therefore locked, and the waiting task takes it out of them, under their locks, before it
 * returns. Likewise the task stops the timer and retracts the cancellation. The waker does not
 * touch the waiter after wake.
 *
 * When the runtime ends, the tasks that still wait are abandoned and their stacks are freed, while
 * queues may still hold their waiters. A queue in which tasks have waited must therefore not be
 * used after its run; the public headers say so.
 *
 * Exclusive waiters. A waiter without a deadline, in one queue, of a task that cannot be cancelled,
 * is ended only by a party that finds it in that queue, under the queue's lock. That lock is held
 * until the commit of the park (unlock in sn_waiter_park()), so no bit is needed: claim is always
 * true, and wake makes the task runnable. This is the fast path of channels and locks;
 * sn_waiter_init() decides whether a waiter is exclusive.
 *
 * Who may write what:
 *   result           the party that has claimed
 *   state            as above, by atomic or
 *   everything else  the task or thread that waits, before the waiter is published
 */
#ifndef SENNIT_TASK_WAITER_H
#define SENNIT_TASK_WAITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/switch.h"
#include "sched/thread.h"
#include "sched/timer.h"
#include "task/cancel.h"
#include "wait/futex.h"
#include "wait/lock.h"

#define SN_WAITER_CLAIMED 1u
#define SN_WAITER_DONE 2u
#define SN_WAITER_PARKED 4u

/* Flags of sn_waiter_init(). Several queues hold the waiter, or it is published without their
 * lock. */
#define SN_WAITER_SHARED 1u
/* Cancellation does not end the wait: it is for a lock that must be reacquired, or for a scope that
 * joins its tasks. */
#define SN_WAITER_UNCANCELLABLE 2u

struct sn_waiter {
	struct sn_task *task; /* NULL for a thread of the program's own */
	_Atomic uint32_t state;
	bool exclusive;
	bool cancellable;
	int result;
	int64_t deadline;
	struct sn_timer timer;   /* for a task; never started without a deadline */
	struct sn_parker parker; /* for a thread */
};

/*
 * Prepares a waiter for the calling task (self, inside the runtime), or for the calling thread if
 * self is NULL. deadline may be SN_NO_DEADLINE.
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
		deadline < 0 ? 1 : deadline; /* 1 is past, too; the kernel refuses negative times */
	if (sn_unlikely(!waiter->exclusive)) {
		atomic_store_explicit(&waiter->state, 0, memory_order_relaxed);
		atomic_store_explicit(&waiter->timer.heap, NULL, memory_order_relaxed);
		atomic_store_explicit(&waiter->parker.word, 0, memory_order_relaxed);
	}
}

/*
 * Returns true to exactly one caller, which must then call sn_waiter_wake(). Acquire, so that this
 * caller sees the waiter's fields.
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

/* The second step of the party with the claim. Returns true if the task is parked and has to be
 * made runnable. */
static inline bool sn_waiter_done(struct sn_waiter *waiter, int result)
{
	waiter->result = result;
	SN_RACE_WINDOW();
	return atomic_fetch_or_explicit(&waiter->state, SN_WAITER_DONE, memory_order_acq_rel) &
	       SN_WAITER_PARKED;
}

/*
 * Ends the wait; called by the party with the claim. self is the calling thread's block, NULL on a
 * thread of the program's own. An exclusive waiter may be woken before or after its queue's lock is
 * released: the waker has taken this lock, which the commit of the park has released, so the task
 * is parked already.
 */
void sn_waiter_wake(struct sn_thread *self, struct sn_waiter *waiter, int result,
		    enum sn_ready_place place);

/*
 * The same for a caller that holds a lock under which tasks must not be made runnable. Returns the
 * task that the caller has to make runnable later, or NULL if the task is not parked. Not for
 * exclusive waiters, nor for those of the program's own threads.
 */
static inline struct sn_task *sn_waiter_finish(struct sn_waiter *waiter, int result)
{
	struct sn_task *task = waiter->task;

	return sn_waiter_done(waiter, result) ? task : NULL;
}

/* Claims the waiter and finishes it. Returns NULL also if another party has the claim. */
static inline struct sn_task *sn_waiter_end(struct sn_waiter *waiter, int result)
{
	return sn_waiter_claim(waiter) ? sn_waiter_finish(waiter, result) : NULL;
}

/*
 * Waits until the waiter has been ended. Returns the result: the waker's, -ETIMEDOUT, the reason
 * why the task's scope was cancelled, or -ENOMEM if there was no memory for a timer. unlock is the
 * lock of the queue that the waiter is in, which the caller holds and this releases, or NULL. After
 * an error the caller must take the waiter out of its queues.
 *
 * For a task this parks, and self is stale afterwards. For a thread of the program's own it sleeps
 * in a futex.
 */
int sn_waiter_park(struct sn_waiter *waiter, struct sn_lock *unlock);

#endif
