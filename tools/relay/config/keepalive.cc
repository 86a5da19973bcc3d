/* SPDX-License-Identifier: MIT */
#include "config/keepalive.hpp"

#include <cstddef>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace relay
{
namespace
{

bool set(int fd, int level, int option, long long value) noexcept
{
	const int n = static_cast<int>(value);
	return setsockopt(fd, level, option, &n, sizeof n) == 0;
}

/* The idle time is set last: SO_KEEPALIVE starts the kernel's timer as if the peer had just
 * shown a sign of life, and TCP_KEEPIDLE corrects the timer by the actual last one. */
bool switch_on(int fd, const keepalive_config &to) noexcept
{
	return set(fd, IPPROTO_TCP, TCP_KEEPINTVL, to.interval.count()) &&
	       set(fd, IPPROTO_TCP, TCP_KEEPCNT, to.count) &&
	       set(fd, SOL_SOCKET, SO_KEEPALIVE, 1) &&
	       set(fd, IPPROTO_TCP, TCP_KEEPIDLE, to.idle.count());
}

} // namespace

std::optional<std::chrono::seconds> to_keepalive(std::chrono::nanoseconds time) noexcept
{
	/* The kernel's limit is 32767 s. */
	const auto whole = std::chrono::floor<std::chrono::seconds>(time);
	if (whole != time || whole < std::chrono::seconds(1) || whole > std::chrono::hours(9))
		return std::nullopt;
	return whole;
}

std::uint64_t set_keepalive_of_listener(int fd, const keepalive_config &to) noexcept
{
	/* For a listening socket tcpi_unacked is the length of its backlog. It is read
	 * afterwards, so that it includes every connection that was made before the change. */
	tcp_info info{};
	socklen_t size = sizeof info;
	if (!set_keepalive(fd, to) || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
	    size < offsetof(tcp_info, tcpi_unacked) + sizeof info.tcpi_unacked)
		return UINT64_MAX; /* a short answer, from an emulator that returns an integer */
	return std::uint64_t{info.tcpi_unacked} + 1;
}

bool set_keepalive(int fd, const keepalive_config &to) noexcept
{
	const bool timed = set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, to.user_timeout.count());
	return (to.idle.count() ? switch_on(fd, to) : set(fd, SOL_SOCKET, SO_KEEPALIVE, 0)) &&
	       timed;
}

bool set_keepalive_of_new(int fd, const keepalive_config &to) noexcept
{
	return (to.user_timeout.count() == 0 ||
		set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, to.user_timeout.count())) &&
	       (to.idle.count() == 0 || switch_on(fd, to));
}

} // namespace relay
