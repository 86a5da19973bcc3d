/* SPDX-License-Identifier: MIT */
/*
 * Stack trimming: the unused part of the stack of a task that has been parked for long is released
 * to the kernel, in the background.
 *
 * Contract. The pages that lie wholly below the saved stack pointer of a task are released, once
 * for each time that it parks, when it has been parked for SENNIT_TRIM_MS; never those of a task
 * that runs, that may run, or that is about to. The monitor does it, in passes over all tasks,
 * because it is the only thread that has nothing better to do.
 *
 * Ownership. The scan bit (sched/scan.h) keeps every thread from switching to the task meanwhile. A
 * task that is woken in that time is queued as always. A thread that takes it out of the queue
 * leaves it to the owner, which releases such tasks first. So a wake-up waits for one madvise() at
 * most.
 *
 * Costs. A pass looks at two words of each task. It recognizes the tasks that it has trimmed by the
 * time at which they parked, and leaves them alone. It works for STEP_NS at a time and then rests
 * for a hundred times as long: 1 % of a CPU at most, however many tasks there are. When nothing has
 * run since a pass that found no task which had parked but not for long enough, there are no more
 * passes. So a process with nothing to do is not woken for this.
 *
 * Rejected:
 *   - Trimming where a task parks: the task does not know for how long it parks, and a page that
 *     is released and touched again costs a microsecond.
 *   - A thread of its own at a low priority: preempted while it owns a stack, it would hold up
 *     the task that lives there.
 *   - MADV_FREE, which releases pages only when the kernel is short of memory: the process would
 *     appear to use all of them, and the limit of a memory cgroup would be reached first.
 *
 * Only the monitor calls what is here, except for sn_trim_init() and sn_trim_count().
 */
#ifndef SENNIT_OBSERVE_TRIM_H
#define SENNIT_OBSERVE_TRIM_H

#include <stdbool.h>
#include <stdint.h>

/* Once in a run, before the monitor starts. 0, or -EINVAL after a line on stderr. */
int sn_trim_init(void);

/* A step of a pass, or nothing if it is not time for one. */
void sn_trim_step(int64_t now, bool idle);

/* Until when the monitor may sleep if nothing runs before; 0: forever. */
int64_t sn_trim_due(int64_t now);

/* How many times a stack was trimmed in this run. Any thread. */
uint64_t sn_trim_count(void);

#endif
