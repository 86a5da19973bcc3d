/* SPDX-License-Identifier: MIT */
/*
 * Accepting, whatever the family of the listener.
 *
 * Contract. A call tries first, and waits only when there is no connection. When descriptors or
 * memory have run out it pauses, as sn_tcp_accept() describes, and tries again. Several tasks may
 * not accept on one listener at the same time (-EBUSY): the call is an operation on its reading
 * side.
 */
#ifndef SENNIT_NET_ACCEPT_H
#define SENNIT_NET_ACCEPT_H

#include "io/fd.h"

/* Takes one connection without waiting. Returns 0, -EAGAIN or another error. */
typedef int sn_accept_take(struct sn_fd *listener, struct sn_fd **out);

/* The common part of the calls that accept. `listener` is the program's handle; *handle becomes
 * that of the connection. Returns 0, or the errors of sn_tcp_accept(). Parks. */
int sn_accept(void **handle, const void *listener, sn_accept_take *take);

#endif
