/* SPDX-License-Identifier: MIT */
/*
 * The netpoller: epoll, and how a thread that sleeps there is woken.
 *
 * Contract. The netpoller knows a descriptor only by its tag. The layer of the descriptors
 * (io/fd.c) provides a hook, which decides which tasks an event wakes. Any thread of the runtime
 * may poll, and several may do so at the same time. A wake-up by sn_netpoll_wake() ends the poll of
 * a thread that sleeps there, or else the next poll that may sleep.
 *
 * Who may write what, in netpoll.c:
 *   epoll_fd, wakeup_fd   the thread of sn_run(), before the first poll of a run and after the
 *                         last, and the child of a fork(); closed under the lock
 *   on_events             the thread of sn_run(), before the first poll
 *   wakeup_pending        a waker, to 1; the thread that drains the eventfd, to 0
 *   open_fds, waits       any thread that opens or closes a descriptor, or begins or ends a wait,
 *                         by an atomic operation
 *   no_pwait2             any thread, to true
 */
#ifndef SENNIT_SCHED_NETPOLL_H
#define SENNIT_SCHED_NETPOLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fork.h"
#include "sched/runqueue.h"

struct epoll_event;

/*
 * Called with the events that one call of epoll has reported, each with the tag of its descriptor.
 * Puts the tasks to wake into *ready, and returns how many there are. It runs on the thread that
 * polls, which holds no lock.
 */
typedef int sn_netpoll_hook(const struct epoll_event *events, int n, struct sn_queue *ready);

/* Called when a run begins, and when it has ended. The first opens the epoll descriptor and the
 * eventfd, and returns 0 or a negative errno; the second closes them. */
int sn_netpoll_init(sn_netpoll_hook *hook);
void sn_netpoll_destroy(void);
void sn_netpoll_fork(enum sn_fork_phase phase);

/*
 * Polls for at most timeout ns (0: does not wait; negative: forever). Puts the tasks to wake into
 * *ready, and returns how many there are. Returns -EAGAIN if a poll that may sleep was ended only
 * by edges that no task waits for: a thread with nothing else to do may then sleep again.
 */
int sn_netpoll(int64_t timeout, struct sn_queue *ready);

/* Sleeps for timeout ns, and then returns true. Returns false if sn_netpoll_wake() or a signal ends
 * the sleep earlier; the same wake-up also ends the next sn_netpoll(). Events of descriptors do not
 * end the sleep. */
bool sn_netpoll_rest(int64_t timeout);

/* Ends another thread's sn_netpoll() early, or the next one. Any thread may call it. */
void sn_netpoll_wake(void);

/* Whether sn_netpoll() can sleep for less than a millisecond. Until sn_netpoll() was called with a
 * timeout, or sn_netpoll_probe() was called, it may wrongly return true. */
bool sn_netpoll_is_exact(void);

/* Finds out whether sn_netpoll() can do that. Any thread may call this, even without a run.
 * Preserves errno. */
void sn_netpoll_probe(void);

/* Whether any descriptor is open, or a task waits for one of the program's. Otherwise polling is
 * useless. */
bool sn_netpoll_used(void);

/* These count open descriptors. A thread outside the runtime may close one after its run has ended,
 * so each is added once and removed once, whatever happens in between. */
void sn_netpoll_add(void);
void sn_netpoll_remove(void);

/* These count what else waits for events. The end of a run forgets such waits, whose tasks are
 * abandoned. */
void sn_netpoll_wait_begins(void);
void sn_netpoll_wait_ends(void);
void sn_netpoll_forget_waits(void);

/* For a child of fork(), in which neither the parent's descriptors nor its waits count. */
void sn_netpoll_forget(void);

/* Calls epoll_ctl(), and returns 0 or a negative errno. The tag UINT64_MAX is reserved. The events
 * include EPOLLET or EPOLLONESHOT, so that epoll does not report again and again what no task waits
 * for. */
int sn_netpoll_update(int operation, int fd, uint64_t tag, uint32_t events);

#endif
