// SPDX-License-Identifier: MIT
//
// The clocks of clock.hpp meet the requirements of std::chrono, and show the kernel's time.

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <type_traits>

#include <sennit/clock.hpp>
#include <sennit/sn.hpp>

#include "kernel_clock.h"

namespace
{

namespace chrono = std::chrono;
using namespace std::chrono_literals;

// [time.clock.req]: Clock, and TrivialClock, whose types must be arithmetic and whose points must
// be usable without exceptions.
template <class Clock>
constexpr bool is_trivial_clock()
{
	using duration = typename Clock::duration;
	using point = typename Clock::time_point;

	static_assert(chrono::is_clock_v<Clock>);
	static_assert(std::is_arithmetic_v<typename Clock::rep>);
	static_assert(std::is_same_v<typename Clock::rep, typename duration::rep>);
	static_assert(std::is_same_v<typename Clock::period, typename duration::period>);
	static_assert(std::is_same_v<duration, typename point::duration>);
	static_assert(std::is_same_v<Clock, typename point::clock>);
	static_assert(std::is_same_v<const bool, decltype(Clock::is_steady)>);
	static_assert(noexcept(Clock::now()));
	static_assert(std::is_same_v<point, decltype(Clock::now())>);
	static_assert(std::is_nothrow_copy_constructible_v<point>);
	static_assert(std::is_nothrow_copy_assignable_v<point>);
	static_assert(std::is_nothrow_destructible_v<point>);
	static_assert(std::is_trivially_copyable_v<point>);
	static_assert(sizeof(point) == sizeof(std::int64_t));
	return true;
}

static_assert(is_trivial_clock<sn::clock>() && sn::clock::is_steady);
static_assert(is_trivial_clock<sn::tick_clock>() && sn::tick_clock::is_steady);
static_assert(is_trivial_clock<sn::wall_clock>() && !sn::wall_clock::is_steady);

// Time points of different clocks must not convert into each other by accident.
static_assert(!std::is_convertible_v<sn::tick_clock::time_point, sn::clock::time_point>);
static_assert(!std::is_convertible_v<sn::wall_clock::time_point, sn::clock::time_point>);
static_assert(!std::is_convertible_v<sn::wall_clock::time_point, chrono::system_clock::time_point>);

// How far a clock that is read off the counter may be from the kernel's (behaviour.c).
constexpr std::int64_t COUNTER_BOUND = 100'000;

template <class Point>
std::int64_t ns(Point point)
{
	return chrono::nanoseconds(point.time_since_epoch()).count();
}

TEST(Chrono, MonotonicClockAgreesWithTheKernel)
{
	for (int i = 0; i < 1000; i++) {
		const std::int64_t before = kernel_ns(CLOCK_MONOTONIC);
		const auto now = sn::clock::now();
		const std::int64_t after = kernel_ns(CLOCK_MONOTONIC);

		ASSERT_LE(before, ns(now));
		ASSERT_LE(ns(now), after);
	}
}

TEST(Chrono, TickClockFollowsAndNeverGoesBack)
{
	auto last = sn::tick_clock::now();

	for (int i = 0; i < 100000; i++) {
		const auto before = sn::clock::now();
		const auto now = sn::tick_clock::now();
		const auto after = sn::clock::now();

		ASSERT_LE(last, now);
		ASSERT_LE(before - chrono::nanoseconds(COUNTER_BOUND),
			  sn::tick_clock::to_clock(now));
		ASSERT_GE(after + chrono::nanoseconds(COUNTER_BOUND),
			  sn::tick_clock::to_clock(now));
		last = now;
	}
}

TEST(Chrono, WallClockAgreesWithTheSystemClock)
{
	const bool counter = sn_clock_source(SN_CLOCK_CALL_WALLTIME) == SN_CLOCK_SOURCE_COUNTER;
	const auto slack = chrono::nanoseconds(counter ? COUNTER_BOUND : 0);
	bool right = false;

	// Tries again if the clock was set during the comparison, which the counter shows 5 ms
	// late.
	wall_clock_was_set();
	for (int i = 0; !right && i < RETAKES && (i == 0 || wall_clock_was_set()); i++) {
		const timespec pause = {0, counter ? 6'000'000 : 0};

		nanosleep(&pause, nullptr);
		const auto before = chrono::system_clock::now();
		const auto now = sn::wall_clock::to_sys(sn::wall_clock::now());
		const auto after = chrono::system_clock::now();

		right = before - slack <= now && now <= after + slack;
	}
	EXPECT_TRUE(right);
}

TEST(Chrono, PointsAreConverted)
{
	constexpr chrono::time_point<chrono::system_clock, chrono::seconds> sys(1700000000s);
	constexpr auto wall = sn::wall_clock::from_sys(sys);

	static_assert(std::is_same_v<decltype(wall),
				     const chrono::time_point<sn::wall_clock, chrono::seconds>>);
	static_assert(wall.time_since_epoch() == 1700000000s);
	static_assert(sn::wall_clock::to_sys(wall) == sys);
	static_assert(sn::wall_clock::from_sys(sn::wall_clock::to_sys(wall)) == wall);

	constexpr sn::tick_clock::time_point tick(5ns);

	static_assert(sn::tick_clock::to_clock(tick).time_since_epoch() == 5ns);
	static_assert(sn::tick_clock::from_clock(sn::tick_clock::to_clock(tick)) == tick);

#if __cpp_lib_chrono >= 201907L
	EXPECT_EQ(chrono::clock_cast<chrono::system_clock>(wall), sys);
	EXPECT_EQ(chrono::clock_cast<sn::wall_clock>(sys), wall);
#endif
}

// Types that the standard library recognizes as clocks.
TEST(Chrono, DifferencesAreDurations)
{
	const auto start = sn::tick_clock::now();
	const chrono::duration<double> took = sn::tick_clock::now() - start;

	EXPECT_GE(took.count(), 0);
	EXPECT_EQ(chrono::floor<chrono::seconds>(sn::wall_clock::time_point(1500ms))
			  .time_since_epoch(),
		  1s);
}

} // namespace
