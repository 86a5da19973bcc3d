/* SPDX-License-Identifier: MIT */
/*
 * Something that is done once, by whoever comes first; for tasks and for the program's own threads.
 * Static flags begin as zeros or SN_ONCE_INIT.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_ONCE_H
#define SENNIT_ONCE_H

#include <sennit/base.h>
#include <sennit/run.h>

SN_BEGIN

/* What has been done, or not yet; src/sync/once.c says what the fields are. */
typedef struct sn_once_flag {
	uint32_t word;          /* not for programs */
	struct sn__waits waits; /* not for programs */
	uintptr_t owner;        /* not for programs */
} sn_once_flag;

/* Not done yet. */
#define SN_ONCE_INIT         \
	{                    \
		0, {0, 0}, 0 \
	}

/*
 * Calls fn(arg), unless a call with this flag has succeeded; while another one is being made it
 * waits for its end. When it returns 0, everything that fn did is seen. A negative value says that
 * fn has failed: it is returned to the caller, and the next one, of those who wait or of those who
 * come, calls his fn instead. Other values are 0. fn may park.
 *
 * Any thread; tasks may park. Returns 0; what fn returned, if negative; why the calling task's
 * scope is cancelled, when it would have to wait; -EDEADLK when fn itself comes here with the flag
 * (debug builds abort).
 *
 * The second form gives up waiting at the deadline, with -ETIMEDOUT, or -ENOMEM for want of a
 * timer; it does not limit fn.
 */
SN_API SN_CHECK_RESULT int sn_once(sn_once_flag *once, sn_fn *fn, void *arg);
SN_API SN_CHECK_RESULT int sn_once_until(sn_once_flag *once, sn_fn *fn, void *arg,
					 int64_t deadline);

/* Whether a call has succeeded; then what fn did is seen. Any thread; does not park. */
SN_API int sn_once_done(const sn_once_flag *once);

SN_END

#endif
