/* SPDX-License-Identifier: MIT */
/*
 * Condition variables: waiting, with a mutex unlocked meanwhile, until somebody signals that what
 * the mutex guards has changed. For tasks and for the program's own threads.
 *
 *	err = sn_mutex_lock(&q->lock);			sn_mutex_lock(&q->lock) ...
 *	while (err == 0 && !q->first)			put(q, item);
 *		err = sn_cond_wait(&q->filled, &q->lock);	sn_cond_signal(&q->filled);
 *	...						sn_mutex_unlock(&q->lock);
 *
 * A value, as a mutex is: zeros are ready for use; its memory may be reused when nobody waits and
 * nobody is about to call. Waits end only for a signal or an error, but between the signal and the
 * wait's return others may have had the mutex: look again, as above. A signal that comes after the
 * mutex was released by the wait is never lost; it may be given while holding the mutex or not.
 * Waiters are woken in the order in which they came.
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
	struct sn__waits waits; /* not for programs */
} sn_cond;

/* Nobody waits. */
#define SN_COND_INIT         \
	{                    \
		{            \
			0, 0 \
		}            \
	}

/*
 * Unlocks the mutex, which the caller has locked, waits for a signal, and locks the mutex again, in
 * every case: also after an error the caller holds it. Locking it again is neither cancelled nor
 * subject to the deadline. Any thread; tasks may park.
 *
 * Returns 0 after a signal; why the calling task's scope is cancelled; -ETIMEDOUT past the
 * deadline; -ENOMEM when there is no memory for a timer; -EPERM when the mutex was not locked
 * (debug builds abort). A wait that returns an error has not used up a signal.
 */
SN_API SN_CHECK_RESULT int sn_cond_wait(sn_cond *cond, sn_mutex *mutex);
SN_API SN_CHECK_RESULT int sn_cond_wait_until(sn_cond *cond, sn_mutex *mutex, int64_t deadline);

/* Ends one wait, or all that there are. Any thread; do not park. Return how many there were: 0 when
 * nobody waits, and then nothing is remembered. */
SN_API int sn_cond_signal(sn_cond *cond);
SN_API int sn_cond_broadcast(sn_cond *cond);

SN_END

#endif
