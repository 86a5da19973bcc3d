/* SPDX-License-Identifier: MIT */
/*
 * Messages of Unix sockets, and the descriptors that accompany bytes.
 *
 * Descriptors. A receiver always has room for as many as a message can carry, and for the other
 * things that the kernel adds if the program has asked it to by setsockopt(2). Therefore a control
 * message that was cut (MSG_CTRUNC) means that the kernel could not open all descriptors of the
 * message, and has dropped the rest. The descriptors that it has opened have arrived. Either all
 * descriptors of a message are handed to the caller, or those that have arrived are closed.
 *
 * Length. MSG_TRUNC makes recvmsg(2) return the length that a message had, not that of the part
 * that fits. On a stream it would discard bytes instead, so it is not used there.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/uio.h>

#include <sennit/unix.h>

#include "io/fd.h"
#include "io/sys.h"
#include "net/unix_name.h"
#include "net/unix_sys.h"
#include "net/unix_wait.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "stream/stream.h"

/* Linux 6.5; older headers lack it. */
#ifndef SCM_PIDFD
#	define SCM_PIDFD 4
#endif

/* Room for credentials, a pidfd, a time stamp and the like. */
#define ROOM_FOR_OTHERS 512

struct control {
	_Alignas(struct cmsghdr) char bytes[CMSG_SPACE(SN_UNIX_FDS_MAX * sizeof(int)) +
					    ROOM_FOR_OTHERS];
};

/* ---- receiving ---- */

/* The descriptors that a control message has opened; they are not aligned. */
struct arrived {
	const unsigned char *first;
	int count;
};

static struct arrived fds_of(struct cmsghdr *c)
{
	return (struct arrived){CMSG_DATA(c), (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int))};
}

static void close_all(struct arrived fds)
{
	for (int i = 0; i < fds.count; i++) {
		int fd;

		memcpy(&fd, fds.first + (size_t)i * sizeof fd, sizeof fd);
		sn_sys_close(fd);
	}
}

/* The descriptors that the peer has sent. Closes pidfds: the program may have asked the kernel for
 * one with each message, for receivers of its own. */
static struct arrived take_fds(struct msghdr *header)
{
	struct arrived fds = {NULL, 0};

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS)
			fds = fds_of(c);
		else if (c->cmsg_type == SCM_PIDFD)
			close_all(fds_of(c));
	}
	return fds;
}

/* Hands what has arrived to the caller. Returns as sn_unix_recv(). */
static ssize_t hand_over(struct sn_unix_message *message, struct msghdr *header, ssize_t length)
{
	const struct sn_unix_name *from = header->msg_name;
	const struct arrived fds = take_fds(header);
	int err = 0;

	if ((size_t)length > message->size || fds.count > message->fd_count)
		err = -EMSGSIZE;
	else if (header->msg_flags & MSG_CTRUNC)
		err = -EMFILE;
	message->length = (size_t)length;
	message->fd_count = err < 0 ? 0 : fds.count;
	if (err < 0)
		close_all(fds);
	else if (fds.count > 0)
		memcpy(message->fds, fds.first, (size_t)fds.count * sizeof(int));
	if (from && message->from_size > 0)
		sn_unix_name_print(from, message->from, message->from_size);
	return err < 0 ? err : length;
}

static ssize_t recv_now(struct sn_fd *d, struct sn_unix_message *message)
{
	struct sn_unix_name from = {0};
	struct iovec piece = {message->data, message->size};
	struct control control;
	struct msghdr header = {.msg_iov = &piece,
				.msg_iovlen = 1,
				.msg_name = &from.address,
				.msg_namelen = sizeof from.address,
				.msg_control = &control,
				.msg_controllen = sizeof control};
	ssize_t n;

	if (sn_conn_kind(d) == SN_KIND_LAYERED)
		return -EPROTOTYPE;
	n = sn_unix_sys_recv(d->fd, &header, sn_conn_has_messages(d) ? MSG_TRUNC : 0);

	if (n < 0)
		return n;
	from.length = header.msg_namelen;
	header.msg_name = &from;
	return hand_over(message, &header, n);
}

static ssize_t do_recv(sn_unix *handle, struct sn_unix_message *message)
{
	struct sn_fd *d;
	ssize_t n = sn_conn_begin(&d, handle, SN_SIDE_READ);

	if (n < 0)
		return n;
	do {
		n = recv_now(d, message);
	} while (n == -EAGAIN && (n = sn_fd_await(d, SN_SIDE_READ)) == 0);
	sn_fd_end(d, SN_SIDE_READ);
	if (n >= 0)
		sn_fair_chance(sn_thread_self());
	return n;
}

