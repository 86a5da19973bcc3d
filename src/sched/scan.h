/* SPDX-License-Identifier: MIT */
/*
 * Scanning: the holder of a task's scan bit owns the stack of a task that no thread runs.
 *
 * Contract. The owner may read the stack from the saved stack pointer up, and give pages below it
 * back to the kernel. Meanwhile the task may be woken and queued, but no thread switches to it. No
 * thread waits for the owner: one that takes the task out of a queue and finds the bit leaves the
 * task to the owner, which queues it again when done, and runs another. Nor does a thread that asks
 * for the stack of a running task have to wait: it leaves a request (observe/scan_ask.h), which the
 * task's thread serves (scan_serve.h). observe/scan_wait.c has the calls that do wait.
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
 * When membarrier() has returned, either the runner's RUNNING is visible, or it has yet to load
 * scan and will find HELD. In the slow path it makes the status RUNNABLE again and adds WANTED, by
 * a compare-and-swap that fails if HELD is gone; then it runs the task after all. From WANTED on
 * the task is the owner's to put into a queue. (The owner may have seen the short-lived RUNNING and
 * have given up; it still finds WANTED when it takes HELD away, and queues the task.)
 *
 * That PARKED means "registers saved", and not "about to", is status.h's: it is stored by the
 * context that was switched to. The end of a task does no harm: only a running task ends, and an
 * owned one does not run.
 *
 * Where membarrier is missing, scan always has FENCED, which leads every switch into the slow path,
 * where the fence is.
 *
 * Who may write what:
 *   word.scan         anyone, by atomic operations only
 *   sn_scan_initial   sn_scan_init(), before the first task of a run
 *
 * Rejected:
 *   - A compare-and-swap of one word at every change of the status (Go's casgstatus): two locked
 *     instructions a switch, and a wait whenever a scan is under way.
 *   - Letting the runner wait for the bit: a processor stands still as long as the callback of a
 *     scan runs.
 */
#ifndef SENNIT_SCHED_SCAN_H
#define SENNIT_SCHED_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/block.h"
#include "sched/task.h"

enum sn_scan_bits {
	SN_SCAN_HELD = 1,     /* a scanner has, or is about to have, the stack */
	SN_SCAN_WANTED = 2,   /* a runner has left the task to it */
	SN_SCAN_BRIEF = 4,    /* with HELD: it is the runtime itself, and only for microseconds */
	SN_SCAN_ASKING = 8,   /* a request is being written */
	SN_SCAN_ASKED = 16,   /* it can be served */
	SN_SCAN_SERVING = 32, /* it is being served */
	SN_SCAN_FENCED = 64,  /* no membarrier: set from the beginning */
	SN_SCAN_TIMED = 128,  /* its wait is measured: off_cpu.h */
};

/* What a new task's scan word has to have: 0 or FENCED. */
extern uint32_t sn_scan_initial;

/* The slow paths of a switch: word.scan was not 0. */
bool sn_scan_before_run(struct sn_task *task); /* false: leave it alone, it is the scanner's */
bool sn_scan_is_free(struct sn_task *task);    /* no scanner has it or asks: run it */
bool sn_scan_hold_left(struct sn_task *task);  /* true: to be followed by sn_scan_give_back() */
void sn_scan_ended(struct sn_task *task);

/* Serves what was asked meanwhile, and gives the stack back. Returns whether a runner has left the
 * task to the owner: the caller then has to queue it, by sn_requeue(). */
bool sn_scan_give_back(struct sn_task *task);

#endif
