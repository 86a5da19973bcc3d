/* SPDX-License-Identifier: MIT */
/*
 * fork() while the runtime runs: the child has only the thread that called, and no runtime.
 *
 * Contract. The parent holds the modules' locks across the fork, so the child finds consistent
 * data. Each module that has such a lock offers a handler. It takes the lock before the fork,
 * releases it in the parent, and reinitialises it in the child. Handlers may belong to any layer;
 * run/run.c has the list.
 *
 * Who may write what: sn_fork_init() stores the list of handlers once, when the first run begins.
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

/* Takes the lock, releases it, or makes it free in the child, as the phase requires. */
void sn_fork_lock(struct sn_lock *lock, enum sn_fork_phase phase);

/* A module's handler, called in each phase. In the child it runs in the only thread. */
typedef void sn_fork_handler(enum sn_fork_phase phase);

/* From now on each fork() calls the n handlers: in order before the fork, in reverse order after
 * it. Only the first call has an effect. */
void sn_fork_init(sn_fork_handler *const *handlers, size_t n);

#endif
