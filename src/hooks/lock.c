/* SPDX-License-Identifier: MIT */
/*
 * Counts the locks that a task holds and that belong to its thread, so that no hooked call parks
 * with one. The locks themselves are the C library's. pthread_cond_wait() and cnd_wait() return
 * with their mutex locked, so they change no count. Locks that the C library takes for itself are
 * not seen; it makes no hooked call while it holds one. Its mtx_lock(), call_once() and so on call
 * internal names, so no lock is counted twice. A spin lock has no owner, but it is counted too,
 * because a thread that waits for it is busy all the time.
 *
 * Locks that a program or a library makes of futexes, atomics or semaphores cannot be seen.
 *
 * A mutex that one task locks and another unlocks, as if it were a semaphore, leaves the first with
 * a count that is too high: its calls are passed through.
 */
#include <errno.h>

#include "hooks/call.h"

/* Inline, so that `by` is a constant: OpenSSL takes and releases a thousand locks in a
 * handshake. */
static inline void hold(int by)
{
	struct sn_foreign *task = sn_foreign_self();

	if (task && (by > 0 ? task->locks < UINT16_MAX : task->locks > 0))
		task->locks = (uint16_t)(task->locks + by);
}

void sn_hook_hold(int by)
{
	hold(by);
}

static inline int counted(int err, int by)
{
	if (sn_unlikely(sn_private_self() != NULL) && (err == 0 || err == EOWNERDEAD))
		hold(by);
	return err;
}

#define LOCKS(name, by, parameters, arguments)              \
	SN_HOOK(int, name, parameters)                      \
	{                                                   \
		return counted(sn_real.name arguments, by); \
	}

LOCKS(pthread_mutex_lock, 1, (pthread_mutex_t * lock), (lock))
LOCKS(pthread_mutex_trylock, 1, (pthread_mutex_t * lock), (lock))
LOCKS(pthread_mutex_timedlock, 1, (pthread_mutex_t * lock, const struct timespec *until),
      (lock, until))
LOCKS(pthread_mutex_clocklock, 1,
      (pthread_mutex_t * lock, clockid_t clock, const struct timespec *until), (lock, clock, until))
LOCKS(pthread_mutex_unlock, -1, (pthread_mutex_t * lock), (lock))
LOCKS(pthread_rwlock_rdlock, 1, (pthread_rwlock_t * lock), (lock))
LOCKS(pthread_rwlock_tryrdlock, 1, (pthread_rwlock_t * lock), (lock))
LOCKS(pthread_rwlock_timedrdlock, 1, (pthread_rwlock_t * lock, const struct timespec *until),
      (lock, until))
LOCKS(pthread_rwlock_wrlock, 1, (pthread_rwlock_t * lock), (lock))
LOCKS(pthread_rwlock_trywrlock, 1, (pthread_rwlock_t * lock), (lock))
LOCKS(pthread_rwlock_timedwrlock, 1, (pthread_rwlock_t * lock, const struct timespec *until),
      (lock, until))
LOCKS(pthread_rwlock_unlock, -1, (pthread_rwlock_t * lock), (lock))

LOCKS(pthread_spin_lock, 1, (pthread_spinlock_t * lock), (lock))
LOCKS(pthread_spin_trylock, 1, (pthread_spinlock_t * lock), (lock))
LOCKS(pthread_spin_unlock, -1, (pthread_spinlock_t * lock), (lock))

/* thrd_success is 0, and no other of its values is EOWNERDEAD. */
_Static_assert(thrd_success == 0 && thrd_busy != EOWNERDEAD && thrd_error != EOWNERDEAD &&
		       thrd_nomem != EOWNERDEAD && thrd_timedout != EOWNERDEAD,
	       "counted() takes what these return, too");
LOCKS(mtx_lock, 1, (mtx_t * lock), (lock))
LOCKS(mtx_trylock, 1, (mtx_t * lock), (lock))
LOCKS(mtx_timedlock, 1, (mtx_t * lock, const struct timespec *until), (lock, until))
LOCKS(mtx_unlock, -1, (mtx_t * lock), (lock))

LOCKS(ftrylockfile, 1, (FILE * file), (file))
LOCKS(_IO_ftrylockfile, 1, (FILE * file), (file))

#define FILE_LOCKS(name, by)                                \
	SN_HOOK(void, name, (FILE * file))                  \
	{                                                   \
		sn_real.name(file);                         \
		if (sn_unlikely(sn_private_self() != NULL)) \
			hold(by);                           \
	}

FILE_LOCKS(flockfile, 1)
FILE_LOCKS(_IO_flockfile, 1)
FILE_LOCKS(funlockfile, -1)
FILE_LOCKS(_IO_funlockfile, -1)

LOCKS(pthread_rwlock_clockrdlock, 1,
      (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until),
      (lock, clock, until))
LOCKS(pthread_rwlock_clockwrlock, 1,
      (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until),
      (lock, clock, until))

#if SN_HOOK_TIME64
LOCKS(__pthread_mutex_timedlock64, 1, (pthread_mutex_t * lock, const struct sn_timespec64 *until),
      (lock, until))
LOCKS(__pthread_mutex_clocklock64, 1,
      (pthread_mutex_t * lock, clockid_t clock, const struct sn_timespec64 *until),
      (lock, clock, until))
LOCKS(__pthread_rwlock_timedrdlock64, 1,
      (pthread_rwlock_t * lock, const struct sn_timespec64 *until), (lock, until))
LOCKS(__pthread_rwlock_timedwrlock64, 1,
      (pthread_rwlock_t * lock, const struct sn_timespec64 *until), (lock, until))
LOCKS(__pthread_rwlock_clockrdlock64, 1,
      (pthread_rwlock_t * lock, clockid_t clock, const struct sn_timespec64 *until),
      (lock, clock, until))
LOCKS(__pthread_rwlock_clockwrlock64, 1,
      (pthread_rwlock_t * lock, clockid_t clock, const struct sn_timespec64 *until),
      (lock, clock, until))
LOCKS(__mtx_timedlock64, 1, (mtx_t * lock, const struct sn_timespec64 *until), (lock, until))
#endif

/* Other threads wait until fn has returned, so the call counts as a lock. fn may throw, which the
 * cleanup handles. */
static void leave_once(int *entered)
{
	if (*entered)
		sn_hook_hold(-1);
}

SN_HOOK(int, pthread_once, (pthread_once_t * once, void (*fn)(void)))
{
	__attribute__((cleanup(leave_once))) int entered = sn_private_self() != NULL;

	if (entered)
		sn_hook_hold(1);
	return sn_real.pthread_once(once, fn);
}

SN_HOOK(void, call_once, (once_flag * once, void (*fn)(void)))
{
	__attribute__((cleanup(leave_once))) int entered = sn_private_self() != NULL;

	if (entered)
		sn_hook_hold(1);
	sn_real.call_once(once, fn);
}
