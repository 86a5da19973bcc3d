/* SPDX-License-Identifier: MIT */
/*
 * Looking for work.
 */
#ifndef SENNIT_SCHED_STEAL_H
#define SENNIT_SCHED_STEAL_H

#include <stdint.h>

#include "sched/processor.h"
#include "sched/thread.h"

/* Looks everywhere once and, if other processors are busy, at those for a while. */
struct sn_task *sn_look_for_work(struct sn_thread *self);

/* Polls the network from a busy processor, unless a thread sleeps in the poller. */
void sn_poll_network(struct sn_thread *self, struct sn_processor *p, int64_t now);

#endif
