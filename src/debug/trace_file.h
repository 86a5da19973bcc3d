/* SPDX-License-Identifier: MIT */
/* The file that a trace is written to without a call: SENNIT_TRACE_FILE, see <sennit/trace.h>. */
#ifndef SENNIT_DEBUG_TRACE_FILE_H
#define SENNIT_DEBUG_TRACE_FILE_H

#include <stdbool.h>

/* A run begins. Returns 0, or -EINVAL after a line on stderr. */
int sn_trace_file_begin(void);

/* Whether there is such a file. */
bool sn_trace_file_is_set(void);

/* Writes a trace there, and a line on stderr that says so, or why not. Not in a task. */
void sn_trace_file_write(void);

#endif
