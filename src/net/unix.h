/* SPDX-License-Identifier: MIT */
/*
 * What the calls for TCP use of Unix sockets, where an address or a descriptor is one of these: all
 * of them are streams. Within the runtime; they leave it while the file system answers.
 */
#ifndef SENNIT_NET_UNIX_H
#define SENNIT_NET_UNIX_H

#include <stdint.h>

#include "io/fd.h"

/* Kinds of descriptors: Unix sockets; and those that listen, or have an address of their own. What
 * a descriptor of these kinds has (own in struct sn_fd) is the file at its address, a struct
 * sn_unix_path, or NULL. It is written once: by the opener, before the descriptor is shared, or by
 * a user later. */
extern const struct sn_fd_ops sn_unix_ops sn_hidden, sn_unix_bound_ops sn_hidden;

/* sn_unix_listen() and sn_unix_connect(). May park. */
int sn_unix_listen_stream(struct sn_fd **out, const char *address);
int sn_unix_connect_stream(struct sn_fd **out, const char *address, int64_t deadline);

/* sn_unix_listener_adopt(); -EPROTOTYPE also for a listener of another type. */
int sn_unix_adopt_stream_listener(struct sn_fd **out, int fd);

/* sn_unix_adopt(); -EPROTOTYPE also for a socket of another type. */
int sn_unix_adopt_stream(struct sn_fd **out, int fd);

/* Takes one connection without waiting (accept.h). */
int sn_unix_accept_now(struct sn_fd *listener, struct sn_fd **out);

#endif
