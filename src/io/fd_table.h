/* SPDX-License-Identifier: MIT */
/*
 * The memory of all descriptors' states (struct sn_fd), by index.
 *
 * Guarantees: a state is never freed, because an event may name any of them at any time. It keeps
 * its index. Free ones are in a store of lists by processor (sched/free_store.h).
 *
 * Who may write what: size and chunks, the thread that adds a chunk, under the lock; unused, as
 * free_store.h says.
 */
#ifndef SENNIT_IO_FD_TABLE_H
#define SENNIT_IO_FD_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/fork.h"
#include "io/fd.h"
#include "sched/free_store.h"
#include "wait/lock.h"

#define SN_FD_CHUNK 256
/* A million descriptors, fs.nr_open's default, and what the lists of other processors may hold. */
#define SN_FD_CHUNKS (4096 + SN_HOMES * 2 * SN_FD_BATCH / SN_FD_CHUNK)
/* How many free states a processor takes from the others, or gives to them, at a time. */
#define SN_FD_BATCH 32

extern struct sn_fd_table {
	struct sn_lock lock; /* held while a chunk is added, and by disown_inherited() */
	_Atomic uint32_t size;
	struct sn_fd *_Atomic chunks[SN_FD_CHUNKS];
	struct sn_free_store unused;
} sn_fd_table sn_hidden;

/* How many states there are. Their indices are all below. */
static inline uint32_t sn_fd_table_size(void)
{
	return atomic_load_explicit(&sn_fd_table.size, memory_order_acquire);
}

/* Returns NULL if there is no such state. */
static inline struct sn_fd *sn_fd_at(uint32_t index)
{
	struct sn_fd *chunk =
		index / SN_FD_CHUNK < SN_FD_CHUNKS
			? atomic_load_explicit(&sn_fd_table.chunks[index / SN_FD_CHUNK],
					       memory_order_acquire)
			: NULL;

	return chunk ? &chunk[index % SN_FD_CHUNK] : NULL;
}

/* Returns a free state, or NULL if there is no memory. Any thread may take and put. */
struct sn_fd *sn_fd_table_take(void);
void sn_fd_table_put(struct sn_fd *d);

void sn_fd_table_fork(enum sn_fork_phase phase);

#endif
