/* SPDX-License-Identifier: MIT */
/* The clients whose QUIC hello is not complete yet. */
#include "sessions/udp_pending.hpp"

#include <gtest/gtest.h>

namespace
{

using relay::udp_pending;

relay::udp_key key_of(std::size_t n)
{
	relay::udp_key key{sn::address::parse("192.0.2.1:1").value(), {}};
	key.client.port = static_cast<std::uint16_t>(n);
	return key;
}

/* The oldest gives way, so a new client always has a place, however many clients never send the
 * rest of their hello. */
TEST(UdpPending, TheOldestGivesWay)
{
	udp_pending all;
	std::size_t lost = 0;
	for (std::size_t i = 0; i < udp_pending::clients_most; i++) {
		auto &each = all.add(key_of(i), INT64_MAX, {}, lost);
		EXPECT_TRUE(udp_pending::keep(each, "one"));
		EXPECT_TRUE(udp_pending::keep(each, "two"));
	}
	EXPECT_EQ(lost, 0U);
	all.remove(*all.find(key_of(0)));
	all.add(key_of(50'000), INT64_MAX, {}, lost);
	EXPECT_EQ(lost, 0U) << "a place was free";
	all.add(key_of(50'001), INT64_MAX, {}, lost);
	EXPECT_EQ(lost, 2U);
	EXPECT_EQ(all.find(key_of(1)), nullptr);
	for (const std::size_t there : {2, 4095, 50'000, 50'001})
		EXPECT_NE(all.find(key_of(there)), nullptr) << there;
}

TEST(UdpPending, EndsWithTheTime)
{
	udp_pending all;
	std::size_t lost = 0;
	EXPECT_EQ(all.next(), INT64_MAX);
	for (const std::size_t i : {1, 2, 3}) {
		auto &each = all.add(key_of(i), static_cast<std::int64_t>(10 * i), {}, lost);
		udp_pending::keep(each, "one");
		udp_pending::keep(each, "two");
	}
	EXPECT_EQ(all.next(), 10);
	EXPECT_EQ(all.expire(9).clients, 0U);
	const auto late = all.expire(20);
	EXPECT_EQ(late.clients, 2U);
	EXPECT_EQ(late.datagrams, 4U);
	EXPECT_EQ(all.next(), 30);
	EXPECT_EQ(all.find(key_of(2)), nullptr);
	EXPECT_NE(all.find(key_of(3)), nullptr);
}

/* The limit is what one hello can need. */
TEST(UdpPending, KeepsABoundedAmount)
{
	udp_pending all;
	std::size_t lost = 0;
	auto &many = all.add(key_of(1), INT64_MAX, {}, lost);
	for (int i = 0; i < 16; i++)
		EXPECT_TRUE(udp_pending::keep(many, "x"));
	EXPECT_FALSE(udp_pending::keep(many, "x"));
	auto &large = all.add(key_of(2), INT64_MAX, {}, lost);
	EXPECT_TRUE(udp_pending::keep(large, std::string(2 * relay::tls_hello_most, 'x')));
	EXPECT_FALSE(udp_pending::keep(large, "x"));
}

} // namespace
