/* SPDX-License-Identifier: MIT */
/*
 * The end of a thread that has children.
 *
 * A child process belongs to the thread that made it: when that thread ends, the kernel sends the
 * child its parent-death signal (PR_SET_PDEATHSIG), although the process continues. Threads of the
 * runtime end when they have been idle for long, when a pinned task has ended on them, and with the
 * run. The program does not see any of that. A thread therefore does not end before its children
 * do, whether they were made by sn_process_start(), or by fork(), vfork() or posix_spawn() in a
 * task.
 *
 * Contract. A thread that has children lingers instead of ending. It has already left the runtime:
 * it has no block, no count includes it, nothing waits for it, it blocks all signals of the
 * program, and it may outlive the run. It sleeps until each of its children has ended, and reaps
 * none of them, so the program can still wait for them. There are never more such threads than
 * living children. They end with the process, and then the parent-death signals are due.
 *
 * Threads that are traced (ptrace) are no children. A thread that traces others detaches from them
 * by ending, because it could no longer serve them.
 *
 * Who may write what: there is no shared state. All of this is the calling thread's.
 *
 * Rejected:
 *   - One thread that makes all children and never ends. A child would not inherit what a pinned
 *     task has set on its thread (a namespace, an identity); each start would take two more
 *     switches of the OS; a program that is slow to load would delay all others; and the thread
 *     would outlive the run.
 *   - Counting the programs that each thread has started, because fork() in a task would not count.
 *   - Keeping such threads in the pool, where the threads of a burst would stay as long as their
 *     children.
 *   - Lingering only if a child has set the signal: a process cannot read that of another.
 */
#ifndef SENNIT_SCHED_LINGER_H
#define SENNIT_SCHED_LINGER_H

#include <stdbool.h>

/* Whether the calling thread may have children: false only if it has none, and traces no thread.
 * Makes one system call. */
bool sn_has_children(void);

/* Returns when the calling thread has no living child. Blocks all signals first. */
void sn_linger(void);

#endif
