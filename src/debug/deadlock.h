/* SPDX-License-Identifier: MIT */
/*
 * Detects that every task is asleep and nothing can wake one.
 *
 * A deadlock is reported when, in two looks of the monitor in a row, at least 10 ms apart,
 *   1. the process has no threads except the runtime's, the monitor and the one that called
 *      sn_run();
 *   2. no timer is set, and the runtime has no open descriptor, including one for signals;
 *   3. every processor is idle, nothing is queued, and every thread of the runtime is asleep: in
 *      the list of idle threads, or in the poller;
 *   4. there are tasks, and every live task is parked;
 *   5. the program catches no signal by a handler of its own, except those that a thread raises
 *      itself;
 * and when in between no task was switched to, and the poller has returned from the kernel twice.
 *
 * Why the report is never false. By 1, which is read first, only the runtime's threads could wake a
 * task, or start a thread that can; the thread of sn_run() only waits for the first task. A signal
 * handler of the program would run on any of them. It might start a thread that wakes a task; or it
 * might release a semaphore on the thread of sn_run(), which is in no call of the library at that
 * time. By 5 there is no such handler. A program that catches signals by sn_signal_catch() has a
 * descriptor for them, so 2 does not hold.
 *
 * By 3 those threads run no task and are not about to run one. The exception is the poller, which
 * may have returned from the kernel with a task before the first look. It puts that task into a
 * queue, or the task runs, before the poller enters the kernel a second time. If another thread has
 * become the poller in between, the thread with the task is neither in the list nor in the poller,
 * so 3 does not hold. The second poll can yield no task, because no task ran since the first look
 * that could have opened a descriptor. A call into foreign code, such as name resolution, keeps its
 * thread out of 3 and its task out of 4.
 *
 * The thread of a pinned task is not in the list while the task is parked, so nothing is reported
 * if a task is pinned. Nor is anything reported if the program has threads or handlers of its own,
 * or runs under a sanitizer that has them.
 *
 * Who may write what: the hook, any thread, atomically; all other state, the monitor, and
 * sn_deadlock_init() before the monitor starts.
 *
 * Rejected: examining which handlers could wake a task, because a handler can call anything;
 * reporting without ending the process, because a program that waits for a signal in this way would
 * begin with the report of a mistake that it has not made.
 */
#ifndef SENNIT_DEBUG_DEADLOCK_H
#define SENNIT_DEBUG_DEADLOCK_H

#include <stdbool.h>

/* Called once in a run. Returns 0, or -EINVAL after a line on stderr. */
int sn_deadlock_init(void);

/*
 * A chore of the monitor that runs when everything has been idle for a while. Reports, and may end
 * the process. Returns true if the monitor should call it again soon, without a long sleep before.
 */
bool sn_deadlock_look(void);

#endif
