/* SPDX-License-Identifier: MIT */
#include "net/unix_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/file.h>
#include <unistd.h>

/* Linux 6.5; older headers lack it. All supported architectures have the same number. */
#ifndef SO_PEERPIDFD
#	define SO_PEERPIDFD 77
#endif

static int result(int n)
{
	return n < 0 ? -errno : n;
}

int sn_unix_sys_socket(int type)
{
	return result(socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int sn_unix_sys_pair(int type, int fds[2])
{
	return result(socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
}

int sn_unix_sys_bind(int fd, const struct sn_unix_name *name)
{
	return result(bind(fd, (const struct sockaddr *)&name->address, name->length));
}

int sn_unix_sys_listen(int fd)
{
	/* The kernel cuts the backlog to net.core.somaxconn. */
	return result(listen(fd, 1 << 20));
}

int sn_unix_sys_connect(int fd, const struct sn_unix_name *name)
{
	int n;

	do {
		n = connect(fd, (const struct sockaddr *)&name->address, name->length);
	} while (n < 0 && errno == EINTR);
	return result(n);
}

ssize_t sn_unix_sys_send(int fd, const struct msghdr *message)
{
	ssize_t n;

	do {
		n = sendmsg(fd, message, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t sn_unix_sys_recv(int fd, struct msghdr *message, int flags)
{
	ssize_t n;

	do {
		n = recvmsg(fd, message, MSG_CMSG_CLOEXEC | flags);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int sn_unix_sys_name(int fd, bool peer, struct sn_unix_name *name)
{
	struct sockaddr *at = (struct sockaddr *)&name->address;
	int err;

	name->length = sizeof name->address;
	err = result(peer ? getpeername(fd, at, &name->length)
			  : getsockname(fd, at, &name->length));
	return err == 0 && name->address.sun_family != AF_UNIX ? -EPROTOTYPE : err;
}

static int option(int fd, int which)
{
	int value = 0;
	socklen_t length = sizeof value;

	return getsockopt(fd, SOL_SOCKET, which, &value, &length) < 0 ? -errno : value;
}

int sn_unix_sys_type(int fd, bool *listens)
{
	int family = option(fd, SO_DOMAIN);

	if (family < 0)
		return family;
	if (family != AF_UNIX)
		return -EPROTOTYPE;
	*listens = option(fd, SO_ACCEPTCONN) > 0;
	return option(fd, SO_TYPE);
}

int sn_unix_sys_credentials(int fd, struct ucred *peer)
{
	socklen_t length = sizeof *peer;

	return result(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &length));
}

int sn_unix_sys_pidfd(int fd)
{
	return option(fd, SO_PEERPIDFD);
}

int sn_unix_sys_fchmod(int fd, mode_t mode)
{
	return result(fchmod(fd, mode));
}

int sn_unix_sys_chmod(const char *path, mode_t mode)
{
	return result(fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW));
}

int sn_unix_sys_lstat(const char *path, struct stat *st)
{
	return result(lstat(path, st));
}

int sn_unix_sys_fstat(int fd, struct stat *st)
{
	return result(fstat(fd, st));
}

int sn_unix_sys_unlink(const char *path)
{
	return result(unlink(path));
}

int sn_unix_sys_pin(const char *path)
{
	return result(open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

int sn_unix_sys_open_directory(const char *path)
{
	return result(open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC));
}

int sn_unix_sys_lock(int fd)
{
	int n;

	do {
		n = flock(fd, LOCK_EX | LOCK_NB);
	} while (n < 0 && errno == EINTR);
	return result(n);
}

void sn_unix_sys_unlock(int fd)
{
	flock(fd, LOCK_UN);
}
