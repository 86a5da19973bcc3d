/* SPDX-License-Identifier: MIT */
#include "support/store.h"

#include <stddef.h>

#include "sched/free_store.h"

static struct sn_free_store store = SN_FREE_STORE_INIT(SN_RANK_BUFFERS, STORE_BATCH, STORE_MOST);
static struct sn_free_link objects[STORE_OBJECTS];

void store_reset(void)
{
	sn_free_store_lock(&store);
	sn_free_store_replace(&store, NULL);
	sn_free_store_unlock(&store);
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

uint32_t store_common(void)
{
	uint32_t n;

	sn_free_store_lock(&store);
	n = length(store.lists[SN_HOMES].first);
	sn_free_store_unlock(&store);
	return n;
}

uint32_t store_homes(void)
{
	uint32_t n = 0;

	sn_free_store_lock(&store);
	for (int i = 0; i < SN_HOMES; i++)
		n += length(store.lists[i].first) + length(store.lists[i].spare);
	sn_free_store_unlock(&store);
	return n;
}
