/* SPDX-License-Identifier: MIT */
/*
 * TCP: listening, accepting and connecting. A connection and a listener are descriptors (fd.h)
 * under other names; what a connection does as a stream is in stream.c.
 *
 * Every operation tries first and waits only when the kernel returns EAGAIN. Public functions enter
 * the runtime, call the static function that does the work and leave; the static ones may change
 * threads, so they keep no self.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <sennit/clock.h>
#include <sennit/tcp.h>
#include <sennit/unstable.h>

#include "net/address.h"
#include "net/fd.h"
#include "net/pipe_pool.h"
#include "net/resolver.h"
#include "net/stream.h"
#include "net/sys.h"
#include "sched/cancel.h"
#include "sched/counters.h"
#include "sched/runtime.h"
#include "sched/schedule.h"
#include "sched/thread.h"

/*
 * Pauses of accepting when descriptors or memory have run out: the first is short, because a
 * session may end at any moment; the last bounds the cost of asking to a few system calls a second.
 */
#define FIRST_PAUSE_NS 5000000
#define LAST_PAUSE_NS 320000000

/* The least time for an address before the next is tried, if there is that much left: a lost packet
 * is sent again after a second, but one that arrives takes less even around the earth. */
#define LEAST_SHARE_NS 250000000

/* Small messages must not wait for the acknowledgement of the one before. On a listener it applies
 * to all connections that are made from then on, which saves a system call for each. */
static void set_no_delay(int fd)
{
	sn_sys_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/* ---- listening ---- */

static int bind_one(const struct addrinfo *info, bool any_family)
{
	int fd = sn_sys_socket(info->ai_family), err;

	if (fd < 0)
		return fd;
	sn_sys_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	set_no_delay(fd);
	if (info->ai_family == AF_INET6)
		sn_sys_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, !any_family);
	err = sn_sys_bind_listen(fd, info->ai_addr, info->ai_addrlen);
	if (err == 0)
		return fd;
	sn_sys_close(fd);
	return err;
}

/* A name may have several addresses: takes the first that is available. ":port" is v6 that also
 * takes v4, or v4 alone. */
static int bind_first(const struct addrinfo *list, bool any_family)
{
	int first_error = -EADDRNOTAVAIL, fd;

	for (int pass = 0; pass < 2; pass++)
		for (const struct addrinfo *info = list; info; info = info->ai_next) {
			if (any_family && (info->ai_family == AF_INET6) != (pass == 0))
				continue;
			if (!any_family && pass > 0)
				continue;
			fd = bind_one(info, any_family);
			if (fd >= 0)
				return fd;
			/* Without IPv6 in the kernel the interesting error is IPv4's. */
			if (first_error == -EADDRNOTAVAIL && fd != -EAFNOSUPPORT)
				first_error = fd;
		}
	return first_error;
}

