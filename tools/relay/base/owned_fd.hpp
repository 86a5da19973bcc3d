/* SPDX-License-Identifier: MIT */
/* A descriptor that is closed with its owner, and whether it is a file. */
#ifndef RELAY_OWNED_FD_HPP
#define RELAY_OWNED_FD_HPP

#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace relay
{

class owned_fd
{
public:
	/* -1: none. */
	explicit owned_fd(int fd = -1) noexcept : fd_(fd) {}
	owned_fd(owned_fd &&other) noexcept : fd_(other.release()) {}
	owned_fd &operator=(owned_fd &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		return *this;
	}
	~owned_fd()
	{
		if (fd_ >= 0)
			::close(fd_);
	}

	int get() const noexcept { return fd_; }
	/* Passes it on to the caller, who closes it. */
	int release() noexcept { return std::exchange(fd_, -1); }

private:
	int fd_;
};

inline bool is_regular_file(int fd) noexcept
{
	struct stat of {
	};
	return fstat(fd, &of) == 0 && S_ISREG(of.st_mode);
}

} // namespace relay

#endif
