/* SPDX-License-Identifier: MIT */
/*
 * Receiving: recv, recvfrom, recvmsg, recvmmsg, read, readv, and accept.
 *
 * On sockets the attempt is the call itself with MSG_DONTWAIT, which changes no flag of the
 * descriptor; if several tasks wait for one socket, none of them blocks its thread. For pipes,
 * eventfds and the like RWF_NOWAIT (preadv2(2)) does the same. If the kernel does not know that
 * flag, and for accept(), which has no such flag, one task at a time polls and then makes the call
 * (hooks/turn.h).
 */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>

#include <sennit/clock.h>

#include "hooks/turn.h"

/* With other flags, such as MSG_OOB and MSG_ERRQUEUE, the call does not wait, or waits in a way
 * that hooks do not support. */
#define KNOWN_FLAGS (MSG_PEEK | MSG_WAITALL | MSG_TRUNC | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC)

/* Whether the program has set SO_RCVLOWAT on some socket. A blocking call may then wait for more
 * bytes than have arrived, while a call with MSG_DONTWAIT would return these. */
static _Atomic bool low_water;

/* Leaves errno alone. */
static bool has_low_water(int fd)
{
	const int err = sn_hook_errno();
	int bytes = 0;
	socklen_t size = sizeof bytes;

	if (getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, &size) == 0)
		return bytes > 1;
	sn_hook_fail(err); /* it is no socket */
	return false;
}

static bool can_try(int fd, int flags)
{
	return !(flags & ~KNOWN_FLAGS) &&
	       sn_likely(!atomic_load_explicit(&low_water, memory_order_relaxed) ||
			 !has_low_water(fd));
}

static bool is_stream(int fd)
{
	int type = 0;
	socklen_t size = sizeof type;

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/*
 * MSG_WAITALL on a stream: receives the rest after `done` bytes. Leaves an error to the next call,
 * as the kernel does.
 */
static ssize_t receive_rest(struct sn_hook_call *call, char *buf, size_t n, int flags, size_t done)
{
	while (done < n) {
		const enum sn_hook_step step = sn_hook_wait(call);
		ssize_t more;

		if (step == SN_HOOK_FAIL || (step == SN_HOOK_AGAIN && (call->revents & POLLERR)))
			break;
		more = sn_real.recv(call->fd, buf + done, n - done,
				    step == SN_HOOK_AGAIN ? flags | MSG_DONTWAIT : flags);
		if (more > 0) {
			done += (size_t)more;
			call->rounds = 0;
		} else if (more == 0 || !sn_hook_would_block() || step != SN_HOOK_AGAIN) {
			break;
		}
	}
	return (ssize_t)done;
}

static ssize_t receive(int fd, void *buf, size_t n, int flags, struct sockaddr *from,
		       socklen_t *length)
{
	struct sn_hook_call call = {
		.fd = fd, .events = POLLIN, .tried = true, .timeout = SO_RCVTIMEO};
	enum sn_hook_step step = SN_HOOK_AGAIN;
	ssize_t got;

	n = sn_hook_at_once(n);
	do {
		got = sn_real.recvfrom(fd, buf, n, flags | MSG_DONTWAIT, from, length);
		if (got >= 0 || !sn_hook_would_block())
			break;
		step = sn_hook_wait(&call);
	} while (step == SN_HOOK_AGAIN);
	if (step == SN_HOOK_FAIL)
		return -1;
	if (step == SN_HOOK_PASS)
		return sn_real.recvfrom(fd, buf, n, flags, from, length);
	if ((flags & MSG_WAITALL) && got > 0 && (size_t)got < n && is_stream(fd))
		return receive_rest(&call, buf, n, flags, (size_t)got);
	return got;
}

/* MSG_WAITALL with MSG_PEEK or MSG_TRUNC: such a call may wait for a number of bytes, which no poll
 * reports. */
static bool waits_unusually(int flags)
{
	return (flags & MSG_WAITALL) && (flags & (MSG_PEEK | MSG_TRUNC));
}

SN_HOOK(ssize_t, recvfrom,
	(int fd, void *buf, size_t n, int flags, struct sockaddr *from, socklen_t *length))
{
	int err;

	if (!sn_hook_caller() || n == 0 || !can_try(fd, flags) || waits_unusually(flags))
		return sn_real.recvfrom(fd, buf, n, flags, from, length);
	err = sn_hook_errno();
	return sn_hook_kept(receive(fd, buf, n, flags, from, length), err);
}

SN_HOOK(ssize_t, recv, (int fd, void *buf, size_t n, int flags))
{
	int err;

	if (!sn_hook_caller() || n == 0 || !can_try(fd, flags) || waits_unusually(flags))
		return sn_real.recv(fd, buf, n, flags);
	err = sn_hook_errno();
	return sn_hook_kept(receive(fd, buf, n, flags, NULL, NULL), err);
}

/* recvmsg(), or its variant for 64-bit times. */
typedef ssize_t receive_fn(int fd, struct msghdr *message, int flags);

static ssize_t receive_message(int fd, struct msghdr *message, int flags, receive_fn *real)
{
	struct sn_hook_call call = {
		.fd = fd, .events = POLLIN, .tried = true, .timeout = SO_RCVTIMEO};
	enum sn_hook_step step = SN_HOOK_AGAIN;
	ssize_t got;

	do {
		got = real(fd, message, flags | MSG_DONTWAIT);
		if (got >= 0 || !sn_hook_would_block())
			return got;
		step = sn_hook_wait(&call);
	} while (step == SN_HOOK_AGAIN);
	return step == SN_HOOK_FAIL ? -1 : real(fd, message, flags);
}

SN_HOOK(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags))
{
	int err;

	if (!sn_hook_caller() || (flags & MSG_WAITALL) || !can_try(fd, flags))
		return sn_real.recvmsg(fd, message, flags);
	err = sn_hook_errno();
	return sn_hook_kept(receive_message(fd, message, flags, sn_real.recvmsg), err);
}

