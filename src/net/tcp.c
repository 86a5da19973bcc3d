/* SPDX-License-Identifier: MIT */
/*
 * TCP: listening, accepting and connecting. A connection and a listener are descriptors (io/fd.h)
 * under other names; stream/stream.c has what a connection does as a stream. If an address or a
 * descriptor is a Unix socket's, unix.c does the work.
 *
 * Every operation tries first and waits only when the kernel returns EAGAIN. Public functions enter
 * the runtime, call the static function that does the work and leave. The static functions may
 * change threads, so they keep no self.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <sennit/clock.h>
#include <sennit/tcp.h>
#include <sennit/unstable.h>

#include "io/fd.h"
#include "io/sys.h"
#include "names/address.h"
#include "names/resolve.h"
#include "net/accept.h"
#include "net/happy_eyeballs.h"
#include "net/unix.h"
#include "net/unix_name.h"
#include "sched/runtime.h"
#include "sched/thread.h"
#include "stream/stream.h"
#include "task/cancel.h"

/* A small message must not wait until the one before it is acknowledged. On a listener the option
 * applies to all later connections, which saves a system call for each. */
static void set_no_delay(int fd)
{
	sn_sys_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/* Opens fd as a connection or listener; closes fd if that fails. */
static int open_as_tcp(struct sn_fd **out, int fd)
{
	int err = sn_fd_open(out, &sn_conn_ops, fd, true);

	if (err < 0)
		sn_sys_close(fd);
	else
		sn_conn_marks(*out)->tcp = true;
	return err;
}

/* ---- listening ---- */

static int bind_one(const struct sn_resolved_address *at, bool any_family)
{
	int fd = sn_sys_socket(at->address.ss_family), err;

	if (fd < 0)
		return fd;
	sn_sys_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	set_no_delay(fd);
	if (at->address.ss_family == AF_INET6)
		sn_sys_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, !any_family);
	err = sn_sys_bind_listen(fd, (const struct sockaddr *)&at->address, at->length);
	if (err == 0)
		return fd;
	sn_sys_close(fd);
	return err;
}

/* Binds to the first address of a name that is available. For ":port" this is an IPv6 socket that
 * also takes IPv4, or an IPv4 socket if there is no IPv6. If IPv6 fails for another reason, such as
 * a port that is in use, IPv4 alone is not what was asked for. */
static int bind_first(const sn_resolved *list, bool any_family)
{
	int first_error = -EADDRNOTAVAIL, fd;

	for (int pass = 0; pass < 2 && first_error == -EADDRNOTAVAIL; pass++)
		for (size_t i = 0; i < list->count; i++) {
			const struct sn_resolved_address *at = &list->addresses[i];

			if (any_family && (at->address.ss_family == AF_INET6) != (pass == 0))
				continue;
			if (!any_family && pass > 0)
				continue;
			fd = bind_one(at, any_family);
			if (fd >= 0)
				return fd;
			/* If the kernel has no IPv6, the error of IPv4 is the interesting one. */
			if (first_error == -EADDRNOTAVAIL && fd != -EAFNOSUPPORT)
				first_error = fd;
		}
	return first_error;
}

static int do_listen(struct sn_fd **out, const char *address)
{
	sn_resolved *list;
	int err, fd;

	if (sn_unix_name_is_meant(address))
		return sn_unix_listen_stream(out, address);
	err = sn_cancel_reason(sn_thread_self()->task);
	if (err == 0)
		err = sn_resolve_text(&list, address, SN_RESOLVE_PASSIVE, SN_NO_DEADLINE);
	if (err < 0)
		return err;
	fd = bind_first(list, address[0] == ':');
	sn_resolved_free(list);
	if (fd < 0)
		return fd;
	return open_as_tcp(out, fd);
}

