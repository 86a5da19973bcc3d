/* SPDX-License-Identifier: MIT */
/*
 * Locks that many readers, or one writer, can hold; for tasks and for the program's own threads.
 *
 * A value, as a mutex is (mutex.h), and as there: zeros are unlocked, its memory may be reused when
 * nobody uses it any more, cancellation ends waiting and nothing else, it is not recursive, NULL gives
 * -EINVAL, and debug builds report mistakes. Not for
 * readers either: one who holds it and asks again can wait for a writer who waits for him.
 *
 * Order. Readers and writers take turns, so neither starves: a writer waits at most for the
 * readers that hold the lock and the writers that came before, a reader at most for one writer.
 * When a writer unlocks, all the readers that wait by then go on together; then comes the writer
 * who has waited longest. Readers that come while anyone waits, wait too.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_RWLOCK_H
#define SENNIT_RWLOCK_H

#include <sennit/base.h>

SN_BEGIN

/* A read-write lock; src/sync/rwlock.c says what the fields are. */
typedef struct sn_rwlock {
	uint32_t word;            /* not for programs */
	struct sn__waits readers; /* not for programs */
	struct sn__waits writers; /* not for programs */
	uintptr_t owner;          /* not for programs */
} sn_rwlock;

/* Not locked. */
#define SN_RWLOCK_INIT               \
	{                            \
		0, {0, 0}, {0, 0}, 0 \
	}

/* Most readers at a time. */
#define SN_RWLOCK_MAX_READERS 0x3fffffff

/*
 * Lock it for reading. Any thread; tasks may park, but for the form that only tries. Return 0; why
 * the calling task's scope is cancelled, when it would have to wait; -ETIMEDOUT or -ENOMEM with a
 * deadline; -EBUSY from trying; -EAGAIN beyond SN_RWLOCK_MAX_READERS.
 */
SN_API SN_CHECK_RESULT int sn_rwlock_read(sn_rwlock *lock);
SN_API SN_CHECK_RESULT int sn_rwlock_read_until(sn_rwlock *lock, int64_t deadline);
SN_API SN_CHECK_RESULT int sn_rwlock_try_read(sn_rwlock *lock);

/* Lock it for reading and for writing, whatever is cancelled: as sn_mutex_lock_uncancelled(). Return 0;
 * -EAGAIN beyond SN_RWLOCK_MAX_READERS. Any thread; tasks may park. */
SN_API int sn_rwlock_read_uncancelled(sn_rwlock *lock);
SN_API int sn_rwlock_write_uncancelled(sn_rwlock *lock);

/* Lock it for writing. Otherwise as above. */
SN_API SN_CHECK_RESULT int sn_rwlock_write(sn_rwlock *lock);
SN_API SN_CHECK_RESULT int sn_rwlock_write_until(sn_rwlock *lock, int64_t deadline);
SN_API SN_CHECK_RESULT int sn_rwlock_try_write(sn_rwlock *lock);

/*
 * Unlock it, after reading and after writing. Who has locked it; do not park. Return 0, or -EPERM
 * when it was not locked so (debug builds abort; they also do when another than the writer
 * unlocks).
 */
SN_API int sn_rwlock_read_unlock(sn_rwlock *lock);
SN_API int sn_rwlock_write_unlock(sn_rwlock *lock);

SN_END

#endif
