/* SPDX-License-Identifier: MIT */
/*
 * Threads of the program's own that are inside a call of the runtime.
 *
 * Contract. The end of a run waits until each such thread has left before it frees what the thread
 * may use. The thread first increments a count, and then checks the flag that says whether a
 * runtime runs. The end of a run first clears that flag, and then waits until the count is zero.
 * All of this is sequentially consistent, so at least one of the two sees the other.
 *
 * The end waits without a limit, so a thread that is counted calls no code of the program and
 * nothing that may block, such as write(). For such a call it goes out: until it comes back it is
 * counted as a guest, and the end of the run waits for guests no longer than for tasks in foreign
 * code. If a guest is left behind, the tasks' stacks and blocks stay, as they do for a thread that
 * is left behind. The guest may not touch the rest of the runtime any more, and learns that when it
 * wants to come back. models/foreign.pml has this.
 *
 * A task is not counted, because its thread is joined or left behind. The task of an ended run is
 * abandoned, perhaps in a callback, and its count would then never go down.
 *
 * Each thread of the program also marks itself while it is inside, or takes a lock of the runtime
 * otherwise, so that a signal handler knows that it has interrupted such code, and that a lock may
 * be held (sn_private_is_runtime()). Callbacks run unmarked. The runtime's threads are known
 * without a mark, and have none, because their tasks may continue on other threads.
 *
 * Who may write what:
 *   the counts   every such thread, for itself; the thread of sn_run() when a run begins or ends
 *   the flag     the thread of sn_run(); in a child, the thread that called fork()
 *   the marks    every thread, its own
 */
#ifndef SENNIT_SCHED_FOREIGN_H
#define SENNIT_SCHED_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fork.h"

/* Brackets the code in which a thread of the program uses the runtime. Returns 0, or -ESRCH if no
 * runtime runs; then the thread is not inside, and must not leave. */
int sn_foreign_enter(void);
void sn_foreign_leave(void);

/* Called between these two, before a callback. Returns the number of the run, for the next one. */
uint32_t sn_foreign_go_out(void);

/* Called after the callback. Returns 0, or -ESRCH if that run has ended; then the thread is not
 * inside, and must not leave. */
int sn_foreign_come_back(uint32_t run);

/* Bracket code in which such a thread takes a lock of the runtime without being inside. They nest,
 * also within the calls above, and do nothing on the runtime's threads. */
void sn_foreign_mark(void);
void sn_foreign_unmark(void);

/* Whether the calling thread is marked. For signal handlers. */
bool sn_foreign_is_marked(void);

/* The number of threads that are inside or guests. */
uint32_t sn_foreign_count(void);

/* Whether a runtime runs that such threads may enter. */
bool sn_foreign_admitted(void);

/* From the first call on such threads may enter. The second ends that: it returns when all threads
 * that were inside have left. It waits for guests until give_up, and returns how many it leaves
 * behind. */
void sn_foreign_begin(void);
uint32_t sn_foreign_end(int64_t give_up);

void sn_foreign_fork(enum sn_fork_phase phase);

#endif
