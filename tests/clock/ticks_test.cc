// SPDX-License-Identifier: MIT
//
// How the counter's clock behaves when the kernel's clock is steered, set, or replaced by another
// one, at any moment between its own measurements. The world is simulated (simulated.h), so every
// number here is exact. behaviour.c tests the real clocks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "clock/simulated.h"
#include "support/runtime.h"

extern "C" {
#include <sennit/clock.h>
}

namespace
{

constexpr double US = 1e3, MS = 1e6, SECOND = 1e9, DAY = 86400 * SECOND;

// The bounds that docs/clock.md and the header promise.
constexpr double STEADY = 1 * US;     // while nothing happens
constexpr double FOLLOWS = 5 * MS;    // after a new rate or a step of the wall clock
constexpr double NAMESPACE = 10 * MS; // after entering another time namespace

// A step of a 24 MHz counter takes 42 ns, and no measurement is more exact.
constexpr double STEP = 4 * 42;

class Ticks : public testing::Test
{
protected:
	void SetUp() override { start_world(); }

	// Reads, and records the largest error and how often the clock went back.
	void look()
	{
		double before = world.monotonic;
		auto now = static_cast<double>(simulated_ticks_now());
		double after = world.monotonic;

		error = now < before ? now - before : now > after ? now - after : 0;
		worst = std::max(worst, std::abs(error));
		if (now < last)
			back++;
		last = now;
	}

	// Reads at this interval, for this duration, in nanoseconds.
	void look_on(double duration, double interval)
	{
		for (double end = world.truth + duration; world.truth < end;) {
			look();
			pass(interval);
		}
	}

	// Reads until the counter's clock has reached its usual state.
	void settle(double interval = 10 * US)
	{
		look_on(60 * MS, interval);
		worst = 0;
		back = 0;
	}

	bool by_counter() { return simulated_ticks_source() == SN_CLOCK_SOURCE_COUNTER; }

