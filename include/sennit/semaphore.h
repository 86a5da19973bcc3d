/* SPDX-License-Identifier: MIT */
/*
 * Counting semaphores: a number of permits, to be acquired one at a time; for tasks and for the
 * program's own threads.
 *
 * A semaphore is a value, as a mutex is: initialise it with SN_SEMAPHORE_INIT(permits), or with
 * zeros for no permits. Its memory may be reused when nobody waits and nobody will use it, also
 * right after the acquisition that a release has let through. A release gives its permits to the
 * waiters in the order in which they arrived; later callers do not overtake them.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_SEMAPHORE_H
#define SENNIT_SEMAPHORE_H

#include <sennit/base.h>

SN_BEGIN

/* A semaphore; src/sync/semaphore.c says what the fields are. */
typedef struct sn_semaphore {
	uint32_t word;                 /* not for programs */
	struct sn_private_waits waits; /* not for programs */
} sn_semaphore;

/* The most permits that there can be. */
#define SN_SEMAPHORE_MAX 0x7fffffff

/* permits: 0 to SN_SEMAPHORE_MAX. */
#define SN_SEMAPHORE_INIT(permits)        \
	{                                 \
		(uint32_t)(permits) << 1, \
		{                         \
			0, 0              \
		}                         \
	}

/*
 * Take a permit: waiting for one, until a deadline, or not at all. Any thread; tasks may park,
 * except in the last form. Return 0; the reason of the calling task's scope when that is cancelled
 * and the call would have to wait; -ETIMEDOUT or -ENOMEM with a deadline; -EAGAIN from the try
 * form. After an error no permit was taken.
 */
SN_API SN_CHECK_RESULT int sn_semaphore_acquire(sn_semaphore *semaphore);
SN_API SN_CHECK_RESULT int sn_semaphore_acquire_until(sn_semaphore *semaphore, int64_t deadline);
SN_API SN_CHECK_RESULT int sn_semaphore_try_acquire(sn_semaphore *semaphore);

/*
 * Adds n permits. Any thread; does not park. Returns 0; -EINVAL when n is below 1; -EOVERFLOW when
 * there would be more than SN_SEMAPHORE_MAX; then nothing was added.
 */
SN_API int sn_semaphore_release(sn_semaphore *semaphore, int n);

SN_END

#endif