/* ---- several messages ---- */

/* recvmmsg() without a timeout, or its variant for 64-bit times. */
typedef int receive_several_fn(int fd, struct mmsghdr *messages, unsigned n, int flags);

static int try_several(int fd, struct mmsghdr *messages, unsigned n, int flags)
{
	return sn_real.recvmmsg(fd, messages, n, flags, NULL);
}

/*
 * SO_RCVTIMEO limits the wait for each message. As in the kernel, the caller's timeout is checked
 * after each message, and ends no wait. With a timeout, messages are received one at a time. An
 * error after some messages is left to the next call.
 */
static int receive_several(int fd, struct mmsghdr *messages, unsigned n, int flags,
			   int64_t deadline, receive_several_fn *several)
{
	const struct sn_hook_call fresh = {
		.fd = fd, .events = POLLIN, .tried = true, .timeout = SO_RCVTIMEO};
	const bool limited = deadline != SN_NO_DEADLINE;
	struct sn_hook_call call = fresh;
	enum sn_hook_step step = SN_HOOK_AGAIN;
	unsigned done = 0;

	while (done < n) {
		const int more = several(fd, messages + done, limited ? 1 : n - done,
					 step == SN_HOOK_PASS ? flags : flags | MSG_DONTWAIT);

		if (more <= 0 && (step == SN_HOOK_PASS || !sn_hook_would_block()))
			break;
		if (more > 0) {
			done += (unsigned)more;
			call = fresh;
			if (flags & MSG_WAITFORONE || (limited && sn_now() >= deadline) ||
			    (step == SN_HOOK_PASS && !limited))
				break;
		}
		if (done < n && step == SN_HOOK_AGAIN)
			step = sn_hook_wait(&call);
		if (step == SN_HOOK_FAIL || (done > 0 && (call.revents & POLLERR)))
			break;
	}
	return done > 0 ? (int)done : -1;
}

static bool receives_several(int fd, unsigned n, int flags, bool limited, int64_t ns)
{
	return sn_hook_caller() && n > 0 && can_try(fd, flags & ~MSG_WAITFORONE) &&
	       !(flags & MSG_WAITALL) && !(limited && (ns < 0 || (flags & MSG_WAITFORONE)));
}

static int64_t ns_left(int64_t deadline)
{
	const int64_t left = deadline - sn_now();

	return left > 0 ? left : 0;
}

SN_HOOK(int, recvmmsg,
	(int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *timeout))
{
	const int64_t ns = timeout ? sn_hook_ns(timeout->tv_sec, timeout->tv_nsec) : 0;
	int64_t deadline, left;
	int done, err;

	if (!receives_several(fd, n, flags, timeout, ns))
		return sn_real.recvmmsg(fd, messages, n, flags, timeout);
	err = sn_hook_errno();
	deadline = timeout ? sn_hook_deadline(ns) : SN_NO_DEADLINE;
	done = receive_several(fd, messages, n, flags, deadline, try_several);
	if (done > 0 && timeout) {
		left = ns_left(deadline);
		*timeout =
			(struct timespec){(time_t)(left / 1000000000), (long)(left % 1000000000)};
	}
	return (int)sn_hook_kept(done, err);
}

/* ---- read ---- */

static ssize_t read_pieces(int fd, const struct iovec *iov, int count)
{
	return count == 1 ? sn_real.read(fd, iov->iov_base, iov->iov_len)
			  : sn_real.readv(fd, iov, count);
}

