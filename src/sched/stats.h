/* SPDX-License-Identifier: MIT */
/*
 * The counters of a run, for sn_stats(): of the one that runs, or, when none does, of the last.
 */
#ifndef SENNIT_SCHED_STATS_H
#define SENNIT_SCHED_STATS_H

#include "sched/fork.h"

/* A run begins: its counters are all zero. It ends: they are kept, before what has them is freed. */
void sn_stats_begin(void);
void sn_stats_end(void);

void sn_stats_fork(enum sn_fork_phase phase);

#endif
