/* SPDX-License-Identifier: MIT */
#include "net/sys_udp.h"

#include <errno.h>
#include <netinet/in.h>

static int result(int n)
{
	return n < 0 ? -errno : n;
}

int sn_sys_udp_socket(int family)
{
	return result(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
}

int sn_sys_is_udp(int fd, int *family)
{
	int protocol = 0, err = sn_sys_get_option(fd, SOL_SOCKET, SO_DOMAIN, family);

	if (err == 0)
		err = sn_sys_get_option(fd, SOL_SOCKET, SO_PROTOCOL, &protocol);
	if (err == 0 && ((*family != AF_INET && *family != AF_INET6) || protocol != IPPROTO_UDP))
		err = -EPROTOTYPE;
	return err;
}

int sn_sys_bind(int fd, const struct sockaddr *address, socklen_t length)
{
	return result(bind(fd, address, length));
}

int sn_sys_set_peer(int fd, const struct sockaddr *peer, socklen_t length)
{
	static const struct sockaddr none = {.sa_family = AF_UNSPEC};

	return result(length ? connect(fd, peer, length) : connect(fd, &none, sizeof none));
}

ssize_t sn_sys_recv_from(int fd, void *buf, size_t size, struct sockaddr *peer, socklen_t length)
{
	ssize_t n;

	do {
		n = recvfrom(fd, buf, size, MSG_TRUNC, peer, peer ? &length : NULL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t sn_sys_send_to(int fd, const void *buf, size_t size, const struct sockaddr *peer,
		       socklen_t length)
{
	ssize_t n;

	do {
		n = sendto(fd, buf, size, MSG_NOSIGNAL, length ? peer : NULL, length);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int sn_sys_recv_many(int fd, struct mmsghdr *messages, size_t n)
{
	int count;

	do {
		count = recvmmsg(fd, messages, (unsigned)n, MSG_TRUNC, NULL);
	} while (count < 0 && errno == EINTR);
	return result(count);
}

int sn_sys_send_many(int fd, struct mmsghdr *messages, size_t n)
{
	int count;

	do {
		count = sendmmsg(fd, messages, (unsigned)n, MSG_NOSIGNAL);
	} while (count < 0 && errno == EINTR);
	return result(count);
}

ssize_t sn_sys_recv_error(int fd, struct msghdr *message)
{
	ssize_t n;

	do {
		n = recvmsg(fd, message, MSG_ERRQUEUE | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int sn_sys_get_option(int fd, int level, int option, int *value)
{
	socklen_t length = sizeof *value;

	return result(getsockopt(fd, level, option, value, &length));
}

int sn_sys_set_value(int fd, int level, int option, const void *value, size_t size)
{
	return result(setsockopt(fd, level, option, value, (socklen_t)size));
}
