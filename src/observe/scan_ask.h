/* SPDX-License-Identifier: MIT */
/*
 * Asking for the stack of a task that a thread runs.
 *
 * Contract. The asker need not wait: it leaves a request, of which each task has one at a time.
 * sched/scan_serve.h says who serves it, and when. The asker makes sure that it is served: after it
 * has set ASKED, it makes all threads pass a barrier, and tries to own the stack itself. If a
 * thread runs the task, it puts SN_LEASE_ASKED into that thread's lease. A thread that does not
 * come back into the runtime soon gets a signal (scan_signal.h): from the asker if the task is
 * known to block, and from the monitor again and again while requests are pending.
 *
 * A waiting scan, sn_task_scan(), asks as well, and waits until its request is completed
 * (scan_wait.c). Such a request has no scan_fn, and its scan_arg is a struct sn_scan_sync.
 *
 * Who may write what:
 *   scan_fn, scan_arg     the asker that has set ASKING, until it sets ASKED
 */
#ifndef SENNIT_OBSERVE_SCAN_ASK_H
#define SENNIT_OBSERVE_SCAN_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include <sennit/scan.h>

#include "base/fork.h"
#include "sched/task.h"

/* Called once in a run, after sn_membarrier_init(). Returns 0, or -EINVAL after a line on
 * stderr. */
int sn_scan_init(void);

/* Checks the arguments of a public call, and counts the calling thread as a foreign one. Returns 0
 * or a negative errno. The program must know that the task is alive: a stale handle is an error,
 * and a handle that is good here stays good during the call. */
int sn_scan_begin(struct sn_task **task, const sn_task *handle, sn_task_scan_fn *fn);

/* Leaves a request. Returns 0 if fn was called or will be (or if fn is NULL, the function in arg, a
 * struct sn_scan_sync); otherwise a negative errno. If at_once, a thread that computes is
 * interrupted by a signal, too. */
int sn_scan_ask(struct sn_task *task, sn_task_scan_fn *fn, void *arg, bool at_once);

/* Takes back a request that no thread has begun to serve. Returns false if it is too late. */
bool sn_scan_withdraw(struct sn_task *task);

/* A chore of the monitor: reminds threads of requests that have not been served. Cheap if there are
 * none, which sn_scan_pending() says. */
void sn_scan_remind(int64_t now, bool idle);
bool sn_scan_pending(void);

/*
 * As sn_task_scan(), for a task that may be gone, so fn must check whose stack it gets. Gives up
 * after ns, and then returns -ETIMEDOUT. The caller is no task.
 */
int sn_scan_within(struct sn_task *task, sn_task_scan_fn *fn, void *arg, int64_t ns);

#endif
