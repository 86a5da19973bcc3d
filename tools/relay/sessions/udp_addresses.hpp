/* SPDX-License-Identifier: MIT */
/*
 * The addresses at which this process receives datagrams. A datagram that claims to come from one
 * of them is forged: its answer would arrive there, be passed on and be answered again, and two
 * services that answer everything would never stop. Any task may call; none parks.
 */
#ifndef RELAY_UDP_ADDRESSES_HPP
#define RELAY_UDP_ADDRESSES_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace relay
{

class udp_addresses
{
public:
	/* Adds the address of a socket; called once for each socket. Throws std::bad_alloc. */
	void add(const sn::address &at);
	void remove(const sn::address &at) noexcept;

	/* Whether this process receives datagrams that are sent to that address. */
	bool has(const sn::address &at) const;

private:
	mutable std::mutex lock_; /* guards by_port_ */
	std::unordered_multimap<std::uint16_t, sn::address> by_port_;
};

} // namespace relay

#endif
