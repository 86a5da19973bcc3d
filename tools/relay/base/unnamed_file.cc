/* SPDX-License-Identifier: MIT */
#include "base/unnamed_file.hpp"

#include "base/owned_fd.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace relay
{
namespace
{

[[noreturn]] void fail(int error, const char *what)
{
	throw std::system_error(error, std::generic_category(), what);
}

/* Returns an errno value. */
int write_all(int fd, std::string_view text) noexcept
{
	while (!text.empty()) {
		const ssize_t n = ::write(fd, text.data(), text.size());
		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0)
			text.remove_prefix(static_cast<std::size_t>(n));
	}
	return 0;
}

/* -1: there is no such file, or no memory for the text. */
int make_in_memory(std::string_view text) noexcept
{
	owned_fd file(memfd_create("sennit-relay", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (file.get() < 0 || write_all(file.get(), text) != 0)
		return -1;
	/* Only a safeguard, so it is not needed. */
	fcntl(file.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	return file.release();
}

/* The kernel may be too old, a filter of system calls may refuse the call, and so may the setting
 * vm.memfd_noexec. */
int open_on_disk()
{
	char name[] = "/tmp/sennit-relay-XXXXXX";
	const int fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		fail(errno, "cannot make a file without a name");
	unlink(name);
	return fd;
}

} // namespace

int make_unnamed_file(std::string_view text)
{
	if (const int in_memory = make_in_memory(text); in_memory >= 0)
		return in_memory;
	owned_fd file(open_on_disk());
	if (const int error = write_all(file.get(), text))
		fail(error, "cannot write to a file without a name");
	return file.release();
}

std::string take_unnamed_file(int fd)
{
	const owned_fd file(fd);
	struct stat is {
	};
	if (fstat(fd, &is) < 0)
		fail(errno, "cannot read a file without a name");
	std::string text(S_ISREG(is.st_mode) ? static_cast<std::size_t>(is.st_size) : 0, '\0');
	std::size_t have = 0;
	while (have < text.size()) {
		const ssize_t n =
			pread(fd, text.data() + have, text.size() - have, static_cast<off_t>(have));
		if (n == 0 || (n < 0 && errno != EINTR))
			fail(n == 0 ? EIO : errno, "cannot read a file without a name");
		have += n > 0 ? static_cast<std::size_t>(n) : 0;
	}
	return text;
}

} // namespace relay
