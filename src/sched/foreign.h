/* SPDX-License-Identifier: MIT */
/*
 * Threads of the program's own that are inside a call.
 *
 * What such a thread uses of the runtime stays until the thread has left. The thread counts itself,
 * and then checks whether a runtime runs. The end of a run first clears that flag, and then waits
 * for the count. Both are sequentially consistent, so one sees the other.
 *
 * Who may write what: the count, every such thread, for itself; the flag, the thread of sn_run(),
 * and in a child the thread that called fork().
 */
#ifndef SENNIT_SCHED_FOREIGN_H
#define SENNIT_SCHED_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/fork.h"

/* Brackets what a thread of the program does with the runtime. Returns 0, or -ESRCH when none
 * runs. */
int sn_foreign_enter(void);
void sn_foreign_leave(void);

/* How many threads are inside. */
uint32_t sn_foreign_count(void);

/* Whether a runtime runs that such threads may enter. */
bool sn_foreign_admitted(void);

/* Begin: from now on they may enter. End: no more may enter, and all that were inside have left. */
void sn_foreign_begin(void);
void sn_foreign_end(void);

void sn_foreign_fork(enum sn_fork_phase phase);

#endif
