/* SPDX-License-Identifier: MIT */
/*
 * Time: points on the clock of deadlines, durations, and sleeping. Durations are any std::chrono
 * durations, saturated to the nanoseconds in which the runtime counts.
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_TIME_HPP
#define SENNIT_TIME_HPP

#include <sennit/clock.h>
#include <sennit/clock.hpp>
#include <sennit/result.hpp>
#include <sennit/task.h>
#include <sennit/timer.h>

#include <chrono>
#include <cstdint>
#include <type_traits>

namespace sennit
{

/* A point on sn::clock (clock.hpp). */
using deadline = clock::time_point;

/* In place of a deadline: never. */
inline constexpr deadline no_deadline{clock::duration(SN_NO_DEADLINE)};

/* The current time. */
inline clock::time_point now() noexcept
{
	return clock::now();
}

namespace detail
{

/* A duration in nanoseconds, saturated: hours::max() is a long time, not a negative one. */
template <class Rep, class Period>
constexpr std::int64_t to_ns(std::chrono::duration<Rep, Period> d)
{
	using std::chrono::nanoseconds;
	using wide = std::chrono::duration<long double, std::nano>;
	if (wide(d) >= wide(nanoseconds::max()))
		return nanoseconds::max().count();
	if (wide(d) <= wide(nanoseconds::min()))
		return nanoseconds::min().count();
	return std::chrono::ceil<nanoseconds>(d).count();
}

inline std::int64_t to_ns(deadline d)
{
	return d.time_since_epoch().count();
}

/* A point in time of any clock as a deadline; on a clock other than sn::clock, relative to its
 * current time. */
template <class Clock, class Duration>
std::int64_t until_ns(const std::chrono::time_point<Clock, Duration> &when)
{
	if constexpr (std::is_same_v<Clock, clock>) {
		const std::int64_t ns = to_ns(when.time_since_epoch());
		return ns == INT64_MAX ? INT64_MAX - 1 : ns;
	} else {
		return sn_after(to_ns(when - Clock::now()));
	}
}

template <class Rep, class Period>
std::int64_t after_ns(std::chrono::duration<Rep, Period> d)
{
	return sn_after(to_ns(d));
}

} // namespace detail

/* The point in time d from now; never, if d is too long to be added. */
template <class Rep, class Period>
deadline after(std::chrono::duration<Rep, Period> d)
{
	const std::int64_t start = sn_now();
	const std::int64_t ns = detail::to_ns(d);
	if (ns > INT64_MAX - start)
		return no_deadline;
	return deadline(clock::duration(start + ns));
}

/* Sleeps at least that long; zero or less is yield(). May park. */
template <class Rep, class Period>
void sleep(std::chrono::duration<Rep, Period> d)
{
	detail::throw_if_error(sn_sleep(detail::to_ns(d)), "sn::sleep");
}

/* May park. */
inline void sleep_until(clock::time_point when)
{
	detail::throw_if_error(sn_sleep_until(detail::to_ns(when)), "sn::sleep_until");
}

/* Lets other runnable tasks run first. May park. */
inline void yield()
{
	detail::throw_if_error(sn_yield(), "sn::yield");
}

} // namespace sennit

#endif
