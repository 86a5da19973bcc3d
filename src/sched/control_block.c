/* SPDX-License-Identifier: MIT */
#include "sched/control_block.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "arch/compiler.h"
#include "base/fork.h"
#include "base/pages.h"
#include "sched/task.h"
#include "stack/stack.h"
#include "wait/lock.h"

#ifndef MADV_POPULATE_WRITE
#	define MADV_POPULATE_WRITE 23
#endif

#define BLOCKS_PER_SLAB 64

/* Slabs per mapping. A million tasks need 245 mappings. Each takes 1.3 MiB of address space in a
 * 32-bit process, 1.6 MiB in others. */
#define SLABS_PER_CHUNK 64

/* How many slabs get their pages by one call, see get_pages(): 384 KiB, which takes about 60 us, in
 * one spawn of a thousand. */
#define SLABS_AT_ONCE 16
_Static_assert(SLABS_PER_CHUNK % SLABS_AT_ONCE == 0, "");

/* How many spawns ahead a block is prefetched (sn_task_prefetch_new()). So many spawns take about
 * as long as an access to memory. */
#define FETCHED_AHEAD 4

struct sn_block_slab {
	struct sn_block_slab *next; /* never changes once published */
	struct sn_task blocks[BLOCKS_PER_SLAB];
};
_Static_assert(BLOCKS_PER_SLAB == 64, "SN_BLOCK_SLAB_ALL has 64 bits");

/* A mapping, from which slabs are cut in order. Its array `free` is a part of the store, and may
 * list blocks of any chunk. */
struct chunk {
	struct chunk *older, *newer;
	uint32_t used;
	uint32_t free_count;
	struct sn_block_slab slabs[SLABS_PER_CHUNK];
	struct sn_task *free[SLABS_PER_CHUNK * BLOCKS_PER_SLAB];
};

static struct sn_lock lock =
	SN_LOCK_INIT(SN_RANK_BLOCKS); /* guards everything below except reads of all_block_slabs */
static struct sn_block_slab *_Atomic all_block_slabs;
static struct chunk *chunks; /* the newest */
/* Where the store of free blocks ends: the arrays of the chunks newer than this one are full, and
 * those of older ones are empty. NULL if there is no chunk. */
static struct chunk *free_end;
static struct chunk *empty_chunks; /* of earlier runs, linked by older; handles may point there */
static _Atomic uint32_t first_generation;
static struct sn_block_cache shared; /* for threads that have no processor */

/* The lock is held. */
static void forget_all(void)
{
	atomic_store(&all_block_slabs, NULL);
	chunks = free_end = NULL;
	shared = (struct sn_block_cache){0};
}

/* Slabs of earlier runs, linked so that leak checkers can reach them and what their tasks refer
 * to. */
static struct sn_block_slab *_Atomic forgotten_slabs;

/* Moves all slabs to a list. The lock is held. */
static void forget(struct sn_block_slab *_Atomic *list)
{
	struct sn_block_slab *slab = atomic_load(&all_block_slabs), *last;

	for (last = slab; last && last->next; last = last->next)
		;
	/* In this order, so that a collector that stops this thread in between finds each slab in
	 * at least one of the lists. */
	if (last) {
		last->next = atomic_load(list);
		atomic_store(list, slab);
	}
	forget_all();
}

void sn_blocks_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
	if (phase == SN_FORK_CHILD)
		forget(&forgotten_slabs); /* the task that forked has its block in one of them */
}

/* The store is empty, so it may begin in the array of any chunk. The lock is held. */
static struct chunk *chunk_add(struct chunk *chunk)
{
	chunk->older = chunks;
	chunk->newer = NULL;
	if (chunks)
		chunks->newer = chunk;
	return chunks = free_end = chunk;
}

/* The lock is held, and the store is empty. */
static struct chunk *chunk_create(void)
{
	struct chunk *chunk = empty_chunks;

	if (chunk) {
		empty_chunks = chunk->older;
		return chunk_add(chunk);
	}
	chunk = sn_pages_take(sizeof *chunk);
	return chunk ? chunk_add(chunk) : NULL;
}

/*
 * Returns the chunk's memory to the kernel, but keeps its addresses mapped. A join of a task of an
 * earlier run must find that there is no such task, rather than unmapped memory or another object.
 * The kernel does not take back locked memory, so that is zeroed instead.
 */
static void chunk_empty(struct chunk *chunk)
{
	if (SN_ASAN || madvise(chunk, sizeof *chunk, MADV_DONTNEED) < 0)
		memset(chunk, 0, sizeof *chunk);
	sn_lock(&lock);
	chunk->older = empty_chunks;
	empty_chunks = chunk;
	sn_unlock(&lock);
}

