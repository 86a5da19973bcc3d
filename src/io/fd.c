/* SPDX-License-Identifier: MIT */
#include "io/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/fd_table.h"
#include "io/watch.h"
#include "sched/netpoll.h"
#include "sched/runqueue.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "task/cancel.h"

/* Set in a child of fork() while the table is still as the parent left it (disown_inherited()). */
static _Atomic bool inherited;

static sn_guest_event *on_guest; /* constant while a runtime runs */

/* ---- opening and closing ---- */

static uint32_t life_of(uintptr_t handle)
{
	return (uint32_t)(handle & SN_HANDLE_LOW) * SN_FD_LIFE;
}

/* Relaxed, as is the load in has_number(). That asks about a number which the system has given to a
 * new descriptor. A previous descriptor of the number stored -1 here before it closed the number,
 * so the system orders this store before the load. */
static void set_number(struct sn_fd *d, int fd)
{
	__atomic_store_n(&d->fd, fd, __ATOMIC_RELAXED);
}

void sn_fd_give_back(struct sn_fd *d)
{
	set_number(d, -1);
	sn_fd_end_with(sn_thread_self(), d, SN_FD_CLOSED);
}

int sn_fd_open(struct sn_fd **out, const struct sn_fd_ops *ops, int fd, bool register_now)
{
	struct sn_fd *d = sn_fd_table_take();
	int err = 0;

	if (!d)
		return -ENOMEM;
	set_number(d, fd);
	memset(d->marks, 0, sizeof d->marks);
	memset(d->notes, 0, sizeof d->notes);
	atomic_store_explicit(&d->open, true, memory_order_relaxed);
	d->registered = false;
	d->wants_room = true;
	atomic_store_explicit(&d->ops, ops, memory_order_relaxed);
	atomic_store_explicit(&d->own, NULL, memory_order_relaxed);
	d->layered[0] = d->layered[1] = NULL;
	atomic_store_explicit(&d->irregular, false, memory_order_relaxed);
	atomic_store_explicit(&d->over, false, memory_order_relaxed);
	atomic_store_explicit(&d->unread, true, memory_order_relaxed);
	atomic_store_explicit(&d->disarmed, false, memory_order_relaxed);
	atomic_store_explicit(&d->crossed, false, memory_order_relaxed);
	atomic_store_explicit(&d->joint, false, memory_order_relaxed);
	atomic_store_explicit(&d->lent, false, memory_order_relaxed);
	/* Relaxed: the poller learns of d from the kernel, whose locks order epoll_ctl() before the
	 * event; other threads learn of it from the opener. */
	for (int i = 0; i < 2; i++) {
		atomic_store_explicit(&d->sides[i].state, SN_SIDE_NONE, memory_order_relaxed);
		atomic_store_explicit(&d->sides[i].deadline, 0, memory_order_relaxed);
		atomic_store_explicit(&d->sides[i].pause, 0, memory_order_relaxed);
		atomic_store_explicit(&d->sides[i].armed, 0, memory_order_relaxed);
		atomic_store_explicit(&d->sides[i].ignores_bytes, false, memory_order_relaxed);
		atomic_store_explicit(&d->sides[i].forward_to, NULL, memory_order_relaxed);
		d->sides[i].timer.fire = sn_fd_deadline_fire;
	}
	atomic_store_explicit(&d->control, life_of((uintptr_t)sn_fd_handle(d)),
			      memory_order_release);
	sn_netpoll_add();
	if (register_now && (err = sn_fd_register(d)) < 0) {
		sn_fd_give_back(d);
		return err;
	}
	*out = d;
	return 0;
}

/* Called when the last user has left a closed descriptor: frees d for reuse. Returns the number,
 * which the caller closes, or -1. */
