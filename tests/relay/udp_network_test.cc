/* SPDX-License-Identifier: MIT */
/* Sessions in a network of the test's own: what routers report about datagrams, a shortage of
 * ports, and clients at link-local addresses. */
#include "datagrams.hpp"
#include "harness.hpp"
#include "support/own_network.h"

#include <cstdint>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <net/if.h>
#include <string>
#include <sys/ioctl.h>
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

/* Adds fe80::1 to the interface; returns whether that is possible. */
bool add_link_local(int interface)
{
	struct { /* in6_ifreq of <linux/ipv6.h>, which does not go with other headers */
		in6_addr address;
		std::uint32_t prefix;
		int interface;
	} what{{}, 64, interface};
	const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const bool is_done = inet_pton(AF_INET6, "fe80::1", &what.address) == 1 &&
			     ioctl(fd, SIOCSIFADDR, &what) == 0;
	close(fd);
	return is_done;
}

/* The log has the interface's name, but a client may also ask for its number. */
TEST(LinkLocal, ClientsAreResetByAddressAndInterface)
{
	if (!test::OwnNetwork::exists())
		GTEST_SKIP() << "a network of its own is not permitted";
	const auto interface = if_nametoindex("lo");
	if (!add_link_local(static_cast<int>(interface)))
		GTEST_SKIP() << "the interface has no IPv6";
	listener backend;
	udp_peer datagrams;
	for (const std::string log : {"", "access_log = 'stderr'\n"}) {
		const folder in;
		const std::string control = "unix:" + in / "control";
		configured_relay relay("drain = 0\ncontrol = '" + control + "'\n" + log +
				       "[listeners.t]\naddress = '[::]:39001'\ngroup = 't'\n"
				       "[listeners.u]\naddress = 'udp:[::]:39001'\ngroup = 'u'\n"
				       "[groups.t]\nbackends = ['" +
				       backend.address() + "']\n[groups.u]\nbackends = ['" +
				       datagrams.address() + "']\n");
		relay.await_error(" serves");
		auto client = peer::sending("x", "[fe80::1%lo]:39001");
		auto served = backend.accept();
		EXPECT_EQ(served.receive(1), "x");
		udp_peer other("[::]:0");
		ASSERT_EQ(setsockopt(other.fd(), SOL_SOCKET, SO_BINDTODEVICE, "lo", 2), 0);
		other.send("[fe80::1]:39001", "x");
		EXPECT_EQ(datagrams.receive().bytes, "x");
		const auto kill = [&](const std::string &which) {
			relay_process ctl({"ctl", "--at", control, "kill", "--client", which});
			return ctl.wait().output;
		};
		EXPECT_EQ(kill("fe80::1%" + std::to_string(interface + 1)),
			  "reset 0 connections\n");
		EXPECT_EQ(kill("fe80::1%no-such"), "");
		EXPECT_EQ(kill("fe80:0::1%" + std::to_string(interface)), "reset 2 connections\n");
		EXPECT_EQ(client.receive_end(), ending::reset);
		EXPECT_EQ(relay.stop().status, 0);
	}
}

} // namespace

int main(int argc, char **argv)
{
	test::OwnNetwork::enter(argc, argv, {});
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
