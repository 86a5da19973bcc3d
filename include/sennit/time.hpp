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
#include <sennit/scope.h>
#include <sennit/task.h>
#include <sennit/timer.h>

#include <cerrno>
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

inline std::int64_t to_ns(deadline d) noexcept
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
		/* Each to nanoseconds first, because the difference may not fit into the units of
		 * the clock, nor those of `when`. */
		const std::int64_t ns = to_ns(when.time_since_epoch());
		std::int64_t from_now;
		if (__builtin_sub_overflow(ns, to_ns(Clock::now().time_since_epoch()), &from_now))
			from_now = ns < 0 ? INT64_MIN : INT64_MAX;
		return sn_after(from_now);
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
	return deadline(clock::duration(sn_after(ns)));
}

/*
 * When a call is to give up, as its last parameter: a duration from now, or a point in time.
 *
 *	conn.set_read_deadline(5s);
 *	const sn::deadline by = sn::after(5s);
 *	auto conn = sn::tcp::connect(address, by);
 *	auto greeting = greetings.recv(by);
 *
 * A duration counts from the moment at which it becomes a time_limit; one that is too long to be
 * added is "never". A point on another clock than sn::clock is taken relative to that clock's
 * current time.
 */
class time_limit
{
public:
	constexpr time_limit(deadline when) noexcept : when_(when) {}
	template <class Rep, class Period>
	time_limit(const std::chrono::duration<Rep, Period> &from_now) : when_(after(from_now))
	{
	}
	template <class Clock, class Duration>
	time_limit(const std::chrono::time_point<Clock, Duration> &when)
	    : when_(clock::duration(detail::until_ns(when)))
	{
	}

	/* The point on the clock of deadlines; no_deadline for never. */
	constexpr deadline when() const noexcept { return when_; }

private:
	deadline when_;
};

namespace detail
{

inline std::int64_t to_ns(const time_limit &limit) noexcept
{
	return to_ns(limit.when());
}

/*
 * Whether a call with this deadline has failed with -ETIMEDOUT because of it, rather than because
 * of that of a scope that the task works in. A cancelled scope counts more where both have passed:
 * a program that tries again when its own deadline has passed would otherwise never end.
 */
inline bool is_own_timeout(std::int64_t deadline) noexcept
{
	return deadline != SN_NO_DEADLINE && deadline <= sn_now() && sn_cancelled() == 0;
}

/* The error of a call that has a deadline, in a task whose scope may have been cancelled after that
 * has passed. */
inline int reason_of(int returned) noexcept
{
	const int cancelled = returned == -ETIMEDOUT ? sn_cancelled() : 0;
	return cancelled != 0 ? cancelled : returned;
}

} // namespace detail

/* Sleeps at least that long; zero or less is yield(). May park. */
template <class Rep, class Period>
void sleep(std::chrono::duration<Rep, Period> d)
{
	detail::throw_if_error(sn_sleep(detail::to_ns(d)), "sn::sleep");
}

/* May park. */
template <class Clock, class Duration>
void sleep_until(const std::chrono::time_point<Clock, Duration> &when)
{
	detail::throw_if_error(sn_sleep_until(detail::until_ns(when)), "sn::sleep_until");
}

/* Lets other runnable tasks run first. May park. */
inline void yield()
{
	detail::throw_if_error(sn_yield(), "sn::yield");
}

} // namespace sennit

#endif
