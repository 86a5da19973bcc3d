/* SPDX-License-Identifier: MIT */
/*
 * Unix sockets: listening, accepting, connecting and adopting. A socket and a listener are
 * descriptors (io/fd.h) under other names; stream/stream.c has what a connection does as a stream,
 * and unix_message.c has messages.
 *
 * Paths. Calls that look a path up leave the runtime: if the file system blocks the thread, the
 * lease lets other tasks run.
 *
 * A full backlog. A non-blocking connect(2) returns EAGAIN, and the kernel does not announce when
 * there is room, because a socket that could not connect has no readiness of that kind. Therefore
 * the task tries again at growing intervals (unix_interval.h). In between it waits on the socket's
 * descriptor, so the wait has the descriptor's deadline and can be cancelled. Rejected: a blocking
 * connect(2). It would take a thread for each task that waits, and cancellation would have to
 * interrupt that thread.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include <sennit/clock.h>
#include <sennit/unix.h>

#include "arch/sized.h"
#include "io/fd.h"
#include "io/sys.h"
#include "net/accept.h"
#include "net/unix.h"
#include "net/unix_name.h"
#include "net/unix_path.h"
#include "net/unix_sys.h"
#include "net/unix_wait.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "stream/layer.h"
#include "stream/stream.h"
#include "task/cancel.h"

/* The kernel's number for the type, or -EINVAL. */
static int system_type(enum sn_unix_type type)
{
	switch (type) {
	case SN_UNIX_STREAM:
		return SOCK_STREAM;
	case SN_UNIX_SEQPACKET:
		return SOCK_SEQPACKET;
	case SN_UNIX_DATAGRAM:
		return SOCK_DGRAM;
	default:
		return -EINVAL;
	}
}

static uint8_t kind_of(int system_type)
{
	if (system_type == SOCK_STREAM)
		return SN_KIND_SOCKET;
	return system_type == SOCK_SEQPACKET ? SN_KIND_SEQPACKET : SN_KIND_DATAGRAM;
}

/* Opens fd as a connection; closes fd if that fails. */
static int open_as(struct sn_fd **out, int fd, uint8_t kind, bool register_now)
{
	int err = sn_fd_open(out, &sn_unix_ops, fd, register_now);

	if (err < 0)
		sn_sys_close(fd);
	else
		sn_conn_marks(*out)->kind = kind;
	return err;
}

static void closed(struct sn_fd *d, bool orderly)
{
	sn_layer_closed(d, orderly);
	free(atomic_load_explicit(&d->own, memory_order_relaxed));
}

static void remove_path(struct sn_fd *d)
{
	/* Acquire: sn_unix_listener_set_unlink() may have noted the path after the socket was
	 * opened. */
	struct sn_unix_path *path = atomic_load_explicit(&d->own, memory_order_acquire);

	if (path)
		sn_unix_path_remove(path);
}

static void abandoned(struct sn_fd *d, bool used)
{
	sn_layer_abandoned(d, used);
	remove_path(d);
	free(atomic_exchange(&d->own, NULL));
}

const struct sn_fd_ops sn_unix_ops = {.closed = closed, .abandoned = abandoned};

/*
 * The file is removed before the socket is closed: while the socket is open, others get EADDRINUSE
 * and leave the path alone.
 */
const struct sn_fd_ops sn_unix_bound_ops = {
	.closing = remove_path,
	.closed = closed,
	.abandoned = abandoned,
};

static void close_fd(struct sn_fd *d)
{
	sn_fd_end_with(sn_thread_self(), d, SN_FD_CLOSED);
}

/* ---- listening and binding ---- */

/* Binds outside the runtime, because the file system may block the thread. */
static int bind_to_path(struct sn_unix_path **path, int fd, const struct sn_unix_name *name,
			int mode, bool listens)
{
	int err;

	sn_brief_pay(sn_thread_self());
	sn_runtime_leave();
	err = sn_unix_path_bind(path, fd, name, mode, listens);
	sn_runtime_enter();
	return err;
}

static int bind_any(struct sn_unix_path **path, int fd, const struct sn_unix_name *name, int mode,
		    bool listens)
{
	int err;

	if (sn_unix_name_is_path(name))
		return bind_to_path(path, fd, name, mode, listens);
	err = sn_unix_sys_bind(fd, name);
	return err == 0 && listens ? sn_unix_sys_listen(fd) : err;
}

