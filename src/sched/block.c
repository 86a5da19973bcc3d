/* SPDX-License-Identifier: MIT */
#include "sched/block.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "arch/compiler.h"
#include "sched/fork.h"
#include "sched/task.h"
#include "wait/lock.h"

#define BLOCKS_PER_SLAB 64

/* So many move between a cache and the list at a time: a processor that only spawns, or only ends
 * tasks, takes the lock once in so many. A cache holds twice as many at most. */
#ifndef SN_BLOCKS_MOVED
#	define SN_BLOCKS_MOVED 64u
#endif

struct sn_block_slab {
	struct sn_block_slab *next; /* never changes once published */
	_Atomic uint64_t used;      /* grows under the lock */
	struct sn_task blocks[BLOCKS_PER_SLAB];
};
_Static_assert(BLOCKS_PER_SLAB <= 64, "used has 64 bits");

static struct sn_lock lock; /* guards everything below but all_block_slabs' readers */
static struct sn_block_slab *_Atomic all_block_slabs;
static struct sn_task *free_blocks; /* by next */

void sn_blocks_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
	if (phase == SN_FORK_CHILD) {
		/* The child is one of them. */
		atomic_store(&all_block_slabs, NULL);
		free_blocks = NULL;
	}
}

/* A block that never was used, from the latest slab. Under the lock. */
static struct sn_task *fresh(void)
{
	struct sn_block_slab *slab = atomic_load_explicit(&all_block_slabs, memory_order_relaxed);
	uint64_t used = slab ? atomic_load_explicit(&slab->used, memory_order_relaxed) : UINT64_MAX;
	int number;

	if (used == UINT64_MAX) {
		struct sn_block_slab *next = slab;

		slab = aligned_alloc(_Alignof(struct sn_block_slab), sizeof *slab);
		if (!slab)
			return NULL;
		/* Zeros are a free block. */
		memset(slab, 0, sizeof *slab);
		slab->next = next;
		used = 0;
		atomic_store_explicit(&all_block_slabs, slab, memory_order_release);
	}
	number = __builtin_ctzll(~used);
	atomic_store_explicit(&slab->used, used | (uint64_t)1 << number, memory_order_release);
	return &slab->blocks[number];
}

/* Under the lock. */
static struct sn_task *take(void)
{
	struct sn_task *task = free_blocks;

	if (!task)
		return fresh();
	free_blocks = task->next;
	return task;
}

static sn_noinline struct sn_task *alloc_slowly(struct sn_block_cache *cache)
{
	struct sn_task *task;

	sn_lock(&lock);
	task = take();
	while (task && cache && cache->count < SN_BLOCKS_MOVED) {
		struct sn_task *more = take();

		if (!more)
			break;
		more->next = cache->first;
		cache->first = more;
		cache->count++;
	}
	sn_unlock(&lock);
	return task;
}

struct sn_task *sn_block_alloc(struct sn_block_cache *cache)
{
	struct sn_task *task = cache ? cache->first : NULL;

	if (sn_unlikely(!task))
		return alloc_slowly(cache);
	cache->first = task->next;
	cache->count--;
	return task;
}

static sn_noinline void give(struct sn_block_cache *cache, uint32_t n)
{
	sn_lock(&lock);
	while (n-- > 0 && cache->first) {
		struct sn_task *task = cache->first;

		cache->first = task->next;
		cache->count--;
		task->next = free_blocks;
		free_blocks = task;
	}
	sn_unlock(&lock);
}

void sn_block_free(struct sn_task *task, struct sn_block_cache *cache)
{
	if (!cache) {
		struct sn_block_cache one = {.first = task, .count = 1};

		task->next = NULL;
		give(&one, 1);
		return;
	}
	if (sn_unlikely(cache->count >= 2 * SN_BLOCKS_MOVED))
		give(cache, SN_BLOCKS_MOVED);
	task->next = cache->first;
	cache->first = task;
	cache->count++;
}

struct sn_block_slab *sn_block_slab_next(struct sn_block_slab *slab)
{
	return slab ? slab->next : atomic_load_explicit(&all_block_slabs, memory_order_acquire);
}

uint64_t sn_block_slab_used(struct sn_block_slab *slab)
{
	return atomic_load_explicit(&slab->used, memory_order_acquire);
}

struct sn_task *sn_block_slab_at(struct sn_block_slab *slab, int number)
{
	return &slab->blocks[number];
}

int sn_block_each(int (*visit)(struct sn_task *task, void *arg), void *arg)
{
	struct sn_block_slab *slab = NULL;
	int result = 0;

	while ((slab = sn_block_slab_next(slab)) != NULL)
		for (uint64_t left = sn_block_slab_used(slab); left; left &= left - 1) {
			result = visit(&slab->blocks[__builtin_ctzll(left)], arg);
			if (result)
				return result;
		}
	return result;
}

void sn_blocks_forget(void)
{
	/* Kept in sight of leak checkers, as what its tasks refer to. */
	static struct sn_block_slab *forgotten;
	struct sn_block_slab *slab, *last;

	sn_lock(&lock);
	slab = atomic_exchange(&all_block_slabs, NULL);
	for (last = slab; last && last->next; last = last->next)
		;
	if (last) {
		last->next = forgotten;
		forgotten = slab;
	}
	free_blocks = NULL;
	sn_unlock(&lock);
}

void sn_blocks_destroy(void)
{
	struct sn_block_slab *slab, *next;

#if SN_ASAN
	/* The run may end with tasks alive: what they were given is then theirs for ever, not lost. */
	sn_blocks_forget();
#endif
	sn_lock(&lock);
	slab = atomic_exchange(&all_block_slabs, NULL);
	free_blocks = NULL;
	sn_unlock(&lock);
	for (; slab; slab = next) {
		next = slab->next;
		free(slab);
	}
}
