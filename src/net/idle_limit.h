/* SPDX-License-Identifier: MIT */
/*
 * How long a relay may continue without delivering a byte.
 *
 * The limit is the deadline of all four sides of the two connections, so that a pair whose peers
 * have both stopped reading ends as well. Moving four deadlines with every chunk would be
 * expensive. So they are set an eighth of the limit later than needed, and moved only when they
 * have aged by an eighth; in between a chunk costs reading the clock and one comparison.
 *
 * The tasks of both directions share it. counted_from and limit are written under the lock, and
 * read without it: relaxed, because a decision that matters is made again under the lock.
 */
#ifndef SENNIT_NET_IDLE_LIMIT_H
#define SENNIT_NET_IDLE_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wait/lock.h"

struct sn_fd;

struct sn_idle_limit {
	struct sn_fd *const *fds;     /* the two connections */
	struct sn_lock lock;          /* so that a late task does not move the deadlines back */
	_Atomic int64_t counted_from; /* the time that the deadlines count from */
	_Atomic int64_t limit;        /* ns; 0: none */
};

/* Starts without a limit. fds: two. */
void sn_idle_init(struct sn_idle_limit *idle, struct sn_fd *const *fds);

/* Sets another limit from now on; 0: no change. */
void sn_idle_change(struct sn_idle_limit *idle, int64_t limit);

/* A chunk was delivered. now: a time that was read a moment ago; 0: it is read here. */
void sn_idle_touch(struct sn_idle_limit *idle, int64_t now);

/* Bytes are held back until that time, which does not count as idle. */
void sn_idle_hold(struct sn_idle_limit *idle, int64_t until);

/* Whether a connection that failed with -ETIMEDOUT did so because of the limit. */
bool sn_idle_is_over(const struct sn_idle_limit *idle);

#endif
