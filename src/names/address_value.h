/* SPDX-License-Identifier: MIT */
/*
 * Addresses as values (struct sn_address), and as struct sockaddr.
 *
 * Contract. A value that is made from a socket's address has one form for each address: an IPv4
 * address is AF_INET, even if an IPv6 socket has reported it in IPv6's form; the scope is 0 where
 * it has no meaning; and the bytes that the family does not use are 0. Such values can therefore be
 * compared and hashed as memory.
 *
 * They are inline because each datagram needs one. Any thread and signal handlers may call them;
 * they touch only their arguments.
 */
#ifndef SENNIT_NAMES_ADDRESS_VALUE_H
#define SENNIT_NAMES_ADDRESS_VALUE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include <sennit/address.h>

union sn_sockaddr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static inline bool sn_address_is_some(const struct sn_address *address)
{
	return address->family == AF_INET || address->family == AF_INET6;
}

/* Converts an address for a socket of the family: IPv6 sockets take IPv4 addresses in IPv6's form.
 * Returns the size, or 0 if there is no address. */
static inline socklen_t sn_address_to(union sn_sockaddr *to, const struct sn_address *address,
				      int family)
{
	static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
	const bool v4 = address->family == AF_INET;

	if (v4 && family != AF_INET6) {
		to->v4 = (struct sockaddr_in){.sin_family = AF_INET,
					      .sin_port = htons(address->port)};
		memcpy(&to->v4.sin_addr, address->bytes, sizeof to->v4.sin_addr);
		return sizeof to->v4;
	}
	if (!sn_address_is_some(address))
		return 0;
	to->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
				       .sin6_port = htons(address->port),
				       .sin6_scope_id = address->scope};
	if (v4) {
		memcpy(&to->v6.sin6_addr, mapped, sizeof mapped);
		memcpy(to->v6.sin6_addr.s6_addr + sizeof mapped, address->bytes, 4);
	} else {
		memcpy(&to->v6.sin6_addr, address->bytes, sizeof address->bytes);
	}
	return sizeof to->v6;
}

/* Sets the family and the bytes, and clears the scope if it has no meaning for the address. */
static inline void sn_address_of_v6(struct sn_address *address, const struct in6_addr *v6)
{
	/* The kernel may report a scope for addresses that need none. */
	if (!IN6_IS_ADDR_LINKLOCAL(v6) && !IN6_IS_ADDR_MC_LINKLOCAL(v6) &&
	    !IN6_IS_ADDR_MC_NODELOCAL(v6))
		address->scope = 0;
	if (IN6_IS_ADDR_V4MAPPED(v6)) {
		address->family = AF_INET;
		memcpy(address->bytes, v6->s6_addr + 12, 4);
		memset(address->bytes + 4, 0, sizeof address->bytes - 4);
	} else {
		address->family = AF_INET6;
		memcpy(address->bytes, v6, sizeof address->bytes);
	}
}

/* Converts from a socket's address; one of another family becomes no address (all zero). */
static inline void sn_address_from(struct sn_address *address, const union sn_sockaddr *from)
{
	if (from->any.sa_family == AF_INET) {
		*address = (struct sn_address){.family = AF_INET, .port = ntohs(from->v4.sin_port)};
		memcpy(address->bytes, &from->v4.sin_addr, sizeof from->v4.sin_addr);
	} else if (from->any.sa_family == AF_INET6) {
		address->port = ntohs(from->v6.sin6_port);
		address->scope = from->v6.sin6_scope_id;
		sn_address_of_v6(address, &from->v6.sin6_addr);
	} else {
		memset(address, 0, sizeof *address);
	}
}

#endif
