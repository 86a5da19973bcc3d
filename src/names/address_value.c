/* SPDX-License-Identifier: MIT */
#include "names/address_value.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "names/address.h"

_Static_assert(sizeof(struct sn_address) == 24, "memcmp() compares no padding");

int sn_address_parse(struct sn_address *address, const char *text)
{
	struct sn_address parsed = {0};
	struct sn_host_port parts;
	union sn_sockaddr at = {0};
	unsigned long port;
	char *end;
	int err = 0;

	if (!address || !text || sn_address_split(&parts, text) < 0)
		return -EINVAL;
	port = strtoul(parts.service, &end, 10);
	if (*end)
		return -EINVAL;
	at.any.sa_family = AF_INET;
	if (!parts.host[0])
		at.v6.sin6_family = AF_INET6;
	else if (inet_pton(AF_INET, parts.host, &at.v4.sin_addr) != 1)
		err = sn_address_v6(&at.v6, parts.host);
	if (err < 0)
		return err == -ENOENT ? -EINVAL : err;
	sn_address_from(&parsed, &at);
	parsed.port = (uint16_t)port;
	*address = parsed;
	return 0;
}

int sn_address_text(const struct sn_address *address, char *buf, size_t size)
{
	union sn_sockaddr at;

	if (!address || !buf || !sn_address_is_some(address))
		return -EINVAL;
	return sn_address_print(&at.any, sn_address_to(&at, address, AF_UNSPEC), buf, size);
}

int sn_address_from_sockaddr(struct sn_address *address, const struct sockaddr *from,
			     socklen_t size)
{
	union sn_sockaddr at;
	const size_t needed = from && from->sa_family == AF_INET6 ? sizeof at.v6 : sizeof at.v4;

	if (!address || !from || size < sizeof from->sa_family)
		return -EINVAL;
	if (from->sa_family != AF_INET && from->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	if (size < needed)
		return -EINVAL;
	memcpy(&at, from, needed);
	sn_address_from(address, &at);
	return 0;
}

int sn_address_to_sockaddr(const struct sn_address *address, struct sockaddr_storage *to)
{
	union sn_sockaddr at;
	socklen_t size;

	if (!address || !to || !sn_address_is_some(address))
		return -EINVAL;
	size = sn_address_to(&at, address, AF_UNSPEC);
	memset(to, 0, sizeof *to);
	memcpy(to, &at, size);
	return (int)size;
}
