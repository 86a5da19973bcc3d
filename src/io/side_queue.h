/* SPDX-License-Identifier: MIT */
/*
 * Several tasks that wait on one side of a descriptor, for sockets whose operations need no order
 * because each moves a whole datagram.
 *
 * A side has room for one task (sched/side.h). That task *leads*. The others wait in a list, which
 * edges do not reach. When the leader leaves, for whatever reason, it hands the lead to the first
 * task of the list, which tries its operation again before it waits on the side. One edge can stand
 * for several datagrams: each task that takes one wakes the next task, until one finds nothing and
 * stays on the side. The same chain carries a close, a cancellation of the socket and a deadline to
 * all tasks: each of these wakes the leader, and each new leader checks for itself.
 *
 * Tasks that find something at their first try never come here.
 *
 * The word is LEAD, QUEUED and, above these, the number of leads that have ended.
 *
 *   LEAD    some task leads: it is on the side, or runs, or was handed the lead and will run
 *   QUEUED  the list may not be empty; only with LEAD
 *
 * No wake-up is lost. An edge makes the side ready, and stays there until a leader takes it. A
 * leader that has taken an edge tries its operation before it waits again or leaves. That leaves
 * one way to lose a wake-up: a task tries in vain, something arrives, a leader takes the edge and
 * leaves (having taken only the first of several datagrams), and then the task takes the free lead
 * and waits. The number prevents that. The task reads it before it tries; the leader increments it
 * after it has taken the edge. If the task then finds the number that it has read, no leader has
 * taken an edge since its try, so whatever has arrived since is an edge that is still there.
 * Otherwise it tries again. The number would have to wrap around, with a thousand million waits,
 * during one try. models/side_queue.pml checks this.
 *
 * Who may write what. The lock in the table of waits (sync/waits.h) guards the list. A task sets
 * LEAD, by a compare-and-swap that fails if LEAD is set. A task sets QUEUED under the lock, by a
 * compare-and-swap that fails without LEAD. While LEAD is set, only the leader makes any other
 * change. Therefore a leader that holds the lock may store to the word.
 *
 * A task in the list has no timer of its own, because deadlines belong to the side. Cancelling the
 * task's scope takes it out of the list. If it was handed the lead at that moment, it finds that
 * out at its next wait, and passes the lead on like any other.
 *
 * Rejected: trying again after each change of the leader. That is one more system call for every
 * wait of a socket that has only one reader.
 */
#ifndef SENNIT_IO_SIDE_QUEUE_H
#define SENNIT_IO_SIDE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sennit/base.h>

#include "io/fd.h"

/* The turns of one side of a descriptor. */
struct sn_side_queue {
	_Atomic uint32_t word;
	struct sn_private_waits waits;
};

/* The state of one operation, on the stack of its task. */
struct sn_side_queue_place {
	struct sn_fd *d;
	struct sn_side_queue *queue;
	enum sn_side_index side;
	uint32_t seen; /* the word before the latest try */
	bool leads;
};

/* Initializes them. No task may be using them. */
void sn_side_queue_reset(struct sn_side_queue *queue);

/* Initializes a turn before the first try, within an operation of sn_fd_begin_shared(). */
static inline void sn_side_queue_begin(struct sn_side_queue_place *place, struct sn_fd *d,
				       enum sn_side_index side, struct sn_side_queue *queue)
{
	place->d = d;
	place->queue = queue;
	place->side = side;
	place->leads = false;
	/* Acquire: the try that follows finds what had arrived when a leader last took an edge. */
	place->seen = atomic_load_explicit(&queue->word, memory_order_acquire);
}

/* Waits, after a try that found nothing. Returns 0 when the operation should be tried again, or an
 * error like sn_fd_await(). Parks. */
int sn_side_queue_wait(struct sn_side_queue_place *place);

/* Passes the lead on. */
void sn_side_queue_give(struct sn_side_queue_place *place);

/* Ends the operation, after the last try. */
static inline void sn_side_queue_end(struct sn_side_queue_place *place)
{
	if (sn_unlikely(place->leads))
		sn_side_queue_give(place);
}

#endif
