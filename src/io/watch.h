/* SPDX-License-Identifier: MIT */
/*
 * Watches: which tasks wait for descriptors that the program owns (sennit/fd.h).
 *
 * A watch belongs to a descriptor's number. It holds the list of the waits for that number, and
 * what epoll was last asked to report. epoll is asked for one level-triggered event (EPOLLONESHOT),
 * so that events that no task waits for any more cost one report at most. Each wait that begins
 * asks epoll again, and after an event the thread that got it asks for the waits that are left. All
 * of that happens under the watch's lock, and asking makes epoll check the descriptor. No wait is
 * missed, because at any time either epoll has yet to report what the waits in the list wait for,
 * or the thread to which it has reported something is about to ask again.
 *
 * An event may reach the watch late, because its thread was held up after epoll_wait(). The
 * questions to epoll are therefore numbered, and an event carries the number of the question that
 * it answers. A wait takes no answer to a question from before it, so it never reports bytes that
 * were read before it began. The numbers wrap after 2^32 questions.
 *
 * The program may close a descriptor at any time, and the system may give its number away again.
 * Closing a descriptor removes it from epoll without notice. The watch learns this when it asks
 * epoll next, which does not know the descriptor (ENOENT). Then the earlier waits end with -EBADF,
 * and the new descriptor is registered. If the earlier one is still open, in another process or
 * under another number, epoll may still report its events. These answer an earlier question, so no
 * wait takes them, and the watch does not ask again after them. (If the number belongs to the
 * earlier descriptor again when the watch asks for another reason, the watch cannot know that, and
 * takes it for the later one.) When sennit itself registers a descriptor (io/fd.c), it first makes
 * the watch of that number drop its own registration, because the watch must not change one of
 * sennit's. A descriptor that is already registered is watched through a copy, which is closed when
 * the last wait has ended. That close may wait for a peer or a device, if the program has closed
 * all other numbers of the file. A thread that reports events may be the monitor, so it never
 * closes the copy. The task of the wait does, when it returns; until then the file is open. Like
 * the close of a descriptor of sennit's own (io/fd.c), this close is within the runtime.
 *
 * A wait ends by its waiter (task/waiter.h). The watch touches a wait and its waiter only under the
 * watch's lock, and only while the wait is in the list. It first ends the waiter and then takes the
 * wait out. The task returns once it has taken the wait out itself, or sees that the watch has.
 * That check needs no lock, because taking the wait out is the watch's last access to it. Only if
 * the watch had a copy then, the task locks the watch to see whether the copy is still needed.
 *
 * If no other wait for the number begins, no thread would ask epoll and learn that the descriptor
 * was closed. Therefore a wait that lasts asks at growing intervals, as a new wait would
 * (sn_watch_look()).
 *
 * models/watch.pml checks all of this, except the copies and the looks. models/look.pml has the
 * looks, and what a call does between its waits.
 *
 * Who may write what: any thread may write a watch and the waits in its list under the watch's
 * lock, and the table of chunks under the table's lock. While a thread holds either of these locks,
 * it takes no other lock, makes no task runnable and allocates no memory. epoll_ctl() is called
 * under the watch's lock.
 *
 * Rejected:
 *   - Registering and removing at each wait: two system calls instead of one, and removing by
 *     number may remove another thread's registration.
 *   - Edges, as for sennit's own descriptors: a library reads as much as it likes and not until
 *     EAGAIN, so an edge may never come again.
 *   - Checking all watches together, once a second: an idle program would not be idle.
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

/* The events that a program may ask for. poll() and epoll have the same values for them. */
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
	struct sn_watch *watch; /* the one whose list it is in, or NULL */
	struct sn_watch *copy;  /* the one that had a copy when it took the wait out, or NULL */
	struct sn_watch_wait *prev, *next;
	struct sn_waiter *waiter; /* not an exclusive one */
	uint32_t events;          /* the events that end it: EPOLLIN and so on */
	uint32_t since;           /* the number of the question that it began with */
	uint32_t got;             /* which of them were reported; also EPOLLERR, EPOLLHUP */
	bool closed;              /* the descriptor was closed, or is about to be */
};

/* Prepares a wait. It is in no list yet, and has nothing to report. */
static inline void sn_watch_init(struct sn_watch_wait *wait, struct sn_waiter *waiter,
				 uint32_t events)
{
	wait->watch = wait->copy = NULL;
	wait->waiter = waiter;
	wait->events = events;
	wait->got = 0;
	wait->closed = false;
}

/*
 * Begins a prepared wait for a number, which is not negative. From then on the watch may end the
 * waiter, with 0. Other waits may end, and their tasks are put into *ready. Returns 0, or an error,
 * after which the wait is in no list: one of epoll_ctl(2), or of fcntl(2) for a copy; -ENOMEM; or
 * -ENOSPC if the number is too large for the table.
 */
int sn_watch_add(struct sn_watch_wait *wait, int fd, struct sn_queue *ready);

/* Takes a wait that was begun out of its list, if the watch has not done so, and closes a copy that
 * no wait needs any more. Called once for each such wait, whatever has ended it. Afterwards got and
 * closed do not change. */
void sn_watch_remove(struct sn_watch_wait *wait);

/* Called when a descriptor is about to be closed, or to be registered by sennit itself. Ends all
 * waits for its number, with closed set, and removes from epoll what was registered for them.
 * Returns whether anything was. */
bool sn_watch_closing(struct sn_thread *self, int fd);

/* The same, but leaves it to the caller to close a copy. Stores the number of that copy, or -1. For
 * threads of the program: the end of the run waits until they have left, and a close may wait. */
bool sn_watch_closing_leave_copy(struct sn_thread *self, int fd, int *copy);

/*
 * A program can close a descriptor without sn_fd_closing(), for example by a system call. A wait
 * therefore looks whether its descriptors still exist: first after SN_WATCH_FIRST_LOOK_NS, then at
 * intervals that double up to SN_WATCH_LAST_LOOK_NS. A short wait thus ends soon after such a
 * close, and 100,000 tasks that have waited for long cost 1,600 looks a second.
 */
#define SN_WATCH_FIRST_LOOK_NS INT64_C(1000000000)
#define SN_WATCH_LAST_LOOK_NS INT64_C(64000000000)

/* Ends the waits for the number, with closed set, if their descriptor no longer has that number. */
void sn_watch_look(struct sn_thread *self, int fd);

/* How many waits there are for the number. */
int sn_watch_waits(int fd);

/* Set in the netpoller's tag of a watch, and in no other. */
#define SN_WATCH_TAG 0x80000000u

/* The netpoller's hook for such tags. Returns how many tasks it has put into *ready. */
int sn_watch_event(uint64_t tag, uint32_t what, struct sn_queue *ready);

/* Called at the end of a run, when no task runs: forgets all waits and registrations. */
void sn_watches_reset(void);
void sn_watches_fork(enum sn_fork_phase phase);

#endif
