/* SPDX-License-Identifier: MIT */
/*
 * Mutexes, for callers that are already inside the runtime: the condition variables.
 *
 * Contract. As that of the public calls in sennit/mutex.h: waiters are served in order once one has
 * waited for long, and everything that was written before an unlock is visible after the lock that
 * follows it. mutex.c argues why no waiter is forgotten.
 *
 * Who may write what: the word and the list, see mutex.c.
 */
#ifndef SENNIT_SYNC_MUTEX_H
#define SENNIT_SYNC_MUTEX_H

#include <stdbool.h>
#include <stdint.h>

#include <sennit/mutex.h>

struct sn_thread;

/*
 * Lock and unlock as the public calls do. self: NULL on a thread of the program's own. call: the
 * name of the public call, for reports. flags: for sn_waiter_init(). Locking may park; self is
 * stale afterwards.
 */
int sn_mutex_lock_inside(struct sn_thread *self, sn_mutex *mutex, int64_t deadline, uint32_t flags,
			 const char *call);
int sn_mutex_unlock_inside(struct sn_thread *self, sn_mutex *mutex, const char *call);

/* Whether it is locked; debug builds abort unless the caller has locked it. */
bool sn_mutex_is_locked(sn_mutex *mutex, const char *call);

#endif
