/* SPDX-License-Identifier: MIT */
/*
 * System calls on UDP sockets, as io/sys.h: not inline, repeated after a signal, and returning a
 * negative errno.
 */
#ifndef SENNIT_NET_SYS_UDP_H
#define SENNIT_NET_SYS_UDP_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "arch/compiler.h"

struct mmsghdr;

/* A non-blocking, close-on-exec descriptor. */
sn_noinline int sn_sys_udp_socket(int family);
/* 0, -EBADF, -ENOTSOCK, or -EPROTOTYPE for what is not UDP; *family is the socket's. */
sn_noinline int sn_sys_is_udp(int fd, int *family);
sn_noinline int sn_sys_bind(int fd, const struct sockaddr *address, socklen_t length);
/* Does not wait: there is no handshake. Length 0: for many peers again. */
sn_noinline int sn_sys_set_peer(int fd, const struct sockaddr *peer, socklen_t length);
/* The size that the datagram has, also if it is larger than the buffer. */
sn_noinline ssize_t sn_sys_recv_from(int fd, void *buf, size_t size, struct sockaddr *peer,
				     socklen_t length);
/* Length 0: to the socket's own peer. */
sn_noinline ssize_t sn_sys_send_to(int fd, const void *buf, size_t size,
				   const struct sockaddr *peer, socklen_t length);
/* How many, at least 1. */
sn_noinline int sn_sys_recv_many(int fd, struct mmsghdr *messages, size_t n);
sn_noinline int sn_sys_send_many(int fd, struct mmsghdr *messages, size_t n);
/* One report of the error queue. */
sn_noinline ssize_t sn_sys_recv_error(int fd, struct msghdr *message);
sn_noinline int sn_sys_get_option(int fd, int level, int option, int *value);
sn_noinline int sn_sys_set_value(int fd, int level, int option, const void *value, size_t size);

#endif
