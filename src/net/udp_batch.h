/* SPDX-License-Identifier: MIT */
/*
 * The datagrams of one system call that sends or receives.
 *
 * Contract. A batch is on the stack of the task that makes the call, and only that task uses it.
 * Only what sn_udp_batch_put() has prepared is initialised, because a batch has some kilobytes. The
 * headers refer to the batch itself and to the caller's data, so it must not be copied, and lives
 * no longer than the messages.
 */
#ifndef SENNIT_NET_UDP_BATCH_H
#define SENNIT_NET_UDP_BATCH_H

#include <sys/socket.h>

#include "names/address_value.h"
#include "net/udp.h"

struct sn_udp_batch {
	struct mmsghdr headers[SN_UDP_BATCH];
	struct iovec parts[SN_UDP_BATCH];
	union sn_sockaddr peers[SN_UDP_BATCH];
};

/* Prepares the i-th header, without control data. name: the size of the peer's address; 0: none. */
static inline struct msghdr *sn_udp_batch_put(struct sn_udp_batch *batch, size_t i,
					      const struct sn_udp_message *message, socklen_t name)
{
	batch->parts[i] = (struct iovec){.iov_base = message->data, .iov_len = message->size};
	batch->headers[i].msg_hdr = (struct msghdr){.msg_name = name ? &batch->peers[i] : NULL,
						    .msg_namelen = name,
						    .msg_iov = &batch->parts[i],
						    .msg_iovlen = 1};
	return &batch->headers[i].msg_hdr;
}

#endif
