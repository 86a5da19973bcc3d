/* SPDX-License-Identifier: MIT */
/*
 * The memory of scopes.
 *
 * Contract. Memory that has been a scope stays readable as one for the life of the process, because
 * stale handles lead to it (scope.h). It is therefore kept in lists of free scopes, and never given
 * back.
 */
#include "sync/scope.h"

#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "sched/thread.h"
#include "sync/waits.h"

/* Each thread uses one of these lists, which it shares with few others, so that threads that open
 * and close scopes all the time seldom contend for a lock. */
#define LISTS 16

/* How many are allocated at a time. */
#define SCOPES_MADE 16

static struct {
	_Alignas(SN_CACHE_LINE) struct sn_lock lock;
	/* Changed under the lock. Read without it only to see whether there is a scope. */
	struct sn_scope *_Atomic free;
} lists[LISTS] = {[0 ... LISTS - 1] = {.lock = SN_LOCK_INIT(SN_RANK_SCOPE_LISTS)}};

static int list_of(struct sn_thread *self)
{
	return (int)((uint32_t)((uintptr_t)self / SN_CACHE_LINE) * 2654435761u >> 28);
}
_Static_assert(LISTS == 1 << (32 - 28), "the hash has as many values as there are lists");

static struct sn_scope *take_free(int list)
{
	struct sn_scope *scope;

	if (!atomic_load_explicit(&lists[list].free, memory_order_relaxed))
		return NULL;
	sn_lock(&lists[list].lock);
	scope = atomic_load_explicit(&lists[list].free, memory_order_relaxed);
	if (scope)
		atomic_store_explicit(&lists[list].free, scope->next_free, memory_order_relaxed);
	sn_unlock(&lists[list].lock);
	return scope;
}

static void put_free(int list, struct sn_scope *scope)
{
	sn_lock(&lists[list].lock);
	scope->next_free = atomic_load_explicit(&lists[list].free, memory_order_relaxed);
	atomic_store_explicit(&lists[list].free, scope, memory_order_relaxed);
	sn_unlock(&lists[list].lock);
}

static sn_noinline struct sn_scope *make_some(int list)
{
	/* Leak checkers find all blocks from here. */
	static struct sn_scope *_Atomic all;
	struct sn_scope *made =
		aligned_alloc(_Alignof(struct sn_scope), SCOPES_MADE * sizeof *made);

	if (!made)
		return NULL;
	memset(made, 0, SCOPES_MADE * sizeof *made);
	/* The first one is not used as a scope: it links to the ones that were made before. */
	made->next_free = atomic_load(&all);
	while (!atomic_compare_exchange_weak(&all, &made->next_free, made))
		continue;
	for (int i = 1; i < SCOPES_MADE; i++)
		sn_lock_init(&made[i].lock, SN_RANK_SCOPE);
	for (int i = 2; i < SCOPES_MADE; i++)
		put_free(list, &made[i]);
	return &made[1];
}

struct sn_scope *sn_scope_alloc(struct sn_thread *self)
{
	int own = list_of(self);
	struct sn_scope *scope = take_free(own);

	/* Tasks may open on one processor and close on another: a free scope of any processor is
	 * reused before new ones are allocated. */
	for (int i = 1; !scope && i < LISTS; i++)
		scope = take_free((own + i) % LISTS);
	return scope ? scope : make_some(own);
}

void sn_scope_dealloc(struct sn_scope *scope)
{
	uint32_t generation = atomic_load_explicit(&scope->generation, memory_order_relaxed);

	/* Relaxed: a thread that relies on the generation holds a count. */
	atomic_store_explicit(&scope->generation, sn_handle_next(generation), memory_order_relaxed);
	put_free(list_of(sn_thread_self()), scope);
}

void sn_scopes_fork(enum sn_fork_phase phase)
{
	for (int i = 0; i < LISTS; i++)
		sn_fork_lock(&lists[i].lock, phase);
}
