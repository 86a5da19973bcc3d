/* SPDX-License-Identifier: MIT */
/*
 * What the files of UDP share. A UDP socket is a descriptor (io/fd.h) with a state beside it. udp.c
 * opens and closes, udp_receive.c and udp_send.c move datagrams, udp_control.c translates what
 * accompanies them, udp_error.c reads the queue of errors, udp_setting.c has the settings.
 *
 * Every operation tries first. After EAGAIN it waits by its turn (io/turns.h), because several
 * tasks may receive and several may send at once.
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
#include "io/turns.h"

/*
 * What a descriptor of this kind has (own in struct sn_fd). The constants are written by the
 * opener, before the socket is shared.
 */
struct sn_udp_state {
	struct sn_turns turns[2];
	int family;            /* constant */
	uint32_t flags;        /* constant: SN_UDP_* */
	_Atomic bool one_peer; /* a hint; by sn_udp_connect() and sn_udp_set_peer() */
	/*
	 * A negative errno that a call has taken from the socket but did not return, for a receiver
	 * to return; 0: none. Any call sets it (sn_udp_note_error()), one receiver clears it.
	 */
	_Atomic int error;
};

static inline struct sn_udp_state *sn_udp_state(const struct sn_fd *d)
{
	/* Relaxed: it is written before the socket is shared. */
	return atomic_load_explicit(&d->own, memory_order_relaxed);
}

/* The flags with which messages are accompanied by something. */
#define SN_UDP_TELLING (SN_UDP_PACKET_INFO | SN_UDP_TOS | SN_UDP_GRO)

/* The next call that receives returns the error, or one that waits. */
void sn_udp_note_error(struct sn_fd *d, int error);

/* Begins a call that receives or sends; sn_fd_unuse() ends it. */
int sn_udp_begin(struct sn_fd **d, const void *handle, enum sn_side_index side);

/* So many messages go into one system call: enough to make its own cost small for each, and few
 * enough for their headers to fit on a small stack. */
#define SN_UDP_BATCH 32

/* Room for all that may accompany a datagram, also if the program has asked for more by options of
 * its own, such as time stamps. Control messages that do not fit are dropped. */
#define SN_UDP_CONTROL_SIZE 192
struct sn_udp_control {
	_Alignas(struct cmsghdr) unsigned char bytes[SN_UDP_CONTROL_SIZE];
};

/* Whether what the message wants needs control data. */
static inline bool sn_udp_wants_control(const struct sn_udp_message *message)
{
	return message->segment || message->interface || message->local.family ||
	       (message->flags & SN_UDP_HAS_TOS);
}

/* Writes what the message wants into header's control data. family: the socket's. 0 or -EINVAL. */
int sn_udp_put_control(struct msghdr *header, struct sn_udp_control *control,
		       const struct sn_udp_message *message, int family);

/* Reads what came with a datagram into the message, in which these members are zero. */
void sn_udp_get_control(struct msghdr *header, struct sn_udp_message *message);

/* Sets what the options say, on a socket of the family, before it is bound. */
int sn_udp_prepare(int fd, int family, const struct sn_udp_options *options);
#define SN_UDP_KNOWN_FLAGS 255u

#endif
