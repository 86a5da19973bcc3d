/* SPDX-License-Identifier: MIT */
/*
 * Threads of the program's own that are inside a call.
 *
 * What such a thread uses of the runtime stays until it has left: it counts itself, and then looks
 * whether a runtime runs. The end of a run says that none does, and then waits for the count. Both
 * are sequentially consistent, so one sees the other.
 *
 * Who may write what: the count, every such thread, by itself; whether one runs, the thread of
 * sn_run(), and that of fork() in a child.
 */
#ifndef SENNIT_SCHED_FOREIGN_H
#define SENNIT_SCHED_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/fork.h"

/* Brackets what a thread of the program's own does with the runtime: 0, or -ESRCH when none runs. */
int sn_foreign_enter(void);
void sn_foreign_leave(void);

/* How many are inside. */
uint32_t sn_foreign_count(void);

/* Whether a runtime runs that they may enter. */
bool sn_foreign_admitted(void);

/* From now on they may enter; no more, and those that were inside have left. */
void sn_foreign_begin(void);
void sn_foreign_end(void);

void sn_foreign_fork(enum sn_fork_phase phase);

#endif
