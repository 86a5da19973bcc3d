/* SPDX-License-Identifier: MIT */
/*
 * Which threads start threads.
 *
 * A new thread inherits from its creator: namespaces, identity and capabilities, CPUs, niceness and
 * scheduling policy, no_new_privs and seccomp filters. A task may have changed any of these on its
 * thread: a pinned task for as long as it likes, any other between two calls that park. On its own
 * threads the program may have changed them, too. All threads of the runtime must be alike,
 * whichever of them started which. A thread therefore starts another only where no such change can
 * be in effect:
 *   - in the scheduler's loop, on a thread to which no task was ever pinned;
 *   - on the monitor, which runs no code of the program, and which the thread of sn_run() starts.
 * All other threads ask the monitor: they put an entry into a list, under the runtime's lock, and
 * wake it. The monitor looks into the list before it sleeps, under the protocol of sysmon_sleep.h.
 *
 * How late. The monitor serves the list between two of its steps, so the start begins after one
 * wake-up of a thread, or after the step that the monitor is in. A processor that waits for its
 * thread may get another one earlier: a thread that is about to go to sleep takes the processor
 * under the same lock (sleeper.c). models/birth.pml has both, and what happens when the system
 * refuses the thread.
 *
 * A thread with a task therefore calls neither pthread_create() nor malloc() when it wakes tasks or
 * threads. sennit-run relies on that (tools/run/library/sem.c): there, a signal handler wakes a
 * task, and may have interrupted either.
 *
 * Who may write what: see struct sn_birth; the list, any thread, under the runtime's lock.
 *
 * Rejected: the thread of sn_run() as the one that starts all others, because every start then
 * takes two wake-ups; one more thread for this alone, which would be no better than the monitor;
 * undoing in the new thread what a task may have set, because namespaces, capabilities and filters
 * cannot be undone.
 */
#ifndef SENNIT_SCHED_BIRTH_H
#define SENNIT_SCHED_BIRTH_H

#include <stdbool.h>

#include "sched/thread.h"

/* Something that starts threads, in a static variable of its owner. */
struct sn_birth {
	void (*begin)(void);   /* called outside of locks; constant */
	struct sn_birth *next; /* under the runtime's lock */
	bool asked;            /* it is in the list; under the runtime's lock */
};

/* Makes the monitor call begin() soon, once for all requests until then. If the run ends first, the
 * thread of sn_run() calls it at the end. Any thread may call this, without the runtime's lock. */
void sn_birth_ask(struct sn_birth *birth);

/* Declares that the calling thread is the monitor. */
void sn_births_here(void);

/* Whether the calling thread may start a thread itself. */
bool sn_may_start_threads(void);

/* Calls begin() for each entry in the list. Called by the monitor, and at the end of a run by the
 * thread of sn_run(). */
void sn_births_serve(void);

/* The runtime's lock is held. The first says whether the list has an entry; the second empties the
 * list in a child of fork(). */
bool sn_births_asked(void);
void sn_births_forget(void);

#endif
