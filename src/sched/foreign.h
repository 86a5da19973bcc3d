/* SPDX-License-Identifier: MIT */
/*
 * Threads of the program's own that are inside a call.
 *
 * What such a thread uses of the runtime stays until the thread has left. The thread counts itself,
 * and then checks whether a runtime runs. The end of a run first clears that flag, and then waits
 * for the count. Both are sequentially consistent, so one sees the other.
 *
 * That wait has no bound, so a thread that is counted calls nothing of the program's and nothing
 * that may block, such as write(). It goes out for that: it is counted as a guest meanwhile, for
 * whom the end waits no longer than for tasks in foreign code. The tasks' stacks and blocks stay
 * for a guest that is left behind, as they do for a thread that is. It has no business with the
 * rest of the runtime any more, and finds that out when it wants to come back. models/foreign.pml
 * has this.
 *
 * A task is not counted: its thread is joined, or left behind. A count would stay forever when the
 * task is abandoned in a callback, because the run has ended.
 *
 * Who may write what: the counts, every such thread, for itself; the flag, the thread of sn_run(),
 * and in a child the thread that called fork().
 */
#ifndef SENNIT_SCHED_FOREIGN_H
#define SENNIT_SCHED_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fork.h"

/* Brackets what a thread of the program does with the runtime. Returns 0, or -ESRCH when none
 * runs. */
int sn_foreign_enter(void);
void sn_foreign_leave(void);

/* Between the two: for a callback. Returns the run, for the call after it. */
uint32_t sn_foreign_go_out(void);

/* Returns 0; -ESRCH when the run has ended: then the thread is not inside, and must not leave. */
int sn_foreign_come_back(uint32_t run);

/* How many threads are inside, or guests. */
uint32_t sn_foreign_count(void);

/* Whether a runtime runs that such threads may enter. */
bool sn_foreign_admitted(void);

/* Begin: from now on they may enter. End: no more may enter, and all that were inside have left;
 * returns how many guests are left behind, for whom it has waited until give_up. */
void sn_foreign_begin(void);
uint32_t sn_foreign_end(int64_t give_up);

void sn_foreign_fork(enum sn_fork_phase phase);

#endif
