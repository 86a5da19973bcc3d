/* SPDX-License-Identifier: MIT */
/*
 * Looking for work by the slow rules: at a fair tick, and when a processor has no task at hand.
 * turn.h has the fast rules.
 *
 * Contract. At a fair tick the timers, the network and the global queue come first, so that a full
 * local queue never starves them. Otherwise a thread looks at its own queues, the global queue, the
 * network and the other processors, in this order. The caller has a processor and holds no lock,
 * because waking a task may start a thread.
 *
 * Who may write what:
 *   p->last_poll, p->polled, p->fair_turns   the thread that has the processor. The poller reads
 *                                            polled, and the monitor reads fair_turns
 *   poor_at, stole_next, polled of a thread  that thread
 */
#ifndef SENNIT_SCHED_FIND_WORK_H
#define SENNIT_SCHED_FIND_WORK_H

#include <stdint.h>

#include "sched/processor.h"
#include "sched/thread.h"

/* Looks everywhere once. If other processors are busy, then spins for a while and looks at them
 * again and again. Returns NULL if there is nothing to do. */
struct sn_task *sn_find_work(struct sn_thread *self);

/* Polls the network from a busy processor, unless a thread sleeps in the poller. */
void sn_poll_network(struct sn_thread *self, struct sn_processor *p, int64_t now);

#endif
