/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that tasks wait on.
 *
 * Each descriptor (struct sn_fd) has two sides, reading and writing (sched/side.h), of which epoll
 * tells by edges (sched/netpoll.h).
 *
 * Life. The control word counts users and carries the flags; the descriptor is closed, and its
 * number given back to the system, by whoever leaves last. The structures themselves are never
 * freed, only reused, and tagged with a generation that goes into the epoll event: an event for an
 * earlier life is recognised and dropped. So is a handle of the program's (handle.h): the generation stays
 * the same while somebody uses the descriptor, so it is looked at again once one does.
 *
 * In a child of fork() the parent's descriptors are marked INHERITED, before the child closes one or
 * runs the runtime anew. The tasks that used them are not there, so those that are open have no users;
 * they count for nothing, no operation begins on them, and their numbers are closed only by who asks
 * for that: the child may have closed and reused them behind our back.
 *
 * Waiting. A task that waits for either of two descriptors puts itself on one side, the *leader* of the
 * other side, and looks at the other one after that (commit_wait() in fd_wait.c). The thread that tells
 * of an edge makes the side ready first, and then takes off the leader who is there. Both steps are
 * sequentially consistent on both sides, so one sees the other; and a task is taken off by one
 * compare-and-swap. models/either.pml checks that.
 */
#ifndef SENNIT_NET_FD_H
#define SENNIT_NET_FD_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/fork.h"
#include "sched/handle.h"
#include "sched/runqueue.h"
#include "sched/side.h"
#include "wait/lock.h"

struct sn_thread;

enum sn_side_index {
	SN_SIDE_READ = 0,
	SN_SIDE_WRITE = 1,
};

/* The control word. */
#define SN_FD_READING 1u /* an operation holds the side */
#define SN_FD_WRITING 2u
#define SN_FD_CLOSED 4u     /* no new operation; the last to leave closes */
#define SN_FD_CANCELED 8u   /* operations fail with -ECANCELED */
#define SN_FD_ABORT 16u     /* close by a reset */
#define SN_FD_INHERITED 32u /* the parent's, in a child of fork(): it can be closed, no more */
/* Six bits: those of the generation that are the lowest of the handle. Who begins with a handle takes the side
 * by a compare-and-swap that fails when these are another life's. */
#define SN_FD_LIFE 64u
#define SN_FD_LIFE_MASK (SN_HANDLE_LOW * SN_FD_LIFE)
#define SN_FD_USER 4096u /* and upwards: the number of other users */

struct sn_fd {
	_Alignas(SN_HANDLE_ALIGN) _Atomic uint32_t control;
	_Atomic uint32_t generation;
	uint32_t index;
	int fd;
	uint8_t kind; /* what it is to the net layer: its enum sn_kind, 0 at first */
	bool tcp;     /* of the net layer's making: TCP without delays; written as kind */
	uint8_t acks; /* the net layer's enum sn_acks, 0 at first; by who holds the reading side */
	bool open;    /* not in the free list */
	bool registered; /* written by the opener, before the descriptor is shared */
	/*
	 * epoll has told of more than bytes: an end, an error, urgent data. Written by pollers,
	 * before they make the sides ready.
	 */
	_Atomic bool irregular;
	_Atomic bool over;   /* the same: of an error, or of the end of both directions */
	_Atomic bool unread; /* since it was registered; written by who holds the reading side */
	_Atomic bool muted;  /* sn_fd_mute(); the same */
	struct sn_side sides[2];
	struct sn_lock lock; /* orders the arming of the timers */
	struct sn_fd *next_free;
};

/* The beginning of a run; and its end, which closes what abandoned tasks have left open. */
void sn_fds_begin(void);
void sn_fds_end(void);
void sn_fds_fork(enum sn_fork_phase phase);

/* The hook for sn_netpoll_init(). */
int sn_fds_told(uint64_t tag, uint32_t what, struct sn_queue *ready);

/*
 * Adopts a non-blocking descriptor. With register_now it is made known to epoll at once, otherwise
 * by sn_fd_register(). Returns 0, -ENOMEM, or -ENOSPC past fs.epoll.max_user_watches; then fd is
 * not closed.
 */
int sn_fd_open(struct sn_fd **out, int fd, bool register_now);
int sn_fd_register(struct sn_fd *d);

/* Begins and ends an operation of a side: 0, -EBADF, -ECANCELED, -EBUSY, or why the task's scope was
 * cancelled. */
int sn_fd_begin(struct sn_fd *d, enum sn_side_index side);
/* The same of a handle, which sn_fd_find() has found: -EBADF also when that life is over. */
int sn_fd_begin_handle(struct sn_fd *d, const void *handle, enum sn_side_index side);
void sn_fd_end(struct sn_fd *d, enum sn_side_index side);

/* Begins and ends the use of the descriptor for anything else: 0 or -EBADF. */
int sn_fd_use(struct sn_fd *d);
void sn_fd_unuse(struct sn_fd *d);

/* What programs have of the descriptor: for who has just opened it. */
static inline void *sn_fd_handle(struct sn_fd *d)
{
	return sn_handle_make(d, atomic_load_explicit(&d->generation, memory_order_relaxed));
}

