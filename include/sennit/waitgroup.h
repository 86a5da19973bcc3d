/* SPDX-License-Identifier: MIT */
/*
 * Wait groups: a count of the work that remains, and waiting until it is zero. For tasks and for
 * the program's own threads. Where the work consists of tasks that you start yourself, a scope
 * (scope.h) is the better choice: it propagates errors and cancellation.
 *
 *	sn_waitgroup group = SN_WAITGROUP_INIT;
 *
 *	for (int i = 0; i < n; i++) {
 *		sn_waitgroup_add(&group, 1);		before the task is started
 *		sn_go(job, &group);			which ends with sn_waitgroup_done()
 *	}
 *	err = sn_waitgroup_wait(&group);
 *
 * A value, as a mutex is. It may lie on the stack of the waiter: sn_waitgroup_done() no longer
 * touches it once the wait may return. It can be used again when all waits for the last zero have
 * returned.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_WAITGROUP_H
#define SENNIT_WAITGROUP_H

#include <sennit/base.h>

SN_BEGIN

/* A wait group; src/sync/waitgroup.c says what the fields are. */
typedef struct sn_waitgroup {
	uint32_t word;                 /* not for programs */
	struct sn_private_waits waits; /* not for programs */
} sn_waitgroup;

/* Nothing to wait for. */
#define SN_WAITGROUP_INIT    \
	{                    \
		0,           \
		{            \
			0, 0 \
		}            \
	}

/*
 * Adds n, which may be negative, to the count. When that makes it zero, all waits end. Any thread;
 * does not park. Returns 0; -EINVAL when the count would become negative (debug builds abort);
 * -EOVERFLOW above 2^31 - 1; after an error it is unchanged. Do not raise it from zero while
 * another caller begins to wait, which could miss that.
 */
SN_API int sn_waitgroup_add(sn_waitgroup *group, int n);

/* Takes one from the count: sn_waitgroup_add(group, -1). */
SN_API int sn_waitgroup_done(sn_waitgroup *group);

/*
 * Wait until the count is zero: forever, until a deadline, or not at all. Any thread; tasks may
 * park, except in the last form. Return 0; the reason of the calling task's scope when that is
 * cancelled and the call would have to wait; -ETIMEDOUT or -ENOMEM with a deadline; -EAGAIN from
 * the try form.
 */
SN_API SN_CHECK_RESULT int sn_waitgroup_wait(sn_waitgroup *group);
SN_API SN_CHECK_RESULT int sn_waitgroup_wait_until(sn_waitgroup *group, int64_t deadline);
SN_API SN_CHECK_RESULT int sn_waitgroup_try_wait(sn_waitgroup *group);

SN_END

#endif
