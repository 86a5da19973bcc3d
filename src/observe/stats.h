/* SPDX-License-Identifier: MIT */
/* The counters of a run, for sn_run_stats(): of the current run, or otherwise of the last one. */
#ifndef SENNIT_OBSERVE_STATS_H
#define SENNIT_OBSERVE_STATS_H

#include "base/fork.h"

/* A run begins. It ends: they are copied, before their memory is
 * freed. */
void sn_stats_begin(void);
void sn_stats_end(void);

void sn_stats_fork(enum sn_fork_phase phase);

#endif
