/* SPDX-License-Identifier: MIT */
/*
 * The runtime's own descriptors never get the number of a standard one.
 *
 * In a process that has closed its standard input, output or error output, the next descriptor that
 * is opened gets that number, and whatever the process or a library prints goes into it.
 */
#ifndef SENNIT_BASE_STANDARD_H
#define SENNIT_BASE_STANDARD_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * A descriptor as a system call has returned it, close-on-exec. Moves it above the standard ones if
 * it is one of these; on failure it is closed, and the result is -1 with errno, as with -1 itself.
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
