/* SPDX-License-Identifier: MIT */
/*
 * System calls on Unix sockets that return a negative errno. Like those of io/sys.h they are not
 * inline, and repeat calls that a signal has interrupted.
 */
#ifndef SENNIT_NET_UNIX_SYS_H
#define SENNIT_NET_UNIX_SYS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "arch/compiler.h"
#include "net/unix_name.h"

/* type: SOCK_STREAM and the like. The new descriptors are non-blocking and close-on-exec. */
sn_noinline int sn_unix_sys_socket(int type);
sn_noinline int sn_unix_sys_pair(int type, int fds[2]);
sn_noinline int sn_unix_sys_bind(int fd, const struct sn_unix_name *name);
sn_noinline int sn_unix_sys_listen(int fd);
/* Returns 0, -EAGAIN if the backlog is full (the kernel does not announce room later), or an
 * error. */
sn_noinline int sn_unix_sys_connect(int fd, const struct sn_unix_name *name);
sn_noinline ssize_t sn_unix_sys_send(int fd, const struct msghdr *message);
/* Received descriptors are close-on-exec. flags: MSG_TRUNC or 0. */
sn_noinline ssize_t sn_unix_sys_recv(int fd, struct msghdr *message, int flags);
/* The local name, or the peer's. Returns -EPROTOTYPE for a socket of another family. */
sn_noinline int sn_unix_sys_name(int fd, bool peer, struct sn_unix_name *name);
/* Returns the type of a Unix socket, SOCK_STREAM and the like, with *listens, or -EBADF, -ENOTSOCK,
 * or -EPROTOTYPE for another family. */
sn_noinline int sn_unix_sys_type(int fd, bool *listens);
sn_noinline int sn_unix_sys_credentials(int fd, struct ucred *peer);
sn_noinline int sn_unix_sys_pidfd(int fd);

/* Files. */
sn_noinline int sn_unix_sys_fchmod(int fd, mode_t mode);
/* Does not follow a symbolic link. */
sn_noinline int sn_unix_sys_chmod(const char *path, mode_t mode);
sn_noinline int sn_unix_sys_lstat(const char *path, struct stat *st);
sn_noinline int sn_unix_sys_fstat(int fd, struct stat *st);
sn_noinline int sn_unix_sys_unlink(const char *path);
/* Returns a descriptor that refers to the file at the path without opening it (O_PATH). Does not
 * follow a symbolic link. */
sn_noinline int sn_unix_sys_pin(const char *path);
sn_noinline int sn_unix_sys_open_directory(const char *path);
/* Locks the open file of this descriptor. Returns 0, -EWOULDBLOCK if another one has the lock, or
 * an error. */
sn_noinline int sn_unix_sys_lock(int fd);
sn_noinline void sn_unix_sys_unlock(int fd);

#endif
