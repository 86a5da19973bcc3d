/* SPDX-License-Identifier: MIT */
/*
 * Moving bytes in the kernel with splice(2).
 *
 * Contract. A pass moves what src has now to dst, and ends with the pipe empty, unless dst failed;
 * then the bytes in the pipe are lost, and the result says so. The pass never reads beyond the
 * job's limit. While dst has no room the pass waits with the bytes in its pipe.
 *
 * The pass fills the pipe and empties it in turn, so the pipe is empty whenever src is read. That
 * keeps three things unambiguous that have cost others a hang or a truncated stream:
 *   - EAGAIN from src cannot mean "pipe full".
 *   - At the end of the stream, or when src fails, nothing is left to deliver before that is
 *     reported.
 *   - Less than was asked for can mean that the pipe was full of small pieces (each takes a slot,
 *     however small: 40 of them have filled a 64 KiB pipe with 1,600 bytes), so it never means that
 *     src is empty.
 * Filling and emptying at the same time would need two tasks and gain nothing: both calls run on
 * the caller's processor.
 *
 * With a pipe that is lent for a short time (pipe_pool.h) the pass does not wait for room. It takes
 * the rest out of the pipe, as the job's piece, and ends with SN_PASS_FULL, as in userspace. So
 * that the rest is not larger than a piece, no more than that is put into such a pipe.
 *
 * A task never parks merely because splice returned EAGAIN. Splice returns that for as long as
 * urgent data is next in the stream, although poll(2) calls the socket readable, and no further
 * edge comes. The pass therefore peeks at the socket: if that finds nothing either, an edge is sure
 * to come. In the usual pass the peek takes the place of the second splice, so it costs no
 * additional system call. Urgent data goes through userspace, where recv(2) skips it as for every
 * reader of the stream. The pass also peeks when splice reports the end of the stream: splice does
 * that too when urgent data is next and the peer has sent its FIN, whatever there is in between.
 *
 * Rejected: keeping the pipe with the connection (64 pipes of 1 MiB exhaust an unprivileged user's
 * quota, and every idle connection would hold two descriptors); SPLICE_F_MORE (stalls by 200 ms);
 * vmsplice and MSG_ZEROCOPY (both send pages of the process, into which the bytes would have to be
 * received first).
 */
#include <errno.h>
#include <poll.h>

#include "copy/copy_job.h"
#include "copy/copy_late.h"
#include "copy/copy_pass.h"
#include "copy/low_water.h"
#include "copy/pipe_pool.h"
#include "io/buffer.h"
#include "io/sys.h"
#include "sched/switch.h"
#include "sched/thread.h"

/*
 * The most bytes that one call may move. In practice the pipe's number of slots is the limit; a
 * slot holds up to 32 KiB of a large segment, so a pipe can carry more than its nominal size.
 */
#define MOST_AT_ONCE ((size_t)1 << 20)

/* A socket that gave this much probably has more by now, so the pass splices again without a
 * peek. */
#define LIKELY_MORE ((size_t)256 << 10)

/*
 * If splice refuses but a peek finds something, that is urgent data, or it arrived between the two
 * calls. Splice refuses urgent data every time. Therefore this many refusals in a row count as
 * urgent data, which goes through userspace. With a limit of one, a fast flow was sent through
 * userspace eight times a GiB.
 */
#define MOST_REFUSALS 3

static ssize_t fill(struct sn_copy_job *job, struct sn_pipe *pipe, size_t size)
{
	ssize_t n = sn_copy_attempt(job, SN_SIDE_READ);

	if (n < 0)
		return n;
	sn_conn_blocking_enter(job->src, "splice");
	n = sn_sys_splice(job->src->fd, pipe->write_end, size, false);
	sn_conn_blocking_leave(job->src);
	sn_conn_note_read(job->src, n);
	sn_copy_attempt_end(job, SN_SIDE_READ);
	return n;
}

/*
 * Disarms the events of src while a copy waits for room. Bytes that arrive are of no interest then,
 * because the copy is their reader and takes them when there is room. Copying in userspace does not
 * do this, because a flow there is small and two system calls would gain little.
 */
static void disarm(struct sn_copy_job *job)
{
	if (sn_fd_begin(job->src, SN_SIDE_READ) < 0)
		return; /* the next read finds out */
	sn_fd_disarm(job->src);
	sn_fd_end(job->src, SN_SIDE_READ);
}

static int wait_for_room(struct sn_copy_job *job)
{
	if (sn_conn_kind(job->src) == SN_KIND_SOCKET)
		disarm(job);
	return sn_copy_await_room(job);
}

/* Writes some of the pipe's bytes, at least one, and waits for room if necessary. With a short loan
 * it returns -EAGAIN instead of waiting. */