uint32_t sn_block_first_generation(void)
{
	/* Relaxed: it changes only between runs. */
	return atomic_load_explicit(&first_generation, memory_order_relaxed);
}

/*
 * Commits the pages of the slab, and of those after it, by one call. It is called when one chunk
 * does not suffice: then there are so many tasks that every page will be used. A page fault for
 * each page is a fifth of the cost of a million tasks that are joined afterwards (bench-tasks
 * spawn-all, seven alternating runs: 780 to 657 ms of CPU on one processor, 970 to 766 on two, with
 * one slab at a time). It takes several slabs, because the call itself is expensive while several
 * threads obtain new pages: a spawn on two processors took 288 ns with 1 slab, 235 with 16, and no
 * less with 64 (five alternating runs). Kernels before 5.14 do not support it; their pages come one
 * by one, as they do when memory is short.
 *
 * Rejected: huge pages. Clearing them evicts everything else from the caches (922 and 1,088 ms in
 * the first runs). On another machine they halved the time of a spawn in most runs, and made it
 * five times as long in others.
 */
static void get_pages(struct sn_block_slab *slab)
{
	static _Atomic bool refused;
	uintptr_t page = sn_page_size();
	uintptr_t first = (uintptr_t)slab & -page;
	uintptr_t end = ((uintptr_t)(slab + SLABS_AT_ONCE) + page - 1) & -page;
	int saved = errno;

	if (atomic_load_explicit(&refused, memory_order_relaxed))
		return;
	if (madvise((void *)first, end - first, MADV_POPULATE_WRITE) < 0)
		atomic_store_explicit(&refused, errno == EINVAL, memory_order_relaxed);
	errno = saved;
}

/* Cuts a slab that has never been used. The lock is held. */
static struct sn_block_slab *fresh_slab(void)
{
	struct chunk *chunk = chunks;
	struct sn_block_slab *slab;

	if (!chunk || chunk->used == SLABS_PER_CHUNK)
		chunk = chunk_create();
	if (!chunk)
		return NULL;
	slab = &chunk->slabs[chunk->used++];
	slab->next = atomic_load_explicit(&all_block_slabs, memory_order_relaxed);
	atomic_store_explicit(&all_block_slabs, slab, memory_order_release);
	return slab;
}

/* Puts a block into the store, which has room for every block of this run. The lock is held. */
static void store_put(struct sn_task *task)
{
	if (free_end && free_end->free_count == SLABS_PER_CHUNK * BLOCKS_PER_SLAB &&
	    free_end->older)
		free_end = free_end->older;
	if (free_end && free_end->free_count < SLABS_PER_CHUNK * BLOCKS_PER_SLAB)
		free_end->free[free_end->free_count++] = task;
}

/* Takes a block out of the store; NULL if it is empty. The lock is held. */
static struct sn_task *store_get(void)
{
	if (free_end && free_end->free_count == 0 && free_end->newer)
		free_end = free_end->newer;
	return free_end && free_end->free_count > 0 ? free_end->free[--free_end->free_count] : NULL;
}

/* Puts some blocks into an empty cache. Returns the slab for which to call get_pages(), or NULL.
 * The lock is held. */
static struct sn_block_slab *fill(struct sn_block_cache *cache)
{
	struct sn_block_slab *slab;
	struct sn_task *task;

	while (cache->count < SN_BLOCKS_MOVED && (task = store_get()) != NULL)
		cache->free[cache->count++] = task;
	for (uint32_t i = cache->count; i > 0 && i + FETCHED_AHEAD > cache->count; i--)
		sn_task_prefetch_new(cache->free[i - 1]);
	if (cache->count > 0 || (slab = fresh_slab()) == NULL)
		return NULL;
	cache->fresh = slab->blocks;
	cache->fresh_count = BLOCKS_PER_SLAB;
	/* With ASan the pages have been written already. */
	return chunks->older && !SN_ASAN && (chunks->used - 1) % SLABS_AT_ONCE == 0 ? slab : NULL;
}

/* Takes a block out of the cache; returns NULL if it is empty. */
static struct sn_task *take(struct sn_block_cache *cache)
{
	if (sn_likely(cache->count > 0)) {
		const uint32_t left = --cache->count;

		if (left >= FETCHED_AHEAD)
			sn_task_prefetch_new(cache->free[left - FETCHED_AHEAD]);
		return cache->free[left];
	}
	if (cache->fresh_count == 0)
		return NULL;
	cache->fresh_count--;
	return cache->fresh++;
}

static sn_noinline struct sn_task *alloc_slowly(struct sn_block_cache *cache)
{
	struct sn_block_slab *without_pages = NULL;
	struct sn_task *task;

	sn_lock(&lock);
	if (!cache)
		cache = &shared;
	task = take(cache);
	if (!task) {
		without_pages = fill(cache);
		task = take(cache);
	}
	sn_unlock(&lock);
	/* Called without the lock, because this takes long if memory is short. */
	if (without_pages)
		get_pages(without_pages);
	return task;
}

