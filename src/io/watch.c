/* SPDX-License-Identifier: MIT */
#include "io/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/pages.h"
#include "sched/netpoll.h"
#include "sched/ready.h"
#include "wait/lock.h"

/* As many as io/fd.c has descriptors. */
#define CHUNK_SIZE 256
#define MOST_CHUNKS 4096

struct sn_watch {
	struct sn_lock lock;
	uint32_t asked; /* the number of the last question, carried by its tag */
	uint32_t armed; /* the number of the last one that epoll has accepted */
	int fd;         /* the number */
	int registered; /* the same, or the number of a copy; -1 if none is registered */
	/* The events that the waits in the list wait for, and perhaps those of a wait that has
	 * ended. With them a new wait asks epoll without visiting the other waits.
	 * sn_watch_event() makes them exact. */
	uint32_t events;
	struct sn_watch_wait *first;
};

static struct sn_lock table_lock = SN_LOCK_INIT(SN_RANK_WATCH_TABLE);
static struct sn_watch *_Atomic chunks[MOST_CHUNKS];

/* ---- the table ---- */

static struct sn_watch *find(int fd)
{
	struct sn_watch *chunk =
		fd >= 0 && fd / CHUNK_SIZE < MOST_CHUNKS
			? atomic_load_explicit(&chunks[fd / CHUNK_SIZE], memory_order_acquire)
			: NULL;

	return chunk ? &chunk[fd % CHUNK_SIZE] : NULL;
}

/* Allocates the chunk of a number. It is never freed, because an event may name any watch at any
 * time. Returns NULL if there is no memory. */
static struct sn_watch *create(int fd)
{
	struct sn_watch *chunk = sn_pages_take(CHUNK_SIZE * sizeof *chunk), *there;

	if (!chunk)
		return NULL;
	for (int i = 0; i < CHUNK_SIZE; i++) {
		chunk[i].fd = fd / CHUNK_SIZE * CHUNK_SIZE + i;
		chunk[i].registered = -1;
		sn_lock_init(&chunk[i].lock, SN_RANK_WATCH);
	}
	sn_lock(&table_lock);
	there = atomic_load_explicit(&chunks[fd / CHUNK_SIZE], memory_order_relaxed);
	if (!there)
		atomic_store_explicit(&chunks[fd / CHUNK_SIZE], chunk, memory_order_release);
	sn_unlock(&table_lock);
	if (there)
		sn_pages_give(chunk, CHUNK_SIZE * sizeof *chunk);
	return find(fd);
}

/* ---- the list; the watch's lock is held ---- */

static void put_in(struct sn_watch *watch, struct sn_watch_wait *wait)
{
	wait->watch = watch;
	wait->prev = NULL;
	wait->next = watch->first;
	if (wait->next)
		wait->next->prev = wait;
	watch->events = wait->events | (watch->first ? watch->events : 0);
	watch->first = wait;
}

static void take_out(struct sn_watch_wait *wait)
{
	if (wait->next)
		wait->next->prev = wait->prev;
	if (wait->prev)
		wait->prev->next = wait->next;
	else
		wait->watch->first = wait->next;
	__atomic_store_n(&wait->watch, NULL, __ATOMIC_RELEASE);
}

/* The tasks whose waits have ended. */
struct ended {
	struct sn_queue *ready;
	int count;
};

static bool has_copy(const struct sn_watch *watch)
{
	return watch->registered >= 0 && watch->registered != watch->fd;
}

static void finish(struct sn_watch_wait *wait, struct ended *ended)
{
	struct sn_task *task = sn_waiter_end(wait->waiter, 0);

	wait->copy = has_copy(wait->watch) ? wait->watch : NULL;
	/* Takes the wait out last: once it is out of the list, a task that has stopped waiting for
	 * another reason returns, and the wait is gone from its stack. */
	take_out(wait);
	if (!task)
		return;
	sn_queue_put(ended->ready, task);
	ended->count++;
}

/* Ends all waits except one that has just begun. closed: because their descriptor was closed. */
static void finish_all(struct sn_watch *watch, const struct sn_watch_wait *but, bool closed,
		       struct ended *ended)
{
	struct sn_watch_wait *wait = watch->first, *next;

	for (; wait; wait = next) {
		next = wait->next;
		if (wait == but)
			continue;
		wait->closed = closed;
		finish(wait, ended);
	}
}

/* ---- epoll; the watch's lock is held ---- */

static int update(struct sn_watch *watch, int operation, int fd, uint32_t events)
{
	uint64_t tag = (uint64_t)++watch->asked << 32 | SN_WATCH_TAG | (uint32_t)watch->fd;
	int err = sn_netpoll_update(operation, fd, tag, events | EPOLLONESHOT);

	if (err == 0)
		watch->armed = watch->asked;
	return err;
}

