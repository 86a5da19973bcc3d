/* SPDX-License-Identifier: MIT */
/*
 * Which threads start threads.
 *
 * The kernel gives a new thread what its creator has: namespaces, identity and capabilities, CPUs,
 * niceness and scheduling policy, no_new_privs and seccomp filters. A task may have changed any of
 * that on its thread: a pinned one for as long as it likes, any other between two calls that park.
 * And what a thread of the program's own has is the program's business. The threads of the runtime
 * must not differ by which of them happened to start which. So a thread starts another only where
 * nothing of the program's can be in effect:
 *   - in the scheduler's loop, on a thread to which no task was ever pinned;
 *   - on the monitor, which runs nothing of the program's, and which the thread of sn_run() starts.
 * Everyone else asks the monitor: puts what is wanted into a list, under the runtime's lock, and
 * wakes it. It looks into the list before it sleeps, under the protocol of sysmon_sleep.h.
 *
 * How late. The monitor serves the list between two of its steps, so what is asked for begins after
 * one wake-up of a thread, and after the step that it is in. A processor that waits for its thread
 * can have an earlier one: a thread that is about to go to sleep takes it under the same lock
 * (idle.c). models/birth.pml has both, and what happens when the system refuses the thread.
 *
 * Rejected: the thread of sn_run() as the one that starts all others. Every start then takes two
 * wake-ups. A thread of its own: it would do nothing else, and nothing better. Undoing in the new
 * thread what a task may have set: namespaces, capabilities and filters cannot be undone.
 */
#ifndef SENNIT_SCHED_BIRTH_H
#define SENNIT_SCHED_BIRTH_H

#include <stdbool.h>

#include "sched/thread.h"

/* Something that starts threads, in a static variable of its owner. */
struct sn_birth {
	void (*begin)(void);   /* called outside of locks; constant */
	struct sn_birth *next; /* under the runtime's lock */
	bool asked;            /* it is in the list; likewise */
};

/* Has begin() called soon, on the monitor: once for all that ask before that. If the run ends
 * first, then at its end, on the thread of sn_run(). Any thread, without the runtime's lock. */
void sn_birth_ask(struct sn_birth *birth);

/* The calling thread is the monitor. */
void sn_births_here(void);

/* Whether the calling thread may start a thread itself. */
bool sn_may_start_threads(void);

/* Calls begin() of all that have asked. The monitor; at the end of a run, the thread of
 * sn_run(). */
void sn_births_serve(void);

/* The runtime's lock is held. Whether anybody has asked; in a child of fork(): nobody has. */
bool sn_births_asked(void);
void sn_births_forget(void);

#endif
