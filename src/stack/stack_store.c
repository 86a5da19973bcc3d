/* SPDX-License-Identifier: MIT */
#include "stack/stack_store.h"

#include <errno.h>
#include <string.h>

struct sn_lock sn_stack_lock = SN_LOCK_INIT(SN_RANK_STACKS);
struct sn_stack_store sn_stack_stores[SN_STACK_CLASSES];
_Atomic uint64_t sn_stack_mapped_count;

/* Relaxed: only the monitor reads it without the lock, and if it sees an old value it looks again
 * later. */
static _Atomic bool any_warm;

uint64_t sn_stacks_mapped(void)
{
	return atomic_load_explicit(&sn_stack_mapped_count, memory_order_relaxed);
}

void sn_stack_store_clear(void)
{
	memset(sn_stack_stores, 0, sizeof sn_stack_stores);
	atomic_store_explicit(&any_warm, false, memory_order_relaxed);
	atomic_store_explicit(&sn_stack_mapped_count, 0, memory_order_relaxed);
}

/* ---- lists ---- */

static void list_put(struct sn_slab *slab, enum sn_stack_warmth which)
{
	struct sn_stack_store *store = &sn_stack_stores[slab->class];
	struct sn_slab *after = store->first[which];

	slab->before[which] = NULL;
	slab->after[which] = after;
	store->first[which] = slab;
	if (after)
		after->before[which] = slab;
	else
		store->last[which] = slab;
}

static void list_remove(struct sn_slab *slab, enum sn_stack_warmth which)
{
	struct sn_stack_store *store = &sn_stack_stores[slab->class];
	struct sn_slab *before = slab->before[which], *after = slab->after[which];

	if (before)
		before->after[which] = after;
	else
		store->first[which] = after;
	if (after)
		after->before[which] = before;
	else
		store->last[which] = before;
}

static bool has_some(const struct sn_slab *slab, enum sn_stack_warmth which)
{
	return slab->free[which] || (which == SN_STACK_COLD && slab->used < slab->slots);
}

static void free_set(struct sn_slab *slab, enum sn_stack_warmth which, uint64_t slots)
{
	if (!has_some(slab, which))
		list_put(slab, which);
	slab->free[which] |= slots;
}

static void free_clear(struct sn_slab *slab, enum sn_stack_warmth which, uint64_t slots)
{
	slab->free[which] &= ~slots;
	if (!has_some(slab, which))
		list_remove(slab, which);
}

/* ---- warm stacks ---- */

/* Atomic: see sn_stack_any_warm_of(). */
static void set_warm(struct sn_stack_store *store, uint32_t n)
{
	__atomic_store_n(&store->warm, n, __ATOMIC_RELAXED);
	if (n < store->idle)
		store->idle = n;
}

bool sn_stack_take_warm(int class, struct sn_stack *stack)
{
	struct sn_stack_store *store = &sn_stack_stores[class];
	struct sn_slab *slab = store->first[SN_STACK_WARM];
	int slot;

	if (!slab)
		return false;
	slot = __builtin_ctzll(slab->free[SN_STACK_WARM]);
	free_clear(slab, SN_STACK_WARM, (uint64_t)1 << slot);
	set_warm(store, store->warm - 1);
	*stack = sn_stack_in_slot(slab, slot);
	return true;
}

void sn_stack_give_warm(struct sn_stack stack)
{
	struct sn_stack_store *store = &sn_stack_stores[stack.slab->class];

	free_set(stack.slab, SN_STACK_WARM, (uint64_t)1 << sn_stack_slot_of(stack));
	set_warm(store, store->warm + 1);
	if (!atomic_load_explicit(&any_warm, memory_order_relaxed))
		atomic_store_explicit(&any_warm, true, memory_order_relaxed);
}

/* ---- cold stacks, and slots that have never been used ---- */

/* From now on only the slots from `used` on have never been used. Moves the slab into the list of
 * cold ones, or out of it, as that requires. */
static void set_used(struct sn_slab *slab, int used)
{
	bool had = has_some(slab, SN_STACK_COLD);

	slab->used = used;
	if (had && !has_some(slab, SN_STACK_COLD))
		list_remove(slab, SN_STACK_COLD);
	else if (!had && has_some(slab, SN_STACK_COLD))
		list_put(slab, SN_STACK_COLD);
}

