/* SPDX-License-Identifier: MIT */
/*
 * Select: one waiter in the queues of several channels.
 *
 * First it checks, without a lock, which cases may be ready, chooses one of these at random, and
 * attempts it under its channel's lock alone. A wait that has not begun cannot be ended, so that is
 * an ordinary send or receive. Only when nothing is ready, and it may wait, it takes the locks of
 * all its channels, in the order of their addresses, attempts again, puts a node into each queue,
 * and releases the locks. So in effect it enters all queues in one step:
 *
 *   - No wake-up is lost: under each channel's lock, the attempt and the entry are one step.
 *   - Of two selects that could serve each other, through one channel or several, one is the
 *     first to have the lock of a channel that they share, and has entered that channel when the
 *     other attempts. The other one claims it, and cannot be claimed itself at that moment. No
 *     wait needs two claims at once.
 *   - There is no deadlock: a select that holds a lock waits only for those of higher addresses;
 *     all other operations that take a channel's lock hold no other and take none.
 *   - No element is lost or duplicated: an element moves only with the waiter's claim, which
 *     exactly one party has, and the other nodes have no effect. A select does not serve itself,
 *     because it attempts before it enters.
 *
 * Having been woken, it takes its other nodes out of their queues, one lock at a time. Until then
 * parties that meet them find them claimed, and drop them.
 *
 * Rejected: entering one queue after the other, with one lock at a time. As soon as the select is
 * in the first queue it can be claimed. So to serve a partner that it finds in a later one it needs
 * two claims, its own and the partner's. When the second fails, the first must be given back, but
 * meanwhile others have dropped its nodes because they were claimed. So it starts again, and two
 * selects that find each other can start again for ever. And it saves no lock.
 */
#include <limits.h>
#include <stdlib.h>

#include "sync/channel.h"

/* So many cases need no memory beyond the stack. */
#define FEW 16

struct place {
	struct sn_chan_node node;
	struct sn_case *in_order; /* the cases, sorted; unrelated to the node */
};

/* The handle of each case was checked before anything else. */
static struct sn_chan *chan_of(const struct sn_case *of)
{
	return sn_chan_at(of->chan);
}

static uint32_t random_below(struct sn_thread *self, uint32_t n)
{
	static _Thread_local uint32_t of_plain_thread;
	uint32_t *state = self ? &self->random : &of_plain_thread;

	if (*state == 0)
		*state = (uint32_t)(uintptr_t)state | 1;
	/* xorshift; scaled, because the low bits are the worse ones. */
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return (uint32_t)((uint64_t)*state * n >> 32);
}

/* Chooses one of the cases that may be ready, each with the same probability; NULL when there is
 * none. */
static struct sn_case *choose(struct sn_thread *self, struct sn_case *cases, size_t n)
{
	struct sn_case *chosen = NULL;
	uint32_t found = 0;

	for (size_t i = 0; i < n; i++) {
		if (!cases[i].chan || sn_chan_hopeless(chan_of(&cases[i]), cases[i].op))
			continue;
		/* The k-th takes the place with the probability 1/k. */
		if (++found == 1 || random_below(self, found) == 0)
			chosen = &cases[i];
	}
	return chosen;
}

/* Sorts by address, without the cases that have no channel. Shell sort. Returns the count. */
static size_t sort(struct place *places, struct sn_case *cases, size_t n)
{
	size_t count = 0, gap = 1;

	for (size_t i = 0; i < n; i++)
		if (cases[i].chan)
			places[count++].in_order = &cases[i];
	while (gap < count / 3)
		gap = 3 * gap + 1;
	for (; gap > 0; gap /= 3) {
		for (size_t i = gap; i < count; i++) {
			struct sn_case *moving = places[i].in_order;
			size_t to = i;

			for (; to >= gap &&
			       (uintptr_t)places[to - gap].in_order->chan > (uintptr_t)moving->chan;
			     to -= gap)
				places[to].in_order = places[to - gap].in_order;
			places[to].in_order = moving;
		}
	}
	return count;
}

static void lock_all(struct place *places, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (i == 0 || places[i].in_order->chan != places[i - 1].in_order->chan)
			sn_lock(&chan_of(places[i].in_order)->lock);
}

