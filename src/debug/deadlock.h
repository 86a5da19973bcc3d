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
 *   5. the program catches no signal by a handler of its own, but those that a thread brings upon itself;
 * and in between no task was switched to, and the poller has come back from the kernel twice.
 *
 * Why that never lies. By 1, read first, only the runtime's threads could wake a task or make a thread
 * that can; the one of sn_run() does nothing but wait for the first task. A signal handler of the program's would run
 * on any of them: it may release a semaphore, on the thread of sn_run(), which is in no call of the library's
 * then, or start a thread that wakes somebody; by 5 there is none. Who catches signals by sn_signal_catch() has a
 * descriptor for them, so that 2 does not hold. By 3 those threads run no task and are on their way nowhere, but for the poller, which may have
 * returned from the kernel with a task in its hand before the first look. That task would be in a queue, or
 * run, before the poller asks the kernel a second time; or, when another thread has the role by then,
 * the one that has it in its hand is neither in the list nor in the poller. In the second poll it can get
 * none, as since the first look no task ran that could have opened a descriptor. Calls into foreign code keep
 * their thread out of 3 and their task out of 4: name resolution, for one.
 *
 * A pinned task's thread is not in the list while the task is parked, so where tasks are pinned nothing is
 * reported; nor where the program has threads of its own, or handlers, or under sanitizers that have.
 *
 * Rejected: to look which handler could wake what a task waits for. It can call anything. To report without ending the
 * process: a program that waits for a signal in this way would begin with a report of what is no mistake.
 */
#ifndef SENNIT_DEBUG_DEADLOCK_H
#define SENNIT_DEBUG_DEADLOCK_H

#include <stdbool.h>

/* Once in a run. 0, or -EINVAL after a line on stderr. */
int sn_deadlock_init(void);

/*
 * A chore of the monitor's, when everything has been idle for a while. Reports, and may end the process.
 * True: look again, and do not sleep for long before.
 */
bool sn_deadlock_look(void);

#endif
