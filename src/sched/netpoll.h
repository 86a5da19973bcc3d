/* SPDX-License-Identifier: MIT */
/*
 * The netpoller: edge-triggered epoll, and how whoever sleeps there is woken.
 *
 * It knows descriptors by tags. What an event means to the tasks that wait is decided by a hook, which
 * the layer of the descriptors (net/fd.c) registers.
 */
#ifndef SENNIT_SCHED_NETPOLL_H
#define SENNIT_SCHED_NETPOLL_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/fork.h"
#include "sched/runqueue.h"

/*
 * epoll has told what (EPOLLIN and so on) of the descriptor that has the tag: puts the tasks to wake
 * into *ready, and returns how many there are. On any thread that polls, without any lock.
 */
typedef int sn_netpoll_hook(uint64_t tag, uint32_t what, struct sn_queue *ready);

/* The beginning and the end of a run. 0 or a negative errno. */
int sn_netpoll_init(sn_netpoll_hook *hook);
void sn_netpoll_destroy(void);
void sn_netpoll_fork(enum sn_fork_phase phase);

/*
 * Polls: for at most timeout ns (0: not at all, negative: for ever); puts the tasks to wake into
 * *ready. Returns how many there are; -EAGAIN when a poll that may sleep was ended by nothing but
 * edges that nobody waits for, so that whoever has nothing else to do may go on sleeping.
 */
int sn_netpoll(int64_t timeout, struct sn_queue *ready);

/* Ends somebody's sn_netpoll() early, or the next one. Any thread. */
void sn_netpoll_kick(void);

/* Whether it sleeps for less than a millisecond when told so. */
bool sn_netpoll_is_exact(void);

/* Whether any descriptor is open: otherwise polling is of no use. */
bool sn_netpoll_used(void);

/* One more is open, or one less, or none is. */
void sn_netpoll_add(void);
void sn_netpoll_remove(void);
void sn_netpoll_forget(void);

/* epoll_ctl(): 0 or a negative errno. tag: not UINT64_MAX. */
int sn_netpoll_tell(int operation, int fd, uint64_t tag, uint32_t edges);

#endif
