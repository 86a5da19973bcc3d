/* SPDX-License-Identifier: MIT */
/*
 * Watches: which tasks wait for descriptors that the program owns (sennit/poll.h).
 *
 * A watch belongs to a descriptor's number. It holds the waits for it, and what epoll has been
 * asked to report of it: level-triggered, and once (EPOLLONESHOT), so that an event that no task
 * waits for any more costs one look at most. It is asked again for every wait that comes, and after
 * an event for the waits that are left. All of that happens under the watch's lock, and asking
 * makes epoll look at the descriptor, so no wait is missed: at any time either epoll has yet to
 * report what the waits in the list wait for, or the thread that it has reported something to is
 * about to ask again.
 *
 * An event may reach the watch late, when its thread was held up after epoll_wait(). Therefore the
 * questions are numbered, and an event bears the number of the one that it answers. A wait takes no
 * answer to a question from before it, so it reports nothing that was there, and was read, before
 * it began. The numbers wrap after four thousand million questions.
 *
 * The program may close a descriptor at any time, and the system may give its number away again.
 * Closing removes it from epoll without a word. That shows when epoll is asked next: it does not
 * know the descriptor (ENOENT). Then the earlier waits end with -EBADF, and the new descriptor is
 * registered. If the earlier one lives on, in another process or under another number, epoll may
 * still report it: as the answer to an earlier question, which no wait takes, and after which epoll
 * is not asked again. (If the number is the earlier one's again when epoll is asked for another
 * reason, that looks the same as if the number had stayed the later one's.) When sennit itself
 * registers a descriptor (io/fd.c), it first makes the watch of that number forget, because the
 * watch must not change a registration that is not its own. A descriptor that is registered already
 * is watched through a copy, which is closed when the last wait has ended.
 *
 * A wait ends by its waiter (task/waiter.h). The watch touches a wait and its waiter under its
 * lock and only while the wait is in its list; it takes the wait out when it has ended the waiter,
 * not before. The task returns when it has taken the wait out itself, or has found it out: this
 * look needs no lock, because taking out is the watch's last access.
 *
 * If nobody waits for the number again, epoll would not be asked. So a wait that lasts asks, at
 * growing intervals, in the way in which a new wait would (sn_watch_look()).
 *
 * models/watch.pml checks all of this, except for the copies and the looks; models/look.pml has the
 * looks, and what a call does between its waits.
 *
 * Who may write what: everything under the watch's lock; the list of chunks under the table's.
 * Neither lock is held while another one is taken, a task is made runnable, or memory is allocated
 * by a watch; epoll_ctl() is called under the watch's.
 *
 * Rejected:
 *   - Registering and removing at each wait: two system calls instead of one, and removing by
 *     number may remove another thread's registration.
 *   - Edges, as for sennit's own descriptors: a library reads as much as it likes and not until
 *     EAGAIN, so an edge may never come again.
 *   - Looking for all watches at once, once a second: an idle program would not be idle.
 *   - Always a copy: the peer of a closed connection would not see its end while a task waits.
 */
#ifndef SENNIT_IO_WATCH_H
#define SENNIT_IO_WATCH_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/fork.h"
#include "sched/runqueue.h"
#include "task/waiter.h"

struct sn_watch;

/* The kernel has the same figures for both; a program that asks for others has made a mistake. */
#define SN_WATCH_EVENTS                                                                  \
	(POLLIN | POLLPRI | POLLOUT | POLLRDHUP | POLLRDNORM | POLLRDBAND | POLLWRNORM | \
	 POLLWRBAND | POLLERR | POLLHUP)
_Static_assert(POLLIN == EPOLLIN && POLLPRI == EPOLLPRI && POLLOUT == EPOLLOUT &&
		       POLLERR == EPOLLERR && POLLHUP == EPOLLHUP && POLLRDHUP == EPOLLRDHUP &&
		       POLLRDNORM == EPOLLRDNORM && POLLRDBAND == EPOLLRDBAND &&
		       POLLWRNORM == EPOLLWRNORM && POLLWRBAND == EPOLLWRBAND,
	       "events mean the same to poll() and epoll");

/* On the stack of the task that waits; several of them may share one waiter. */
struct sn_watch_wait {
	struct sn_watch *watch; /* in whose list it is; NULL: in none */
	struct sn_watch_wait *prev, *next;
	struct sn_waiter *waiter; /* not an exclusive one */
	uint32_t events;          /* EPOLLIN and so on, that end it */
	uint32_t since;           /* the number of the question that it began with */
	uint32_t got;             /* what of it has been reported; also EPOLLERR, EPOLLHUP */
	bool closed;              /* the descriptor was closed, or is about to be */
};

/* Prepares a wait, which is in no list and has nothing to report. */
static inline void sn_watch_init(struct sn_watch_wait *wait, struct sn_waiter *waiter,
				 uint32_t events)
{
	wait->watch = NULL;
	wait->waiter = waiter;
	wait->events = events;
	wait->got = 0;
	wait->closed = false;
}

/*
 * Begins a wait that is prepared, for a number that is not negative: from now on the waiter may be
 * ended, with 0. 0, or an error, after which it is in no list: those of epoll_ctl(2), or of
 * fcntl(2) for a copy; -ENOMEM, -ENOSPC for the table. Other waits may end, and *ready gets their
 * tasks.
 */
int sn_watch_add(struct sn_watch_wait *wait, int fd, struct sn_queue *ready);

/* Ends a wait that was begun, however it ended. Afterwards got and closed do not change. */
void sn_watch_remove(struct sn_watch_wait *wait);

/* All waits for the number end, with closed, and epoll forgets what was registered for them: the
 * descriptor is about to be closed, or to be registered by sennit itself. Returns whether anything
 * was registered. */
bool sn_watch_closing(struct sn_thread *self, int fd);

/* Waits for the number end, with closed, if it does not mean their descriptor any more. */
void sn_watch_look(struct sn_thread *self, int fd);

/* How many waits there are for the number. */
int sn_watch_waits(int fd);

/* In a tag of the poller: it is a watch's. */
#define SN_WATCH_TAG 0x80000000u

/* The poller's hook, for such a tag. Returns how many tasks it has put into *ready. */
int sn_watch_event(uint64_t tag, uint32_t what, struct sn_queue *ready);

/* At the end of a run, when no task runs. */
void sn_watches_reset(void);
void sn_watches_fork(enum sn_fork_phase phase);

#endif
