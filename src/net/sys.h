/* SPDX-License-Identifier: MIT */
/*
 * System calls on sockets that return a negative errno.
 *
 * Not inline, and on purpose: errno's address belongs to the thread, compilers take it for constant
 * within a function, and the functions that use these change threads. Calls that are interrupted by
 * a signal are repeated.
 */
#ifndef SENNIT_NET_SYS_H
#define SENNIT_NET_SYS_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "arch/compiler.h"

sn_noinline int sn_sys_socket(int family);
sn_noinline int sn_sys_bind_listen(int fd, const struct sockaddr *address, socklen_t length);
/* A non-blocking, close-on-exec descriptor. */
sn_noinline int sn_sys_accept(int fd);
/* 0 or -EINPROGRESS, or an error. */
sn_noinline int sn_sys_connect(int fd, const struct sockaddr *address, socklen_t length);
/* 0 when connected, -EINPROGRESS when not yet, or why not. */
sn_noinline int sn_sys_connect_result(int fd);
sn_noinline ssize_t sn_sys_recv(int fd, void *buf, size_t size);
sn_noinline ssize_t sn_sys_send(int fd, const void *buf, size_t size);
sn_noinline int sn_sys_shutdown(int fd, int how);
/* 1 while the connection lives, 0 when both halves were shut, or why it failed. */
sn_noinline int sn_sys_alive(int fd);
sn_noinline int sn_sys_set_option(int fd, int level, int option, int value);
/* The local address, or the peer's. */
sn_noinline int sn_sys_name(int fd, int peer, struct sockaddr_storage *address, socklen_t *length);
sn_noinline void sn_sys_close(int fd);

#endif
