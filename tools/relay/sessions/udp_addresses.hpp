/* SPDX-License-Identifier: MIT */
/*
 * The addresses at which this process receives datagrams. A datagram that claims to come from one
 * of them is forged: its answer would arrive there, be passed on and be answered again, and two
 * services that answer everything would never stop. Any task may call; none parks.
 *
 * A socket that receives at every address of the machine needs a look at the machine's addresses,
 * which opens a socket. A client that sends from the port of a listener chooses to cost that, so it
 * is asked last, when nothing else is left that could refuse the client.
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

	/* Whether a socket has that address. */
	bool has(const sn::address &at) const noexcept;

	/* Whether a socket of every address has that port, and the address is this machine's. On
	 * failure there is no resource to find out. */
	sn::result<bool> has_among_all(const sn::address &at) const;

private:
	mutable std::mutex lock_; /* guards by_port_ */
	std::unordered_multimap<std::uint16_t, sn::address> by_port_;
};

} // namespace relay

#endif
