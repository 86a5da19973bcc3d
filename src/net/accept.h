/* SPDX-License-Identifier: MIT */
/*
 * Accepting, whatever the family of the listener.
 *
 * It tries first, and waits only when there is no connection. When descriptors or memory have run
 * out it pauses, which sn_tcp_accept() describes, and tries again.
 */
#ifndef SENNIT_NET_ACCEPT_H
#define SENNIT_NET_ACCEPT_H

#include "net/fd.h"

/* Takes one connection without waiting: 0, -EAGAIN or another error. */
typedef int sn_accept_take(struct sn_fd *listener, struct sn_fd **out);

/* handle: the program's, of a listener. 0, or the errors of sn_tcp_accept(). Within the runtime.
 * Parks. */
int sn_accept(struct sn_fd **out, const void *handle, sn_accept_take *take);

#endif
