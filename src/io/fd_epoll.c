/* SPDX-License-Identifier: MIT */
/*
 * Descriptors and epoll: what is registered there, and what epoll reports.
 *
 * A descriptor is registered when it is opened, or once it is connected, and stays so until its
 * number is closed. A file that is registered under a number cannot be registered under this number
 * again, because each of two descriptors would take the other's bytes.
 *
 * Who may write what: registered, the opener, before the descriptor is shared; disarmed and
 * wants_room, see fd.h.
 */
#include "io/fd.h"

#include <errno.h>
#include <sys/epoll.h>

#include "io/fd_table.h"
#include "io/watch.h"
#include "sched/netpoll.h"
#include "sched/thread.h"

/*
 * EPOLLPRI counts as an edge of bytes, because sock_def_readable() wakes for EPOLLPRI and EPOLLIN
 * alike when bytes arrive. The end of a stream is neither, and is always reported.
 */
#define EDGES_OF_BYTES ((uint32_t)EPOLLIN | EPOLLPRI)
#define OTHER_EDGES ((uint32_t)EPOLLRDHUP | EPOLLET)

/* d's lock is held, unless d is not shared yet. */
static int update_epoll(struct sn_fd *d, int operation, bool bytes, bool room)
{
	uint64_t generation = atomic_load_explicit(&d->generation, memory_order_relaxed);
	uint32_t edges = OTHER_EDGES | (bytes ? EDGES_OF_BYTES : 0) | (room ? EPOLLOUT : 0);

	return sn_netpoll_update(operation, d->fd, generation << 32 | d->index, edges);
}

/* Whether another descriptor has the same number. */
static bool has_number(const struct sn_fd *but, int fd)
{
	bool found = false;

	for (uint32_t i = 0; i < sn_fd_table_size() && !found; i++) {
		struct sn_fd *d = sn_fd_at(i);

		found = d != but && __atomic_load_n(&d->fd, __ATOMIC_RELAXED) == fd;
	}
	return found;
}

int sn_fd_register(struct sn_fd *d)
{
	int err;

	/* Tasks may still wait for another descriptor that had this number before. */
	sn_watch_closing(sn_thread_self(), d->fd);
	do {
		SN_RACE_WINDOW();
		err = update_epoll(d, EPOLL_CTL_ADD, true, d->wants_room);
		/* Tries again only if a task has begun to wait for the number in between. */
	} while (err == -EEXIST && sn_watch_closing(sn_thread_self(), d->fd));
	/*
	 * epoll has this file under this number already. Either the program has adopted it twice,
	 * or sennit had it before: closing a number does not remove its file from epoll while that
	 * is open under another number, and now the file has this number again.
	 */
	if (err == -EEXIST && !has_number(d, d->fd))
		err = update_epoll(d, EPOLL_CTL_MOD, true, d->wants_room);
	d->registered = err == 0;
	return err;
}

void sn_fd_disarm(struct sn_fd *d)
{
	if (!d->registered || sn_fd_is_disarmed(d))
		return;
	sn_lock(&d->lock);
	if (update_epoll(d, EPOLL_CTL_MOD, false, d->wants_room) == 0)
		atomic_store_explicit(&d->disarmed, true, memory_order_relaxed);
	sn_unlock(&d->lock);
}

/*
 * Bytes that arrived while they were disarmed cause an edge now, because epoll checks the
 * descriptor after it has changed the set of events. epoll_ctl() fails only for a descriptor that
 * the program has closed without sennit's knowledge.
 */
void sn_fd_rearm(struct sn_fd *d)
{
	sn_lock(&d->lock);
	update_epoll(d, EPOLL_CTL_MOD, true, d->wants_room);
	atomic_store_explicit(&d->disarmed, false, memory_order_relaxed);
	sn_unlock(&d->lock);
}

void sn_fd_want_room(struct sn_fd *d, bool wanted)
{
	sn_lock(&d->lock);
	d->wants_room = wanted;
	update_epoll(d, EPOLL_CTL_MOD, !sn_fd_is_disarmed(d), wanted);
	sn_unlock(&d->lock);
}
