/* SPDX-License-Identifier: MIT */
/*
 * The runtime's side of <sennit/collector.h>.
 *
 * Contract. While every thread of the runtime and the caller of sn_run() are stopped, at any
 * instruction whatever, sn_collector_roots() sees everything that tasks refer to. This rests on:
 *   - a status of PARKED or RUNNABLE means "registers saved" (status.h), so such a stack counts
 *     from the saved stack pointer up;
 *   - the task of a thread is RUNNING, BLOCKING or RETURNING from before the switch to it until
 *     after the switch from it. In between the thread is on that stack or on another. If it is on
 *     another, context.sp has been stored. If context.sp has not been stored, the thread has not
 *     left the stack yet, because the store is the last thing that the switch does on the old
 *     stack;
 *   - a task in the making is NEW from before its argument is moved into its block, or onto its
 *     stack, which its block already names;
 *   - blocks are freed only by the caller of sn_run(), which is stopped, and are unlinked before
 *     that; stacks are freed after them. The blocks and stacks of orphans (run/run.c) are in the
 *     lists of forgotten ones.
 * Some threads are not stopped: the monitor, and threads of the program that the collector does not
 * know. While the others are stopped they may make tasks and wake them, and release pages below
 * saved stack pointers. They hold no references that count. The fields of a task that they are
 * making may be inconsistent, so a saved stack pointer is believed only if it lies on the stack.
 *
 * Who may write what:
 *   given, own, installed   sn_collector_install(), once
 *   stops                   the thread that stops the others; in a child of fork(), the only thread
 */
#ifndef SENNIT_SCHED_COLLECTOR_H
#define SENNIT_SCHED_COLLECTOR_H

#include <stdbool.h>

#include <sennit/collector.h>

#include "base/fork.h"

/* Whether a thread that makes no progress may have been stopped by the collector. A hint, for the
 * monitor. */
bool sn_collector_stops(void);

/* Report to the collector that the calling thread begins, or ends. thread is NULL on sn_run()'s
 * caller. */
void sn_collector_thread_begins(void *thread);
void sn_collector_thread_ends(void *thread);

/* Calls fn(arg), which blocks all signals of the calling thread for an unknown time. Outside the
 * runtime. */
void sn_collector_call_without_signals(void (*fn)(void *arg), void *arg);

void sn_collector_fork(enum sn_fork_phase phase);

#endif
