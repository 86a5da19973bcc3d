/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that tasks wait on.
 *
 * Each descriptor (struct sn_fd) has two sides, reading and writing (sched/side.h), for which epoll
 * reports edges (sched/netpoll.h).
 *
 * Life. The control word counts users and carries the flags. The last user to leave closes the
 * descriptor and so gives its number back to the system. The structures themselves are never freed,
 * only reused, and tagged with a generation that goes into the epoll event: an event for an earlier
 * generation is recognised and dropped. A stale handle of the program is recognised in the same way
 * (base/handle.h). A caller checks the handle again when it counts as a user, because from then on
 * the generation does not change.
 *
 * Tasks may also wait for a descriptor's number (watch.h). When a descriptor is registered or
 * closed here, the waits for its number end, because they were for another descriptor, or for one
 * that is gone.
 *
 * In a child of fork() the parent's descriptors are marked INHERITED before the child closes one or
 * starts the runtime again. The tasks that used them do not exist in the child, so open descriptors
 * lose their users there. They do not count as open descriptors of the netpoller, no operation
 * begins on them, and their numbers are closed only on request, because the child may have closed
 * and reused a number without sennit's knowledge.
 *
 * Waiting. A task that waits for either of two descriptors puts itself on the side of the first.
 * The side of the second *forwards* its wake-ups there. After the task has put itself there, it
 * checks the second side (commit_wait() in fd_wait.c). A thread that reports an edge of the second
 * descriptor first makes its side ready, and then takes off the task that waits on the side to
 * which it forwards. All of these steps are sequentially consistent, so at least one of the two
 * sees the other. The task is taken off by one compare-and-swap, so it is woken once.
 * models/either.pml checks that.
 *
 * Who may write what, beside the fields of struct sn_fd that name their writers:
 *   control               any user, by atomic operations
 *   generation            the last user
 *   fd, open              the opener; the last user
 *   free_link             see sched/free_store.h
 * In a side (struct sn_side):
 *   state                 see sched/side.h
 *   deadline              any user
 *   pause, ignores_bytes  the task that holds the side
 *   forward_to            the task that waits for either of two descriptors
 *   timer                 any user, under the descriptor's lock; the last user, without it
 *   armed                 whoever arms or fires the timer, under the lock of its heap; the opener
 * At the end of a run, and in a child of fork(), one thread writes all of them.
 */
#ifndef SENNIT_IO_FD_H
#define SENNIT_IO_FD_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fork.h"
#include "base/handle.h"
#include "sched/free_store.h"
#include "sched/runqueue.h"
#include "sched/side.h"
#include "wait/lock.h"

struct epoll_event;
struct sn_fd;
struct sn_thread;

enum sn_side_index {
	SN_SIDE_READ = 0,
	SN_SIDE_WRITE = 1,
};

/* The control word. */
#define SN_FD_READING 1u /* an operation holds the side */
#define SN_FD_WRITING 2u
#define SN_FD_CLOSED 4u     /* no operation begins; the last user to leave closes the number */
#define SN_FD_CANCELED 8u   /* operations fail with -ECANCELED */
#define SN_FD_ABORT 16u     /* the close resets the connection */
#define SN_FD_INHERITED 32u /* the parent's, in a child of fork(): it can only be closed */
/* Six bits: the low bits of the generation that the handle carries. An operation that begins with a
 * handle takes the side by a compare-and-swap, which fails if these bits are of another
 * generation. */
#define SN_FD_LIFE 64u
#define SN_FD_LIFE_MASK (SN_HANDLE_LOW * SN_FD_LIFE)
#define SN_FD_USER 4096u /* and upwards: the number of other users */

/*
 * What a kind of descriptor does at the end of its life. The layer that knows the kind passes a
 * constant of this type to sn_fd_open(). A hook may be NULL. Reading, writing and waiting need no
 * hooks, because their callers know the kind of the descriptor.
 */
