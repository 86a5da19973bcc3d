/* SPDX-License-Identifier: MIT */
/*
 * The memory of tasks' control blocks (struct sn_task).
 *
 * Contract. A block, once made, stays a block until the run ends: whoever has found its address may
 * read its status, id and scan word at any time, and write the last, whether there is a task in it or
 * not; the status word outlives the task. So blocks are never given back to the kernel: as many are
 * kept as tasks were alive at once, some 450 bytes each. (Go keeps its own for the same reason.)
 *
 * Blocks come in slabs of 64, all of which can be walked without a lock; one that nobody has used yet
 * is zeros, a free block. Slabs are cut from large mappings, of which a page is committed when it is
 * touched first: by way of malloc() a slab of a growing heap cost an mprotect() and seven page faults
 * in one go, under the lock, while the processor that takes tasks over found none for so long that it
 * slept. A processor takes a slab whole. Free blocks are in a cache of the processor, and when that is
 * full in a list for all.
 *
 * A block is apart from the task's stack, because a task needs a stack only when it runs for the first
 * time (task.h): then it gets one that is warm from a task that has ended, and a million tasks that
 * are spawned and not joined yet take no stack at all.
 *
 * Rejected: the block at the top of the stack. An idle task touches a page either way, the block's
 * share of another is a tenth; but a spawn then costs a page fault and a guard, five times as much
 * (make bench-tasks, spawn-all).
 *
 * Who may write what:
 *   blocks' next in the list    under the lock
 *   a cache   the thread that has the processor
 */
#ifndef SENNIT_SCHED_BLOCK_H
#define SENNIT_SCHED_BLOCK_H

#include <stdint.h>

#include "sched/fork.h"

struct sn_block_slab;
struct sn_task;

/* Free blocks of one processor. Zeros: none. */
struct sn_block_cache {
	struct sn_task *first; /* by next */
	uint32_t count;
	uint32_t fresh_count;
	struct sn_task *fresh; /* an array of blocks that have never been used */
};

/* cache: NULL on a thread without a processor. NULL: no memory. */
struct sn_task *sn_block_alloc(struct sn_block_cache *cache);
/* The task's status is FREE. */
void sn_block_free(struct sn_task *task, struct sn_block_cache *cache);

/* Gives all that a processor's cache holds to the list for all. By who owns the processor. */
void sn_block_flush(struct sn_block_cache *cache);

/* What the first task's generation in a block comes after, in this run. */
uint32_t sn_block_first_generation(void);

/* All slabs: the first, and the one after; NULL: no more. Async-signal-safe, as all below. */
struct sn_block_slab *sn_block_slab_next(struct sn_block_slab *slab);
/* One of its blocks; and a bit for each that there is. */
struct sn_task *sn_block_slab_at(struct sn_block_slab *slab, int number);
#define SN_BLOCK_SLAB_ALL UINT64_MAX

/* Calls visit for every block, until it returns something other than 0, which is returned. */
int sn_block_each(int (*visit)(struct sn_task *task, void *arg), void *arg);
/* The same for what former runs have left to their orphans. */
int sn_block_each_forgotten(int (*visit)(struct sn_task *task, void *arg), void *arg);

/* The beginning of a run: the handles of tasks that former ones have left to orphans are stale. */
void sn_blocks_outdate(void);

/* As in stack.h: the end of a run, with orphans that may still touch their blocks, and without. */
void sn_blocks_forget(void);
void sn_blocks_destroy(void);
void sn_blocks_fork(enum sn_fork_phase phase);

#endif
