/* SPDX-License-Identifier: MIT */
/* Labels: long */
/*
 * Backends by name: their addresses change, and the name service fails and recovers.
 *
 * The resolver is the system's own. It asks a name server, which is a thread of this test and
 * answers as each case wants, at 127.0.0.1:53 in a network of its own (support/own_network.h).
 */
#include "config_case.hpp"
#include "harness.hpp"
#include "name_server.hpp"
#include "support/own_network.h"

#include <arpa/inet.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <optional>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

using namespace harness;

namespace
{

using how = name_server::how;

std::string port_of(const listener &door)
{
	return door.address().substr(door.address().rfind(':'));
}

std::string text(const std::string &backend, const std::string &of_group = "",
		 const std::string &of_listener = "")
{
	return "drain = 0\naccess_log = \"stderr\"\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n" +
	       of_listener + "[groups.g]\nresolve = \"100ms\"\neject_after = 0\nbackends = [\"" +
	       backend + "\"]\n" + of_group;
}

/* The local address of a connection that the relay has made. */
std::string local_host(const peer &of)
{
	sockaddr_in at{};
	socklen_t length = sizeof at;
	char host[INET_ADDRSTRLEN] = "";
	if (getsockname(of.fd(), reinterpret_cast<sockaddr *>(&at), &length) == 0)
		inet_ntop(AF_INET, &at.sin_addr, host, sizeof host);
	return host;
}

/* The address that serves a new client. */
std::string served_at(relay_process &relay, listener &door)
{
	auto client = peer::sending("x", relay.address());
	auto served = door.accept();
	EXPECT_EQ(served.receive(1), "x");
	return local_host(served);
}

std::size_t count(const std::string &text, const std::string &part)
{
	std::size_t n = 0;
	for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1))
		n++;
	return n;
}

class Names : public testing::Test
{
protected:
	void SetUp() override
	{
		if (!test::OwnNetwork::exists())
			GTEST_SKIP() << "this machine allows no user, network and mount namespaces";
		names_.emplace();
	}
	std::uint64_t metric(relay_process &relay, const std::string &name) const
	{
		return relay.metric("backend_" + name + "{group=\"g\",backend=\"" + backend_ +
				    "\"}");
	}

	std::optional<name_server> names_;
	listener door_{"0.0.0.0"}; /* at every address of 127.0.0.0/8 */
	const std::string backend_ = "backend.test" + port_of(door_);
};

TEST_F(Names, AddressesComeAndGo)
{
	names_->set(how::answers, {"127.0.0.2"});
	configured_relay relay(text(backend_));
	auto client = peer::connect(relay.address());
	auto served = door_.accept();
	EXPECT_EQ(local_host(served), "127.0.0.2");
	names_->set(how::answers, {"127.0.0.2", "127.0.0.3"});
	EXPECT_TRUE(eventually([&] { return served_at(relay, door_) == "127.0.0.3"; }));
	EXPECT_EQ(metric(relay, "addresses"), 2U);
	names_->set(how::answers, {"127.0.0.3"});
	EXPECT_TRUE(eventually([&] { return metric(relay, "addresses") == 1; }));
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(served_at(relay, door_), "127.0.0.3");
	/* A connection to the removed address is not disturbed. */
	client.send("still");
	EXPECT_EQ(served.receive(5), "still");
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	client.close();
	served.close();
	stop(relay);
}

TEST_F(Names, AddressesAreUsedInTurnAndAllAreTried)
{
	names_->set(how::answers, {"127.0.0.2", "127.0.0.3", "127.0.0.4"});
	configured_relay relay(text(backend_));
	std::map<std::string, int> served;
	for (int i = 0; i < 6; i++)
		served[served_at(relay, door_)]++;
	EXPECT_EQ(served, (std::map<std::string, int>{
				  {"127.0.0.2", 2}, {"127.0.0.3", 2}, {"127.0.0.4", 2}}));
	stop(relay);

	/* Nothing listens at the other two addresses: a client that gets one of these is served at
	 * the next address. */
	listener only("127.0.0.9");
	names_->set(how::answers, {"127.0.0.8", "127.0.0.9", "127.0.0.7"});
	configured_relay another(text("other.test" + port_of(only)));
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(served_at(another, only), "127.0.0.9");
	EXPECT_EQ(another.counter("retries"), 6U) << "round robin: each of the two in its turn";
	stop(another);
}

