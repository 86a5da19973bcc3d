/* SPDX-License-Identifier: MIT */
#include "sched/netpoll.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sennit/clock.h>

#include "sched/cancel.h"
#include "sched/fork.h"
#include "sched/runtime.h"
#include "sched/schedule.h"
#include "sched/task.h"
#include "sched/thread.h"

/* Events taken at once. More arrive with the next call; edge-triggered ones are not lost. */
#define MOST_EVENTS 128

/* Descriptors are allocated in chunks, which are never freed: an event may name any of them at any
 * time. */
#define CHUNK_SIZE 256
#define MOST_CHUNKS 4096 /* a million descriptors: fs.nr_open's default */

/*
 * The event of the eventfd that ends a poll early. No descriptor has this index. It is
 * level-triggered, and only a poll that may sleep drains it: a passing one must not swallow the
 * kick that was meant for a sleeper.
 */
#define KICK_EVENT UINT64_MAX

static struct sn_lock lock; /* guards the two below */
static struct sn_fd *free_fds;
static uint32_t nchunks;
static struct sn_fd *_Atomic chunks[MOST_CHUNKS];

static int epoll_fd = -1, kick_fd = -1;
static _Atomic uint32_t kicked;
static _Atomic uint32_t open_fds;
/* In a child of fork(): the table is the parent's, and nobody has looked at it yet. */
static _Atomic bool inherited;
static _Atomic bool no_pwait2; /* the kernel, or who filters its calls, does not have it */

static void disown_inherited(void);

int sn_netpoll_init(void)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = KICK_EVENT};
	int err;

	disown_inherited();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		return -errno;
	kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (kick_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, kick_fd, &event) < 0) {
		err = -errno;
		sn_netpoll_destroy();
		return err;
	}
	atomic_store(&kicked, 0);
	return 0;
}

bool sn_netpoll_used(void)
{
	return atomic_load_explicit(&open_fds, memory_order_relaxed) > 0;
}

void sn_netpoll_kick(void)
{
	uint64_t one = 1;
	int saved = errno;

	/* Kicks that nobody has seen yet merge; drain_kick() says why none is lost. */
	if (atomic_exchange(&kicked, 1) == 0)
		(void)!write(kick_fd, &one, sizeof one); /* fails only when it is readable anyway */
	errno = saved;
}

/* Under the lock, so that a child of fork() finds either open descriptors or none. */
static void close_own(void)
{
	if (kick_fd >= 0)
		close(kick_fd);
	if (epoll_fd >= 0)
		close(epoll_fd);
	kick_fd = epoll_fd = -1;
}

/*
 * The child closes its copies: what it registered there would be the parent's too. Open descriptors
 * stay open, as after any fork(). What is known of them is dealt with when it matters: most children
 * only execute a program, and the table of a large server has many pages to copy.
 */
void sn_netpoll_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
	if (phase != SN_FORK_CHILD)
		return;
	close_own();
	atomic_store(&inherited, true);
}

/* ---- descriptors ---- */

static struct sn_fd *fd_by_index(uint32_t index)
{
	struct sn_fd *chunk =
		index / CHUNK_SIZE < MOST_CHUNKS
			? atomic_load_explicit(&chunks[index / CHUNK_SIZE], memory_order_acquire)
			: NULL;

	return chunk ? &chunk[index % CHUNK_SIZE] : NULL;
}

static bool add_chunk(void)
{
	struct sn_fd *chunk;

	if (nchunks == MOST_CHUNKS ||
	    !(chunk = aligned_alloc(_Alignof(struct sn_fd), CHUNK_SIZE * sizeof *chunk)))
		return false;
	memset(chunk, 0, CHUNK_SIZE * sizeof *chunk);
	for (uint32_t i = CHUNK_SIZE; i-- > 0;) {
		chunk[i].index = nchunks * CHUNK_SIZE + i;
		chunk[i].next_free = free_fds;
		free_fds = &chunk[i];
	}
	atomic_store_explicit(&chunks[nchunks++], chunk, memory_order_release);
	return true;
}