static int do_listen(struct sn_fd **out, const char *address)
{
	struct addrinfo *list;
	int err = sn_cancel_reason(sn_thread_self()->task), fd;

	if (err == 0)
		err = sn_resolve(&list, address, true, SN_NO_DEADLINE);

	if (err < 0)
		return err;
	fd = bind_first(list, address[0] == ':');
	freeaddrinfo(list);
	if (fd < 0)
		return fd;
	err = sn_fd_open(out, fd, true);
	if (err < 0)
		sn_sys_close(fd);
	else
		(*out)->tcp = true;
	return err;
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

/* Changes nothing of the descriptor before it is certain to be adopted. */
static int do_listener_adopt(struct sn_fd **out, int fd)
{
	int err = sn_sys_is_tcp_listener(fd);

	if (err == 0)
		err = sn_fd_open(out, fd, true);
	if (err < 0)
		return err;
	/* Neither can fail on a socket. No task accepts before this returns. */
	sn_sys_set_close_on_exec(fd);
	sn_sys_set_nonblocking(fd);
	return 0;
}

int sn_tcp_listener_adopt(int fd, sn_tcp_listener **listener)
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

static bool out_of_resources(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM;
}

static int adopt(struct sn_fd **out, int fd)
{
	int err = sn_fd_open(out, fd, true);

	if (err < 0)
		sn_sys_close(fd);
	else
		(*out)->tcp = true;
	return err;
}

/*
 * Takes one connection without waiting. If there is no memory for waiting on it, in the process or
 * in the kernel (which limits the descriptors in an epoll set), it is closed: it cannot be put
 * back.
 */
static int accept_now(struct sn_fd *listener, struct sn_fd **out)
{
	int fd = sn_sys_accept(listener->fd), err;

	if (fd < 0)
		return fd;
	/* Connections in the backlog of an adopted listener may be older than any option of it. */
	if (!listener->tcp)
		set_no_delay(fd);
	err = adopt(out, fd);
	return err == -ENOSPC ? -ENOBUFS : err;
}

/* Waits as long as it takes. */
static int accept_one(struct sn_fd *d, struct sn_fd **out)
{
	int64_t pause = FIRST_PAUSE_NS;
	int n = 0;

	while (n == 0) {
		n = accept_now(d, out);
		if (n == 0)
			return 0;
		if (n == -EAGAIN) {
			n = sn_fd_await(d, SN_SIDE_READ);
		} else if (out_of_resources(n)) {
			atomic_fetch_add_explicit(&sn_counters.accept_pauses, 1,
						  memory_order_relaxed);
			sn_pipes_trim();
			n = sn_fd_pause(d, SN_SIDE_READ, sn_now() + pause);
			if (pause < LAST_PAUSE_NS)
				pause *= 2;
		}
	}
	return n;
}

static int do_accept(sn_tcp_listener *handle, struct sn_fd **out)
{
	struct sn_fd *listener;
	int n = sn_conn_begin(&listener, handle, SN_SIDE_READ);

	if (n < 0)
		return n;
	n = accept_one(listener, out);
	sn_fd_end(listener, SN_SIDE_READ);
	if (n == 0)
		sn_fair_chance(sn_thread_self());
	return n;
}

int sn_tcp_accept(sn_tcp_listener *listener, sn_tcp **conn)
{
	struct sn_fd *d;
	int err;

	if (!conn)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = do_accept(listener, &d);
	if (err == 0)
		*conn = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

/* ---- connecting ---- */

/* Waits for the outcome of a connect that the kernel has begun. */
static int await_connection(struct sn_fd *d, int64_t deadline)
{
	int err = sn_fd_begin(d, SN_SIDE_WRITE);

	if (err < 0)
		return err;
	sn_fd_set_deadline(sn_thread_self(), d, SN_SIDE_WRITE, deadline);
	do {
		err = sn_fd_await(d, SN_SIDE_WRITE);
		if (err == 0)
			err = sn_sys_connect_result(d->fd);
	} while (err == -EINPROGRESS);
	sn_fd_set_deadline(sn_thread_self(), d, SN_SIDE_WRITE, SN_NO_DEADLINE);
	sn_fd_end(d, SN_SIDE_WRITE);
	return err;
}

static int connect_one(struct sn_fd **out, const struct addrinfo *info, int64_t deadline,
		       bool to_write)
{
	int fd = sn_sys_socket(info->ai_family), err, begun;

	if (fd < 0)
		return fd;
	if (to_write)
		sn_sys_set_option(fd, IPPROTO_TCP, TCP_QUICKACK, 0);
	/* Registered with epoll only now: before, an unconnected socket reports a hang-up. */
	begun = sn_sys_connect(fd, info->ai_addr, info->ai_addrlen);
	if (begun < 0 && begun != -EINPROGRESS) {
		sn_sys_close(fd);
		return begun;
	}
	set_no_delay(fd);
	err = adopt(out, fd);
	if (err < 0)
		return err;
	(*out)->acks = to_write ? SN_ACKS_HELD : SN_ACKS_AS_USUAL;
	if (begun == -EINPROGRESS)
		err = await_connection(*out, deadline);
	if (err < 0)
		sn_fd_end_with(sn_thread_self(), *out, SN_FD_CLOSED);
	return err;
}

/* The reason for which the calling task has to stop, or 0. */
static int cancelled(void)
{
	return sn_cancel_reason(sn_thread_self()->task);
}

/* Until when an address may be tried that others follow: an equal share of the time that is
 * left. */
static int64_t end_of_share(int64_t deadline, int addresses)
{
	int64_t now = sn_now(), share;

	if (deadline == SN_NO_DEADLINE || addresses == 1 || now >= deadline)
		return deadline;
	share = (deadline - now) / addresses;
	if (share < LEAST_SHARE_NS)
		share = LEAST_SHARE_NS;
	return share < deadline - now ? now + share : deadline;
}

static int connect_any(struct sn_fd **out, const struct addrinfo *list, int64_t deadline,
		       bool to_write)
{
	int err = -EHOSTUNREACH, left = 0;

	for (const struct addrinfo *info = list; info; info = info->ai_next)
		left++;
	for (const struct addrinfo *info = list; info; info = info->ai_next) {
		int reason = cancelled();

		if (reason == 0 && deadline && sn_now() >= deadline)
			reason = -ETIMEDOUT;
		if (reason < 0) {
			err = reason;
			break;
		}
		err = connect_one(out, info, end_of_share(deadline, left--), to_write);
		if (err == 0)
			break;
	}
	/* That may also be what ended the last attempt. */
	if (err < 0 && cancelled() < 0)
		err = cancelled();
	return err;
}

static int do_connect(struct sn_fd **out, const char *address, int64_t deadline, bool to_write)
{
	struct sockaddr_in numeric;
	struct addrinfo *list;
	int err = cancelled();

	if (err < 0)
		return err;
	/* getaddrinfo() takes 1 us even for numeric addresses. */
	if (sn_address_numeric(&numeric, address))
		return connect_any(out,
				   &(struct addrinfo){.ai_family = AF_INET,
						      .ai_addr = (struct sockaddr *)&numeric,
						      .ai_addrlen = sizeof numeric},
				   deadline, to_write);
	err = sn_resolve(&list, address, false, deadline);
	if (err < 0)
		return err;
	err = connect_any(out, list, deadline, to_write);
	freeaddrinfo(list);
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
	struct sockaddr_storage address;
	struct sn_fd *d;
	socklen_t length;
	int n = buf ? sn_fd_use_handle(&d, handle) : -EINVAL;

	if (n < 0)
		return n;
	n = sn_sys_name(d->fd, peer, &address, &length);
	sn_fd_unuse(d);
	return n < 0 ? n : sn_address_print((struct sockaddr *)&address, length, buf, size);
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

int sn_tcp_listener_fd(sn_tcp_listener *listener)
{
	return sn_conn_descriptor(listener);
}
