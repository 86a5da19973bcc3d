/* SPDX-License-Identifier: MIT */
/*
 * UDP over IPv4 and IPv6, in blocking style.
 *
 * Addresses are strings as in tcp.h, or values (address.h). A socket is for many peers
 * (sn_udp_open()), or for one (sn_udp_connect(), sn_udp_set_peer()). A socket for one peer receives
 * from that peer only.
 *
 *	sn_udp *udp;
 *	struct sn_address peer;
 *	char buf[1500];
 *	ssize_t n = sn_udp_open(&udp, ":7", NULL);
 *
 *	while (n >= 0 && (n = sn_udp_recv(udp, buf, sizeof buf, &peer)) >= 0)
 *		n = sn_udp_send(udp, buf, (size_t)n, &peer);
 *
 * Datagrams. A call moves whole datagrams. A datagram of 0 bytes is valid. One that is larger than
 * the buffer that receives it is reported, with its size, and never cut silently. The network may
 * lose, repeat and reorder datagrams, and the system drops what arrives while the receive buffer is
 * full.
 *
 * IPv4 in IPv6. A socket of IPv6 that is not for IPv6 only also takes part in IPv4. Peers of IPv4
 * have IPv4 addresses here, whatever the socket.
 *
 * Sharing. Any number of tasks may receive from one socket at the same time, and any number may
 * send. Each datagram goes to one of the receivers; which one is not determined. Several sockets
 * may also share a port (SN_UDP_REUSE_PORT), and the system distributes the peers among them.
 *
 * Closing wakes all tasks that wait with -EBADF. The descriptor is closed only after they have
 * left. A call that begins after the close returns -EBADF. It reaches no later socket until four
 * million sockets have used the same place in memory (63 in a 32-bit process).
 *
 * Deadlines are points on sn_now()'s clock, one for receiving and one for sending, which apply to
 * every task. One that is set while tasks wait applies to their waits too; one in the past makes
 * the calls fail immediately; SN_NO_DEADLINE removes it. A call that fails with -ETIMEDOUT has
 * moved nothing and can be repeated. As with streams (stream.h), a call that waits makes one more
 * attempt past its deadline.
 *
 * Cancellation of the task's scope (scope.h) makes calls that receive or send fail with its reason,
 * -ECANCELED or -ETIMEDOUT, also where they would not wait. Nothing is moved then.
 *
 * A task that never has to wait gives way to others from time to time.
 *
 * Threads outside the runtime: calls that return an address, a setting or a descriptor, and those
 * that change settings; calls that wait, send or set a deadline return -ENOTSUP. Signal handlers:
 * none.
 */
#ifndef SENNIT_UDP_H
#define SENNIT_UDP_H

#include <sennit/address.h>
#include <sennit/base.h>

SN_BEGIN

/* A socket. */
typedef struct sn_udp sn_udp;

/* In sn_udp_options.flags. */
#define SN_UDP_REUSE_PORT 1u    /* the user's sockets may share the port, and the peers */
#define SN_UDP_REUSE_ADDRESS 2u /* they may share the port, and all get what groups get */
#define SN_UDP_V6_ONLY 4u       /* a socket of IPv6 takes no part in IPv4 */
#define SN_UDP_BROADCAST 8u     /* may send to broadcast addresses, which is -EACCES without */
#define SN_UDP_PACKET_INFO 16u  /* messages have the local address and the interface */
#define SN_UDP_TOS 32u          /* messages have the type of service, which has the ECN bits */
#define SN_UDP_GRO 64u          /* the system may join datagrams of one peer: segment, below */
#define SN_UDP_ERRORS 128u      /* errors of the network are kept: sn_udp_next_error() */

