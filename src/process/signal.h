/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_PROCESS_SIGNAL_H
#define SENNIT_PROCESS_SIGNAL_H

#include "base/fork.h"
#include "sched/runqueue.h"

/* The event of the signals' eventfd, for sn_fds_begin(). Puts tasks that were given a signal into
 * *ready, and returns their number. */
int sn_signal_event(struct sn_queue *ready);

/* Restores the dispositions that sn_signal_catch() has changed. At the end of the runtime. */
void sn_signal_destroy(void);

void sn_signal_fork(enum sn_fork_phase phase);

#endif
