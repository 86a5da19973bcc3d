/* SPDX-License-Identifier: MIT */
/*
 * System calls on sockets, pipes and files that return a negative errno. Calls that are interrupted
 * by a signal are repeated.
 *
 * They are deliberately not inline. Compilers take errno's address for constant within a function,
 * but it belongs to the thread, and the callers of these functions may change threads.
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

/*
 * The calls that move the bytes of sockets, and readv(), go to the kernel directly. libc's
 * functions are cancellation points: in a process with threads each of them adds two
 * read-modify-writes and two calls, and a thread that the program has cancelled would end in the
 * middle of an operation. They do not wait, because the descriptors are non-blocking; only readv()
 * may, of a file that is not registered, in a bracket. splice() and the calls for pipes, datagrams
 * and Unix sockets are left to libc.
 *
 * The sanitizers need libc's functions to learn which memory the kernel reads and writes, and so
 * does bench/shared to count the calls (SN_SYS_BY_LIBC). 32-bit machines have them, too, because
 * libc makes other system calls, socketcall(2) on i386, recv and send on arm, which filters of
 * system calls may expect, and on arm a signal in a call that is made here could not be unwound,
 * because Thumb code has its frame pointer in the register of the call's number.
 */
#ifndef SN_SYS_BY_LIBC
#	if !SN_TSAN && !SN_ASAN && defined(__LP64__) && \
		(defined(__x86_64__) || defined(__aarch64__) || defined(__riscv))
#		define SN_SYS_BY_LIBC 0
#	else
#		define SN_SYS_BY_LIBC 1
#	endif
#endif

sn_noinline int sn_sys_socket(int family);
sn_noinline int sn_sys_bind_listen(int fd, const struct sockaddr *address, socklen_t length);
/* Returns a non-blocking, close-on-exec descriptor, or an error. */
sn_noinline int sn_sys_accept(int fd);
/* Returns 0, -EINPROGRESS, or an error. */
sn_noinline int sn_sys_connect(int fd, const struct sockaddr *address, socklen_t length);
/* Returns 0 when connected, -EINPROGRESS when not yet, or the error. */
sn_noinline int sn_sys_connect_result(int fd);
/* The same for a socket whose connection to that address has succeeded. Needs no system call if the
 * kernel does not choose the address's port for clients (client_ports.h), and otherwise one
 * less. */
sn_noinline int sn_sys_connected_to(int fd, const struct sockaddr_storage *to);
sn_noinline ssize_t sn_sys_recv(int fd, void *buf, size_t size);
/* With `more`, bytes that do not fill a packet wait up to 200 ms for the next send or the
 * shutdown. */
sn_noinline ssize_t sn_sys_send(int fd, const void *buf, size_t size, bool more);
sn_noinline ssize_t sn_sys_read(int fd, void *buf, size_t size);
/* Like sn_sys_send(), does not raise SIGPIPE, at the cost of two more system calls. */
sn_noinline ssize_t sn_sys_write(int fd, const void *buf, size_t size);
/* The same for several pieces of memory; `size` is the sum of their sizes. sn_sys_sendv() is for
 * sockets. */
sn_noinline ssize_t sn_sys_readv(int fd, const struct iovec *iov, int n);
sn_noinline ssize_t sn_sys_writev(int fd, const struct iovec *iov, int n, size_t size);
sn_noinline ssize_t sn_sys_sendv(int fd, const struct iovec *iov, int n);
/* Polls without waiting. */
sn_noinline int sn_sys_poll_now(struct pollfd *fds, size_t n);
/* Like sn_sys_recv() of one byte, but leaves it in the socket. */
sn_noinline ssize_t sn_sys_peek(int fd);
/* How many bytes can be read now; also 0 at the end, before urgent data, and if the kernel cannot
 * say. */
sn_noinline size_t sn_sys_readable(int fd);
/* None of these waits for a pipe. For a socket or file the descriptor's own O_NONBLOCK decides. */
sn_noinline ssize_t sn_sys_splice(int in, int out, size_t size, bool hold_sigpipe);
sn_noinline ssize_t sn_sys_sendfile(int out, int in, size_t size, bool hold_sigpipe);
sn_noinline ssize_t sn_sys_copy_file_range(int in, int out, size_t size);
/* Whether poll(2) finds any of the events, or an error or hang-up. */
sn_noinline bool sn_sys_poll(int fd, short events);
/* Whether the program ignores SIGPIPE, so that blocking it around a call is unnecessary. */
sn_noinline bool sn_sys_sigpipe_ignored(void);
sn_noinline int sn_sys_set_nonblocking(int fd);
sn_noinline int sn_sys_set_close_on_exec(int fd);
/* Returns 0, -EBADF, -ENOTSOCK, -EPROTOTYPE if it is not TCP, or -EINVAL if it does not listen. */
sn_noinline int sn_sys_is_tcp_listener(int fd);
/* Returns 0, -EBADF, -ENOTSOCK, -EPROTOTYPE if it is not TCP, -EINVAL if it listens, or
 * -ENOTCONN. */
sn_noinline int sn_sys_is_tcp_connection(int fd);
/* Whether a socket is a stream socket. */
sn_noinline bool sn_sys_is_stream(int fd);
/* Makes a non-blocking, close-on-exec pipe: ends[0] is for reading, ends[1] for writing. */
sn_noinline int sn_sys_pipe(int ends[2]);
/* Asks for a capacity of `size` bytes, unless that is 0. Returns the capacity that the pipe has
 * then, or an error. */
sn_noinline int sn_sys_pipe_resize(int fd, int size);
sn_noinline int sn_sys_shutdown(int fd, int how);
/* Returns 1 while the connection lives, 0 when both directions have ended, or the connection's
 * error. */
sn_noinline int sn_sys_alive(int fd);
/* Whether one of two connections, whose halves may be shut, has failed. Returns 0, or the error of
 * one of them, whose index goes to *failed. */
sn_noinline int sn_sys_failed(const int fds[2], int *failed);
/* The value of SO_RCVLOWAT, or an error. */
sn_noinline int sn_sys_low_water(int fd);
sn_noinline int sn_sys_set_option(int fd, int level, int option, int value);
/* The local address (peer 0) or the peer's. */
sn_noinline int sn_sys_name(int fd, int peer, struct sockaddr_storage *address, socklen_t *length);
sn_noinline void sn_sys_close(int fd);

#endif
