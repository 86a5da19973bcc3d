/* SPDX-License-Identifier: MIT */
#include "io/buffer.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/fork.h"
#include "wait/lock.h"

/* How many free buffers are kept: 4 MiB at most. */
#define MOST_FREE 64

static struct sn_lock lock = SN_LOCK_INIT(SN_RANK_BUFFERS); /* guards the list and its length */
static struct buffer {
	struct buffer *next;
} * free_buffers;
static int nfree;

void sn_buffers_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
}

void *sn_buffer_borrow(void)
{
	struct buffer *buffer;

	sn_lock(&lock);
	buffer = free_buffers;
	if (buffer) {
		free_buffers = buffer->next;
		nfree--;
	}
	sn_unlock(&lock);
	return buffer ? buffer : malloc(SN_BUFFER_SIZE);
}

void sn_buffer_return(void *memory)
{
	struct buffer *buffer = memory;
	bool keep;

	sn_lock(&lock);
	keep = nfree < MOST_FREE;
	if (keep) {
		buffer->next = free_buffers;
		free_buffers = buffer;
		nfree++;
	}
	sn_unlock(&lock);
	if (!keep)
		free(buffer);
}
