/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_NET_SIGNAL_H
#define SENNIT_NET_SIGNAL_H

#include "base/fork.h"
#include "sched/runqueue.h"

/* In a tag of the poller: it is that of the signals' eventfd. */
#define SN_SIGNAL_TAG 0x40000000u

/* The poller's hook, for this tag. Returns how many tasks it has put into *ready. */
int sn_signal_event(struct sn_queue *ready);

/* Restores the dispositions that sn_signal_catch() has changed. At the end of the runtime. */
void sn_signal_destroy(void);

void sn_signal_fork(enum sn_fork_phase phase);

#endif