int sn_tcp_listen(sn_tcp_listener **listener, const char *address)
{
	struct sn_fd *d;
	int err;

	if (!listener || !address)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = do_listen(&d, address);
	if (err == 0)
		*listener = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

/* Changes nothing of the descriptor until it is certain to be adopted. */
static int do_listener_adopt(struct sn_fd **out, int fd)
{
	int err = sn_sys_is_tcp_listener(fd);

	if (err == -EPROTOTYPE)
		return sn_unix_adopt_stream_listener(out, fd);
	if (err == 0)
		err = sn_fd_open(out, &sn_conn_ops, fd, true);
	if (err < 0)
		return err;
	/* Neither call can fail on a socket. No task accepts before this function returns. */
	sn_sys_set_close_on_exec(fd);
	sn_sys_set_nonblocking(fd);
	return 0;
}

int sn_tcp_listener_adopt(sn_tcp_listener **listener, int fd)
{
	struct sn_fd *d;
	int err;

	if (!listener)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = do_listener_adopt(&d, fd);
	if (err == 0)
		*listener = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

/*
 * Takes one connection without waiting. The connection is closed if there is no memory to wait on
 * it, in the process or in the kernel (which limits the descriptors in an epoll set), because it
 * cannot be put back.
 */
static int accept_now(struct sn_fd *listener, struct sn_fd **out)
{
	int fd, err;

	if (sn_fd_ops(listener) == &sn_unix_bound_ops)
		return sn_unix_accept_now(listener, out);
	fd = sn_sys_accept(listener->fd);
	if (fd < 0)
		return fd;
	/* A connection in the backlog of an adopted listener may have been made before the
	 * listener's options were set. */
	if (!sn_conn_is_tcp(listener))
		set_no_delay(fd);
	err = open_as_tcp(out, fd);
	return err == -ENOSPC ? -ENOBUFS : err;
}

int sn_tcp_accept(sn_tcp_listener *listener, sn_tcp **conn)
{
	void *handle;
	int err = conn ? sn_accept(&handle, listener, accept_now) : -EINVAL;

	if (err == 0)
		*conn = handle;
	return err;
}

/* ---- connections from elsewhere ---- */

/* Changes nothing of the descriptor until it is certain to be adopted. */
static int do_adopt(struct sn_fd **out, int fd)
{
	int err = sn_sys_is_tcp_connection(fd);

	if (err == -EPROTOTYPE)
		return sn_unix_adopt_stream(out, fd);
	if (err == 0)
		err = sn_fd_open(out, &sn_conn_ops, fd, true);
	if (err < 0)
		return err;
	/* None of these calls can fail on a socket. No task uses it before this function
	 * returns. */
	sn_sys_set_close_on_exec(fd);
	sn_sys_set_nonblocking(fd);
	set_no_delay(fd);
	sn_conn_marks(*out)->tcp = true;
	return 0;
}

int sn_tcp_adopt(sn_tcp **conn, int fd)
{
	struct sn_fd *d;
	int err;

	if (!conn)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = do_adopt(&d, fd);
	if (err == 0)
		*conn = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

/* ---- connecting ---- */

/*
 * The result of a connect, after the writing side was woken, by an edge or not. A socket has room
 * only once it is connected, so an edge without an error means that it is. An edge with an end does
 * not; such an edge sets irregular, too. Relaxed: the poller writes irregular before it makes the
 * side ready, and this task has seen that.
 */
static int outcome(struct sn_fd *d, bool edge, const struct sn_resolved_address *to)
{
	return edge && !atomic_load_explicit(&d->irregular, memory_order_relaxed)
		       ? sn_sys_connected_to(d->fd, &to->address)
		       : sn_sys_connect_result(d->fd);
}

/* Waits for the outcome of a connect that the kernel has begun. */
static int await_connection(struct sn_fd *d, const struct sn_resolved_address *to, int64_t deadline)
{
	int err = sn_fd_begin(d, SN_SIDE_WRITE);

	if (err < 0)
		return err;
	sn_fd_set_deadline(sn_thread_self(), d, SN_SIDE_WRITE, deadline);
	do {
		err = sn_fd_wait_until(d, SN_SIDE_WRITE, SN_NO_DEADLINE);
		if (err >= 0)
			err = outcome(d, err == 0, to);
	} while (err == -EINPROGRESS);
	sn_fd_set_deadline(sn_thread_self(), d, SN_SIDE_WRITE, SN_NO_DEADLINE);
	sn_fd_end(d, SN_SIDE_WRITE);
	return err;
}

/* Connects to a single address. This is the usual case and needs no second attempt: the descriptor
 * is a connection from the beginning, so it is registered with epoll only once. */
static int connect_one(struct sn_fd **out, const struct sn_resolved_address *to, int64_t deadline,
		       bool to_write)
{
	int begun, err;

	if (deadline && sn_now() >= deadline)
		return -ETIMEDOUT;
	begun = sn_happy_eyeballs_begin_one(out, to, to_write);
	if (begun < 0 && begun != -EINPROGRESS)
		return begun;
	/* Registered only now, because an unconnected socket reports a hang-up. */
	err = sn_fd_register(*out);
	if (err == 0 && begun == -EINPROGRESS)
		err = await_connection(*out, to, deadline);
	if (err < 0)
		sn_fd_end_with(sn_thread_self(), *out, SN_FD_CLOSED);
	return err;
}

static int connect_first(struct sn_fd **out, const sn_resolved *list, int64_t deadline,
			 bool to_write)
{
	int err = sn_happy_eyeballs(out, list, deadline, to_write);

	if (err < 0)
		return err;
	err = sn_fd_register(*out);
	if (err < 0)
		sn_fd_end_with(sn_thread_self(), *out, SN_FD_CLOSED);
	return err;
}

static int connect_any(struct sn_fd **out, const sn_resolved *list, int64_t deadline, bool to_write)
{
	int err;

	if (list->count == 1)
		err = connect_one(out, &list->addresses[0], deadline, to_write);
	else
		err = connect_first(out, list, deadline, to_write);
	if (err == 0)
		sn_conn_marks(*out)->acks = to_write ? SN_ACKS_HELD : SN_ACKS_AS_USUAL;
	return err;
}

static int do_connect(struct sn_fd **out, const char *address, int64_t deadline, bool to_write)
{
	sn_resolved *list;
	int err;

	if (sn_unix_name_is_meant(address))
		return sn_unix_connect_stream(out, address, deadline);
	err = sn_cancel_reason(sn_thread_self()->task);
	if (err == 0)
		err = sn_resolve_text(&list, address, 0, deadline);
	if (err < 0)
		return err;
	err = connect_any(out, list, deadline, to_write);
	sn_resolved_free(list);
	return err;
}

static int connect_in_task(sn_tcp **conn, const char *address, int64_t deadline, bool to_write)
{
	struct sn_fd *d;
	int err;

	if (!conn || !address)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = do_connect(&d, address, deadline, to_write);
	if (err == 0)
		*conn = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

int sn_tcp_connect(sn_tcp **conn, const char *address, int64_t deadline)
{
	return connect_in_task(conn, address, deadline, false);
}

int sn_tcp_connect_to_write(sn_tcp **conn, const char *address, int64_t deadline)
{
	return connect_in_task(conn, address, deadline, true);
}

int sn_tcp_wait_closed(sn_tcp *conn)
{
	int err;

	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = sn_conn_wait_closed(conn);
	sn_runtime_leave();
	return err;
}

/* ---- the rest: calls that do not park ---- */

int sn_tcp_listener_close(sn_tcp_listener *listener)
{
	return sn_conn_close(listener, 0);
}

int sn_tcp_listener_set_deadline(sn_tcp_listener *listener, int64_t deadline)
{
	return sn_conn_set_deadline(listener, SN_SIDE_READ, deadline);
}

static int print_name(const void *handle, int peer, char *buf, size_t size)
{
	union {
		struct sockaddr_storage any;
		struct sn_unix_name local;
	} at;
	struct sn_fd *d;
	socklen_t length;
	int n = buf ? sn_fd_use_handle(&d, handle) : -EINVAL;

	if (n < 0)
		return n;
	n = sn_sys_name(d->fd, peer, &at.any, &length);
	sn_fd_unuse(d);
	if (n < 0)
		return n;
	if (at.any.ss_family != AF_UNIX)
		return sn_address_print((struct sockaddr *)&at.any, length, buf, size);
	at.local.length = length;
	return sn_unix_name_print_meant(&at.local, buf, size);
}

int sn_tcp_listener_address(sn_tcp_listener *listener, char *buf, size_t size)
{
	return print_name(listener, 0, buf, size);
}

int sn_tcp_local_address(sn_tcp *conn, char *buf, size_t size)
{
	return print_name(conn, 0, buf, size);
}

int sn_tcp_peer_address(sn_tcp *conn, char *buf, size_t size)
{
	return print_name(conn, 1, buf, size);
}

static int name_of(const void *handle, int peer, struct sn_address *address)
{
	struct sockaddr_storage name;
	socklen_t length;
	struct sn_fd *d;
	int err = address ? sn_fd_use_handle(&d, handle) : -EINVAL;

	if (err < 0)
		return err;
	err = sn_sys_name(d->fd, peer, &name, &length);
	sn_fd_unuse(d);
	return err < 0 ? err : sn_address_from_sockaddr(address, (struct sockaddr *)&name, length);
}

int sn_tcp_listener_local(sn_tcp_listener *listener, struct sn_address *address)
{
	return name_of(listener, 0, address);
}

int sn_tcp_local(sn_tcp *conn, struct sn_address *address)
{
	return name_of(conn, 0, address);
}

int sn_tcp_peer(sn_tcp *conn, struct sn_address *address)
{
	return name_of(conn, 1, address);
}

int sn_tcp_listener_fd(sn_tcp_listener *listener)
{
	return sn_conn_descriptor(listener);
}
