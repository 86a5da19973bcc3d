/* SPDX-License-Identifier: MIT */
/*
 * The scan signal: reaches a thread that does not come back into the runtime soon.
 *
 * Contract. The handler serves the request of the task that its thread runs, if the thread is in
 * user code, or sleeps until it gets a processor. If the thread is elsewhere in the runtime, the
 * handler does nothing: that thread may hold locks, and will see ASKED on its way
 * (sched/scan_serve.h). The runtime catches the signal when it first needs it in a run. If the
 * program had installed a handler before, the runtime's handler calls that for signals that are not
 * the runtime's, and it is restored at the end.
 *
 * Who may write what:
 *   the signal's number   sn_scan_signal_init(); any thread sets it to 0, under the runtime's lock,
 *                         if the signal cannot be caught
 *   caught, former        any thread, under the runtime's lock; sn_scan_signal_end(), when no
 *                         thread is left
 *   thread->reminded      the thread that sends an unmarked signal sets it; the handler clears it
 */
#ifndef SENNIT_OBSERVE_SCAN_SIGNAL_H
#define SENNIT_OBSERVE_SCAN_SIGNAL_H

#include <stdbool.h>

#include "base/fork.h"

struct sn_task;
struct sn_thread;

/* Called once in a run. Returns 0, or -EINVAL after a line on stderr. */
int sn_scan_signal_init(void);
/* Called at the end of a run: removes the handler. */
void sn_scan_signal_end(void);
void sn_scan_signal_fork(enum sn_fork_phase phase);

/* Sends the signal to a thread that runs the task, if the handler would serve the request now. The
 * runtime's lock is held, so the thread does not end. */
void sn_scan_interrupt(struct sn_thread *thread, struct sn_task *task);

/* Returns the signal if the runtime has caught it and the program had not; otherwise 0. */
int sn_scan_own_signal(void);

#endif
