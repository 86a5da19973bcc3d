/* SPDX-License-Identifier: MIT */
/*
 * Name resolution that the caller can leave.
 *
 * getaddrinfo() cannot be interrupted, and takes as long as the name service does. A task that has
 * a deadline, or works in a scope, does not call it: a helper thread does, while the task parks.
 * When the task's deadline passes, or its scope is cancelled, it continues at once and leaves the
 * lookup to the helper, which discards the result.
 *
 * There are at most SN_RESOLVER_THREADS helpers, so a name service that hangs holds that many
 * threads and no more. Further lookups wait in a queue, and are removed from it when their callers
 * leave. A helper is started when a lookup finds no free one, and ends when the queue is empty: 30
 * us for a thread are little compared with a query to a name server, and no helper has to be
 * stopped at the end of a run or at exit.
 */
#ifndef SENNIT_NET_RESOLVER_H
#define SENNIT_NET_RESOLVER_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/fork.h"

/* A working name service takes milliseconds, so these serve thousands of lookups a second. */
#define SN_RESOLVER_THREADS 16

/*
 * Resolves an address. passive: for listening. Returns 0 and a list for freeaddrinfo(), or the
 * negative errno that tcp.h documents; -ETIMEDOUT; or the reason for which the task's scope was
 * cancelled. Numeric addresses are answered at once. Names are looked up by a helper if the
 * deadline or the task's scope may end the wait; otherwise, or if no helper can be started, by
 * getaddrinfo() in a blocking section. Within the runtime. May park.
 */
int sn_resolve(struct addrinfo **list, const char *text, bool passive, int64_t deadline);

void sn_resolver_fork(enum sn_fork_phase phase);

#endif
