/* SPDX-License-Identifier: MIT */
/*
 * Sending: send, sendto, sendmsg, sendmmsg, write and writev.
 *
 * A blocking call sends everything, and so does the hook: it tries with MSG_DONTWAIT, and waits for
 * room for the rest. As in the kernel, an error after some bytes were sent is left to the next
 * call, and raises no SIGPIPE.
 *
 * Pipes take what fits by RWF_NOWAIT (pwritev2(2)), which does not change their flags. PIPE_BUF
 * bytes or less fit entirely or not at all. If the kernel does not know that flag for pipes (before
 * Linux 6.5), and for other descriptors, one task at a time polls and then writes (hooks/turn.h): a
 * pipe that is ready has room for PIPE_BUF bytes, and a larger write blocks the thread until
 * everything is written.
 */
#include <errno.h>
#include <limits.h>

#include "hooks/turn.h"

/* With other flags, such as MSG_OOB, MSG_ZEROCOPY, MSG_FASTOPEN and MSG_EOR, a call is not the same
 * as two calls with its parts. */
#define KNOWN_FLAGS (MSG_NOSIGNAL | MSG_MORE | MSG_CONFIRM | MSG_DONTROUTE)

/* Sends the rest of a stream after `done` bytes. Returns how many bytes have been sent in all. */
static size_t send_rest(struct sn_hook_call *call, const char *buf, size_t n, int flags,
			size_t done)
{
	while (done < n) {
		const enum sn_hook_step step = sn_hook_wait(call);
		ssize_t more;

		if (step == SN_HOOK_FAIL ||
		    (step == SN_HOOK_AGAIN && (call->revents & (POLLERR | POLLHUP))))
			break;
		more = sn_real.send(call->fd, buf + done, n - done,
				    flags | MSG_NOSIGNAL |
					    (step == SN_HOOK_AGAIN ? MSG_DONTWAIT : 0));
		if (more > 0) {
			done += (size_t)more;
			call->rounds = 0;
		} else if (step != SN_HOOK_AGAIN || !sn_hook_would_block()) {
			break;
		}
	}
	return done;
}

static ssize_t send_all(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
			socklen_t length)
{
	struct sn_hook_call call = {
		.fd = fd, .events = POLLOUT, .tried = true, .timeout = SO_SNDTIMEO};
	enum sn_hook_step step = SN_HOOK_AGAIN;
	ssize_t sent;

	n = sn_hook_at_once(n);
	do {
		sent = sn_real.sendto(fd, buf, n, flags | MSG_DONTWAIT, to, length);
		if (sent >= 0 || !sn_hook_would_block())
			break;
		step = sn_hook_wait(&call);
	} while (step == SN_HOOK_AGAIN);
	if (step == SN_HOOK_FAIL)
		return -1;
	if (step == SN_HOOK_PASS)
		return sn_real.sendto(fd, buf, n, flags, to, length);
	if (sent >= 0 && (size_t)sent < n)
		return (ssize_t)send_rest(&call, buf, n, flags, (size_t)sent);
	return sent;
}

SN_HOOK(ssize_t, sendto,
	(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to, socklen_t length))
{
	int err;

	if (!sn_hook_caller() || (flags & ~KNOWN_FLAGS))
		return sn_real.sendto(fd, buf, n, flags, to, length);
	err = sn_hook_errno();
	return sn_hook_kept(send_all(fd, buf, n, flags, to, length), err);
}

SN_HOOK(ssize_t, send, (int fd, const void *buf, size_t n, int flags))
{
	int err;

	if (!sn_hook_caller() || (flags & ~KNOWN_FLAGS))
		return sn_real.send(fd, buf, n, flags);
	err = sn_hook_errno();
	return sn_hook_kept(send_all(fd, buf, n, flags, NULL, 0), err);
}

/* ---- several pieces ---- */

/* How many bytes the kernel would send at once. Without its limit, a sum could overflow. */
static size_t bytes_of(const struct iovec *iov, size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum = sn_hook_at_once(sum + sn_hook_at_once(iov[i].iov_len));
	return sum;
}

/* Sends the rest of the pieces' first n bytes after `done` bytes, piece by piece. */
static size_t send_pieces(struct sn_hook_call *call, const struct msghdr *message, size_t n,
			  int flags, size_t done)
{
	const struct iovec *piece = message->msg_iov;
	size_t before = 0, end;

	for (; before < n; before = end, piece++) {
		end = before + sn_hook_at_once(piece->iov_len);
		end = end < n ? end : n;
		if (done >= end)
			continue;
		done = before +
		       send_rest(call, piece->iov_base, end - before, flags, done - before);
		if (done < end)
			break;
	}
	return done;
}

