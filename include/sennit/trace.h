/* SPDX-License-Identifier: MIT */
/*
 * The flight recorder: what tasks did last, as a trace.
 *
 * While a runtime runs, each processor records what happens on it: which task runs, when it parks
 * and what for, which task wakes it, spawns, ends, stolen tasks, revoked processors, timers and
 * polls. The records are kept in a ring, which always has the last ones, as far back as it reaches.
 * sn_trace_write() writes them as a trace that Perfetto shows (ui.perfetto.dev) and queries
 * (trace_processor). docs/tracing.md explains what it shows, and what recording costs.
 *
 * Environment, read by each sn_run():
 *   SENNIT_RECORD  bytes of each processor's ring, rounded up to a power of two, as in 65536, 256K
 *                  or 1M; from 4K to 64M, to 1M on 32-bit machines; default 256K, and 64K there. A
 *                  record takes 16 bytes. 0: nothing is recorded
 *   SENNIT_TRACE_FILE  a file that such a trace is written to, with a line on stderr, when the
 *                  signal for a dump comes (SENNIT_DUMP_SIGNAL, run.h), and when a task has kept
 *                  its processor for longer than SENNIT_STALL_MS, or has waited for one for longer
 *                  than SENNIT_LATE_MS, once a minute at most. %p stands for the process's id. The
 *                  file is replaced when the trace is complete; until then the trace is in a file
 *                  whose name has `.part-` and six characters more. Ignored in setuid and setgid
 *                  programs
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_TRACE_H
#define SENNIT_TRACE_H

#include <sennit/base.h>

SN_BEGIN

/*
 * Writes the last records of all processors to a descriptor, in Perfetto's native format: a track
 * for each task with what it did and what it waited for, one for each processor with the tasks that
 * it ran, and arrows from each wake-up to the turn that it led to. Nothing is stopped for that.
 * After sn_run() has returned, the records of that run can be written until the next one begins.
 *
 * Any thread; does not park, but takes some milliseconds for each processor, and blocks in write(),
 * also where the descriptor is non-blocking. A pipe or socket without a reader raises SIGPIPE.
 * Takes several times as much memory as the rings, none of it from the heap. Returns 0; -ENODATA
 * when nothing was recorded; -EBUSY when another trace is being written; -ENOMEM; or the error of
 * write().
 */
SN_API int sn_trace_write(int fd);

/*
 * Records an event of the program's own, which appears in the trace of the calling task, or of the
 * threads without a processor. name: a string that stays valid for as long as the process, such as
 * a literal. Any thread; does not park. Costs some nanoseconds in a task. Returns 0; -EINVAL
 * without a name; on a thread of the program's own -ESRCH when no runtime runs.
 */
SN_API int sn_record(const char *name, int64_t value);

SN_END

#endif
