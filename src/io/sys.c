/* SPDX-License-Identifier: MIT */
#include "io/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arch/compiler.h"
#include "arch/machine_clock.h"
#include "base/sigpipe.h"
#include "base/standard.h"
#include "io/client_ports.h"

static int result(int n)
{
	return n < 0 ? -errno : n;
}

static ssize_t receive(int fd, void *buf, size_t size, int flags)
{
#if SN_SYS_BY_LIBC
	ssize_t n = recv(fd, buf, size, flags);

	return n < 0 ? -errno : n;
#else
	return sn_sys6(__NR_recvfrom, fd, (long)buf, (long)size, flags, 0, 0);
#endif
}

static ssize_t send_once(int fd, const void *buf, size_t size, int flags)
{
#if SN_SYS_BY_LIBC
	ssize_t n = send(fd, buf, size, flags);

	return n < 0 ? -errno : n;
#else
	return sn_sys6(__NR_sendto, fd, (long)buf, (long)size, flags, 0, 0);
#endif
}

static ssize_t send_message(int fd, const struct msghdr *message, int flags)
{
#if SN_SYS_BY_LIBC
	ssize_t n = sendmsg(fd, message, flags);

	return n < 0 ? -errno : n;
#else
	return sn_sys3(__NR_sendmsg, fd, (long)message, flags);
#endif
}

static ssize_t read_pieces(int fd, const struct iovec *iov, int n)
{
#if SN_SYS_BY_LIBC
	ssize_t got = readv(fd, iov, n);

	return got < 0 ? -errno : got;
#else
	return sn_sys3(__NR_readv, fd, (long)iov, n);
#endif
}

int sn_sys_socket(int family)
{
	return result(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int sn_sys_bind_listen(int fd, const struct sockaddr *address, socklen_t length)
{
	/* The kernel cuts the backlog to net.core.somaxconn. */
	if (bind(fd, address, length) < 0 || listen(fd, 1 << 20) < 0)
		return -errno;
	return 0;
}

int sn_sys_accept(int fd)
{
	int n;

	/* A connection that was reset in the backlog is not a failure of the listener, so this
	 * takes the next one. */
	do {
		n = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	} while (n < 0 && (errno == EINTR || errno == ECONNABORTED));
	return result(n);
}

static int socket_error(int fd)
{
	int err = 0;
	socklen_t length = sizeof err;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length) < 0)
		return -errno;
	return -err;
}

/*
 * Whether the socket is connected to itself. If nothing listens at a port of this machine, the
 * kernel may choose that same port as the socket's own, and TCP connects the socket to itself. The
 * socket would then read what it writes, and keep the port from a server that is about to start.
 * The kernel chooses from all client ports, so this happens once in some ten thousand attempts,
 * which takes a program that waits for its server about a second.
 *
 * Such a socket is set to reset the connection, because an orderly close would occupy the port for
 * another minute.
 */
static bool refuses_itself(int fd, const struct sockaddr_storage *peer, socklen_t length)
{
	static const struct {
		int on, seconds;
	} reset = {1, 0};
	struct sockaddr_storage own;
	socklen_t own_length = sizeof own;

	if (getsockname(fd, (struct sockaddr *)&own, &own_length) < 0 || own_length != length ||
	    memcmp(&own, peer, length) != 0)
		return false;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	return true;
}

int sn_sys_connect_result(int fd)
{
	struct sockaddr_storage peer;
	socklen_t length = sizeof peer;
	int err;

	/* Checked first, because it is the usual result: only a connected socket has a peer. */
	if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0)
		return refuses_itself(fd, &peer, length) ? -ECONNREFUSED : 0;
	if (errno != ENOTCONN)
		return -errno;
	err = socket_error(fd);
	/* No error means that the outcome is not known yet: a wake-up can be spurious. */
	return err < 0 ? err : -EINPROGRESS;
}

static in_port_t port_of(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
					      : ((const struct sockaddr_in *)address)->sin_port;
}

int sn_sys_connected_to(int fd, const struct sockaddr_storage *to)
{
	struct sockaddr_storage own = {0};
	socklen_t length = sizeof own;

	if (!sn_client_ports_include(ntohs(port_of(to))))
		return 0;
	/* Compares only the ports, because the address in `to` may be a wildcard. */
	if (getsockname(fd, (struct sockaddr *)&own, &length) == 0 && port_of(&own) != port_of(to))
		return 0;
	return sn_sys_connect_result(fd);
}

