/* SPDX-License-Identifier: MIT */
/* The dump of all tasks: what each of them does. <sennit/debug.h> has sn_dump(). */
#ifndef SENNIT_DEBUG_DUMP_H
#define SENNIT_DEBUG_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/fork.h"

/*
 * Catches the signal that requests a dump. Returns 0, or -EINVAL after a line on stderr.
 * wait_stats: the histograms of waits follow the dump.
 */
int sn_dump_install(bool wait_stats);
void sn_dump_uninstall(void);

/* A chore of the monitor: begins a requested dump, on a thread of its own. */
void sn_dump_serve(int64_t now, bool idle);
bool sn_dump_wanted(void);

/* As sn_scan_own_signal(). */
int sn_dump_own_signal(void);

void sn_dump_fork(enum sn_fork_phase phase);
void sn_dump_signal_fork(enum sn_fork_phase phase);

#endif
