/* SPDX-License-Identifier: MIT */
/*
 * The trace that is written without a call: when the signal for a dump comes, and when a task has
 * kept its processor for longer than SENNIT_STALL_MS, or waited for one for longer than
 * SENNIT_LATE_MS (dump_signal.c says when).
 *
 * Who may write what: `pattern`, sn_trace_file_begin(), while there is no run. A thread that writes
 * a trace may outlive the run (dump_signal.c), and then finds the name of the next one.
 */
#include "debug/trace_file.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/trace.h>

#include "arch/compiler.h"
#include "debug/named_file.h"

#define LONGEST SN_FILE_NAME_MAX

/* The characters are atomic, because a thread that outlives its run may read them while the next
 * run begins: at worst it gets a mixture of two names. */
static _Atomic char pattern[LONGEST + 1];

int sn_trace_file_begin(void)
{
	/* Ignored in a setuid program, whose caller could otherwise replace any file. */
	const char *text = secure_getenv("SENNIT_TRACE_FILE");
	size_t length = text ? strlen(text) : 0;

	if (length > LONGEST) {
		sn_log("SENNIT_TRACE_FILE is too long; expected at most %d characters", LONGEST);
		return -EINVAL;
	}
	for (size_t i = 0; i <= length; i++)
		atomic_store_explicit(&pattern[i], i < length ? text[i] : '\0',
				      memory_order_relaxed);
	return 0;
}

bool sn_trace_file_is_set(void)
{
	return atomic_load_explicit(&pattern[0], memory_order_relaxed) != '\0';
}

void sn_trace_file_write(void)
{
	char text[LONGEST + 1], path[SN_FILE_PATH_ROOM];
	int err;

	if (!sn_trace_file_is_set())
		return;
	for (size_t i = 0; i <= LONGEST; i++)
		text[i] = atomic_load_explicit(&pattern[i], memory_order_relaxed);
	err = sn_named_file_write(text, sn_trace_write, path);
	if (err == 0)
		sn_log("wrote a trace to %s", path);
	else if (err == -EBUSY)
		sn_log("no new trace to SENNIT_TRACE_FILE: another one is being written");
	else
		sn_log("cannot write a trace to SENNIT_TRACE_FILE: %s", strerror(-err));
}
