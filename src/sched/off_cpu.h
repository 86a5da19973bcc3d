/* SPDX-License-Identifier: MIT */
/*
 * Measuring how long tasks are off the CPU, for profiles (debug/profile_waits.c).
 *
 * Contract. While it is on, each wait of a task is reported when the task is about to run again.
 * The report has the times at which the task left its processor and became runnable. The task's
 * stack stands still during the report, so it can be unwound. While it is off it costs no
 * instruction, because it uses slow paths that exist for other reasons:
 *
 *   - The records of turns, wake-ups and spawns (record.h) take a slow path when the monitor's
 *     clock has moved since the last record with a time. While this is on, sn_record_ms_mask makes
 *     each of them look late, so each reads the clock, and notes it in the task as well.
 *   - A switch to a task takes a slow path when its scan word is not 0 (scan.h). SN_SCAN_TIMED is
 *     such a bit. It says that the task left while this was on, and that the time is in left_at.
 *     Because of the bit the task is run from the scheduler's loop, where no lock is held.
 *     sn_scan_before_run() clears the bit there, and reports the wait.
 *
 * A wait is reported exactly once, by the party that clears SN_SCAN_TIMED: the thread that is about
 * to run the task, or the profiler when it ends. The profiler owns the stack (HELD) while it does
 * so. Each of the two has a right to the stack that excludes the other, and that orders its reads
 * after the writes of the thread that left the task.
 *
 * Who may write what:
 *   left_at       the thread that is about to leave the task; its creator; the owner of the stack
 *                 of a task without SN_SCAN_TIMED
 *   ready_at      the party that makes the task runnable, before doing so; the creator. A time
 *                 before left_at belongs to an earlier wait.
 *   SN_SCAN_TIMED set by the writer of left_at, after that; cleared as above
 *   the function  sn_off_cpu_begin(), sn_off_cpu_end()
 *   the count of calls   each caller of the function, for itself
 *
 * Rejected: a flag of its own in sn_park() and sn_ready(), which costs three instructions in each
 * of them; the flight recorder's rings as the source, which overflow and have neither stacks nor
 * objects.
 */
#ifndef SENNIT_SCHED_OFF_CPU_H
#define SENNIT_SCHED_OFF_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include <ucontext.h>

#include "base/fork.h"

struct sn_task;

/* A wait that is over, or was cut short by the end of the profile. No thread runs the task, except
 * perhaps the calling one. */
struct sn_off_cpu {
	struct sn_task *task;
	int64_t left, ready, now; /* as of sn_ticks_now(); ready < left if ready is unknown */
	const ucontext_t *here;   /* the task's registers if it is on the calling thread, or NULL */
	uint32_t processor;       /* of the calling thread */
};

/* Called in the scheduler's loop, or on the task's own stack. The caller holds no lock. The
 * function must not park. */
typedef void sn_off_cpu_fn(const struct sn_off_cpu *wait);

/* From now on fn is called. One party at a time may use this. */
void sn_off_cpu_begin(sn_off_cpu_fn *fn);

/* From now on no wait begins to be measured. fn is still called for those that have begun. */
void sn_off_cpu_stop(void);

/* When this returns, fn is not running, and is not called any more. */
void sn_off_cpu_end(void);

void sn_off_cpu_fork(enum sn_fork_phase phase);

/*
 * For the owner of the stack of a parked or runnable task (scan.h). The first makes the task's wait
 * begin now, unless it is being measured already. The second ends the measurement: it returns true
 * with the wait in *wait, of which the caller fills in now; false if no wait was being measured.
 */
void sn_off_cpu_adopt(struct sn_task *task, int64_t now);
bool sn_off_cpu_take(struct sn_task *task, struct sn_off_cpu *wait);

/* ---- for record.c, scan.c and processor_list.c ---- */

bool sn_off_cpu_is_on(void);
/* The task is about to be left, or was just made. */
void sn_off_cpu_left(struct sn_task *task, int64_t now);
/* The task is about to be made runnable. */
void sn_off_cpu_ready(struct sn_task *task, int64_t now);
/* The thread that is about to run the task has found SN_SCAN_TIMED. */
void sn_off_cpu_runs(struct sn_task *task);
/* The running task has waited for a processor on its thread since that time; 0 if this was not on
 * then. */
void sn_off_cpu_regained(struct sn_task *task, int64_t since);

#endif
