/* SPDX-License-Identifier: MIT */
/*
 * Measuring how long tasks are off the CPU, for profiles (debug/profile_waits.c).
 *
 * Contract. While it is on, each turn of a task that ends in a wait, and each wait, is reported
 * when the task is about to run again: when it left, when it became runnable, and that it stands
 * still. While it is off it costs no instruction: it lives in slow paths that are there for others.
 *
 *   - The records of turns, wake-ups and spawns (record.h) take a slow path when the monitor's
 *     clock has moved since the last record with a time. While this is on, sn_record_ms_mask makes
 *     each of them look late, so each reads the clock, and notes it in the task as well.
 *   - A switch to a task takes a slow path when its scan word is not 0 (scan.h). SN_SCAN_TIMED is
 *     such a bit: the task has left while this was on, and the time is in left_at. It leads the
 *     task to the scheduler's loop, in which no lock is held, and there to sn_scan_before_run(),
 *     which takes the bit away and reports the wait.
 *
 * A wait is reported exactly once, by the party that takes SN_SCAN_TIMED away: the thread that is
 * about to run the task, or the profiler at its end, who owns the stack (HELD) while it does.
 * Either has a right to the stack that excludes the other, and orders it after what the leaver
 * wrote.
 *
 * Who may write what:
 *   left_at       the thread that is about to leave the task; its creator; the owner of the stack
 *                 of a task without SN_SCAN_TIMED
 *   ready_at      the party that makes the task runnable, before doing so; the creator. Before
 *                 left_at: of an earlier wait
 *   SN_SCAN_TIMED set by the writer of left_at, afterwards
 *   the function  sn_off_cpu_begin(), sn_off_cpu_end()
 *
 * Rejected: a flag of its own in sn_park() and sn_ready(), three instructions in each of them; the
 * flight recorder's rings as the source: they overflow, and have neither stacks nor objects.
 */
#ifndef SENNIT_SCHED_OFF_CPU_H
#define SENNIT_SCHED_OFF_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include <ucontext.h>

#include "base/fork.h"

struct sn_task;

/* A wait that is over, or whose time is up. Nobody runs the task, or the calling thread does. */
struct sn_off_cpu {
	struct sn_task *task;
	int64_t left, ready, now; /* sn_ticks_now(); ready before left: unknown */
	const ucontext_t *here;   /* its registers, if it is on the calling thread; or NULL */
	uint32_t processor;       /* of the calling thread */
};

/* Called in the scheduler's loop, or on the task's own stack; must not park, and holds no lock when
 * it is called. */
typedef void sn_off_cpu_fn(const struct sn_off_cpu *wait);

/* From now on fn is called. One party at a time. */
void sn_off_cpu_begin(sn_off_cpu_fn *fn);

/* No wait begins any more; fn is still called for those that have. */
void sn_off_cpu_stop(void);

/* fn is not called any more, when this returns. */
void sn_off_cpu_end(void);

void sn_off_cpu_fork(enum sn_fork_phase phase);

/*
 * For the owner of the stack of a parked or runnable task (scan.h). The first has its wait begin
 * now, unless it is being measured already. The second ends a wait that is: true, and what is known
 * of it; now is for the caller to fill in.
 */
void sn_off_cpu_adopt(struct sn_task *task, int64_t now);
bool sn_off_cpu_take(struct sn_task *task, struct sn_off_cpu *wait);

/* ---- for record.c, scan.c and processors.c ---- */

bool sn_off_cpu_is_on(void);
/* The task is about to be left; or was made, and is parked. */
void sn_off_cpu_left(struct sn_task *task, int64_t now);
/* It is about to be made runnable. */
void sn_off_cpu_ready(struct sn_task *task, int64_t now);
/* SN_SCAN_TIMED was found, by the thread that is about to run the task. */
void sn_off_cpu_runs(struct sn_task *task);
/* The running task has waited for a processor since then, on its thread; 0: this was not on. */
void sn_off_cpu_regained(struct sn_task *task, int64_t since);

#endif