/* For descriptors without RWF_NOWAIT: one task at a time reads. */
static ssize_t read_in_turn(int fd, const struct iovec *iov, int count)
{
	const struct iovec nothing = {0};
	const enum sn_hook_step step = sn_hook_probed(sn_real.readv(fd, &nothing, 1));
	struct sn_hook_turn turn;
	ssize_t got;

	if (step != SN_HOOK_AGAIN)
		return step == SN_HOOK_FAIL ? -1 : read_pieces(fd, iov, count);
	if (sn_hook_turn_take(&turn, fd, POLLIN, 0) == SN_HOOK_FAIL)
		return -1;
	got = read_pieces(fd, iov, count);
	sn_hook_turn_give(&turn);
	return got;
}

/* Reads a pipe, an eventfd or the like. */
static ssize_t read_by_flag(int fd, const struct iovec *iov, int count)
{
	struct sn_hook_call call = {.fd = fd, .events = POLLIN, .tried = true};
	enum sn_hook_step step = SN_HOOK_AGAIN;
	ssize_t got;
	int err;

	do {
		got = preadv2(fd, iov, count, -1, RWF_NOWAIT);
		err = got < 0 ? sn_hook_errno() : 0;
		if (err == EAGAIN)
			step = sn_hook_wait(&call);
	} while (err == EAGAIN && step == SN_HOOK_AGAIN);
	if (step == SN_HOOK_PASS)
		return read_pieces(fd, iov, count);
	return sn_hook_lacks_flag(err) ? read_in_turn(fd, iov, count) : got;
}

static sn_noinline ssize_t read_other(int fd, const struct iovec *iov, int count)
{
	switch (sn_hook_kind(fd)) {
	case SN_HOOK_PIPE:
	case SN_HOOK_ANONYMOUS:
		return read_by_flag(fd, iov, count);
	case SN_HOOK_FILE:
		return sn_hook_await(fd, POLLIN) == SN_HOOK_FAIL ? -1 : read_pieces(fd, iov, count);
	default:
		return read_in_turn(fd, iov, count);
	}
}

SN_HOOK(ssize_t, read, (int fd, void *buf, size_t n))
{
	ssize_t got;
	int err;

	if (!sn_hook_caller() || !sn_hook_may_wait(n) || !can_try(fd, 0))
		return sn_real.read(fd, buf, n);
	err = sn_hook_errno();
	got = receive(fd, buf, n, 0, NULL, NULL);
	if (got < 0 && sn_hook_errno() == ENOTSOCK)
		got = read_other(fd, &(const struct iovec){buf, n}, 1);
	return sn_hook_kept(got, err);
}

SN_HOOK(ssize_t, readv, (int fd, const struct iovec *iov, int count))
{
	struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count};
	ssize_t got;
	int err;

	if (!sn_hook_caller() || count <= 0 || count > IOV_MAX ||
	    !sn_hook_pieces_may_wait(iov, count) || !can_try(fd, 0))
		return sn_real.readv(fd, iov, count);
	err = sn_hook_errno();
	got = receive_message(fd, &message, 0, sn_real.recvmsg);
	if (got < 0 && sn_hook_errno() == ENOTSOCK)
		got = read_other(fd, iov, count);
	return sn_hook_kept(got, err);
}

/* ---- accept ---- */

/*
 * Families in which accept() waits only if the socket has SO_ACCEPTCONN. Others have listeners
 * without it: Bluetooth, NFC, IUCV, and AF_VSOCK before Linux 4.15.
 */
static bool tells_listeners(int family)
{
	return family == AF_INET || family == AF_INET6 || family == AF_UNIX ||
	       family == AF_NETLINK || family == AF_ALG || family == AF_PACKET;
}

/*
 * Where the descriptor does not listen, accept() does not wait: it fails immediately, or succeeds,
 * for AF_ALG. Such a descriptor may never be readable, so the call is passed through, but only in
 * families that tell. FAIL is as in sn_hook_probed(). Any other error than these two says nothing,
 * because a sandbox may refuse getsockopt().
 */
static enum sn_hook_step probe_accept(int fd)
{
	int listens = 0, family = 0;
	socklen_t size = sizeof listens;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0)
		return sn_hook_errno() == EBADF || sn_hook_errno() == ENOTSOCK ? SN_HOOK_FAIL
									       : SN_HOOK_AGAIN;
	size = sizeof family;
	if (listens || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0)
		return SN_HOOK_AGAIN;
	return tells_listeners(family) ? SN_HOOK_PASS : SN_HOOK_AGAIN;
}