/* Opens a socket of the kernel's type, bound to the name unless that is NULL. */
static int open_bound(struct sn_fd **out, const struct sn_unix_name *name, int system_type,
		      int mode)
{
	struct sn_unix_path *path = NULL;
	int fd = sn_unix_sys_socket(system_type), err = 0;

	if (fd < 0)
		return fd;
	if (name)
		err = bind_any(&path, fd, name, mode, system_type != SOCK_DGRAM);
	if (err < 0) {
		sn_sys_close(fd);
		return err;
	}
	err = sn_fd_open(out, &sn_unix_bound_ops, fd, true);
	if (err < 0) {
		if (path)
			sn_unix_path_remove(path);
		free(path);
		sn_sys_close(fd);
		return err;
	}
	sn_conn_marks(*out)->kind = kind_of(system_type);
	/* Relaxed: no other task knows the handle yet. */
	atomic_store_explicit(&(*out)->own, path, memory_order_relaxed);
	return 0;
}

static int open_at(struct sn_fd **out, const char *address, int system_type, int mode)
{
	struct sn_unix_name name;
	int err = sn_cancel_reason(sn_thread_self()->task);

	if (err == 0 && (mode < 0 || mode > 0777))
		err = -EINVAL;
	if (err == 0 && address)
		err = sn_unix_name_parse(&name, address);
	return err < 0 ? err : open_bound(out, address ? &name : NULL, system_type, mode);
}

int sn_unix_listen_stream(struct sn_fd **out, const char *address)
{
	return open_at(out, address, SOCK_STREAM, 0);
}

