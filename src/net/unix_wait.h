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

/* Waits until the operation that writes should be tried again: 0, or as sn_fd_await(). An edge ends
 * it early. Parks. */
static inline int sn_unix_pause(struct sn_fd *d, int64_t *interval)
{
	int err = sn_fd_pause(d, SN_SIDE_WRITE, sn_now() + *interval);

	*interval = sn_unix_next_interval(*interval);
	return err;
}

#endif
