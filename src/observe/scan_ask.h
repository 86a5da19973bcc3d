/* SPDX-License-Identifier: MIT */
/*
 * Asking for the stack of a task that a thread runs.
 *
 * Contract. The asker need not wait: it leaves a request, which sched/scan_serve.h says when it is
 * served; one at a time for each task. The asker makes sure that it is: it has all threads pass a
 * barrier after ASKED is set, tries to own the stack itself, and if a thread runs the task it puts
 * SN_LEASE_ASKED into the thread's lease. A thread that does not come back soon gets a signal
 * (scan_signal.h): from the asker when the task is known to block, from the monitor again and again
 * while requests are pending.
 *
 * A waiting scan, sn_task_scan(), asks as well, and waits until its request is completed
 * (scan_wait.c). Such a request has no asked_fn, and its asked_arg is a struct sn_scan_sync.
 *
 * Who may write what:
 *   asked_fn, asked_arg   the asker that has set ASKING, until it sets ASKED
 */
#ifndef SENNIT_OBSERVE_SCAN_ASK_H
#define SENNIT_OBSERVE_SCAN_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include <sennit/scan.h>

#include "base/fork.h"
#include "sched/task.h"

/* Once in a run, after sn_membarrier_init(). 0, or -EINVAL after a line on stderr. */
int sn_scan_init(void);

/* The checks with which a call of the program's begins; it is then counted as a foreign one. The
 * caller knows the task alive, so a handle that is stale now is an error, and stays good
 * otherwise. */
int sn_scan_begin(struct sn_task **task, const sn_task *handle, sn_task_scan_fn *fn);

/* 0: it was, or will be, called; without fn, arg's. at_once: by a signal also when the thread
 * computes. */
int sn_scan_ask(struct sn_task *task, sn_task_scan_fn *fn, void *arg, bool at_once);

/* Takes back a request that no thread has begun to serve. False: it is too late. */
bool sn_scan_withdraw(struct sn_task *task);

/* The monitor: reminds threads of requests that have not been served. Cheap when there are none. */
void sn_scan_remind(int64_t now, bool idle);
bool sn_scan_pending(void);

/*
 * As sn_task_scan() of a task that may be gone; gives up after some time: -ETIMEDOUT. fn must look
 * whose stack it is.
 */
int sn_scan_within(struct sn_task *task, sn_task_scan_fn *fn, void *arg, int64_t ns);

#endif
