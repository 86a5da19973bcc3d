/* SPDX-License-Identifier: MIT */
/*
 * The file that stands for a Unix socket's address: making it, and removing it.
 *
 * Mode. bind(2) gives the file the mode of the socket's own inode, less the umask. So fchmod(2) of
 * the socket before it is bound restricts the file from its first moment, without a change of the
 * umask, which belongs to the whole process. What the umask has taken is given back afterwards.
 *
 * Stale files. A process that dies leaves its file. A stale file is detected by connecting a socket
 * of another type to it: the kernel looks for the socket of the file first
 * (ECONNREFUSED when there is none), and compares the types next (EPROTOTYPE). So the owner, if
 * there is one, learns nothing, and need not listen yet. A datagram socket asks, and for it a
 * connection to another datagram socket is a note of its own that nobody else sees.
 *
 * Two that start at once. Both find the file stale; the first removes it and makes its own; the
 * second must not remove that. Therefore:
 *
 *   - The one that has to remove a file holds a reference to its inode (O_PATH) from before it asks
 *     until the removal. So the number of the inode is not given to another file meanwhile, and a
 *     comparison says for certain whether the path still leads to the file that was asked.
 *   - Between that comparison and the removal another one could still come. So the whole is done
 *     while the directory is locked (flock(2)): asking, removing, binding.
 *
 * The lock is for a moment. If somebody holds it for longer (systemd-tmpfiles wants programs to
 * lock a directory that it shall not clean), or if the directory may not be read, it is done
 * without: what is left is the moment between comparing and removing.
 *
 * Removal at the close compares too. The open socket holds a reference to its file, so the number
 * of the inode is not another's, and no one that asks finds the file stale. An adopted socket's
 * file can only be guessed: the kernel tells an administrator which one it is (SIOCUNIXFILE), and
 * others only 32 bits of its number, where it has unix_diag. So the file that is found at the
 * address is noted, and if it is another's, it is removed as if it were the socket's. The one that
 * adopts has to know better (sn_unix_listener_set_unlink()).
 *
 * Rejected: a lock file beside the socket, which would stay or need the same care; binding to a
 * temporary name and renaming, after which the socket has the temporary name as its address; a
 * connection of the same type to ask with, which the owner would have to accept.
 */
#ifndef SENNIT_NET_UNIX_PATH_H
#define SENNIT_NET_UNIX_PATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "net/unix_name.h"

/* In memory of its own, which free() frees. */
struct sn_unix_path {
	/* By this process, or left to it, and not yet removed. Cleared by the remover. */
	_Atomic bool made;
	pid_t owner; /* a child of fork() does not remove it */
	dev_t device;
	ino_t inode;
	char path[sizeof((struct sockaddr_un *)NULL)->sun_path];
};

/*
 * Binds a socket to a path, and lets it listen if it shall. 0, or an error as of sn_unix_listen();
 * then the file is gone. Outside the runtime, in a task: blocks the thread while the file system
 * answers, and may park.
 */
int sn_unix_path_bind(struct sn_unix_path **out, int fd, const struct sn_unix_name *name, int mode,
		      bool listens);

/* Notes the file at the address of a socket that others have bound, whether or not it is that
 * socket's: -ENOENT when there is none, or it is no socket; -ENOMEM and others. Blocks. */
int sn_unix_path_note(struct sn_unix_path **out, const struct sn_unix_name *name);

/* 0 when the file is where it was; -ENOENT when it is gone or replaced, or another error. Any
 * thread. Blocks. */
int sn_unix_path_check(const struct sn_unix_path *path);

/* Removes the file if it is still the one that was made. At most once; any thread. Blocks. */
void sn_unix_path_remove(struct sn_unix_path *path);

#endif
