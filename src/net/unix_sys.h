/* SPDX-License-Identifier: MIT */
/*
 * System calls on Unix sockets that return a negative errno. As in io/sys.h they are not inline,
 * and repeat calls that a signal has interrupted.
 */
#ifndef SENNIT_NET_UNIX_SYS_H
#define SENNIT_NET_UNIX_SYS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "arch/compiler.h"
#include "net/unix_name.h"

/* type: SOCK_STREAM and the like. Descriptors are non-blocking and close-on-exec. */
sn_noinline int sn_unix_sys_socket(int type);
sn_noinline int sn_unix_sys_pair(int type, int fds[2]);
sn_noinline int sn_unix_sys_bind(int fd, const struct sn_unix_name *name);
sn_noinline int sn_unix_sys_listen(int fd);
/* 0; -EAGAIN when the backlog is full, of which nothing is announced later; or an error. */
sn_noinline int sn_unix_sys_connect(int fd, const struct sn_unix_name *name);
sn_noinline ssize_t sn_unix_sys_send(int fd, const struct msghdr *message);
/* Descriptors that are received are close-on-exec. flags: MSG_TRUNC. */
sn_noinline ssize_t sn_unix_sys_recv(int fd, struct msghdr *message, int flags);
/* The local name, or the peer's. -EPROTOTYPE for another family. */
sn_noinline int sn_unix_sys_name(int fd, bool peer, struct sn_unix_name *name);
/* The type of a Unix socket, SOCK_STREAM and the like; *listens: whether it does. -EBADF,
 * -ENOTSOCK, -EPROTOTYPE for another family. */
sn_noinline int sn_unix_sys_type(int fd, bool *listens);
sn_noinline int sn_unix_sys_credentials(int fd, struct ucred *peer);
sn_noinline int sn_unix_sys_pidfd(int fd);

/* Files. */
sn_noinline int sn_unix_sys_fchmod(int fd, mode_t mode);
/* Follows no link. */
sn_noinline int sn_unix_sys_chmod(const char *path, mode_t mode);
sn_noinline int sn_unix_sys_lstat(const char *path, struct stat *st);
sn_noinline int sn_unix_sys_fstat(int fd, struct stat *st);
sn_noinline int sn_unix_sys_unlink(const char *path);
/* Refers to what is at the path, which need not be possible to open otherwise (O_PATH); follows no
 * link. */
sn_noinline int sn_unix_sys_pin(const char *path);
sn_noinline int sn_unix_sys_open_directory(const char *path);
/* Locks the open file for this descriptor: 0, -EWOULDBLOCK when another has locked it, or an
 * error. */
sn_noinline int sn_unix_sys_lock(int fd);
sn_noinline void sn_unix_sys_unlock(int fd);

#endif
