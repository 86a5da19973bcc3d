/* SPDX-License-Identifier: MIT */
/*
 * How long a relay may continue without delivering a byte.
 *
 * The limit is the deadline of all four sides of the two connections, so that a pair whose peers
 * have both stopped reading ends as well. Moving four deadlines with every chunk would be
 * expensive. They are therefore set an eighth of the limit later than needed, and moved only when
 * they have aged by an eighth; in between, a chunk costs reading the clock and one comparison.
 *
 * A limit that has expired does not prove that the peers were silent: the process may have been
 * stopped. The task that finds it expired therefore looks first, and extends it
 * (sn_idle_timeout_extend()) if bytes wait that can be passed on. It does so only once until a byte
 * is delivered, because the poll may report something that is never delivered, such as urgent data.
 *
 * Who may write what: the tasks of both directions share the limit. counted_from, limit and
 * extended are written under the lock. counted_from and limit are also read without it: relaxed,
 * because a decision that matters is made again under the lock.
 */
#ifndef SENNIT_COPY_IDLE_TIMEOUT_H
#define SENNIT_COPY_IDLE_TIMEOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wait/lock.h"

struct sn_fd;

struct sn_idle_timeout {
	_Atomic int64_t counted_from; /* the time that the deadlines count from */
	_Atomic int64_t limit;        /* ns; 0: none */
	struct sn_lock lock;          /* keeps a late task from moving the deadlines back */
	bool extended;                /* the limit was extended since a byte was delivered; under
				       * the lock */
	struct sn_fd *const *fds;     /* the two connections */
};

/* Starts without a limit. fds: the two connections. */
void sn_idle_timeout_init(struct sn_idle_timeout *idle, struct sn_fd *const *fds);

/* Sets another limit that counts from now on; 0 changes nothing. */
void sn_idle_timeout_change(struct sn_idle_timeout *idle, int64_t limit);

/* Reports that a chunk was delivered. now: a time that was read a moment ago; 0: it is read
 * here. */
void sn_idle_timeout_touch(struct sn_idle_timeout *idle, int64_t now);

/* Bytes are held back until that time; the time until then does not count as idle. */
void sn_idle_timeout_hold(struct sn_idle_timeout *idle, int64_t until);

/* Whether another task has moved a limit that the caller found expired. If so, all deadlines are
 * ahead. */
bool sn_idle_timeout_was_moved(struct sn_idle_timeout *idle);

/* For a limit that has expired while bytes wait that can be passed on. Returns true if the whole
 * limit counts once more from now on, or another task has moved it. */
bool sn_idle_timeout_extend(struct sn_idle_timeout *idle);

/* Whether a connection that failed with -ETIMEDOUT did so because of the limit. */
bool sn_idle_timeout_is_over(const struct sn_idle_timeout *idle);

#endif