/* How a socket is opened. SN_UDP_OPTIONS_INIT(), or NULL in its place, is the usual way. */
struct sn_udp_options {
	/* Set by SN_UDP_OPTIONS_INIT(). */
	size_t size SN_SIZE_OF(struct sn_udp_options);
	uint32_t flags;     /* SN_UDP_* */
	int receive_buffer; /* bytes, as SN_UDP_RECEIVE_BUFFER; 0: the system's default */
	int send_buffer;    /* the same of SN_UDP_SEND_BUFFER */
};

/* struct sn_udp_options with its size, and the fields that are given, as .name = value. */
#define SN_UDP_OPTIONS_INIT(...) SN_SIZED_INIT(struct sn_udp_options, __VA_ARGS__)

/*
 * Opens a socket that receives at an address. "127.0.0.1:0" takes any free port, which
 * sn_udp_local_address() returns; ":53" is every address of the machine, in both families unless
 * SN_UDP_V6_ONLY is set. The caller owns *udp and closes it with sn_udp_close(). Datagrams for
 * multicast groups arrive only where this socket has joined them. May park while a name resolves.
 * Errors: -EINVAL for a malformed address or an unknown flag; -ENOENT when the name or service is
 * unknown; -EAGAIN when the name service failed for now; -EADDRINUSE when another socket has the
 * port and one of the two does not allow sharing it; -EADDRNOTAVAIL for an address that is not this
 * machine's; -EACCES for a port below 1024 without the right; -EPERM where a policy of the system
 * forbids it; -EAFNOSUPPORT without IPv6 in the system; -EMFILE and -ENFILE when descriptors have
 * run out, -ENOBUFS and -ENOMEM memory; -ENOPROTOOPT for SN_UDP_GRO before Linux 5.0; -ENOSPC past
 * fs.epoll.max_user_watches; -ENOTSUP outside a task.
 */
SN_API SN_CHECK_RESULT int sn_udp_open(sn_udp **udp, const char *address,
				       const struct sn_udp_options *options);

/* The same with an address as a value. Does not park. */
SN_API SN_CHECK_RESULT int sn_udp_open_at(sn_udp **udp, const struct sn_address *address,
					  const struct sn_udp_options *options);

/*
 * Opens a socket for one peer, with a local address that the system chooses. Of a name's addresses
 * it takes the first that there is a route to; nothing is sent, so nothing says whether a peer is
 * there. The deadline limits the lookup, as sn_tcp_connect() describes. May park while a name
 * resolves. Errors: those of sn_udp_open(); -ENETUNREACH and -EHOSTUNREACH without a route;
 * -ETIMEDOUT.
 */
SN_API SN_CHECK_RESULT int sn_udp_connect(sn_udp **udp, const char *address,
					  const struct sn_udp_options *options, int64_t deadline);

/*
 * Takes over a UDP descriptor, such as one that a service manager handed down, and sets what the
 * options say. *udp owns it. The descriptor becomes close-on-exec and non-blocking; O_NONBLOCK
 * affects everyone that shares its open file description. Does not park.
 * Errors, after which fd is the caller's, and its settings may have changed: -EBADF; -ENOTSOCK;
 * -EPROTOTYPE for a socket that is not UDP over IPv4 or IPv6; -EEXIST when it belongs to this
 * runtime already; -EINVAL for an unknown flag; -ENOMEM; -ENOSPC past fs.epoll.max_user_watches;
 * -ENOTSUP outside a task.
 */
SN_API SN_CHECK_RESULT int sn_udp_adopt(sn_udp **udp, int fd, const struct sn_udp_options *options);

/* ---- one datagram ---- */

/*
 * Waits for a datagram. Writes its sender into *peer, unless that is NULL. Returns its size, which
 * may be 0. A datagram that is larger than size is lost: the result is -EMSGSIZE, and buf has its
 * first bytes. (sn_udp_recv_messages() also says how large it was.) On a socket with SN_UDP_GRO
 * this may be several datagrams in one, so use messages there. May park. Errors: -ETIMEDOUT past
 * the read deadline; -EBADF when it was closed, -ECANCELED after sn_udp_cancel(); -ECONNREFUSED and
 * other errors that the network has reported, once each, on a socket for one peer or with
 * SN_UDP_ERRORS; -ENOMEM and -ENOBUFS when the system has no memory; -ENOTSUP outside a task.
 */
