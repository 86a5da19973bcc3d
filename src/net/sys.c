/* SPDX-License-Identifier: MIT */
#include "net/sys.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

static int result(int n)
{
	return n < 0 ? -errno : n;
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

	/* A connection that was reset while it waited is not the listener's failure: take the next.
	 */
	do {
		n = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	} while (n < 0 && (errno == EINTR || errno == ECONNABORTED));
	return result(n);
}

int sn_sys_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	int n = result(connect(fd, address, length));

	/* Interrupted, a connect goes on in the background like one that would block. */
	return n == -EINTR ? -EINPROGRESS : n;
}

static int socket_error(int fd)
{
	int err = 0;
	socklen_t length = sizeof err;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length) < 0)
		return -errno;
	return -err;
}

int sn_sys_connect_result(int fd)
{
	struct sockaddr_storage peer;
	socklen_t length = sizeof peer;
	int err = socket_error(fd);

	if (err < 0)
		return err;
	/* No error may also mean that it is not decided yet: a wake-up can be spurious. */
	if (getpeername(fd, (struct sockaddr *)&peer, &length) < 0)
		return errno == ENOTCONN ? -EINPROGRESS : -errno;
	return 0;
}

ssize_t sn_sys_recv(int fd, void *buf, size_t size)
{
	ssize_t n;

	do {
		n = recv(fd, buf, size, 0);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t sn_sys_send(int fd, const void *buf, size_t size)
{
	ssize_t n;

	do {
		n = send(fd, buf, size, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int sn_sys_shutdown(int fd, int how)
{
	return result(shutdown(fd, how));
}

int sn_sys_alive(int fd)
{
	struct pollfd p = {.fd = fd};
	int err;

	if (poll(&p, 1, 0) < 0)
		return errno == EINTR ? 1 : -errno;
	if (!(p.revents & (POLLERR | POLLHUP)))
		return 1;
	err = socket_error(fd);
	/* A reset that arrives after the peer's FIN is reported as EPIPE by the kernel. */
	return err == -EPIPE ? -ECONNRESET : err;
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