static struct sn_task *deadline_fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired);

static uint32_t life_of(uintptr_t handle)
{
	return (uint32_t)(handle & SN_HANDLE_LOW) * SN_FD_LIFE;
}

int sn_fd_open(struct sn_fd **out, int fd, bool register_now)
{
	struct sn_fd *d = NULL;
	int err = 0;

	sn_lock(&lock);
	if (free_fds || add_chunk()) {
		d = free_fds;
		free_fds = d->next_free;
	}
	sn_unlock(&lock);
	if (!d)
		return -ENOMEM;
	d->fd = fd;
	d->kind = 0;
	d->tcp = false;
	d->acks = 0;
	d->open = true;
	d->registered = false;
	atomic_store_explicit(&d->irregular, false, memory_order_relaxed);
	atomic_store_explicit(&d->over, false, memory_order_relaxed);
	atomic_store_explicit(&d->unread, true, memory_order_relaxed);
	atomic_store_explicit(&d->muted, false, memory_order_relaxed);
	/* Relaxed: the poller comes to know of d from the kernel, whose locks order epoll_ctl()
	 * before the event; others from whoever was given d. */
	for (int i = 0; i < 2; i++) {
		atomic_store_explicit(&d->sides[i].state, SN_SIDE_NONE, memory_order_relaxed);
		atomic_store_explicit(&d->sides[i].deadline, 0, memory_order_relaxed);
		atomic_store_explicit(&d->sides[i].pause, 0, memory_order_relaxed);
		atomic_store_explicit(&d->sides[i].deaf, false, memory_order_relaxed);
		atomic_store_explicit(&d->sides[i].leader, NULL, memory_order_relaxed);
		d->sides[i].timer.fire = deadline_fire;
	}
	atomic_store_explicit(&d->control, life_of((uintptr_t)sn_fd_handle(d)),
			      memory_order_release);
	atomic_fetch_add(&open_fds, 1);
	if (register_now && (err = sn_fd_register(d)) < 0) {
		d->fd = -1; /* stays the caller's */
		sn_fd_end_with(sn_thread_self(), d, SN_FD_CLOSED);
		return err;
	}
	*out = d;
	return 0;
}

/*
 * Bytes are announced as urgent ones as well: sock_def_readable() wakes for EPOLLPRI and EPOLLIN
 * alike. An end of the stream is neither, and is told of in any case.
 */
#define EDGES_OF_BYTES ((uint32_t)EPOLLIN | EPOLLPRI)
#define OTHER_EDGES ((uint32_t)EPOLLOUT | EPOLLRDHUP | EPOLLET)

static int tell_epoll(struct sn_fd *d, int operation, uint32_t edges)
{
	struct epoll_event event = {.events = edges};

	event.data.u64 = (uint64_t)atomic_load_explicit(&d->generation, memory_order_relaxed)
				 << 32 |
			 d->index;
	return epoll_ctl(epoll_fd, operation, d->fd, &event) < 0 ? -errno : 0;
}

int sn_fd_register(struct sn_fd *d)
{
	int err = tell_epoll(d, EPOLL_CTL_ADD, EDGES_OF_BYTES | OTHER_EDGES);

	d->registered = err == 0;
	return err;
}

/* Relaxed: it goes from one operation to the next with the control word. */
static bool is_muted(const struct sn_fd *d)
{
	return atomic_load_explicit(&d->muted, memory_order_relaxed);
}

void sn_fd_mute(struct sn_fd *d)
{
	if (!d->registered || is_muted(d))
		return;
	if (tell_epoll(d, EPOLL_CTL_MOD, OTHER_EDGES) == 0)
		atomic_store_explicit(&d->muted, true, memory_order_relaxed);
}

