/* SPDX-License-Identifier: MIT */
/*
 * Addresses of Unix sockets in text form: parsing and printing. sennit/unix.h explains the
 * notation.
 *
 * Contract. Nothing here has state, touches the file system or changes errno, so any thread may
 * call it; nothing parks. A name that was parsed leaves the last byte of the kernel's structure 0,
 * although Linux would take a path that fills it. One that the kernel has reported, perhaps of
 * another program's socket, may fill that byte; it is printed without reading past the structure.
 */
#ifndef SENNIT_NET_UNIX_NAME_H
#define SENNIT_NET_UNIX_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

struct sn_unix_name {
	struct sockaddr_un address;
	socklen_t length;
};

/* Returns 0, -EINVAL if the text is empty, or -ENAMETOOLONG. "@" becomes the address of any free
 * name. */
int sn_unix_name_parse(struct sn_unix_name *name, const char *text);

static inline bool sn_unix_name_is_path(const struct sn_unix_name *name)
{
	return name->length > offsetof(struct sockaddr_un, sun_path) &&
	       name->address.sun_path[0] != 0;
}

/*
 * Whether a text means a Unix socket, for calls that also take addresses of hosts: "unix:", and
 * then a path that begins with '/' or '.', or an abstract name. No port begins with one of these,
 * so "unix:80" and "unix:http" are still ports of a host.
 */
bool sn_unix_name_is_meant(const char *text);

/* Whether it is the address of any free abstract name. */
static inline bool sn_unix_name_is_any(const struct sn_unix_name *name)
{
	return name->length == offsetof(struct sockaddr_un, sun_path);
}

/* Prints the name, or the empty string for a socket without a name. Returns the length, or -ENOSPC
 * with the part that fits in buf. */
int sn_unix_name_print(const struct sn_unix_name *name, char *buf, size_t size);

/* The same as a text for which sn_unix_name_is_meant() holds; "unix:" alone for a socket without a
 * name. */
int sn_unix_name_print_meant(const struct sn_unix_name *name, char *buf, size_t size);

#endif
