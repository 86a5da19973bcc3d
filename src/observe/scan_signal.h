/* SPDX-License-Identifier: MIT */
/*
 * The scan signal: reaches a thread that does not come back into the runtime soon.
 *
 * Contract. The handler serves the request of the task that its thread runs, if the thread is in
 * user code or asleep until there is a processor. It finds a thread elsewhere in the runtime too,
 * and then does nothing, as that thread may hold locks, and will see ASKED on its way
 * (sched/scan_serve.h). The signal is caught when it is needed for the first time in a run; a
 * handler that the program had installed before is called for signals that are not the runtime's,
 * and is restored at the end.
 *
 * Who may write what:
 *   the signal's number   sn_scan_signal_init(); 0, under the runtime's lock
 *   caught, former        under the runtime's lock; sn_scan_signal_end(), when no thread is left
 *   thread->reminded      1, the thread that sends the signal; 0, the handler
 */
#ifndef SENNIT_OBSERVE_SCAN_SIGNAL_H
#define SENNIT_OBSERVE_SCAN_SIGNAL_H

#include <stdbool.h>

#include "base/fork.h"

struct sn_task;
struct sn_thread;

/* Once in a run. 0, or -EINVAL after a line on stderr. */
int sn_scan_signal_init(void);
/* The end of a run: the handler is removed. */
void sn_scan_signal_end(void);
void sn_scan_signal_fork(enum sn_fork_phase phase);

/* Sends it to a thread that runs the task, if it would serve the request now. The runtime's lock is
 * held, so the thread does not end. */
void sn_scan_interrupt(struct sn_thread *thread, struct sn_task *task);

/* The signal that the runtime catches for this, unless the program has caught it before; 0:
 * none. */
int sn_scan_own_signal(void);

#endif