/*
 * What has come meanwhile is an edge of this call: epoll looks at the descriptor once it knows what
 * it is to tell of. It fails only for a descriptor that the program has closed behind our back.
 */
static void unmute(struct sn_fd *d)
{
	tell_epoll(d, EPOLL_CTL_MOD, EDGES_OF_BYTES | OTHER_EDGES);
	atomic_store_explicit(&d->muted, false, memory_order_relaxed);
}

/* The last user has left a closed descriptor. */
static void fd_destroy(struct sn_fd *d, uint32_t control)
{
	static const struct {
		int on, seconds;
	} reset = {1, 0};

	/*
	 * An event on its way, or the end of a commit_wait() that was overtaken by its own task,
	 * may still touch d in its next life: that costs the next owner a spurious wake-up at most.
	 */
	sn_timer_stop(&d->sides[SN_SIDE_READ].timer);
	sn_timer_stop(&d->sides[SN_SIDE_WRITE].timer);
	atomic_fetch_add(&d->generation, 1);
	if (d->fd >= 0) {
		if (control & SN_FD_ABORT)
			setsockopt(d->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		close(d->fd); /* takes it out of epoll too; a fork's copy may send stale events */
	}
	if (!(control & SN_FD_INHERITED))
		atomic_fetch_sub(&open_fds, 1);
	sn_lock(&lock);
	d->open = false;
	d->next_free = free_fds;
	free_fds = d;
	sn_unlock(&lock);
}

static uint32_t side_flag(enum sn_side_index side)
{
	return side == SN_SIDE_READ ? SN_FD_READING : SN_FD_WRITING;
}

static int control_error(uint32_t control)
{
	if (control & (SN_FD_CLOSED | SN_FD_INHERITED))
		return -EBADF;
	return control & SN_FD_CANCELED ? -ECANCELED : 0;
}

static inline int begin(struct sn_fd *d, enum sn_side_index side, uint32_t life, uint32_t mask)
{
	uint32_t control = atomic_load_explicit(&d->control, memory_order_relaxed);
	int reason = sn_cancel_reason(sn_thread_self()->task);

	do {
		int err = (control ^ life) & mask ? -EBADF : control_error(control);

		if (err == 0)
			err = reason;
		if (err < 0)
			return err;
		if (control & side_flag(side))
			return -EBUSY;
	} while (!atomic_compare_exchange_weak_explicit(
		&d->control, &control, control | side_flag(side), memory_order_acquire,
		memory_order_relaxed));
	if (side == SN_SIDE_READ)
		atomic_store_explicit(&d->unread, false, memory_order_relaxed);
	return 0;
}

int sn_fd_begin(struct sn_fd *d, enum sn_side_index side)
{
	return begin(d, side, 0, 0);
}

int sn_fd_begin_handle(struct sn_fd *d, const void *handle, enum sn_side_index side)
{
	return begin(d, side, life_of((uintptr_t)handle), SN_FD_LIFE_MASK);
}

/* Acquire as well as release: the last to leave must see what the others did with the descriptor.
 */
static void leave(struct sn_fd *d, uint32_t what)
{
	uint32_t control =
		atomic_fetch_sub_explicit(&d->control, what, memory_order_acq_rel) - what;

	if ((control & SN_FD_CLOSED) && control < SN_FD_USER &&
	    !(control & (SN_FD_READING | SN_FD_WRITING)))
		fd_destroy(d, control);
}

void sn_fd_end(struct sn_fd *d, enum sn_side_index side)
{
	leave(d, side_flag(side));
}

int sn_fd_use(struct sn_fd *d)
{
	uint32_t control;

	/* Before we count as a user, who would be forgotten. */
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

static void forget_timers(struct sn_fd *d)
{
	for (int side = 0; side < 2; side++)
		atomic_store(&d->sides[side].timer.heap, NULL);
}

/*
 * The threads that used the table are not in this process: whatever they held at the fork is let go, the
 * lock of one that was being armed, the sides on which the parent's tasks wait, its heaps. A
 * descriptor that was being opened or closed at that moment is neither open nor free, and stays so.
 */
static void disown(struct sn_fd *d)
{
	const uint32_t kept = SN_FD_CLOSED | SN_FD_CANCELED | SN_FD_ABORT | SN_FD_LIFE_MASK;

	atomic_store(&d->lock.word, 0);
	forget_timers(d);
	for (int side = 0; side < 2; side++) {
		atomic_store(&d->sides[side].state, SN_SIDE_NONE);
		atomic_store(&d->sides[side].leader, NULL);
	}
	if (d->open)
		atomic_store(&d->control, (atomic_load(&d->control) & kept) | SN_FD_INHERITED);
}

static void disown_inherited(void)
{
	if (!atomic_load(&inherited))
		return;
	sn_lock(&lock);
	if (atomic_load(&inherited)) {
		for (uint32_t i = 0; i < nchunks; i++)
			for (int k = 0; k < CHUNK_SIZE; k++)
				disown(&atomic_load(&chunks[i])[k]);
		atomic_store(&open_fds, 0);
		atomic_store(&inherited, false); /* last: who sees it needs no lock */
	}
	sn_unlock(&lock);
}

/* What abandoned tasks have left open is closed; nobody runs any more. */
static void close_all(void)
{
	sn_lock(&lock);
	free_fds = NULL;
	for (uint32_t i = 0; i < nchunks * CHUNK_SIZE; i++) {
		struct sn_fd *d = fd_by_index(i);

		if (d->open && (atomic_load(&d->control) & SN_FD_INHERITED))
			continue;
		if (d->open && d->fd >= 0)
			close(d->fd);
		d->open = false;
		atomic_store(&d->control, SN_FD_CLOSED); /* nobody uses it until it is open */
		forget_timers(d);
		atomic_fetch_add(&d->generation, 1);
		d->next_free = free_fds;
		free_fds = d;
	}
	atomic_store(&open_fds, 0);
	sn_unlock(&lock);
}

void sn_netpoll_destroy(void)
{
	close_all();
	sn_lock(&lock);
	close_own();
	sn_unlock(&lock);
}

/* ---- waiting ---- */

/* Takes the task off a side, without marking the side ready. NULL when none waits. */
static struct sn_task *side_unblock(struct sn_side *side)
{
	/* Sequentially consistent: the second half of a handshake with commit_wait(), after the
	 * store of a deadline or of the control word. */
	uintptr_t state = atomic_load(&side->state);

	while (state != SN_SIDE_NONE && state != SN_SIDE_READY)
		if (atomic_compare_exchange_weak(&side->state, &state, SN_SIDE_NONE))
			return (struct sn_task *)state;
	return NULL;
}

/* An edge: marks the side ready and takes the task that waits, if any. */
static struct sn_task *side_ready(struct sn_side *side)
{
	uintptr_t state = atomic_exchange(&side->state, SN_SIDE_READY);

	return state == SN_SIDE_NONE || state == SN_SIDE_READY ? NULL : (struct sn_task *)state;
}

/* The earlier of deadline and pause; 0 when there is neither. */
static int64_t wake_time(struct sn_side *side)
{
	int64_t deadline = atomic_load(&side->deadline), pause = atomic_load(&side->pause);

	return pause && (!deadline || pause < deadline) ? pause : deadline;
}

static struct sn_task *deadline_fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired)
{
	struct sn_side *side = sn_container_of(timer, struct sn_side, timer);
	int64_t when = wake_time(side);

	if (when == 0)
		return NULL;
	if (when > now) {
		fired->again = when;
		return NULL;
	}
	return side_unblock(side); /* the task sees for itself that it is too late */
}

int sn_fd_check_deadline(struct sn_fd *d, enum sn_side_index side)
{
	int64_t deadline = atomic_load(&d->sides[side].deadline);

	return deadline && sn_now() >= deadline ? -ETIMEDOUT : 0;
}

static int arm(struct sn_thread *self, struct sn_fd *d, struct sn_side *side, int64_t deadline)
{
	int err;

	sn_lock(&d->lock);
	err = sn_timer_advance(self, &side->timer, deadline);
	sn_unlock(&d->lock);
	return err;
}

int sn_fd_set_deadline(struct sn_thread *self, struct sn_fd *d, enum sn_side_index index,
		       int64_t deadline)
{
	struct sn_side *side = &d->sides[index];
	uintptr_t state;

	atomic_store(&side->deadline, deadline);
	/*
	 * Nobody waits: whoever comes to wait reads the deadline after it has announced itself in
	 * state (commit_wait()), so either it sees the new deadline or we see it.
	 */
	state = atomic_load(&side->state);
	if (deadline == 0 || state == SN_SIDE_NONE || state == SN_SIDE_READY)
		return 0;
	return arm(self, d, side, deadline);
}

struct wait {
	struct sn_fd *d;
	struct sn_side *side;
	struct sn_fd *other;         /* whose reading side is waited for, too; NULL: none */
	struct sn_lock *cancel_lock; /* NULL: the task cannot be cancelled */
};

bool sn_side_cancel(struct sn_side *side, struct sn_task *task, int reason)
{
	uintptr_t state = (uintptr_t)task;

	if (!atomic_compare_exchange_strong(&side->state, &state, SN_SIDE_NONE))
		return false;
	task->wake_reason = reason;
	return true;
}

/* none -> task; 0, a reason not to wait, or 1 when an edge came first. */
static int announce(struct sn_side *side, struct sn_task *task)
{
	uintptr_t state = SN_SIDE_NONE;

	return atomic_compare_exchange_strong(&side->state, &state, (uintptr_t)task) ? 0 : 1;
}

/* As cancel.h has it: under the lock we look whether we are cancelled, and can be found. */
static int announce_cancellable(const struct wait *wait, struct sn_task *task)
{
	int reason;

	sn_lock(wait->cancel_lock);
	reason = sn_cancel_reason(task);
	if (reason == 0) {
		task->in_side = wait->side;
		reason = announce(wait->side, task);
	}
	sn_unlock(wait->cancel_lock);
	return reason;
}

/* What makes the announcement needless: closed or cancelled between the caller's check and it, or an edge
 * of the other one, whose poller may have looked before us. 0, an error, or 1. */
static int look_again(const struct wait *wait)
{
	int err = control_error(atomic_load(&wait->d->control));

	if (err == 0 && wait->other)
		err = control_error(atomic_load(&wait->other->control));
	if (err == 0 && wait->other)
		err = atomic_load(&wait->other->sides[SN_SIDE_READ].state) == SN_SIDE_READY;
	return err;
}

static bool commit_wait(struct sn_thread *self, struct sn_task *task, void *arg)
{
	const struct wait wait =
		*(struct wait *)arg; /* arg's stack may run as soon as we publish */
	int err = wait.cancel_lock ? announce_cancellable(&wait, task) : announce(wait.side, task);
	uintptr_t state;
	int64_t when;

	if (err != 0) {
		task->wake_reason = err < 0 ? err : 0;
		return false;
	}
	SN_RACE_WINDOW();
	when = wake_time(wait.side);
	if (when)
		err = arm(self, wait.d, wait.side, when);
	if (err == 0 && look_again(&wait) == 0)
		return true;
	state = (uintptr_t)task;
	if (!atomic_compare_exchange_strong(&wait.side->state, &state, SN_SIDE_NONE))
		return true; /* somebody else has woken it */
	task->wake_reason = err;
	return false;
}

/* Parks until the side is woken, or that of reading from other. 0, or what prevented or ended it. */
static int park_in(struct sn_fd *d, struct sn_side *side, struct sn_fd *other, const char *what)
{
	struct sn_thread *self = sn_thread_self();
	struct sn_task *task = self->task;
	bool cancellable = sn_cancel_possible(task);
	struct wait wait = {.d = d,
			    .side = side,
			    .other = other,
			    .cancel_lock = cancellable ? sn_cancel_lock_of(task) : NULL};
	int err;

	sn_task_waits(task, what, d);
	err = sn_park(self, commit_wait, &wait);

	if (cancellable)
		sn_cancel_retract(task);
	return err;
}

static const char *readiness(enum sn_side_index index)
{
	return index == SN_SIDE_READ ? "a descriptor to be readable"
				     : "a descriptor to be writable";
}

/* As sn_fd_wait(); 1 when it was woken without an edge. */
static int wait_for_edge(struct sn_fd *d, enum sn_side_index index)
{
	struct sn_side *side = &d->sides[index];
	uintptr_t state = SN_SIDE_READY;
	int err;

	err = control_error(atomic_load(&d->control));
	if (err == 0)
		err = sn_fd_check_deadline(d, index);
	if (err < 0)
		return err;
	if (index == SN_SIDE_READ && sn_unlikely(is_muted(d)))
		unmute(d);
	if (atomic_compare_exchange_strong(&side->state, &state, SN_SIDE_NONE))
		return 0;
	err = park_in(d, side, NULL, readiness(index));
	if (err < 0)
		return err;
	err = control_error(atomic_load(&d->control));
	if (err < 0)
		return err;
	state = SN_SIDE_READY;
	if (atomic_compare_exchange_strong(&side->state, &state, SN_SIDE_NONE))
		return 0;
	err = sn_fd_check_deadline(d, index);
	return err < 0 ? err : 1;
}

int sn_fd_wait(struct sn_fd *d, enum sn_side_index index)
{
	int err = wait_for_edge(d, index);

	return err < 0 ? err : 0;
}

int sn_fd_wait_until(struct sn_fd *d, enum sn_side_index index, int64_t until)
{
	int err;

	atomic_store(&d->sides[index].pause, until);
	err = wait_for_edge(d, index);
	atomic_store(&d->sides[index].pause, 0);
	return err;
}

static bool has_edge(struct sn_fd *d)
{
	return atomic_load(&d->sides[SN_SIDE_READ].state) == SN_SIDE_READY;
}

int sn_fd_wait_either(struct sn_fd *d, struct sn_fd *other)
{
	int err = control_error(atomic_load(&d->control) | atomic_load(&other->control));

	if (err == 0)
		err = sn_fd_check_deadline(d, SN_SIDE_READ);
	if (err < 0)
		return err;
	if (sn_unlikely(is_muted(d)))
		unmute(d);
	if (sn_unlikely(is_muted(other)))
		unmute(other);
	if (has_edge(d) || has_edge(other))
		return 0;
	SN_RACE_WINDOW();
	err = park_in(d, &d->sides[SN_SIDE_READ], other,
		      "either of two descriptors to be readable");
	if (err == 0)
		err = control_error(atomic_load(&d->control) | atomic_load(&other->control));
	if (err < 0 || has_edge(d) || has_edge(other))
		return err;
	return sn_fd_check_deadline(d, SN_SIDE_READ);
}

void sn_fd_lead(struct sn_fd *d, struct sn_fd *leader)
{
	atomic_store(&d->sides[SN_SIDE_READ].leader, leader ? &leader->sides[SN_SIDE_READ] : NULL);
}

bool sn_fd_take_edge(struct sn_fd *d, enum sn_side_index index)
{
	uintptr_t state = SN_SIDE_READY;

	return atomic_compare_exchange_strong(&d->sides[index].state, &state, SN_SIDE_NONE);
}

/* Sequentially consistent: whoever takes the edge also sees what the poller has told before it. */
void sn_fd_forget(struct sn_fd *d, enum sn_side_index index)
{
	struct sn_side *side = &d->sides[index];
	uintptr_t state = SN_SIDE_READY;

	if (atomic_load_explicit(&side->state, memory_order_relaxed) == state)
		atomic_compare_exchange_strong(&side->state, &state, SN_SIDE_NONE);
}

/* Relaxed: both are hints. unread goes from one reader to the next with the control word; an edge that
 * is not seen here is by sn_fd_wait(), which looks by compare-and-swap before it parks. */
bool sn_fd_is_silent(struct sn_fd *d)
{
	return d->registered && atomic_load_explicit(&d->unread, memory_order_relaxed) &&
	       atomic_load_explicit(&d->sides[SN_SIDE_READ].state, memory_order_relaxed) ==
		       SN_SIDE_NONE;
}

void sn_fd_nudge(struct sn_thread *self, struct sn_fd *d, enum sn_side_index index)
{
	struct sn_task *task = side_ready(&d->sides[index]);

	if (task)
		sn_ready(self, task, SN_READY_LAST);
}

static int pause_until(struct sn_fd *d, enum sn_side_index index, int64_t until, const char *what)
{
	struct sn_side *side = &d->sides[index];
	int err;

	if (index == SN_SIDE_READ && sn_unlikely(is_muted(d)))
		unmute(d);
	atomic_store(&side->pause, until);
	atomic_store(&side->state, SN_SIDE_NONE); /* what edges have told is known to be no use */
	err = park_in(d, side, NULL, what);
	atomic_store(&side->pause, 0);
	if (err == 0)
		err = control_error(atomic_load(&d->control));
	return err < 0 ? err : sn_fd_check_deadline(d, index);
}

int sn_fd_pause(struct sn_fd *d, enum sn_side_index index, int64_t until)
{
	return pause_until(d, index, until, readiness(index));
}

/*
 * A poller that still finds the side deaf drops an edge that the sleeper might have wanted. Then its
 * bytes were there before the sleeper's next attempt: that takes the descriptor's lock in the kernel
 * after our store, and had the bytes come after it, the poller would have found the store.
 */
int sn_fd_sleep(struct sn_fd *d, enum sn_side_index index, int64_t until)
{
	struct sn_side *side = &d->sides[index];
	int err;

	atomic_store(&side->deaf, true);
	err = pause_until(d, index, until, "its share of a rate");
	atomic_store(&side->deaf, false);
	return err;
}

/* Who waits on the side that leads this one, if any. */
static struct sn_task *unblock_leader(struct sn_side *side)
{
	struct sn_side *leader = atomic_load(&side->leader);

	return leader ? side_unblock(leader) : NULL;
}

int sn_fd_end_with(struct sn_thread *self, struct sn_fd *d, uint32_t flags)
{
	uint32_t control;
	struct sn_task *task;

	if (sn_unlikely(atomic_load_explicit(&inherited, memory_order_relaxed)))
		disown_inherited();
	control = atomic_load_explicit(&d->control, memory_order_relaxed);
	/* We count as a user meanwhile, so that d stays. */
	do {
		if (control & SN_FD_CLOSED)
			return -EBADF;
	} while (!atomic_compare_exchange_weak(&d->control, &control,
					       (control | flags) + SN_FD_USER));
	for (int i = 0; i < 2; i++) {
		if ((task = side_unblock(&d->sides[i])) != NULL)
			sn_ready(self, task, SN_READY_LAST);
		if ((task = unblock_leader(&d->sides[i])) != NULL)
			sn_ready(self, task, SN_READY_LAST);
	}
	leave(d, SN_FD_USER);
	return 0;
}

/* ---- polling ---- */

/* The task to wake for what epoll has told of a side, if any. */
static struct sn_task *side_told(struct sn_side *side, uint32_t what, uint32_t edges)
{
	const uint32_t failed = EPOLLERR | EPOLLHUP;
	struct sn_task *task;

	if (!(what & (edges | failed)))
		return NULL;
	if (!(what & failed) && atomic_load(&side->deaf))
		return NULL;
	task = side_ready(side);
	SN_RACE_WINDOW();
	return task ? task : unblock_leader(side);
}

bool sn_netpoll_is_exact(void)
{
#ifdef SYS_epoll_pwait2
	return !atomic_load_explicit(&no_pwait2, memory_order_relaxed);
#else
	return false;
#endif
}

/*
 * epoll_pwait2() takes nanoseconds; before Linux 5.11 there are milliseconds only, rounded up,
 * because waking before a timer is due would spin.
 */
static int wait_for_events(struct epoll_event *events, int64_t timeout)
{
	int64_t ms;

#ifdef SYS_epoll_pwait2
	if (timeout > 0 && !atomic_load_explicit(&no_pwait2, memory_order_relaxed)) {
		struct {
			int64_t sec, nsec;
		} ts = {timeout / 1000000000, timeout % 1000000000};
		long n = syscall(SYS_epoll_pwait2, epoll_fd, events, MOST_EVENTS, &ts, NULL, 0);

		/* Old seccomp profiles refuse with EPERM what they do not know. */
		if (n >= 0 || (errno != ENOSYS && errno != EPERM))
			return (int)n;
		atomic_store_explicit(&no_pwait2, true, memory_order_relaxed);
	}
#endif
	ms = timeout <= 0 ? timeout : (timeout + 999999) / 1000000;
	return epoll_wait(epoll_fd, events, MOST_EVENTS, ms > INT32_MAX ? INT32_MAX : (int)ms);
}

/*
 * The descriptor first, then the flag. A kick in between finds the flag set and writes nothing; the
 * exchange reads what it wrote, so the poller, which looks for what to do after this, sees what
 * that kick was for. The other way round the read would swallow what such a kick has written and
 * leave its flag set: then nobody would ever write again.
 */
static void drain_kick(void)
{
	uint64_t count;

	(void)!read(kick_fd, &count, sizeof count);
	atomic_exchange(&kicked, 0);
}

int sn_netpoll(int64_t timeout, struct sn_queue *ready)
{
	struct epoll_event events[MOST_EVENTS];
	int saved = errno, count = 0;
	int n = wait_for_events(events, timeout);
	bool kick = false;

	atomic_fetch_add_explicit(&sn_runtime.polls, 1, memory_order_relaxed);
	if (n < 0 && errno != EINTR)
		sn_fatal("epoll_wait: %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		const uint32_t what = events[i].events;
		uint64_t tag = events[i].data.u64;
		struct sn_task *task;
		struct sn_fd *d;

		if (tag == KICK_EVENT) {
			kick = true;
			if (timeout != 0)
				drain_kick();
			continue;
		}
		d = fd_by_index((uint32_t)tag);
		if (!d || atomic_load(&d->generation) != tag >> 32)
			continue; /* of an earlier life */
		/* Relaxed: whoever is woken by, or finds, the side ready sees it. */
		if (what & (EPOLLRDHUP | EPOLLPRI | EPOLLERR | EPOLLHUP))
			atomic_store_explicit(&d->irregular, true, memory_order_relaxed);
		if (what & (EPOLLERR | EPOLLHUP))
			atomic_store_explicit(&d->over, true, memory_order_relaxed);
		task = side_told(&d->sides[SN_SIDE_READ], what, EPOLLIN | EPOLLRDHUP);
		if (task) {
			sn_queue_put(ready, task);
			count++;
		}
		task = side_told(&d->sides[SN_SIDE_WRITE], what, EPOLLOUT);
		if (task) {
			sn_queue_put(ready, task);
			count++;
		}
	}
	errno = saved;
	return count == 0 && n > 0 && !kick && timeout != 0 ? -EAGAIN : count;
}