/* The source address of a client determines the backend's address. */
TEST_F(Names, ASourceStaysWithItsAddress)
{
	names_->set(how::answers, {"127.0.0.2", "127.0.0.3", "127.0.0.4"});
	configured_relay relay(text(backend_, "balance = \"source-hash\"\n"));
	std::set<std::string> all;
	for (int source = 1; source <= 20; source++) {
		std::set<std::string> mine;
		for (int i = 0; i < 3; i++) {
			auto client =
				peer::connect(relay.address(), "127.0.1." + std::to_string(source));
			mine.insert(local_host(door_.accept()));
		}
		EXPECT_EQ(mine.size(), 1U) << source;
		all.merge(mine);
	}
	EXPECT_GT(all.size(), 1U);
	stop(relay);
}

TEST_F(Names, TheLastAnswerStaysWhenTheNameServiceFails)
{
	names_->set(how::answers, {"127.0.0.2"});
	configured_relay relay(text(backend_, "resolve_timeout = \"500ms\"\n"));
	EXPECT_TRUE(eventually([&] { return metric(relay, "addresses") == 1; }));
	EXPECT_EQ(served_at(relay, door_), "127.0.0.2");
	int next = 3;
	const std::string backend = "backend " + backend_ + " of g";
	for (const how does : {how::fails, how::is_silent}) {
		const auto reported = [&] {
			return count(relay.errors(), backend + " does not resolve: ");
		};
		const auto before = reported();
		names_->set(does);
		EXPECT_TRUE(eventually([&] { return reported() > before; }));
		const auto times = reported();
		const auto failures = metric(relay, "resolve_failures_total");
		EXPECT_TRUE(eventually(
			[&] { return metric(relay, "resolve_failures_total") >= failures + 2; }));
		EXPECT_EQ(reported(), times) << "it is reported once";
		EXPECT_EQ(metric(relay, "resolve_failing"), 1U);
		EXPECT_EQ(metric(relay, "addresses"), 1U);
		const auto start = std::chrono::steady_clock::now();
		EXPECT_EQ(served_at(relay, door_), "127.0.0.2");
		EXPECT_LT(std::chrono::steady_clock::now() - start, patience / 2);
		EXPECT_EQ(
			count(relay.errors(), "; its earlier addresses stay in use until it does"),
			times);
		const std::string other = "127.0.0." + std::to_string(next++);
		names_->set(how::answers, {other});
		EXPECT_TRUE(eventually([&] {
			return count(relay.errors(), backend + " resolves again") >= times;
		}));
		EXPECT_EQ(served_at(relay, door_), other);
		EXPECT_EQ(metric(relay, "resolve_failing"), 0U);
		names_->set(how::answers, {"127.0.0.2"});
		EXPECT_TRUE(eventually([&] { return served_at(relay, door_) == "127.0.0.2"; }));
	}
	EXPECT_GE(count(relay.errors(), "resolve: the name service does not answer;"), 1U);
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	stop(relay);
}

/* The address of a name that no longer exists may belong to another machine now. */
TEST_F(Names, ANameThatDoesNotExistAnyMoreHasNoAddress)
{
	names_->set(how::answers, {"127.0.0.2"});
	configured_relay relay(text(backend_));
	auto before = peer::sending("x", relay.address());
	auto served = door_.accept();
	EXPECT_EQ(served.receive(1), "x");
	names_->set(how::denies);
	relay.await_error("backend " + backend_ + " of g does not resolve any more: ");
	EXPECT_EQ(metric(relay, "up"), 0U);
	EXPECT_EQ(metric(relay, "addresses"), 0U);
	EXPECT_GE(metric(relay, "resolve_failures_total"), 3U);
	auto client = peer::connect(relay.address());
	EXPECT_EQ(client.receive_end(), ending::fin);
	/* Open connections stay. */
	before.send("still");
	EXPECT_EQ(served.receive(5), "still");
	before.close();
	served.close();

	names_->set(how::answers, {"127.0.0.3"});
	relay.await_error(" of g resolves again");
	EXPECT_EQ(served_at(relay, door_), "127.0.0.3");
	stop(relay);
}

