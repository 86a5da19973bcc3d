/* SPDX-License-Identifier: MIT */
/*
 * Reports that a signal's handler makes on stderr, on whatever thread it runs.
 *
 * Contract. One report at a time, as its tables are static: others wait for it, for some seconds at most.
 * All that is here is the reporter's, from sn_report_begin() to sn_report_end(). Async-signal-safe, with
 * one exception: sn_report_find_modules() takes the loader's lock (modules.h).
 */
#ifndef SENNIT_DEBUG_REPORT_H
#define SENNIT_DEBUG_REPORT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/registers.h"
#include "sched/stack.h"

struct sn_task;

/* False: somebody else reports, and does not come to an end, or this thread does already. */
bool sn_report_begin(void);

/* dying: the process ends, and nobody else is to write into that. */
void sn_report_end(bool dying);

/* Whether the calling thread is the reporter. */
bool sn_report_is_mine(void);

/* The beginning of a run: nobody reports. */
void sn_report_reset(void);

void sn_put(const char *text);
void sn_put_number(uint64_t value, unsigned base);
void sn_put_address(uintptr_t address);
void sn_put_size(uintptr_t size); /* "312 bytes", "73 KiB" */
void sn_put_task(const struct sn_task *task);
void sn_put_flush(void);

/* Before the following two: what is mapped now. */
void sn_report_find_modules(void);
void sn_put_spawned(const void *at, uint64_t by);

/* The interrupted code's. limit: no frame lies outside of it. */
void sn_put_backtrace(struct sn_registers *registers, const struct sn_stack *limit);

/*
 * Installs a handler, and stores the former action in *before. In a child of fork() the handler may be
 * ours already, from the parent's run: then what was there before it is known, and the handler is not to
 * come before itself. 0, 1 when it was ours, or an error.
 */
int sn_catch_instead(int signum, const struct sigaction *action, struct sigaction *before);

#endif
