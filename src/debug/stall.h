/* SPDX-License-Identifier: MIT */
/*
 * Reports of stalls: a task that keeps its processor for longer than SENNIT_STALL_MS is told on stderr,
 * with a backtrace. The monitor notices it, and a signal makes the thread itself tell, as its task is its
 * own.
 */
#ifndef SENNIT_DEBUG_STALL_H
#define SENNIT_DEBUG_STALL_H

#include <stdint.h>

struct sn_thread;

/*
 * The beginning of a run: *ns is how long a task may stay outside before it is reported, 0: for ever.
 * Then the signal of SENNIT_STALL_SIGNAL is caught; one that comes from elsewhere goes to the former
 * handler. 0, or -EINVAL after a line on stderr.
 */
int sn_stall_init(int64_t *ns);

/* The end of a run: puts the former action back. */
void sn_stall_end(void);

/*
 * The monitor: makes the thread, which has been outside since its stays had that value, name its
 * task and print its backtrace, in the signal's handler.
 */
void sn_stall_report(struct sn_thread *thread, uint32_t stay, int64_t stayed);

/* As sn_scan_own_signal(). */
int sn_stall_own_signal(void);

#endif