/* Whether it is the descriptor's handle in its present life. Relaxed: who uses it has acquired control
 * after that life began; otherwise it is a hint. */
static inline bool sn_fd_fits(struct sn_fd *d, const void *handle)
{
	return sn_handle_fits(handle, atomic_load_explicit(&d->generation, memory_order_relaxed));
}

/* The descriptor of a handle. It can be closed, and be another, before it is used: look again then. 0;
 * -EINVAL for NULL; -EBADF when it is gone. */
int sn_fd_find(struct sn_fd **d, const void *handle);

/* Both in one, with an answer that is sure: as sn_fd_use(). */
int sn_fd_use_handle(struct sn_fd **d, const void *handle);

/*
 * Within an operation that reads: nobody waits for bytes for a while, so epoll is not to tell of
 * them. Whoever does wait, here or in another operation, changes that first. A thread that sleeps in
 * the poller is otherwise woken by each piece that arrives for a copy that waits for room to write.
 * One system call, unless it is so already.
 */
void sn_fd_mute(struct sn_fd *d);
void sn_fd_unmute(struct sn_fd *d);

/* Relaxed: it goes from one operation to the next with the control word. */
static inline bool sn_fd_is_muted(const struct sn_fd *d)
{
	return atomic_load_explicit(&d->muted, memory_order_relaxed);
}

/* Sets flags (SN_FD_CLOSED with or without SN_FD_ABORT, or SN_FD_CANCELED) and wakes both sides. 0
 * or -EBADF. */
int sn_fd_end_with(struct sn_thread *self, struct sn_fd *d, uint32_t flags);

/* What the control word says against an operation: 0, -EBADF or -ECANCELED. */
static inline int sn_fd_error(uint32_t control)
{
	if (control & (SN_FD_CLOSED | SN_FD_INHERITED))
		return -EBADF;
	return control & SN_FD_CANCELED ? -ECANCELED : 0;
}

/* ---- waiting: fd_wait.c ---- */

/*
 * Waits for the side to become ready, within an operation. 0 when an operation should be tried, or
 * -ETIMEDOUT, -EBADF, -ECANCELED, -ENOMEM. Parks: the caller's self is stale.
 */
int sn_fd_wait(struct sn_fd *d, enum sn_side_index side);

/* The same, and no longer than until a time; 1 when nothing but that, or somebody who meant another
 * wait, has ended it. */
int sn_fd_wait_until(struct sn_fd *d, enum sn_side_index side, int64_t until);

/*
 * Waits until either of two descriptors becomes ready to be read, within operations that read of
 * both; no longer than the deadline of the first. 0 when sn_fd_take_edge() of either may be true, which can
 * be wrong; otherwise as sn_fd_wait(). From the first wait until sn_fd_lead(other, NULL) d is to
 * lead other. Parks.
 */
int sn_fd_wait_either(struct sn_fd *d, struct sn_fd *other);

/* Edges of bytes to be read from d wake who waits to read from leader; NULL: nobody any more. A wake-up
 * may be on its way still, to whoever waits there next. */
void sn_fd_lead(struct sn_fd *d, struct sn_fd *leader);

/* Whether an edge has arrived since the last wait, or the last one that was taken. */
bool sn_fd_take_edge(struct sn_fd *d, enum sn_side_index side);

/*
 * Forgets an edge that has arrived, for who is about to try the operation: what the edge was about
 * is there by now. Otherwise the wait after an operation that took all there was would return at
 * once. Within an operation of the side.
 */
void sn_fd_forget(struct sn_fd *d, enum sn_side_index side);

/* Whether nobody has read it since it was registered and no edge has arrived: the first byte will be
 * an edge. */
bool sn_fd_is_silent(struct sn_fd *d);

/* Makes the side ready as an edge does, and wakes who waits: to him it is a spurious one. */
void sn_fd_nudge(struct sn_thread *self, struct sn_fd *d, enum sn_side_index side);

/*
 * Waits until a time, or an edge, whichever is first; for operations that fail for another reason
 * than that the descriptor is not ready. 0, or as sn_fd_wait(). Parks.
 */
int sn_fd_pause(struct sn_fd *d, enum sn_side_index side, int64_t until);

/*
 * Waits until a time, whatever bytes there are meanwhile; an end or an error of both directions, the
 * deadline, and all that ends the use of the descriptor can end it early. 0, or as sn_fd_wait().
 * Whoever waits for the side next must have tried its operation first: an edge that came meanwhile
 * is forgotten. Parks.
 */
int sn_fd_sleep(struct sn_fd *d, enum sn_side_index side, int64_t until);

/* 0 when the side's deadline is ahead or there is none, else -ETIMEDOUT. */
int sn_fd_check_deadline(struct sn_fd *d, enum sn_side_index side);
int sn_fd_set_deadline(struct sn_thread *self, struct sn_fd *d, enum sn_side_index side,
		       int64_t deadline);

/* The fire of a side's timer. */
sn_timer_fire sn_fd_deadline_fire;

#endif