SN_API SN_CHECK_RESULT ssize_t sn_udp_recv(sn_udp *udp, void *buf, size_t size,
					   struct sn_address *peer);

/*
 * Sends a datagram to a peer; NULL on a socket for one peer. Waits while the send buffer is full.
 * Returns size. It says nothing about arrival. May park.
 * Errors: -EMSGSIZE for more than 65,507 bytes (65,527 over IPv6), or more than the path takes
 * where fragments are forbidden; -EDESTADDRREQ without a peer; -ENETUNREACH and -EHOSTUNREACH
 * without a route; -EACCES for a broadcast address without SN_UDP_BROADCAST; -EPERM when a firewall
 * of this machine refuses it; -ENOBUFS when the device's queue is full (the system often drops it
 * silently instead) or memory has run out, -ENOMEM; -EAFNOSUPPORT for a peer of another family;
 * -EINVAL for port 0; -ECONNREFUSED and the like for an earlier datagram, on a socket for one
 * peer, in which case this one was not sent; -ETIMEDOUT past the write deadline, -EBADF,
 * -ECANCELED, -ENOTSUP as above.
 */
SN_API SN_CHECK_RESULT ssize_t sn_udp_send(sn_udp *udp, const void *buf, size_t size,
					   const struct sn_address *peer);

/* ---- messages: several datagrams in one call, and more about each ---- */

/* In sn_udp_message.flags. */
#define SN_UDP_TRUNCATED 1u /* received: larger than the buffer; the rest is gone */
#define SN_UDP_HAS_TOS 2u   /* received: tos is known; to send: use tos for this message */

/* A datagram, and what is known about it or wanted for it. */
struct sn_udp_message {
	void *data;  /* the caller's memory; only read when it is sent */
	size_t size; /* received: the room at data; to send: the number of bytes */
	/* Received: the number of bytes that the datagram had, more than size if it was truncated.
	 * To send: not used. */
	size_t length;
	struct sn_address peer; /* its sender, or to whom to send; none: the socket's one peer */
	/*
	 * Received, with SN_UDP_PACKET_INFO: the address that it was sent to. To send: the address
	 * to send it from; none leaves the choice to the system. The port is not used. An answer
	 * that copies this and the interface therefore goes back the way that the question came.
	 * For a question to a group, or to 255.255.255.255, the system chooses the address. The
	 * broadcast address of a subnet is -EINVAL: whoever serves that has to set another one.
	 */
	struct sn_address local;
	unsigned interface; /* the same: the index of the interface, or 0 */
	/*
	 * Received, with SN_UDP_GRO: the data consist of several datagrams of this many bytes each,
	 * of which the last may be shorter. To send: the system cuts the data into datagrams of
	 * this many bytes (GSO), at most 64. 0: one datagram.
	 */
	uint16_t segment;
	uint8_t tos; /* the type of service, or traffic class: DSCP and, in the low two bits, ECN */
	uint32_t flags; /* SN_UDP_TRUNCATED, SN_UDP_HAS_TOS */
};

/*
 * Waits for a datagram and takes what else has arrived, up to n. For each message the caller sets
 * data and size; this sets the rest. Returns how many were received, at least 1 (0 when n is 0).
 * This and the next call take up to 11 KiB of the task's stack. May park.
 * Errors: as sn_udp_recv(), except that truncated datagrams have a flag instead; an error that
 * comes after the first datagram is returned by the next call.
 */
SN_API SN_CHECK_RESULT int sn_udp_recv_messages(sn_udp *udp, struct sn_udp_message *messages,
						size_t n);

