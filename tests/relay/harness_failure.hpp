/* SPDX-License-Identifier: MIT */
/* How the parts of the harness report failures and make system calls. */
#ifndef TESTS_RELAY_HARNESS_FAILURE_HPP
#define TESTS_RELAY_HARNESS_FAILURE_HPP

#include <cerrno>
#include <stdexcept>
#include <string>
#include <sys/types.h>
#include <system_error>

namespace harness
{

[[noreturn]] inline void fail(const std::string &what)
{
	throw std::runtime_error(what);
}

[[noreturn]] inline void fail_errno(const std::string &what)
{
	throw std::system_error(errno, std::generic_category(), what);
}

/* Repeats the call after EINTR: calls on sockets with a timeout return it when the process is
 * stopped and continued. */
template <class Call>
ssize_t again(Call call)
{
	ssize_t n = 0;
	do
		n = call();
	while (n < 0 && errno == EINTR);
	return n;
}

} // namespace harness

#endif
