/* SPDX-License-Identifier: MIT */
/*
 * When few local ports are left to connect from, a backend does not count as failed. The test has a
 * network of its own, in which only connections to backends need ports, because everything else
 * uses Unix sockets.
 */
#include "harness.hpp"
#include "support/own_network.h"

#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

using namespace harness;

namespace
{

constexpr std::size_t ports = 4;

class LocalPorts : public testing::Test
{
protected:
	void SetUp() override
	{
		if (!test::OwnNetwork::exists())
			GTEST_SKIP() << "a network of its own is not permitted";
		if (!set_range(20000, 20000 + ports - 1))
			GTEST_SKIP() << "the range of ports cannot be changed";
	}
	/* The backends of the next case have ports of their own again. */
	void TearDown() override
	{
		if (test::OwnNetwork::exists())
			set_range(32768, 60999);
	}

	static bool set_range(std::size_t first, std::size_t last)
	{
		std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
		return static_cast<bool>(range << first << ' ' << last << '\n' << std::flush);
	}

	std::string config_for(const std::string &backends,
			       const std::string &check = "interval = '50ms'\nfall = 1\n") const
	{
		return "drain = 0\naccess_log = 'stderr'\nadmin = 'unix:" + in_ / "admin" +
		       "'\n[listeners.a]\naddress = 'unix:" + in_ / "relay" +
		       "'\ngroup = 'g'\nconnect_timeout = '1s'\n[groups.g]\neject_after = 1\n"
		       "backends = [" +
		       backends + "]\n[groups.g.check]\n" + check;
	}

	static std::string of(const listener &backend)
	{
		return "{group=\"g\",backend=\"" + backend.address() + "\"}";
	}

	static void expect_well(relay_process &relay, const listener &backend)
	{
		EXPECT_EQ(relay.metric("backend_up" + of(backend)), 1U);
		EXPECT_EQ(relay.metric("backend_failures_total" + of(backend)), 0U);
		EXPECT_EQ(relay.metric("backend_check_failures_total" + of(backend)), 0U);
		EXPECT_EQ(relay.metric("backend_ejections_total" + of(backend)), 0U);
	}

	const folder in_;
	/* Created before the range of ports is changed. */
	listener first_{"127.0.0.2"}, second_{"127.0.0.3"};
};

TEST_F(LocalPorts, WithoutAFreeOneTheBackendIsWell)
{
	const listener &backend = first_;
	configured_relay relay(config_for("'" + backend.address() + "'"));
	EXPECT_TRUE(
		eventually([&] { return relay.metric("backend_checks_total" + of(backend)) > 0; }));
	std::vector<peer> clients;
	for (std::size_t i = 0; i < ports; i++)
		clients.push_back(peer::connect(relay.address()));
	/* Now and then a check has one of the ports for a moment. */
	EXPECT_TRUE(eventually(
		[&] { return relay.metric("backend_connected_total" + of(backend)) == ports; }));
	auto late = peer::connect(relay.address());
	late.receive_end();
	relay.await_error("cause=no_memory");
	relay.await_error("a connection to backend " + backend.address() +
			  " of g could not be made for lack of a resource: no local port is free");
	relay.await_error("a check of backend " + backend.address() +
			  " of g could not be made for lack of a resource: no local port is free");
	/* Checks are made as before, and nothing spins. */
	EXPECT_TRUE(relay.rests(250ms));
	expect_well(relay, backend);
	/* Nothing has to be done when there are ports again. */
	ASSERT_TRUE(set_range(20000, 20000 + 2 * ports - 1));
	clients.push_back(peer::connect(relay.address()));
	EXPECT_TRUE(eventually([&] {
		return relay.metric("backend_connected_total" + of(backend)) == ports + 1;
	}));
	expect_well(relay, backend);
	clients.clear();
	EXPECT_EQ(relay.stop().status, 0);
}

TEST_F(LocalPorts, EachBackendHasPortsOfItsOwn)
{
	configured_relay relay(config_for("{ address = '" + first_.address() +
					  "', weight = 100 }, '" + second_.address() + "'"));
	std::vector<peer> clients;
	/* Now and then checks have one port of each backend for a moment. */
	for (std::size_t i = 0; i < 2 * ports - 2; i++)
		clients.push_back(peer::connect(relay.address()));
	EXPECT_TRUE(eventually([&] {
		return relay.metric("backend_connected_total" + of(first_)) +
			       relay.metric("backend_connected_total" + of(second_)) ==
		       2 * ports - 2;
	}));
	expect_well(relay, first_);
	expect_well(relay, second_);
	clients.clear();
	EXPECT_EQ(relay.stop().status, 0);
}

/* Clients may wait for it, so it does not wait for the next interval. */
TEST_F(LocalPorts, AFirstCheckIsMadeWhenThereIsAFreeOne)
{
	std::vector<peer> others;
	for (std::size_t i = 0; i < ports; i++)
		others.push_back(peer::connect(first_.address()));
	configured_relay relay(
		config_for("'" + first_.address() + "'", "interval = '1h'\ninitial = 'down'\n"));
	relay.await_error("a check of backend " + first_.address() +
			  " of g could not be made for lack of a resource: no local port is free");
	EXPECT_EQ(relay.metric("ready"), 0U);
	ASSERT_TRUE(set_range(20000, 20000 + 2 * ports - 1));
	EXPECT_TRUE(eventually([&] { return relay.metric("ready") == 1; }));
	expect_well(relay, first_);
	EXPECT_EQ(count_of("could not be made", relay.errors()), 1U);
	EXPECT_EQ(relay.stop().status, 0);
}

} // namespace

int main(int argc, char **argv)
{
	test::OwnNetwork::enter(argc, argv, {});
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
