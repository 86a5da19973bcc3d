/* SPDX-License-Identifier: MIT */
/*
 * fork() while the runtime runs: the child has one thread, the one that called, and no runtime.
 *
 * The modules' locks are held across the fork, so that the child finds consistent data. Each module
 * that has such a lock offers a handler, which takes the lock, releases it in the parent, or
 * reinitialises it in the child. The handlers may belong to any layer; run/run.c has the list.
 */
#ifndef SENNIT_BASE_FORK_H
#define SENNIT_BASE_FORK_H

#include <stddef.h>

enum sn_fork_phase {
	SN_FORK_PREPARE,
	SN_FORK_PARENT,
	SN_FORK_CHILD,
};

struct sn_lock;

/* Does to a lock what the phase requires. */
void sn_fork_lock(struct sn_lock *lock, enum sn_fork_phase phase);

/* What a module does in each phase. In the child it runs in the only thread that there is. */
typedef void sn_fork_handler(enum sn_fork_phase phase);

/* From now on fork() is handled: the n handlers are called in order before it, and in reverse order
 * after it. Idempotent: the first list stays. */
void sn_fork_init(sn_fork_handler *const *handlers, size_t n);

#endif