TEST_F(Names, ABackendThatNeverResolvedIsDown)
{
	for (const bool is_checked : {false, true}) {
		names_->set(how::denies);
		configured_relay relay(text(
			backend_, is_checked ? "[groups.g.check]\ninterval = \"20ms\"\n" : ""));
		relay.await_error("backend " + backend_ + " of g does not resolve: ");
		relay.await_error("; it is down until it does");
		auto client = peer::connect(relay.address());
		EXPECT_EQ(client.receive_end(), ending::fin);
		relay.await_error("cause=no_backend");
		EXPECT_EQ(metric(relay, "up"), 0U);
		EXPECT_EQ(metric(relay, "addresses"), 0U);
		names_->set(how::answers, {"127.0.0.5"});
		relay.await_error(" of g resolves again");
		EXPECT_TRUE(eventually([&] { return metric(relay, "up") == 1; }));
		if (!is_checked) { /* otherwise accept() would take a check's connection */
			EXPECT_EQ(served_at(relay, door_), "127.0.0.5");
		}
		stop(relay);
	}
}

/* Clients wait for the first answer as long as they wait for a backend, and no longer. */
TEST_F(Names, TheFirstAnswerIsWaitedFor)
{
	names_->set(how::is_silent);
	configured_relay relay(text(backend_, "resolve_timeout = \"30s\"\n"));
	auto client = peer::sending("x", relay.address());
	EXPECT_TRUE(
		eventually([&] { return names_->asked() > 0 && relay.counter("active") == 1; }));
	names_->set(how::answers, {"127.0.0.2"});
	EXPECT_EQ(door_.accept().receive(1), "x");
	client.close();
	stop(relay);

	names_->set(how::is_silent);
	configured_relay another(text(backend_, "resolve_timeout = \"50ms\"\n"));
	EXPECT_EQ(peer::connect(another.address()).receive_end(), ending::fin);
	another.await_error("does not resolve: the name service does not answer; it is down");
	/* A lookup cannot be interrupted, but shutting down does not wait for it. */
	EXPECT_EQ(another.stop().status, 0);
}

/* Nobody looks the name up any more. */
TEST_F(Names, TheFirstAnswerIsNotWaitedForIfAReloadHasRemovedTheName)
{
	names_->set(how::is_silent);
	configured_relay relay(text(backend_, "resolve_timeout = \"30s\"\n"));
	auto client = peer::sending("x", relay.address());
	EXPECT_TRUE(
		eventually([&] { return names_->asked() > 0 && relay.counter("active") == 1; }));
	ASSERT_TRUE(relay.reload(text("127.0.0.2" + port_of(door_))));
	EXPECT_EQ(door_.accept().receive(1), "x");
	client.close();
	EXPECT_EQ(relay.stop().status, 0);
}

/* A client that waits for another attempt waits for the first answer for a name of the reload. */
TEST_F(Names, TheFirstAnswerIsWaitedForAlsoAfterAReload)
{
	const listener nobody("127.0.0.1", -1);
	const std::string often = "retries = 50\nretry_delay = \"10ms\"\n";
	const std::string in_time = "connect_timeout = \"1h\"\n";
	names_->set(how::is_silent);
	configured_relay relay(text(nobody.address(), often, in_time));
	auto client = peer::sending("x", relay.address());
	ASSERT_TRUE(eventually([&] { return relay.counter("retries") >= 1; }));
	ASSERT_TRUE(relay.reload(text(backend_, often + "resolve_timeout = \"30s\"\n", in_time)));
	ASSERT_TRUE(eventually([&] { return names_->asked() > 0; }));
	EXPECT_EQ(relay.counter("active"), 1U);
	names_->set(how::answers, {"127.0.0.2"});
	EXPECT_EQ(door_.accept().receive(1), "x");
	client.close();
	stop(relay);
}

