/* SPDX-License-Identifier: MIT */
/*
 * Reports of stalls: a task that keeps its processor for longer than SENNIT_STALL_MS is reported on
 * stderr, with a backtrace.
 *
 * Contract. The monitor notices the stall, and sends a signal to the thread. The thread makes the
 * report in the handler, because only the thread itself may access its task. One stay outside is
 * reported once. If another report is in the way for long, this one is only counted, and the other
 * one says so at its end.
 *
 * Who may write what: the thread's stall_stay and stall_asked, the monitor; the handler clears
 * stall_asked. The signal and its previous action, the thread of sn_run().
 */
#ifndef SENNIT_DEBUG_STALL_H
#define SENNIT_DEBUG_STALL_H

#include <stdint.h>

struct sn_thread;

/*
 * Called when a run begins. Stores in *ns how long a task may stay outside before it is reported,
 * or 0 if there is no limit. If there is one, catches the signal of SENNIT_STALL_SIGNAL; signals
 * from other senders go to the previous handler. Returns 0, or -EINVAL after a line on stderr.
 */
int sn_stall_init(int64_t *ns);

/* Called at the end of a run: restores the previous action. */
void sn_stall_end(void);

/*
 * Called by the monitor for a thread that has been outside since its lease.stays had the value
 * `stay`: makes the thread name its task and print its backtrace, in the signal handler.
 */
void sn_stall_report(struct sn_thread *thread, uint32_t stay, int64_t stayed);

/* Returns the signal if it is caught for reports, and the program had not caught it; otherwise
 * 0. */
int sn_stall_own_signal(void);

#endif
