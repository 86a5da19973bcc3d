/* SPDX-License-Identifier: MIT */
#include "io/buffer.h"

#include <stdlib.h>

#include "sched/free_store.h"

/* How many free buffers are kept: 4 MiB in common, and two for each processor. */
#define MOST_FREE 64

static struct sn_free_store store = SN_FREE_STORE_INIT(SN_RANK_BUFFERS, 1, MOST_FREE);

void sn_buffers_fork(enum sn_fork_phase phase)
{
	sn_free_store_fork(&store, phase);
}

void *sn_buffer_borrow(void)
{
	struct sn_free_link *link = sn_free_store_take(&store);

	return link ? (void *)link : malloc(SN_BUFFER_SIZE);
}

void sn_buffer_return(void *buffer)
{
	struct sn_free_link *link = sn_free_store_put(&store, buffer);

	free(link); /* the batch is of one */
}
