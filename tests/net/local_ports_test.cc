// SPDX-License-Identifier: MIT
//
// All local ports are in use. The test has a network of its own with a few of them.
#include <fstream>
#include <vector>

#include "support/net.h"
#include "support/own_network.h"

namespace
{

using test::Listener;

constexpr int ports = 4;

bool set_range(int first, int last)
{
	std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");

	return static_cast<bool>(range << first << ' ' << last << '\n' << std::flush);
}

// Whoever connects gets the error, and nobody else notices. A port that becomes free can be used
// immediately.
TEST(LocalPorts, RunOutAndComeBack)
{
	if (!test::OwnNetwork::exists())
		GTEST_SKIP() << "a network of its own is not permitted";
	test::run({1, 2}, [] {
		ASSERT_TRUE(set_range(32768, 60999));
		Listener listener, other;
		const std::string address = listener.address();
		std::vector<sn_tcp *> clients, servers;
		sn_tcp *conn = nullptr;
		char c = 0;

		if (!set_range(20000, 20000 + ports - 1))
			GTEST_SKIP() << "the range of ports cannot be changed";
		const auto connect_to = [&](const std::string &to) {
			return sn_tcp_connect(&conn, to.c_str(), sn_now() + test::patience);
		};
		for (int i = 0; i < ports; i++) {
			ASSERT_EQ(0, connect_to(address));
			clients.push_back(conn);
			ASSERT_EQ(0, sn_tcp_accept(listener.get(), &conn));
			servers.push_back(conn);
		}
		for (int i = 0; i < 10; i++)
			EXPECT_EQ(-EADDRNOTAVAIL, connect_to(address));
		// The shortage is of ports towards this address only.
		EXPECT_EQ(0, connect_to(other.address()));
		EXPECT_EQ(0, sn_tcp_close(conn));
		EXPECT_EQ(1, sn_tcp_write(clients[0], "x", 1));
		EXPECT_EQ(1, sn_tcp_read(servers[0], &c, 1));
		// The side that closes first keeps the port for a while, so here that is the
		// server.
		EXPECT_EQ(0, sn_tcp_close(servers[0]));
		EXPECT_EQ(0, sn_tcp_read(clients[0], &c, 1));
		EXPECT_EQ(0, sn_tcp_close(clients[0]));
		EXPECT_TRUE(test::eventually([&] { return connect_to(address) == 0; }));
		EXPECT_EQ(0, sn_tcp_close(conn));
		for (int i = 1; i < ports; i++) {
			EXPECT_EQ(0, sn_tcp_close(servers[size_t(i)]));
			EXPECT_EQ(0, sn_tcp_close(clients[size_t(i)]));
		}
	});
}

} // namespace

int main(int argc, char **argv)
{
	test::OwnNetwork::enter(argc, argv, {});
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
