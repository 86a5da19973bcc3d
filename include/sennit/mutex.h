/* SPDX-License-Identifier: MIT */
/*
 * Mutexes, for tasks and for the program's own threads alike.
 *
 * A mutex is a value: place it in a structure or a static variable, initialised with SN_MUTEX_INIT
 * or to zeros. It needs no destructor. Its memory may be reused as soon as nobody holds it, waits
 * for it or will use it again, also right after the unlock that lets the last user know.
 *
 *	static sn_mutex lock = SN_MUTEX_INIT;
 *
 *	int err = sn_mutex_lock(&lock);
 *	if (err < 0)
 *		return err;
 *	balance += amount;
 *	sn_mutex_unlock(&lock);
 *
 * It belongs to the task (or the thread) that has locked it, on whichever thread the task
 * continues. A task may hold it across calls that may park, which it must not do with a pthread
 * mutex. It is not recursive: an owner that locks it again waits for itself, forever.
 *
 * Order. A free mutex usually goes to the first caller, which is often running already, so more
 * work gets done. If a waiter finds it taken again a millisecond after it first asked, the owner
 * hands it to the waiters in FIFO order from then on, until one has waited for less than 1 ms.
 *
 * Cancellation. Locking fails with the reason when the calling task's scope is cancelled and the
 * task would have to wait; a mutex that is free is locked all the same. Clean-up that must have the
 * lock takes it by sn_mutex_lock_uncancelled().
 *
 * Mistakes. NULL gives -EINVAL. Builds of the library with SENNIT_DEBUG end the program, with the
 * names of the call and the task, when a mutex is locked again by its owner, unlocked by anyone but
 * its owner, or unlocked when nobody has locked it. Other builds do not check the owner, because
 * that would slow each call down: the first mistake waits forever, and the second lets another
 * caller in too early.
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
	uint32_t word;                 /* not for programs */
	struct sn_private_waits waits; /* not for programs */
	uintptr_t owner;               /* not for programs */
} sn_mutex;

/* Not locked. */
#define SN_MUTEX_INIT        \
	{                    \
		0, {0, 0}, 0 \
	}

/*
 * Locks the mutex, waiting until it is available. Any thread; tasks may park. Returns 0, or,
 * without having locked it, the reason of the calling task's scope when that is cancelled.
 */
SN_API SN_CHECK_RESULT int sn_mutex_lock(sn_mutex *mutex);

/*
 * As sn_mutex_lock(), but cancellation does not end the wait: for clean-up, such as destructors, in
 * tasks whose scope may be cancelled. The wait lasts as long as others hold the mutex. Returns 0.
 */
SN_API int sn_mutex_lock_uncancelled(sn_mutex *mutex);

/*
 * As sn_mutex_lock(), but gives up at the deadline with -ETIMEDOUT. A free mutex is locked even
 * past the deadline. Also -ENOMEM, when there is no memory for a timer.
 */
SN_API SN_CHECK_RESULT int sn_mutex_lock_until(sn_mutex *mutex, int64_t deadline);

/* Locks it if it is free. Returns 0 or -EBUSY. Any thread; does not park. */
SN_API SN_CHECK_RESULT int sn_mutex_try_lock(sn_mutex *mutex);

/*
 * Unlocks it. Only its owner may; does not park. Returns 0, or -EPERM when it was not locked.
 */
SN_API int sn_mutex_unlock(sn_mutex *mutex);

SN_END

#endif