int sn_sys_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	int n = result(connect(fd, address, length));

	if (n == 0)
		return sn_sys_connect_result(fd);
	/* An interrupted connect continues in the background, like one that would block. */
	return n == -EINTR ? -EINPROGRESS : n;
}

ssize_t sn_sys_recv(int fd, void *buf, size_t size)
{
	ssize_t n;

	do {
		n = receive(fd, buf, size, 0);
	} while (n == -EINTR);
	return n;
}

ssize_t sn_sys_send(int fd, const void *buf, size_t size, bool more)
{
	const int flags = more ? MSG_NOSIGNAL | MSG_MORE : MSG_NOSIGNAL;
	ssize_t n;

	do {
		n = send_once(fd, buf, size, flags);
	} while (n == -EINTR);
	return n;
}

bool sn_sys_sigpipe_ignored(void)
{
	struct sigaction action;

	return sigaction(SIGPIPE, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) &&
	       action.sa_handler == SIG_IGN;
}

ssize_t sn_sys_read(int fd, void *buf, size_t size)
{
	ssize_t n;

	do {
		n = read(fd, buf, size);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t sn_sys_write(int fd, const void *buf, size_t size)
{
	enum sn_sigpipe former = sn_sigpipe_hold();
	ssize_t n;

	do {
		n = write(fd, buf, size);
	} while (n < 0 && errno == EINTR);
	n = n < 0 ? -errno : n;
	sn_sigpipe_release(former, n, size);
	return n;
}

ssize_t sn_sys_readv(int fd, const struct iovec *iov, int n)
{
	ssize_t got;

	do {
		got = read_pieces(fd, iov, n);
	} while (got == -EINTR);
	return got;
}

ssize_t sn_sys_writev(int fd, const struct iovec *iov, int n, size_t size)
{
	enum sn_sigpipe former = sn_sigpipe_hold();
	ssize_t put;

	do {
		put = writev(fd, iov, n);
	} while (put < 0 && errno == EINTR);
	put = put < 0 ? -errno : put;
	sn_sigpipe_release(former, put, size);
	return put;
}

ssize_t sn_sys_sendv(int fd, const struct iovec *iov, int n)
{
	/* The kernel does not write to the pieces, so the cast is safe. */
	const struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n};
	ssize_t put;

	do {
		put = send_message(fd, &message, MSG_NOSIGNAL);
	} while (put == -EINTR);
	return put;
}

int sn_sys_poll_now(struct pollfd *fds, size_t n)
{
	int found;

	do {
		found = poll(fds, n, 0);
	} while (found < 0 && errno == EINTR);
	return found < 0 ? -errno : found;
}

ssize_t sn_sys_peek(int fd)
{
	char byte;
	ssize_t n;

	do {
		n = receive(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	} while (n == -EINTR);
	return n;
}

size_t sn_sys_readable(int fd)
{
	int n = 0;

	return ioctl(fd, FIONREAD, &n) < 0 || n < 0 ? 0 : (size_t)n;
}

/*
 * Without SPLICE_F_MORE, which corks the socket: the last segment of a stream that pauses would be
 * held back for 200 ms.
 */
static ssize_t splice_once(int in, int out, size_t size)
{
	ssize_t n;

	do {
		n = splice(in, NULL, out, NULL, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t sn_sys_splice(int in, int out, size_t size, bool hold)
{
	enum sn_sigpipe former;
	ssize_t n;

	if (!hold)
		return splice_once(in, out, size);
	former = sn_sigpipe_hold();
	n = splice_once(in, out, size);
	sn_sigpipe_release(former, n, size);
	return n;
}

static ssize_t sendfile_once(int out, int in, size_t size)
{
	ssize_t n;

	do {
		n = sendfile(out, in, NULL, size);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t sn_sys_sendfile(int out, int in, size_t size, bool hold)
{
	enum sn_sigpipe former;
	ssize_t n;

	if (!hold)
		return sendfile_once(out, in, size);
	former = sn_sigpipe_hold();
	n = sendfile_once(out, in, size);
	sn_sigpipe_release(former, n, size);
	return n;
}

ssize_t sn_sys_copy_file_range(int in, int out, size_t size)
{
	ssize_t n;

	do {
		n = copy_file_range(in, NULL, out, NULL, size, 0);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

bool sn_sys_poll(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	int n;

	do {
		n = poll(&p, 1, 0);
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

int sn_sys_set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	return flags & O_NONBLOCK ? 0 : result(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
}

int sn_sys_set_close_on_exec(int fd)
{
	return result(fcntl(fd, F_SETFD, FD_CLOEXEC));
}

static int socket_option(int fd, int option, int *value)
{
	socklen_t length = sizeof *value;

	return result(getsockopt(fd, SOL_SOCKET, option, value, &length));
}

int sn_sys_low_water(int fd)
{
	int value, err = socket_option(fd, SO_RCVLOWAT, &value);

	return err < 0 ? err : value;
}

/* Returns 1 for a listening TCP socket, 0 for any other TCP socket, or an error. */
static int tcp_listens(int fd)
{
	int family = 0, protocol = 0, listens = 0, err = socket_option(fd, SO_DOMAIN, &family);

	if (err == 0)
		err = socket_option(fd, SO_PROTOCOL, &protocol);
	if (err == 0 && ((family != AF_INET && family != AF_INET6) || protocol != IPPROTO_TCP))
		err = -EPROTOTYPE;
	if (err == 0)
		err = socket_option(fd, SO_ACCEPTCONN, &listens);
	return err < 0 ? err : listens != 0;
}

int sn_sys_is_tcp_listener(int fd)
{
	int n = tcp_listens(fd);

	return n < 0 ? n : n ? 0 : -EINVAL;
}

int sn_sys_is_tcp_connection(int fd)
{
	struct sockaddr_storage peer;
	socklen_t length;
	int n = tcp_listens(fd);

	if (n != 0)
		return n < 0 ? n : -EINVAL;
	n = sn_sys_name(fd, 1, &peer, &length);
	return n < 0 ? n : 0;
}

bool sn_sys_is_stream(int fd)
{
	int type = 0;
	socklen_t length = sizeof type;

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
}

int sn_sys_pipe(int ends[2])
{
	int err = result(pipe2(ends, O_NONBLOCK | O_CLOEXEC));

	for (int i = 0; i < 2 && err == 0; i++) {
		ends[i] = sn_above_standard(ends[i]);
		if (ends[i] < 0) {
			err = -errno;
			close(ends[1 - i]);
		}
	}
	return err;
}

int sn_sys_pipe_resize(int fd, int size)
{
	if (size > 0)
		fcntl(fd, F_SETPIPE_SZ, size);
	return result(fcntl(fd, F_GETPIPE_SZ));
}

int sn_sys_shutdown(int fd, int how)
{
	return result(shutdown(fd, how));
}

/* The kernel reports a reset that arrives after the peer's FIN as EPIPE. */
static int failure(int fd)
{
	int err = socket_error(fd);

	return err == -EPIPE ? -ECONNRESET : err;
}

int sn_sys_alive(int fd)
{
	struct pollfd p = {.fd = fd};

	if (poll(&p, 1, 0) < 0)
		return errno == EINTR ? 1 : -errno;
	if (!(p.revents & POLLERR))
		return p.revents & POLLHUP ? 0 : 1;
	return failure(fd);
}

int sn_sys_failed(const int fds[2], int *failed)
{
	struct pollfd p[2] = {{.fd = fds[0]}, {.fd = fds[1]}};
	int n;

	do {
		n = poll(p, 2, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		*failed = 0;
		return -errno;
	}
	for (int i = 0; i < 2; i++) {
		int err = p[i].revents & POLLERR ? failure(fds[i]) : 0;

		if (err < 0) {
			*failed = i;
			return err;
		}
	}
	return 0;
}

int sn_sys_set_option(int fd, int level, int option, int value)
{
	return result(setsockopt(fd, level, option, &value, sizeof value));
}

int sn_sys_name(int fd, int peer, struct sockaddr_storage *address, socklen_t *length)
{
	struct sockaddr *at = (struct sockaddr *)address;

	*length = sizeof *address;
	return result(peer ? getpeername(fd, at, length) : getsockname(fd, at, length));
}

void sn_sys_close(int fd)
{
	close(fd);
}