/*
 * Copies to be closed once the lock is released. A close may wait for a peer or a device, if the
 * program has closed all other numbers of the file.
 */
struct copies {
	int count, fds[2];
};

/* Removes from epoll what the watch has registered. Returns false if there is nothing. */
static bool unregister(struct sn_watch *watch, struct copies *copies)
{
	const int fd = watch->registered;

	if (fd < 0)
		return false;
	update(watch, EPOLL_CTL_DEL, fd, 0);
	/* Cleared before the close, because a child of fork() closes the copy that it finds here,
	 * and must not find a number that another thread has been given since. */
	watch->registered = -1;
	/* Closing a copy would not have removed it from epoll, because its file is also open under
	 * the original number. */
	if (fd != watch->fd)
		copies->fds[copies->count++] = fd;
	return true;
}

static int register_copy(struct sn_watch *watch, uint32_t events, struct copies *copies)
{
	int copy = fcntl(watch->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), err;

	if (copy < 0)
		return -errno;
	err = update(watch, EPOLL_CTL_ADD, copy, events);
	/* The number of the copy is new, but the file had the same number before, and epoll still
	 * has that registration. */
	if (err == -EEXIST)
		err = update(watch, EPOLL_CTL_MOD, copy, events);
	if (err < 0)
		copies->fds[copies->count++] = copy;
	else
		watch->registered = copy;
	return err;
}

/* Asks epoll for what the waits wait for. Returns -ENOENT if nothing is registered, or if what was
 * registered has been closed. */
static int rearm(struct sn_watch *watch)
{
	int err = -ENOENT;

	if (watch->registered >= 0)
		err = update(watch, EPOLL_CTL_MOD, watch->registered, watch->events);
	if (err != -ENOENT && err != -EBADF)
		return err;
	watch->registered = -1;
	return -ENOENT;
}

/*
 * Asks epoll when a wait has begun, even if it was asked for the same events before, because only
 * asking shows whether the number still means the same descriptor. If the watch has a copy, the
 * number itself is registered with epoll, too (EEXIST), as long as it means the same descriptor:
 * before sennit registers another one under that number, it makes the watch forget its copy.
 */
static int arm(struct sn_watch *watch, const struct sn_watch_wait *newest, struct ended *ended,
	       struct copies *copies)
{
	int err = watch->registered == watch->fd ? rearm(watch) : -ENOENT;

	if (err != -ENOENT)
		return err;
	err = update(watch, EPOLL_CTL_ADD, watch->fd, newest->events);
	if (err == -EEXIST && rearm(watch) == 0)
		return 0;
	/* The earlier waits were for a descriptor that has been closed. */
	finish_all(watch, newest, true, ended);
	unregister(watch, copies);
	if (err == -EEXIST)
		return register_copy(watch, newest->events, copies);
	if (err == 0)
		watch->registered = watch->fd;
	return err;
}

/* Each call of a task that may have taken waits out of the list ends with this. It closes a copy
 * that no wait needs any more; a registration of the number itself stays for the next wait. */
static void unlock(struct sn_watch *watch, struct copies *copies)
{
	if (!watch->first && has_copy(watch))
		unregister(watch, copies);
	sn_unlock(&watch->lock);
	while (copies->count > 0)
		close(copies->fds[--copies->count]);
}

/* ---- calls ---- */

int sn_watch_add(struct sn_watch_wait *wait, int fd, struct sn_queue *ready)
{
	struct ended ended = {ready, 0};
	struct copies copies = {0};
	struct sn_watch *watch;
	int err;

	if (fd / CHUNK_SIZE >= MOST_CHUNKS)
		return -ENOSPC;
	watch = find(fd);
	if (!watch)
		watch = create(fd);
	if (!watch)
		return -ENOMEM;
	sn_lock(&watch->lock);
	put_in(watch, wait);
	err = arm(watch, wait, &ended, &copies);
	wait->since = watch->asked;
	if (err < 0)
		take_out(wait);
	unlock(watch, &copies);
	return err;
}

void sn_watch_remove(struct sn_watch_wait *wait)
{
	/* Acquire: the thread that has taken it out wrote got and closed before. */
	struct sn_watch *watch = __atomic_load_n(&wait->watch, __ATOMIC_ACQUIRE);
	struct copies copies = {0};

	if (!watch)
		watch = wait->copy;
	if (!watch)
		return;
	sn_lock(&watch->lock);
	if (wait->watch)
		take_out(wait);
	unlock(watch, &copies);
}