static int fd_destroy(struct sn_fd *d, uint32_t control)
{
	static const struct {
		int on, seconds;
	} reset = {1, 0};
	const struct sn_fd_ops *ops = sn_fd_ops(d);
	const int fd = d->fd;

	if (ops->closed)
		ops->closed(d, !(control & (SN_FD_ABORT | SN_FD_INHERITED)));
	/* After the hook, which may park, and so never return if the run ends: then sn_fds_end()
	 * still has to find d open. Whoever takes `open` owns d from here on. */
	if (!atomic_exchange(&d->open, false))
		return -1;
	/*
	 * A late event, or the end of a commit_wait() that was overtaken by its own task, may still
	 * touch d after it is reused: that costs the next owner at most a spurious wake-up.
	 */
	sn_timer_stop(&d->sides[SN_SIDE_READ].timer);
	sn_timer_stop(&d->sides[SN_SIDE_WRITE].timer);
	atomic_fetch_add(&d->generation, 1);
	if (fd >= 0) {
		sn_watch_closing(sn_thread_self(), fd);
		/* An inherited socket is the parent's, too, and the option would be. */
		if ((control & SN_FD_ABORT) && !(control & SN_FD_INHERITED))
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		set_number(d, -1);
	}
	if (!(control & SN_FD_INHERITED))
		sn_netpoll_remove();
	/* Before the close, which may outlast the run. The close also removes the number from
	 * epoll, unless a child of fork() has the file open, too: then stale events may come. */
	sn_fd_table_put(d);
	return fd;
}

/* ---- operations and users ---- */

static uint32_t side_flag(enum sn_side_index side)
{
	return side == SN_SIDE_READ ? SN_FD_READING : SN_FD_WRITING;
}

static inline int begin(struct sn_fd *d, enum sn_side_index side, uint32_t life, uint32_t mask)
{
	uint32_t control = atomic_load_explicit(&d->control, memory_order_relaxed);
	int reason = sn_cancel_reason(sn_thread_self()->task);

	do {
		int err = (control ^ life) & mask ? -EBADF : sn_fd_error(control);

		if (err == 0)
			err = reason;
		if (err < 0)
			return err;
		if (control & side_flag(side))
			return -EBUSY;
	} while (!atomic_compare_exchange_weak_explicit(
		&d->control, &control, control | side_flag(side), memory_order_acquire,
		memory_order_relaxed));
	if (side == SN_SIDE_READ) {
		atomic_store_explicit(&d->unread, false, memory_order_relaxed);
		d->notes[0] >>= 1;
		d->notes[1] >>= 1;
	}
	return 0;
}

int sn_fd_begin(struct sn_fd *d, enum sn_side_index side)
{
	return begin(d, side, 0, 0);
}

int sn_fd_check(struct sn_fd *d)
{
	/* Relaxed: the flags carry no data, and the number stays open until this operation has
	 * ended. A close that precedes the attempt is seen; one that is not seen could as well have
	 * come just after a new operation had begun. */
	int err = sn_fd_error(atomic_load_explicit(&d->control, memory_order_relaxed));

	return err ? err : sn_cancel_reason(sn_thread_self()->task);
}

int sn_fd_begin_handle(struct sn_fd *d, const void *handle, enum sn_side_index side)
{
	return begin(d, side, life_of((uintptr_t)handle), SN_FD_LIFE_MASK);
}

int sn_fd_begin_shared(struct sn_fd *d, const void *handle)
{
	uint32_t control = atomic_load_explicit(&d->control, memory_order_relaxed);
	uint32_t life = life_of((uintptr_t)handle);
	int reason = sn_cancel_reason(sn_thread_self()->task);

	do {
		int err = (control ^ life) & SN_FD_LIFE_MASK ? -EBADF : sn_fd_error(control);

		if (err == 0)
			err = reason;
		if (err < 0)
			return err;
		/* sn_fd_use() does not check for an overflow, so the rest is left to its
		 * callers. */
		if (control >= UINT32_MAX / 2)
			return -EBUSY;
	} while (!atomic_compare_exchange_weak_explicit(&d->control, &control, control + SN_FD_USER,
							memory_order_acquire,
							memory_order_relaxed));
	return 0;
}

/* Returns the number that the caller, if it was the last user, has to close, or -1. Acquire as well
 * as release: the last user must see what the others did with the descriptor. */
