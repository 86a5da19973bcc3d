/* SPDX-License-Identifier: MIT */
#include "file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tracing
{
namespace
{

/* The largest file. The trace of a thousand processors with the largest rings is smaller. */
constexpr std::uint64_t most_bytes = UINT32_MAX;
constexpr std::size_t at_once = std::size_t{1} << 20;

/* Closes what it has opened. */
class descriptor
{
public:
	explicit descriptor(const std::string &name)
	    : fd_(name == "-" ? STDIN_FILENO : open(name.c_str(), O_RDONLY | O_CLOEXEC))
	{
	}
	~descriptor()
	{
		if (fd_ > STDIN_FILENO)
			close(fd_);
	}
	descriptor(const descriptor &) = delete;
	descriptor &operator=(const descriptor &) = delete;
	int get() const { return fd_; }

private:
	int fd_;
};

} // namespace

std::variant<std::string, file_error> read_file(const std::string &name)
{
	const descriptor from(name);
	struct stat about {
	};
	std::string bytes;
	std::size_t used = 0;

	if (from.get() < 0 || fstat(from.get(), &about) < 0)
		return file_error{std::strerror(errno)};
	/* One byte more than the size, so that the end is found without another allocation. */
	if (S_ISREG(about.st_mode) && static_cast<std::uint64_t>(about.st_size) < most_bytes)
		bytes.resize(static_cast<std::size_t>(about.st_size) + 1);
	for (;;) {
		if (used == bytes.size())
			bytes.resize(std::max(at_once, 2 * used));
		const auto n = read(from.get(), bytes.data() + used, bytes.size() - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_error{std::strerror(errno)};
		if (n == 0)
			break;
		used += static_cast<std::size_t>(n);
		if (used >= most_bytes)
			return file_error{"is larger than any trace"};
	}
	bytes.resize(used);
	return bytes;
}

} // namespace tracing
