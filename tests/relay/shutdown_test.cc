/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * Signals: shutting the relay down, gracefully or immediately, and making it print its counters.
 */
#include "harness.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <regex>
#include <system_error>
#include <unistd.h>

using namespace harness;

namespace
{

/*
 * Waits until the relay has stopped accepting, so that clients are refused. A client that was still
 * accepted resets its connection, so that its session ends.
 */
bool refuses(const std::string &address)
{
	return eventually([&] {
		try {
			peer::connect(address).reset();
			return false;
		} catch (const std::system_error &error) {
			return error.code() == std::errc::connection_refused;
		}
	});
}

TEST(Shutdown, WithoutConnectionsIsImmediate)
{
	listener backend;
	for (const int signum : {SIGTERM, SIGINT}) {
		relay_process relay({"--drain", "1h", "127.0.0.1:0", backend.address()});
		relay.address();
		relay.signal(signum);
		const ended end = relay.wait();
		EXPECT_EQ(end.status, 0);
		EXPECT_TRUE(std::regex_match(end.errors,
					     std::regex("\\S+Z info serving .*\n"
							"\\S+Z notice draining connections=0 .*\n"
							"\\S+Z info stopped .*\n")))
			<< end.errors;
	}
}

TEST(Shutdown, LetsOpenConnectionsFinish)
{
	listener backends;
	relay_process relay({"--drain", "1h", "127.0.0.1:0", backends.address()});
	const std::string address = relay.address();
	auto client = peer::connect(address);
	auto backend = backends.accept();
	client.send("before");
	EXPECT_EQ(backend.receive(6), "before");

	relay.signal(SIGTERM);
	EXPECT_TRUE(refuses(address));
	client.send("after");
	EXPECT_EQ(backend.receive(5), "after");
	backend.send("answer");
	EXPECT_EQ(client.receive(6), "answer");
	/* The relay still prints its counters. */
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 1; }));

	client.close();
	EXPECT_EQ(backend.receive_end(), ending::fin);
	backend.close();
	const ended end = relay.wait();
	EXPECT_EQ(end.status, 0) << end.errors;
	EXPECT_EQ(end.errors.find("cutting"), std::string::npos) << end.errors;
}

TEST(Shutdown, CutsConnectionsThatDoNotFinishInTime)
{
	listener backends;
	relay_process relay({"--drain", "300ms", "127.0.0.1:0", backends.address()});
	auto client = peer::connect(relay.address());
	auto backend = backends.accept();
	const auto start = std::chrono::steady_clock::now();
	relay.signal(SIGTERM);
	EXPECT_EQ(client.receive_end(), ending::reset);
	EXPECT_EQ(backend.receive_end(), ending::reset);
	EXPECT_GE(std::chrono::steady_clock::now() - start, 250ms);
	const ended end = relay.wait();
	EXPECT_EQ(end.status, 0) << end.errors;
	EXPECT_NE(end.errors.find("cutting 1 open connection"), std::string::npos) << end.errors;
}

TEST(Shutdown, TheSecondSignalCutsAtOnce)
{
	listener backends;
	relay_process relay({"--drain", "1h", "127.0.0.1:0", backends.address()});
	const std::string address = relay.address();
	auto client = peer::connect(address);
	auto backend = backends.accept();
	relay.signal(SIGTERM);
	EXPECT_TRUE(refuses(address));
	relay.signal(SIGTERM);
	EXPECT_EQ(client.receive_end(), ending::reset);
	EXPECT_EQ(backend.receive_end(), ending::reset);
	EXPECT_EQ(relay.wait().status, 0);
}

TEST(Shutdown, NoDrainCutsAtOnce)
{
	listener backends;
	relay_process relay({"--drain", "0", "127.0.0.1:0", backends.address()});
	auto client = peer::connect(relay.address());
	auto backend = backends.accept();
	EXPECT_EQ(relay.stop().status, 0);
	EXPECT_EQ(client.receive_end(), ending::reset);
	EXPECT_EQ(backend.receive_end(), ending::reset);
}