static inline int leave_number(struct sn_fd *d, uint32_t what)
{
	uint32_t control =
		atomic_fetch_sub_explicit(&d->control, what, memory_order_acq_rel) - what;

	if (sn_likely(!(control & SN_FD_CLOSED)) || control >= SN_FD_USER ||
	    (control & (SN_FD_READING | SN_FD_WRITING)))
		return -1;
	return fd_destroy(d, control);
}

static void leave(struct sn_fd *d, uint32_t what)
{
	int fd = leave_number(d, what);

	if (fd >= 0)
		close(fd);
}

void sn_fd_end(struct sn_fd *d, enum sn_side_index side)
{
	leave(d, side_flag(side));
}

static void disown_inherited(void);

int sn_fd_use(struct sn_fd *d)
{
	uint32_t control;

	/* Before this call counts as a user, because disown_inherited() forgets all users. */
	if (sn_unlikely(atomic_load_explicit(&inherited, memory_order_relaxed)))
		disown_inherited();
	control = atomic_load_explicit(&d->control, memory_order_relaxed);
	do {
		if (control & SN_FD_CLOSED)
			return -EBADF;
	} while (!atomic_compare_exchange_weak_explicit(&d->control, &control, control + SN_FD_USER,
							memory_order_acquire,
							memory_order_relaxed));
	return 0;
}

void sn_fd_unuse(struct sn_fd *d)
{
	leave(d, SN_FD_USER);
}

int sn_fd_unuse_leave_number(struct sn_fd *d)
{
	return leave_number(d, SN_FD_USER);
}

int sn_fd_find(struct sn_fd **d, const void *handle)
{
	*d = sn_handle_object(handle);
	if (sn_unlikely(!*d))
		return -EINVAL;
	return sn_likely(sn_fd_fits(*d, handle)) ? 0 : -EBADF;
}

int sn_fd_use_handle(struct sn_fd **d, const void *handle)
{
	int err = sn_fd_find(d, handle);

	if (err == 0)
		err = sn_fd_use(*d);
	if (err == 0 && sn_unlikely(!sn_fd_fits(*d, handle))) {
		sn_fd_unuse(*d);
		err = -EBADF;
	}
	return err;
}

/* Takes off the task that waits on the side to which this one forwards its wake-ups, if any. */
static struct sn_task *unblock_forwarded(struct sn_side *side)
{
	struct sn_side *to = atomic_load(&side->forward_to);

	return to ? sn_side_unblock(to) : NULL;
}

int sn_fd_end_with(struct sn_thread *self, struct sn_fd *d, uint32_t flags)
{
	uint32_t control;
	struct sn_task *task;

	if (sn_unlikely(atomic_load_explicit(&inherited, memory_order_relaxed)))
		disown_inherited();
	control = atomic_load_explicit(&d->control, memory_order_relaxed);
	/* This call counts as a user until it returns, so that d is not freed. */
	do {
		if (control & SN_FD_CLOSED)
			return -EBADF;
	} while (!atomic_compare_exchange_weak(&d->control, &control,
					       (control | flags) + SN_FD_USER));
	for (int i = 0; i < 2; i++) {
		if ((task = sn_side_unblock(&d->sides[i])) != NULL)
			sn_ready(self, task, SN_READY_LAST);
		if ((task = unblock_forwarded(&d->sides[i])) != NULL)
			sn_ready(self, task, SN_READY_LAST);
	}
	leave(d, SN_FD_USER);
	return 0;
}

/* ---- a run, and fork() ---- */

static void forget_timers(struct sn_fd *d)
{
	for (int side = 0; side < 2; side++) {
		atomic_store(&d->sides[side].timer.heap, NULL);
		atomic_store(&d->sides[side].armed, 0);
	}
}

/*
 * The threads that used the table do not exist in this process. Whatever they held at the fork is
 * therefore released: the lock of a timer that was being armed, the sides on which the parent's
 * tasks wait, and the places of the timers in the parent's heaps. A descriptor that was being
 * opened or closed at that moment is neither open nor free, and stays so.
 */
