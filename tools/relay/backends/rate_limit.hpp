/* SPDX-License-Identifier: MIT */
/* A limit of connections per second: the arithmetic that class rate (sources.hpp) and class
 * source_rates share. */
#ifndef RELAY_RATE_LIMIT_HPP
#define RELAY_RATE_LIMIT_HPP

#include <cstdint>

namespace relay
{

/* Rate and burst are 1 to 10^9, so that nothing overflows. */
struct rate_limit {
	std::uint64_t per_second;
	std::uint64_t burst;

	/* The time from one connection to the next, in nanoseconds. */
	std::int64_t step() const noexcept
	{
		return 1'000'000'000 / static_cast<std::int64_t>(per_second);
	}

	/* When the next connection is on time if a whole burst has just come: the latest time that
	 * is possible under this limit. */
	std::int64_t latest(std::int64_t now) const noexcept
	{
		return now + step() * static_cast<std::int64_t>(burst);
	}

	/* Differs for different limits, and is not 0. 10^9 has 30 bits. */
	std::uint64_t id() const noexcept { return per_second << 32 | burst; }
};

} // namespace relay

#endif
