/* SPDX-License-Identifier: MIT */
/*
 * Serving: a request to scan a task is answered, by whichever thread has the right to the stack.
 *
 * Contract. A request is a function and its argument in the task's block, ASKED its bit in the scan
 * word. It is served exactly once, by the party that clears ASKED with a compare-and-swap while
 * having the right to the stack:
 *   - the thread that has just switched away from the task: it looks at scan after it has stored
 *     PARKED, the same handshake as in scan.h, and when it finds ASKED there it takes HELD before
 *     the commit, while no other thread can have the task. It serves after the commit, as an owner:
 *     the commit releases the lock of the queue that the task may wait in (task/waiter.h), which
 *     the callback may need;
 *   - the thread that has taken it out of a queue, before it switches to it;
 *   - the owner of the stack by the bit, before it gives the stack up;
 *   - the task's own thread, at its next entry into the runtime, for which the asker has put
 *     SN_LEASE_ASKED into the lease's word; or in a signal's handler (observe/scan_signal.h), in
 *     user code or while it waits for a processor;
 *   - the thread on which the task ends, with no stack to show (-ESRCH).
 * One of these always comes after the asker's barrier: the asker looks at the status after it, and
 * if the task is on no thread it is the third itself, or the one that has HELD is, which sees ASKED
 * when it takes HELD away.
 *
 * A request that is waited for is completed when its server is done with the task, an owner after
 * it has given the stack up: the waiting thread may scan the same task again at once, and must not
 * find the stack of an owner that has nothing left to do (-EBUSY). An owner that finds another
 * request before that completes the earlier one first: then a scan is under way indeed.
 *
 * The callback runs with the thread's lease hidden (sn_private_current is NULL), so that every
 * sennit call in it behaves as on a thread that the runtime does not know, and with sn_scan_depth
 * counted, by which a wait of such a thread fails instead of waiting for what the scanned task may
 * have to do.
 *
 * Who may write what:
 *   asked_*                 see observe/scan_ask.h
 *   sync's result, done     the party that serves it; after done the sync may be gone
 *   sn_scan_depth           the thread itself
 *   sn_scan_pending_count   up, the asker; down, the party that serves or withdraws
 */
#ifndef SENNIT_SCHED_SCAN_SERVE_H
#define SENNIT_SCHED_SCAN_SERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include <sennit/scan.h>

#include "arch/registers.h"
#include "sched/task.h"

struct sn_private_lease;
struct sn_thread;

/* Not 0 while this thread runs a callback: it must not wait for tasks. */
extern __thread int sn_scan_depth;

/* Requests that are ASKED or SERVING. */
extern _Atomic uint32_t sn_scan_pending_count;

/* The thread's lease while it is hidden: for the signal handler, which has to tell the runtime's
 * signals from the program's then, too. NULL: it is not. */
extern __thread struct sn_private_lease *sn_scan_hidden;

/* Makes the thread one that the runtime does not know, and known again. */
struct sn_private_lease *sn_scan_hide(void);
void sn_scan_unhide(struct sn_private_lease *lease);

/* Calls a scan's function, hidden. */
void sn_scan_call(sn_task_scan_fn *fn, const struct sn_scan *scan, void *arg);

/* What a callback is shown of a task that no thread runs. */
struct sn_scan_saved {
	struct sn_scan scan;
	struct sn_registers registers;
};

void sn_scan_describe_saved(struct sn_task *task, struct sn_scan_saved *saved);

/* A request that somebody waits for, on that thread's stack. */
struct sn_scan_sync {
	sn_task_scan_fn *fn;
	void *arg;
	int result;
	_Atomic uint32_t done; /* a futex */
};

/* Serves the request, if there is one; the caller has the right to the stack. scan: NULL at the
 * task's end. The second: of a task that no thread runs. What they return, which may be NULL, is to
 * be passed to sn_scan_complete(). */
struct sn_scan_sync *sn_scan_serve(struct sn_task *task, const struct sn_scan *scan);
struct sn_scan_sync *sn_scan_serve_saved(struct sn_task *task);
void sn_scan_complete(struct sn_scan_sync *sync);

/* The same on the task's own stack, or above it on the signal stack. interrupted: by a signal. */
void sn_scan_serve_here(struct sn_task *task, const ucontext_t *context, bool interrupted);

/* A thread inside the runtime, with a task, was asked: serves its task's request, if that is it. */
void sn_scan_serve_own(struct sn_thread *self);

#endif