/* Gives some of the slab's slots that have never been used to the cache, which has none. */
static void take_unused(struct sn_slab *slab, struct sn_stack_cache *cache)
{
	int left = slab->slots - slab->used;

	cache->slab = slab;
	cache->next = cache->guarded = slab->used;
	cache->end = slab->used + (left < SN_STACK_GUARDS_AT_ONCE ? left : SN_STACK_GUARDS_AT_ONCE);
	set_used(slab, cache->end);
}

/* The slots count as never used again if no other cache has taken later ones of the slab. Otherwise
 * each gets a guard and becomes a cold stack; a slot whose guard cannot be installed is lost. */
void sn_stack_give_unused(struct sn_stack_cache *cache)
{
	struct sn_slab *slab = cache->slab;
	int saved = errno;

	cache->slab = NULL;
	if (slab && slab->used == cache->end) {
		set_used(slab, cache->next);
		return;
	}
	for (int slot = cache->next; slab && slot < cache->end; slot++) {
		if (slot >= cache->guarded &&
		    !sn_stack_guard_install(sn_stack_slot(slab, slot), &slab->mprotected))
			continue;
		free_set(slab, SN_STACK_COLD, (uint64_t)1 << slot);
		sn_stack_count_mapped();
	}
	errno = saved;
}

int sn_stack_take_cold(int class, struct sn_stack *stack, struct sn_stack_cache *cache,
		       const char **why)
{
	struct sn_slab *slab = sn_stack_stores[class].first[SN_STACK_COLD];
	int slot;

	if (!slab) {
		slab = sn_stack_slab_create(class, why);
		if (!slab)
			return -ENOMEM;
		list_put(slab, SN_STACK_COLD);
	}
	if (slab->free[SN_STACK_COLD]) {
		slot = __builtin_ctzll(slab->free[SN_STACK_COLD]);
		free_clear(slab, SN_STACK_COLD, (uint64_t)1 << slot);
	} else if (cache && !sn_stack_is_scarce(class)) {
		take_unused(slab, cache);
		return 1;
	} else {
		slot = slab->used;
		if (!sn_stack_note_grant(
			    sn_stack_guard_install(sn_stack_slot(slab, slot), &slab->mprotected),
			    "mappings for guard pages (vm.max_map_count)", why))
			return -ENOMEM;
		set_used(slab, slot + 1);
		sn_stack_count_mapped();
	}
	*stack = sn_stack_in_slot(slab, slot);
	return 0;
}

void sn_stack_give_cold(struct sn_slab *slab, uint64_t slots)
{
	free_set(slab, SN_STACK_COLD, slots);
}

bool sn_stack_take_guarded(int class, struct sn_stack *stack)
{
	struct sn_slab *slab = sn_stack_stores[class].first[SN_STACK_COLD];
	int slot;

	if (sn_stack_take_warm(class, stack))
		return true;
	while (slab && !slab->free[SN_STACK_COLD])
		slab = slab->after[SN_STACK_COLD];
	if (!slab)
		return false;
	slot = __builtin_ctzll(slab->free[SN_STACK_COLD]);
	free_clear(slab, SN_STACK_COLD, (uint64_t)1 << slot);
	*stack = sn_stack_in_slot(slab, slot);
	return true;
}

/* ---- idle stacks ---- */

bool sn_stack_any_warm(void)
{
	return atomic_load_explicit(&any_warm, memory_order_relaxed);
}

void sn_stack_note_idle(void)
{
	bool any = false;

	for (int class = 0; class < SN_STACK_CLASSES; class ++) {
		struct sn_stack_store *store = &sn_stack_stores[class];

		store->owed = store->idle;
		store->idle = store->warm;
		any |= store->warm > 0;
	}
	atomic_store_explicit(&any_warm, any, memory_order_relaxed);
}

struct sn_slab *sn_stack_take_idle(uint64_t *slots)
{
	for (int class = 0; class < SN_STACK_CLASSES; class ++) {
		struct sn_stack_store *store = &sn_stack_stores[class];
		struct sn_slab *slab = store->last[SN_STACK_WARM];
		uint32_t n;

		if (store->owed == 0 || !slab)
			continue;
		*slots = slab->free[SN_STACK_WARM];
		n = (uint32_t)__builtin_popcountll(*slots);
		for (; n > store->owed; n--)
			*slots &= *slots - 1;
		free_clear(slab, SN_STACK_WARM, *slots);
		set_warm(store, store->warm - n);
		store->owed -= n;
		return slab;
	}
	return NULL;
}
