/* SPDX-License-Identifier: MIT */
/*
 * Addresses as values: an IP address with its port, for sockets that talk to many peers (udp.h).
 *
 * A value that is all zero stands for "none". The unused bytes of a value are 0, so two values are
 * the same address exactly when their bytes are the same: memcmp() compares them, and a table may
 * hash them. An IPv4 address is one of AF_INET, never in its form within IPv6 (::ffff:1.2.3.4):
 * sn_address_parse() and sn_address_from_sockaddr() convert that.
 *
 * Nothing here looks names up, parks or allocates. Threads outside the runtime: all calls. Signal
 * handlers: none.
 */
#ifndef SENNIT_ADDRESS_H
#define SENNIT_ADDRESS_H

#include <sys/socket.h>

#include <sennit/base.h>

SN_BEGIN

/* The most room that an address needs as text, with its terminating zero: "[v6%scope]:port", or
 * "unix:path" of the calls that give Unix sockets' addresses too (tcp.h). */
#define SN_ADDRESS_MAX 120

/* An address of IPv4 or IPv6 with its port, or none. */
struct sn_address {
	uint16_t family;   /* AF_INET or AF_INET6; 0: none */
	uint16_t port;     /* in the machine's byte order */
	uint32_t scope;    /* the interface's index for a link-local IPv6 address; else 0 */
	uint8_t bytes[16]; /* in network order; AF_INET uses the first four, the rest are 0 */
};

/*
 * Parses a numeric address: "127.0.0.1:53", "[::1]:53", "[fe80::1%eth0]:53". An empty host, as in
 * ":53", stands for every IPv6 address, and on a socket that is not for IPv6 only also for every
 * IPv4 address. Returns 0; -EINVAL for a name, a service's name, an unknown interface or anything
 * malformed; -EMFILE or -ENFILE when no descriptor is left to look up an interface's index with.
 */
SN_API int sn_address_parse(struct sn_address *address, const char *text);

/*
 * Writes the address into buf as text that sn_address_parse() reads; a size of SN_ADDRESS_MAX is
 * always enough. Returns its length; -ENOSPC when size is too small; -EINVAL for no address, or
 * NULL.
 */
SN_API int sn_address_text(const struct sn_address *address, char *buf, size_t size);

/* Converts a sockaddr of `size` bytes. Returns 0; -EAFNOSUPPORT for another family than IPv4 and
 * IPv6; -EINVAL for too few bytes. */
SN_API int sn_address_from_sockaddr(struct sn_address *address, const struct sockaddr *from,
				    socklen_t size);

/* Converts an address to a sockaddr, for calls of the system. Returns its size; -EINVAL for no
 * address, or NULL. */
SN_API int sn_address_to_sockaddr(const struct sn_address *address, struct sockaddr_storage *to);

SN_END

#endif
