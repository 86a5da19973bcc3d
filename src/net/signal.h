/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_NET_SIGNAL_H
#define SENNIT_NET_SIGNAL_H

#include "sched/fork.h"

/* Restores the dispositions that sn_signal_catch() has changed. At the end of the runtime. */
void sn_signal_destroy(void);

void sn_signal_fork(enum sn_fork_phase phase);

#endif
