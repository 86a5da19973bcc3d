/* SPDX-License-Identifier: MIT */
#include "sched/free_store.h"

#include <stddef.h>

#include "sched/thread.h"

static struct sn_free_list *common_list(struct sn_free_store *store)
{
	return &store->lists[SN_HOMES];
}

static struct sn_free_list *home_list(struct sn_free_store *store)
{
	struct sn_thread *self = sn_thread_self();

	return self ? &store->lists[self->home % SN_HOMES] : common_list(store);
}

/* The list's lock is held. */
static struct sn_free_link *pop(struct sn_free_list *list)
{
	struct sn_free_link *link = list->first;

	if (!link && (link = list->spare) != NULL) {
		list->count = list->spare_count;
		list->spare = NULL;
		list->spare_count = 0;
	}
	if (link) {
		list->first = link->next;
		list->count--;
	}
	return link;
}

/* Takes up to n objects from the common list, linked; stores in *n how many they are. */
static struct sn_free_link *take_batch(struct sn_free_list *common, uint32_t *n)
{
	struct sn_free_link *first, *last;
	uint32_t count = 0;

	sn_lock(&common->lock);
	first = last = common->first;
	if (first) {
		for (count = 1; count < *n && last->next; count++)
			last = last->next;
		common->first = last->next;
		common->count -= count;
		last->next = NULL;
	}
	sn_unlock(&common->lock);
	*n = count;
	return first;
}

/* The list's lock is held. Another thread may have put something into the list meanwhile. */
static void append(struct sn_free_list *list, struct sn_free_link *first, uint32_t n)
{
	struct sn_free_link *last = first;

	while (last->next)
		last = last->next;
	last->next = list->first;
	list->first = first;
	list->count += n;
}

struct sn_free_link *sn_free_store_take(struct sn_free_store *store)
{
	struct sn_free_list *common = common_list(store), *home = home_list(store);
	struct sn_free_link *link;
	uint32_t n = home == common ? 1 : store->batch;

	if (home != common) {
		sn_lock(&home->lock);
		link = pop(home);
		sn_unlock(&home->lock);
		if (link)
			return link;
	}
	link = take_batch(common, &n);
	if (n > 1) {
		sn_lock(&home->lock);
		append(home, link->next, n - 1);
		sn_unlock(&home->lock);
	}
	return link;
}

/* Moves n linked objects to the common list. Returns them if it is full. */
static struct sn_free_link *give_batch(struct sn_free_store *store, struct sn_free_link *first,
				       uint32_t n)
{
	struct sn_free_list *common = common_list(store);

	sn_lock(&common->lock);
	if (common->count + n <= store->most) {
		append(common, first, n);
		first = NULL;
	}
	sn_unlock(&common->lock);
	return first;
}

struct sn_free_link *sn_free_store_put(struct sn_free_store *store, struct sn_free_link *link)
{
	struct sn_free_list *home = home_list(store);
	struct sn_free_link *batch = NULL;
	uint32_t n = 0;

	link->next = NULL;
	if (home == common_list(store))
		return give_batch(store, link, 1);
	sn_lock(&home->lock);
	if (home->count >= store->batch) {
		batch = home->spare;
		n = home->spare_count;
		home->spare = home->first;
		home->spare_count = home->count;
		home->first = NULL;
		home->count = 0;
	}
	link->next = home->first;
	home->first = link;
	home->count++;
	sn_unlock(&home->lock);
	return batch ? give_batch(store, batch, n) : NULL;
}

static uint32_t length(const struct sn_free_link *link)
{
	uint32_t n = 0;

	for (; link; link = link->next)
		n++;
	return n;
}

void sn_free_store_add(struct sn_free_store *store, struct sn_free_link *first)
{
	struct sn_free_list *common = common_list(store);
	uint32_t n = length(first);

	if (n == 0)
		return;
	sn_lock(&common->lock);
	append(common, first, n);
	sn_unlock(&common->lock);
}

void sn_free_store_fork(struct sn_free_store *store, enum sn_fork_phase phase)
{
	for (int i = 0; i <= SN_HOMES; i++)
		sn_fork_lock(&store->lists[i].lock, phase);
}
