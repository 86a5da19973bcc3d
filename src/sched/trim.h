/* SPDX-License-Identifier: MIT */
/*
 * Stack trimming: what a task that has been parked for long does not use of its stack goes back to
 * the kernel, page by page, in the background.
 *
 * Contract. The pages that lie wholly below the saved stack pointer of a task are given back, once
 * for each time that it parks, when it has been parked for SENNIT_TRIM_MS; never those of a task
 * that runs, may run, or is about to. The monitor does it, in passes over all tasks: it is the
 * only thread that has nothing better to do.
 *
 * Ownership. The scan bit (scan.h) keeps every thread from switching to the task meanwhile. A task
 * that is woken in that time is queued as always; a thread that takes it out leaves it to the
 * owner, who lets such tasks go first. So a wake-up waits for one madvise() at most.
 *
 * Costs. A pass looks at two words of each task; those that it has trimmed it knows by the time
 * at which their task parked, and leaves alone. It works for STEP_NS at a time and then rests for a
 * hundred times as long: 1 % of a CPU at most, however many tasks there are. When nothing has run
 * since a pass in which no task was found that had parked but not for long enough, there are no
 * more passes: a process with nothing to do is not woken for this.
 *
 * Rejected:
 *   - Trimming where a task parks: it does not know for how long, and a page that is given back and
 *     touched again costs a microsecond.
 *   - A thread of its own at a low priority: preempted while it owns a stack, it would hold up the
 *     task that lives there.
 *   - MADV_FREE, which gives back only when the kernel is short of memory: the process would look
 *     as if it used it all, and the limit of a memory cgroup is met first.
 *
 * Only the monitor calls what is here, but for sn_trim_init() and sn_trim_count().
 */
#ifndef SENNIT_SCHED_TRIM_H
#define SENNIT_SCHED_TRIM_H

#include <stdbool.h>
#include <stdint.h>

/* Once in a run, before the monitor starts. 0, or -EINVAL after a line on stderr. */
int sn_trim_init(void);

/* A step of a pass, or nothing if it is not time for one. */
void sn_trim_step(int64_t now, bool idle);

/* Until when the monitor may sleep if nothing runs before; 0: for ever. */
int64_t sn_trim_due(int64_t now);

/* How many times a stack was trimmed in this run. Any thread. */
uint64_t sn_trim_count(void);

#endif
