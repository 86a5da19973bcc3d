/* SPDX-License-Identifier: MIT */
#include "stack/stack.h"

#include <errno.h>
#include <string.h>

#include "arch/compiler.h"
#include "stack/stack_cool.h"
#include "stack/stack_guard.h"
#include "stack/stack_slab.h"
#include "stack/stack_store.h"
#include "wait/lock.h"

void sn_stacks_init(void)
{
	sn_lock(&sn_stack_lock);
	sn_checked_pass(); /* this reads files, but no stack exists yet for which others wait */
	sn_stack_guards_choose();
	sn_checked_pass_end();
	sn_unlock(&sn_stack_lock);
}

/* ---- taking ---- */

/*
 * The guard of the cache's next slot could not be installed without the lock. Returns 1 if it is
 * installed now, 0 if *stack is another stack, which has a guard, or -ENOMEM.
 */
static sn_noinline int guard_slowly(struct sn_stack_cache *cache, int class, struct sn_stack *stack,
				    const char **why)
{
	struct sn_slab *slab = cache->slab;
	int saved = errno, err = 0;

	sn_lock(&sn_stack_lock);
	if (sn_stack_note_grant(
		    sn_stack_guard_install(sn_stack_slot(slab, cache->next), &slab->mprotected),
		    "memory for guard pages", why))
		err = 1;
	else if (!sn_stack_take_guarded(class, stack))
		err = -ENOMEM;
	sn_unlock(&sn_stack_lock);
	cache->guarded += err == 1;
	errno = saved;
	return err;
}

/* Takes the next of the cache's unused slots, of which there must be one. Called without the
 * lock. */
static int take_own(struct sn_stack_cache *cache, int class, struct sn_stack *stack,
		    const char **why)
{
	struct sn_slab *slab = cache->slab;

	if (cache->next == cache->guarded) {
		int n = sn_stack_guards_install(sn_stack_slot(slab, cache->next), slab->slot_size,
						cache->end - cache->next);

		if (n < 0) {
			n = guard_slowly(cache, class, stack, why);
			if (n <= 0)
				return n;
		} else {
			cache->guarded += n;
		}
	}
	*stack = sn_stack_in_slot(slab, cache->next++);
	if (cache->next == cache->end)
		cache->slab = NULL;
	sn_stack_count_mapped();
	return 0;
}

int sn_stack_alloc(struct sn_stack *stack, int class, struct sn_stack_cache *caches,
		   const char **why)
{
	struct sn_stack_cache *cache = caches ? &caches[class] : NULL;
	int err = 0;

	if (cache && cache->count > 0) {
		*stack = cache->stacks[--cache->count];
		return 0;
	}
	if (cache && cache->slab && !sn_stack_any_warm_of(class))
		return take_own(cache, class, stack, why);
	sn_lock(&sn_stack_lock);
	if (!sn_stack_take_warm(class, stack))
		err = cache && cache->slab ? 1 : sn_stack_take_cold(class, stack, cache, why);
	else if (cache)
		while (cache->count < SN_STACK_CACHE_SIZE / 2 &&
		       sn_stack_take_warm(class, &cache->stacks[cache->count]))
			cache->count++;
	sn_unlock(&sn_stack_lock);
	return err == 1 ? take_own(cache, class, stack, why) : err;
}

void sn_stack_have_spare(int class, struct sn_stack_cache *caches)
{
	struct sn_stack_cache *cache = &caches[class];
	struct sn_stack stack;
	const char *why;

	if (cache->count > 0 || sn_stack_is_large(class) ||
	    sn_stack_alloc(&stack, class, caches, &why) < 0)
		return;
	cache->stacks[cache->count++] = stack;
}

/* ---- giving back ---- */

/* Cools the stack immediately, because a large one is not worth keeping warm. */
static void free_large(struct sn_stack stack)
{
	uint64_t slots = (uint64_t)1 << sn_stack_slot_of(stack);

	sn_stack_slab_cool(stack.slab, slots);
	sn_lock(&sn_stack_lock);
	sn_stack_give_cold(stack.slab, slots);
	sn_unlock(&sn_stack_lock);
}

void sn_stack_free(struct sn_stack stack, struct sn_stack_cache *caches)
{
	int class = stack.slab->class;
	struct sn_stack_cache *cache = caches ? &caches[class] : NULL;

	if (sn_stack_is_large(class)) {
		free_large(stack);
		return;
	}
	if (!cache) {
		sn_lock(&sn_stack_lock);
		sn_stack_give_warm(stack);
		sn_unlock(&sn_stack_lock);
		return;
	}
	if (cache->count == SN_STACK_CACHE_SIZE) {
		/* Gives away the half that was freed first. With one stack at a time, each of a row
		 * of frees would take the lock. */
		sn_lock(&sn_stack_lock);
		for (int i = 0; i < SN_STACK_CACHE_SIZE / 2; i++)
			sn_stack_give_warm(cache->stacks[i]);
		sn_unlock(&sn_stack_lock);
		cache->count -= SN_STACK_CACHE_SIZE / 2;
		memmove(cache->stacks, cache->stacks + SN_STACK_CACHE_SIZE / 2,
			cache->count * sizeof cache->stacks[0]);
	}
	cache->stacks[cache->count++] = stack;
}

void sn_stack_flush(struct sn_stack_cache *caches)
{
	sn_lock(&sn_stack_lock);
	for (int class = 0; class < SN_STACK_CLASSES; class ++) {
		for (uint32_t i = 0; i < caches[class].count; i++)
			sn_stack_give_warm(caches[class].stacks[i]);
		caches[class].count = 0;
		sn_stack_give_unused(&caches[class]);
	}
	sn_unlock(&sn_stack_lock);
}

/* ---- the end ---- */

/* The lock is held. */
static void nothing_is_free(void)
{
	sn_stack_store_clear();
	sn_stacks_cool_clear();
}

void sn_stacks_forget(void)
{
	sn_lock(&sn_stack_lock);
	sn_stack_slabs_forget();
	nothing_is_free();
	sn_unlock(&sn_stack_lock);
}

void sn_stacks_destroy(void)
{
	sn_lock(&sn_stack_lock);
	sn_stack_slabs_destroy();
	nothing_is_free();
	sn_unlock(&sn_stack_lock);
}

void sn_stacks_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&sn_stack_lock, phase);
	if (phase == SN_FORK_CHILD) {
		/* The child's thread runs on one of the stacks. */
		sn_stack_slabs_forget();
		nothing_is_free();
		sn_stack_slabs_fork_child();
	}
}
