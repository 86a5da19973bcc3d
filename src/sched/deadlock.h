/* SPDX-License-Identifier: MIT */
/*
 * Noticing that every task is asleep and nothing can wake one.
 *
 * It is reported when, twice in a row, in looks of the monitor that are 10 ms apart or more,
 *   1. the process has no thread but the runtime's, the monitor and the one that sn_run() was called on;
 *   2. no timer is set, and no descriptor open in the runtime: one for signals counts, too;
 *   3. every processor is idle, nothing is queued, and every thread of the runtime is asleep: in the list of
 *      idle threads, or in the poller;
 *   4. every task that lives is parked, and there is one;
 * and in between no task was switched to, and the poller has come back from the kernel twice.
 *
 * Why that never lies. By 1, read first, only the runtime's threads could wake a task or make a thread
 * that can; the one of sn_run() does nothing but wait for the first task, and signal handlers may not call
 * sennit. By 3 those threads run no task and are on their way nowhere, but for the poller, which may have
 * returned from the kernel with a task in its hand before the first look. That task would be in a queue, or
 * run, before the poller asks the kernel a second time; or, when another thread has the role by then,
 * the one that has it in its hand is neither in the list nor in the poller. In the second poll it can get
 * none, as since the first look no task ran that could have opened a descriptor. Calls into foreign code keep
 * their thread out of 3 and their task out of 4: name resolution, for one.
 *
 * A pinned task's thread is not in the list while the task is parked, so where tasks are pinned nothing is
 * reported; nor where the program has threads of its own, or under sanitizers that have.
 */
#ifndef SENNIT_SCHED_DEADLOCK_H
#define SENNIT_SCHED_DEADLOCK_H

enum sn_deadlock {
	SN_DEADLOCK_NOT,
	SN_DEADLOCK_PERHAPS, /* look again, and do not sleep for long before */
};

/* Once in a run. 0, or -EINVAL after a line on stderr. */
int sn_deadlock_init(void);

/* The monitor, when everything has been idle for a while. Reports, and may end the process. */
enum sn_deadlock sn_deadlock_look(void);

#endif
