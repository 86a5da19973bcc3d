/* SPDX-License-Identifier: MIT */
/*
 * Stack trimming: the unused part of the stack of a task that has been parked for long is released
 * to the kernel, in the background.
 *
 * Contract. When a task has been parked for SENNIT_TRIM_MS, the pages that lie wholly below its
 * saved stack pointer are released, once for each time that it parks. Those of a task that runs, or
 * that a thread could switch to, are never released. The monitor does this, in passes over all
 * tasks, because it delays no task by it.
 *
 * Ownership. The scan bit (sched/scan.h) keeps every thread from switching to the task while it is
 * trimmed. A task that is woken in that time is queued as usual. A thread that takes it out of the
 * queue leaves it to the owner, which gives back such tasks first. A wake-up therefore waits for
 * one madvise() at most.
 *
 * Costs. A pass looks at two words of each task. It recognizes the tasks that it has trimmed by the
 * time at which they parked, and leaves them alone. It works for STEP_NS at a time and then rests
 * for a hundred times as long: 1 % of a CPU at most, however many tasks there are. A pass that
 * leaves no parked task untrimmed is the last until another task has run, so an idle process is not
 * woken for this.
 *
 * Rejected:
 *   - Trimming where a task parks: the task does not know for how long it parks, and a page that
 *     is released and touched again costs a microsecond.
 *   - A thread of its own at a low priority: if the OS preempted it while it owns a stack, the task
 *     of that stack would have to wait.
 *   - MADV_FREE, which releases pages only when the kernel is short of memory: the process would
 *     appear to use all of them, and the limit of a memory cgroup would be reached first.
 *
 * Only the monitor calls these functions, except sn_trim_init() and sn_trim_count().
 *
 * Who may write what: all state, and task->trimmed, the monitor; sn_trim_init(), before it starts.
 */
#ifndef SENNIT_OBSERVE_TRIM_H
#define SENNIT_OBSERVE_TRIM_H

#include <stdbool.h>
#include <stdint.h>

/* Called once in a run, before the monitor starts. Returns 0, or -EINVAL after a line on stderr. */
int sn_trim_init(void);

/* A chore of the monitor: makes a step of a pass, or does nothing if it is not time for one. */
void sn_trim_step(int64_t now, bool idle);

/* The time until which the monitor may sleep if nothing runs before; 0 if there is no limit. */
int64_t sn_trim_due(int64_t now);

/* How many times a stack was trimmed in this run. Any thread may call it. */
uint64_t sn_trim_count(void);

#endif