struct sn_fd_ops {
	/*
	 * Called before a close that the program has asked for. The descriptor is open then, and
	 * the caller counts as a user. May block, because it runs outside the runtime. Any thread
	 * may call it, and several at the same time.
	 */
	void (*closing)(struct sn_fd *d);
	/*
	 * Called when the last user has left a closed descriptor, before its number is closed.
	 * Frees what the kind keeps. orderly: the close is neither an abort nor one of an inherited
	 * descriptor. Any thread may call it, within the runtime or outside.
	 */
	void (*closed)(struct sn_fd *d, bool orderly);
	/*
	 * Called instead of the two above if the descriptor is still open when a run ends, and
	 * before any such descriptor is closed. used: an orphan may still use the descriptor for a
	 * while, so what it uses must not be freed.
	 */
	void (*abandoned)(struct sn_fd *d, bool used);
};

struct sn_fd {
	_Alignas(SN_HANDLE_ALIGN) _Atomic uint32_t control;
	_Atomic uint32_t generation;
	uint32_t index;
	int fd; /* -1: none */
	/* For the layers above, which say what each means and who may write it (stream/stream.h).
	 * All are 0 when the descriptor is opened. */
	uint8_t marks[4];
	/* Notes that one operation that reads leaves to the next. The first stores 2; this becomes
	 * 1 when the next begins, and 0 when the one after that does. stream/stream.h says what the
	 * notes mean. Written by the holder of the read side. */
	uint8_t notes[2];
	_Atomic bool open; /* set by the opener; who clears it frees the descriptor */
	bool registered;   /* written by the opener, before the descriptor is shared */
	/*
	 * epoll has reported more than bytes: an end, an error, urgent data. Written by pollers,
	 * before they make the sides ready.
	 */
	_Atomic bool irregular;
	_Atomic bool over;     /* written likewise: an error, or the end of both directions */
	_Atomic bool unread;   /* no read has begun yet; written by the holder of the read side */
	_Atomic bool disarmed; /* see sn_fd_disarm(); by the same, under lock */
	/* Each edge makes both sides ready. Written by a user that holds both sides. */
	_Atomic bool crossed;
	/* An operation that holds both sides waits on the reading side, also for the deadline of
	 * the writing side. Written by that operation. */
	_Atomic bool joint;
	_Atomic bool lent; /* the program has asked for the number; any user may set it */
	bool wants_room;   /* epoll reports EPOLLOUT; written by the opener, later under lock */
	struct sn_side sides[2];
	/* Orders the arming of the timers, and changes of what epoll reports. */
	struct sn_lock lock;
	/* Written by the opener. Atomic, because a stale handle may lead here. */
	const struct sn_fd_ops *_Atomic ops;
	/* own is what the kind keeps beside the descriptor; layered is for a layer on the stream
	 * (stream/layer.h). All are NULL when the descriptor is opened. The layers above say who
	 * may write them, as for marks. */
	void *_Atomic own;
	void *layered[2];
	struct sn_free_link free_link;
};

/*
 * The netpoller's tag of the one descriptor that a layer above registers there itself (the eventfd
 * of signals). Its events go to the function that sn_fds_begin() got, which puts the tasks to wake
 * into *ready and returns how many there are.
 */
#define SN_GUEST_TAG 0x40000000u
typedef int sn_guest_event(struct sn_queue *ready);

/* Called when a run begins, and when it ends. The second closes what abandoned tasks have left
 * open; orphans: threads of the run may still be outside the runtime. */
void sn_fds_begin(sn_guest_event *guest);
void sn_fds_end(bool orphans);
void sn_fds_fork(enum sn_fork_phase phase);

/* The hook for sn_netpoll_init(), and what it does for each event. The second has a symbol of its
 * own because bench/relay/lines.py finds the start of a request by it. */
int sn_fds_events(const struct epoll_event *events, int n, struct sn_queue *ready);
int sn_fds_event(uint64_t tag, uint32_t what, struct sn_queue *ready);

/*
 * Adopts a non-blocking descriptor of a kind. With register_now this call registers it with epoll,
 * otherwise sn_fd_register() does. Returns 0, -ENOMEM, or another error of epoll_ctl(), such as
 * -ENOSPC past fs.epoll.max_user_watches. After an error fd is still open.
 */
int sn_fd_open(struct sn_fd **out, const struct sn_fd_ops *ops, int fd, bool register_now);
int sn_fd_register(struct sn_fd *d);
/* Closes d but not its number, which is the caller's again. */
void sn_fd_give_back(struct sn_fd *d);

