/* SPDX-License-Identifier: MIT */
/*
 * Unix sockets for the calls of TCP, whose addresses and descriptors may be those of Unix sockets;
 * all of these are streams. Called inside the runtime, which the functions leave while the file
 * system answers.
 */
#ifndef SENNIT_NET_UNIX_H
#define SENNIT_NET_UNIX_H

#include <stdint.h>

#include "io/fd.h"

/*
 * The kinds of descriptors: Unix sockets, and Unix sockets that listen or have an address of their
 * own. `own` in struct sn_fd is a struct sn_unix_path, for the file at the socket's address, or
 * NULL. It is written once: by the opener, before the descriptor is shared, or later by a user
 * (sn_unix_listener_set_unlink()).
 */
extern const struct sn_fd_ops sn_unix_ops sn_hidden, sn_unix_bound_ops sn_hidden;

/* sn_unix_listen() and sn_unix_connect() for streams. May park. */
int sn_unix_listen_stream(struct sn_fd **out, const char *address);
int sn_unix_connect_stream(struct sn_fd **out, const char *address, int64_t deadline);

/* sn_unix_listener_adopt() for streams; returns -EPROTOTYPE for a listener of another type, too. */
int sn_unix_adopt_stream_listener(struct sn_fd **out, int fd);

/* sn_unix_adopt() for streams; returns -EPROTOTYPE for a socket of another type, too. */
int sn_unix_adopt_stream(struct sn_fd **out, int fd);

/* Takes one connection without waiting (accept.h). */
int sn_unix_accept_now(struct sn_fd *listener, struct sn_fd **out);

#endif
