/* SPDX-License-Identifier: MIT */
/*
 * fork() while the runtime runs: the child has one thread, the one that called, and no runtime.
 *
 * The module's locks are held across the fork, so that the child finds its data whole; each module
 * that has such a lock offers a handler that takes it, gives it back in the parent, or makes it anew
 * in the child. They may be of any layer; run/run.c has the list.
 */
#ifndef SENNIT_SCHED_FORK_H
#define SENNIT_SCHED_FORK_H

#include <stddef.h>

enum sn_fork_phase {
	SN_FORK_PREPARE,
	SN_FORK_PARENT,
	SN_FORK_CHILD,
};

struct sn_lock;

/* What each phase means for a lock. */
void sn_fork_lock(struct sn_lock *lock, enum sn_fork_phase phase);

/* What a module does in each phase. In the child it runs in the one thread that there is. */
typedef void sn_fork_handler(enum sn_fork_phase phase);

/* From now on fork() is handled: all n are called in their order before it, and
 * backwards after it. Idempotent: the first list stays. */
void sn_fork_init(sn_fork_handler *const *handlers, size_t n);

#endif
