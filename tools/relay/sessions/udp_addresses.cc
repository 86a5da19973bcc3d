/* SPDX-License-Identifier: MIT */
#include "sessions/udp_addresses.hpp"

#include "base/descriptors.hpp"

#include <algorithm>
#include <cstring>
#include <sys/socket.h>

namespace relay
{
namespace
{

bool is_same_host(const sn::address &a, const sn::address &b) noexcept
{
	return a.family == b.family && std::memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

bool is_every_host(const sn::address &at) noexcept
{
	return std::ranges::all_of(at.bytes, [](auto byte) { return byte == 0; });
}

/* Whether the address belongs to this machine. A datagram to one of its own addresses is sent
 * from that address, except within 127.0.0.0/8. */
sn::result<bool> is_of_this_machine(const sn::address &at)
{
	if (at.family == AF_INET && at.bytes[0] == 127)
		return true;
	const auto towards = sn::udp::connect(at.text(), sn::now());
	if (!towards && is_shortage_for_datagrams(towards.error()))
		return sn::unexpected(towards.error());
	if (!towards)
		return false;
	const auto from = towards->local();
	return from && is_same_host(*from, at);
}

} // namespace

void udp_addresses::add(const sn::address &at)
{
	const std::lock_guard lock(lock_);
	by_port_.emplace(at.port, at);
}

void udp_addresses::remove(const sn::address &at) noexcept
{
	const std::lock_guard lock(lock_);
	const auto [first, last] = by_port_.equal_range(at.port);
	const auto found =
		std::find_if(first, last, [&at](const auto &each) { return each.second == at; });
	if (found != last)
		by_port_.erase(found);
}

bool udp_addresses::has(const sn::address &at) const noexcept
{
	const std::lock_guard lock(lock_);
	const auto [first, last] = by_port_.equal_range(at.port);
	return std::any_of(first, last,
			   [&at](const auto &each) { return is_same_host(each.second, at); });
}

/* Few clients send from the port number of a listener, so the table usually decides alone. */
sn::result<bool> udp_addresses::has_among_all(const sn::address &at) const
{
	{
		const std::lock_guard lock(lock_);
		const auto [first, last] = by_port_.equal_range(at.port);
		if (std::none_of(first, last,
				 [](const auto &each) { return is_every_host(each.second); }))
			return false;
	}
	return is_of_this_machine(at);
}

} // namespace relay