struct sn_task *sn_block_alloc(struct sn_block_cache *cache)
{
	struct sn_task *task = cache ? take(cache) : NULL;

	return sn_likely(task) ? task : alloc_slowly(cache);
}

/* Moves the n blocks that were freed first, which are the coldest, to the store. */
static sn_noinline void give(struct sn_block_cache *cache, uint32_t n)
{
	sn_lock(&lock);
	for (uint32_t i = 0; i < n; i++)
		store_put(cache->free[i]);
	sn_unlock(&lock);
	cache->count -= n;
	memmove(cache->free, cache->free + n, cache->count * sizeof cache->free[0]);
}

static sn_noinline void free_without_cache(struct sn_task *task)
{
	sn_lock(&lock);
	store_put(task);
	sn_unlock(&lock);
}

void sn_block_free(struct sn_task *task, struct sn_block_cache *cache)
{
	if (sn_unlikely(!cache)) {
		free_without_cache(task);
		return;
	}
	if (sn_unlikely(cache->count == 2 * SN_BLOCKS_MOVED))
		give(cache, SN_BLOCKS_MOVED);
	cache->free[cache->count++] = task;
}

void sn_block_flush(struct sn_block_cache *cache)
{
	give(cache, cache->count);
	/* Gives the blocks that have never been used, too: they are all zeros, so they are free
	 * blocks. */
	sn_lock(&lock);
	for (; cache->fresh_count > 0; cache->fresh_count--)
		store_put(cache->fresh++);
	sn_unlock(&lock);
}

struct sn_block_slab *sn_block_slab_next(struct sn_block_slab *slab)
{
	return slab ? slab->next : atomic_load_explicit(&all_block_slabs, memory_order_acquire);
}

struct sn_task *sn_block_slab_at(struct sn_block_slab *slab, int number)
{
	return &slab->blocks[number];
}

static int each(struct sn_block_slab *slab, int (*visit)(struct sn_task *task, void *arg),
		void *arg)
{
	int result = 0;

	for (; slab; slab = slab->next)
		for (int i = 0; i < BLOCKS_PER_SLAB; i++) {
			result = visit(&slab->blocks[i], arg);
			if (result)
				return result;
		}
	return result;
}

int sn_block_each(int (*visit)(struct sn_task *task, void *arg), void *arg)
{
	return each(atomic_load_explicit(&all_block_slabs, memory_order_acquire), visit, arg);
}

int sn_block_each_forgotten(int (*visit)(struct sn_task *task, void *arg), void *arg)
{
	return each(atomic_load_explicit(&forgotten_slabs, memory_order_acquire), visit, arg);
}

void sn_blocks_forget(void)
{
	sn_lock(&lock);
	forget(&forgotten_slabs);
	sn_unlock(&lock);
}

/* Makes the handles of the tasks in a list of slabs stale, up to the slab `end`. No other thread
 * writes these generations, because the tasks neither end nor continue. */
static void outdate(struct sn_block_slab *first, const struct sn_block_slab *end)
{
	for (struct sn_block_slab *slab = first; slab != end; slab = slab->next)
		for (int i = 0; i < BLOCKS_PER_SLAB; i++) {
			_Atomic uint32_t *at = &slab->blocks[i].generation;
			uint32_t generation = atomic_load_explicit(at, memory_order_relaxed);

			if (generation != 0)
				atomic_store_explicit(at, sn_handle_next(generation),
						      memory_order_relaxed);
		}
}

void sn_blocks_outdate(void)
{
	static struct sn_block_slab *outdated;
	struct sn_block_slab *first = atomic_load(&forgotten_slabs);

	outdate(first, outdated);
	outdated = first;
}

void sn_blocks_destroy(void)
{
	struct chunk *chunk, *next;

#if SN_ASAN
	/* The run may end with tasks alive. The memory that they refer to is not a leak, so their
	 * blocks stay reachable, in a list that no collector looks at: their stacks are
	 * unmapped. */
	static struct sn_block_slab *_Atomic kept;
	struct sn_block_slab *former = atomic_load(&kept);

	sn_lock(&lock);
	forget(&kept);
	sn_unlock(&lock);
	outdate(atomic_load(&kept), former);
#endif
	sn_lock(&lock);
	chunk = chunks;
	forget_all();
	sn_unlock(&lock);
	/* Far from any generation that the blocks of this run can have reached. */
	atomic_fetch_add_explicit(&first_generation, 0x9e3779b1, memory_order_relaxed);
	for (; chunk; chunk = next) {
		next = chunk->older;
		chunk_empty(chunk);
	}
}
