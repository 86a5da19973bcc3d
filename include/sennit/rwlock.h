/* SPDX-License-Identifier: MIT */
/*
 * Locks that many readers, or one writer, can hold; for tasks and for the program's own threads.
 *
 * A read-write lock is a value, as a mutex is (mutex.h), with the same rules: zeros are unlocked,
 * its memory may be reused when nobody uses it any more, cancellation ends waiting and nothing
 * else, it is not recursive, NULL gives -EINVAL, and debug builds report mistakes. Readers must not
 * lock it twice either: a reader that holds the lock and asks again may wait for a writer that
 * waits for this reader.
 *
 * Order. Readers and writers take turns, so neither starves. A writer waits at most for the readers
 * that hold the lock and for the writers that came before it; a reader waits at most for one
 * writer. When a writer unlocks, all readers that wait at that time proceed together; after them
 * comes the writer that has waited longest. Readers that arrive while anyone waits, wait too.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_RWLOCK_H
#define SENNIT_RWLOCK_H

#include <sennit/base.h>

SN_BEGIN

/* A read-write lock; src/sync/rwlock.c says what the fields are. */
typedef struct sn_rwlock {
	uint32_t word;                   /* not for programs */
	struct sn_private_waits readers; /* not for programs */
	struct sn_private_waits writers; /* not for programs */
	uintptr_t owner;                 /* not for programs */
} sn_rwlock;

/* Not locked. */
#define SN_RWLOCK_INIT               \
	{                            \
		0, {0, 0}, {0, 0}, 0 \
	}

/* The most readers at a time. */
#define SN_RWLOCK_MAX_READERS 0x3fffffff

/*
 * Lock it for reading. Any thread; tasks may park, except in the try form. Return 0; the reason of
 * the calling task's scope when that is cancelled and the call would have to wait; -ETIMEDOUT or
 * -ENOMEM with a deadline; -EBUSY from the try form; -EAGAIN beyond SN_RWLOCK_MAX_READERS.
 */
SN_API SN_CHECK_RESULT int sn_rwlock_read(sn_rwlock *lock);
SN_API SN_CHECK_RESULT int sn_rwlock_read_until(sn_rwlock *lock, int64_t deadline);
SN_API SN_CHECK_RESULT int sn_rwlock_try_read(sn_rwlock *lock);

/*
 * Lock it for reading or for writing, even in a cancelled scope, as sn_mutex_lock_uncancelled()
 * does. Return 0; -EAGAIN beyond SN_RWLOCK_MAX_READERS. Any thread; tasks may park.
 */
SN_API int sn_rwlock_read_uncancelled(sn_rwlock *lock);
SN_API int sn_rwlock_write_uncancelled(sn_rwlock *lock);

/* Lock it for writing; otherwise as the calls for reading. */
SN_API SN_CHECK_RESULT int sn_rwlock_write(sn_rwlock *lock);
SN_API SN_CHECK_RESULT int sn_rwlock_write_until(sn_rwlock *lock, int64_t deadline);
SN_API SN_CHECK_RESULT int sn_rwlock_try_write(sn_rwlock *lock);

/*
 * Unlock it, after reading and after writing. Only the task or thread that has locked it may call
 * them; do not park. Return 0, or -EPERM when it was not locked that way (debug builds abort, also
 * when anyone but the writer unlocks it).
 */
SN_API int sn_rwlock_read_unlock(sn_rwlock *lock);
SN_API int sn_rwlock_write_unlock(sn_rwlock *lock);

SN_END

#endif
