/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* The relay with a configuration file: several backends, retries, limits. */
#include "harness.hpp"

#include <gtest/gtest.h>
#include <poll.h>

using namespace harness;

namespace
{

std::string one_listener(const std::string &more, const std::string &group)
{
	return "drain = 0\n[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n" + more +
	       "[groups.g]\n" + group;
}

TEST(Groups, TakeTurns)
{
	listener a;
	listener b;
	configured_relay relay(one_listener("", "backends = [\"" + a.address() +
							"\", {address = \"" + b.address() +
							"\", weight = 2}]\n"));
	const std::string address = relay.address();
	std::vector<peer> open;
	for (int i = 0; i < 6; i++) {
		open.push_back(peer::connect(address));
		open.back().send("x");
	}
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(a.accept().receive(1), "x");
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(b.accept().receive(1), "x");
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Groups, AFailureIsRetriedElsewhere)
{
	listener alive;
	const listener dead("127.0.0.1", -1);
	configured_relay relay(one_listener("", "backends = [\"" + dead.address() + "\", \"" +
							alive.address() + "\"]\n"));
	const std::string address = relay.address();
	for (int i = 0; i < 14; i++) {
		auto client = peer::sending("x", address);
		auto backend = alive.accept();
		EXPECT_EQ(backend.receive(1), "x");
		backend.close();
		EXPECT_EQ(client.receive_end(), ending::fin);
	}
	/* After five attempts, one in each turn, the backend is left out. */
	EXPECT_EQ(relay.counter("retries"), 5U);
	EXPECT_EQ(relay.counter("ejections"), 1U);
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Groups, ASilentBackendLeavesTimeForAnother)
{
	listener alive;
	const silent_backend silent;
	/* The first backend gets half of the time. The rest is for the other one, and for a machine
	 * that stalls. */
	configured_relay relay(one_listener("connect_timeout = \"5s\"\n",
					    "backends = [\"" + silent.address() + "\", \"" +
						    alive.address() + "\"]\n"));
	const auto start = std::chrono::steady_clock::now();
	auto client = peer::connect(relay.address());
	auto backend = alive.accept();
	EXPECT_GE(std::chrono::steady_clock::now() - start, 2400ms);
	client.send("x");
	EXPECT_EQ(backend.receive(1), "x");
	EXPECT_EQ(relay.counter("retries"), 1U);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Groups, WithoutABackendClientsAreDisconnected)
{
	const listener dead("127.0.0.1", -1);
	const listener also("127.0.0.1", -1);
	configured_relay relay(one_listener("", "retries = 0\nbalance = \"two-choices\"\n"
						"backends = [\"" +
							dead.address() + "\", \"" + also.address() +
							"\"]\n"));
	auto client = peer::connect(relay.address());
	EXPECT_EQ(client.receive_end(), ending::fin);
	EXPECT_EQ(relay.counter("retries"), 1U);
	EXPECT_EQ(relay.counter("connect_failed"), 1U);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Groups, ASourceStaysWithItsBackend)
{
	listener backends[2];
	configured_relay relay(one_listener("", "balance = \"source-hash\"\nbackends = [\"" +
							backends[0].address() + "\", \"" +
							backends[1].address() + "\"]\n"));
	const std::string address = relay.address();
	std::vector<peer> open;
	for (int i = 0; i < 12; i++) {
		open.push_back(peer::connect(address));
		open.back().send("x");
	}
	ASSERT_TRUE(eventually([&] { return relay.counter("bytes_to_backend") == open.size(); }));
	/* All clients are at the same backend: the other one has no connection to accept. */
	pollfd waiting[2] = {{backends[0].fd(), POLLIN, 0}, {backends[1].fd(), POLLIN, 0}};
	EXPECT_EQ(poll(waiting, 2, 0), 1);
	EXPECT_EQ(relay.stop().status, 0);
}

/* A listener at every address sees the addresses of IPv4 clients in the form of IPv6. */
TEST(Groups, ASourceIsTheSameAtEachListener)
{
	listener backends[4];
	std::string all;
	for (const auto &each : backends)
		all += "\"" + each.address() + "\", ";
	configured_relay relay("drain = 0\naccess_log = \"stderr\"\n"
			       "[listeners.one]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
			       "[listeners.dual]\naddress = \":0\"\ngroup = \"g\"\n"
			       "[groups.g]\nbalance = \"source-hash\"\nbackends = [" +
			       all + "]\n");
	const auto dual = relay.address(1);
	const std::string same = "127.0.0.1" + dual.substr(dual.rfind(':'));
	const auto served_by = [&](const std::string &address, const std::string &from) {
		auto client = peer::connect(address, from);
		pollfd waiting[4];
		for (int i = 0; i < 4; i++)
			waiting[i] = {backends[i].fd(), POLLIN, 0};
		EXPECT_EQ(poll(waiting, 4, static_cast<int>(patience / 1ms)), 1);
		int which = 0;
		while (which < 3 && waiting[which].revents == 0)
			which++;
		backends[which].accept();
		return which;
	};
	for (int i = 2; i < 22; i++) {
		const std::string from = "127.0.0." + std::to_string(i);
		EXPECT_EQ(served_by(relay.address(0), from), served_by(same, from)) << from;
	}
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	relay.await_error("listener=dual client=127.0.0.21:");
	EXPECT_EQ(relay.errors().find("ffff"), std::string::npos);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Limits, OfAListenerAreExactAndRefuseClients)
{
	listener backends;
	configured_relay relay(one_listener("max_connections = 2\n",
					    "backends = [\"" + backends.address() + "\"]\n"));
	const std::string address = relay.address();
	auto first = peer::connect(address);
	auto second = peer::connect(address);
	auto of_first = backends.accept();
	auto of_second = backends.accept();
	EXPECT_EQ(peer::connect(address).receive_end(), ending::fin);
	EXPECT_EQ(relay.counter("refused"), 1U);
	/* There is room again. */
	first.close();
	second.close();
	of_first.close();
	of_second.close();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	auto third = peer::sending("x", address);
	EXPECT_EQ(backends.accept().receive(1), "x");
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Limits, OfABackendSendClientsElsewhere)
{
	listener small;
	listener large;
	configured_relay relay(
		one_listener("", "queue = 0\nbackends = [{address = \"" + small.address() +
					 "\", max_connections = 1}, {address = \"" +
					 large.address() + "\", max_connections = 2}]\n"));
	const std::string address = relay.address();
	std::vector<peer> open;
	for (int i = 0; i < 3; i++)
		open.push_back(peer::connect(address));
	const auto one = small.accept();
	const auto two = large.accept();
	const auto three = large.accept();
	EXPECT_EQ(peer::connect(address).receive_end(), ending::fin);
	EXPECT_EQ(relay.counter("refused"), 1U);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Check, PrintsGoodOrEveryError)
{
	{
		const file config(one_listener("", "backends = [\"h:1\"]\n"));
		relay_process relay({"--config", config.name(), "--check"});
		const ended end = relay.wait();
		EXPECT_EQ(end.status, 0);
		EXPECT_EQ(end.output, config.name() + ": good\n");
		EXPECT_EQ(end.errors, "");
	}
	const file config(one_listener("colour = 1\n", "backends = [\"h\"]\n"));
	for (const auto &arguments :
	     {std::vector<std::string>{"--config", config.name(), "--check"},
	      std::vector<std::string>{"--config", config.name()}}) {
		relay_process relay(arguments);
		const ended end = relay.wait();
		EXPECT_EQ(end.status, 2);
		EXPECT_EQ(end.output, "");
		EXPECT_NE(end.errors.find(config.name() + ":5:1: listeners.web.colour: unknown"),
			  std::string::npos)
			<< end.errors;
		EXPECT_NE(end.errors.find(config.name() + ":7:13: groups.g.backends[0]: \"h\""),
			  std::string::npos)
			<< end.errors;
	}
}

} // namespace
