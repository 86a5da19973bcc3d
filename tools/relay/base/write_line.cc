/* SPDX-License-Identifier: MIT */
#include "base/write_line.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_NOWAIT
#	define RWF_NOWAIT 8
#endif

namespace relay
{
namespace
{

using clock = std::chrono::steady_clock;

bool has_room(int fd, clock::time_point until) noexcept
{
	const auto left =
		std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now());
	pollfd out{fd, POLLOUT, 0};
	return poll(&out, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) > 0;
}

/* Some file systems return EAGAIN also for a file, which always has room. */
bool is_file(int fd) noexcept
{
	struct stat of {
	};
	return fstat(fd, &of) == 0 && S_ISREG(of.st_mode);
}

/* Returns what write(2) does; EAGAIN: there is no room now. */
ssize_t write_now(int fd, std::string_view text, clock::time_point until) noexcept
{
	ssize_t n = send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0 || errno != ENOTSOCK)
		return n;
	iovec part{const_cast<char *>(text.data()), text.size()};
	/* The offset -1 stands for the file's position. */
	n = syscall(SYS_pwritev2, fd, &part, 1, -1L, -1L, RWF_NOWAIT);
	const bool cannot_tell = n < 0 && (errno == EOPNOTSUPP || errno == EINVAL ||
					   errno == ENOSYS || (errno == EAGAIN && is_file(fd)));
	if (!cannot_tell)
		return n;
	if (has_room(fd, until))
		return write(fd, text.data(), text.size());
	errno = EAGAIN;
	return -1;
}

} // namespace

line_end write_line(int fd, std::string_view line, std::chrono::milliseconds patience) noexcept
{
	const auto until = clock::now() + patience;
	while (!line.empty()) {
		const ssize_t n = write_now(fd, line, until);
		if (n >= 0) {
			line.remove_prefix(static_cast<std::size_t>(n));
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return line_end::failed;
		if (!has_room(fd, until) || clock::now() >= until)
			return line_end::no_room;
		/* Another writer may have taken the room, or there is less than for the line. */
		usleep(1000);
	}
	return line_end::written;
}

} // namespace relay
