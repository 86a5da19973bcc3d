/* SPDX-License-Identifier: MIT */
/*
 * Scanning: whoever has a task's scan bit owns the stack of a task that no thread runs.
 *
 * Contract. The owner may read the stack from the saved stack pointer up, and give pages below it back
 * to the kernel. Meanwhile the task may be woken and queued, but no thread switches to it. Nobody
 * waits for the owner: a thread that takes the task out of a queue and finds the bit leaves the task
 * to the owner, who queues it again when done, and runs another. Nor does who asks for the stack of a
 * task that a thread runs have to wait: he leaves a request, which that thread serves.
 *
 * Owning. Switching to a task and taking its stack exclude each other by Dekker's handshake, of
 * which the scanner pays both halves, as in lease.h:
 *
 *	before a switch:			scanning:
 *	status = RUNNING;			scan |= HELD (compare-and-swap);
 *	compiler barrier;			membarrier();
 *	if (scan) slow path;			if (status is PARKED or RUNNABLE) the stack is mine;
 *						else scan &= ~HELD
 *
 * When membarrier() has returned, either the runner's RUNNING is visible, or it has yet to load scan
 * and will find HELD. In the slow path it makes the status RUNNABLE again and adds WANTED, by a
 * compare-and-swap that fails if HELD is gone; then it runs the task after all. From WANTED on the
 * task is the owner's to put into a queue. (The owner may have seen the short-lived RUNNING and have
 * given up; it still finds WANTED when it takes HELD away, and queues the task.)
 *
 * That PARKED means "registers saved", and not "about to", is status.h's: it is stored by the context
 * that was switched to. The end of a task is not to be feared: only a running task ends, and what is
 * owned does not run.
 *
 * Asking. A request is a function and its argument in the task's block, ASKED its bit. It is served
 * exactly once, by whoever clears ASKED with a compare-and-swap while having the right to the stack:
 *   - the thread that has just switched away from the task: it looks at scan after it has stored PARKED,
 *     the same handshake as above, and when it finds ASKED there it takes HELD before the commit, while
 *     nobody else can have the task. It serves after the commit, as an owner: the commit lets go the
 *     lock of the queue that the task may wait in (waiter.h), which the callback may need;
 *   - the thread that has taken it out of a queue, before it switches to it;
 *   - who owns the stack by the bit, before he gives it up;
 *   - the task's own thread, at its next entry into the runtime, for which the asker has put
 *     SN_LEASE_ASKED into the lease's word; or in a signal's handler, in user code or while it
 *     waits for a processor;
 *   - the thread on which the task ends, with no stack to show (-ESRCH).
 * One of these always comes after the asker's barrier: he looks at the status after it, and if the task
 * is on no thread he is the third himself, or the one who has HELD is, who sees ASKED when he takes
 * HELD away.
 *
 * The signal is for threads that do not come back soon: who asks sends it when the task is known to
 * block, the monitor again and again while requests are pending. A handler that finds the thread inside
 * the runtime does nothing, as that will see ASKED on its way.
 *
 * Where membarrier is missing, scan always has FENCED, which leads every switch into the slow path,
 * where the fence is.
 *
 * The callback runs with the thread's lease hidden (sn__current is NULL), so that every sennit call in
 * it behaves as on a thread that the runtime does not know, and with sn_scan_depth counted, by
 * which a wait of such a thread fails instead of waiting for what the scanned task may have to do.
 *
 * Who may write what:
 *   word.scan    anyone, by compare-and-swap only
 *   asked_*      who has set ASKING, until he sets ASKED
 *
 * Rejected:
 *   - A compare-and-swap of one word at every change of the status (Go's casgstatus): two locked
 *     instructions a switch, and a wait whenever a scan is under way.
 *   - Letting the runner wait for the bit: a processor stands still as long as somebody's callback
 *     runs.
 */
#ifndef SENNIT_SCHED_SCAN_H
#define SENNIT_SCHED_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include <sennit/scan.h>

#include "sched/block.h"
#include "sched/fork.h"
#include "sched/task.h"

enum sn_scan_bits {
	SN_SCAN_HELD = 1,     /* somebody has, or is about to have, the stack */
	SN_SCAN_WANTED = 2,   /* a runner has left the task to him */
	SN_SCAN_BRIEF = 4,    /* with HELD: it is the runtime itself, and only for microseconds */
	SN_SCAN_ASKING = 8,   /* a request is being written */
	SN_SCAN_ASKED = 16,   /* it can be served */
	SN_SCAN_SERVING = 32, /* it is being served */
	SN_SCAN_FENCED = 64,  /* no membarrier: set from the beginning */
};

/* Once in a run, after sn_lease_init(). 0, or -EINVAL after a line on stderr. */
int sn_scan_init(void);
/* The end of a run: no handler of ours any more. */
void sn_scan_end(void);
void sn_scan_fork(enum sn_fork_phase phase);
/* What a new task's scan word has to have: 0 or FENCED. */
extern uint32_t sn_scan_initial;

/* The slow paths of a switch: word.scan was not 0. */
bool sn_scan_before_run(struct sn_task *task); /* false: leave it alone, it is the scanner's */
bool sn_scan_is_free(struct sn_task *task);    /* nobody has it or asks: run it */
bool sn_scan_hold_left(struct sn_task *task);  /* true: to be followed by sn_scan_release() */
void sn_scan_ended(struct sn_task *task);

struct sn_thread;

/* A thread inside the runtime, with a task, was asked: serves its task's request, if that is it. */
void sn_scan_serve_own(struct sn_thread *self);

/* The monitor: reminds threads of requests that have not been served. Cheap when there are none. */
void sn_scan_remind(int64_t now, bool idle);
bool sn_scan_pending(void);

/*
 * For the runtime's own walks over all tasks: takes HELD (and BRIEF) on those of a slab's blocks that
 * have a parked or runnable task, with one barrier for all. Returns which are owned; each must be
 * given back by sn_scan_release().
 */
uint64_t sn_scan_hold_slab(struct sn_block_slab *slab, uint64_t blocks);
void sn_scan_release(struct sn_task *task);

/*
 * As sn_task_scan() of a task that may be gone; gives up after some time: -ETIMEDOUT. fn must look
 * whose stack it is.
 */
int sn_scan_within(struct sn_task *task, sn_task_scan_fn *fn, void *arg, int64_t ns);

/* Not 0 while this thread runs a callback: it must not wait for tasks. */
extern __thread int sn_scan_depth;

/* The signal that the runtime catches for this, unless the program has caught it before; 0: none. */
int sn_scan_own_signal(void);

#endif