static void disown(struct sn_fd *d)
{
	const uint32_t kept = SN_FD_CLOSED | SN_FD_CANCELED | SN_FD_ABORT | SN_FD_LIFE_MASK;

	sn_lock_forget(&d->lock, false);
	forget_timers(d);
	for (int side = 0; side < 2; side++) {
		atomic_store(&d->sides[side].state, SN_SIDE_NONE);
		atomic_store(&d->sides[side].forward_to, NULL);
	}
	if (atomic_load(&d->open))
		atomic_store(&d->control, (atomic_load(&d->control) & kept) | SN_FD_INHERITED);
}

static void disown_inherited(void)
{
	if (!atomic_load(&inherited))
		return;
	sn_lock(&sn_fd_table.lock);
	if (atomic_load(&inherited)) {
		for (uint32_t i = 0; i < sn_fd_table_size(); i++)
			disown(sn_fd_at(i));
		sn_netpoll_forget();
		atomic_store(&inherited, false); /* last: a thread that sees false needs no lock */
	}
	sn_unlock(&sn_fd_table.lock);
}

void sn_fds_begin(sn_guest_event *guest)
{
	on_guest = guest;
	disown_inherited();
}

static void close_abandoned(struct sn_fd *d)
{
	if (d->fd >= 0)
		close(d->fd);
	set_number(d, -1);
}

/* Whether the descriptor is open and not inherited. Stores in *used whether a thread may still be
 * in an operation on it. */
static bool is_left_open(struct sn_fd *d, bool *used)
{
	uint32_t control = atomic_load(&d->control);

	*used = control & (SN_FD_READING | SN_FD_WRITING) || control >= SN_FD_USER;
	return atomic_load(&d->open) && !(control & SN_FD_INHERITED);
}

/* Calls the hook of each descriptor that is left open. It does not notify the peer of an end,
 * because the program did not ask for one. */
static void abandon_all(bool orphans)
{
	for (uint32_t i = 0; i < sn_fd_table_size(); i++) {
		struct sn_fd *d = sn_fd_at(i);
		bool used;

		if (is_left_open(d, &used) && sn_fd_ops(d)->abandoned)
			sn_fd_ops(d)->abandoned(d, orphans && used);
	}
}

/*
 * Takes a descriptor that is open and not inherited, and puts it into the list. The heaps end with
 * the run, so no timer may refer to one, not even a free descriptor's: a waiter that its own task
 * has overtaken may have armed it after the descriptor was closed (commit_wait() in fd_wait.c).
 */
static void end_one(struct sn_fd *d, struct sn_free_link **ended)
{
	forget_timers(d);
	if ((atomic_load(&d->control) & SN_FD_INHERITED) || !atomic_exchange(&d->open, false))
		return;
	atomic_store(&d->control, SN_FD_CLOSED); /* nothing uses it until it is opened */
	sn_netpoll_remove();
	atomic_fetch_add(&d->generation, 1);
	d->free_link.next = *ended;
	*ended = &d->free_link;
}

/*
 * Closes what abandoned tasks have left open; no task runs any more. A thread outside the runtime
 * may be closing a descriptor at this moment: the one of the two that takes `open` frees it. The
 * lists of free ones are not touched, so a fork() at any moment finds them consistent. Descriptors
 * that are being closed then are lost to the child. No lock is held, because a close may wait for a
 * peer or a device.
 */
void sn_fds_end(bool orphans)
{
	struct sn_free_link *ended = NULL;

	abandon_all(orphans);
	for (uint32_t i = 0; i < sn_fd_table_size(); i++)
		end_one(sn_fd_at(i), &ended);
	for (struct sn_free_link *link = ended; link; link = link->next)
		close_abandoned(sn_container_of(link, struct sn_fd, free_link));
	sn_free_store_add(&sn_fd_table.unused, ended);
	sn_netpoll_forget_waits();
	sn_watches_reset();
}

/*
 * Open descriptors stay open, as after any fork(). Their state is adjusted only when the child uses
 * the table, because most children only execute a program, and the table of a large server has many
 * pages to copy.
 */
void sn_fds_fork(enum sn_fork_phase phase)
{
	sn_fd_table_fork(phase);
	if (phase == SN_FORK_CHILD)
		atomic_store(&inherited, true);
}

