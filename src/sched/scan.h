/* SPDX-License-Identifier: MIT */
/*
 * Scanning: the holder of a task's scan bit owns the stack of a task that no thread runs.
 *
 * Contract. The owner may read the stack from the saved stack pointer up, and give pages below it
 * back to the kernel. While it owns the stack the task may be woken and queued, but no thread
 * switches to it. No thread waits for the owner: a thread that takes the task out of a queue and
 * finds the bit leaves the task to the owner, which queues it again when done, and runs another
 * task. Nor does a thread that asks for the stack of a running task have to wait: it leaves a
 * request (observe/scan_ask.h), which the task's thread serves (scan_serve.h). observe/scan_wait.c
 * has the calls that do wait.
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
 * When membarrier() has returned, either the runner's RUNNING is visible, or the runner has yet to
 * load scan and will find HELD. In the slow path the runner makes the status RUNNABLE again and
 * adds WANTED, by a compare-and-swap that fails if HELD is gone; in that case it runs the task
 * after all. Once WANTED is set, the owner has to queue the task. (The owner may have seen the
 * short-lived RUNNING and have given up; it still finds WANTED when it clears HELD, and queues the
 * task.)
 *
 * PARKED means "registers saved", and not "about to park", because the context that was switched to
 * stores it (status.h). A task cannot end while it is owned: only a running task ends, and an owned
 * task does not run.
 *
 * Where membarrier is missing, scan always has FENCED, which leads every switch into the slow path,
 * where the fence is.
 *
 * Who may write what:
 *   word.scan         any thread, by atomic operations only
 *   sn_scan_initial   sn_scan_init(), before the first task of a run
 *
 * Rejected:
 *   - A compare-and-swap of one word at every change of the status (Go's casgstatus), which costs
 *     two locked instructions a switch, and a wait whenever a scan is under way.
 *   - Letting the runner wait for the bit: its processor would stand still as long as the callback
 *     of a scan runs.
 */
#ifndef SENNIT_SCHED_SCAN_H
#define SENNIT_SCHED_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/control_block.h"
#include "sched/task.h"

enum sn_scan_bits {
	SN_SCAN_HELD = 1,     /* a scanner owns the stack, or is about to */
	SN_SCAN_WANTED = 2,   /* a runner has left the task to the scanner */
	SN_SCAN_BRIEF = 4,    /* with HELD: the runtime itself scans, for microseconds only */
	SN_SCAN_ASKING = 8,   /* a request is being written */
	SN_SCAN_ASKED = 16,   /* the request can be served */
	SN_SCAN_SERVING = 32, /* the request is being served */
	SN_SCAN_FENCED = 64,  /* there is no membarrier; set from the beginning */
	SN_SCAN_TIMED = 128,  /* the task's wait is measured: off_cpu.h */
};

/* The scan word of a new task: 0 or FENCED. */
extern uint32_t sn_scan_initial;

/* The slow paths of a switch, taken if word.scan is not 0, after the change of the status that
 * precedes the load of word.scan. */

/* Called in the scheduler's loop. Returns false if the task is left to the scanner. */
bool sn_scan_before_run(struct sn_task *task);
/* Called on a direct switch. Returns whether the task may run without anything else to be done. */
bool sn_scan_is_free(struct sn_task *task);
/* Called after a switch away from the task. Returns true if the caller owns the stack now, because
 * of a request; it must then call sn_scan_give_back(). */
bool sn_scan_hold_left(struct sn_task *task);
/* Called on the stack of a task that ends: serves a last request. */
void sn_scan_ended(struct sn_task *task);

/* Serves the requests that have come, and gives the stack back. Returns whether a runner has left
 * the task to the owner: the caller must then queue it, by sn_requeue(). */
bool sn_scan_give_back(struct sn_task *task);

#endif