static ssize_t empty_some(struct sn_copy_job *job, struct sn_pipe *pipe, size_t size)
{
	struct sn_fd *dst = job->dst;
	ssize_t n;

	while ((n = sn_copy_attempt(job, SN_SIDE_WRITE)) == -EAGAIN && !pipe->is_short) {
		n = sn_copy_wait(job, SN_SIDE_WRITE);
		if (n < 0)
			return n;
	}
	if (n < 0)
		return n;
	do {
		sn_copy_write_begin(job);
		sn_conn_blocking_enter(dst, "splice");
		n = sn_sys_splice(pipe->read_end, dst->fd, size, job->hold_sigpipe);
		sn_conn_blocking_leave(dst);
		sn_copy_write_end(job, n);
	} while (n == -EAGAIN && dst->registered && !pipe->is_short &&
		 (n = wait_for_room(job)) == 0);
	sn_copy_write_done(job, n);
	return n;
}

/* Writes the job's piece, and waits for room if necessary. */
static int write_piece(struct sn_copy_job *job)
{
	int end;

	while ((end = sn_piece_write(job)) == SN_PASS_FULL) {
		int err = sn_copy_wait(job, SN_SIDE_WRITE);

		if (err < 0)
			return sn_copy_fail(job, SN_COPY_WRITE, err);
	}
	return end;
}

/* For a dst that cannot be spliced to: moves the bytes in the pipe through userspace. */
static int empty_by_hand(struct sn_copy_job *job, struct sn_pipe *pipe, size_t size)
{
	struct sn_copy_piece *piece = &job->piece;
	int err = 0;

	if (sn_piece_borrow(piece) < 0)
		return sn_copy_fail(job, SN_COPY_WRITE, -ENOMEM);
	while (size > 0 && err == 0) {
		ssize_t n = sn_sys_read(pipe->read_end, piece->buffer,
					size < SN_BUFFER_SIZE ? size : SN_BUFFER_SIZE);

		if (n <= 0) {
			err = sn_copy_fail(job, SN_COPY_WRITE, n < 0 ? n : -EIO);
			break;
		}
		size -= (size_t)n;
		piece->size = (uint32_t)n;
		piece->written = 0;
		err = write_piece(job);
	}
	sn_piece_return(piece);
	return err;
}

/* Moves the bytes of a short loan to the job's piece, which has an empty buffer with room for
 * them. */
static int take_out(struct sn_copy_job *job, struct sn_pipe *pipe, size_t size)
{
	struct sn_copy_piece *piece = &job->piece;

	while (piece->size < size) {
		ssize_t n = sn_sys_read(pipe->read_end, piece->buffer + piece->size,
					size - piece->size);

		if (n <= 0)
			return sn_copy_fail(job, SN_COPY_WRITE, n < 0 ? n : -EIO);
		piece->size += (uint32_t)n;
	}
	piece->partial = false;
	piece->behind = SN_BEHIND_UNKNOWN;
	return SN_PASS_FULL;
}

/* Returns 0, SN_PASS_FULL if the rest is in the job's piece now, or an error. */
static int empty(struct sn_copy_job *job, struct sn_pipe *pipe, size_t size)
{
	while (size > 0) {
		ssize_t n = empty_some(job, pipe, size);

		if (n == -EAGAIN && job->dst->registered && pipe->is_short) {
			if (sn_piece_borrow(&job->piece) == 0)
				return take_out(job, pipe, size);
			pipe->is_short = false; /* without memory the job waits with its pipe */
			continue;
		}
		if (n == -EINVAL) {
			job->may_splice = false;
			return empty_by_hand(job, pipe, size);
		}
		if (n <= 0)
			return sn_copy_fail(job, SN_COPY_WRITE, n < 0 ? n : -EIO);
		size -= (size_t)n;
		sn_copy_delivered(job, (size_t)n, &job->result->bytes_spliced);
		sn_fair_chance(sn_thread_self());
	}
	return 0;
}

/* The result of a pass whose splice or peek returned n, at the end (0) or with an error. The pipe
 * is empty. */
static int ended(struct sn_copy_job *job, ssize_t n)
{
	return n == 0 ? SN_PASS_END : sn_copy_fail(job, SN_COPY_READ, n);
}

