/* SPDX-License-Identifier: MIT */
#include "base/descriptors.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace relay
{
namespace
{

/* Descriptors for name lookups, which open files and sockets for a short time, and for the
 * unforeseen. */
constexpr std::size_t spare = 16;

/* Two for a connection, and two to look up its backend's name. */
constexpr std::size_t needed_at_least = 4;

/* How many descriptors are assumed to be open if /proc is missing; certain to be enough. */
constexpr std::size_t open_at_start = 32;

std::size_t open_descriptors() noexcept
{
	DIR *const folder = opendir("/proc/self/fd");
	if (!folder)
		return errno == EMFILE ? descriptor_limit() : open_at_start;
	std::size_t entries = 0;
	while (readdir(folder))
		entries++;
	closedir(folder);
	/* Without ".", ".." and the descriptor of the folder itself. */
	return entries - std::min<std::size_t>(entries, 3);
}

} // namespace

bool is_shortage(const std::error_code &error) noexcept
{
	return error == std::errc::too_many_files_open ||
	       error == std::errc::too_many_files_open_in_system ||
	       error == std::errc::no_buffer_space || error == std::errc::not_enough_memory ||
	       error == std::errc::address_not_available;
}

bool is_shortage_for_datagrams(const std::error_code &error) noexcept
{
	return error == std::errc::resource_unavailable_try_again ||
	       (is_shortage(error) && error != std::errc::address_not_available);
}

void open_standard_descriptors() noexcept
{
	int fd = 0;
	/* open() returns the lowest free number. */
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

void raise_descriptor_limit() noexcept
{
	rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
	}
}

std::size_t connections_that_fit(std::size_t listeners) noexcept
{
	const std::size_t most = descriptor_limit();
	const std::size_t taken = open_descriptors() + listeners + spare;
	return most < taken + 2 ? 1 : (most - taken) / 2;
}

std::size_t descriptor_limit() noexcept
{
	rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, SIZE_MAX / 2));
}

std::size_t descriptors_needed() noexcept
{
	return open_descriptors() + needed_at_least;
}

} // namespace relay
