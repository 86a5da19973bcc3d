/* SPDX-License-Identifier: MIT */
/*
 * A side of a descriptor, reading or writing, on which one task at a time waits. It is one word:
 *
 *   SN_SIDE_NONE   no edge since the last wait: an operation would probably block
 *   SN_SIDE_READY  an edge has arrived since the last wait
 *   otherwise      the address of the task that waits
 *
 *   none -> ready       an edge                      (poller)
 *   task -> ready       an edge; the task is woken   (poller)
 *   ready -> none       a wait that need not wait    (the task)
 *   none -> task        the task parks               (commit)
 *   task -> none        woken without an edge: closed, cancelled, past the deadline
 *
 * A task tries its operation first, waits only after EAGAIN, and then tries again. A stale edge
 * thus costs one failing operation, never a hang, and a spurious wake-up is harmless. A read may
 * wait first if the previous one has left the socket empty (stream/stream.c).
 *
 * Scopes cancel the wait of a single task: sn_side_cancel() takes the task off the side under the
 * lock of task/cancel.h, under which the task of a scope also puts itself there.
 *
 * Who may write what: state, as in the table, by compare-and-swap or exchange; the other fields,
 * see io/fd.h.
 *
 * models/side.pml checks the waits for one side. io/fd.h has the rest of a descriptor.
 */
#ifndef SENNIT_SCHED_SIDE_H
#define SENNIT_SCHED_SIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/task.h"
#include "sched/timer.h"

#define SN_SIDE_NONE ((uintptr_t)0)
#define SN_SIDE_READY ((uintptr_t)1)

struct sn_side {
	_Atomic uintptr_t state;
	_Atomic int64_t deadline;           /* 0 if there is none */
	_Atomic int64_t pause;              /* that of sn_fd_wait_until() and the like, or 0 */
	_Atomic int64_t armed;              /* not 0: the timer fires then or earlier (fd_wait.c) */
	_Atomic bool ignores_bytes;         /* in sn_fd_sleep(), which edges of bytes do not end */
	struct sn_side *_Atomic forward_to; /* the edges here also wake the task there; or NULL */
	struct sn_timer timer; /* moved lazily: may fire at an older, earlier deadline */
};

/* Takes the task off a side, without marking the side ready. Returns NULL if none waits. */
static inline struct sn_task *sn_side_unblock(struct sn_side *side)
{
	/* Sequentially consistent: the second half of a handshake with commit_wait() in
	 * io/fd_wait.c, after the store of a deadline or of the control word. */
	uintptr_t state = atomic_load(&side->state);

	while (state != SN_SIDE_NONE && state != SN_SIDE_READY)
		if (atomic_compare_exchange_weak(&side->state, &state, SN_SIDE_NONE))
			return (struct sn_task *)state;
	return NULL;
}

/* An edge: marks the side ready and takes the task that waits, if any. */
static inline struct sn_task *sn_side_ready(struct sn_side *side)
{
	uintptr_t state = atomic_exchange(&side->state, SN_SIDE_READY);

	return state == SN_SIDE_NONE || state == SN_SIDE_READY ? NULL : (struct sn_task *)state;
}

/* Puts the task on the side. Returns 0, or 1 if an edge came first. */
static inline int sn_side_announce(struct sn_side *side, struct sn_task *task)
{
	uintptr_t state = SN_SIDE_NONE;

	return atomic_compare_exchange_strong(&side->state, &state, (uintptr_t)task) ? 0 : 1;
}

/*
 * Takes the task off the side that it waits on, so that its wait returns the reason. Returns true
 * when the task was there; the caller must then make it runnable. The task's lock of task/cancel.h
 * is held.
 */
static inline bool sn_side_cancel(struct sn_side *side, struct sn_task *task, int reason)
{
	uintptr_t state = (uintptr_t)task;

	if (!atomic_compare_exchange_strong(&side->state, &state, SN_SIDE_NONE))
		return false;
	task->wake_reason = reason;
	return true;
}

#endif
