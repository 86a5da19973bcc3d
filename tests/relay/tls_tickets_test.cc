/* SPDX-License-Identifier: MIT */
/* The keys of TLS tickets: there is a new one each day, few are kept, and the next process has the
 * same ones. */
#include "tls/tls_tickets.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace
{

constexpr std::int64_t day = 86400;

TEST(TlsTickets, AreRenewedDailyAndForgottenLater)
{
	relay::tls_tickets tickets;
	EXPECT_FALSE(tickets.renew(0)) << "nobody has asked for a key yet";
	const auto first = tickets.keys();
	ASSERT_EQ(first.size(), 1U);
	EXPECT_EQ(tickets.keys(), first);
	EXPECT_NE(first[0], relay::tls_tickets::key{});
	EXPECT_FALSE(tickets.renew(1000));
	EXPECT_FALSE(tickets.renew(1000 + day - 1));
	EXPECT_EQ(tickets.generation(), 0U);
	EXPECT_TRUE(tickets.renew(1000 + day));
	std::uint64_t generation = 0;
	const auto second = tickets.keys(&generation);
	EXPECT_EQ(generation, 1U);
	EXPECT_EQ(tickets.generation(), 1U);
	ASSERT_EQ(second.size(), 2U);
	EXPECT_NE(second[0], first[0]) << "the newest comes first";
	EXPECT_EQ(second[1], first[0]);
	EXPECT_FALSE(tickets.renew(1000 + day + 1));
	EXPECT_TRUE(tickets.renew(1000 + 2 * day));
	EXPECT_TRUE(tickets.renew(1000 + 3 * day));
	const auto last = tickets.keys();
	ASSERT_EQ(last.size(), relay::tls_tickets::most_keys);
	EXPECT_EQ(last[2], second[0]) << "the oldest has gone";
	/* After the clock was set back, the day begins again. */
	EXPECT_FALSE(tickets.renew(1000));
	EXPECT_FALSE(tickets.renew(1000 + day - 1));
	EXPECT_TRUE(tickets.renew(1000 + day));
}

TEST(TlsTickets, AreTheSameInTheNextProcess)
{
	relay::tls_tickets before;
	EXPECT_EQ(before.to_hand_over(), -1) << "there are none";
	before.keys();
	EXPECT_FALSE(before.renew(5000));
	EXPECT_TRUE(before.renew(5000 + day));
	const int fd = before.to_hand_over();
	ASSERT_GE(fd, 0);
	ASSERT_EQ(setenv(relay::tickets_variable, std::to_string(fd).c_str(), 1), 0);
	relay::tls_tickets after;
	after.take_over();
	EXPECT_EQ(std::getenv(relay::tickets_variable), nullptr);
	EXPECT_EQ(after.keys(), before.keys());
	EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "the descriptor is closed";
	/* The day continues, however often the process is replaced. */
	EXPECT_FALSE(after.renew(5000 + 2 * day - 1));
	EXPECT_TRUE(after.renew(5000 + 2 * day));
}

TEST(TlsTickets, WhatIsNoSuchFileIsNotTaken)
{
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	for (const auto &text : {std::string("x"), std::string("0"), std::string("-1"),
				 std::string("99999"), std::to_string(ends[0])}) {
		ASSERT_EQ(setenv(relay::tickets_variable, text.c_str(), 1), 0);
		relay::tls_tickets tickets;
		tickets.take_over();
		EXPECT_EQ(std::getenv(relay::tickets_variable), nullptr);
		EXPECT_EQ(tickets.to_hand_over(), -1) << text;
	}
	close(ends[0]);
	close(ends[1]);
}

} // namespace
