/* SPDX-License-Identifier: MIT */
#include "net/unix_name.h"

#include <errno.h>
#include <string.h>

#define PREFIX "unix:"

/* Where the path begins. The last byte of the array stays 0, because some kernels and programs need
 * a NUL there. */
#define PATH offsetof(struct sockaddr_un, sun_path)
#define MOST (sizeof((struct sockaddr_un *)NULL)->sun_path - 1)

bool sn_unix_name_is_meant(const char *text)
{
	if (strncmp(text, PREFIX, sizeof PREFIX - 1) != 0)
		return false;
	text += sizeof PREFIX - 1;
	return *text == '/' || *text == '.' || *text == '@';
}

int sn_unix_name_parse(struct sn_unix_name *name, const char *text)
{
	size_t length;

	if (strncmp(text, PREFIX, sizeof PREFIX - 1) == 0)
		text += sizeof PREFIX - 1;
	length = strlen(text);
	if (length == 0)
		return -EINVAL;
	if (length > MOST)
		return -ENAMETOOLONG;
	*name = (struct sn_unix_name){.address = {.sun_family = AF_UNIX}};
	if (text[0] != '@') {
		memcpy(name->address.sun_path, text, length);
		name->length = (socklen_t)(PATH + length + 1);
	} else if (length == 1) {
		name->length = PATH;
	} else {
		/* An abstract name begins with a 0 and has no terminating one. */
		memcpy(name->address.sun_path + 1, text + 1, length - 1);
		name->length = (socklen_t)(PATH + length);
	}
	return 0;
}

int sn_unix_name_print(const struct sn_unix_name *name, char *buf, size_t size)
{
	const char *from = name->address.sun_path;
	size_t length = name->length > PATH ? name->length - PATH : 0;

	/* The kernel counts a terminating zero that may not be there. */
	if (length > MOST + 1)
		length = MOST + 1;
	if (length > 0 && from[0] != 0)
		length = strnlen(from, length);
	if (size == 0)
		return -ENOSPC;
	for (size_t i = 0; i < length && i < size - 1; i++)
		buf[i] = from[i];
	for (size_t i = 0; i < length && i < size - 1; i++)
		if (buf[i] == 0)
			buf[i] = '@';
	buf[length < size ? length : size - 1] = 0;
	return length < size ? (int)length : -ENOSPC;
}

int sn_unix_name_print_meant(const struct sn_unix_name *name, char *buf, size_t size)
{
	/* Another program may have bound a socket to a path that begins with anything. */
	const bool plain = !sn_unix_name_is_path(name) || name->address.sun_path[0] == '/' ||
			   name->address.sun_path[0] == '.';
	const char *start = plain ? PREFIX : PREFIX "./";
	const size_t length = strlen(start);
	int n;

	if (size <= length)
		return -ENOSPC;
	memcpy(buf, start, length);
	n = sn_unix_name_print(name, buf + length, size - length);
	return n < 0 ? n : n + (int)length;
}
