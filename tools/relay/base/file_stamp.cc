/* SPDX-License-Identifier: MIT */
#include "base/file_stamp.hpp"

#include <sys/stat.h>
#include <time.h>

namespace relay
{

file_stamp stamp_of(const std::string &path)
{
	struct stat is {
	};
	if (stat(path.c_str(), &is) != 0)
		return {};
	const auto ns = [](const timespec &time) {
		return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
	};
	return {1,
		static_cast<std::int64_t>(is.st_dev),
		static_cast<std::int64_t>(is.st_ino),
		static_cast<std::int64_t>(is.st_size),
		ns(is.st_mtim),
		ns(is.st_ctim)};
}

file_stamps stamps_of(const file_stamps &which)
{
	file_stamps found;
	for (const auto &each : which)
		found[each.first] = stamp_of(each.first);
	return found;
}

} // namespace relay