/* ---- edges ---- */

/* Makes the side ready if epoll has reported something for it. Returns the task to wake, or
 * NULL. */
static struct sn_task *side_event(struct sn_side *side, uint32_t what, uint32_t edges)
{
	const uint32_t failed = EPOLLERR | EPOLLHUP;
	struct sn_task *task;

	if (!(what & (edges | failed)))
		return NULL;
	if (!(what & failed) && atomic_load(&side->ignores_bytes))
		return NULL;
	task = sn_side_ready(side);
	SN_RACE_WINDOW();
	return task ? task : unblock_forwarded(side);
}

sn_noinline int sn_fds_event(uint64_t tag, uint32_t what, struct sn_queue *ready)
{
	struct sn_fd *d = sn_fd_at((uint32_t)tag);
	struct sn_task *task;
	uint32_t crossed = 0;
	int count = 0;

	if (tag & SN_WATCH_TAG)
		return sn_watch_event(tag, what, ready);
	if (tag == SN_GUEST_TAG)
		return on_guest(ready);
	if (!d || atomic_load(&d->generation) != tag >> 32)
		return 0; /* for an earlier generation */
	/* Relaxed: a task that is woken by the side, or finds it ready, sees this. */
	if (what & (EPOLLRDHUP | EPOLLPRI | EPOLLERR | EPOLLHUP))
		atomic_store_explicit(&d->irregular, true, memory_order_relaxed);
	if (what & (EPOLLERR | EPOLLHUP))
		atomic_store_explicit(&d->over, true, memory_order_relaxed);
	/* Relaxed: stream/layer.c, which stores it, says why. */
	if (sn_unlikely(atomic_load_explicit(&d->crossed, memory_order_relaxed)))
		crossed = EPOLLIN | EPOLLRDHUP | EPOLLOUT;
	task = side_event(&d->sides[SN_SIDE_READ], what, crossed | EPOLLIN | EPOLLRDHUP);
	if (task) {
		sn_queue_put(ready, task);
		count++;
	}
	task = side_event(&d->sides[SN_SIDE_WRITE], what, crossed | EPOLLOUT);
	if (task) {
		sn_queue_put(ready, task);
		count++;
	}
	return count;
}

/*
 * With many connections, what an event leads to is in no cache. The state of a descriptor is
 * therefore fetched some events ahead, then the task that waits there to read, whose address is in
 * that state, and the task's stack once the event has woken it. A task that has left before is
 * fetched in vain. The monitor, which runs no tasks, fetches no stacks.
 */
#define FETCHED_AHEAD 8

static void fetch_descriptor(uint64_t tag)
{
	const char *d = (const char *)sn_fd_at((uint32_t)tag);

	if (d) {
		__builtin_prefetch(d, 1);
		__builtin_prefetch(d + 64, 1);
	}
}

static void fetch_task(uint64_t tag)
{
	struct sn_fd *d = sn_fd_at((uint32_t)tag);
	uintptr_t state;

	if (!d)
		return;
	state = atomic_load_explicit(&d->sides[SN_SIDE_READ].state, memory_order_relaxed);
	if (state != SN_SIDE_NONE && state != SN_SIDE_READY)
		sn_task_prefetch_turn((const struct sn_task *)state);
}

int sn_fds_events(const struct epoll_event *events, int n, struct sn_queue *ready)
{
	const bool runs_tasks = sn_thread_self() != NULL;
	int count = 0;

	for (int i = 0; i < n && i < FETCHED_AHEAD; i++)
		fetch_descriptor(events[i].data.u64);
	for (int i = 0; i < n; i++) {
		const struct sn_task *last = ready->tail;

		if (i + FETCHED_AHEAD < n)
			fetch_descriptor(events[i + FETCHED_AHEAD].data.u64);
		if (i + FETCHED_AHEAD / 2 < n)
			fetch_task(events[i + FETCHED_AHEAD / 2].data.u64);
		count += sn_fds_event(events[i].data.u64, events[i].events, ready);
		if (runs_tasks && ready->tail != last)
			sn_task_prefetch_stack(ready->tail);
	}
	return count;
}
