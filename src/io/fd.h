/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that tasks wait on.
 *
 * Each descriptor (struct sn_fd) has two sides, reading and writing (sched/side.h), of which epoll
 * reports edges (sched/netpoll.h).
 *
 * Life. The control word counts users and carries the flags. The last user to leave closes the
 * descriptor and so gives its number back to the system. The structures themselves are never freed,
 * only reused, and tagged with a generation that goes into the epoll event: an event for an earlier
 * generation is recognised and dropped. So is a stale handle of the program's (base/handle.h): the
 * generation does not change while the descriptor has a user, so it is checked again once it has
 * one.
 *
 * Tasks may also wait for a descriptor's number (watch.h). When a descriptor is registered or
 * closed here, the waits for its number end, as those for another descriptor or for one that is
 * gone.
 *
 * In a child of fork() the parent's descriptors are marked INHERITED, before the child closes one
 * or starts the runtime again. The tasks that used them do not exist there, so those that are open
 * have no users. They are not counted, no operation begins on them, and their numbers are closed
 * only on request: the child may have closed and reused them behind our back.
 *
 * Waiting. A task that waits for either of two descriptors puts itself on the side of one, to which
 * the other's side *forwards* its wake-ups, and checks the other one after that (commit_wait() in
 * fd_wait.c). The thread that reports an edge makes the side ready first, and then takes off the
 * task on the side that it forwards to. Both steps are sequentially consistent on both sides, so
 * one sees the other; and a task is taken off by one compare-and-swap. models/either.pml checks
 * that.
 */
#ifndef SENNIT_IO_FD_H
#define SENNIT_IO_FD_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fork.h"
#include "base/handle.h"
#include "sched/runqueue.h"
#include "sched/side.h"
#include "wait/lock.h"

struct sn_fd;
struct sn_thread;

enum sn_side_index {
	SN_SIDE_READ = 0,
	SN_SIDE_WRITE = 1,
};

/* The control word. */
#define SN_FD_READING 1u /* an operation holds the side */
#define SN_FD_WRITING 2u
#define SN_FD_CLOSED 4u     /* no new operation; the last user to leave closes */
#define SN_FD_CANCELED 8u   /* operations fail with -ECANCELED */
#define SN_FD_ABORT 16u     /* close by a reset */
#define SN_FD_INHERITED 32u /* the parent's, in a child of fork(): it can only be closed */
/* Six bits: the low bits of the generation that the handle carries. An operation that begins with a
 * handle takes the side by a compare-and-swap that fails when these are of another generation. */
#define SN_FD_LIFE 64u
#define SN_FD_LIFE_MASK (SN_HANDLE_LOW * SN_FD_LIFE)
#define SN_FD_USER 4096u /* and upwards: the number of other users */

/*
 * What a kind of descriptor adds to the end of its life: a constant of the layer that knows the
 * kind, which is named when the descriptor is opened. A hook may be NULL. Reading, writing and
 * waiting go through none of them: whoever has a descriptor to read from knows what it is.
 */
struct sn_fd_ops {
	/*
	 * Before a close that the program has asked for, while the descriptor is open and used.
	 * Outside the runtime: may block. Any thread; several may close at once.
	 */
	void (*closing)(struct sn_fd *d);
	/*
	 * The last user has left a closed descriptor, whose number is still open: frees what the
	 * kind has. orderly: it was not closed by an abort, or in a child of fork(). Any thread,
	 * within the runtime or outside.
	 */
	void (*closed)(struct sn_fd *d, bool orderly);
	/*
	 * A run ends which has left the descriptor open: instead of the two above, before any of
	 * those that are left is closed. used: by an orphan, which may go on for a while, so what
	 * it uses stays.
	 */
	void (*abandoned)(struct sn_fd *d, bool used);
};

struct sn_fd {
	_Alignas(SN_HANDLE_ALIGN) _Atomic uint32_t control;
	_Atomic uint32_t generation;
	uint32_t index;
	int fd; /* -1: none */
	/* Of the layers above, which say what it means (stream/stream.h), and who may write it. All
	 * 0 when the descriptor is opened. */
	uint8_t marks[4];
	/* Notes from one operation that reads to the next: 2 by the first, 1 during the second, 0
	 * after that. What they say is for those that read (stream/stream.h); by the holder of the
	 * read side. */
	uint8_t notes[2];
	bool open;       /* not in the free list */
	bool registered; /* written by the opener, before the descriptor is shared */
	/*
	 * epoll has reported more than bytes: an end, an error, urgent data. Written by pollers,
	 * before they make the sides ready.
	 */
	_Atomic bool irregular;
	_Atomic bool over;     /* the same: an error, or the end of both directions */
	_Atomic bool unread;   /* since it was registered; by the holder of the read side */
	_Atomic bool disarmed; /* sn_fd_disarm(); by the same, under lock */
	/* Each edge makes both sides ready. By a user who holds both sides. */
	_Atomic bool crossed;
	_Atomic bool lent; /* the program has asked for the number */
	bool wants_room;   /* epoll reports EPOLLOUT; by the opener, then under lock */
	struct sn_side sides[2];
	/* Orders the arming of the timers, and changes of what epoll reports. */
	struct sn_lock lock;
	/* Written by the opener. Atomic, because a stale handle may lead here. */
	const struct sn_fd_ops *_Atomic ops;
	/* What the kind keeps beside the descriptor; and the two words of a layer on the stream
	 * (stream/layer.h). NULL when the descriptor is opened; otherwise as marks. */
	void *_Atomic own;
	void *layered[2];
	struct sn_fd *next_free;
};

