/* SPDX-License-Identifier: MIT */
#include "io/fd_table.h"

#include "base/pages.h"

struct sn_fd_table sn_fd_table = {
	.lock = SN_LOCK_INIT(SN_RANK_FDS),
	.unused = SN_FREE_STORE_INIT(SN_RANK_FREE_FDS, SN_FD_BATCH, UINT32_MAX),
};

/* Returns one of the new states, or NULL if there is no memory. The lock is held. */
static struct sn_fd *add_chunk(void)
{
	const uint32_t size = atomic_load_explicit(&sn_fd_table.size, memory_order_relaxed);
	struct sn_fd *chunk;

	if (size == SN_FD_CHUNK * SN_FD_CHUNKS ||
	    !(chunk = sn_pages_take(SN_FD_CHUNK * sizeof *chunk)))
		return NULL;
	for (uint32_t i = 0; i < SN_FD_CHUNK; i++) {
		chunk[i].index = size + i;
		chunk[i].fd = -1;
		sn_lock_init(&chunk[i].lock, SN_RANK_FD);
		chunk[i].free_link.next = i + 1 < SN_FD_CHUNK ? &chunk[i + 1].free_link : NULL;
	}
	atomic_store_explicit(&sn_fd_table.chunks[size / SN_FD_CHUNK], chunk, memory_order_release);
	atomic_store_explicit(&sn_fd_table.size, size + SN_FD_CHUNK, memory_order_release);
	sn_free_store_add(&sn_fd_table.unused, chunk[0].free_link.next);
	return chunk;
}

static struct sn_fd *take_unused(void)
{
	struct sn_free_link *link = sn_free_store_take(&sn_fd_table.unused);

	return link ? sn_container_of(link, struct sn_fd, free_link) : NULL;
}

struct sn_fd *sn_fd_table_take(void)
{
	struct sn_fd *d = take_unused();

	if (sn_likely(d))
		return d;
	sn_lock(&sn_fd_table.lock);
	d = take_unused(); /* another thread may have added a chunk */
	if (!d)
		d = add_chunk();
	sn_unlock(&sn_fd_table.lock);
	return d;
}

/* The store has room for all of them, so it returns nothing. */
void sn_fd_table_put(struct sn_fd *d)
{
	sn_free_store_put(&sn_fd_table.unused, &d->free_link);
}

/* The outer lock is taken first, and released last. */
void sn_fd_table_fork(enum sn_fork_phase phase)
{
	if (phase == SN_FORK_PREPARE)
		sn_fork_lock(&sn_fd_table.lock, phase);
	sn_free_store_fork(&sn_fd_table.unused, phase);
	if (phase != SN_FORK_PREPARE)
		sn_fork_lock(&sn_fd_table.lock, phase);
}
