/* SPDX-License-Identifier: MIT */
/*
 * Serving: a request to scan a task is answered by whichever thread has the right to the stack.
 *
 * Contract. A request is a function and its argument in the task's block, with the bit ASKED in the
 * scan word. It is served exactly once, by the party that clears ASKED with a compare-and-swap
 * while it has the right to the stack. That party is one of these:
 *   - the thread that has just switched away from the task. It looks at scan after it has stored
 *     PARKED, in the handshake of scan.h. If it finds ASKED, it takes HELD before the commit, while
 *     no other thread can have the task. It serves after the commit, as an owner, because the
 *     commit releases the lock of the queue in which the task may wait (task/waiter.h), and the
 *     callback may need that lock;
 *   - the thread that has taken the task out of a queue, before it switches to it;
 *   - the thread that owns the stack by the bit HELD, before it gives the stack back;
 *   - the task's own thread, at its next entry into the runtime, for which the asker has put
 *     SN_LEASE_ASKED into the lease's word; or in a signal's handler (observe/scan_signal.h), in
 *     user code or while it waits for a processor;
 *   - the thread on which the task ends, with no stack to show (-ESRCH).
 * One of these always acts after the asker's barrier. The asker looks at the status after the
 * barrier. If the task is on no thread, either the asker takes HELD and is the third of these, or
 * another party has HELD, and sees ASKED when it clears HELD.
 *
 * If a thread waits for a request, the server completes the request when it is done with the task,
 * and an owner does so after it has given the stack back. The reason is that the waiting thread may
 * immediately scan the same task again, and should not get -EBUSY because of an owner that has
 * nothing left to do. An owner that finds another request before that completes the earlier one
 * first; a scan is then really under way.
 *
 * The callback runs with the thread's lease hidden (sn_private_current is NULL), so every sennit
 * call in it behaves as on a thread that the runtime does not know. It also runs with sn_scan_depth
 * incremented: a call that would wait then fails, because the scanned task might have to do
 * something before the wait could end.
 *
 * Who may write what:
 *   scan_*                  see observe/scan_ask.h
 *   sync's result, done     the party that serves it; after done is set, the sync may be gone
 *   sn_scan_depth, sn_scan_hidden   the thread itself
 *   sn_scan_pending_count   the asker increments it; the party that serves or withdraws the
 *                           request decrements it
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

/* Not 0 while this thread runs a callback, during which it must not wait for tasks. */
extern __thread int sn_scan_depth;

/* The number of requests that are ASKED or SERVING. */
extern _Atomic uint32_t sn_scan_pending_count;

/* The thread's lease while it is hidden, otherwise NULL. It is for the signal handler, which must
 * distinguish the runtime's signals from the program's at that time, too. */
extern __thread struct sn_private_lease *sn_scan_hidden;

/* The first makes the calling thread look as if the runtime did not know it, and returns its lease;
 * the second takes that lease and undoes this. */
struct sn_private_lease *sn_scan_hide(void);
void sn_scan_unhide(struct sn_private_lease *lease);

/* Calls a scan's function with the lease hidden. */
void sn_scan_call(sn_task_scan_fn *fn, const struct sn_scan *scan, void *arg);

/* What a callback gets to see of a task that no thread runs. */
struct sn_scan_saved {
	struct sn_scan scan;
	struct sn_registers registers;
};

void sn_scan_describe_saved(struct sn_task *task, struct sn_scan_saved *saved);

/* A request for which a thread waits; it is on that thread's stack. */
struct sn_scan_sync {
	sn_task_scan_fn *fn;
	void *arg;
	int result;
	_Atomic uint32_t done; /* a futex */
};

/* Serve the request, if there is one. The caller has the right to the stack. The first gets the
 * scan to show, or NULL at the task's end; the second is for a task that no thread runs. Pass the
 * result, which may be NULL, to sn_scan_complete(). */
struct sn_scan_sync *sn_scan_serve(struct sn_task *task, const struct sn_scan *scan);
struct sn_scan_sync *sn_scan_serve_saved(struct sn_task *task);
void sn_scan_complete(struct sn_scan_sync *sync);

/* The same for the running task: called on its own stack, or in a signal handler that has
 * interrupted it (then interrupted is true), perhaps on the signal stack. */
void sn_scan_serve_here(struct sn_task *task, const ucontext_t *context, bool interrupted);

/* Called inside the runtime, on a thread whose `asked` was set: serves the request of its task, if
 * there is one. */
void sn_scan_serve_own(struct sn_thread *self);

#endif
