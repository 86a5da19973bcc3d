/* SPDX-License-Identifier: MIT */
/*
 * What the files of UDP share. A UDP socket is a descriptor (io/fd.h) with a struct sn_udp_state.
 * udp.c opens and closes sockets, udp_receive.c and udp_send.c move datagrams, udp_control.c
 * translates their control data, udp_error.c reads the error queue, and udp_setting.c has the
 * settings.
 *
 * Every operation tries first. After EAGAIN it waits for its turn (io/side_queue.h), because
 * several tasks may receive, and several may send, at the same time.
 */
#ifndef SENNIT_NET_UDP_H
#define SENNIT_NET_UDP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <sennit/udp.h>

#include "io/fd.h"
#include "io/side_queue.h"

/*
 * The state of a UDP socket (own in struct sn_fd). The opener writes the constants, before the
 * socket is shared.
 */
struct sn_udp_state {
	struct sn_side_queue queues[2];
	int family;            /* constant */
	uint32_t flags;        /* constant: SN_UDP_* */
	_Atomic bool one_peer; /* a hint; written by sn_udp_connect() and sn_udp_set_peer() */
	/*
	 * A negative errno that a call has taken from the socket but did not return, and that a
	 * receiver is to return; 0: none. Any call sets it (sn_udp_note_error()), one receiver
	 * clears it.
	 */
	_Atomic int error;
	_Atomic int group_interface; /* as set; IPv4 cannot ask the kernel for the index */
};

static inline struct sn_udp_state *sn_udp_state(const struct sn_fd *d)
{
	/* Relaxed: written before the socket is shared. */
	return atomic_load_explicit(&d->own, memory_order_relaxed);
}

/* The flags with which received messages have control data. */
#define SN_UDP_TELLING (SN_UDP_PACKET_INFO | SN_UDP_TOS | SN_UDP_GRO)

/* Makes the next call that receives, or one that waits, return the error. */
void sn_udp_note_error(struct sn_fd *d, int error);

/* Finds the socket and begins a call that receives or sends; sn_fd_unuse() ends it. */
int sn_udp_begin(struct sn_fd **d, const void *handle, enum sn_side_index side);

/* The most messages in one system call: enough to make its cost for each message small, and few
 * enough for their headers to fit on a small stack. */
#define SN_UDP_BATCH 32

/* Room for all control data of a datagram, even if the program has asked for more by its own socket
 * options, such as time stamps. Control messages that do not fit are dropped. */
#define SN_UDP_CONTROL_SIZE 192
struct sn_udp_control {
	_Alignas(struct cmsghdr) unsigned char bytes[SN_UDP_CONTROL_SIZE];
};

/* Whether the message has to be sent with control data. */
static inline bool sn_udp_wants_control(const struct sn_udp_message *message)
{
	return message->segment || message->interface || message->local.family ||
	       (message->flags & SN_UDP_HAS_TOS);
}

/* Writes the control data of a message into the header. family: the socket's. Returns 0 or
 * -EINVAL. */
int sn_udp_put_control(struct msghdr *header, struct sn_udp_control *control,
		       const struct sn_udp_message *message, int family);

/* Reads the control data of a received datagram into the message, whose members for it are zero. */
void sn_udp_get_control(struct msghdr *header, struct sn_udp_message *message);

/* Applies the options to a socket of the family, before it is bound. */
int sn_udp_prepare(int fd, int family, const struct sn_udp_options *options);
#define SN_UDP_KNOWN_FLAGS 255u

#endif
