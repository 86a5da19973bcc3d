/* SPDX-License-Identifier: MIT */
/*
 * Waiting for what the kernel does not announce: room in the backlog of a Unix listener, or in the
 * queue of a datagram socket that the sender is not connected to. unix.c argues the intervals.
 */
#ifndef SENNIT_NET_UNIX_WAIT_H
#define SENNIT_NET_UNIX_WAIT_H

#include <sennit/clock.h>

#include "net/fd.h"

#define SN_UNIX_FIRST_INTERVAL_NS 50000
#define SN_UNIX_LAST_INTERVAL_NS 10000000

/* Waits until the operation that writes should be tried again: 0, or as sn_fd_await(). An edge ends
 * it early. Parks. */
static inline int sn_unix_pause(struct sn_fd *d, int64_t *interval)
{
	int err = sn_fd_pause(d, SN_SIDE_WRITE, sn_now() + *interval);

	*interval *= 2;
	if (*interval > SN_UNIX_LAST_INTERVAL_NS)
		*interval = SN_UNIX_LAST_INTERVAL_NS;
	return err;
}

#endif
