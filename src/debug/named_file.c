/* SPDX-License-Identifier: MIT */
#include "debug/named_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Puts the process's id in place of %p. Returns false if there is no room. */
static bool expand(const char *pattern, char *to, size_t room)
{
	size_t used = 0;

	for (; *pattern; pattern++) {
		if (used + 16 >= room)
			return false;
		if (pattern[0] == '%' && pattern[1] == 'p') {
			used += (size_t)snprintf(to + used, 16, "%ld", (long)getpid());
			pattern++;
		} else {
			to[used++] = *pattern;
		}
	}
	to[used] = '\0';
	return true;
}

/* Writes a file under the name `part`, a template for mkstemp(), and renames it to path. Returns 0
 * or a negative errno. */
static int write_whole(char *part, const char *path, int (*write)(int fd))
{
	int fd = mkostemp(part, O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = write(fd);
	if (close(fd) < 0 && err == 0)
		err = -errno;
	if (err == 0 && rename(part, path) < 0)
		err = -errno;
	if (err < 0)
		unlink(part);
	return err;
}

int sn_named_file_write(const char *pattern, int (*write)(int fd), char *path)
{
	char part[SN_FILE_PATH_ROOM + 16];

	if (!expand(pattern, path, SN_FILE_PATH_ROOM))
		return -ENAMETOOLONG;
	snprintf(part, sizeof part, "%s.part-XXXXXX", path);
	return write_whole(part, path, write);
}
