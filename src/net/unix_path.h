/* SPDX-License-Identifier: MIT */
/*
 * The file that stands for a Unix socket's address: making it, and removing it.
 *
 * Mode. bind(2) gives the file the mode of the socket's own inode, less the umask. Therefore
 * fchmod(2) of the socket before it is bound restricts the file from its first moment, without
 * changing the umask, which belongs to the whole process. The bits that the umask has taken away
 * are set again afterwards.
 *
 * Stale files. A process that dies leaves its file. To detect a stale file, a datagram socket
 * connects to it: the kernel first looks for the socket of the file (ECONNREFUSED if there is
 * none), and then compares the types (EPROTOTYPE). The owner, if there is one, does not notice
 * this, and need not listen yet. If the owner is a datagram socket, the connection succeeds, but it
 * is only a note of the connecting socket that no other process sees.
 *
 * Two processes that start at the same time. Both find the file stale; the first removes it and
 * makes its own; the second must not remove that one. Therefore:
 *
 *   - The process that is to remove a file holds a reference to its inode (O_PATH) from before the
 *     check until the removal. During that time the inode's number cannot be given to another file,
 *     so a comparison says for certain whether the path still leads to the file that was checked.
 *   - Another process could still come between that comparison and the removal. Therefore the
 *     directory is locked (flock(2)) during the check, the removal and the bind.
 *
 * The lock is held for a moment only. If another program holds it for longer (systemd-tmpfiles
 * wants programs to lock a directory that it shall not clean), or if the directory may not be read,
 * the process continues without it. What remains then is the moment between comparing and removing.
 *
 * Removal at the close compares, too. The open socket holds a reference to its file, so no other
 * file has the inode's number, and no other process finds the file stale. The file of an adopted
 * socket can only be guessed: the kernel reveals it to an administrator (SIOCUNIXFILE), and only 32
 * bits of its inode's number to others, if it has unix_diag. Therefore the file that is found at
 * the address is noted, and if it belongs to another socket, it is removed all the same. The caller
 * of sn_unix_listener_set_unlink() has to know whose file it is.
 *
 * Who may write what: all fields of struct sn_unix_path except `made` are constant once it is
 * shared.
 *
 * Rejected: a lock file beside the socket, which would stay or need the same care; binding to a
 * temporary name and renaming, after which the socket has the temporary name as its address; a
 * check by a connection of the same type, which the owner would have to accept.
 */
#ifndef SENNIT_NET_UNIX_PATH_H
#define SENNIT_NET_UNIX_PATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "net/unix_name.h"

/* Allocated; free() frees it. */
struct sn_unix_path {
	/* This process is to remove the file, and has not done so yet. Written by the binder and
	 * sn_unix_listener_set_unlink(); sn_unix_path_remove() clears it and then removes the
	 * file. */
	_Atomic bool made;
	pid_t owner; /* a child of fork() does not remove it */
	dev_t device;
	ino_t inode;
	char path[sizeof((struct sockaddr_un *)NULL)->sun_path];
};

/*
 * Binds a socket to a path, and makes it listen if `listens`. Returns 0, or an error of
 * sn_unix_listen(), after which there is no file. Called outside the runtime, in a task: blocks the
 * thread while the file system answers, and may park.
 */
int sn_unix_path_bind(struct sn_unix_path **out, int fd, const struct sn_unix_name *name, int mode,
		      bool listens);

/* Notes the file at the address of a socket that was bound elsewhere, without knowing whether the
 * file is that socket's. Returns -ENOENT if there is no file or it is not a socket, -ENOMEM, or
 * another error. Blocks. */
int sn_unix_path_note(struct sn_unix_path **out, const struct sn_unix_name *name);

/* Returns 0 if the file is still at its path, -ENOENT if it is gone or replaced, or another error.
 * Any thread. Blocks. */
int sn_unix_path_check(const struct sn_unix_path *path);

/* Removes the file if it is still the one that was noted. Does so at most once. Any thread.
 * Blocks. */
void sn_unix_path_remove(struct sn_unix_path *path);

#endif
