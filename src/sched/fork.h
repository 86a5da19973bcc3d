/* SPDX-License-Identifier: MIT */
/*
 * fork() while the runtime runs: the child has one thread, the one that called, and no runtime.
 *
 * The module's locks are held across the fork, so that the child finds its data whole; each module
 * that has such a lock offers a function that takes it, gives it back in the parent, or makes it
 * anew in the child.
 */
#ifndef SENNIT_SCHED_FORK_H
#define SENNIT_SCHED_FORK_H

enum sn_fork_phase {
	SN_FORK_PREPARE,
	SN_FORK_PARENT,
	SN_FORK_CHILD,
};

struct sn_lock;

/* What each phase means for a lock. */
void sn_fork_lock(struct sn_lock *lock, enum sn_fork_phase phase);

/* From now on fork() is handled. Idempotent. */
void sn_fork_init(void);

/* run.c, signal.c, dump.c, netpoll.c, stack.c, block.c, net/buffer.c, net/pipe_pool.c,
 * net/resolver.c, sync/waits.c, cancel.c */
void sn_run_fork(enum sn_fork_phase phase);
void sn_signal_fork(enum sn_fork_phase phase);
void sn_dump_fork(enum sn_fork_phase phase);
void sn_netpoll_fork(enum sn_fork_phase phase);
void sn_stacks_fork(enum sn_fork_phase phase);
void sn_blocks_fork(enum sn_fork_phase phase);
void sn_tasks_fork(enum sn_fork_phase phase);
void sn_buffers_fork(enum sn_fork_phase phase);
void sn_pipes_fork(enum sn_fork_phase phase);
void sn_resolver_fork(enum sn_fork_phase phase);
void sn_sync_fork(enum sn_fork_phase phase);
void sn_cancel_fork(enum sn_fork_phase phase);

#endif