ssize_t sn_unix_recv(sn_unix *socket, struct sn_unix_message *message)
{
	ssize_t n;

	if (!message || message->size == 0 || message->size > SSIZE_MAX || message->fd_count < 0)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	n = do_recv(socket, message);
	sn_runtime_leave();
	return n;
}

/* ---- sending ---- */

/* The header of a message and all that it refers to, prepared once for all attempts of a call. It
 * has pointers into itself, so it must not be copied. */
struct outgoing {
	struct sn_unix_name to;
	struct iovec piece;
	struct control control;
	struct msghdr header;
	bool looks_up; /* the address is a path */
};

static int prepare(struct outgoing *out, const struct sn_unix_message *message)
{
	struct msghdr *header = &out->header;
	const size_t size = (size_t)message->fd_count * sizeof(int);

	out->piece = (struct iovec){message->data, message->size};
	*header = (struct msghdr){.msg_iov = &out->piece, .msg_iovlen = 1};
	out->looks_up = false;
	if (message->to) {
		int err = sn_unix_name_parse(&out->to, message->to);

		if (err < 0 || sn_unix_name_is_any(&out->to))
			return err < 0 ? err : -EINVAL;
		header->msg_name = &out->to.address;
		header->msg_namelen = out->to.length;
		out->looks_up = sn_unix_name_is_path(&out->to);
	}
	if (size > 0) {
		struct cmsghdr *c = (struct cmsghdr *)out->control.bytes;

		header->msg_control = c;
		header->msg_controllen = CMSG_SPACE(size);
		memset(c, 0, CMSG_SPACE(size));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(c), message->fds, size);
	}
	return 0;
}

/* Refuses what the kernel would misinterpret or silently ignore: an empty message, which looks like
 * an end, and an address on a connected socket. */
static int check(const struct sn_fd *d, const struct sn_unix_message *message)
{
	if (sn_conn_kind(d) == SN_KIND_DATAGRAM)
		return 0;
	if (sn_conn_kind(d) == SN_KIND_LAYERED)
		return -EPROTOTYPE;
	if (message->size == 0)
		return -EINVAL;
	return message->to ? -EISCONN : 0;
}

/* A path is looked up outside the runtime, because the file system may block the thread. */
static ssize_t send_now(struct sn_fd *d, const struct outgoing *out)
{
	ssize_t n;

	if (!out->looks_up)
		return sn_unix_sys_send(d->fd, &out->header);
	sn_brief_pay(sn_thread_self());
	sn_runtime_leave();
	n = sn_unix_sys_send(d->fd, &out->header);
	sn_runtime_enter();
	return n;
}

/* Room in the queue of the connected peer makes an edge. Room in the queue of another peer does
 * not, so the task tries again after a pause. */
static int wait_for_room(struct sn_fd *d, const struct sn_unix_message *message, int64_t *interval)
{
	return message->to ? sn_unix_pause(d, interval) : sn_fd_await(d, SN_SIDE_WRITE);
}

static ssize_t do_send(sn_unix *handle, const struct sn_unix_message *message)
{
	int64_t interval = SN_UNIX_FIRST_INTERVAL_NS;
	struct outgoing out;
	struct sn_fd *d;
	ssize_t n = prepare(&out, message);

	if (n == 0)
		n = sn_conn_begin(&d, handle, SN_SIDE_WRITE);
	if (n < 0)
		return n;
	n = check(d, message);
	while (n == 0) {
		n = send_now(d, &out);
		if (n != -EAGAIN)
			break;
		n = wait_for_room(d, message, &interval);
	}
	sn_fd_end(d, SN_SIDE_WRITE);
	if (n >= 0)
		sn_fair_chance(sn_thread_self());
	return n;
}

ssize_t sn_unix_send(sn_unix *socket, const struct sn_unix_message *message)
{
	ssize_t n;

	if (!message || message->size > SSIZE_MAX || message->fd_count < 0 ||
	    message->fd_count > SN_UNIX_FDS_MAX || (message->fd_count > 0 && message->size == 0))
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	n = do_send(socket, message);
	sn_runtime_leave();
	return n;
}