TEST_F(Names, AnAddressMayHaveToPassACheckFirst)
{
	listener checks;
	const auto judge = [&] {
		auto check = checks.accept();
		check.send("yes!");
	};
	const auto serves_only = [&](relay_process &relay, const std::string &address) {
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(served_at(relay, door_), address);
	};
	names_->set(how::answers, {"127.0.0.2"});
	configured_relay relay(
		text(backend_, "[groups.g.check]\ninitial = \"down\"\ninterval = \"1h\"\n"
			       "timeout = \"10m\"\nexpect = \"yes!\"\naddress = \"" +
				       checks.address() + "\"\n"));
	auto client = peer::sending("x", relay.address());
	EXPECT_EQ(relay.metric("ready"), 0U);
	judge();
	EXPECT_EQ(door_.accept().receive(1), "x");
	EXPECT_EQ(relay.metric("ready"), 1U);

	names_->set(how::answers, {"127.0.0.2", "127.0.0.3"});
	EXPECT_TRUE(eventually([&] { return metric(relay, "addresses") == 2; }));
	serves_only(relay, "127.0.0.2");
	judge();
	peer kept;
	EXPECT_TRUE(eventually([&] {
		client = peer::sending("x", relay.address());
		kept = door_.accept();
		EXPECT_EQ(kept.receive(1), "x");
		return local_host(kept) == "127.0.0.3";
	}));

	/* It is gone for a while, and still has a connection. */
	names_->set(how::answers, {"127.0.0.2"});
	EXPECT_TRUE(eventually([&] { return metric(relay, "addresses") == 1; }));
	names_->set(how::answers, {"127.0.0.2", "127.0.0.3"});
	EXPECT_TRUE(eventually([&] { return metric(relay, "addresses") == 2; }));
	serves_only(relay, "127.0.0.2");
	judge();
	EXPECT_TRUE(eventually([&] { return served_at(relay, door_) == "127.0.0.3"; }));
	client.close();
	kept.close();
	stop(relay);
}

/* A client that waits for the first answer and goes away gives its place back. */
TEST_F(Names, AClientThatResetsDoesNotWaitForTheFirstAnswer)
{
	names_->set(how::is_silent);
	const file config(
		"drain = 0\naccess_log = \"stderr\"\nadmin = \"127.0.0.1:0\"\n[listeners.web]\n"
		"address = \"127.0.0.1:0\"\ngroup = \"g\"\nconnect_timeout = 0\n"
		"[groups.g]\nresolve_timeout = \"30s\"\nbackends = [\"" +
		backend_ + "\"]\n");
	setenv("RES_OPTIONS", "timeout:30 attempts:5", 1);
	relay_process relay({"--config", config.name()});
	unsetenv("RES_OPTIONS");
	auto client = peer::connect(relay.address());
	EXPECT_TRUE(
		eventually([&] { return names_->asked() > 0 && relay.counter("active") == 1; }));
	client.reset();
	relay.await_error("cause=client_left");
	stop(relay);
}

/* Four times as many lookups hang as begin at the same time. The resolver gives up after half a
 * minute. */
TEST_F(Names, ThatHangDelayNoOther)
{
	names_->set(how::answers, {"127.0.0.2"});
	std::string hanging;
	for (int i = 0; i < 64; i++)
		hanging += "\"hanging" + std::to_string(i) + ".test:1\", ";
	const std::string first = "drain = 0\nadmin = \"127.0.0.1:0\"\n"
				  "[listeners.a]\naddress = \"127.0.0.1:0\"\ngroup = \"a\"\n"
				  "[groups.a]\nresolve_timeout = \"1m\"\nbackends = [" +
				  hanging + "]\n";
	file config(first);
	setenv("RES_OPTIONS", "timeout:30 attempts:1", 1);
	relay_process relay({"--config", config.name()});
	unsetenv("RES_OPTIONS");
	auto waits = peer::connect(relay.address());
	EXPECT_TRUE(eventually([&] { return names_->asked() >= 32; }));
	config.write(first +
		     "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
		     "connect_timeout = \"25s\"\n[groups.g]\nbackends = [\"" +
		     backend_ + "\"]\n");
	EXPECT_TRUE(relay.reload());
	auto client = peer::sending("x", relay.address(1));
	EXPECT_EQ(door_.accept().receive(1), "x");
	EXPECT_EQ(relay.stop().status, 0) << "nor do they delay the end";
}

