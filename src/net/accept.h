/* SPDX-License-Identifier: MIT */
/*
 * Accepting, whatever the family of the listener.
 *
 * It tries first, and waits only when there is no connection. When descriptors or memory have run
 * out it pauses, which sn_tcp_accept() describes, and tries again.
 */
#ifndef SENNIT_NET_ACCEPT_H
#define SENNIT_NET_ACCEPT_H

#include "io/fd.h"

/* Takes one connection without waiting: 0, -EAGAIN or another error. */
typedef int sn_accept_take(struct sn_fd *listener, struct sn_fd **out);

/* What the calls that accept have in common: *handle is the connection's, for the program, which
 * gave the listener's. 0, or the errors of sn_tcp_accept(). Parks. */
int sn_accept(void **handle, const void *listener, sn_accept_take *take);

#endif
