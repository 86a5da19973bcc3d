/* SPDX-License-Identifier: MIT */
#include "base/write_line.hpp"

#include "base/owned_fd.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
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
	for (;;) {
		const auto left =
			std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now());
		pollfd out{fd, POLLOUT, 0};
		const int found =
			poll(&out, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
		if (found >= 0 || errno != EINTR || left.count() <= 0)
			return found > 0;
	}
}

/* Whether there is no such call for what is open: the kernel has none, or a filter of system calls
 * refuses it. Some file systems return EAGAIN also for a file, which always has room. */
bool has_no_nowait(int fd, int error) noexcept
{
	return error == EOPNOTSUPP || error == EINVAL || error == ENOSYS || error == EPERM ||
	       error == EACCES || (error == EAGAIN && is_regular_file(fd));
}

/* Another open file description of a pipe or FIFO, whose writes do not wait; -1 if there is none,
 * which includes that nobody has it open for reading. */
int open_anew(int fd) noexcept
{
	struct stat of {
	};
	if (fstat(fd, &of) < 0 || !S_ISFIFO(of.st_mode))
		return -1;
	char name[32];
	std::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	return open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
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
	if (n >= 0 || !has_no_nowait(fd, errno))
		return n;
	if (const int own = open_anew(fd); own >= 0) {
		n = write(own, text.data(), text.size());
		const int error = errno;
		close(own);
		errno = error;
		return n;
	}
	if (has_room(fd, until))
		return write(fd, text.data(), text.size());
	errno = EAGAIN;
	return -1;
}

/* Removes what it has written from the text. */
line_end write_all(int fd, std::string_view &text, clock::time_point until) noexcept
{
	while (!text.empty()) {
		const ssize_t n = write_now(fd, text, until);
		if (n >= 0) {
			text.remove_prefix(static_cast<std::size_t>(n));
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

/* For each of the standard descriptors, whether only a part of the last line was written. */
constinit std::atomic<bool> is_cut[STDERR_FILENO + 1];

} // namespace

line_end write_line(int fd, std::string_view line, std::chrono::milliseconds patience) noexcept
{
	const auto until = clock::now() + patience;
	std::atomic<bool> unused{false};
	auto &is_last_cut = fd >= 0 && fd <= STDERR_FILENO ? is_cut[fd] : unused;
	if (is_last_cut.exchange(false)) {
		std::string_view end = "\n";
		if (const auto done = write_all(fd, end, until); done != line_end::written) {
			is_last_cut = true;
			return done;
		}
	}
	auto left = line;
	const auto done = write_all(fd, left, until);
	if (!left.empty() && left.size() < line.size())
		is_last_cut = true;
	return done;
}

} // namespace relay
