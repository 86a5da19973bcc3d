/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * Limits on clients: which ones are accepted, how many, how fast and for how long. Each limit is
 * exact, and has a counter and a cause in the log.
 */
#include "harness.hpp"

#include <gtest/gtest.h>
#include <list>
#include <poll.h>
#include <thread>

using namespace harness;

namespace
{

std::string text(const std::string &limits, const std::string &backend,
		 const std::string &address = "127.0.0.1:0")
{
	return "drain = 0\naccess_log = \"stderr\"\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\naddress = \"" +
	       address + "\"\ngroup = \"g\"\n" + limits + "[groups.g]\nbackends = [\"" + backend +
	       "\"]\n";
}

std::uint64_t ended(relay_process &relay, const std::string &cause)
{
	return relay.metric("connections_ended_total{listener=\"web\",cause=\"" + cause + "\"}");
}

struct pair {
	peer client;
	peer backend;
};

TEST(Limits, PerSourceAreExact)
{
	listener backend;
	configured_relay relay(text("max_connections_per_source = 2\n", backend.address()));
	const std::string address = relay.address();
	std::list<pair> open;
	const auto add = [&](const std::string &from) {
		auto client = peer::sending("x", address, from);
		auto served = backend.accept();
		EXPECT_EQ(served.receive(1), "x");
		open.push_back({std::move(client), std::move(served)});
	};
	add("127.0.0.2");
	add("127.0.0.2");
	EXPECT_EQ(peer::connect(address, "127.0.0.2").receive_end(), ending::fin);
	relay.await_error("cause=refused_limit listener=web client=127.0.0.2:");
	EXPECT_EQ(relay.counter("refused"), 1U);
	EXPECT_EQ(ended(relay, "refused_limit"), 1U);
	add("127.0.0.3");
	open.pop_front();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 2; }));
	add("127.0.0.2");
	EXPECT_EQ(peer::connect(address, "127.0.0.2").receive_end(), ending::fin);
	open.clear();
	stop(relay);
}

TEST(Lists, DenyAndAllow)
{
	listener backend;
	configured_relay relay(text("allow = [\"127.0.0.0/30\", \"::1\"]\ndeny = [\"127.0.0.2\"]\n",
				    backend.address()));
	const std::string address = relay.address();
	for (const char *from : {"127.0.0.1", "127.0.0.3"}) {
		auto client = peer::sending("x", address, from);
		EXPECT_EQ(backend.accept().receive(1), "x") << from;
	}
	EXPECT_EQ(peer::connect(address, "127.0.0.2").receive_end(), ending::fin);
	relay.await_error("cause=refused_list listener=web client=127.0.0.2:");
	EXPECT_EQ(peer::connect(address, "127.0.0.4").receive_end(), ending::fin);
	relay.await_error("cause=refused_list listener=web client=127.0.0.4:");
	EXPECT_EQ(relay.counter("denied"), 2U);
	EXPECT_EQ(ended(relay, "refused_list"), 2U);
	stop(relay);
}

/* A dual-stack socket reports IPv4 addresses as mapped IPv6 addresses. */
TEST(Lists, HoldForADualStackSocket)
{
	listener backend;
	configured_relay relay(text("deny = [\"127.0.0.2\", \"::1\"]\n", backend.address(), ":0"));
	const std::string any = relay.address();
	const std::string port = any.substr(any.rfind(':'));
	auto client = peer::sending("x", "127.0.0.1" + port);
	EXPECT_EQ(backend.accept().receive(1), "x");
	EXPECT_EQ(peer::connect("127.0.0.1" + port, "127.0.0.2").receive_end(), ending::fin);
	std::uint64_t denied = 1;
	if (any.starts_with('[')) {
		EXPECT_EQ(peer::connect("[::1]" + port).receive_end(), ending::fin);
		denied++;
	}
	EXPECT_EQ(relay.counter("denied"), denied);
	client.close();
	stop(relay);
}

/* The time starts when one direction ends, and starts again with each byte of the other
 * direction. */
TEST(HalfClose, HasATimeoutOfItsOwn)
{
	using clock = std::chrono::steady_clock;
	listener door;
	configured_relay relay(
		text("idle_timeout = 0\nhalf_close_timeout = \"1s\"\n", door.address()));
	/* Returns false if the machine stalled the test for half that time or longer, so that the
	 * time may have run out. */
	const auto is_kept = [&] {
		const auto before = ended(relay, "half_close_timeout");
		auto client_first = peer::connect(relay.address());
		auto its_backend = door.accept();
		auto its_client = peer::connect(relay.address());
		auto backend_first = door.accept();
		const std::pair<peer *, peer *> both[] = {{&client_first, &its_backend},
							  {&backend_first, &its_client}};
		std::this_thread::sleep_for(1100ms); /* no limit applies yet */
		const auto start = clock::now();
		auto last = start;
		bool in_time = true;
		const auto step = [&] {
			in_time &= clock::now() - last < 500ms;
			last = clock::now();
			return in_time;
		};
		try {
			for (const auto &[first, other] : both) {
				first->send("question");
				first->shutdown_write();
				EXPECT_EQ(other->receive_rest(),
					  std::pair(std::string("question"), ending::fin));
			}
			while (step() && clock::now() < start + 1300ms) {
				for (const auto &[first, other] : both) {
					other->send("answer");
					EXPECT_EQ(first->receive(6), "answer");
				}
				std::this_thread::sleep_for(20ms);
			}
			if (!step())
				return false;
			for (const auto &[first, other] : both)
				EXPECT_EQ(first->receive_end(), ending::fin);
		} catch (const std::exception &error) {
			EXPECT_FALSE(step()) << error.what();
			return false;
		}
		relay.await_error("cause=half_close_timeout listener=web");
		EXPECT_TRUE(eventually(
			[&] { return ended(relay, "half_close_timeout") == before + 2; }));
		return true;
	};
	const auto until = clock::now() + patience;
	bool kept = false;
	while (!(kept = is_kept()) && clock::now() < until)
		EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_TRUE(kept);
	EXPECT_EQ(relay.counter("idle_timeouts"), ended(relay, "half_close_timeout"));
	stop(relay);
}

