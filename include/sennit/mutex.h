/* SPDX-License-Identifier: MIT */
/*
 * Mutexes, for tasks and for the program's own threads alike.
 *
 * A mutex is a value: place it in a structure or a static variable, initialised with SN_MUTEX_INIT
 * or to zeros. It needs no end; its memory may be reused as soon as nobody holds it, waits for it
 * or will use it again, also right after the unlock that lets the last user know.
 *
 *	static sn_mutex lock = SN_MUTEX_INIT;
 *
 *	int err = sn_mutex_lock(&lock);
 *	if (err < 0)
 *		return err;
 *	balance += amount;
 *	sn_mutex_unlock(&lock);
 *
 * It belongs to the task (or the thread) that has locked it, wherever that runs by then; a task
 * may hold it across calls that may park, which it must not do with a pthread mutex. It is not
 * recursive: who locks it again waits for itself, for ever.
 *
 * Order. Usually a mutex goes to whoever comes first when it is free, who is often running already
 * and so gets more done; a waiter that finds it taken again a millisecond after it first asked
 * makes the mutex go from hand to hand, in the order of the waiters, until one of them has waited
 * for less.
 *
 * Cancellation. Locking fails with the reason when the calling task's scope is cancelled and the
 * task would have to wait; a mutex that is free is locked all the same. Clean-up that must have the
 * lock takes it by sn_mutex_lock_uncancelled().
 *
 * Mistakes. NULL gives -EINVAL. Builds of the library with SENNIT_DEBUG end the program, with the
 * names of the call and the task, when a mutex is locked again by its owner, unlocked by another
 * than its owner, or unlocked when nobody has locked it. Others do not look for the owner, as that would
 * cost each call: there the first waits for ever, and the second lets somebody in too early.
 *
 * A mutex that abandoned tasks (run.h) hold or wait for must not be used any more.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_MUTEX_H
#define SENNIT_MUTEX_H

#include <sennit/base.h>

SN_BEGIN

/* A mutex; src/sync/mutex.c says what the fields are. */
typedef struct sn_mutex {
	uint32_t word;          /* not for programs */
	struct sn__waits waits; /* not for programs */
	uintptr_t owner;        /* not for programs */
} sn_mutex;

/* Not locked. */
#define SN_MUTEX_INIT        \
	{                    \
		0, {0, 0}, 0 \
	}

/*
 * Locks it, waiting until it can be had. Any thread; tasks may park.
 * Returns 0, or why the calling task's scope is cancelled: then it is not locked.
 */
SN_API SN_CHECK_RESULT int sn_mutex_lock(sn_mutex *mutex);

/*
 * As sn_mutex_lock(), but cancellation does not end the wait: for clean-up, such as destructors, in
 * tasks whose scope may be cancelled. It lasts as long as others hold the mutex. Returns 0.
 */
SN_API int sn_mutex_lock_uncancelled(sn_mutex *mutex);

/*
 * As sn_mutex_lock(), but gives up at the deadline with -ETIMEDOUT. A mutex that is free is locked
 * also past the deadline. Also -ENOMEM, when there is no memory for a timer.
 */
SN_API SN_CHECK_RESULT int sn_mutex_lock_until(sn_mutex *mutex, int64_t deadline);

/* Locks it if it is free. Returns 0 or -EBUSY. Any thread; does not park. */
SN_API SN_CHECK_RESULT int sn_mutex_trylock(sn_mutex *mutex);

/*
 * Unlocks it. Only who has locked it; does not park. Returns 0, or -EPERM when it was not locked.
 */
SN_API int sn_mutex_unlock(sn_mutex *mutex);

SN_END

#endif
