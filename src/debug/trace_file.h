/* SPDX-License-Identifier: MIT */
/*
 * The file to which traces are written without a call: SENNIT_TRACE_FILE, see <sennit/trace.h>.
 *
 * Contract. The name is read from the environment when a run begins, and stays until the next run
 * begins. Nobody waits for a trace, so its result is a line on stderr, never an error. Writing one
 * takes long, so a thread is started for it (dump_signal.c); no task and not the monitor does it.
 * That thread may outlive its run. trace_file.c says who may write the name.
 */
#ifndef SENNIT_DEBUG_TRACE_FILE_H
#define SENNIT_DEBUG_TRACE_FILE_H

#include <stdbool.h>

/* Called when a run begins. Returns 0, or -EINVAL after a line on stderr. */
int sn_trace_file_begin(void);

/* Whether there is such a file. */
bool sn_trace_file_is_set(void);

/* Writes a trace to that file, and a line on stderr that says so, or why not. Must not be called by
 * a task. */
void sn_trace_file_write(void);

#endif
