/* SPDX-License-Identifier: MIT */
/*
 * Reports that a signal handler makes on stderr, on any thread.
 *
 * Contract. There is one report at a time, because its tables are static; other threads wait for
 * it, for some seconds at most. Everything here belongs to the reporter, from sn_report_begin() to
 * sn_report_end(). Async-signal-safe, with one exception: sn_report_find_modules() takes the
 * loader's lock (modules.h).
 */
#ifndef SENNIT_DEBUG_REPORT_H
#define SENNIT_DEBUG_REPORT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/registers.h"
#include "stack/stack.h"

struct sn_task;

/* False: another thread's report has not ended in time, or this thread is already reporting. */
bool sn_report_begin(void);

/* dying: the process is about to end, and no other thread may report any more. */
void sn_report_end(bool dying);

/* Whether the calling thread is the reporter. */
bool sn_report_is_mine(void);

/* At the beginning of a run: there is no reporter. */
void sn_report_reset(void);

void sn_put(const char *text);
void sn_put_number(uint64_t value, unsigned base);
void sn_put_address(uintptr_t address);
void sn_put_size(uintptr_t size); /* "312 bytes", "73 KiB" */
void sn_put_task(const struct sn_task *task);
void sn_put_flush(void);

/* Finds the modules that are mapped now. To be called before the following two. */
void sn_report_find_modules(void);
void sn_put_spawned(const void *at, uint64_t by);

/* The backtrace of the interrupted code. limit: no frame lies outside of it. */
void sn_put_backtrace(struct sn_registers *registers, const struct sn_stack *limit);

/*
 * Installs a handler, and stores the previous action in *before. In a child of fork() the handler
 * may be installed already, from the parent's run. Then *before is left alone, because the handler
 * must not be its own previous action. Returns 0; 1 when it was installed already; or an error.
 */
int sn_catch_instead(int signum, const struct sigaction *action, struct sigaction *before);

#endif