bool sn_watch_closing_leave_copy(struct sn_thread *self, int fd, int *copy)
{
	struct sn_queue ready = {0};
	struct ended ended = {&ready, 0};
	struct copies copies = {0};
	struct sn_watch *watch = find(fd);
	bool registered;

	*copy = -1;
	if (!watch)
		return false;
	sn_lock(&watch->lock);
	finish_all(watch, NULL, true, &ended);
	registered = unregister(watch, &copies);
	sn_unlock(&watch->lock);
	if (copies.count > 0)
		*copy = copies.fds[0];
	sn_ready_each(self, &ready);
	return registered;
}

bool sn_watch_closing(struct sn_thread *self, int fd)
{
	int copy;
	bool registered = sn_watch_closing_leave_copy(self, fd, &copy);

	if (copy >= 0)
		close(copy);
	return registered;
}

/* Whether the number no longer means the descriptor of the waits. If a copy is registered, epoll
 * cannot tell that, so this only checks whether the number is open. */
static bool is_gone(struct sn_watch *watch)
{
	return watch->registered == watch->fd ? rearm(watch) == -ENOENT
					      : fcntl(watch->fd, F_GETFD) < 0;
}

void sn_watch_look(struct sn_thread *self, int fd)
{
	struct sn_queue ready = {0};
	struct ended ended = {&ready, 0};
	struct copies copies = {0};
	struct sn_watch *watch = find(fd);

	if (!watch)
		return;
	sn_lock(&watch->lock);
	if (watch->first && is_gone(watch))
		finish_all(watch, NULL, true, &ended);
	unlock(watch, &copies);
	sn_ready_each(self, &ready);
}

int sn_watch_waits(int fd)
{
	struct sn_watch *watch = find(fd);
	int count = 0;

	if (!watch)
		return 0;
	sn_lock(&watch->lock);
	for (const struct sn_watch_wait *wait = watch->first; wait; wait = wait->next)
		count++;
	sn_unlock(&watch->lock);
	return count;
}

/* Whether the wait takes an answer to this question, which must be the one that it began with or a
 * later one. The numbers wrap, so this compares how many questions ago each of them was asked. */
static bool is_for(const struct sn_watch *watch, const struct sn_watch_wait *wait,
		   uint32_t question)
{
	return watch->asked - question <= watch->asked - wait->since;
}

int sn_watch_event(uint64_t tag, uint32_t what, struct sn_queue *ready)
{
	struct ended ended = {ready, 0};
	struct sn_watch *watch = find((int)((uint32_t)tag & ~SN_WATCH_TAG));
	struct sn_watch_wait *wait, *next;
	const uint32_t question = (uint32_t)(tag >> 32);
	int err = 0;

	if (!watch)
		return 0;
	SN_RACE_WINDOW();
	sn_lock(&watch->lock);
	watch->events = 0;
	for (wait = watch->first; wait; wait = next) {
		uint32_t hit = what & (wait->events | EPOLLERR | EPOLLHUP);

		next = wait->next;
		if (!hit || !is_for(watch, wait, question)) {
			watch->events |= wait->events;
			continue;
		}
		wait->got |= hit;
		finish(wait, &ended);
	}
	/*
	 * Asks again only after an answer to the last question, because an answer to an earlier one
	 * has not used up the last. Such an answer may come from an earlier descriptor, which epoll
	 * still knows if it is open elsewhere. If that descriptor has the number again, a question
	 * now would be about it. If epoll cannot be asked for the waits that are left, they end,
	 * too.
	 */
	if (watch->first && question == watch->armed)
		err = rearm(watch);
	if (err < 0)
		finish_all(watch, NULL, err == -ENOENT, &ended);
	sn_unlock(&watch->lock); /* the tasks close the copy, if there is one */
	return ended.count;
}

/* ---- a run, and fork() ---- */

/* Forgets all registrations and waits, because the epoll descriptor is closed or belongs to the
 * parent process. */
static void reset(struct sn_watch *watch)
{
	sn_lock_forget(&watch->lock, false);
	if (has_copy(watch))
		close(watch->registered);
	watch->registered = -1;
	watch->first = NULL;
}

void sn_watches_reset(void)
{
	for (int i = 0; i < MOST_CHUNKS; i++) {
		struct sn_watch *chunk = atomic_load(&chunks[i]);

		for (int k = 0; chunk && k < CHUNK_SIZE; k++)
			reset(&chunk[k]);
	}
}

/* The child resets its watches immediately, unlike its table of descriptors (io/fd.c), so that it
 * closes the copies before it can have reused their numbers. */
void sn_watches_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&table_lock, phase);
	if (phase == SN_FORK_CHILD)
		sn_watches_reset();
}
