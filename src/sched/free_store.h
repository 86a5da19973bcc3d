/* SPDX-License-Identifier: MIT */
/*
 * A store of free objects which threads take and return without writing to lines of the cache that
 * threads on other processors use.
 *
 * It has a small list for each processor (modulo SN_HOMES), and a common list. A thread uses the
 * list of the processor that it had last, its home. Once a home has two full batches, it moves one
 * to the common list; an empty home takes a batch from there. So an object that is always taken on
 * one processor and returned on another touches the common list once in a batch. Threads without a
 * home, which are those that the runtime did not start, use the common list directly.
 *
 * Guarantees: what has been returned last at a home is taken there first, while it is still in the
 * processor's cache. A taker finds nothing only if the common list and its own home are empty, or
 * other threads are about to put a batch into its home. Homes of other processors may then hold
 * about 2 * batch objects each, which is what the store may waste. Each call holds one lock at a
 * time, and none while it allocates or frees.
 *
 * Who may write what: each list, and the links of the objects in it, are guarded by its own lock;
 * the link of an object in no list belongs to whoever has the object. sn_thread.home: thread.h.
 *
 * Rejected: lists without locks that belong to the processor's owner, as for control blocks
 * (sched/control_block.h). Descriptors are closed, and buffers returned, by threads that have lost
 * their processor or never had one. An uncontended lock costs one read-modify-write.
 */
#ifndef SENNIT_SCHED_FREE_STORE_H
#define SENNIT_SCHED_FREE_STORE_H

#include <stdint.h>

#include "arch/compiler.h"
#include "base/fork.h"
#include "wait/lock.h"

#define SN_HOMES 64

/* A part of each object, which the store uses while the object is free. */
struct sn_free_link {
	struct sn_free_link *next;
};

struct sn_free_list {
	_Alignas(SN_CACHE_LINE) struct sn_lock lock;
	uint32_t count, spare_count;
	struct sn_free_link *first;
	struct sn_free_link *spare; /* a full batch or more, or NULL */
};

struct sn_free_store {
	uint32_t batch;
	uint32_t most; /* how many objects the common list may hold */
	/* The common list is the last, and has no spare. */
	struct sn_free_list lists[SN_HOMES + 1];
};

/* rank: of all locks of the store; it has SN_LOCK_ALIKE. */
#define SN_FREE_STORE_INIT(rank, objects_in_batch, most_common)             \
	{                                                                   \
		.batch = (objects_in_batch), .most = (most_common),         \
		.lists = {[0 ... SN_HOMES] = {.lock = SN_LOCK_INIT(rank)}}, \
	}

/* Returns NULL if there is nothing to take. Any thread may call it. */
struct sn_free_link *sn_free_store_take(struct sn_free_store *store);

/*
 * Any thread may call it. Returns the objects that the store has no room for, linked, for the
 * caller to free; usually NULL.
 */
struct sn_free_link *sn_free_store_put(struct sn_free_store *store, struct sn_free_link *link);

/* Adds a linked list of objects to the common list, whatever its length. */
void sn_free_store_add(struct sn_free_store *store, struct sn_free_link *first);

void sn_free_store_fork(struct sn_free_store *store, enum sn_fork_phase phase);

#endif
