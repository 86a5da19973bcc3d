/* SPDX-License-Identifier: MIT */
/*
 * Condition variables: waiting, with a mutex unlocked during the wait, until another task or thread
 * signals that what the mutex guards has changed. For tasks and for the program's own threads.
 *
 *	err = sn_mutex_lock(&q->lock);			sn_mutex_lock(&q->lock) ...
 *	while (err == 0 && !q->first)			put(q, item);
 *		err = sn_cond_wait(&q->filled, &q->lock);	sn_cond_signal(&q->filled);
 *	...						sn_mutex_unlock(&q->lock);
 *
 * A condition variable is a value, as a mutex is: zeros are ready for use, and its memory may be
 * reused when nobody waits and nobody is about to call. A wait ends only for a signal or an error.
 * But between the signal and the return of the wait others may have held the mutex, so check the
 * condition again, as above. A signal that is sent after the wait has released the mutex is never
 * lost; the sender may hold the mutex or not. Waiters are woken in the order in which they arrived.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_COND_H
#define SENNIT_COND_H

#include <sennit/base.h>
#include <sennit/mutex.h>

SN_BEGIN

/* A condition variable. */
typedef struct sn_cond {
	struct sn_private_waits waits; /* not for programs */
} sn_cond;

/* The initial value: no task waits. */
#define SN_COND_INIT         \
	{                    \
		{            \
			0, 0 \
		}            \
	}

/*
 * Unlocks the mutex, which the caller holds, waits for a signal, and locks the mutex again. The
 * caller holds it again in every case, also after an error. Neither cancellation nor the deadline
 * applies to that lock. Any thread; tasks may park.
 *
 * Returns 0 after a signal. Errors: the reason of the calling task's scope when that is cancelled;
 * -ETIMEDOUT past the deadline; -ENOMEM when there is no memory for a timer; -EPERM when the mutex
 * was not locked (debug builds abort). A wait that returns an error has not consumed a signal.
 */
SN_API SN_CHECK_RESULT int sn_cond_wait(sn_cond *cond, sn_mutex *mutex);
SN_API SN_CHECK_RESULT int sn_cond_wait_until(sn_cond *cond, sn_mutex *mutex, int64_t deadline);

/*
 * End one wait, or all present waits. Any thread; do not park. Return how many waits they have
 * ended. If nobody waits, the signal is not remembered.
 */
SN_API int sn_cond_signal(sn_cond *cond);
SN_API int sn_cond_broadcast(sn_cond *cond);

SN_END

#endif
