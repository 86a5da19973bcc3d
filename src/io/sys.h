/* SPDX-License-Identifier: MIT */
/*
 * System calls on sockets, pipes and files that return a negative errno.
 *
 * They are deliberately not inline: errno's address belongs to the thread, compilers take it for
 * constant within a function, and the functions that use these change threads. Calls that are
 * interrupted by a signal are repeated.
 */
#ifndef SENNIT_IO_SYS_H
#define SENNIT_IO_SYS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "arch/compiler.h"

sn_noinline int sn_sys_socket(int family);
sn_noinline int sn_sys_bind_listen(int fd, const struct sockaddr *address, socklen_t length);
/* A non-blocking, close-on-exec descriptor. */
sn_noinline int sn_sys_accept(int fd);
/* 0 or -EINPROGRESS, or an error. */
sn_noinline int sn_sys_connect(int fd, const struct sockaddr *address, socklen_t length);
/* 0 when connected, -EINPROGRESS when not yet, or the error. */
sn_noinline int sn_sys_connect_result(int fd);
/* The same with one system call less, for a socket that is connected to that address. */
sn_noinline int sn_sys_connected_to(int fd, const struct sockaddr_storage *to);
sn_noinline ssize_t sn_sys_recv(int fd, void *buf, size_t size);
/* more: bytes that do not fill a packet wait up to 200 ms for what is sent next: the rest, or the
 * end. */
sn_noinline ssize_t sn_sys_send(int fd, const void *buf, size_t size, bool more);
sn_noinline ssize_t sn_sys_read(int fd, void *buf, size_t size);
/* Does not raise SIGPIPE either, at the cost of two more system calls. */
sn_noinline ssize_t sn_sys_write(int fd, const void *buf, size_t size);
/* The same for several pieces of memory; size is that of all of them. Sockets take the last. */
sn_noinline ssize_t sn_sys_readv(int fd, const struct iovec *iov, int n);
sn_noinline ssize_t sn_sys_writev(int fd, const struct iovec *iov, int n, size_t size);
sn_noinline ssize_t sn_sys_sendv(int fd, const struct iovec *iov, int n);
/* Looks, and does not wait. */
sn_noinline int sn_sys_poll_now(struct pollfd *fds, size_t n);
/* As sn_sys_recv() of one byte, which is not removed. */
sn_noinline ssize_t sn_sys_peek(int fd);
/* Bytes that can be read now; also 0 at the end, before urgent data, and where it is not known. */
sn_noinline size_t sn_sys_readable(int fd);
/* Neither waits for a pipe; for a socket or file the descriptor's own flag decides. */
sn_noinline ssize_t sn_sys_splice(int in, int out, size_t size, bool hold_sigpipe);
sn_noinline ssize_t sn_sys_sendfile(int out, int in, size_t size, bool hold_sigpipe);
sn_noinline ssize_t sn_sys_copy_file_range(int in, int out, size_t size);
/* Whether poll(2) finds any of the events, or an error or hang-up. */
sn_noinline bool sn_sys_poll(int fd, short events);
/* Whether the program ignores SIGPIPE, so that holding it is unnecessary. */
sn_noinline bool sn_sys_sigpipe_ignored(void);
sn_noinline int sn_sys_set_nonblocking(int fd);
sn_noinline int sn_sys_set_close_on_exec(int fd);
/* 0, -EBADF, -ENOTSOCK, -EPROTOTYPE for what is not TCP, or -EINVAL for what does not listen. */
sn_noinline int sn_sys_is_tcp_listener(int fd);
/* 0, -EBADF, -ENOTSOCK, -EPROTOTYPE for what is not TCP, -EINVAL for what listens, or -ENOTCONN. */
sn_noinline int sn_sys_is_tcp_connection(int fd);
/* Whether a socket is a stream socket. */
sn_noinline bool sn_sys_is_stream(int fd);
/* A non-blocking, close-on-exec pipe: [0] is read, [1] written. */
sn_noinline int sn_sys_pipe(int ends[2]);
/* The capacity in bytes that the pipe has after being asked to change it (0: not asked). */
sn_noinline int sn_sys_pipe_resize(int fd, int size);
sn_noinline int sn_sys_shutdown(int fd, int how);
/* 1 while the connection lives, 0 when both halves were shut, or the error. */
sn_noinline int sn_sys_alive(int fd);
/* For two connections, whose halves may be shut: 0, or the error of one; *failed is its index. */
sn_noinline int sn_sys_failed(const int fds[2], int *failed);
/* SO_RCVLOWAT, or an error. */
sn_noinline int sn_sys_low_water(int fd);
sn_noinline int sn_sys_set_option(int fd, int level, int option, int value);
/* The local address, or the peer's. */
sn_noinline int sn_sys_name(int fd, int peer, struct sockaddr_storage *address, socklen_t *length);
sn_noinline void sn_sys_close(int fd);

#endif
