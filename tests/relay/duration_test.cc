/* SPDX-License-Identifier: MIT */
#include "base/duration.hpp"

#include <gtest/gtest.h>

using namespace std::chrono_literals;
using relay::parse_duration;

TEST(Duration, HasAUnitOrIsSeconds)
{
	EXPECT_EQ(parse_duration("500ms"), 500ms);
	EXPECT_EQ(parse_duration("10s"), 10s);
	EXPECT_EQ(parse_duration("10"), 10s);
	EXPECT_EQ(parse_duration("2m"), 2min);
	EXPECT_EQ(parse_duration("1h"), 1h);
	EXPECT_EQ(parse_duration("0"), 0s);
	EXPECT_EQ(parse_duration("0ms"), 0s);
	EXPECT_EQ(parse_duration("007s"), 7s);
}

TEST(Duration, EndsAtAYear)
{
	EXPECT_EQ(parse_duration("8784h"), 8784h);
	EXPECT_EQ(parse_duration("8785h"), std::nullopt);
	EXPECT_EQ(parse_duration("18446744073709551615"), std::nullopt);
	EXPECT_EQ(parse_duration("18446744073709551616ms"), std::nullopt);
}

TEST(Duration, RefusesAnythingElse)
{
	for (const char *text : {"", "s", "ms", "-1", "+1", " 1", "1 ", "1 s", "1.5s", "1,5", "1S",
				 "1sec", "1s1", "0x10", "1us", "1d", "inf"})
		EXPECT_EQ(parse_duration(text), std::nullopt) << '"' << text << '"';
}