/* Begin and end an operation of a side. The first returns 0; -EBADF if d is closed, -ECANCELED if
 * it is cancelled, -EBUSY if another operation holds the side; or the reason for which the task's
 * scope was cancelled. */
int sn_fd_begin(struct sn_fd *d, enum sn_side_index side);
/* The same with the handle by which sn_fd_find() has found d. Returns -EBADF also if it is
 * stale. */
int sn_fd_begin_handle(struct sn_fd *d, const void *handle, enum sn_side_index side);
void sn_fd_end(struct sn_fd *d, enum sn_side_index side);

/* Whether an operation that makes several attempts may make another: 0, or the error with which
 * sn_fd_begin() would refuse a new one. */
int sn_fd_check(struct sn_fd *d);

/*
 * Begins an operation that shares the descriptor with others of its kind; sn_fd_unuse() ends it. It
 * waits only in the queue of side_queue.h. Errors are those of sn_fd_begin_handle(), except that
 * -EBUSY comes only past half a million operations.
 */
int sn_fd_begin_shared(struct sn_fd *d, const void *handle);

/* Begin and end any other use of the descriptor. The first returns 0, or -EBADF if d is closed. */
int sn_fd_use(struct sn_fd *d);
void sn_fd_unuse(struct sn_fd *d);
/* The same, but leaves it to the caller to close the number, which it returns if the caller was the
 * last user of a closed descriptor; otherwise -1. For callers that can close it outside the
 * runtime, because a close may wait for a peer, a device or a server of files. */
int sn_fd_unuse_leave_number(struct sn_fd *d);

static inline const struct sn_fd_ops *sn_fd_ops(const struct sn_fd *d)
{
	return atomic_load_explicit(&d->ops, memory_order_relaxed);
}

/* Makes the program's handle of the descriptor. Called by the opener. */
static inline void *sn_fd_handle(struct sn_fd *d)
{
	return sn_handle_make(d, atomic_load_explicit(&d->generation, memory_order_relaxed));
}

/* Whether the handle is of the descriptor's present generation. Relaxed: a user has acquired
 * control after that generation began; for others it is a hint. */
static inline bool sn_fd_fits(struct sn_fd *d, const void *handle)
{
	return sn_handle_fits(handle, atomic_load_explicit(&d->generation, memory_order_relaxed));
}

/* Finds the descriptor of a handle. It may be closed and reused before the caller counts as a user,
 * so the caller checks the handle again after that. Returns 0, -EINVAL for NULL, or -EBADF if the
 * handle is stale. */
int sn_fd_find(struct sn_fd **d, const void *handle);

/* Finds the descriptor of a handle and begins a use of it, with the second check of the handle.
 * Errors are those of sn_fd_find() and sn_fd_use(). */
int sn_fd_use_handle(struct sn_fd **d, const void *handle);

/*
 * Makes epoll report no more bytes to read. Called within an operation that reads, if nothing will
 * wait for bytes for a while. Otherwise each piece that arrives for a copy that waits for room to
 * write would wake a thread that sleeps in the poller. A wait for bytes, in this operation or
 * another, first calls sn_fd_rearm(). One system call, unless bytes are disarmed already.
 */
void sn_fd_disarm(struct sn_fd *d);
void sn_fd_rearm(struct sn_fd *d);

/*
 * Sets whether epoll reports room to write. It does from the beginning, unless the opener has
 * cleared wants_room. A datagram socket has room again after almost every send, and each of these
 * edges would wake a thread that sleeps in the poller. For such a socket, epoll is therefore asked
 * to report room only while a task waits for it. If there is room already when epoll is asked, that
 * is an edge, too. One system call.
 */
void sn_fd_want_room(struct sn_fd *d, bool wanted);

/* Relaxed: the flag passes from one operation to the next with the control word. */
static inline bool sn_fd_is_disarmed(const struct sn_fd *d)
{
	return atomic_load_explicit(&d->disarmed, memory_order_relaxed);
}

/* Sets flags (SN_FD_CLOSED with or without SN_FD_ABORT, or SN_FD_CANCELED) and wakes both sides.
 * Returns 0, or -EBADF if d is closed already. */
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
 * Waits within an operation for the side to become ready. Returns 0 if the caller should try its
 * operation, also if the deadline has ended this wait. Returns -ETIMEDOUT if the deadline had
 * passed before the wait, or -EBADF, -ECANCELED, -ENOMEM. Parks, so the caller's self is stale.
 */