/* sendmsg(), or its variant for 64-bit times. */
typedef ssize_t send_fn(int fd, const struct msghdr *message, int flags);

static ssize_t send_message(int fd, const struct msghdr *message, int flags, send_fn *real)
{
	struct sn_hook_call call = {
		.fd = fd, .events = POLLOUT, .tried = true, .timeout = SO_SNDTIMEO};
	enum sn_hook_step step = SN_HOOK_AGAIN;
	ssize_t sent;
	size_t n;

	do {
		sent = real(fd, message, flags | MSG_DONTWAIT);
		if (sent >= 0 || !sn_hook_would_block())
			break;
		step = sn_hook_wait(&call);
	} while (step == SN_HOOK_AGAIN);
	if (step == SN_HOOK_FAIL)
		return -1;
	if (step == SN_HOOK_PASS)
		return real(fd, message, flags);
	if (sent >= 0 && (size_t)sent < (n = bytes_of(message->msg_iov, message->msg_iovlen)))
		return (ssize_t)send_pieces(&call, message, n, flags, (size_t)sent);
	return sent;
}

SN_HOOK(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags))
{
	int err;

	if (!sn_hook_caller() || (flags & ~KNOWN_FLAGS))
		return sn_real.sendmsg(fd, message, flags);
	err = sn_hook_errno();
	return sn_hook_kept(send_message(fd, message, flags, sn_real.sendmsg), err);
}

#if SN_HOOK_TIME64
SN_HOOK(ssize_t, __sendmsg64, (int fd, const struct msghdr *message, int flags))
{
	int err;

	if (!sn_hook_caller() || (flags & ~KNOWN_FLAGS))
		return sn_real.__sendmsg64(fd, message, flags);
	err = sn_hook_errno();
	return sn_hook_kept(send_message(fd, message, flags, sn_real.__sendmsg64), err);
}
#endif

/* ---- several messages ---- */

typedef int send_several_fn(int fd, struct mmsghdr *messages, unsigned n, int flags);

/* On a stream, sends the rest of the last message. Returns whether it was sent completely. */
static bool finish_message(int fd, struct mmsghdr *last, int flags)
{
	struct sn_hook_call call = {
		.fd = fd, .events = POLLOUT, .tried = true, .timeout = SO_SNDTIMEO};
	const size_t size = bytes_of(last->msg_hdr.msg_iov, last->msg_hdr.msg_iovlen);

	if (last->msg_len < size)
		last->msg_len =
			(unsigned)send_pieces(&call, &last->msg_hdr, size, flags, last->msg_len);
	return last->msg_len == size;
}

/*
 * Sends what fits in one call, then waits for room for one message, and repeats. As in the kernel,
 * each wait has the whole time limit. A message that is sent in part is the last one.
 */
static int send_several(int fd, struct mmsghdr *messages, unsigned n, int flags,
			send_several_fn *several, send_fn *single)
{
	unsigned done = 0;

	n = n < IOV_MAX ? n : IOV_MAX; /* the kernel takes no more */
	while (done < n) {
		const int more = several(fd, messages + done, n - done, flags | MSG_DONTWAIT);

		if (more > 0) {
			done += (unsigned)more;
		} else if (sn_hook_would_block()) {
			const ssize_t sent =
				send_message(fd, &messages[done].msg_hdr, flags, single);

			if (sent < 0)
				break;
			messages[done++].msg_len = (unsigned)sent;
		} else {
			break;
		}
		flags |= MSG_NOSIGNAL;
		if (!finish_message(fd, &messages[done - 1], flags))
			break;
	}
	return done > 0 ? (int)done : -1;
}

SN_HOOK(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned n, int flags))
{
	int err, sent;

	if (!sn_hook_caller() || n == 0 || (flags & ~KNOWN_FLAGS))
		return sn_real.sendmmsg(fd, messages, n, flags);
	err = sn_hook_errno();
	sent = send_several(fd, messages, n, flags, sn_real.sendmmsg, sn_real.sendmsg);
	return (int)sn_hook_kept(sent, err);
}

#if SN_HOOK_TIME64
SN_HOOK(int, __sendmmsg64, (int fd, struct mmsghdr *messages, unsigned n, int flags))
{
	int err, sent;

	if (!sn_hook_caller() || n == 0 || (flags & ~KNOWN_FLAGS))
		return sn_real.__sendmmsg64(fd, messages, n, flags);
	err = sn_hook_errno();
	sent = send_several(fd, messages, n, flags, sn_real.__sendmmsg64, sn_real.__sendmsg64);
	return (int)sn_hook_kept(sent, err);
}
#endif

