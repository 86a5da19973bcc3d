/* SPDX-License-Identifier: MIT */
/*
 * The moment between two programs: a child that shares our memory until it executes its program.
 *
 * The child is made by clone(CLONE_VM | CLONE_VFORK), with a stack of its own: nothing is copied,
 * and the calling thread sleeps until the child has executed its program or has ended. Meanwhile
 * the other threads run on, and the child is like a signal handler that has interrupted one of
 * them: it may take no lock, allocate nothing and call nothing that does. So everything it needs is
 * prepared before (process_launch.c), and it makes system calls only.
 *
 * Signals. The child has a copy of our handlers, which must not run in it. All signals are blocked
 * in the calling thread before, those that the C library keeps for itself included. The child sets
 * their actions to the default before it unblocks them.
 *
 * Sanitizers. This file is compiled without them (src/CMakeLists.txt): the child enters functions
 * that it never leaves, and its copies of descriptors are not ours. For the same reason it calls
 * syscall() and __clone(), which no sanitizer intercepts, instead of dup2(), execve() and clone().
 *
 * Where clone() makes a copy of the memory nevertheless, as in an emulator, the parent neither sees
 * what the child writes nor sleeps until it is done. This shows in a word that the child sets
 * first. Until it has been seen once that the memory is shared, the child also gets a pipe for its
 * error, whose other end is closed by execve().
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
	bool optional; /* if fork() and exec() would not pass it on, the program does not have it */
};

/* Everything except for the last part is written before the child exists, and is constant then,
 * except for the sources. */
struct sn_child {
	const char *const *paths; /* to be tried in this order; NULL at the end */
	const char *const *argv;
	const char *const *environment;
	const char *directory; /* or NULL */
	struct sn_child_map *maps;
	size_t map_count; /* ordered by target, of which none occurs twice */
	const struct sn_process_limit *limits;
	size_t limit_count;
	bool leads_group, leads_session, keeps_ignored;
	int terminal; /* the target that becomes the controlling terminal; -1: none */

	/* Written by the child. */
	int report;  /* the pipe; -1: none */
	bool shares; /* the memory is shared */
	int error;   /* an errno; 0: none */
};

/*
 * Starts it. Returns the process id, with *pidfd, which is -1 where there are none; or an error,
 * after which there is no process. Blocks the thread. Outside the runtime.
 */
pid_t sn_child_start(struct sn_child *child, int *pidfd);

/* Whether the last one had a pidfd: 1 yes, -1 no, 0 there was none. Written by each start; relaxed,
 * because it is only shown. */
extern _Atomic int sn_child_had_pidfd;

#endif
