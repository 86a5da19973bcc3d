/* SPDX-License-Identifier: MIT */
/*
 * Reports of stalls: a task that keeps its processor for longer than SENNIT_STALL_MS is reported on
 * stderr, with a backtrace. The monitor notices the stall, and sends a signal to the thread, which
 * reports itself, because only the thread may access its task.
 */
#ifndef SENNIT_DEBUG_STALL_H
#define SENNIT_DEBUG_STALL_H

#include <stdint.h>

struct sn_thread;

/*
 * At the beginning of a run. *ns: how long a task may stay outside before it is reported; 0: no
 * limit. If it is not 0, the signal of SENNIT_STALL_SIGNAL is caught; one that comes from elsewhere
 * goes to the previous handler. Returns 0, or -EINVAL after a line on stderr.
 */
int sn_stall_init(int64_t *ns);

/* At the end of a run: restores the previous action. */
void sn_stall_end(void);

/*
 * Called by the monitor for a thread that has been outside since its lease.stays had the value
 * `stay`: makes the thread name its task and print its backtrace, in the signal handler.
 */
void sn_stall_report(struct sn_thread *thread, uint32_t stay, int64_t stayed);

/* As sn_scan_own_signal(). */
int sn_stall_own_signal(void);

#endif
