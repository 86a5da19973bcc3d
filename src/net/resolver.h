/* SPDX-License-Identifier: MIT */
/*
 * Name resolution that the caller can leave.
 *
 * getaddrinfo() cannot be interrupted, and takes as long as the name service likes. A task that has a
 * deadline, or works in a scope, does not call it: a helper thread does, while the task parks. When the
 * task's time is up, or its scope is cancelled, it goes on at once and leaves the lookup to the helper,
 * which throws away what it finds.
 *
 * There are SN_RESOLVER_THREADS helpers at most, so a name service that hangs keeps so many threads and
 * no more; further lookups wait in a queue, in which callers whose time is up leave nothing. A helper is
 * started when a lookup finds none that is free, and ends when the queue is empty: 30 us for a thread
 * are little beside asking a name server, and nobody has to end it, at the end of a run or at exit.
 */
#ifndef SENNIT_NET_RESOLVER_H
#define SENNIT_NET_RESOLVER_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/fork.h"

/* A name service that works takes milliseconds: these are thousands of lookups a second. */
#define SN_RESOLVER_THREADS 16

/*
 * Resolves an address. passive: for listening. Returns 0 and a list for freeaddrinfo(), or the
 * negative errno that tcp.h documents; -ETIMEDOUT; or why the task's scope was cancelled. Numeric
 * addresses are answered at once; names by a helper if the deadline or the task's scope may end the
 * wait, otherwise by getaddrinfo() in a blocking section, as also where no helper can be had. Within
 * the runtime. May park.
 */
int sn_resolve(struct addrinfo **list, const char *text, bool passive, int64_t deadline);

void sn_resolver_fork(enum sn_fork_phase phase);

#endif
