// SPDX-License-Identifier: MIT
//
// How often calls try again that wait for room in the backlog of a Unix listener.
#include <gtest/gtest.h>

#include "net/unix_interval.h"

namespace
{

constexpr int64_t ms = 1000000, second = 1000 * ms;

TEST(UnixInterval, IsLateByATenthAtMost)
{
	int64_t waited = 0, last = 0;

	for (int64_t interval = SN_UNIX_FIRST_INTERVAL_NS; waited < 10 * second;
	     interval = sn_unix_next_interval(interval)) {
		EXPECT_GE(interval, last);
		EXPECT_LE(interval, 10 * ms + waited / 10);
		EXPECT_LE(interval, 100 * ms);
		last = interval;
		waited += interval;
	}
	EXPECT_EQ(last, 100 * ms);
}

TEST(UnixInterval, AsksRarelyAfterASecond)
{
	int64_t waited = 0;
	int first = 0, later = 0;

	for (int64_t interval = SN_UNIX_FIRST_INTERVAL_NS; waited < 11 * second;
	     interval = sn_unix_next_interval(interval)) {
		waited += interval;
		(waited < second ? first : later)++;
	}
	EXPECT_LE(first, 40);
	EXPECT_LE(later, 101);
}

} // namespace