/* A reload opens its listeners by name while more names hang than the library has threads. */
TEST_F(Names, ThatHangDelayNoListener)
{
	names_->set(how::answers, {"127.0.0.1"});
	std::string hanging;
	for (int i = 0; i < 300; i++)
		hanging += "\"hanging" + std::to_string(i) + ".test:1\", ";
	const auto listening_at = [&](const std::string &address) {
		return "drain = 0\n[listeners.a]\naddress = \"" + address +
		       "\"\ngroup = \"a\"\n[groups.a]\nresolve_timeout = \"1m\"\nbackends = [" +
		       hanging + "]\n";
	};
	file config(listening_at("127.0.0.1:0"));
	setenv("RES_OPTIONS", "timeout:30 attempts:5", 1);
	relay_process relay({"--config", config.name()});
	unsetenv("RES_OPTIONS");
	EXPECT_TRUE(eventually([&] { return names_->asked() >= 128; }));
	config.write(listening_at("listener.test:0"));
	EXPECT_TRUE(relay.reload());
	peer::connect(relay.address(1));
	/* The listener's own name may hang as well. */
	config.write(listening_at("hanging.test:0"));
	EXPECT_FALSE(relay.reload());
	relay.await_error("hanging.test:0: it does not resolve now, because the name service does "
			  "not answer; expected");
	EXPECT_EQ(relay.stop().status, 0);
}

TEST_F(Names, ComeAndGoWithReloads)
{
	names_->set(how::answers, {"127.0.0.2"});
	configured_relay relay(text("127.0.0.9" + port_of(door_)));
	EXPECT_EQ(served_at(relay, door_), "127.0.0.9");
	EXPECT_EQ(names_->asked(), 0U) << "an address is not looked up";
	EXPECT_TRUE(relay.reload(text(backend_)));
	EXPECT_EQ(served_at(relay, door_), "127.0.0.2");
	EXPECT_FALSE(relay.reload(text(backend_, "resolve = 0\n")));
	relay.await_error(" not_reloaded ");
	EXPECT_TRUE(relay.reload(text("127.0.0.9" + port_of(door_))));
	EXPECT_EQ(served_at(relay, door_), "127.0.0.9");
	const auto before = names_->asked();
	std::this_thread::sleep_for(
		300ms); /* a wrong lookup would be seen; a slow machine cannot make the test fail */
	EXPECT_LE(names_->asked(), before + 2) << "it is no longer looked up";
	stop(relay);
}

TEST(NamesOf, NonsenseIsRefused)
{
	const auto errors = config_case::bad(
		"[listeners.a]\naddress = ':1'\ngroup = 'g'\n"
		"[groups.g]\nbackends = ['h:1']\nresolve = 0\nresolve_timeout = '5ms'\n"
		"[groups.h]\nbackends = ['h:1']\nresolve = 'often'\nresolve_timeout = true\n");
	const std::vector<std::string> starts = {
		"f:6:11: groups.g.resolve: \"0\" is too short; expected at least 100ms",
		"f:7:19: groups.g.resolve_timeout: \"5ms\" is too short; expected at least 10ms",
		"f:10:11: groups.h.resolve: \"often\" is not a duration; expected",
		"f:11:19: groups.h.resolve_timeout: is a boolean; expected a duration",
	};
	config_case::expect_starts(errors, starts);
}

} // namespace

int main(int argc, char **argv)
{
	enter_network_with_names(argc, argv);
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
