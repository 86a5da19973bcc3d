/* SPDX-License-Identifier: MIT */
/*
 * The end of a thread that has children.
 *
 * A child process belongs to the thread that made it: when that thread ends, the kernel sends the
 * child its parent-death signal (PR_SET_PDEATHSIG), although the process continues. Threads of the
 * runtime end when they have long been idle, when a pinned task has ended on them, and with the
 * run, of which the program knows nothing. So a thread does not end before its children, whoever
 * made them: sn_process_start(), or fork(), vfork(), posix_spawn() in a task.
 *
 * Contract. A thread that has children lingers instead of ending. It has already left the runtime:
 * it has no block and is no part of any count, nothing waits for it, no signal of the program comes
 * to it, and it may outlive the run. It sleeps until each of its children has ended, and takes no
 * status away from those that wait for them. There are never more such threads than children that
 * live. With the process itself all of them end, and then the signals are due.
 *
 * Threads that are traced (ptrace) are no children. A thread that traces others lets go of them
 * when it ends, as the kernel does, because it could serve them no longer.
 *
 * Rejected: one thread that makes all children and never ends. What a pinned task has set on its
 * thread (a namespace, an identity) would not be the child's; each start would take two more
 * switches of the OS; a program that is slow to load would hold up all others; and after the run
 * the thread would be there still. Counting the programs that each thread has started: fork() in a
 * task would not count. Keeping such threads in the pool: the threads of a burst would then stay as
 * long as the children. Asking for the signal: the kernel tells no other process of it.
 */
#ifndef SENNIT_SCHED_LINGER_H
#define SENNIT_SCHED_LINGER_H

#include <stdbool.h>

/* Whether the calling thread has children, or traces a thread: a hint that is false only when it
 * has neither. One system call. */
bool sn_has_children(void);

/* Returns when the calling thread has no child that lives. */
void sn_linger(void);

#endif