SN_HOOK(int, accept, (int fd, struct sockaddr *from, socklen_t *length))
{
	enum sn_hook_step step = SN_HOOK_PASS;
	struct sn_hook_turn turn;
	int conn, err;

	if (!sn_hook_caller())
		return sn_real.accept(fd, from, length);
	err = sn_hook_errno();
	if ((step = probe_accept(fd)) == SN_HOOK_PASS)
		return (int)sn_hook_kept(sn_real.accept(fd, from, length), err);
	if (step == SN_HOOK_FAIL ||
	    sn_hook_turn_take(&turn, fd, POLLIN, SO_RCVTIMEO) == SN_HOOK_FAIL)
		return -1;
	conn = sn_real.accept(fd, from, length);
	sn_hook_turn_give(&turn);
	return (int)sn_hook_kept(conn, err);
}

SN_HOOK(int, accept4, (int fd, struct sockaddr *from, socklen_t *length, int flags))
{
	enum sn_hook_step step = SN_HOOK_PASS;
	struct sn_hook_turn turn;
	int conn, err;

	/* The kernel refuses other flags. */
	if (!sn_hook_caller() || (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)))
		return sn_real.accept4(fd, from, length, flags);
	err = sn_hook_errno();
	if ((step = probe_accept(fd)) == SN_HOOK_PASS)
		return (int)sn_hook_kept(sn_real.accept4(fd, from, length, flags), err);
	if (step == SN_HOOK_FAIL ||
	    sn_hook_turn_take(&turn, fd, POLLIN, SO_RCVTIMEO) == SN_HOOK_FAIL)
		return -1;
	conn = sn_real.accept4(fd, from, length, flags);
	sn_hook_turn_give(&turn);
	return (int)sn_hook_kept(conn, err);
}

/* ---- options that matter for receiving ---- */

static void note_low_water(int level, int name)
{
	const struct sn_private_lease *self;

	if (sn_likely(level != SOL_SOCKET || name != SO_RCVLOWAT))
		return;
	/* The runtime's own calls do not count: it sets the option on its own sockets. */
	self = sn_private_self();
	if (!self || !__atomic_load_n(&self->inside, __ATOMIC_RELAXED))
		atomic_store(&low_water, true);
}

SN_HOOK(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t length))
{
	note_low_water(level, name);
	return sn_real.setsockopt(fd, level, name, value, length);
}

/* ---- for programs with 64-bit times ---- */

#if SN_HOOK_TIME64
SN_HOOK(ssize_t, __recvmsg64, (int fd, struct msghdr *message, int flags))
{
	int err;

	if (!sn_hook_caller() || (flags & MSG_WAITALL) || !can_try(fd, flags))
		return sn_real.__recvmsg64(fd, message, flags);
	err = sn_hook_errno();
	return sn_hook_kept(receive_message(fd, message, flags, sn_real.__recvmsg64), err);
}

static int try_several64(int fd, struct mmsghdr *messages, unsigned n, int flags)
{
	return sn_real.__recvmmsg64(fd, messages, n, flags, NULL);
}

SN_HOOK(int, __recvmmsg64,
	(int fd, struct mmsghdr *messages, unsigned n, int flags, struct sn_timespec64 *timeout))
{
	const int64_t ns = timeout ? sn_hook_ns(timeout->sec, timeout->nsec) : 0;
	int64_t deadline, left;
	int done, err;

	if (!receives_several(fd, n, flags, timeout, ns))
		return sn_real.__recvmmsg64(fd, messages, n, flags, timeout);
	err = sn_hook_errno();
	deadline = timeout ? sn_hook_deadline(ns) : SN_NO_DEADLINE;
	done = receive_several(fd, messages, n, flags, deadline, try_several64);
	if (done > 0 && timeout) {
		left = ns_left(deadline);
		*timeout =
			(struct sn_timespec64){left / 1000000000, (int32_t)(left % 1000000000), 0};
	}
	return (int)sn_hook_kept(done, err);
}

SN_HOOK(int, __setsockopt64, (int fd, int level, int name, const void *value, socklen_t length))
{
	note_low_water(level, name);
	return sn_real.__setsockopt64(fd, level, name, value, length);
}
#endif

/* ---- variants that programs compiled with _FORTIFY_SOURCE call ---- */

#ifdef __GLIBC__
_Noreturn void __chk_fail(void);

SN_HOOK(ssize_t, __read_chk, (int fd, void *buf, size_t n, size_t size))
{
	if (n > size)
		__chk_fail();
	return sn_hook_read(fd, buf, n);
}

SN_HOOK(ssize_t, __recv_chk, (int fd, void *buf, size_t n, size_t size, int flags))
{
	if (n > size)
		__chk_fail();
	return sn_hook_recv(fd, buf, n, flags);
}

SN_HOOK(ssize_t, __recvfrom_chk,
	(int fd, void *buf, size_t n, size_t size, int flags, struct sockaddr *from,
	 socklen_t *length))
{
	if (n > size)
		__chk_fail();
	return sn_hook_recvfrom(fd, buf, n, flags, from, length);
}
#endif
