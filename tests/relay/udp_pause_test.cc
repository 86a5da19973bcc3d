/* SPDX-License-Identifier: MIT */
/* The pause after a lack of ports or descriptors. */
#include "sessions/udp_pause.hpp"

#include <gtest/gtest.h>

namespace
{

using relay::udp_pause;

TEST(UdpPause, LastsForAMoment)
{
	udp_pause pause;
	EXPECT_FALSE(pause.lasts(1, 0));
	pause.begin(1000, 5);
	EXPECT_TRUE(pause.lasts(1000, 5));
	EXPECT_TRUE(pause.lasts(999 + udp_pause::longest, 5));
	EXPECT_FALSE(pause.lasts(1000 + udp_pause::longest, 5));
}

TEST(UdpPause, EndsWithASession)
{
	udp_pause pause;
	pause.begin(1000, 5);
	EXPECT_TRUE(pause.lasts(1001, 6)) << "another listener has opened one";
	EXPECT_FALSE(pause.lasts(1001, 4));
}

} // namespace
