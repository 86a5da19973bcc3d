/* SPDX-License-Identifier: MIT */
#include "copy/copy_piece.h"

#include <errno.h>

#include "copy/copy_job.h"
#include "copy/copy_late.h"
#include "io/buffer.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "stream/layer.h"

int sn_piece_borrow(struct sn_copy_piece *piece)
{
	if (piece->buffer)
		return 0;
	piece->buffer = sn_buffer_borrow();
	piece->size = piece->written = 0;
	piece->is_last = false;
	return piece->buffer ? 0 : -ENOMEM;
}

void sn_piece_return(struct sn_copy_piece *piece)
{
	if (piece->buffer)
		sn_buffer_return(piece->buffer);
	piece->buffer = NULL;
}

static ssize_t write_some(struct sn_copy_job *job, const char *data, size_t size, bool more)
{
	ssize_t n = sn_copy_attempt(job, SN_SIDE_WRITE);

	if (n < 0)
		return n;
	sn_copy_write_begin(job);
	n = sn_conn_attempt_write(job->dst, data, size, more);
	sn_copy_write_end(job, n);
	if (n != -EAGAIN)
		n = sn_conn_settle(job->dst, n);
	sn_copy_write_done(job, n);
	return n;
}

void sn_piece_settle(struct sn_copy_job *job)
{
	ssize_t n;

	if (!job->holds_dst)
		return;
	n = sn_layer_settle_some(job->dst);
	sn_copy_release_dst(job);
	if (n > 0)
		sn_copy_delivered(job, (size_t)n, &job->result->bytes_userspace);
}

int sn_piece_write(struct sn_copy_job *job)
{
	struct sn_copy_piece *piece = &job->piece;

	while (piece->written < piece->size) {
		ssize_t n = write_some(job, piece->buffer + piece->written,
				       piece->size - piece->written, piece->is_last);

		if (n == -EAGAIN && job->dst->registered)
			return SN_PASS_FULL;
		if (n < 0)
			return sn_copy_fail(job, SN_COPY_WRITE, n);
		piece->written += (uint32_t)n;
		sn_copy_delivered(job, (size_t)n, &job->result->bytes_userspace);
		sn_fair_chance(sn_thread_self());
	}
	return 0;
}
