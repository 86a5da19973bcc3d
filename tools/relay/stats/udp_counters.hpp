/* SPDX-License-Identifier: MIT */
/*
 * Counts the datagrams of a listener. As in counters.hpp, any task may count, without waiting. The
 * listener's task counts those to backends, each session's task those to its client, and both count
 * what they drop.
 */
#ifndef RELAY_UDP_COUNTERS_HPP
#define RELAY_UDP_COUNTERS_HPP

#include "stats/counters.hpp"
#include "stats/udp_drop.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace relay
{

struct udp_counters {
	std::atomic<bool> are_there{false}; /* set once a UDP listener has used them */
	counter to_backend;
	busy_counter to_client; /* the sessions count, each in its own task */
	std::array<counter, udp_drops> dropped;

	void drop(udp_drop why, std::uint64_t n = 1) noexcept
	{
		dropped[static_cast<std::size_t>(why)].add(n);
	}

	datagram_counts read() const noexcept
	{
		datagram_counts now;
		now.are_there = are_there.load(std::memory_order_relaxed);
		now.to_backend = to_backend.get();
		now.to_client = to_client.get();
		for (std::size_t i = 0; i < udp_drops; i++)
			now.dropped[i] = dropped[i].get();
		return now;
	}
};

} // namespace relay

#endif
