/* SPDX-License-Identifier: MIT */
/*
 * The memory of tasks' control blocks (struct sn_task).
 *
 * Contract. A block, once made, stays a block until the run ends. Any thread that has its address
 * may read its status, id and scan word at any time, and write the scan word, whether or not there
 * is a task in the block: the status word outlives the task. Blocks are therefore never returned to
 * the kernel during a run. As many are kept as there were tasks alive at the same time, about 380
 * bytes each. (Go keeps its own for the same reason.)
 *
 * Blocks come in slabs of 64, which can be walked without a lock. A block that has never been used
 * is all zeros, which makes it a free block. Slabs are cut from large mappings, of which each page
 * is committed at the first access. With malloc(), a slab of a growing heap cost an mprotect() and
 * seven page faults in a row, under the lock; during that time a processor that was taking over
 * tasks found none for so long that it went to sleep. A processor takes whole slabs. It keeps free
 * blocks in a cache, and moves them to a common store when the cache is full.
 *
 * Free blocks are listed in arrays of addresses, not by links through the blocks. The blocks of
 * tens of thousands of tasks do not fit into the caches, so with links each block would have to
 * arrive from memory before the address of the next one is known. With the addresses at hand, the
 * lines that a spawn will write are fetched some spawns ahead. The arrays of the store belong to
 * the mappings and have room for all blocks, so freeing never fails. A page of them is committed
 * when that many blocks are free at the same time.
 *
 * A block is separate from the task's stack, because a task needs a stack only when it first runs
 * (task.h). It then gets one that is still warm from a task that has ended. A million tasks that
 * are spawned and have not begun yet take no stack at all.
 *
 * Rejected: the block at the top of the stack. That would save an idle task a tenth of a page,
 * because it touches a page of its stack either way. But each spawn would then cost a page fault
 * and a guard, which takes five times as long (make bench-tasks, spawn-all).
 *
 * Who may write what:
 *   the store   any thread, under the lock
 *   a cache     the thread that has the processor
 */
#ifndef SENNIT_SCHED_CONTROL_BLOCK_H
#define SENNIT_SCHED_CONTROL_BLOCK_H

#include <stdint.h>

#include "base/fork.h"

struct sn_block_slab;
struct sn_task;

/* How many blocks move between a cache and the common store at a time, so that a processor that
 * only spawns tasks, or only ends them, takes the lock once for this many. A cache holds at most
 * twice this many. */
#ifndef SN_BLOCKS_MOVED
#	define SN_BLOCKS_MOVED 64u
#endif

/* The free blocks of one processor. All zeros is an empty cache. */
struct sn_block_cache {
	uint32_t count;
	uint32_t fresh_count;
	struct sn_task *fresh; /* an array of blocks that have never been used */
	struct sn_task *free[2 * SN_BLOCKS_MOVED]; /* the last one is taken first */
};

/* Takes a free block; cache is NULL on a thread without a processor. Returns NULL if there is no
 * memory. */
struct sn_task *sn_block_alloc(struct sn_block_cache *cache);
/* The task's status must be FREE. */
void sn_block_free(struct sn_task *task, struct sn_block_cache *cache);

/* Moves everything in a processor's cache to the common store. Called by the processor's owner. */
void sn_block_flush(struct sn_block_cache *cache);

/* The first task in each block of this run gets the generation after this one. */
uint32_t sn_block_first_generation(void);

/* Walks all slabs: NULL gives the first, a slab gives the one after it, and NULL is returned after
 * the last. Async-signal-safe, as is everything below. */
struct sn_block_slab *sn_block_slab_next(struct sn_block_slab *slab);
/* One of a slab's blocks. SN_BLOCK_SLAB_ALL is a mask with a bit for each of them. */
struct sn_task *sn_block_slab_at(struct sn_block_slab *slab, int number);
#define SN_BLOCK_SLAB_ALL UINT64_MAX

/* Calls visit for every block, until it returns something other than 0, which is returned. */
int sn_block_each(int (*visit)(struct sn_task *task, void *arg), void *arg);
/* The same for the blocks that earlier runs have left to their orphans. */
int sn_block_each_forgotten(int (*visit)(struct sn_task *task, void *arg), void *arg);

/* At the beginning of a run: makes the handles of tasks that earlier runs left to orphans stale. */
void sn_blocks_outdate(void);

/* Called at the end of a run, as in stack/stack.h: the first if there are orphans, which may still
 * touch their blocks; the second if there are none. */
void sn_blocks_forget(void);
void sn_blocks_destroy(void);
void sn_blocks_fork(enum sn_fork_phase phase);

#endif