/*
 * In a tag of the poller: that of the one descriptor that a layer above registers there itself (the
 * eventfd of signals). Its events go to the hook, as those of descriptors do to theirs.
 */
#define SN_GUEST_TAG 0x40000000u
typedef int sn_guest_event(struct sn_queue *ready);

/* The beginning of a run; and its end, which closes what abandoned tasks have left open. orphans:
 * threads of the run may still be outside the runtime. */
void sn_fds_begin(sn_guest_event *guest);
void sn_fds_end(bool orphans);
void sn_fds_fork(enum sn_fork_phase phase);

/* The hook for sn_netpoll_init(). */
int sn_fds_event(uint64_t tag, uint32_t what, struct sn_queue *ready);

/*
 * Adopts a non-blocking descriptor of a kind. With register_now it is registered with epoll at
 * once, otherwise by sn_fd_register(). Returns 0, -ENOMEM, or -ENOSPC past
 * fs.epoll.max_user_watches; then fd is not closed.
 */
int sn_fd_open(struct sn_fd **out, const struct sn_fd_ops *ops, int fd, bool register_now);
int sn_fd_register(struct sn_fd *d);
/* Closes d without its descriptor, which stays the caller's. */
void sn_fd_give_back(struct sn_fd *d);

/* Begins and ends an operation of a side: 0, -EBADF, -ECANCELED, -EBUSY, or the reason for which
 * the task's scope was cancelled. */
int sn_fd_begin(struct sn_fd *d, enum sn_side_index side);
/* The same with a handle, which sn_fd_find() has found: -EBADF also when it is stale. */
int sn_fd_begin_handle(struct sn_fd *d, const void *handle, enum sn_side_index side);
void sn_fd_end(struct sn_fd *d, enum sn_side_index side);

/*
 * Begins an operation of which there may be several at once, which sn_fd_unuse() ends. It waits
 * only by its turn (turns.h). Errors as sn_fd_begin_handle(); -EBUSY only past half a
 * million operations.
 */
int sn_fd_begin_shared(struct sn_fd *d, const void *handle);

/* Begins and ends the use of the descriptor for anything else: 0 or -EBADF. */
int sn_fd_use(struct sn_fd *d);
void sn_fd_unuse(struct sn_fd *d);

static inline const struct sn_fd_ops *sn_fd_ops(const struct sn_fd *d)
{
	return atomic_load_explicit(&d->ops, memory_order_relaxed);
}

/* The program's handle of the descriptor: for the opener. */
static inline void *sn_fd_handle(struct sn_fd *d)
{
	return sn_handle_make(d, atomic_load_explicit(&d->generation, memory_order_relaxed));
}

/* Whether it is a handle of the descriptor's present generation. Relaxed: a user has acquired
 * control after that generation began; for others it is a hint. */
static inline bool sn_fd_fits(struct sn_fd *d, const void *handle)
{
	return sn_handle_fits(handle, atomic_load_explicit(&d->generation, memory_order_relaxed));
}

/* The descriptor of a handle. It may be closed and reused before the caller uses it, so the caller
 * checks again then. 0; -EINVAL for NULL; -EBADF when it is stale. */
int sn_fd_find(struct sn_fd **d, const void *handle);

/* Both in one call, with a reliable answer: as sn_fd_use(). */
int sn_fd_use_handle(struct sn_fd **d, const void *handle);

/*
 * Within an operation that reads: nothing waits for bytes for a while, so epoll should not report
 * them. A wait for them, here or in another operation, arms them again first. Otherwise each piece
 * that arrives for a copy that waits for room to write would wake a thread that sleeps in the
 * poller. One system call, unless they are disarmed already.
 */
void sn_fd_disarm(struct sn_fd *d);
void sn_fd_rearm(struct sn_fd *d);

/*
 * Whether epoll reports room to write. It does from the beginning, unless the opener has said
 * otherwise in wants_room. A datagram socket has room again after almost every send, and each of
 * these edges would wake a thread that sleeps in the poller. So there it is asked for only while a
 * task waits for room. When it is asked for and there is room already, that is an edge too. One
 * system call.
 */
