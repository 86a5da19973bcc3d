/* SPDX-License-Identifier: MIT */
#include "net/address_value.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>

#include "net/address.h"

_Static_assert(sizeof(struct sn_address) == 24, "memcmp() compares no padding");

/* A scope is the name of an interface or its index. */
static int parse_scope(uint32_t *scope, const char *text)
{
	unsigned long number;
	char *end;

	*scope = if_nametoindex(text);
	if (*scope)
		return 0;
	number = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || number > UINT32_MAX)
		return -EINVAL;
	*scope = (uint32_t)number;
	return 0;
}

static int parse_v6(struct sn_address *address, char *host)
{
	char *scope = strchr(host, '%');
	struct in6_addr v6;

	if (scope)
		*scope++ = 0;
	if (inet_pton(AF_INET6, host, &v6) != 1 ||
	    (scope && parse_scope(&address->scope, scope) < 0))
		return -EINVAL;
	sn_address_of_v6(address, &v6);
	return 0;
}

int sn_address_parse(struct sn_address *address, const char *text)
{
	struct sn_address parsed = {0};
	struct sn_host_port parts;
	char *end;

	if (!address || !text || sn_address_split(&parts, text) < 0)
		return -EINVAL;
	parsed.port = (uint16_t)strtoul(parts.service, &end, 10);
	if (*end)
		return -EINVAL;
	if (!parts.host[0])
		parsed.family = AF_INET6;
	else if (inet_pton(AF_INET, parts.host, parsed.bytes) == 1)
		parsed.family = AF_INET;
	else if (parse_v6(&parsed, parts.host) < 0)
		return -EINVAL;
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
