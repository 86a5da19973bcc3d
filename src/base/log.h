/* SPDX-License-Identifier: MIT */
/*
 * Lines on standard error.
 *
 * Contract. A write never blocks for longer than the caller allows, whatever standard error is. A
 * pipe that nobody reads would otherwise stop a thread and the tasks of its processor, or the
 * monitor, and then the whole runtime. A line for which there is no room is dropped, and so is the
 * rest of a report. The next line or report says how many lines were, on a line of its own also if
 * the last one was cut. Nothing raises SIGPIPE. Any thread may call these functions, also in a
 * signal handler, and under any lock.
 *
 * Rejected: O_NONBLOCK, because it would be set for every process that shares the open file
 * description.
 *
 * sn_log() and sn_fatal() are declared in arch/compiler.h, for the layers below.
 */
#ifndef SENNIT_BASE_LOG_H
#define SENNIT_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long a report waits for room in total, and a dump at each flush. The first is for one after
 * which the process ends: longer than a reader usually pauses, and shorter than others wait for a
 * report to end (debug/report.c). The second is for one after which a task continues. */
#define SN_STDERR_PATIENCE INT64_C(2000000000)
#define SN_STDERR_BRIEFLY INT64_C(100000000)

/* Writes the whole text, waiting for room at most *patience ns in total, which it reduces by the
 * time it has waited; NULL: it does not wait. Returns how many bytes were written. Preserves
 * errno. */
size_t sn_stderr_write(const char *text, size_t size, int64_t *patience);

/* Counts the lines that end in this text as dropped. */
void sn_stderr_count_dropped(const char *text, size_t size);

/* Says how many lines were dropped, if any were, as sn_stderr_write() does. Returns false if there
 * was no room for that, and they stay counted. */
bool sn_stderr_say_dropped(int64_t *patience);

/*
 * Whether the kernel can write to a pipe without ever waiting (RWF_NOWAIT). Where it cannot,
 * sn_stderr_write() asks poll() for room first, and another process may take that room before the
 * write. Finds out by a write to a pipe that it creates; also false if no descriptor is left for
 * that. Preserves errno.
 */
bool sn_stderr_never_waits(void);

#endif