/*
 * Sends the messages in order, waiting while the send buffer is full. The caller sets all members
 * but length. Returns n; or a smaller number, when the message at that index has failed, and a call
 * that begins with it returns its error; or that error, when the first message has failed. On a
 * socket for one peer without SN_UDP_ERRORS, what the network reports of an earlier datagram during
 * the call may be lost. May park. Errors: as sn_udp_send(); -ENETUNREACH or -EINVAL, by the
 * system's version, for a local address that is not this machine's; -EINVAL for more than 64
 * segments, or for segments larger than the device's packets; -EIO where the device cannot cut
 * them; -ENODEV for an unknown interface.
 */
SN_API SN_CHECK_RESULT int sn_udp_send_messages(sn_udp *udp, const struct sn_udp_message *messages,
						size_t n);

/* ---- errors of the network ---- */

/* Where an error came from. */
enum sn_udp_reporter {
	SN_UDP_FROM_LOCAL = 1, /* this machine, such as a datagram larger than the path takes */
	SN_UDP_FROM_ICMP = 2,  /* a host or router on the way; type and code are ICMP's */
	SN_UDP_FROM_ICMP6 = 3, /* the same of ICMPv6 */
};

/* What the network has reported of a datagram that was sent earlier. */
struct sn_udp_error {
	int error; /* an errno value, such as ECONNREFUSED or EMSGSIZE; positive */
	/* Where the datagram was sent. The port may be 0 for SN_UDP_FROM_LOCAL. */
	struct sn_address peer;
	struct sn_address reporter; /* who reported it; none for SN_UDP_FROM_LOCAL */
	enum sn_udp_reporter from;  /* what kind of reporter that is */
	uint8_t type;               /* ICMP's or ICMPv6's; 0 for SN_UDP_FROM_LOCAL */
	uint8_t code;               /* the same */
	uint32_t mtu; /* for EMSGSIZE: what the path takes, with IP and UDP headers; else 0 */
};

/*
 * Takes the oldest error that the network has reported, on a socket with SN_UDP_ERRORS. Each error
 * also makes one sn_udp_recv() fail, so that a task that receives learns of it. (Several errors
 * that come at the same time make only one call fail. A datagram that is too large for the path may
 * be reported twice.) Sending to one peer never fails because of another. Does not park. Returns 1
 * with an error, 0 when there is none; -EBADF, -EINVAL. Any task, or thread outside the runtime.
 */
SN_API SN_CHECK_RESULT int sn_udp_next_error(sn_udp *udp, struct sn_udp_error *error);

/* ---- settings ---- */

/* What sn_udp_set() sets. */
enum sn_udp_setting {
	/*
	 * Bytes of memory, which hold fewer bytes of datagrams: small ones take some 770 each. The
	 * system's limits are net.core.rmem_max and wmem_max; with CAP_NET_ADMIN there is none. Set
	 * and returned without the doubling that socket(7) describes.
	 */
	SN_UDP_RECEIVE_BUFFER,
	SN_UDP_SEND_BUFFER,
	SN_UDP_TTL,             /* hops of what is sent to single hosts: 1 to 255 */
	SN_UDP_TYPE_OF_SERVICE, /* DSCP and ECN of what is sent: 0 to 255 */
	SN_UDP_DONT_FRAGMENT,   /* 1: larger than the path takes is -EMSGSIZE; 0: fragments */
	SN_UDP_MULTICAST_TTL,   /* hops of what is sent to groups: 0 to 255, at first 1 */
	SN_UDP_MULTICAST_LOOP,  /* whether this machine receives what it sends to groups: 1, 0 */
	SN_UDP_MULTICAST_INTERFACE, /* the index of the interface for groups; 0: by the routes */
	SN_UDP_MTU,                 /* what the path to the one peer takes; read-only */
};

