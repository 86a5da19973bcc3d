/* SPDX-License-Identifier: MIT */
/*
 * The netpoller: epoll, and how a thread that sleeps there is woken.
 *
 * It knows descriptors by tags. A hook, which the layer of the descriptors (io/fd.c) registers,
 * decides what an event means to the tasks that wait.
 */
#ifndef SENNIT_SCHED_NETPOLL_H
#define SENNIT_SCHED_NETPOLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fork.h"
#include "sched/runqueue.h"

/*
 * Called when epoll has reported an event (what: EPOLLIN and so on) of the descriptor with the tag.
 * Puts the tasks to wake into *ready, and returns how many there are. Runs on any thread that
 * polls, without any lock.
 */
typedef int sn_netpoll_hook(uint64_t tag, uint32_t what, struct sn_queue *ready);

/* The beginning and the end of a run. 0 or a negative errno. */
int sn_netpoll_init(sn_netpoll_hook *hook);
void sn_netpoll_destroy(void);
void sn_netpoll_fork(enum sn_fork_phase phase);

/*
 * Polls for at most timeout ns (0: does not wait; negative: forever). Puts the tasks to wake into
 * *ready, and returns how many there are. Returns -EAGAIN when a poll that may sleep was ended only
 * by edges that no task waits for, so that a thread with nothing else to do may continue to sleep.
 */
int sn_netpoll(int64_t timeout, struct sn_queue *ready);

/* Sleeps for so many ns: true; or until sn_netpoll_wake(), which also ends the next sn_netpoll(),
 * or a signal. No event of a descriptor ends it. */
bool sn_netpoll_rest(int64_t timeout);

/* Ends another thread's sn_netpoll() early, or the next one. Any thread may call it. */
void sn_netpoll_wake(void);

/* Whether sn_netpoll() can sleep for less than a millisecond. Until one has slept for a time, or
 * sn_netpoll_probe() was called, it may say so wrongly. */
bool sn_netpoll_is_exact(void);

/* Finds out whether it can. Any thread, also without a run. Preserves errno. */
void sn_netpoll_probe(void);

/* Whether any descriptor is open: otherwise polling is useless. */
bool sn_netpoll_used(void);

/* One more descriptor is open; one fewer; none at all. */
void sn_netpoll_add(void);
void sn_netpoll_remove(void);
void sn_netpoll_forget(void);

/* epoll_ctl(): 0 or a negative errno. tag: not UINT64_MAX. events: with EPOLLET or EPOLLONESHOT, so
 * that what no task waits for is not reported again and again. */
int sn_netpoll_update(int operation, int fd, uint64_t tag, uint32_t events);

#endif
