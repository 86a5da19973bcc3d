// SPDX-License-Identifier: MIT
//
// A stderr that has no room, because nobody reads it. For child processes.
#ifndef SENNIT_TESTS_SUPPORT_FULL_STDERR_H
#define SENNIT_TESTS_SUPPORT_FULL_STDERR_H

#include <string>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/runtime.h"

namespace test
{

// Makes one end stderr, fills it, and returns the other end.
inline int fill_stderr(const int ends[2])
{
	const std::string page(4096, 'x');

	CHILD_CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
	const int flags = fcntl(STDERR_FILENO, F_GETFL);
	CHILD_CHECK(fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK) == 0);
	while (write(STDERR_FILENO, page.data(), page.size()) > 0)
		continue;
	CHILD_CHECK(fcntl(STDERR_FILENO, F_SETFL, flags) == 0);
	return ends[0];
}

inline int full_pipe()
{
	int ends[2];

	CHILD_CHECK(pipe(ends) == 0);
	return fill_stderr(ends);
}

// One that is empty and has little room: two pages. For poll() a pipe is writable only while a
// whole page of it is empty. So where only poll() knows the room (kernels without RWF_NOWAIT for
// pipes, the emulator), one of a single page takes no second line before it is read.
inline int small_pipe()
{
	int ends[2];

	CHILD_CHECK(pipe(ends) == 0);
	const int page = fcntl(ends[1], F_SETPIPE_SZ, 1); // it cannot be smaller
	CHILD_CHECK(page > 0 && fcntl(ends[1], F_SETPIPE_SZ, 2 * page) == 2 * page);
	CHILD_CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO && close(ends[1]) == 0);
	return ends[0];
}

// Reads everything that is there.
inline std::string read_now(int fd)
{
	const int flags = fcntl(fd, F_GETFL);
	std::string all;
	char part[4096];
	ssize_t n;

	CHILD_CHECK(fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
	while ((n = read(fd, part, sizeof part)) > 0)
		all.append(part, size_t(n));
	CHILD_CHECK(fcntl(fd, F_SETFL, flags) == 0);
	return all;
}

inline int full_socket()
{
	int ends[2];

	CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	return fill_stderr(ends);
}

} // namespace test

#endif
