/* SPDX-License-Identifier: MIT */
#include "support/store.h"

#include <stddef.h>

#include "sched/free_store.h"

static struct sn_free_store store = SN_FREE_STORE_INIT(SN_RANK_BUFFERS, STORE_BATCH, STORE_MOST);
static struct sn_free_link objects[STORE_OBJECTS];

void store_reset(void)
{
	for (int i = 0; i <= SN_HOMES; i++) {
		struct sn_free_list *list = &store.lists[i];

		sn_lock(&list->lock);
		list->first = list->spare = NULL;
		list->count = list->spare_count = 0;
		sn_unlock(&list->lock);
	}
}

int store_take(void)
{
	struct sn_free_link *link = sn_free_store_take(&store);

	return link ? (int)(link - objects) : -1;
}

int store_put(int object)
{
	struct sn_free_link *link = sn_free_store_put(&store, &objects[object]);
	int n = 0;

	for (; link; link = link->next)
		n++;
	return n;
}

void store_add(int first, int n)
{
	for (int i = first; i < first + n; i++)
		objects[i].next = i + 1 < first + n ? &objects[i + 1] : NULL;
	sn_free_store_add(&store, n > 0 ? &objects[first] : NULL);
}

static uint32_t length(const struct sn_free_link *link)
{
	uint32_t n = 0;

	for (; link; link = link->next)
		n++;
	return n;
}

static uint32_t in_list(struct sn_free_list *list)
{
	uint32_t n;

	sn_lock(&list->lock);
	n = length(list->first) + length(list->spare);
	sn_unlock(&list->lock);
	return n;
}

uint32_t store_common(void)
{
	return in_list(&store.lists[SN_HOMES]);
}

uint32_t store_homes(void)
{
	uint32_t n = 0;

	for (int i = 0; i < SN_HOMES; i++)
		n += in_list(&store.lists[i]);
	return n;
}