/*
 * Changes the setting, for both families on a socket that has both. Returns 0; -EINVAL for an
 * unknown setting or a value out of range; -ENODEV or -EADDRNOTAVAIL for an unknown interface;
 * -EBADF. Does not park. Any thread.
 */
SN_API int sn_udp_set(sn_udp *udp, enum sn_udp_setting setting, int value);

/* The value of the setting, or a negative errno; -ENOTCONN for the MTU without a peer. The
 * interface for groups is that of sn_udp_set() on an IPv4 socket, whose kernel does not tell. Does
 * not park. Any thread. */
SN_API int sn_udp_get(sn_udp *udp, enum sn_udp_setting setting);

/*
 * Joins and leaves a multicast group, on one interface (its index, from if_nametoindex()); 0 leaves
 * the choice to the routes. Do not park. Any thread. Return 0; -EINVAL for an address that is no
 * group; -EADDRINUSE when it has joined already; -EADDRNOTAVAIL when it leaves a group that it has
 * not joined; -ENODEV for an unknown interface or without a route; -ENOBUFS past the system's limit
 * (net.ipv4.igmp_max_memberships); -EBADF.
 */
SN_API int sn_udp_join(sn_udp *udp, const struct sn_address *group, unsigned interface);
SN_API int sn_udp_leave(sn_udp *udp, const struct sn_address *group, unsigned interface);

/*
 * Makes the socket one for this peer, in place of an earlier one; NULL: one for many peers again.
 * Datagrams that have arrived before are still received. Does not park. Any thread. Returns 0;
 * -ENETUNREACH and -EHOSTUNREACH without a route; -EAFNOSUPPORT; -EINVAL; -EBADF.
 *
 * The system keeps the local address that it has chosen for the first peer. Another one that cannot
 * be reached from there is refused with -EINVAL or -EAFNOSUPPORT, as one elsewhere after one on
 * this machine; after ::1 an IPv4 peer (::ffff:a.b.c.d) is not refused, but cannot answer. Such a
 * peer needs a socket of its own. NULL takes away a port that the system has chosen: the next
 * datagram to be sent gets another one.
 */
SN_API int sn_udp_set_peer(sn_udp *udp, const struct sn_address *peer);

/* ---- the rest ---- */

/* Write the address that the socket is bound to, and that of its one peer, into buf as text. Return
 * the length; -ENOSPC; -ENOTCONN without a peer; -EBADF. A size of SN_ADDRESS_MAX is always enough.
 * Do not park. Any thread. */
SN_API int sn_udp_local_address(sn_udp *udp, char *buf, size_t size);
SN_API int sn_udp_peer_address(sn_udp *udp, char *buf, size_t size);

/* Get the same addresses as values; return 0. */
SN_API int sn_udp_local(sn_udp *udp, struct sn_address *address);
SN_API int sn_udp_peer(sn_udp *udp, struct sn_address *address);

/* Set the deadline of receiving and of sending. Any task; do not park. Return 0 or -ENOMEM, as
 * sn_stream_set_read_deadline(). */
SN_API int sn_udp_set_read_deadline(sn_udp *udp, int64_t deadline);
SN_API int sn_udp_set_write_deadline(sn_udp *udp, int64_t deadline);

/*
 * Wakes all tasks that wait, and makes every later call that receives or sends fail, with
 * -ECANCELED; the socket itself stays open until it is closed. Any task; does not park. Returns 0.
 */
SN_API int sn_udp_cancel(sn_udp *udp);

/*
 * Closes the socket; tasks that wait get -EBADF. Only a task may call it, so never after sn_run()
 * has returned; in a child of fork() any thread may (run.h). Returns 0, also for NULL; -EBADF when
 * it was closed before. Does not park.
 */
SN_API int sn_udp_close(sn_udp *udp);

/* The descriptor, for setsockopt and the like; it still belongs to the socket. -EBADF when that is
 * closed. Any thread. */
SN_API int sn_udp_fd(sn_udp *udp);

SN_END

#endif
