/* SPDX-License-Identifier: MIT */
#include "names/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
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
 * Whether the text is a port, 0 to 65535, or may be a service's name, which is left to the
 * resolver. Digits alone are always a port. A name must begin with a letter or a digit (RFC 6335),
 * because the resolver would read "-1", "+80" and " 80" as numbers, and wrap them into a port.
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

bool sn_address_host_valid(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name <= ' ' || *name == 127)
			return false;
	return true;
}

static int copy_host(struct sn_host_port *parts, const char *host, size_t length)
{
	if (copy_part(parts->host, sizeof parts->host, host, length) < 0)
		return -EINVAL;
	return sn_address_host_valid(parts->host) ? 0 : -EINVAL;
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
		return -EINVAL; /* v6 without brackets, whose end cannot be found */
	}
	if (copy_host(parts, host, (size_t)(end - host)) < 0)
		return -EINVAL;
	return copy_service(parts, colon + 1);
}

int sn_address_join(struct sn_host_port *parts, const char *host, const char *service)
{
	if (copy_host(parts, host, strlen(host)) < 0)
		return -EINVAL;
	return copy_service(parts, service);
}

int sn_address_shortage(void)
{
	return errno == EMFILE || errno == ENFILE ? -errno : 0;
}

/* Reads a scope: the name of an interface or its index. */
static int read_scope(uint32_t *scope, const char *text)
{
	unsigned long number;
	char *end;

	errno = 0;
	*scope = if_nametoindex(text);
	if (*scope)
		return 0;
	if (sn_address_shortage() < 0)
		return sn_address_shortage();
	number = strtoul(text, &end, 10);
	*scope = (uint32_t)number;
	return isdigit((unsigned char)*text) && !*end && number == *scope ? 0 : -ENOENT;
}

int sn_address_v6(struct sockaddr_in6 *v6, const char *host)
{
	const char *percent = strchr(host, '%');
	const size_t length = percent ? (size_t)(percent - host) : strlen(host);
	char bare[INET6_ADDRSTRLEN];

	*v6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
	if (copy_part(bare, sizeof bare, host, length) < 0 ||
	    inet_pton(AF_INET6, bare, &v6->sin6_addr) != 1)
		return -ENOENT;
	return percent ? read_scope(&v6->sin6_scope_id, percent + 1) : 0;
}

int sn_address_number(struct sockaddr_storage *address, const struct sn_host_port *parts)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
	char *end;
	const in_port_t port = htons((uint16_t)strtoul(parts->service, &end, 10));
	int err;

	if (*end)
		return -ENOENT;
	memset(address, 0, sizeof *address);
	if (inet_aton(parts->host, &v4->sin_addr)) {
		v4->sin_family = AF_INET;
		v4->sin_port = port;
		return sizeof *v4;
	}
	err = sn_address_v6(v6, parts->host);
	v6->sin6_port = port;
	return err < 0 ? err : (int)sizeof *v6;
}

/* The negative errno for an error of getaddrinfo(), before whose call errno was set to 0. */
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