int sn_unix_listen(sn_unix_listener **listener, const char *address,
		   const struct sn_unix_options *options)
{
	struct sn_unix_options own;
	struct sn_fd *d;
	int type, err = SN_SIZED_TAKE(&own, options);

	if (err < 0)
		return err;
	type = system_type(own.type);
	if (!listener || !address || type < 0 || type == SOCK_DGRAM)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = open_at(&d, address, type, own.mode);
	if (err == 0)
		*listener = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

int sn_unix_bind(sn_unix **socket, const char *address, const struct sn_unix_options *options)
{
	struct sn_unix_options own;
	struct sn_fd *d;
	int err = SN_SIZED_TAKE(&own, options);

	if (err < 0)
		return err;
	if (!socket)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = open_at(&d, address, SOCK_DGRAM, own.mode);
	if (err == 0)
		*socket = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

/* ---- accepting ---- */

int sn_unix_accept_now(struct sn_fd *listener, struct sn_fd **out)
{
	int fd = sn_sys_accept(listener->fd), err;

	if (fd < 0)
		return fd;
	err = open_as(out, fd, (uint8_t)sn_conn_kind(listener), true);
	return err == -ENOSPC ? -ENOBUFS : err;
}

int sn_unix_accept(sn_unix_listener *listener, sn_unix **conn)
{
	void *handle;
	int err = conn ? sn_accept(&handle, listener, sn_unix_accept_now) : -EINVAL;

	if (err == 0)
		*conn = handle;
	return err;
}

/* ---- connecting ---- */

static int connect_now(int fd, const struct sn_unix_name *name)
{
	int err;

	if (!sn_unix_name_is_path(name))
		return sn_unix_sys_connect(fd, name);
	sn_brief_pay(sn_thread_self());
	sn_runtime_leave();
	err = sn_unix_sys_connect(fd, name);
	sn_runtime_enter();
	return err;
}

/* Connects, and waits while the backlog is full. Within a write operation, with the deadline
 * set. */
static int connect_patiently(struct sn_fd *d, const struct sn_unix_name *name)
{
	int64_t interval = SN_UNIX_FIRST_INTERVAL_NS;
	int err = sn_fd_check_deadline(d, SN_SIDE_WRITE);

	while (err == 0) {
		err = connect_now(d->fd, name);
		if (err != -EAGAIN)
			break;
		err = sn_unix_pause(d, &interval);
	}
	return err;
}

static int do_connect(struct sn_fd **out, const struct sn_unix_name *name, int system_type,
		      int64_t deadline)
{
	int fd, err = sn_cancel_reason(sn_thread_self()->task);

	if (err < 0)
		return err;
	fd = sn_unix_sys_socket(system_type);
	if (fd < 0)
		return fd;
	/* Registered with epoll only when it is connected, because an unconnected socket reports a
	 * hang-up. */
	err = open_as(out, fd, kind_of(system_type), false);
	if (err < 0)
		return err;
	err = sn_fd_begin(*out, SN_SIDE_WRITE);
	if (err == 0) {
		sn_fd_set_deadline(sn_thread_self(), *out, SN_SIDE_WRITE, deadline);
		err = connect_patiently(*out, name);
		sn_fd_set_deadline(sn_thread_self(), *out, SN_SIDE_WRITE, SN_NO_DEADLINE);
		sn_fd_end(*out, SN_SIDE_WRITE);
	}
	if (err == 0)
		err = sn_fd_register(*out);
	if (err < 0)
		close_fd(*out);
	return err;
}

/* Parses an address to connect to. "@" (any free name) is only for listeners. */
static int parse_peer(struct sn_unix_name *name, const char *address)
{
	int err = sn_unix_name_parse(name, address);

	return err == 0 && sn_unix_name_is_any(name) ? -EINVAL : err;
}

int sn_unix_connect_stream(struct sn_fd **out, const char *address, int64_t deadline)
{
	struct sn_unix_name name;
	int err = parse_peer(&name, address);

	return err < 0 ? err : do_connect(out, &name, SOCK_STREAM, deadline);
}

int sn_unix_connect(sn_unix **conn, const char *address, enum sn_unix_type type, int64_t deadline)
{
	struct sn_unix_name name;
	struct sn_fd *d;
	int err = system_type(type);

	if (!conn || !address || err < 0)
		return -EINVAL;
	type = err;
	err = parse_peer(&name, address);
	if (err < 0)
		return err;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = do_connect(&d, &name, type, deadline);
	if (err == 0)
		*conn = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

/* ---- pairs, and descriptors from elsewhere ---- */

static int make_pair(struct sn_fd *out[2], int system_type)
{
	int fds[2], err = sn_unix_sys_pair(system_type, fds);

	if (err < 0)
		return err;
	err = open_as(&out[0], fds[0], kind_of(system_type), true);
	if (err < 0) {
		sn_sys_close(fds[1]);
		return err;
	}
	err = open_as(&out[1], fds[1], kind_of(system_type), true);
	if (err < 0)
		close_fd(out[0]);
	return err;
}

int sn_unix_pair(sn_unix *ends[2], enum sn_unix_type type)
{
	struct sn_fd *d[2];
	int err = system_type(type);

	if (!ends || err < 0)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = make_pair(d, err);
	for (int i = 0; i < 2 && err == 0; i++)
		ends[i] = sn_fd_handle(d[i]);
	sn_runtime_leave();
	return err;
}

/* Changes nothing of the descriptor until it is certain to be adopted. */
static int do_adopt(struct sn_fd **out, int fd, bool listener)
{
	const struct sn_fd_ops *ops = listener ? &sn_unix_bound_ops : &sn_unix_ops;
	bool listens = false;
	int type = sn_unix_sys_type(fd, &listens), err = type;

	if (type >= 0)
		err = listens == listener ? sn_fd_open(out, ops, fd, true) : -EINVAL;
	if (err < 0)
		return err;
	sn_conn_marks(*out)->kind = kind_of(type);
	/* Neither call can fail on a socket. No task uses it before this function returns. */
	sn_sys_set_close_on_exec(fd);
	sn_sys_set_nonblocking(fd);
	return 0;
}

int sn_unix_adopt_stream_listener(struct sn_fd **out, int fd)
{
	bool listens = false;
	int type = sn_unix_sys_type(fd, &listens);

	if (type >= 0 && type != SOCK_STREAM)
		type = -EPROTOTYPE;
	return type < 0 ? type : do_adopt(out, fd, true);
}

int sn_unix_adopt_stream(struct sn_fd **out, int fd)
{
	bool listens = false;
	int type = sn_unix_sys_type(fd, &listens);

	if (type >= 0 && type != SOCK_STREAM)
		type = -EPROTOTYPE;
	return type < 0 ? type : do_adopt(out, fd, false);
}

static int adopt(void **handle, int fd, bool listener)
{
	struct sn_fd *d;
	int err;

	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = do_adopt(&d, fd, listener);
	if (err == 0)
		*handle = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

int sn_unix_listener_adopt(sn_unix_listener **listener, int fd)
{
	void *handle;
	int err = listener ? adopt(&handle, fd, true) : -EINVAL;

	if (err == 0)
		*listener = handle;
	return err;
}

int sn_unix_adopt(sn_unix **conn, int fd)
{
	void *handle;
	int err = conn ? adopt(&handle, fd, false) : -EINVAL;

	if (err == 0)
		*conn = handle;
	return err;
}

/* ---- calls that do not park ---- */

int sn_unix_listener_close(sn_unix_listener *listener)
{
	return sn_conn_close(listener, 0);
}

/* Notes the path of an adopted listener, if it has one, for a caller that holds a use of the
 * descriptor. *path becomes the descriptor's path, which another thread may have noted first. */
static int note_path(struct sn_fd *d, struct sn_unix_path **path)
{
	struct sn_unix_path *noted;
	struct sn_unix_name name;
	void *none = NULL;
	int err = sn_unix_sys_name(d->fd, false, &name);

	if (err < 0 || !sn_unix_name_is_path(&name))
		return err;
	err = sn_unix_path_note(&noted, &name);
	if (err < 0)
		return err;
	/* The file is not to be removed unless the caller says so. */
	atomic_store(&noted->made, false);
	if (atomic_compare_exchange_strong(&d->own, &none, noted)) {
		*path = noted;
	} else {
		free(noted);
		*path = none;
	}
	return 0;
}

int sn_unix_listener_set_unlink(sn_unix_listener *listener, int on)
{
	struct sn_unix_path *path;
	struct sn_fd *d;
	int err = sn_fd_use_handle(&d, listener);

	if (err < 0)
		return err;
	path = atomic_load(&d->own);
	if (on)
		err = path ? sn_unix_path_check(path) : note_path(d, &path);
	if (path && err == 0)
		err = atomic_exchange(&path->made, on != 0);
	sn_fd_unuse(d);
	return err;
}

int sn_unix_listener_set_deadline(sn_unix_listener *listener, int64_t deadline)
{
	return sn_conn_set_deadline(listener, SN_SIDE_READ, deadline);
}

int sn_unix_listener_fd(sn_unix_listener *listener)
{
	return sn_conn_descriptor(listener);
}

static int print_name(const void *handle, bool peer, char *buf, size_t size)
{
	struct sn_unix_name name;
	struct sn_fd *d;
	int n = buf ? sn_fd_use_handle(&d, handle) : -EINVAL;

	if (n < 0)
		return n;
	n = sn_unix_sys_name(d->fd, peer, &name);
	sn_fd_unuse(d);
	return n < 0 ? n : sn_unix_name_print(&name, buf, size);
}

int sn_unix_listener_address(sn_unix_listener *listener, char *buf, size_t size)
{
	return print_name(listener, false, buf, size);
}

int sn_unix_local_address(sn_unix *conn, char *buf, size_t size)
{
	return print_name(conn, false, buf, size);
}

int sn_unix_peer_address(sn_unix *conn, char *buf, size_t size)
{
	return print_name(conn, true, buf, size);
}

int sn_unix_peer_credentials(sn_unix *conn, struct sn_unix_credentials *peer)
{
	struct ucred from;
	struct sn_fd *d;
	int err = peer ? sn_fd_use_handle(&d, conn) : -EINVAL;

	if (err < 0)
		return err;
	err = sn_unix_sys_credentials(d->fd, &from);
	sn_fd_unuse(d);
	/* The kernel says this of a socket without a peer. */
	if (err == 0 && from.pid == 0 && from.uid == (uid_t)-1)
		err = -ENOTCONN;
	if (err == 0)
		*peer = (struct sn_unix_credentials){from.pid, from.uid, from.gid};
	return err;
}

int sn_unix_peer_pidfd(sn_unix *conn)
{
	struct sn_fd *d;
	int err = sn_fd_use_handle(&d, conn);

	if (err < 0)
		return err;
	err = sn_unix_sys_pidfd(d->fd);
	sn_fd_unuse(d);
	return err;
}
