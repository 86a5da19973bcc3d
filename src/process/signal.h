/* SPDX-License-Identifier: MIT */
/*
 * Signals for tasks (<sennit/signal.h>): what run/run.c and the poller need of them.
 *
 * Contract. During a run each caught signal reaches its channels or one task, or stays noted until
 * one asks for it; several of one number may become one. signal.c argues that, and says which lock
 * guards what. The handler only sets a bit and writes to an eventfd, unless an instruction has
 * caused the signal, which then goes to the previous handler. The poller, or the task that gives a
 * channel signals, passes on what was noted. A disposition changes when a task catches the signal.
 * It is restored when the run ends, and in a child of fork(), where the eventfd is closed, too.
 */
#ifndef SENNIT_PROCESS_SIGNAL_H
#define SENNIT_PROCESS_SIGNAL_H

#include "base/fork.h"
#include "sched/runqueue.h"

/* The event of the signals' eventfd, for sn_fds_begin(). Puts tasks that were given a signal into
 * *ready, and returns their number. On the thread that polls, which holds no lock. */
int sn_signal_event(struct sn_queue *ready);

/* Restores the dispositions that sn_signal_catch() has changed. At the end of the runtime. */
void sn_signal_destroy(void);

void sn_signal_fork(enum sn_fork_phase phase);

#endif
