/* SPDX-License-Identifier: MIT */
/*
 * Streams: reading an exact number of bytes, and reading and writing several pieces of memory.
 *
 * A call that moves all bytes is a sequence of operations that move some. Each of these is a
 * complete operation, so it notices a close, a cancellation and a deadline even if no part ever has
 * to wait, and other tasks get their turns in between.
 *
 * The caller's pieces are never changed. If a write ends within a piece, the rest of that piece is
 * described in a copy of the array, together with the next few pieces. If it ends at the boundary
 * of a piece, the caller's own array is passed on. A long list therefore costs at most one short
 * write for each long one.
 */
#include "stream/stream.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/uio.h>

#include <sennit/stream.h>

#include "io/sys.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "stream/layer.h"

/* How many pieces the copy has that begins with the rest of a piece. */
#define COPIED 16

/* The size of all pieces, or -EINVAL if there are none or their sum is above SSIZE_MAX. */
static ssize_t size_of(const struct iovec *iov, int n)
{
	size_t size = 0;

	if (!iov || n < 1)
		return -EINVAL;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - size)
			return -EINVAL;
		size += iov[i].iov_len;
	}
	return (ssize_t)size;
}

/* ---- attempts, like those of stream.c ---- */

static ssize_t attempt_readv(struct sn_fd *d, const struct iovec *iov, int n)
{
	ssize_t got;

	if (sn_unlikely(sn_conn_kind(d) >= SN_KIND_LAYERED))
		return sn_conn_has_messages(d) ? -EPROTOTYPE : sn_layer_attempt_readv(d, iov, n);
	sn_conn_blocking_enter(d, "readv");
	got = sn_sys_readv(d->fd, iov, n);
	sn_conn_blocking_leave(d);
	if (sn_conn_kind(d) == SN_KIND_SOCKET)
		sn_conn_note_read(d, got);
	return got;
}

static ssize_t attempt_writev(struct sn_fd *d, const struct iovec *iov, int n, size_t size)
{
	ssize_t put;

	if (sn_conn_kind(d) == SN_KIND_SOCKET)
		return sn_sys_sendv(d->fd, iov, n);
	if (sn_conn_kind(d) >= SN_KIND_LAYERED)
		return sn_conn_has_messages(d) ? -EPROTOTYPE : sn_layer_attempt_writev(d, iov, n);
	sn_conn_blocking_enter(d, "writev");
	put = sn_sys_writev(d->fd, iov, n, size);
	sn_conn_blocking_leave(d);
	return put;
}

/* One operation on at most IOV_MAX pieces, which have at least one byte. */
static ssize_t move_some(const void *handle, enum sn_side_index side, const struct iovec *iov,
			 int n, size_t size)
{
	struct sn_fd *d;
	ssize_t moved = sn_conn_begin(&d, handle, side);

	if (moved < 0)
		return moved;
	do {
		moved = side == SN_SIDE_READ ? attempt_readv(d, iov, n)
					     : attempt_writev(d, iov, n, size);
	} while (moved == -EAGAIN && (moved = sn_conn_attempt_wait(d, side)) == 0);
	if (side == SN_SIDE_WRITE)
		moved = sn_conn_settle(d, moved);
	sn_fd_end(d, side);
	if (moved > 0)
		sn_fair_chance(sn_thread_self());
	return moved;
}

/* ---- all pieces ---- */

/* The pieces that are left: the first begins at an offset, which is less than its size. */
struct rest {
	const struct iovec *iov;
	int n;
	size_t offset;
};

/* Skips empty pieces, too, so that no write consists of empty pieces only. */
static void advance(struct rest *rest, size_t size)
{
	rest->offset += size;
	while (rest->n > 0 && rest->offset >= rest->iov->iov_len) {
		rest->offset -= rest->iov->iov_len;
		rest->iov++;
		rest->n--;
	}
}

/* Writes some of the rest. left: the size of the rest, more than 0. */
static ssize_t write_next(const void *handle, const struct rest *rest, size_t left)
{
	struct iovec copy[COPIED];
	int n = rest->n;

	if (rest->offset == 0)
		return move_some(handle, SN_SIDE_WRITE, rest->iov, n < IOV_MAX ? n : IOV_MAX, left);
	if (n > COPIED)
		n = COPIED;
	memcpy(copy, rest->iov, (size_t)n * sizeof *copy);
	copy[0].iov_base = (char *)copy[0].iov_base + rest->offset;
	copy[0].iov_len -= rest->offset;
	return move_some(handle, SN_SIDE_WRITE, copy, n, left);
}

/* ---- the public calls ---- */

ssize_t sn_stream_read_full(sn_stream *stream, void *buf, size_t size, size_t *done)
{
	size_t have = done ? *done : 0;
	ssize_t n = 1;

	if (size > SSIZE_MAX || have > size)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	if (have == size)
		n = sn_conn_move_nothing(stream, SN_SIDE_READ);
	while (have < size && n > 0) {
		n = sn_conn_read_some(stream, (char *)buf + have, size - have);
		if (n > 0)
			have += (size_t)n;
	}
	sn_runtime_leave();
	if (done)
		*done = have;
	return n < 0 ? n : (ssize_t)have;
}

/* sn_stream_readv() and sn_stream_writev(). */
static ssize_t move_vector(const void *handle, enum sn_side_index side, const struct iovec *iov,
			   int n)
{
	ssize_t size = n > IOV_MAX ? -EINVAL : size_of(iov, n), moved;

	if (size < 0)
		return size;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	moved = size ? move_some(handle, side, iov, n, (size_t)size)
		     : sn_conn_move_nothing(handle, side);
	sn_runtime_leave();
	return moved;
}

ssize_t sn_stream_readv(sn_stream *stream, const struct iovec *iov, int n)
{
	return move_vector(stream, SN_SIDE_READ, iov, n);
}

ssize_t sn_stream_writev(sn_stream *stream, const struct iovec *iov, int n)
{
	return move_vector(stream, SN_SIDE_WRITE, iov, n);
}

ssize_t sn_stream_writev_all(sn_stream *stream, const struct iovec *iov, int n, size_t *done)
{
	struct rest rest = {iov, n, 0};
	ssize_t size = size_of(iov, n), moved = 0;
	size_t have = done ? *done : 0;

	if (size < 0 || have > (size_t)size)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	advance(&rest, have);
	if (rest.n == 0)
		moved = sn_conn_move_nothing(stream, SN_SIDE_WRITE);
	while (rest.n > 0) {
		moved = write_next(stream, &rest, (size_t)size - have);
		if (moved < 0)
			break;
		advance(&rest, (size_t)moved);
		have += (size_t)moved;
	}
	sn_runtime_leave();
	if (done)
		*done = have;
	return moved < 0 ? moved : size;
}
