/* SPDX-License-Identifier: MIT */
/*
 * Addresses in text form: parsing, printing, and lookups that block.
 *
 * Contract. Nothing here has state of its own, so any thread may call it; nothing parks. What
 * parses or prints asks no name service: the most that it asks the system for is the index or the
 * name of an interface. sn_address_look_up() and sn_address_name() call the C library's resolver,
 * which may block for many seconds. Tasks therefore leave both to the threads of names/lookup.h.
 *
 * All results are in the caller's memory, except the list of sn_address_look_up(), which the caller
 * gives to freeaddrinfo(). errno is not preserved.
 */
#ifndef SENNIT_NAMES_ADDRESS_H
#define SENNIT_NAMES_ADDRESS_H

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* The longest host name that DNS allows, and some room for a service's name. */
#define SN_HOST_MAX 256
#define SN_SERVICE_MAX 33

struct sn_host_port {
	char host[SN_HOST_MAX]; /* empty: any address */
	char service[SN_SERVICE_MAX];
};

/* Splits "host:port", "[v6]:port" or ":port" without looking anything up. Returns 0, or -EINVAL if
 * the text is malformed, for example if the host has a blank or a control character. */
int sn_address_split(struct sn_host_port *parts, const char *text);

/* Makes the same parts from a host and a service. Returns 0 or -EINVAL. */
int sn_address_join(struct sn_host_port *parts, const char *host, const char *service);

/* Reads an IPv6 address, which may have a scope. Returns 0; -ENOENT for anything else or an unknown
 * scope; -EMFILE or -ENFILE if there is no descriptor to look an interface up. */
int sn_address_v6(struct sockaddr_in6 *v6, const char *host);

/*
 * Reads a numeric host with a numeric port, as getaddrinfo() reads them, but without the C
 * library's resolver, which may load modules and block. An empty host is not numeric. Returns the
 * length of *address; -ENOENT for anything else, which may be a name; or an error of
 * sn_address_v6().
 */
int sn_address_number(struct sockaddr_storage *address, const struct sn_host_port *parts);

/* getaddrinfo() and getnameinfo(), which return 0 or a negative errno as listed in
 * sennit/resolve.h. Any thread; both block. */
int sn_address_look_up(struct addrinfo **list, const struct sn_host_port *parts,
		       const struct addrinfo *hints);
int sn_address_name(const struct sockaddr_storage *address, socklen_t length, char *buf,
		    size_t size);

/* Whether the name has neither blanks nor control characters. */
bool sn_address_host_valid(const char *name);

/*
 * Called after a lookup has failed, before which the caller has set errno to 0. Returns -EMFILE or
 * -ENFILE if errno says so, else 0. Without descriptors the C library cannot read its files, and
 * may report that the name is unknown.
 */
int sn_address_shortage(void);

/* Prints an address with its port. Returns the length or -ENOSPC. */
int sn_address_print(const struct sockaddr *address, socklen_t length, char *buf, size_t size);

#endif
