/* SPDX-License-Identifier: MIT */
/*
 * Waiting for what the kernel does not announce: room in the backlog of a Unix listener, or in the
 * queue of a datagram socket that the sender is not connected to.
 */
#ifndef SENNIT_NET_UNIX_WAIT_H
#define SENNIT_NET_UNIX_WAIT_H

#include <sennit/clock.h>

#include "io/fd.h"
#include "net/unix_interval.h"

/* Waits until the write operation should be tried again. An edge ends the wait early. Returns 0, or
 * an error like sn_fd_await(). Parks. */
static inline int sn_unix_pause(struct sn_fd *d, int64_t *interval)
{
	int err = sn_fd_pause(d, SN_SIDE_WRITE, sn_now() + *interval);

	*interval = sn_unix_next_interval(*interval);
	return err;
}

#endif