int sn_fd_await(struct sn_fd *d, enum sn_side_index side);

/* The same, but waits no longer than until a time. Returns 1 if no edge has ended the wait, but
 * only that time, the deadline, or a wake-up that was meant for another wait. */
int sn_fd_wait_until(struct sn_fd *d, enum sn_side_index side, int64_t until);

/*
 * Waits until either of two descriptors becomes readable, but no longer than the deadline of the
 * first. The caller has begun operations that read from both. Returns 0 if one of them may have an
 * edge for sn_fd_take_edge(), though perhaps neither has; errors are those of sn_fd_await(). From
 * before the first such wait until sn_fd_forward(other, NULL), other must forward its wake-ups to
 * d. Parks.
 */
int sn_fd_wait_either(struct sn_fd *d, struct sn_fd *other);

/* Makes edges of d's reading side also wake the task that waits to read from `to`; NULL ends that.
 * One more wake-up may then be under way, and reach the next task that waits there. */
void sn_fd_forward(struct sn_fd *d, struct sn_fd *to);

/* Takes the edge that has arrived since the last wait, if any. Returns whether there was one. */
bool sn_fd_take_edge(struct sn_fd *d, enum sn_side_index side);

/*
 * Forgets an edge that has arrived. The caller, which holds the side, is about to try its
 * operation, which finds what the edge reported. Otherwise the wait after an operation that took
 * all there was would return immediately.
 */
void sn_fd_forget(struct sn_fd *d, enum sn_side_index side);

/* Whether no read has begun since the descriptor was opened, and no edge has arrived. The first
 * byte then causes an edge. */
bool sn_fd_is_silent(struct sn_fd *d);

/* Makes the side ready as an edge does, and wakes the task that waits there. That wake-up is
 * spurious. */
void sn_fd_wake(struct sn_thread *self, struct sn_fd *d, enum sn_side_index side);

/*
 * Parks a new task on the reading side of d. The task begins when an edge or anything else ends
 * this wait, or immediately if something already has. The caller has begun an operation that reads,
 * which is the task's from then on. The task first calls sn_fd_parked_on(), which returns d, and
 * ends that operation.
 */
void sn_fd_park_new(struct sn_thread *self, struct sn_fd *d, struct sn_task *task);
struct sn_fd *sn_fd_parked_on(struct sn_task *task);

/*
 * Waits until a time or until the next edge, whichever comes first. Serves operations that fail for
 * a reason other than that the descriptor is not ready. Returns 0 or an error of sn_fd_await().
 * Parks.
 */
int sn_fd_pause(struct sn_fd *d, enum sn_side_index side, int64_t until);

/*
 * Waits until a time, whether bytes arrive or not. An error, an end of both directions, the
 * deadline, or whatever ends the use of the descriptor can end the wait earlier. Returns 0 or an
 * error of sn_fd_await(). The caller must try its operation before the next wait for this side,
 * because edges of bytes that come during this wait are forgotten. Parks.
 */
int sn_fd_sleep(struct sn_fd *d, enum sn_side_index side, int64_t until);

/* Returns 0 if the side has no deadline or that has not passed yet, otherwise -ETIMEDOUT. */
int sn_fd_check_deadline(struct sn_fd *d, enum sn_side_index side);
/* The same, with the time that the caller has read. */
int sn_fd_check_deadline_at(struct sn_fd *d, enum sn_side_index side, int64_t now);
/* Sets the deadline, also for a task that waits. Returns 0, or -ENOMEM: that task's wait then has
 * no timer for the deadline, which is set all the same. */
int sn_fd_set_deadline(struct sn_thread *self, struct sn_fd *d, enum sn_side_index side,
		       int64_t deadline);
/* Ends the wait of a task for this side as a deadline does that has passed, without a timer. Call
 * it without a lock. */
void sn_fd_expire(struct sn_thread *self, struct sn_fd *d, enum sn_side_index side);

/* The function of a side's timer. */
sn_timer_fire sn_fd_deadline_fire;

#endif
