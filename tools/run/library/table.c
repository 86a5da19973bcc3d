/* SPDX-License-Identifier: MIT */
/*
 * The structures of adopted threads, in a range of addresses that is reserved once. The kernel
 * gives it memory page by page. A lock guards the list of free structures and the length.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "adopted.h"

#define MOST ((size_t)SN_ADOPTED_MOST)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sn_adopted *_Atomic table; /* written once, under lock */
static size_t used;                      /* under lock: how many have ever been taken */
static struct sn_adopted *kept;          /* under lock: was taken before the child began */
static struct sn_adopted *free_list;     /* under lock */
static const sn_local mine;
static __thread struct sn_adopted *was; /* in a child of fork() */

struct sn_adopted *sn_adopted_self(void)
{
	return sn_foreign_self() ? sn_local_get(&mine) : NULL;
}

void sn_adopted_set_self(struct sn_adopted *self)
{
	if (sn_local_set(&mine, self) < 0) {
		dprintf(STDERR_FILENO, "sennit-run: no memory for a thread's identity\n");
		abort();
	}
}

struct sn_adopted *sn_adopted_of(pthread_t thread)
{
	struct sn_adopted *first = atomic_load_explicit(&table, memory_order_acquire);
	const uintptr_t offset = (uintptr_t)thread - (uintptr_t)first;

	return first && offset < MOST * sizeof *first ? (struct sn_adopted *)thread : NULL;
}

static struct sn_adopted *take_new(void)
{
	struct sn_adopted *first = atomic_load_explicit(&table, memory_order_relaxed);
	void *memory;

	if (!first) {
		memory = mmap(NULL, MOST * sizeof *first, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory == MAP_FAILED)
			return NULL;
		first = memory;
		atomic_store_explicit(&table, first, memory_order_release);
	}
	if (used < MOST && &first[used] == kept)
		used++;
	return used < MOST ? &first[used++] : NULL;
}

struct sn_adopted *sn_adopted_take(void)
{
	struct sn_adopted *thread;

	sn_world_lock(&lock);
	thread = free_list;
	if (thread)
		free_list = thread->next_free;
	else
		thread = take_new();
	sn_world_unlock(&lock);
	if (!thread)
		return NULL;
	memset(thread, 0, sizeof *thread);
	atomic_store(&thread->owners, 2);
	return thread;
}

void sn_adopted_leave(struct sn_adopted *thread)
{
	if (atomic_fetch_sub(&thread->owners, 1) > 1)
		return;
	sn_world_lock(&lock);
	thread->next_free = free_list;
	free_list = thread;
	sn_world_unlock(&lock);
}

void sn_adopted_keep_self(void)
{
	struct sn_adopted *self = sn_adopted_self();

	if (self)
		was = self;
}

void sn_adopted_before_fork(void)
{
	sn_world_lock(&lock);
}

void sn_adopted_after_fork(void)
{
	sn_world_unlock(&lock);
}

struct sn_adopted *sn_adopted_was(void)
{
	return was;
}

/* The kernel makes the others zero, which is free. A copy is kept of the one that is still needed:
 * the child's thread has the same handle. The child's own tasks take others. */
void sn_adopted_in_child(struct sn_adopted *forking)
{
	struct sn_adopted *first = atomic_load(&table), copy;

	if (forking)
		was = forking;
	kept = was;
	if (kept)
		copy = *kept;
	if (first && madvise(first, used * sizeof *first, MADV_DONTNEED) < 0)
		memset(first, 0, used * sizeof *first);
	if (kept) {
		*kept = copy;
		atomic_store(&kept->owners, 2);
	}
	free_list = NULL;
	used = 0;
	sn_world_unlock(&lock);
}
