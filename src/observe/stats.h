/* SPDX-License-Identifier: MIT */
/*
 * The counters of a run, for sn_run_stats(): those of the current run, or of the last one if none
 * runs.
 *
 * Contract. Any thread may ask at any time. The counters are those of the processors, of
 * base/counters.h and of other modules; here is only the copy that outlives the run.
 *
 * Who may write what: the copy, and whether a run is in progress, the thread of sn_run(), or the
 * child of fork(), under the lock in stats.c.
 */
#ifndef SENNIT_OBSERVE_STATS_H
#define SENNIT_OBSERVE_STATS_H

#include "base/fork.h"

/* Called when a run begins, and when it ends: the second copies the counters before their memory is
 * freed. */
void sn_stats_begin(void);
void sn_stats_end(void);

void sn_stats_fork(enum sn_fork_phase phase);

#endif
