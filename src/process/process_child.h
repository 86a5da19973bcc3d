/* SPDX-License-Identifier: MIT */
/*
 * The moment between two programs: a child that shares the parent's memory until it executes its
 * program.
 *
 * The child is made by clone(CLONE_VM | CLONE_VFORK), with a stack of its own: nothing is copied,
 * and the calling thread sleeps until the child has executed its program or has ended. During that
 * time the other threads continue to run, and the child is like a signal handler that has
 * interrupted one of them: it may take no lock, allocate nothing and call nothing that does.
 * Therefore everything it needs is prepared before (process_launch.c), and it makes only system
 * calls.
 *
 * Signals. The child has a copy of the parent's handlers, which must not run in it. Before the
 * clone, the calling thread blocks all signals, including those that the C library keeps for
 * itself. The child sets their actions to the default before it unblocks them.
 *
 * Sanitizers. This file is compiled without them (src/CMakeLists.txt): the child enters functions
 * that it never leaves, and a sanitizer would take its copies of descriptors for the parent's. For
 * the same reason it calls syscall() and __clone(), which no sanitizer intercepts, instead of
 * dup2(), execve() and clone().
 *
 * A file that is open for writing cannot be executed (ETXTBSY). A program that writes a file,
 * closes it and starts it would see that, too, while the child of another start still has its copy
 * of the descriptor. Therefore a child does not leave its copies to execve(), which closes them at
 * an unknown time, also after it has woken the parent. It closes them itself, before execve(), in
 * its own table of descriptors (there is no CLONE_FILES). Starts are counted until then, and a
 * child that finds its file open for writing tries again while there are others. Only the program
 * itself, or children of other code, such as fork(), can be in the way after that.
 * One kind of start leaves its copies to execve() after all: if the program's path may name a
 * descriptor, as in /proc/self/fd/5, that must be open until then. It is counted until execve() has
 * woken the parent, so for a moment after that its copies may still be in another start's way.
 *
 * Emulators may make a copy of the memory all the same. The parent then neither sees what the child
 * writes nor sleeps until it is done. The parent detects this by a word that the child sets first.
 * Until a child has been seen to share the memory, each child also gets a pipe for its error, whose
 * other end execve() closes.
 */
#ifndef SENNIT_PROCESS_PROCESS_CHILD_H
#define SENNIT_PROCESS_PROCESS_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <sennit/process.h>

/* A descriptor that the program gets. */
struct sn_child_map {
	int source, target;
	bool optional; /* if fork() and exec() would not pass it on, the program does not get it
			* either */
};

/* Everything except the last part is written before the child exists, and is constant from then on,
 * except for the sources of the maps. */
struct sn_child {
	const char *const *paths; /* the paths to try, in this order; NULL at the end */
	const char *const *argv;
	const char *const *environment;
	const char *directory; /* or NULL */
	struct sn_child_map *maps;
	size_t map_count; /* ordered by target; no target occurs twice */
	const struct sn_process_limit *limits;
	size_t limit_count;
	bool leads_group, leads_session, keeps_ignored;
	int terminal; /* the target that becomes the controlling terminal; -1: none */

	/* Initialized by sn_child_start(), and then written by the child. */
	bool leaves_to_execve; /* the child does not close its copies of descriptors itself */
	bool counted;          /* among the starts whose child may have copies of descriptors */
	int report;            /* the pipe for the error; -1: none */
	bool shares;           /* the memory is shared */
	int error;             /* an errno; 0: none */
};

/*
 * Starts the child. Returns the process id, and *pidfd, which is -1 if the kernel has none; or an
 * error, after which there is no process. Blocks the thread. Outside the runtime.
 */
pid_t sn_child_start(struct sn_child *child, int *pidfd);

/* Whether the last child had a pidfd: 1 yes, -1 no, 0 there was no child yet. Written by each
 * start; relaxed, because it is only reported. */
extern _Atomic int sn_child_had_pidfd;

/* In a child of fork(): the parent's starts are not its own. */
void sn_child_forget_starts(void);

#endif
