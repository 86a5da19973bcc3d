/* SPDX-License-Identifier: MIT */
/* Listeners of UDP while the relay is reloaded, replaced and stopped. */
#include "datagrams.hpp"
#include "harness.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <optional>
#include <sys/prctl.h>
#include <sys/wait.h>

using namespace harness;

namespace
{

std::string listening(const std::string &name, const std::string &address)
{
	return "[listeners." + name + "]\naddress = \"" + address + "\"\ngroup = \"g\"\n";
}

std::string group(const std::string &backend)
{
	return "[groups.g]\nbackends = [\"" + backend + "\"]\n";
}

const std::string process = "drain = \"20s\"\nadmin = \"127.0.0.1:0\"\naccess_log = \"stderr\"\n";

/* Lets a client and a backend exchange datagrams; returns the session's address, as the backend
 * sees it. */
std::string exchange(udp_peer &client, const std::string &at, udp_peer &backend,
		     const std::string &bytes = "q")
{
	client.send(at, bytes);
	const auto arrived = backend.receive();
	EXPECT_EQ(arrived.bytes, bytes);
	backend.send(arrived.from, "a" + bytes);
	EXPECT_EQ(client.receive().bytes, "a" + bytes);
	return arrived.from;
}

std::string free_address()
{
	const udp_peer there;
	return "udp:" + there.address();
}

/* Sessions keep the configuration with which they began; new sessions have the new one. */
TEST(UdpOperation, AReloadKeepsSocketsAndSessions)
{
	udp_peer one, two, early, late;
	const auto at = free_address();
	configured_relay relay(process + listening("a", at) + group(one.address()));
	EXPECT_EQ(relay.address(), at);
	const auto session = exchange(early, at, one);
	ASSERT_TRUE(relay.reload(process + listening("a", at) + group(two.address())))
		<< relay.errors();
	EXPECT_EQ(exchange(early, at, one), session);
	exchange(late, at, two);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(UdpOperation, AListenerThatIsGoneServesItsSessions)
{
	udp_peer backend, early, late;
	const auto at = free_address();
	const std::string other = listening("b", "udp:127.0.0.1:0");
	const std::string rest = other + group(backend.address());
	configured_relay relay(process + listening("a", at) + rest);
	EXPECT_EQ(relay.address(), at);
	const auto session = exchange(early, at, backend);
	ASSERT_TRUE(relay.reload(process + rest)) << relay.errors();
	late.send(at, "no");
	EXPECT_EQ(exchange(early, at, backend), session);
	EXPECT_EQ(relay.metric("datagrams_dropped_total{listener=\"a\",reason=\"stopping\"}"), 1U);

	/* The port is in use as long as the old listener has that session, but a new listener can
	 * share it. */
	ASSERT_TRUE(relay.reload(process + listening("a", at) + rest)) << relay.errors();
	exchange(late, at, backend, "yes");
	backend.send(session, "an answer of the old session");
	EXPECT_EQ(early.receive().bytes, "an answer of the old session");
	EXPECT_NE(exchange(early, at, backend, "new"), session);
	EXPECT_EQ(relay.stop().status, 0);
}

/* Without sessions the socket is closed immediately. */
TEST(UdpOperation, AListenerThatIsGoneFreesItsPort)
{
	udp_peer backend;
	const auto at = free_address();
	const std::string rest = listening("b", "udp:127.0.0.1:0") + group(backend.address());
	configured_relay relay(process + listening("a", at) + rest);
	EXPECT_EQ(relay.address(), at);
	ASSERT_TRUE(relay.reload(process + rest)) << relay.errors();
	EXPECT_TRUE(eventually([&] {
		try {
			const udp_peer again(at);
			return true;
		} catch (const std::exception &) {
			return false;
		}
	}));
	EXPECT_EQ(relay.stop().status, 0);
}

/* An answer that is under way is passed on, and new clients are not served. */
TEST(UdpOperation, StoppingWaitsForAnswers)
{
	udp_peer backend, client, late;
	configured_relay relay(process + listening("a", "udp:127.0.0.1:0") +
			       "responses = 1\nidle_timeout = '1h'\n" + group(backend.address()));
	const auto at = relay.address();
	client.send(at, "q");
	const auto session = backend.receive().from;
	relay.signal(SIGTERM);
	relay.await_error("notice draining");
	backend.send(session, "a");
	EXPECT_EQ(client.receive().bytes, "a");
	const auto end = relay.wait();
	EXPECT_EQ(end.status, 0);
	EXPECT_NE(end.errors.find("cause=drained"), std::string::npos) << end.errors;
	EXPECT_EQ(end.errors.find("cutting"), std::string::npos) << end.errors;
}

/* A session that expects no answers does not delay the end for its whole idle timeout. */
TEST(UdpOperation, StoppingDoesNotWaitForSilentSessions)
{
	udp_peer backend, client;
	configured_relay relay("drain = '1h'\naccess_log = 'stderr'\n" +
			       listening("a", "udp:127.0.0.1:0") + "idle_timeout = '1h'\n" +
			       group(backend.address()));
	exchange(client, relay.address(), backend);
	const auto end = relay.stop();
	EXPECT_EQ(end.status, 0);
	EXPECT_NE(end.errors.find("cause=drained"), std::string::npos) << end.errors;
}

TEST(UdpOperation, ASocketOfTheServiceManagerIsUsed)
{
	udp_peer backend, client;
	const udp_peer handed;
	const listener tcp_backend;
	client.send(handed.address(), "early");
	/* The same port of TCP belongs to another socket. */
	relay_process relay({"udp:" + handed.address(), backend.address()}, 0, {handed.fd()});
	EXPECT_EQ(relay.address(), "udp:" + handed.address());
	const auto arrived = backend.receive();
	EXPECT_EQ(arrived.bytes, "early");
	backend.send(arrived.from, "a");
	EXPECT_EQ(client.receive().from, handed.address());
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(UdpOperation, ASocketOfTcpIsNotTakenForOneOfUdp)
{
	udp_peer backend;
	const listener handed;
	relay_process relay({"udp:" + handed.address(), backend.address()}, 0, {handed.fd()});
	EXPECT_EQ(relay.address(), "udp:" + handed.address());
	relay.await_error("warning socket_unused");
	EXPECT_EQ(relay.stop().status, 0);
}

/* The backend is checked as the group says, over TCP. */
TEST(UdpOperation, ABackendThatGoesDownLosesItsSessions)
{
	udp_peer backend, client;
	std::optional<listener> checked(std::in_place);
	configured_relay relay(process + listening("a", "udp:127.0.0.1:0") +
			       group(backend.address()) +
			       "[groups.g.check]\ninterval = '20ms'\nfall = 1\non_down = 'cut'\n"
			       "address = '" +
			       checked->address() + "'\n");
	const auto at = relay.address();
	exchange(client, at, backend);
	checked.reset();
	relay.await_error("cause=backend_down listener=a");
	client.send(at, "no");
	EXPECT_TRUE(eventually([&] {
		return relay.metric(
			       "datagrams_dropped_total{listener=\"a\",reason=\"no_backend\"}") ==
		       1;
	}));
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(UdpOperation, ConnectionsThatAreKilledBeginAgain)
{
	udp_peer backend, client, other;
	const folder here;
	const auto control = "unix:" + here / "control";
	configured_relay relay("control = '" + control + "'\naccess_log = 'stderr'\n" +
			       listening("a", "udp:127.0.0.1:0") + group(backend.address()));
	const auto at = relay.address();
	const auto first = exchange(client, at, backend);
	auto asking =
		peer::sending("POST /connections/kill?listener=a HTTP/1.1\r\nHost: localhost\r\n"
			      "Connection: close\r\nContent-Length: 0\r\n\r\n",
			      control);
	EXPECT_NE(asking.receive_rest().first.find("200"), std::string::npos);
	relay.await_error("cause=killed listener=a");
	EXPECT_NE(exchange(client, at, backend), first);
	EXPECT_EQ(relay.stop().status, 0);
}

} // namespace
