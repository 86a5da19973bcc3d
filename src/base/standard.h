/* SPDX-License-Identifier: MIT */
/*
 * The runtime's own descriptors never get the number of a standard one (0 to 2).
 *
 * If a process has closed its standard input, output or error output, the next descriptor that it
 * opens gets that number. Everything that the process or a library then prints goes into it.
 */
#ifndef SENNIT_BASE_STANDARD_H
#define SENNIT_BASE_STANDARD_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * Takes what a system call that opens a close-on-exec descriptor has returned. Moves the descriptor
 * above the standard ones if it is one of them, and returns it. If that fails, closes it and
 * returns -1 with errno. Returns -1 for -1.
 */
static inline int sn_above_standard(int fd)
{
	int copy, saved;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	saved = errno == EINVAL ? EMFILE : errno; /* past RLIMIT_NOFILE */
	close(fd);
	errno = saved;
	return copy;
}

#endif