	double error = 0, worst = 0, last = 0;
	int back = 0;
};

// From one tried phase to the next. The world is simulated, so every build finds the same as long
// as its compiler is right: under an emulator, in the short form, one phase in seven is enough.
double stride(double length)
{
	return TEST_EMULATED && test::is_short() ? 7 * length : length;
}

// How often the clock is read: continuously, about as often as pieces change, or rarely.
constexpr double INTERVALS[] = {3 * US, 300 * US, 1 * MS, 3.9 * MS, 7 * MS, 23 * MS};

TEST_F(Ticks, AgreeWhileNothingHappens)
{
	settle();
	ASSERT_TRUE(by_counter());
	look_on(8 * SECOND, 5 * US); // over several multiples of 2^32
	EXPECT_LE(worst, STEADY);
	EXPECT_EQ(back, 0);
}

// ADJ_TICK accepts a rate from 0.9 to 1.1, and chrony goes up to 1/12 from the middle.
TEST_F(Ticks, FollowAClockThatIsSteered)
{
	const struct {
		double from, to;
	} turns[] = {{1, 1.0005}, {1.0005, 0.9995}, {1, 1 + 1. / 12}, {1, 0.9},
		     {1, 1.1},    {0.9, 1.1},       {1.1, 0.9}};

	for (auto turn : turns) {
		double bound = std::abs(turn.to - turn.from) * FOLLOWS + STEADY + STEP;

		for (double interval : INTERVALS) {
			for (double phase = 0; phase < 9 * MS; phase += stride(0.17 * MS)) {
				start_world();
				world.rate = turn.from;
				last = 0;
				settle(std::min(interval, 0.2 * MS));
				look_on(phase, interval);
				world.rate = turn.to;
				look_on(60 * MS, interval);
				ASSERT_LE(worst, bound) << turn.from << " to " << turn.to << ", "
							<< phase << " after, "
							<< "every " << interval << " ns";
				ASSERT_EQ(back, 0);
				ASSERT_TRUE(by_counter()) << interval;
				// From here on the counter's clock has caught up.
				worst = 0;
				look_on(60 * MS, interval);
				ASSERT_LE(worst, STEADY) << interval;
			}
		}
	}
}

// A long slew with infrequent reads, which must not make the clock give up the counter.
TEST_F(Ticks, KeepTheCounterThroughALongSlew)
{
	settle();
	for (double rate : {1.08, 1.0, 0.92, 1.0}) {
		world.rate = rate;
		look_on(2 * SECOND, 90 * MS);
		EXPECT_TRUE(by_counter()) << rate;
	}
	EXPECT_EQ(back, 0);
	EXPECT_LE(worst, 0.08 * FOLLOWS);
}

TEST_F(Ticks, FollowIntoAnotherTimeNamespace)
{
	for (double offset : {10 * DAY, -10000 * SECOND, 1 * SECOND, -1 * SECOND, 30 * MS, -30 * MS,
			      4 * MS, -4 * MS, 1 * MS, -1 * MS, 0.1 * MS, -0.1 * MS}) {
		for (double interval : INTERVALS) {
			for (double phase = 0; phase < 5 * MS; phase += stride(0.11 * MS)) {
				start_world();
				settle(std::min(interval, 0.2 * MS));
				look_on(phase, interval);
				world.monotonic += offset;
				world.wall -= offset;
				look_on(NAMESPACE, std::min(interval, 0.5 * MS));
				worst = 0;
				back = 0;
				look_on(50 * MS, interval);
				ASSERT_LE(worst, STEADY)
					<< offset << ", " << phase << " after, every " << interval;
				ASSERT_EQ(back, 0);
				ASSERT_TRUE(by_counter())
					<< offset << ", " << phase << " after, every " << interval;
			}
		}
	}
}

// The namespace changes before anything was measured twice, so there is nothing to compare yet.
TEST_F(Ticks, FollowIntoANamespaceFromTheFirstMoment)
{
	for (double offset : {10 * DAY, -10000 * SECOND, 5 * MS, -5 * MS}) {
		start_world();
		look_on(7 * MS, 10 * US);
		world.monotonic += offset;
		world.wall -= offset;
		worst = 0;
		look_on(100 * MS, 10 * US);
		EXPECT_LE(worst, 0.25 * MS) << offset;
		worst = 0;
		look_on(100 * MS, 10 * US);
		EXPECT_LE(worst, STEADY) << offset;
		EXPECT_TRUE(by_counter()) << offset;
	}
}

// CLOCK_MONOTONIC stops while the machine sleeps. Counters may continue, or start again.
TEST_F(Ticks, NeverGoBackAfterASleep)
{
	for (double jump : {3600 * SECOND, 70 * MS, 5 * MS, 1 * MS, -0.9e12 / 2.5}) {
		for (double phase = 0; phase < 5 * MS; phase += stride(0.11 * MS)) {
			start_world();
			settle();
			look_on(phase, 10 * US);
			world.counter_at += jump * world.counter;
			look_on(100 * MS, 10 * US);
			ASSERT_EQ(back, 0) << jump << ", " << phase << " after";
			worst = 0;
			look_on(50 * MS, 10 * US);
			ASSERT_LE(worst, STEADY) << jump;
			ASSERT_TRUE(by_counter()) << jump;
		}
	}
}

TEST_F(Ticks, StayRightAcrossPauses)
{
	settle();
	for (double pause : {0.3 * MS, 5 * MS, 80 * MS, 5 * SECOND, 3600 * SECOND, 40 * DAY}) {
		pass(pause);
		look_on(100 * MS, 10 * US);
		EXPECT_EQ(back, 0) << pause;
		EXPECT_LE(worst, STEADY) << pause;
		EXPECT_TRUE(by_counter()) << pause;
	}
}

// A thread may be stopped between reading the counter and measuring.
TEST_F(Ticks, SurviveAStopInTheMiddleOfAMeasurement)
{
	for (double stall : {0.1 * MS, 0.3 * MS, 5 * MS, 80 * MS, 5 * SECOND}) {
		for (int i = 0; i < 100; i++) {
			start_world();
			settle(50 * US);
			look_on(i * 0.05 * MS, 10 * US);
			world.stall = stall;
			look_on(100 * MS, 10 * US);
			ASSERT_EQ(back, 0) << stall;
			ASSERT_LE(worst, STEADY) << stall;
			ASSERT_TRUE(by_counter()) << stall;
		}
	}
}

TEST_F(Ticks, GiveUpACounterThatJumps)
{
	settle();
	for (int i = 0; i < 100 && by_counter(); i++) {
		world.counter_at += 3 * MS * world.counter;
		look_on(0.1 * MS, 10 * US);
	}
	EXPECT_FALSE(by_counter());
	EXPECT_EQ(back, 0);
	look_on(50 * MS, 10 * US);
	worst = 0;
	look_on(50 * MS, 10 * US);
	EXPECT_EQ(worst, 0);
	EXPECT_EQ(back, 0);

	// From here on the clock is the kernel's, in another namespace, too.
	world.monotonic -= 10000 * SECOND;
	look_on(50 * MS, 10 * US);
	EXPECT_EQ(worst, 0);
}

// The wall clock is read off the counter, as on i386: how late does it show that the clock was set?
TEST_F(Ticks, ShowThatTheWallClockWasSet)
{
	settle();
	for (int i = 0; i < 1000; i++) {
		double set, seen;

		look_on(7.3 * MS, 50 * US);
		world.wall += i % 2 ? -3600 * SECOND : 3600 * SECOND;
		set = world.truth;
		do {
			seen = static_cast<double>(simulated_walltime()) - world.monotonic -
			       world.wall;
			pass(5 * US);
		} while (std::abs(seen) > 1 * MS && world.truth - set < SECOND);
		ASSERT_LE(world.truth - set, FOLLOWS);
	}
	ASSERT_TRUE(by_counter());
}

// The namespace changes only the monotonic clock, so the wall clock shows no change.
TEST_F(Ticks, LeaveTheWallClockAloneInAnotherNamespace)
{
	settle();
	for (int i = 0; i < 100; i++) {
		double offset = i % 2 ? -10 * DAY : 10 * DAY;

		world.monotonic += offset;
		world.wall -= offset;
		for (double end = world.truth + 7.3 * MS; world.truth < end;) {
			double before = world.monotonic + world.wall;
			auto now = static_cast<double>(simulated_walltime());

			// At 10^18 a double has a resolution of 256 ns.
			ASSERT_NEAR(now, before, STEADY + 256);
			pass(5 * US);
		}
	}
	ASSERT_TRUE(by_counter());
}

// Without a real-time clock device the wall clock starts in 1970, with the monotonic one.
TEST_F(Ticks, UseTheCounterOnAMachineThatStartsIn1970)
{
	world.wall = 0;
	settle();
	look_on(100 * MS, 10 * US);
	EXPECT_LE(worst, STEADY);
	EXPECT_TRUE(by_counter());
}

} // namespace
