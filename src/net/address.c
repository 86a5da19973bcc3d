/* SPDX-License-Identifier: MIT */
#include "net/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int copy_part(char *to, size_t size, const char *from, size_t length)
{
	if (length >= size || memchr(from, 0, length))
		return -EINVAL;
	memcpy(to, from, length);
	to[length] = 0;
	return 0;
}

/*
 * A port is 0 to 65535; a service's name is left to the resolver. Digits alone are always a port. A
 * name begins with a letter or a digit (RFC 6335): the resolver would read "-1", "+80" and " 80"
 * as numbers, and wrap them into a port.
 */
static bool service_valid(const char *service)
{
	size_t digits = strspn(service, "0123456789");
	long port = 0;

	if (!isalnum((unsigned char)*service))
		return false;
	if (service[digits])
		return true;
	if (digits > 5)
		return false;
	for (; *service; service++)
		port = port * 10 + (*service - '0');
	return port <= 65535;
}

static int copy_service(struct sn_host_port *parts, const char *service)
{
	if (copy_part(parts->service, sizeof parts->service, service, strlen(service)) < 0)
		return -EINVAL;
	return service_valid(parts->service) ? 0 : -EINVAL;
}

int sn_address_split(struct sn_host_port *parts, const char *text)
{
	const char *colon = strrchr(text, ':'), *host = text, *end = colon;

	if (!colon)
		return -EINVAL;
	if (*text == '[') {
		end = strchr(text, ']');
		if (!end || end + 1 != colon || end == text + 1)
			return -EINVAL;
		host = text + 1;
	} else if (memchr(text, ':', (size_t)(colon - text))) {
		return -EINVAL; /* v6 without brackets: where would the port begin? */
	}
	if (copy_part(parts->host, sizeof parts->host, host, (size_t)(end - host)) < 0)
		return -EINVAL;
	return copy_service(parts, colon + 1);
}

int sn_address_join(struct sn_host_port *parts, const char *host, const char *service)
{
	if (copy_part(parts->host, sizeof parts->host, host, strlen(host)) < 0)
		return -EINVAL;
	return copy_service(parts, service);
}

bool sn_address_numeric(struct sockaddr_in *address, const char *text)
{
	struct sn_host_port parts;
	unsigned long port;
	char *end;

	if (sn_address_split(&parts, text) < 0)
		return false;
	*address = (struct sockaddr_in){.sin_family = AF_INET};
	port = strtoul(parts.service, &end, 10);
	if (*end || inet_pton(AF_INET, parts.host, &address->sin_addr) != 1)
		return false;
	address->sin_port = htons((uint16_t)port);
	return true;
}

int sn_address_shortage(void)
{
	return errno == EMFILE || errno == ENFILE ? -errno : 0;
}

/* errno was 0 before the C library was asked. */
static int errno_of_gai(int err)
{
	const int shortage = err == 0 ? 0 : sn_address_shortage();

	if (shortage < 0)
		return shortage;
	switch (err) {
	case 0:
		return 0;
	case EAI_AGAIN:
		return -EAGAIN;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_SYSTEM:
		return errno ? -errno : -EIO;
	case EAI_NODATA:
	case EAI_ADDRFAMILY:
		return -EADDRNOTAVAIL;
	case EAI_FAMILY:
		return -EAFNOSUPPORT;
	case EAI_FAIL:
		return -EIO;
	default: /* EAI_NONAME, EAI_SERVICE and the like: it does not exist */
		return -ENOENT;
	}
}

int sn_address_look_up(struct addrinfo **list, const struct sn_host_port *parts,
		       const struct addrinfo *hints)
{
	const char *host = parts->host[0] ? parts->host : NULL;

	errno = 0;
	return errno_of_gai(getaddrinfo(host, parts->service, hints, list));
}

int sn_address_name(const struct sockaddr_storage *address, socklen_t length, char *buf,
		    size_t size)
{
	errno = 0;
	return errno_of_gai(getnameinfo((const struct sockaddr *)address, length, buf,
					(socklen_t)size, NULL, 0, NI_NAMEREQD));
}

int sn_address_print(const struct sockaddr *address, socklen_t length, char *buf, size_t size)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];
	int n;

	if (getnameinfo(address, length, host, sizeof host, port, sizeof port,
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return -EINVAL;
	n = snprintf(buf, size, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
	return n < 0 || (size_t)n >= size ? -ENOSPC : n;
}