int sn_splice_pass(struct sn_copy_job *job, struct sn_pipe *pipe, uint64_t *moved, bool *clean)
{
	const size_t most = pipe->is_short ? SN_BUFFER_SIZE : MOST_AT_ONCE;
	const size_t likely_more = pipe->is_short ? SN_BUFFER_SIZE : LIKELY_MORE;
	int refusals = 0;

	*moved = 0;
	*clean = true;
	for (;;) {
		size_t size = sn_copy_limit(job, most);
		ssize_t n;
		int err;

		if (size == 0)
			return sn_copy_limit_reached(job);
		sn_brief_turn(sn_thread_self());
		n = fill(job, pipe, size);
		if (n == -EAGAIN || (n == 0 && sn_conn_kind(job->src) == SN_KIND_SOCKET)) {
			refusals = n == 0 ? MOST_REFUSALS : refusals + 1;
			n = sn_copy_peek(job);
			if (n == -EAGAIN)
				return SN_PASS_DRAINED;
			if (n <= 0)
				return ended(job, n);
			if (refusals >= MOST_REFUSALS)
				return SN_PASS_SWITCH;
			continue;
		}
		refusals = 0;
		if (n == -EINVAL) {
			job->may_splice = false;
			return SN_PASS_SWITCH;
		}
		if (n <= 0)
			return ended(job, n);
		sn_copy_taken(job, (size_t)n);
		*moved += (uint64_t)n;
		*clean = false;
		err = empty(job, pipe, (size_t)n);
		if (err < 0)
			return err;
		*clean = true;
		if (err == SN_PASS_FULL)
			return SN_PASS_FULL;
		if (!job->may_splice)
			return SN_PASS_SWITCH;
		if (sn_low_water_coalesces(job, (size_t)n))
			return SN_PASS_DRAINED;
		if ((size_t)n >= likely_more)
			continue;
		n = sn_copy_peek(job);
		if (n == -EAGAIN)
			return SN_PASS_DRAINED;
		if (n <= 0)
			return ended(job, n);
	}
}

/* ---- the caller's pipes: no pipe in between ---- */

/*
 * Finds out which side was the cause of EAGAIN. dst is checked first, then src; if both are ready,
 * the copy switches to userspace. A side that poll(2) finds not ready makes an edge when it becomes
 * ready, even if that happens before the wait.
 */
static int why_not(struct sn_copy_job *job)
{
	if (job->dst->registered && !sn_sys_poll(job->dst->fd, POLLOUT))
		return SN_PASS_FULL;
	if (job->src->registered && !sn_sys_poll(job->src->fd, POLLIN))
		return SN_PASS_DRAINED;
	return SN_PASS_SWITCH;
}

/* Which side failed, when one call reads and writes. */
static enum sn_copy_side blame(const struct sn_copy_job *job, ssize_t err)
{
	if (err == -EPIPE || err == -ENOSPC || err == -EFBIG || err == -EDQUOT)
		return SN_COPY_WRITE;
	return sn_conn_kind(job->dst) == SN_KIND_SOCKET ? SN_COPY_WRITE : SN_COPY_READ;
}

static ssize_t move_directly(struct sn_copy_job *job, size_t size, enum sn_copy_side *refused)
{
	/* At most one side is not registered: file_copy.c copies files. */
	const struct sn_fd *blocking = job->dst->registered ? job->src : job->dst;
	ssize_t n = sn_copy_attempt(job, SN_SIDE_READ);

	*refused = SN_COPY_READ;
	if (n < 0)
		return n;
	n = sn_copy_attempt(job, SN_SIDE_WRITE);
	if (n < 0) {
		*refused = SN_COPY_WRITE;
		sn_copy_attempt_end(job, SN_SIDE_READ);
		return n;
	}
	*refused = SN_COPY_NONE;
	sn_copy_write_begin(job);
	sn_conn_blocking_enter(blocking, "splice");
	n = sn_sys_splice(job->src->fd, job->dst->fd, size, job->hold_sigpipe);
	sn_conn_blocking_leave(blocking);
	sn_copy_write_end(job, n);
	sn_fd_end(job->dst, SN_SIDE_WRITE);
	sn_copy_attempt_end(job, SN_SIDE_READ);
	return n;
}

/* The result of a pass whose splice has reported an end, which may be urgent data. */
static int end_directly(struct sn_copy_job *job)
{
	ssize_t n = sn_conn_kind(job->src) == SN_KIND_SOCKET ? sn_copy_peek(job) : 0;

	if (n > 0)
		return SN_PASS_SWITCH;
	return n == -EAGAIN ? SN_PASS_DRAINED : ended(job, n);
}

int sn_direct_pass(struct sn_copy_job *job)
{
	for (;;) {
		size_t size = sn_copy_limit(job, MOST_AT_ONCE);
		enum sn_copy_side refused;
		ssize_t n;

		if (size == 0)
			return sn_copy_limit_reached(job);
		n = move_directly(job, size, &refused);
		if (n == 0)
			return end_directly(job);
		if (n < 0 && refused != SN_COPY_NONE)
			return sn_copy_fail(job, refused, n);
		if (n == -EAGAIN)
			return why_not(job);
		if (n == -EINVAL) {
			job->may_splice = false;
			return SN_PASS_SWITCH;
		}
		if (n < 0)
			return sn_copy_fail(job, blame(job, n), n);
		sn_copy_taken(job, (size_t)n);
		sn_copy_delivered(job, (size_t)n, &job->result->bytes_spliced);
		sn_fair_chance(sn_thread_self());
	}
}
