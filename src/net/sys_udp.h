/* SPDX-License-Identifier: MIT */
/*
 * System calls on UDP sockets. Like those of io/sys.h they are not inline, repeat calls that a
 * signal has interrupted, and return a negative errno.
 */
#ifndef SENNIT_NET_SYS_UDP_H
#define SENNIT_NET_SYS_UDP_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "arch/compiler.h"

struct mmsghdr;

/* Returns a non-blocking, close-on-exec descriptor, or an error. */
sn_noinline int sn_sys_udp_socket(int family);
/* Returns 0, -EBADF, -ENOTSOCK, or -EPROTOTYPE if it is not a UDP socket. Sets *family to the
 * socket's family. */
sn_noinline int sn_sys_is_udp(int fd, int *family);
sn_noinline int sn_sys_bind(int fd, const struct sockaddr *address, socklen_t length);
/* Does not wait, because there is no handshake. With length 0 the socket serves many peers
 * again. */
sn_noinline int sn_sys_set_peer(int fd, const struct sockaddr *peer, socklen_t length);
/* Returns the size of the datagram, even if it is larger than the buffer. */
sn_noinline ssize_t sn_sys_recv_from(int fd, void *buf, size_t size, struct sockaddr *peer,
				     socklen_t length);
/* With length 0, sends to the socket's own peer. */
sn_noinline ssize_t sn_sys_send_to(int fd, const void *buf, size_t size,
				   const struct sockaddr *peer, socklen_t length);
/* Both return the number of messages, at least 1, or an error. */
sn_noinline int sn_sys_recv_many(int fd, struct mmsghdr *messages, size_t n);
sn_noinline int sn_sys_send_many(int fd, struct mmsghdr *messages, size_t n);
/* Takes one report from the error queue. */
sn_noinline ssize_t sn_sys_recv_error(int fd, struct msghdr *message);
sn_noinline int sn_sys_get_option(int fd, int level, int option, int *value);
sn_noinline int sn_sys_set_value(int fd, int level, int option, const void *value, size_t size);

#endif