/* ---- write ---- */

static ssize_t write_pieces(int fd, const struct iovec *iov, int count)
{
	return count == 1 ? sn_real.write(fd, iov->iov_base, iov->iov_len)
			  : sn_real.writev(fd, iov, count);
}

/* For descriptors without RWF_NOWAIT: one task at a time writes. */
static ssize_t write_in_turn(int fd, const struct iovec *iov, int count)
{
	const struct iovec nothing = {0};
	const enum sn_hook_step step = sn_hook_probed(sn_real.writev(fd, &nothing, 1));
	struct sn_hook_turn turn;
	ssize_t sent;

	if (step != SN_HOOK_AGAIN)
		return step == SN_HOOK_FAIL ? -1 : write_pieces(fd, iov, count);
	if (sn_hook_turn_take(&turn, fd, POLLOUT, 0) == SN_HOOK_FAIL)
		return -1;
	sent = write_pieces(fd, iov, count);
	sn_hook_turn_give(&turn);
	return sent;
}

/* The rest of the piece in which the first `done` of n bytes end; there is at least one byte. */
static struct iovec rest_of(const struct iovec *iov, size_t n, size_t done)
{
	const size_t most = n - done;
	size_t rest;

	while (done >= iov->iov_len)
		done -= iov++->iov_len;
	rest = iov->iov_len - done;
	return (struct iovec){(char *)iov->iov_base + done, rest < most ? rest : most};
}

/* Writes the pieces to a pipe. Returns how many bytes were written, or -1. */
static ssize_t write_pipe(int fd, const struct iovec *iov, int count, size_t n)
{
	struct sn_hook_call call = {.fd = fd, .events = POLLOUT, .tried = true};
	enum sn_hook_step step = SN_HOOK_AGAIN;
	size_t done = 0;
	ssize_t more;
	int err;

	while (done < n && step == SN_HOOK_AGAIN) {
		const struct iovec rest = rest_of(iov, n, done);

		more = done > 0 ? pwritev2(fd, &rest, 1, -1, RWF_NOWAIT)
				: pwritev2(fd, iov, count, -1, RWF_NOWAIT);
		err = more < 0 ? sn_hook_errno() : 0;
		if (more >= 0) {
			done += (size_t)more;
			call.rounds = 0;
		} else if (err == EAGAIN) {
			step = sn_hook_wait(&call);
		} else if (sn_hook_lacks_flag(err) && done == 0) {
			return write_in_turn(fd, iov, count);
		} else {
			break;
		}
	}
	while (done < n && step == SN_HOOK_PASS) {
		const struct iovec rest = rest_of(iov, n, done);

		more = done > 0 ? write_pieces(fd, &rest, 1) : write_pieces(fd, iov, count);
		if (more <= 0)
			break;
		done += (size_t)more;
	}
	return done > 0 ? (ssize_t)done : -1;
}

static sn_noinline ssize_t write_other(int fd, const struct iovec *iov, int count)
{
	switch (sn_hook_kind(fd)) {
	case SN_HOOK_PIPE:
		return write_pipe(fd, iov, count, bytes_of(iov, (size_t)count));
	case SN_HOOK_FILE:
		return sn_hook_await(fd, POLLOUT) == SN_HOOK_FAIL ? -1
								  : write_pieces(fd, iov, count);
	default:
		return write_in_turn(fd, iov, count);
	}
}

SN_HOOK(ssize_t, write, (int fd, const void *buf, size_t n))
{
	ssize_t sent;
	int err;

	if (!sn_hook_caller() || !sn_hook_may_wait(n))
		return sn_real.write(fd, buf, n);
	err = sn_hook_errno();
	sent = send_all(fd, buf, n, 0, NULL, 0);
	if (sent < 0 && sn_hook_errno() == ENOTSOCK)
		sent = write_other(fd, &(const struct iovec){(void *)buf, n}, 1);
	return sn_hook_kept(sent, err);
}

SN_HOOK(ssize_t, writev, (int fd, const struct iovec *iov, int count))
{
	const struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count};
	ssize_t sent;
	int err;

	if (!sn_hook_caller() || count <= 0 || count > IOV_MAX ||
	    !sn_hook_pieces_may_wait(iov, count))
		return sn_real.writev(fd, iov, count);
	err = sn_hook_errno();
	sent = send_message(fd, &message, 0, sn_real.sendmsg);
	if (sent < 0 && sn_hook_errno() == ENOTSOCK)
		sent = write_other(fd, iov, count);
	return sn_hook_kept(sent, err);
}
