/* SPDX-License-Identifier: MIT */
/*
 * The clocks of clock.h as clocks of std::chrono, for C++17 and later. Header-only; it needs only
 * the library sennit::clock.
 *
 *	const auto start = sn::tick_clock::now();
 *	work();
 *	const std::chrono::nanoseconds took = sn::tick_clock::now() - start;
 *
 *	std::time_t stamp = std::chrono::system_clock::to_time_t(
 *		std::chrono::time_point_cast<std::chrono::system_clock::duration>(
 *			sn::wall_clock::to_sys(sn::wall_clock::now())));
 *
 * Each is a TrivialClock that counts nanoseconds. now() does not throw. Where clock.h says that a
 * clock returns a negative errno value, the result is that many nanoseconds before the epoch.
 *
 * Only wall_clock can be converted to and from std::chrono::system_clock. The other two count from
 * a point that has no date, and their offset from the date changes whenever the date is set.
 *
 * Threads outside the runtime: all calls. Signal handlers: all calls.
 */
#ifndef SENNIT_CLOCK_HPP
#define SENNIT_CLOCK_HPP

#if __cplusplus < 201703L
#	error "clock.hpp is C++17: compile with -std=c++17; clock.h serves older modes"
#endif

#include <sennit/clock.h>

#include <chrono>

namespace sennit
{

/* The monotonic clock of sn_now(), the clock of all deadlines. */
struct clock {
	using duration = std::chrono::nanoseconds;         /* what it counts */
	using rep = duration::rep;                         /* the type that it counts in */
	using period = duration::period;                   /* a nanosecond */
	using time_point = std::chrono::time_point<clock>; /* a point on it */
	static constexpr bool is_steady = true;            /* it never goes back */

	/* The current time. */
	static time_point now() noexcept { return time_point(duration(sn_now())); }
};

/*
 * The monotonic clock of sn_ticks_now(), read from the processor's counter: for short spans. It has
 * the epoch of sn::clock, and differs from it by at most the bound of docs/clock.md. Its points
 * have a type of their own all the same, because a point of this clock may be greater than a later
 * one of the other.
 */
struct tick_clock {
	using duration = std::chrono::nanoseconds;              /* what it counts */
	using rep = duration::rep;                              /* the type that it counts in */
	using period = duration::period;                        /* a nanosecond */
	using time_point = std::chrono::time_point<tick_clock>; /* a point on it */
	static constexpr bool is_steady = true; /* it never goes back in a process */

	/* The current time. */
	static time_point now() noexcept { return time_point(duration(sn_ticks_now())); }

	/* The point on sn::clock, to within that bound; it can be a deadline. */
	template <class Duration>
	static constexpr std::chrono::time_point<clock, Duration>
	to_clock(const std::chrono::time_point<tick_clock, Duration> &when)
	{
		return std::chrono::time_point<clock, Duration>(when.time_since_epoch());
	}

	/* The point on this clock, to within that bound. */
	template <class Duration>
	static constexpr std::chrono::time_point<tick_clock, Duration>
	from_clock(const std::chrono::time_point<clock, Duration> &when)
	{
		return std::chrono::time_point<tick_clock, Duration>(when.time_since_epoch());
	}
};

/*
 * The wall clock of sn_walltime(): nanoseconds since 1970, without leap seconds, as
 * std::chrono::system_clock counts. It may be set, even backwards.
 */
struct wall_clock {
	using duration = std::chrono::nanoseconds;              /* what it counts */
	using rep = duration::rep;                              /* the type that it counts in */
	using period = duration::period;                        /* a nanosecond */
	using time_point = std::chrono::time_point<wall_clock>; /* a point on it */
	static constexpr bool is_steady = false;                /* it may be set */

	/* The current time. */
	static time_point now() noexcept { return time_point(duration(sn_walltime())); }

	/* The same point on std::chrono::system_clock; std::chrono::clock_cast finds it too. */
	template <class Duration>
	static constexpr std::chrono::time_point<std::chrono::system_clock, Duration>
	to_sys(const std::chrono::time_point<wall_clock, Duration> &when)
	{
		return std::chrono::time_point<std::chrono::system_clock, Duration>(
			when.time_since_epoch());
	}

	/* The same point on this clock; std::chrono::clock_cast finds it too. */
	template <class Duration>
	static constexpr std::chrono::time_point<wall_clock, Duration>
	from_sys(const std::chrono::time_point<std::chrono::system_clock, Duration> &when)
	{
		return std::chrono::time_point<wall_clock, Duration>(when.time_since_epoch());
	}
};

} // namespace sennit

#endif
