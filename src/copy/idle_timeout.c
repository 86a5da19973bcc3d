/* SPDX-License-Identifier: MIT */
#include "copy/idle_timeout.h"

#include <sennit/clock.h>

#include "io/fd.h"
#include "sched/thread.h"

/* Practically forever, and far enough below the clock's maximum for limits to be added to
 * times. */
#define LONGEST_LIMIT_NS (INT64_MAX / 4)

static int64_t limit_of(const struct sn_idle_timeout *idle)
{
	return atomic_load_explicit(&idle->limit, memory_order_relaxed);
}

static int64_t start_of(const struct sn_idle_timeout *idle)
{
	return atomic_load_explicit(&idle->counted_from, memory_order_relaxed);
}

static void set_deadlines(struct sn_idle_timeout *idle, int64_t deadline)
{
	struct sn_thread *self = sn_thread_self();

	/* If a deadline cannot be armed for lack of memory, the next wait notices that, and
	 * fails. */
	for (int i = 0; i < 2; i++) {
		sn_fd_set_deadline(self, idle->fds[i], SN_SIDE_READ, deadline);
		sn_fd_set_deadline(self, idle->fds[i], SN_SIDE_WRITE, deadline);
	}
}

/* Called with the lock held. */
static void count_from(struct sn_idle_timeout *idle, int64_t start)
{
	const int64_t limit = limit_of(idle);

	/*
	 * Published first, so that a direction that fails at the new deadline finds the limit
	 * expired. A direction that failed at the old deadline a moment ago may find the limit not
	 * expired, and take the failure for the kernel's. In that case a byte was delivered after
	 * the limit had expired, so both answers are true.
	 */
	atomic_store_explicit(&idle->counted_from, start, memory_order_relaxed);
	idle->extended = false;
	set_deadlines(idle, start + limit + limit / 8);
}

void sn_idle_timeout_init(struct sn_idle_timeout *idle, struct sn_fd *const *fds)
{
	*idle = (struct sn_idle_timeout){.fds = fds, .counted_from = INT64_MIN / 2};
	sn_lock_init(&idle->lock, SN_RANK_IDLE_TIMEOUT);
}

void sn_idle_timeout_change(struct sn_idle_timeout *idle, int64_t limit)
{
	int64_t now, start;

	if (limit <= 0)
		return;
	if (limit > LONGEST_LIMIT_NS)
		limit = LONGEST_LIMIT_NS;
	sn_lock(&idle->lock);
	atomic_store_explicit(&idle->limit, limit, memory_order_relaxed);
	now = sn_now();
	start = start_of(idle);
	count_from(idle,
		   start > now ? start : now); /* start is ahead while a direction is held back */
	sn_unlock(&idle->lock);
}

void sn_idle_timeout_touch(struct sn_idle_timeout *idle, int64_t now)
{
	int64_t limit = limit_of(idle);

	if (limit == 0)
		return;
	if (now == 0)
		now = sn_now();
	if (now - start_of(idle) <= limit / 8)
		return;
	sn_lock(&idle->lock);
	limit = limit_of(idle);
	if (now - start_of(idle) > limit / 8)
		count_from(idle, now);
	sn_unlock(&idle->lock);
}

void sn_idle_timeout_hold(struct sn_idle_timeout *idle, int64_t until)
{
	if (limit_of(idle) == 0)
		return;
	sn_lock(&idle->lock);
	if (until > start_of(idle))
		count_from(idle, until);
	sn_unlock(&idle->lock);
}

bool sn_idle_timeout_was_moved(struct sn_idle_timeout *idle)
{
	bool moved;

	if (limit_of(idle) == 0)
		return false;
	/* The lock is taken because another task may be moving the deadlines: once it is free, all
	 * of them are ahead. */
	sn_lock(&idle->lock);
	moved = !sn_idle_timeout_is_over(idle);
	sn_unlock(&idle->lock);
	return moved;
}

bool sn_idle_timeout_extend(struct sn_idle_timeout *idle)
{
	bool ahead;

	sn_lock(&idle->lock);
	ahead = !sn_idle_timeout_is_over(idle);
	if (!ahead && !idle->extended) {
		/* An eighth has passed already, so that the next delivery moves the deadlines:
		 * sn_idle_timeout_touch(). */
		count_from(idle, sn_now() - limit_of(idle) / 8 - 1);
		idle->extended = ahead = true;
	}
	sn_unlock(&idle->lock);
	return ahead;
}

bool sn_idle_timeout_is_over(const struct sn_idle_timeout *idle)
{
	const int64_t limit = limit_of(idle), start = start_of(idle);

	return limit && sn_now() >= start + limit + limit / 8;
}