/* The status of the admin server's answer for a path. */
std::string asked(relay_process &relay, const std::string &path)
{
	auto admin = peer::sending(
		"GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		relay.admin_address());
	return admin.receive_rest().first.substr(9, 3);
}

/* Each signal ends one stage: first the delay, then the connections. */
TEST(Shutdown, TheDelayServesWhileItIsNotReady)
{
	listener backends;
	relay_process relay({"--stop-delay", "1h", "--drain", "1h", "--admin", "127.0.0.1:0",
			     "127.0.0.1:0", backends.address()});
	const std::string address = relay.address();
	EXPECT_EQ(asked(relay, "/ready"), "200");
	relay.signal(SIGTERM);
	EXPECT_TRUE(eventually([&] { return asked(relay, "/ready") == "503"; }));
	EXPECT_EQ(asked(relay, "/healthz"), "200");
	auto client = peer::connect(address);
	auto backend = backends.accept();
	client.send("late");
	EXPECT_EQ(backend.receive(4), "late");
	EXPECT_EQ(relay.counter("active"), 1U) << "it still prints its counters";

	relay.signal(SIGTERM);
	EXPECT_TRUE(refuses(address));
	backend.send("still");
	EXPECT_EQ(client.receive(5), "still");
	relay.signal(SIGINT);
	EXPECT_EQ(client.receive_end(), ending::reset);
	EXPECT_EQ(backend.receive_end(), ending::reset);
	const ended end = relay.wait();
	EXPECT_EQ(end.status, 0);
	EXPECT_NE(end.errors.find("notice stopping delay_ms=3600000 "), std::string::npos)
		<< end.errors;
}

TEST(Shutdown, TheDelayEnds)
{
	listener backends;
	relay_process relay({"--stop-delay", "300ms", "127.0.0.1:0", backends.address()});
	relay.address();
	const auto start = std::chrono::steady_clock::now();
	const ended end = relay.stop();
	EXPECT_GE(std::chrono::steady_clock::now() - start, 300ms);
	EXPECT_EQ(end.status, 0) << end.errors;
}

TEST(Shutdown, CutsStuckAndHalfClosedConnections)
{
	listener backends;
	relay_process relay({"--drain", "0", "127.0.0.1:0", backends.address()});
	auto stuck_client = peer::connect(relay.address());
	auto stuck_backend = backends.accept();
	stuck_client.send_until_stuck();
	auto half_client = peer::connect(relay.address());
	auto half_backend = backends.accept();
	half_client.shutdown_write();
	EXPECT_EQ(half_backend.receive_end(), ending::fin);

	const ended end = relay.stop();
	EXPECT_EQ(end.status, 0);
	EXPECT_NE(end.errors.find("cutting 2 open connections"), std::string::npos) << end.errors;
	EXPECT_NO_THROW(stuck_client.await_reset());
	EXPECT_EQ(stuck_backend.receive_rest().second, ending::reset);
	EXPECT_EQ(half_client.receive_end(), ending::reset);
	EXPECT_NO_THROW(half_backend.await_reset());
}

TEST(Shutdown, DoesNotWaitForABackendThatDoesNotAnswer)
{
	const silent_backend silent;
	relay_process relay(
		{"--drain", "0", "--connect-timeout", "0", "127.0.0.1:0", silent.address()});
	auto client = peer::connect(relay.address());
	ASSERT_TRUE(eventually([&] { return relay.counter("accepted") == 1; }));
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Counters, AreOneLineOnSigusr1)
{
	listener backends;
	relay_process relay({"127.0.0.1:0", backends.address()});
	auto client = peer::connect(relay.address());
	auto backend = backends.accept();
	client.send("12345");
	EXPECT_EQ(backend.receive(5), "12345");
	backend.send("123");
	EXPECT_EQ(client.receive(3), "123");

	ASSERT_TRUE(eventually([&] {
		const auto now = relay.counters();
		return now.at("bytes_to_client") == 3 && now.at("bytes_to_backend") == 5;
	}));
	const auto counts = relay.counters();
	EXPECT_EQ(counts.at("accepted"), 1U);
	EXPECT_EQ(counts.at("active"), 1U);
	EXPECT_EQ(counts.at("connect_failed"), 0U);
	EXPECT_EQ(counts.at("resets"), 0U);
	EXPECT_EQ(counts.at("idle_timeouts"), 0U);
	EXPECT_EQ(counts.at("cut"), 0U);
	EXPECT_EQ(counts.at("accept_pauses"), 0U);

	client.close();
	EXPECT_EQ(backend.receive_end(), ending::fin);
	backend.close();
	const ended end = relay.stop();
	EXPECT_EQ(end.status, 0);
	EXPECT_TRUE(
		std::regex_search(end.errors, std::regex("Z info counters( [a-z_]+=[0-9]+)+\n")))
		<< end.errors;
}

TEST(Counters, ArePrintedAtEachInterval)
{
	listener backends;
	relay_process relay({"--stats-interval", "50ms", "127.0.0.1:0", backends.address()});
	relay.address();
	EXPECT_TRUE(eventually([&] {
		const std::string text = relay.errors();
		return std::count(text.begin(), text.end(), '\n') >= 3;
	}));
	EXPECT_EQ(relay.stop().status, 0);
}

/* The reader of stdout and stderr is gone, or exists and does not read. */
class Readers : public testing::TestWithParam<bool>
{
};

TEST_P(Readers, DoNotBlockTheRelay)
{
	listener backends;
	relay_process relay({"--stats-interval", "1ms", "127.0.0.1:0", backends.address()});
	const std::string address = relay.address();
	relay.stop_reading(GetParam());
	/* Enough lines to fill a pipe of 64 KiB. */
	for (int i = 0; i < 100; i++) {
		auto client = peer::connect(address);
		auto backend = backends.accept();
		client.send("x");
		EXPECT_EQ(backend.receive(1), "x");
		std::this_thread::sleep_for(10ms);
	}
	EXPECT_EQ(relay.stop().status, 0);
}

INSTANTIATE_TEST_SUITE_P(Closed, Readers, testing::Bool());

/* A reload says on stdout where it listens. */
TEST(ReaderOfStdout, DoesNotBlockAReload)
{
	listener backends;
	const folder here;
	const std::string added = "unix:" + (here / "added.sock");
	const auto listening = [&](const std::string &name, const std::string &address) {
		return "[listeners." + name + "]\naddress = \"" + address + "\"\ngroup = \"g\"\n";
	};
	const std::string group = "[groups.g]\nbackends = [\"" + backends.address() + "\"]\n";
	file config("drain = 0\n" + listening("a", "127.0.0.1:0") + group);
	relay_process relay({"--config", config.name()});
	relay.address();
	relay.stop_reading(false);
	const int out = open(("/proc/" + std::to_string(relay.pid()) + "/fd/1").c_str(),
			     O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	ASSERT_GE(out, 0);
	while (write(out, "x\n", 2) > 0)
		continue;
	close(out);
	config.write("drain = 0\n" + listening("a", "127.0.0.1:0") + listening("b", added) + group);
	relay.signal(SIGHUP);
	EXPECT_TRUE(eventually([&] { return access((here / "added.sock").c_str(), F_OK) == 0; }));
	auto client = peer::sending("x", added);
	EXPECT_EQ(backends.accept().receive(1), "x");
	client.close();
	EXPECT_EQ(relay.stop().status, 0);
}

} // namespace
