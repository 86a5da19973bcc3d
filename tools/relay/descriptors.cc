/* SPDX-License-Identifier: MIT */
#include "descriptors.hpp"

#include <algorithm>
#include <cstdint>
#include <dirent.h>
#include <sys/resource.h>

namespace relay
{
namespace
{

/* For name look-ups, which open files and sockets for a short time, and for the unforeseen. */
constexpr std::size_t spare = 16;

/* Used without /proc; certain to be enough. */
constexpr std::size_t open_at_start = 32;

std::size_t open_descriptors() noexcept
{
	DIR *const folder = opendir("/proc/self/fd");
	if (!folder)
		return open_at_start;
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
	       error == std::errc::no_buffer_space || error == std::errc::not_enough_memory;
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
	rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		limit.rlim_cur = 1024;
	const auto most = std::min<rlim_t>(limit.rlim_cur, SIZE_MAX / 2);
	const std::size_t taken = open_descriptors() + listeners + spare;
	return most < taken + 2 ? 1 : (static_cast<std::size_t>(most) - taken) / 2;
}

} // namespace relay
