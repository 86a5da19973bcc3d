/* SPDX-License-Identifier: MIT */
/*
 * How fast connections come from each source, in a table of bounded size.
 *
 * Unlike a count of open connections (sources.hpp), a rate must be known for sources that have no
 * connection at the moment. The table has room for `sources_most` addresses, 16 bytes each. It is
 * made for the first address and never grows. It consists of sets of eight places. A hash with a
 * secret key chooses the set in which an address has its place. When all eight are taken, the
 * address whose next connection is due earliest is forgotten. Usually that address has not come for
 * a while, so nothing is lost. If its limit still matters, the loss is counted (forgotten()),
 * because the address gets a whole burst again: a crowd of sources can only make the limit more
 * lenient, never stricter.
 *
 * An IPv6 host has 2^64 addresses or more to come from, so its network of 64 bits is the source.
 *
 * Two sources with the same 64-bit hash would share a limit. In a full table this happens to one
 * address in 10^14.
 *
 * Rejected: an exact table, which an attacker fills; forgetting at random, which also forgets
 * sources that are at their limits.
 *
 * Any task calls; none parks. A lock is held for the search of a set, or of a sixteenth of the
 * table once after each change of the limit. enter() throws if there is no memory for the table.
 */
#ifndef RELAY_SOURCE_RATES_HPP
#define RELAY_SOURCE_RATES_HPP

#include "base/ip.hpp"
#include "stats/counters.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace relay
{

/* The most addresses in the table. At 16 bytes each, they take 1 MiB for a listener with such a
 * limit. */
inline constexpr std::size_t sources_most = 65536;

class source_rates
{
public:
	/*
	 * Whether one more connection of that source, now (sn_now()), is within the limit:
	 * `per_second`, evenly, and `burst` together after a pause, as for class rate
	 * (sources.hpp). A refused connection does not count. Rate and burst are 1 to 10^9.
	 */
	bool enter(const ip_address &source, std::int64_t now, std::uint64_t per_second,
		   std::uint64_t burst);

	/* How many sources were forgotten while their limit still mattered. */
	std::uint64_t forgotten() const noexcept { return forgotten_.get(); }

private:
	static constexpr std::size_t ways = 8;
	static constexpr std::size_t shards = 16;
	static constexpr std::size_t sets = sources_most / shards / ways; /* in a shard */

	struct place {
		std::uint64_t tag = 0; /* 0: empty */
		std::int64_t due = 0;  /* when the next connection is on time */
	};
	using set = std::array<place, ways>;
	struct shard {
		std::mutex lock;         /* guards the others */
		std::vector<set> all;    /* empty before the first */
		std::uint64_t limit = 0; /* the id of the last call's; 0: none yet */
	};

	std::array<shard, shards> shards_;
	counter forgotten_;
};

} // namespace relay

#endif