/* Makes ten connections from that address, to a listener with a rate of one a second and a burst of
 * three. Returns how many were refused. */
unsigned come_too_fast(relay_process &relay, listener &backend, const std::string &from)
{
	const std::string address = relay.address(); /* waits until it serves */
	const auto start = std::chrono::steady_clock::now();
	const auto before = relay.counter("rate_refused");
	unsigned served = 0;
	unsigned refused = 0;
	for (int i = 0; i < 10; i++) {
		auto client = peer::connect(address, from);
		client.shutdown_write();
		pollfd waiting{backend.fd(), POLLIN, 0};
		EXPECT_TRUE(eventually([&] {
			return poll(&waiting, 1, 0) == 1 ||
			       relay.counter("rate_refused") > before + refused;
		}));
		if (waiting.revents) {
			backend.accept().close();
			served++;
		} else {
			refused++;
			EXPECT_EQ(client.receive_end(), ending::fin);
		}
	}
	const auto took = std::chrono::steady_clock::now() - start;
	EXPECT_GE(served, 3U);
	EXPECT_LE(served, 3U + static_cast<unsigned>(took / 1s) + 1);
	relay.await_error("cause=refused_rate listener=web client=" + from + ":");
	return refused;
}

TEST(Rate, OfAcceptingIsEnforced)
{
	listener backend;
	configured_relay relay(text("accept_rate = 1\naccept_burst = 3\n", backend.address()));
	const unsigned refused = come_too_fast(relay, backend, "127.0.0.1");
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_EQ(relay.counter("rate_refused"), refused);
	EXPECT_EQ(ended(relay, "refused_rate"), refused);
	stop(relay);
}

TEST(Rate, OfEachSourceIsEnforced)
{
	listener backend;
	configured_relay relay(text("accept_rate_per_source = 1\naccept_burst_per_source = 3\n",
				    backend.address()));
	unsigned refused = 0;
	for (const char *from : {"127.0.0.2", "127.0.0.3"})
		refused += come_too_fast(relay, backend, from);
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_EQ(ended(relay, "refused_rate"), refused);
	EXPECT_EQ(relay.metric("sources_forgotten_total{listener=\"web\"}"), 0U);
	relay.await_error("limit=accept_rate_per_source");
	stop(relay);
}

TEST(Lifetime, EndsBusyConnectionsToo)
{
	listener backend;
	configured_relay relay(text("lifetime = \"300ms\"\n", backend.address()));
	std::chrono::steady_clock::time_point start;
	peer client;
	std::uint64_t lives = 0;
	/* On a slow machine a lifetime can end before the connection reaches the backend: try
	 * again. */
	EXPECT_TRUE(eventually([&] {
		start = std::chrono::steady_clock::now();
		client = peer::connect(relay.address());
		lives++;
		pollfd ends[2] = {{backend.fd(), POLLIN, 0}, {client.fd(), POLLIN, 0}};
		return poll(ends, 2, static_cast<int>(patience / 1ms)) > 0 && ends[0].revents;
	}));
	auto served = backend.accept();
	std::thread busy([&served] {
		try {
			for (;;)
				served.send("x");
		} catch (const std::exception &) {
			/* The connection has ended. */
		}
	});
	EXPECT_EQ(client.receive_rest().second, ending::reset);
	busy.join();
	EXPECT_GE(std::chrono::steady_clock::now() - start, 300ms);
	relay.await_error("cause=lifetime listener=web ");
	EXPECT_EQ(relay.counter("lifetimes"), lives);
	EXPECT_EQ(ended(relay, "lifetime"), lives);
	stop(relay);
}

TEST(Lifetime, CoversConnectingToo)
{
	for (const std::string connecting : {"\"1h\"", "0"}) {
		const silent_backend backend;
		configured_relay relay(
			text("lifetime = \"200ms\"\nconnect_timeout = " + connecting + "\n",
			     backend.address()));
		auto client = peer::connect(relay.address());
		EXPECT_EQ(client.receive_rest().second, ending::reset);
		relay.await_error("cause=lifetime listener=web ");
		EXPECT_EQ(relay.counter("connect_failed"), 0U);
		stop(relay);
	}
}

TEST(Lifetime, LeavesShorterConnectionsAlone)
{
	listener backend;
	configured_relay relay(text("lifetime = \"1h\"\n", backend.address()));
	for (int i = 0; i < 20; i++) {
		auto client = peer::connect(relay.address());
		auto served = backend.accept();
		client.send("x");
		EXPECT_EQ(served.receive(1), "x");
		served.close();
		EXPECT_EQ(client.receive_end(), ending::fin);
	}
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_EQ(relay.counter("lifetimes"), 0U);
	stop(relay);
}

} // namespace
