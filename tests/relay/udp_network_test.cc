/* SPDX-License-Identifier: MIT */
/* Sessions of UDP in a network of the test's own: what routers report, and a shortage of ports. */
#include "datagrams.hpp"
#include "harness.hpp"
#include "support/own_network.h"

#include <cstdint>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

using namespace harness;
using namespace std::string_literals;

namespace
{

const std::string settings_text = "drain = 0\nadmin = '127.0.0.1:39002'\n"
				  "[listeners.a]\naddress = 'udp:127.0.0.1:39001'\ngroup = 'g'\n"
				  "[groups.g]\neject_after = 1\nbackends = ['127.0.0.1:39000']\n";

std::string two_bytes(unsigned number)
{
	return {static_cast<char>(number >> 8), static_cast<char>(number)};
}

unsigned sum_of(const std::string &packet)
{
	std::uint32_t sum = 0;
	for (std::size_t i = 0; i + 1 < packet.size(); i += 2)
		sum += static_cast<unsigned char>(packet[i]) << 8 |
		       static_cast<unsigned char>(packet[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16)) & 0xffff;
}

/* A router whose next link accepts only smaller packets reports that, and the system sends smaller
 * packets from then on. The backend has not failed, and no datagram is too large. */
TEST(UdpNetwork, ASmallerPathEndsNothing)
{
	if (!test::OwnNetwork::exists())
		GTEST_SKIP() << "a network of its own is not permitted";
	const int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	ASSERT_GE(raw, 0) << std::strerror(errno);
	udp_peer backend("127.0.0.1:39000"), client;
	configured_relay relay(settings_text);
	client.send(relay.address(), "q");
	const auto session = backend.receive().from;
	/* An ICMP message 3/4 with an MTU of 1400, about a packet of the session to the backend. */
	const std::string here = "\x7f\0\0\x01"s;
	std::string packet = "\x03\x04\0\0\0\0"s + two_bytes(1400) +
			     "\x45\0\0\x20\0\0\x40\0\x40\x11\0\0"s + here + here +
			     two_bytes(std::stoul(session.substr(session.rfind(':') + 1))) +
			     two_bytes(39000) + two_bytes(12) + "\0\0sent"s;
	packet.replace(2, 2, two_bytes(sum_of(packet)));
	socklen_t size = 0;
	const auto to = to_sockaddr(backend.address(), size);
	for (int i = 0; i < 20; i++) {
		/* Usually the session's task gets the error first, but the listener's task does if
		 * its datagram is there. */
		EXPECT_EQ(sendto(raw, packet.data(), packet.size(), 0,
				 reinterpret_cast<const sockaddr *>(&to), size),
			  static_cast<ssize_t>(packet.size()));
		const std::string bytes(1450, static_cast<char>('a' + i));
		client.send(relay.address(), bytes);
		const auto arrived = backend.receive();
		EXPECT_EQ(arrived.from, session);
		EXPECT_TRUE(arrived.bytes == bytes);
	}
	close(raw);
	EXPECT_EQ(relay.metric("connections_accepted_total{listener=\"a\"}"), 1U);
	EXPECT_EQ(relay.metric("backend_failures_total{group=\"g\",backend=\"127.0.0.1:39000\"}"),
		  0U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* A lack of ports is not a failure of the backend, for which it would be ejected. */
TEST(UdpNetwork, WithoutAFreePortNewClientsAreDropped)
{
	if (!test::OwnNetwork::exists())
		GTEST_SKIP() << "a network of its own is not permitted";
	std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
	if (!(range << "40000 40007\n" << std::flush))
		GTEST_SKIP() << "the range of ports cannot be changed";
	udp_peer backend("127.0.0.1:39000");
	configured_relay relay(settings_text);
	std::vector<std::unique_ptr<udp_peer>> crowd;
	for (int i = 0; i < 20; i++) {
		crowd.push_back(
			std::make_unique<udp_peer>("127.0.0.1:" + std::to_string(39100 + i)));
		crowd.back()->send(relay.address(), "q");
	}
	for (int i = 0; i < 8; i++)
		backend.send(backend.receive().from, "a");
	EXPECT_EQ(crowd.front()->receive().bytes, "a");
	EXPECT_TRUE(eventually([&] {
		return relay.metric("datagrams_dropped_total{listener=\"a\",reason=\"no_room\"}") ==
		       12;
	}));
	relay.await_error("error no_room");
	EXPECT_EQ(relay.metric("backend_failures_total{group=\"g\",backend=\"127.0.0.1:39000\"}"),
		  0U);
	EXPECT_EQ(relay.stop().status, 0);
}

} // namespace

int main(int argc, char **argv)
{
	test::OwnNetwork::enter(argc, argv, {});
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