static void unlock_all(struct place *places, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (i + 1 == count || places[i].in_order->chan != places[i + 1].in_order->chan)
			sn_unlock(&chan_of(places[i].in_order)->lock);
}

static void leave_queue(struct sn_case *from, struct sn_chan_node *node)
{
	struct sn_chan *chan = chan_of(from);

	sn_lock(&chan->lock);
	if (node->queued)
		sn_chan_unlink(sn_chan_queue_of(chan, from->op), node);
	sn_unlock(&chan->lock);
}

/* Waits when nothing is ready. places has room for as many as there are cases. */
static int wait(struct sn_thread *self, struct sn_case *cases, size_t n, int64_t deadline,
		struct place *places)
{
	size_t count = sort(places, cases, n);
	struct sn_waiter waiter;
	struct sn_chan_node *met;
	struct sn_case *chosen;
	int ended_by = -1, err;

	lock_all(places, count);
	/* An attempt that fails has dropped the nodes that made the case look ready. */
	while ((chosen = choose(self, cases, n)) != NULL) {
		err = sn_chan_attempt(chan_of(chosen), chosen->op, chosen->elem, &met);
		if (err == -EAGAIN)
			continue;
		unlock_all(places, count);
		chosen->result = err;
		sn_chan_wake_met(self, met);
		return (int)(chosen - cases);
	}
	sn_waiter_init(&waiter, self, deadline, SN_WAITER_SHARED);
	for (size_t i = 0; i < count; i++) {
		struct sn_case *in = places[i].in_order;
		struct sn_chan_node *node = &places[i].node;

		node->waiter = &waiter;
		node->elem = in->elem;
		node->wake = (int)(in - cases);
		sn_chan_enqueue(sn_chan_queue_of(chan_of(in), in->op), node);
	}
	unlock_all(places, count);
	if (waiter.task)
		sn_task_waits(waiter.task, "one of several channels", NULL);
	err = sn_waiter_park(&waiter, NULL);
	for (size_t i = 0; i < count; i++) {
		struct sn_case *in = places[i].in_order;

		if (places[i].node.status == SN_NODE_PENDING) {
			leave_queue(in, &places[i].node);
		} else {
			/* Without its channel's lock, because the party that took the node out is
			 * done with it. */
			in->result = places[i].node.status;
			ended_by = places[i].node.wake;
		}
	}
	return ended_by >= 0 ? ended_by : err;
}

static sn_noinline int wait_with_places(struct sn_thread *self, struct sn_case *cases, size_t n,
					int64_t deadline)
{
	struct place few[FEW], *places = few;
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
	struct sn_chan_node *met;
	struct sn_case *chosen;
	int err;

	/* After -EAGAIN another party was served, or the case no longer looks ready. */
	while ((chosen = choose(self, cases, n)) != NULL) {
		sn_lock(&chan_of(chosen)->lock);
		err = sn_chan_attempt(chan_of(chosen), chosen->op, chosen->elem, &met);
		sn_unlock(&chan_of(chosen)->lock);
		if (err == -EAGAIN)
			continue;
		chosen->result = err;
		sn_chan_wake_met(self, met);
		if (sn_likely(self != NULL) && deadline != SN_TRY)
			sn_fair_chance(self);
		return (int)(chosen - cases);
	}
	err = sn_chan_may_wait(deadline);
	return err < 0 ? err : wait_with_places(self, cases, n, deadline);
}

int sn_select(struct sn_case *cases, size_t n, int64_t deadline)
{
	struct sn_thread *self;
	int index;

	if ((!cases && n > 0) || n > INT_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (cases[i].op != SN_CASE_RECV && cases[i].op != SN_CASE_SEND)
			return -EINVAL;
		if (!cases[i].chan)
			continue;
		if (!sn_chan_find(cases[i].chan) ||
		    !sn_chan_elem_valid(chan_of(&cases[i]), cases[i].op, cases[i].elem))
			return -EINVAL;
	}
	index = sn_sync_enter(&self);
	if (sn_likely(index == 0))
		index = select_inside(self, cases, n, deadline);
	sn_sync_leave(self);
	return index;
}
