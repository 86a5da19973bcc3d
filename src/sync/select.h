/* SPDX-License-Identifier: MIT */
/*
 * The parts of a select over channels, for select.c, which argues them, and for selects that have
 * other cases, too (io/select_any.c). Those need code of layers above this one, so sn_select()
 * calls them through sn_select_beyond.
 *
 * The functions are inline, and take a constant that says whether there may be other cases, so that
 * a select over channels alone pays nothing for the others. As functions of a file of their own
 * they would cost it 3 % more instructions.
 */
#ifndef SENNIT_SYNC_SELECT_H
#define SENNIT_SYNC_SELECT_H

#include <sennit/select.h>

#include "sync/channel.h"

/*
 * Does a select with cases that are not of channels, in a task. The first run sets it before there
 * are tasks; until then it is NULL.
 */
extern int (*sn_select_beyond)(struct sn_case *cases, size_t n, int64_t deadline);

/* What a case needs while the select waits: a node in its channel's queue. */
struct sn_select_place {
	struct sn_chan_node node;
	struct sn_case *in_order; /* the cases, sorted; unrelated to the node */
};

static inline bool sn_case_of_channel(const struct sn_case *one)
{
	return one->op == SN_CASE_RECV || one->op == SN_CASE_SEND;
}

/* Whether a channel's case is valid. */
static inline bool sn_case_valid(const struct sn_case *one)
{
	return !one->chan || (sn_chan_find_for(one->chan, "sn_select") &&
			      sn_chan_elem_valid(sn_chan_at(one->chan), one->op, one->elem));
}

/* The handle of each case has been checked before. */
static inline struct sn_chan *sn_case_chan(const struct sn_case *of)
{
	return sn_chan_at(of->chan);
}

/* A random number from 0 to n - 1. self: NULL on a plain thread. */
static inline uint32_t sn_select_random(struct sn_thread *self, uint32_t n)
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

/* Chooses one of the channels' cases that may be ready, each with the same probability; NULL when
 * there is none. */
static inline struct sn_case *sn_select_choose(struct sn_thread *self, struct sn_case *cases,
					       size_t n, bool others)
{
	struct sn_case *chosen = NULL;
	uint32_t found = 0;

	for (size_t i = 0; i < n; i++) {
		if ((others && !sn_case_of_channel(&cases[i])) || !cases[i].chan ||
		    sn_chan_hopeless(sn_case_chan(&cases[i]), cases[i].op))
			continue;
		/* The k-th candidate replaces the chosen one with probability 1/k, so all are
		 * equally likely. */
		if (++found == 1 || sn_select_random(self, found) == 0)
			chosen = &cases[i];
	}
	return chosen;
}

/* Sorts the cases that have a channel by its address, by Shell sort. Returns their number. */
static inline size_t sn_select_sort(struct sn_select_place *places, struct sn_case *cases, size_t n,
				    bool others)
{
	size_t count = 0, gap = 1;

	for (size_t i = 0; i < n; i++)
		if ((!others || sn_case_of_channel(&cases[i])) && cases[i].chan)
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

static inline void sn_select_lock(struct sn_select_place *places, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (i == 0 || places[i].in_order->chan != places[i - 1].in_order->chan)
			sn_lock(&sn_case_chan(places[i].in_order)->lock);
}

static inline void sn_select_unlock(struct sn_select_place *places, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (i + 1 == count || places[i].in_order->chan != places[i + 1].in_order->chan)
			sn_unlock(&sn_case_chan(places[i].in_order)->lock);
}

static inline void sn_select_leave_queue(struct sn_case *from, struct sn_chan_node *node)
{
	struct sn_chan *chan = sn_case_chan(from);

	sn_lock(&chan->lock);
	if (node->queued)
		sn_chan_unlink(sn_chan_queue_of(chan, from->op), node);
	sn_unlock(&chan->lock);
}

/*
 * Enters the queues of all channels among the cases, unless one of the cases can be done. Returns
 * -EAGAIN if it has entered: the waiter may be woken from now on, and *count is for
 * sn_select_leave(). Otherwise returns the index of the case that was done, and the waiter is in no
 * queue. The caller has initialized the waiter as shared. places has room for n elements.
 */
static inline int sn_select_enter(struct sn_thread *self, struct sn_case *cases, size_t n,
				  struct sn_select_place *places, struct sn_waiter *waiter,
				  size_t *count, bool others)
{
	struct sn_chan_node *met;
	struct sn_case *chosen;
	int err;

	*count = sn_select_sort(places, cases, n, others);
	sn_select_lock(places, *count);
	/* An attempt that fails has dropped the nodes that made the case look ready, so the loop
	 * ends. */
	while ((chosen = sn_select_choose(self, cases, n, others)) != NULL) {
		err = sn_chan_attempt(sn_case_chan(chosen), chosen->op, chosen->elem, &met);
		if (err == -EAGAIN)
			continue;
		sn_select_unlock(places, *count);
		chosen->result = err;
		sn_chan_wake_met(self, met);
		return (int)(chosen - cases);
	}
	for (size_t i = 0; i < *count; i++) {
		struct sn_case *in = places[i].in_order;
		struct sn_chan_node *node = &places[i].node;

		node->waiter = waiter;
		node->elem = in->elem;
		node->wake = (int)(in - cases);
		sn_chan_enqueue(sn_case_chan(in), in->op, node);
	}
	sn_select_unlock(places, *count);
	return -EAGAIN;
}

/* Leaves the queues, after the waiter was woken. Returns the index of the case that was done, or
 * -1. */
static inline int sn_select_leave(struct sn_case *cases, struct sn_select_place *places,
				  size_t count)
{
	int ended_by = -1;

	for (size_t i = 0; i < count; i++) {
		struct sn_case *in = places[i].in_order;

		if (places[i].node.status == SN_NODE_PENDING) {
			sn_select_leave_queue(in, &places[i].node);
		} else {
			/* No lock is needed: the party that took the node out of its queue does not
			 * touch it any more. */
			in->result = places[i].node.status;
			ended_by = (int)(in - cases);
		}
	}
	return ended_by;
}

/* Attempts a case. Returns true if it was done, false if it is not possible now. */
static inline bool sn_select_attempt(struct sn_thread *self, struct sn_case *one)
{
	struct sn_chan_node *met;
	int err;

	sn_lock(&sn_case_chan(one)->lock);
	err = sn_chan_attempt(sn_case_chan(one), one->op, one->elem, &met);
	sn_unlock(&sn_case_chan(one)->lock);
	if (err == -EAGAIN)
		return false;
	one->result = err;
	sn_chan_wake_met(self, met);
	return true;
}

#endif