void sn_fd_want_room(struct sn_fd *d, bool wanted);

/* Relaxed: the flag passes from one operation to the next with the control word. */
static inline bool sn_fd_is_disarmed(const struct sn_fd *d)
{
	return atomic_load_explicit(&d->disarmed, memory_order_relaxed);
}

/* Sets flags (SN_FD_CLOSED with or without SN_FD_ABORT, or SN_FD_CANCELED) and wakes both sides. 0
 * or -EBADF. */
int sn_fd_end_with(struct sn_thread *self, struct sn_fd *d, uint32_t flags);

/* The error that the control word gives an operation: 0, -EBADF or -ECANCELED. */
static inline int sn_fd_error(uint32_t control)
{
	if (control & (SN_FD_CLOSED | SN_FD_INHERITED))
		return -EBADF;
	return control & SN_FD_CANCELED ? -ECANCELED : 0;
}

/* ---- waiting: fd_wait.c ---- */

/*
 * Waits for the side to become ready, within an operation. 0 when an operation should be tried,
 * which is so once more when the deadline has ended the wait; or -ETIMEDOUT when it had passed
 * before, -EBADF, -ECANCELED, -ENOMEM. Parks: the caller's self is stale.
 */
int sn_fd_await(struct sn_fd *d, enum sn_side_index side);

/* The same, but no longer than until a time; 1 when only that, the deadline, or a wake-up meant for
 * another wait has ended it. */
int sn_fd_wait_until(struct sn_fd *d, enum sn_side_index side, int64_t until);

/*
 * Waits until either of two descriptors becomes ready to be read, within operations that read from
 * both; no longer than the deadline of the first. 0 when sn_fd_take_edge() of either may be true,
 * which can be wrong; otherwise as sn_fd_await(). From the first wait until sn_fd_forward(other,
 * NULL), other has to forward its wake-ups to d. Parks.
 */
int sn_fd_wait_either(struct sn_fd *d, struct sn_fd *other);

/* Forwards wake-ups: edges of bytes to be read from d also wake the task that waits to read from
 * `to`; NULL: no longer. One wake-up may still be under way, to the next task that waits there. */
void sn_fd_forward(struct sn_fd *d, struct sn_fd *to);

/* Whether an edge has arrived since the last wait, or the last one that was taken. */
bool sn_fd_take_edge(struct sn_fd *d, enum sn_side_index side);

/*
 * Forgets an edge that has arrived, for a caller that is about to try the operation: what the edge
 * reported is there by now. Otherwise the wait after an operation that took all there was would
 * return at once. Within an operation of the side.
 */
void sn_fd_forget(struct sn_fd *d, enum sn_side_index side);

/* Whether nothing has been read since it was registered and no edge has arrived: the first byte
 * will be an edge. */
bool sn_fd_is_silent(struct sn_fd *d);

/* Makes the side ready as an edge does, and wakes the task that waits, spuriously. */
void sn_fd_wake(struct sn_thread *self, struct sn_fd *d, enum sn_side_index side);

/*
 * Parks a task that has not begun, within an operation that reads, which is the task's from then
 * on: it begins when an edge or anything else ends the wait, or at once if something has. The task
 * then first calls sn_fd_parked_on(), which returns d, and ends the operation.
 */
void sn_fd_park_new(struct sn_thread *self, struct sn_fd *d, struct sn_task *task);
struct sn_fd *sn_fd_parked_on(struct sn_task *task);

/*
 * Waits until a time, or an edge, whichever is first; for operations that fail for a reason other
 * than that the descriptor is not ready. 0, or as sn_fd_await(). Parks.
 */
int sn_fd_pause(struct sn_fd *d, enum sn_side_index side, int64_t until);

/*
 * Waits until a time, whether bytes arrive or not. An end or an error of both directions, the
 * deadline, and all that ends the use of the descriptor can end it early. 0, or as sn_fd_await().
 * The next wait for the side must come after a try of its operation, because an edge that came
 * meanwhile is forgotten. Parks.
 */
int sn_fd_sleep(struct sn_fd *d, enum sn_side_index side, int64_t until);

/* 0 when the side has no deadline or it is ahead, else -ETIMEDOUT. */
int sn_fd_check_deadline(struct sn_fd *d, enum sn_side_index side);
/* The same at a time that the caller has read. */
int sn_fd_check_deadline_at(struct sn_fd *d, enum sn_side_index side, int64_t now);
int sn_fd_set_deadline(struct sn_thread *self, struct sn_fd *d, enum sn_side_index side,
		       int64_t deadline);

/* The function of a side's timer. */
sn_timer_fire sn_fd_deadline_fire;

#endif
