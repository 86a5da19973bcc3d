/* SPDX-License-Identifier: MIT */
/*
 * Reports that a signal handler makes on stderr, on any thread.
 *
 * Contract. There is one report at a time, because its tables are static; other threads wait for it
 * to end, for some seconds at most. Async-signal-safe, with one exception: sn_report_find_modules()
 * takes the loader's lock (modules.h).
 *
 * Who may write what: which thread is the reporter, any thread by compare-and-swap from none, and
 * the reporter at the end; the number of reports that were missed, any thread, by an addition, and
 * the reporter; all other state, the reporter, from sn_report_begin() to
 * sn_report_end().
 */
#ifndef SENNIT_DEBUG_REPORT_H
#define SENNIT_DEBUG_REPORT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/registers.h"
#include "stack/stack.h"

struct sn_task;

/* Makes the calling thread the reporter. If it waits for room on stderr for more than `patience` ns
 * in total, the rest of the report is dropped. Returns false if another thread's report has not
 * ended in time, or if this thread is already the reporter. */
bool sn_report_begin(int64_t patience);

/* Ends the report. If dying, the process is about to end, and no other thread may report any
 * more. */
void sn_report_end(bool dying);

/* Called by a thread that has a stall to report, after sn_report_begin() has returned false: the
 * report that was in the way says at its end that there was one more. */
void sn_report_miss(void);

/* Called by a thread that has a fault to report, after sn_report_begin() has returned false: writes
 * one line that names the signal and the task (NULL: none), if stderr has room for it. */
void sn_report_refused(const char *signal, const struct sn_task *task);

/* Whether the calling thread is the reporter. */
bool sn_report_is_mine(void);

/* Called when a run begins: there is no reporter. */
void sn_report_reset(void);

void sn_put(const char *text);
void sn_put_number(uint64_t value, unsigned base);
void sn_put_address(uintptr_t address);
void sn_put_size(uintptr_t size); /* "312 bytes", "73 KiB" */
void sn_put_task(const struct sn_task *task);
void sn_put_flush(void);

/* Finds the modules that are mapped now. Must be called before the next two. */
void sn_report_find_modules(void);
void sn_put_spawned(const void *at, uint64_t by);

/* Prints the backtrace of the interrupted code. No frame outside of limit is read. */
void sn_put_backtrace(struct sn_registers *registers, const struct sn_stack *limit);

/*
 * Installs a handler, and stores the previous action in *before. In a child of fork() the handler
 * may be installed already, from the parent's run. Then *before is left alone, because the handler
 * must not be its own previous action. Returns 0; 1 if it was installed already; or a negative
 * errno.
 */
int sn_catch_instead(int signum, const struct sigaction *action, struct sigaction *before);

#endif
