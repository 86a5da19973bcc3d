/* SPDX-License-Identifier: MIT */
/*
 * How long a relay may continue without delivering a byte.
 *
 * The limit is the deadline of all four sides of the two connections, so that a pair whose peers
 * have both stopped reading ends as well. Moving four deadlines with every chunk would be
 * expensive. So they are set an eighth of the limit later than needed, and moved only when they
 * have aged by an eighth; in between a chunk costs reading the clock and one comparison.
 *
 * That the limit is over does not mean that the peers were silent: the process may have been
 * stopped. So the task that finds it over looks first, and extends it once (sn_idle_extend()) when
 * bytes wait that can be passed on. Once, because something could wait that is never delivered,
 * such as urgent data.
 *
 * The tasks of both directions share it. counted_from and limit are written under the lock, and
 * read without it: relaxed, because a decision that matters is made again under the lock.
 */
#ifndef SENNIT_COPY_IDLE_LIMIT_H
#define SENNIT_COPY_IDLE_LIMIT_H

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
	bool extended;                /* since a byte was delivered; under the lock */
};

/* Starts without a limit. fds: two. */
void sn_idle_init(struct sn_idle_limit *idle, struct sn_fd *const *fds);

/* Sets another limit from now on; 0: no change. */
void sn_idle_change(struct sn_idle_limit *idle, int64_t limit);

/* A chunk was delivered. now: a time that was read a moment ago; 0: it is read here. */
void sn_idle_touch(struct sn_idle_limit *idle, int64_t now);

/* Bytes are held back until that time, which does not count as idle. */
void sn_idle_hold(struct sn_idle_limit *idle, int64_t until);

/* Whether a limit that was found over was moved meanwhile: then the deadlines are ahead. */
bool sn_idle_was_moved(struct sn_idle_limit *idle);

/* It is over, and bytes wait that can be passed on: true when the whole limit counts once more from
 * now on, or it was moved meanwhile. */
bool sn_idle_extend(struct sn_idle_limit *idle);

/* Whether a connection that failed with -ETIMEDOUT did so because of the limit. */
bool sn_idle_is_over(const struct sn_idle_limit *idle);

#endif
