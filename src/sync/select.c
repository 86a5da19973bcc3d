/* SPDX-License-Identifier: MIT */
/*
 * Select: one waiter in the queues of several channels.
 *
 * First it checks, without a lock, which cases may be ready, chooses one of these at random, and
 * attempts it under its channel's lock alone. Its wait has not begun, so nothing can end it, and
 * the attempt is an ordinary send or receive. If nothing is ready, and it may wait, it takes the
 * locks of all its channels, in the order of their addresses, attempts again, puts a node into each
 * queue, and releases the locks. In effect it enters all queues in one step:
 *
 *   - No wake-up is lost: under each channel's lock, the attempt and the entry are one step.
 *   - Of two selects that could serve each other, through one channel or several, one is the first
 *     to lock a channel that they share, and has entered that channel when the other one attempts.
 *     The other one claims the first, and cannot be claimed itself at that moment, because it has
 *     not entered. No wait needs two claims at the same time.
 *   - There is no deadlock: a select that holds a lock waits only for locks of higher addresses;
 *     every other operation that takes a channel's lock holds no other and takes none.
 *   - No element is lost or duplicated: an element moves only with the waiter's claim, which
 *     exactly one party has, and the other nodes have no effect. A select does not serve itself,
 *     because it attempts before it enters.
 *
 * After the select was woken, it takes its other nodes out of their queues, one lock at a time.
 * Until then parties that meet these nodes find them claimed, and drop them.
 *
 * Rejected: entering one queue after the other, with one lock at a time. As soon as the select is
 * in the first queue it can be claimed. To serve a partner that it finds in a later queue it then
 * needs two claims, its own and the partner's. If the second fails, the first must be given back,
 * but in between others have dropped its nodes because they were claimed. It has to start again,
 * and two selects that find each other can start again forever. Nor would this save a lock.
 */
#include "sync/select.h"

#include <limits.h>
#include <stdlib.h>

/* Up to this number of cases, a select needs no memory beyond the stack. */
#define FEW 16

int (*sn_select_beyond)(struct sn_case *cases, size_t n, int64_t deadline);

/* Waits when nothing is ready. places has room for n elements. */
static int wait(struct sn_thread *self, struct sn_case *cases, size_t n, int64_t deadline,
		struct sn_select_place *places)
{
	struct sn_waiter waiter;
	int index, err;
	size_t count;

	sn_waiter_init(&waiter, self, deadline, SN_WAITER_SHARED);
	index = sn_select_enter(self, cases, n, places, &waiter, &count, false);
	if (index >= 0)
		return index;
	if (waiter.task)
		sn_task_waits(waiter.task, "one of several channels", NULL);
	err = sn_waiter_park(&waiter, NULL);
	index = sn_select_leave(cases, places, count);
	return index >= 0 ? index : err;
}

static sn_noinline int wait_with_places(struct sn_thread *self, struct sn_case *cases, size_t n,
					int64_t deadline)
{
	struct sn_select_place few[FEW], *places = few;
	int index;

	if (n > FEW) {
		places = calloc(n, sizeof *places);
		if (!places)
			return -ENOMEM;
	}
	index = wait(self, cases, n, deadline, places);
	if (places != few)
		free(places);
	return index;
}

static int select_inside(struct sn_thread *self, struct sn_case *cases, size_t n, int64_t deadline)
{
	struct sn_case *chosen;
	int err;

	/* If an attempt fails, another party was served, or the case no longer looks ready, so the
	 * loop makes progress. */
	while ((chosen = sn_select_choose(self, cases, n, false)) != NULL) {
		if (!sn_select_attempt(self, chosen))
			continue;
		if (sn_likely(self != NULL) && deadline != SN_TRY)
			sn_fair_chance(self);
		return (int)(chosen - cases);
	}
	err = sn_chan_may_wait(deadline);
	return err < 0 ? err : wait_with_places(self, cases, n, deadline);
}

/* For a select with a case that is not a channel's. */
static sn_noinline int select_beyond(struct sn_case *cases, size_t n, int64_t deadline)
{
	int index;

	for (size_t i = 0; i < n; i++)
		if (cases[i].op < SN_CASE_RECV || cases[i].op > SN_CASE_SCOPE ||
		    (sn_case_of_channel(&cases[i]) && !sn_case_valid(&cases[i])))
			return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	index = sn_select_beyond(cases, n, deadline);
	sn_runtime_leave();
	return index;
}

int sn_select(struct sn_case *cases, size_t n, int64_t deadline)
{
	struct sn_thread *self;
	int index;

	if ((!cases && n > 0) || n > INT_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (sn_unlikely(!sn_case_of_channel(&cases[i])))
			return select_beyond(cases, n, deadline);
		if (!sn_case_valid(&cases[i]))
			return -EINVAL;
	}
	index = sn_sync_enter(&self);
	if (sn_likely(index == 0))
		index = select_inside(self, cases, n, deadline);
	sn_sync_leave(self);
	return index;
}
