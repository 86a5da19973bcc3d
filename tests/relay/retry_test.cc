/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* A backend that is away for a moment, for example while it restarts, is tried again. */
#include "harness.hpp"

#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <optional>

using namespace harness;

namespace
{

std::string text(const std::string &group, const std::vector<std::string> &backends,
		 const std::string &listener = "")
{
	std::string list;
	for (const auto &each : backends)
		list += (list.empty() ? "" : ", ") +
			(each.starts_with('{') ? each : '"' + each + '"');
	return "drain = 0\naccess_log = \"stderr\"\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n" +
	       listener + "[groups.g]\n" + group + "backends = [" + list + "]\n";
}

std::uint64_t failures(relay_process &relay, const std::string &backend)
{
	return relay.metric("backend_failures_total{group=\"g\",backend=\"" + backend + "\"}");
}

void expect_served(peer client, listener &backend)
{
	auto served = backend.accept();
	EXPECT_EQ(served.receive(1), "x");
	served.send("y");
	EXPECT_EQ(client.receive(1), "y");
}

/* Answers from now on, and serves a client that sends "x" and ends its stream. */
void answer(silent_backend &silent)
{
	listener &answers = silent.answer();
	for (;;) {
		auto served = answers.accept();
		const std::string request = served.receive_rest().first;
		if (request.empty())
			continue;
		EXPECT_EQ(request, "x");
		served.send("y");
		return;
	}
}

TEST(Retry, ABackendThatRestartsServesTheClient)
{
	listener backend("127.0.0.1", -1);
	/* With the values of the command line, and more time for a machine that may stall. */
	configured_relay relay(text("", {backend.address()}, "connect_timeout = \"30s\"\n"));
	auto client = peer::sending("x", relay.address());
	ASSERT_TRUE(eventually([&] { return failures(relay, backend.address()) == 2; }));
	backend.listen();
	expect_served(std::move(client), backend);
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	EXPECT_GE(relay.counter("retries"), 2U);
	stop(relay);
}

TEST(Retry, EveryBackendIsTriedAgainAlsoWhenEjected)
{
	listener first("127.0.0.1", -1);
	listener second("127.0.0.1", -1);
	configured_relay relay(text("retries = 50\nretry_delay = \"10ms\"\neject_after = 1\n"
				    "eject_for = \"1h\"\n",
				    {first.address(), second.address()}, "connect_timeout = 0\n"));
	auto client = peer::sending("x", relay.address());
	ASSERT_TRUE(eventually([&] {
		return failures(relay, first.address()) >= 2 &&
		       failures(relay, second.address()) >= 2;
	}));
	EXPECT_EQ(relay.counter("ejections"), 2U);
	second.listen();
	expect_served(std::move(client), second);
	stop(relay);
}

TEST(Retry, AUnixSocketMayBeAway)
{
	const folder here;
	const std::string address = "unix:" + (here / "app.sock");
	configured_relay relay(
		text("retries = 50\nretry_delay = \"10ms\"\n", {address}, "connect_timeout = 0\n"));
	auto client = peer::sending("x", relay.address());
	ASSERT_TRUE(eventually([&] { return failures(relay, address) >= 1; }));
	listener backend(address);
	expect_served(std::move(client), backend);
	stop(relay);
}

TEST(Retry, HasAnEnd)
{
	const listener nobody("127.0.0.1", -1);
	configured_relay relay(text("retries = 2\nretry_delay = \"20ms\"\n", {nobody.address()},
				    "connect_timeout = 0\n"));
	const auto start = std::chrono::steady_clock::now();
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	EXPECT_GE(std::chrono::steady_clock::now() - start, 60ms) << "20 ms, then 40";
	relay.await_error("cause=connect_failed listener=web ");
	EXPECT_EQ(relay.counter("retries"), 2U);
	EXPECT_EQ(relay.counter("connect_failed"), 1U);
	EXPECT_EQ(failures(relay, nobody.address()), 3U);
	stop(relay);
}

/* The relay does not wait for an attempt that would come after the timeout. */
TEST(Retry, DoesNotExceedTheConnectTimeout)
{
	const listener nobody("127.0.0.1", -1);
	configured_relay relay(
		text("retry_delay = \"1h\"\n", {nobody.address()}, "connect_timeout = \"30m\"\n"));
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	EXPECT_EQ(relay.counter("retries"), 0U);
	stop(relay);
}

TEST(Retry, IsNotForABackendThatDoesNotAnswer)
{
	const silent_backend silent;
	configured_relay relay(text("retry_delay = \"1ms\"\n", {silent.address()},
				    "connect_timeout = \"300ms\"\n"));
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	EXPECT_EQ(relay.counter("retries"), 0U);
	EXPECT_EQ(failures(relay, silent.address()), 1U);
	stop(relay);
}

TEST(Retry, OneThatDoesNotAnswerHasTheTimeOfAnAttempt)
{
	const silent_backend silent;
	listener good("127.0.0.1");
	configured_relay relay(text("attempt_timeout = \"20ms\"\n",
				    {silent.address(), good.address()}, "connect_timeout = 0\n"));
	auto client = peer::sending("x", relay.address());
	expect_served(std::move(client), good);
	EXPECT_EQ(failures(relay, silent.address()), 1U);
	EXPECT_EQ(relay.counter("retries"), 1U);
	stop(relay);
}

TEST(Retry, ABackendOfAReloadServesTheClient)
{
	const listener nobody("127.0.0.1", -1);
	listener good("127.0.0.1");
	const std::string often = "retries = 50\nretry_delay = \"10ms\"\n";
	configured_relay relay(text(often, {nobody.address()}, "connect_timeout = 0\n"));
	auto client = peer::sending("x", relay.address());
	ASSERT_TRUE(eventually([&] { return failures(relay, nobody.address()) >= 2; }));
	ASSERT_TRUE(relay.reload(text(often, {good.address()}, "connect_timeout = 0\n")));
	expect_served(std::move(client), good);
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	stop(relay);
}

/* A client that waits, here or in the queue, then gets the backend that a new client gets. */
TEST(Retry, AReloadMayBalanceByTheSource)
{
	const listener nobody("127.0.0.1", -1);
	const listener full("127.0.0.1");
	std::deque<listener> listeners;
	std::vector<std::string> all;
	for (unsigned i = 0; i < 16; i++)
		all.push_back(listeners.emplace_back("127.0.0.1").address());
	const std::string to_full = "{address = \"" + full.address() + "\", max_connections = 1}";
	/* For a log, the relay would know the client's address from the beginning. */
	const auto without_log = [](std::string config) {
		const std::string line = "access_log = \"stderr\"\n";
		return config.erase(config.find(line), line.size());
	};

	for (const bool is_queued : {false, true}) {
		configured_relay relay(without_log(
			text("retries = 50\nretry_delay = \"10ms\"\nqueue_timeout = 0\n",
			     {is_queued ? to_full : nobody.address()}, "connect_timeout = 0\n")));
		const auto connected = [&](const std::string &backend) {
			return relay.metric("backend_connected_total{group=\"g\",backend=\"" +
					    backend + "\"}");
		};
		std::optional<peer> first;
		if (is_queued) {
			first = peer::connect(relay.address());
			ASSERT_TRUE(eventually([&] { return connected(full.address()) == 1; }));
		}
		const auto client = peer::connect(relay.address());
		ASSERT_TRUE(eventually([&] {
			return is_queued ? relay.metric("queue_connections{group=\"g\"}") == 1
					 : failures(relay, nobody.address()) >= 1;
		}));
		ASSERT_TRUE(relay.reload(without_log(text("balance = \"source-hash\"\n", all))));
		std::string its;
		ASSERT_TRUE(eventually([&] {
			const auto at = std::ranges::find_if(
				all, [&](const auto &each) { return connected(each) == 1; });
			its = at == all.end() ? "" : *at;
			return !its.empty();
		}));
		const auto next = peer::connect(relay.address());
		EXPECT_TRUE(eventually([&] { return connected(its) == 2; })) << is_queued;
		EXPECT_EQ(relay.counter("connect_failed"), 0U);
		EXPECT_EQ(relay.stop().status, 0);
	}
}

TEST(Retry, EndsWhenTheClientGoesAway)
{
	const listener nobody("127.0.0.1", -1);
	configured_relay relay(
		text("retry_delay = \"1h\"\n", {nobody.address()}, "connect_timeout = 0\n"));
	for (const bool is_reset : {false, true}) {
		auto client = peer::connect(relay.address());
		const auto before = failures(relay, nobody.address());
		EXPECT_TRUE(eventually([&] {
			return failures(relay, nobody.address()) > before ||
			       relay.counter("active") == 1;
		}));
		is_reset ? client.reset() : client.close();
		EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	}
	relay.await_error("cause=client_left listener=web ");
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	stop(relay);
}

/* A backend with one place that does not answer: the first client connects, the second waits for
 * the place. */
TEST(Retry, AResetDuringAnAttemptFreesThePlace)
{
	silent_backend silent;
	configured_relay relay(
		text("queue_timeout = 0\n",
		     {"{address = \"" + silent.address() + "\", max_connections = 1}"},
		     "connect_timeout = \"1h\"\n"));
	auto first = peer::connect(relay.address());
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 1; }));
	auto second = peer::sending("x", relay.address());
	EXPECT_TRUE(
		eventually([&] { return relay.metric("queue_connections{group=\"g\"}") == 1; }));
	first.reset();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 1; }));
	EXPECT_TRUE(
		eventually([&] { return relay.metric("queue_connections{group=\"g\"}") == 0; }));
	relay.await_error("cause=client_left listener=web ");
	EXPECT_EQ(relay.metric("connections_ended_total{listener=\"web\",cause=\"client_left\"}"),
		  1U);
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	EXPECT_EQ(failures(relay, silent.address()), 0U);

	second.shutdown_write();
	answer(silent);
	EXPECT_EQ(second.receive_rest(), std::pair(std::string("y"), ending::fin));
	stop(relay);
}

/* The second client resets its connection, which is noticed after that of the first was looked at.
 */
TEST(Retry, AnEndOfTheStreamDuringAnAttemptDoesNotEndIt)
{
	silent_backend silent;
	configured_relay relay(text("", {silent.address()}, "connect_timeout = \"1h\"\n"));
	auto first = peer::sending("x", relay.address());
	first.shutdown_write();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 1; }));
	auto second = peer::connect(relay.address());
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 2; }));
	second.reset();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 1; }));

	answer(silent);
	EXPECT_EQ(first.receive_rest(), std::pair(std::string("y"), ending::fin));
	stop(relay);
}

TEST(Retry, EndsWithTheRelay)
{
	const listener nobody("127.0.0.1", -1);
	configured_relay relay(
		text("retry_delay = \"1h\"\n", {nobody.address()}, "connect_timeout = 0\n"));
	auto client = peer::connect(relay.address());
	EXPECT_TRUE(eventually([&] { return failures(relay, nobody.address()) == 1; }));
	EXPECT_EQ(relay.stop().status, 0);
	EXPECT_EQ(client.receive_end(), ending::reset);
}

} // namespace
