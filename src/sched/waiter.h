/* SPDX-License-Identifier: MIT */
/*
 * A waiter: one stay of a task, or of a thread of the program's own, in something that others end.
 * It lies on the stack of whoever waits. Everything in the sync layer waits through it.
 *
 * A wait can be ended by what it waits for, by its deadline, or by the cancellation of the task's
 * scope. Exactly one of them gets the right to (sn_waiter_claim()), does what belongs to its
 * success, and then wakes the waiter with the result (sn_waiter_wake()). The others find the claim
 * taken and leave the waiter alone.
 *
 * The state is three bits, each set once, by an atomic or:
 *
 *   CLAIMED  somebody ends it; set by claim
 *   DONE     result is written; set by wake
 *   PARKED   the task's registers are saved; set by the commit of its park
 *
 * Of DONE and PARKED the later one makes the task runnable: when wake finds PARKED it does, when
 * the commit finds DONE the task does not stay parked. So a waiter can be ended before it has
 * parked, which is what lets it be put into several queues, and its timer be started, one after the
 * other.
 *
 * Memory. Whoever may claim must know that the waiter is there: queues that hold it are locked, and
 * who waits takes itself out of them, under their locks, before it returns; the timer is stopped,
 * the cancellation retracted, likewise. After wake the waiter is not touched.
 *
 * When the runtime ends, the tasks that still wait are abandoned and their stacks go, while queues
 * may still hold their waiters. So a queue that tasks waited in must not be used after its run; the
 * public headers say so.
 *
 * Exclusive waiters. One without a deadline, in one queue, of a task that cannot be cancelled, is
 * ended only by who finds it in that queue, under its lock. The lock is then held until the commit
 * of the park (unlock in sn_waiter_park()), so no bit is needed at all: claim is true, and wake
 * makes the task runnable. This is the fast path of channels and locks; sn_waiter_init() decides
 * it.
 *
 * Who may write what:
 *   result           who has claimed
 *   state            as above
 *   everything else  who waits, before it is published
 */
#ifndef SENNIT_SCHED_WAITER_H
#define SENNIT_SCHED_WAITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/cancel.h"
#include "sched/schedule.h"
#include "sched/thread.h"
#include "sched/timer.h"
#include "wait/futex.h"
#include "wait/lock.h"

#define SN_WAITER_CLAIMED 1u
#define SN_WAITER_DONE 2u
#define SN_WAITER_PARKED 4u

/* In sn_waiter_init(): several queues hold it, or it is published without their lock. */
#define SN_WAITER_SHARED 1u
/* Cancellation does not end it: a lock that must be had again, a scope that joins its tasks. */
#define SN_WAITER_UNCANCELLABLE 2u

struct sn_waiter {
	struct sn_task *task; /* NULL: a thread of the program's own */
	_Atomic uint32_t state;
	bool exclusive;
	bool cancellable;
	int result;
	int64_t deadline;
	struct sn_timer timer;   /* a task's; never started without a deadline */
	struct sn_parker parker; /* a thread's */
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
		deadline < 0 ? 1 : deadline; /* the past; the kernel refuses negative times */
	if (sn_unlikely(!waiter->exclusive)) {
		atomic_store_explicit(&waiter->state, 0, memory_order_relaxed);
		atomic_store_explicit(&waiter->timer.heap, NULL, memory_order_relaxed);
		atomic_store_explicit(&waiter->parker.word, 0, memory_order_relaxed);
	}
}

/*
 * True for exactly one caller, who must then call sn_waiter_wake(). Acquire: it sees the waiter.
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

/* Whether somebody has claimed it: a hint that only ever becomes true. */
static inline bool sn_waiter_claimed(struct sn_waiter *waiter)
{
	return !waiter->exclusive &&
	       (atomic_load_explicit(&waiter->state, memory_order_acquire) & SN_WAITER_CLAIMED);
}

/*
 * The claimer ends the wait. self: the calling thread's block, NULL on a thread of the program's
 * own. An exclusive waiter is woken after its queue's lock has been released, or before: it cannot
 * run until its commit, which this lock orders, is over.
 */
void sn_waiter_wake(struct sn_thread *self, struct sn_waiter *waiter, int result,
		    enum sn_ready_place place);

/*
 * The same for where a lock that is held forbids to make tasks runnable: returns the task with
 * which that is to be done, or NULL when it is not parked. Not for exclusive waiters, or plain
 * threads'.
 */
struct sn_task *sn_waiter_finish(struct sn_waiter *waiter, int result);

/* Claims and finishes in one. NULL also when somebody else has the claim. */
struct sn_task *sn_waiter_end(struct sn_waiter *waiter, int result);

/*
 * Waits until somebody has ended the waiter; returns the result: what the waker gave, -ETIMEDOUT,
 * why the task's scope was cancelled, or -ENOMEM when there was no memory for a timer. unlock: the
 * lock of the queue that the waiter is in, held, which is released when it is safe (NULL: none).
 * After an error the caller must take the waiter out of its queues.
 *
 * Parks: self is stale afterwards. For a thread of the program's own it sleeps in a futex.
 */
int sn_waiter_park(struct sn_waiter *waiter, struct sn_lock *unlock);

#endif
