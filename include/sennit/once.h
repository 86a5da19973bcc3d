/* SPDX-License-Identifier: MIT */
/*
 * Once flags: something is done once, by the first caller. For tasks and for the program's own
 * threads. A flag begins as zeros or SN_ONCE_INIT.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_ONCE_H
#define SENNIT_ONCE_H

#include <sennit/base.h>
#include <sennit/run.h>

SN_BEGIN

/* Whether it has been done; src/sync/once.c says what the fields are. */
typedef struct sn_once_flag {
	uint32_t word;                 /* not for programs */
	struct sn_private_waits waits; /* not for programs */
	uintptr_t owner;               /* not for programs */
} sn_once_flag;

/* Not done yet. */
#define SN_ONCE_INIT         \
	{                    \
		0, {0, 0}, 0 \
	}

/*
 * Calls fn(arg), unless a call with this flag has succeeded. While another call with it is being
 * made, waits for the end of that one. When it returns 0, the effects of fn are visible. A negative
 * value from fn means that it has failed: its caller gets that value, and the next caller, whether
 * it waits already or comes later, calls its own fn. Other values count as 0. fn may park.
 *
 * Any thread; tasks may park. Returns 0; what fn returned, if negative; the reason of the calling
 * task's scope when that is cancelled and the call would have to wait; -EDEADLK when fn itself
 * calls this with the same flag (debug builds abort).
 *
 * The second form stops waiting at the deadline, with -ETIMEDOUT, or with -ENOMEM for lack of a
 * timer; it does not limit fn.
 */
SN_API SN_CHECK_RESULT int sn_once(sn_once_flag *once, sn_fn *fn, void *arg);
SN_API SN_CHECK_RESULT int sn_once_until(sn_once_flag *once, sn_fn *fn, void *arg,
					 int64_t deadline);

/* Whether a call has succeeded; if so, the effects of fn are visible. Any thread; does not park. */
SN_API int sn_once_done(const sn_once_flag *once);

SN_END

#endif
