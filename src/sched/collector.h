/* SPDX-License-Identifier: MIT */
/*
 * The runtime's side of <sennit/collector.h>.
 *
 * Contract. sn_collector_roots() sees, when every thread of the runtime and the caller of sn_run()
 * stand still at any instruction whatever, all that tasks refer to. That rests on:
 *   - a status of PARKED or RUNNABLE means "registers saved" (status.h), so such a stack counts
 *     from the saved stack pointer up;
 *   - a task that a thread has is RUNNING, BLOCKING or RETURNING from before the switch to it until
 *     after the switch from it. In between the thread stands on that stack, or on another; and when
 *     on another, context.sp has been stored, or not yet left behind: the switch stores it as the
 *     last thing it does on the old stack;
 *   - a task in the making is NEW from before its argument is moved into its block, or onto its
 *     stack, which its block names by then;
 *   - blocks are freed only by the caller of sn_run(), who stands still, and taken out of sight
 *     before that; and stacks after them. What orphans (run/run.c) have is in the lists of what was
 *     forgotten.
 * Threads that do not stand still (the monitor, threads of the program's that the collector does
 * not know) may meanwhile make tasks and wake them, and give back pages below saved stack pointers.
 * They have no references that count. What is read of a task while they make it may not belong
 * together, so a saved stack pointer is only believed when it lies on the stack.
 *
 * Who may write what: installed, sn_collector_install(), once; stopping, whoever stops the threads.
 */
#ifndef SENNIT_SCHED_COLLECTOR_H
#define SENNIT_SCHED_COLLECTOR_H

#include <stdbool.h>

#include <sennit/collector.h>

#include "sched/fork.h"

/* Whether a thread that does nothing may do so because it was stopped. For the monitor; a hint. */
bool sn_collector_stops(void);

/* The calling thread begins, or ends. thread: NULL on sn_run()'s caller. */
void sn_collector_thread_begins(void *thread);
void sn_collector_thread_ends(void *thread);

void sn_collector_fork(enum sn_fork_phase phase);

#endif
