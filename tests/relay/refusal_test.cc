// SPDX-License-Identifier: MIT
/*
 * Requests that need a thread, because of a call that may block, when no thread can be started or
 * there is no memory for one: the relay answers, reports it on stderr, and changes nothing; and the
 * request works as soon as there is a thread. And a relay without memory, for timers or for
 * anything: it continues, rests, and works as soon as there is memory.
 */
#include "datagrams.hpp"
#include "harness.hpp"
#include "support/runtime.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <vector>

using namespace harness;

namespace
{

std::string text(const std::string &control, const std::string &backend)
{
	return "drain = 0\ncontrol = \"" + control +
	       "\"\n[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
	       "[groups.g]\nbackends = [\"" +
	       backend + "\"]\n";
}

class Refusal : public testing::TestWithParam<const char *>
{
protected:
	Refusal() : config(text(control, a.address()))
	{
		setenv("RELAY_TEST_REFUSES", refused.name().c_str(), 1);
		program = RELAY_REFUSING_PROGRAM;
	}
	~Refusal() override { program = nullptr; }

	ended ctl(std::vector<std::string> arguments)
	{
		arguments.insert(arguments.begin(), {"ctl", "--at", control});
		relay_process client(arguments);
		return client.wait();
	}
	/* Expects that the next client reaches that backend. */
	void expect_reaches(relay_process &relay, listener &backend)
	{
		auto client = peer::sending("x", relay.address());
		EXPECT_EQ(backend.accept().receive(1), "x");
	}

	folder in;
	const std::string control = "unix:" + in / "ctl";
	file refused{""};
	listener a, b;
	file config;
};

TEST_P(Refusal, AChangeWithoutAThreadIsAnsweredAndChangesNothing)
{
	relay_process relay({"--config", config.name()});
	relay.await_error(" serves");
	const auto before = ctl({"config"}).output;
	refused.write(GetParam());
	const auto how = ctl({"add", "g", b.address()});
	EXPECT_EQ(how.status, 1) << how.output;
	EXPECT_NE(how.errors.find("nothing has changed"), std::string::npos) << how.errors;
	EXPECT_EQ(ctl({"config"}).output, before);
	expect_reaches(relay, a);
	refused.write("");
	EXPECT_EQ(ctl({"add", "g", b.address()}).status, 0);
	EXPECT_NE(ctl({"config"}).output, before);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST_P(Refusal, AReloadWithoutAThreadIsToldAndChangesNothing)
{
	relay_process relay({"--config", config.name()});
	relay.await_error(" serves");
	config.write(text(control, b.address()));
	refused.write(GetParam());
	EXPECT_FALSE(relay.reload());
	expect_reaches(relay, a);
	refused.write("");
	EXPECT_TRUE(relay.reload());
	expect_reaches(relay, b);
	EXPECT_EQ(relay.stop().status, 0);
}

/* What a reload opens serves before the reload has succeeded, so a client of a new control server
 * can ask for the next change during the reload. */
class LateRefusal : public Refusal
{
protected:
	/* Whether the processes that this one has started have ended. It may not have noticed. */
	static bool are_children_over(pid_t pid)
	{
		for (const auto &each : std::filesystem::directory_iterator("/proc")) {
			std::ifstream from(each.path() / "stat");
			std::string line;
			std::getline(from, line);
			/* "1 (name) Z 2 ...": the state, and the parent. */
			std::istringstream rest(line.substr(line.rfind(')') + 1));
			char state = 0;
			pid_t parent = 0;
			if (rest >> state >> parent && parent == pid && state != 'Z')
				return false;
		}
		return true;
	}

	LateRefusal() { setenv("RELAY_TEST_HOLDS", (in / "holds").c_str(), 1); }
	~LateRefusal() override { unsetenv("RELAY_TEST_HOLDS"); }
};

TEST_F(LateRefusal, OfAReloadDoesNotWaitForTheClientsOfItsServers)
{
	const std::string other = "unix:" + in / "other";
	relay_process relay({"--config", config.name()});
	relay.await_error(" serves");
	refused.write("check");
	file holds("");
	std::filesystem::rename(holds.name(), in / "holds");
	config.write(text(other, a.address()) + "check.interval = \"1h\"\n");
	relay.signal(SIGHUP);
	ASSERT_TRUE(eventually([&] { return std::filesystem::exists(in / "other"); }));
	/* After the first answer the server has the second request. */
	auto client = peer::sending("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
				    "POST /reload HTTP/1.1\r\nHost: a\r\n\r\n",
				    other);
	EXPECT_EQ(client.receive(12), "HTTP/1.1 200");
	std::filesystem::remove(in / "holds");
	relay.next_error(" not_reloaded ");
	/* The client is answered, and then the server is gone. */
	const auto rest = client.receive_rest().first;
	EXPECT_NE(rest.find("HTTP/1.1 409"), rest.npos) << rest;
	relay.next_error(" not_reloaded ");
	EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(in / "other"); }));
	expect_reaches(relay, a);
	refused.write("");
	EXPECT_TRUE(relay.reload());
	EXPECT_EQ(relay.stop().status, 0);
}

/* A new process reports that it serves only when nothing it needs is missing. Otherwise the old one
 * continues. */
class Start : public Refusal
{
};

#if !TEST_EMULATED // the new process would run without the emulator
TEST_P(Start, AHandoverToAProcessThatLacksATaskFails)
{
	relay_process relay({"--config", config.name()});
	relay.await_error(" serves");
	refused.write(GetParam());
	relay.signal(SIGUSR2);
	relay.await_error("error cannot_serve ");
	relay.await_error("not handed over: the new process has ended");
	EXPECT_EQ(relay.errors().find(" handed_over "), std::string::npos) << relay.errors();
	expect_reaches(relay, a);
	refused.write("");
	EXPECT_NE(ctl({"config"}).output, "");
	EXPECT_EQ(relay.stop().status, 0);
}

/* The old process has done everything, and only its end is left. */
TEST_F(LateRefusal, OfTheEndLosesNoReload)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* to wait for the new process */
	const file looks("");
	setenv("RELAY_TEST_REFUSED", looks.name().c_str(), 1);
	relay_process relay({"--config", config.name()});
	relay.await_error(" serves");
	refused.write("end");
	file holds("");
	std::filesystem::rename(holds.name(), in / "holds");
	relay.signal(SIGUSR2);
	const pid_t next = std::stoi(relay.next_error("handed over to process "));
	EXPECT_TRUE(eventually([&] { return std::filesystem::file_size(looks.name()) > 0; }));
	relay.signal(SIGHUP);
	relay.await_error("notice reloaded ");
	std::filesystem::remove(in / "holds");
	unsetenv("RELAY_TEST_REFUSED");
	kill(next, SIGTERM);
	int status = -1;
	EXPECT_TRUE(eventually([&] { return waitpid(next, &status, WNOHANG) == next; }));
	EXPECT_EQ(status, 0);
	EXPECT_EQ(relay.wait().status, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* The new process has started the first of its two servers when it cannot start the other one. The
 * clients that wait at the first one, which the old process has, too, wait for the old process. */
TEST_F(LateRefusal, OfAHandoverTakesNoClientsFromTheOldProcess)
{
	config.write("admin = \"127.0.0.1:0\"\n" + text(control, a.address()));
	relay_process relay({"--config", config.name()});
	const auto admin = relay.admin_address();
	relay.await_error(" serves");
	refused.write("+admin accept");
	file holds("");
	std::filesystem::rename(holds.name(), in / "holds");
	relay.signal(SIGUSR2);
	relay.await_error("error cannot_serve ");
	siginfo_t info{};
	relay.signal(SIGSTOP);
	ASSERT_EQ(waitid(P_PID, id_t(relay.pid()), &info, WSTOPPED), 0);
	auto client = peer::connect(admin);
	/* The first server of the new process, which ends within a second, begins to serve. */
	std::filesystem::remove(in / "holds");
	EXPECT_TRUE(eventually([&] { return are_children_over(relay.pid()); }));
	relay.signal(SIGCONT);
	relay.await_error("not handed over: the new process has ended");
	client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
	EXPECT_EQ(client.receive(12), "HTTP/1.1 200");
	refused.write("");
	client.close();
	EXPECT_EQ(relay.stop().status, 0);
}
#endif

/* Clients wait in sockets that others have, too, until nothing can fail any more: in those of the
 * service manager, for the next process. */
TEST_P(Start, ThatLacksATaskTakesNoClients)
{
	const listener door;
	const udp_peer entry;
	udp_peer served, asking;
	config.write(text(control, a.address()) + "[listeners.first]\naddress = \"" +
		     door.address() +
		     "\"\ngroup = \"g\"\n[listeners.second]\naddress = \"udp:" + entry.address() +
		     "\"\ngroup = \"h\"\n[groups.h]\nbackends = [\"" + served.address() + "\"]\n");
	const file looks("");
	setenv("RELAY_TEST_REFUSED", looks.name().c_str(), 1);
	setenv("RELAY_TEST_HOLDS", (in / "holds").c_str(), 1);
	file holds("");
	std::filesystem::rename(holds.name(), in / "holds");
	refused.write(GetParam());
	const std::vector<int> sockets{door.fd(), entry.fd()};
	auto client = peer::sending("x", door.address());
	asking.send(entry.address(), "q");
	{
		relay_process relay({"--config", config.name()}, 0, sockets);
		/* The other tasks of the relay have time between these looks. */
		EXPECT_TRUE(
			eventually([&] { return std::filesystem::file_size(looks.name()) > 50; }));
		std::filesystem::remove(in / "holds");
		EXPECT_EQ(relay.wait().status, 1);
	}
	unsetenv("RELAY_TEST_HOLDS");
	unsetenv("RELAY_TEST_REFUSED");
	refused.write("");
	relay_process relay({"--config", config.name()}, 0, sockets);
	auto backend = a.accept();
	EXPECT_EQ(backend.receive(1), "x");
	backend.send("y");
	EXPECT_EQ(client.receive(1), "y");
	const auto question = served.receive();
	served.send(question.from, "a");
	EXPECT_EQ(asking.receive().bytes, "a");
	client.close();
	backend.close();
	EXPECT_EQ(relay.stop().status, 0);
}

/* A first process of the relay says why it does not serve, and removes its files. */
TEST_P(Start, ThatLacksATaskFails)
{
	refused.write(GetParam());
	relay_process relay({"--config", config.name()});
	const ended end = relay.wait();
	EXPECT_EQ(end.status, 1);
	EXPECT_NE(end.errors.find("error cannot_serve "), end.errors.npos) << end.errors;
	EXPECT_FALSE(std::filesystem::exists(in / "ctl"));
}

INSTANTIATE_TEST_SUITE_P(Of, Start, testing::Values("admin accept", "rounds", "attempts"),
			 [](const auto &instance) {
				 std::string name(instance.param);
				 std::ranges::replace(name, ' ', '_');
				 return name;
			 });

INSTANTIATE_TEST_SUITE_P(Of, Refusal, testing::Values("thread", "memory"),
			 [](const auto &instance) { return std::string(instance.param); });

class Lack : public testing::Test
{
protected:
	Lack()
	{
		setenv("RELAY_TEST_REFUSES", lacks.name().c_str(), 1);
		setenv("RELAY_TEST_REFUSED", refused.name().c_str(), 1);
		program = RELAY_REFUSING_PROGRAM;
	}
	~Lack() override
	{
		program = nullptr;
		unsetenv("RELAY_TEST_REFUSED");
	}

	/* Waits until the relay was refused something so often. */
	bool was_refused(std::uintmax_t times)
	{
		const auto before = std::filesystem::file_size(refused.name());
		return eventually([&] {
			return std::filesystem::file_size(refused.name()) >= before + times;
		});
	}

	file lacks{""}, refused{""};
	listener backend;
};

/* Clients that are accepted wait for timers to connect, and others for room; neither is given up,
 * nor does it spin. */
TEST_F(Lack, OfTimersEndsNoListener)
{
	relay_process relay({"--connect-timeout", "1h", "--idle-timeout", "0", "127.0.0.1:0",
			     backend.address()},
			    40);
	const std::string address = relay.address();
	relay.await_error(" serves");
	lacks.write("timers");
	std::vector<peer> clients;
	for (unsigned char i = 0; i < 40; i++)
		clients.push_back(peer::sending(std::string(1, static_cast<char>(i)), address));
	relay.await_error(" no_room ");
	EXPECT_TRUE(was_refused(100));
	EXPECT_TRUE(relay.rests(250ms));
	lacks.write("");
	relay.await_error("there was no memory for timers");
	for (std::size_t served = 0; served < clients.size();) {
		auto one = backend.accept();
		try {
			clients.at(static_cast<unsigned char>(one.receive(1)[0])).close();
			served++;
		} catch (const std::runtime_error &) {
			/* An attempt that had no timer. */
		}
		one.close();
	}
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	EXPECT_EQ(relay.counter("no_memory"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* The first in the queue wakes ten times a second, and each client leaves after queue_timeout. */
TEST_F(Lack, OfTimersLetsClientsWaitInTheQueue)
{
	configured_relay relay(
		"drain = 0\nadmin = \"127.0.0.1:0\"\naccess_log = \"stderr\"\n"
		"[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
		"connect_timeout = 0\nidle_timeout = 0\n[groups.g]\nqueue_timeout = \"1h\"\n"
		"backends = [{address = \"" +
		backend.address() + "\", max_connections = 1}]\n");
	auto first = peer::sending("a", relay.address());
	auto served = backend.accept();
	EXPECT_EQ(served.receive(1), "a");
	lacks.write("timers");
	std::vector<peer> waiting;
	for (unsigned char i = 0; i <= 20; i++)
		waiting.push_back(
			peer::sending(std::string(1, static_cast<char>(i)), relay.address()));
	EXPECT_TRUE(was_refused(100));
	EXPECT_TRUE(relay.rests(250ms));
	waiting.back().reset();
	waiting.pop_back();
	relay.await_error("cause=client_left ");
	first.close();
	served.close();
	/* The first of them gets its place without timers. */
	for (std::size_t i = 0; i < waiting.size(); i++) {
		served = backend.accept();
		waiting.at(static_cast<unsigned char>(served.receive(1)[0])).close();
		served.close();
		if (i == 0) {
			lacks.write("");
			relay.await_error("there was no memory for timers");
		}
	}
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_EQ(relay.metric("queue_left_total{group=\"g\"}"), 1U);
	EXPECT_EQ(relay.metric("queue_timeouts_total{group=\"g\"}"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* Whoever ends a part of the relay waits for its task, which waits without a timer. */
TEST_F(Lack, OfTimersLetsTheRelayReloadAndEnd)
{
	const auto text = [&](const std::string &check) {
		return "drain = 0\nadmin = \"127.0.0.1:0\"\naccess_log = \"stderr\"\n"
		       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
		       "[listeners.udp]\naddress = \"udp:127.0.0.1:0\"\ngroup = \"h\"\n"
		       "[groups.g]\nbackends = [\"" +
		       backend.address() + "\"]\n" + check +
		       "[groups.h]\nbackends = [\"127.0.0.1:9\"]\n";
	};
	configured_relay relay(text("check = {interval = \"1h\"}\n"));
	relay.await_error(" serves");
	lacks.write("timers");
	EXPECT_TRUE(relay.reload(text("")));
	EXPECT_EQ(relay.stop().status, 0);
	EXPECT_GT(std::filesystem::file_size(refused.name()), 0U);
}

/* Each line takes a wait with a deadline, and there is none before its time. */
TEST_F(Lack, OfTimersDoesNotHurryTheCounters)
{
	configured_relay relay("drain = 0\nstats_interval = \"1h\"\n"
			       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
			       "[groups.g]\nbackends = [\"" +
			       backend.address() + "\"]\n");
	relay.await_error(" serves");
	lacks.write("timers");
	/* The first wait without a timer follows the first of these, and ends with the second. */
	relay.counters();
	relay.counters();
	EXPECT_TRUE(was_refused(10));
	relay.counters();
	lacks.write("");
	const auto end = relay.stop();
	EXPECT_EQ(end.status, 0);
	EXPECT_EQ(count_of("info counters", end.errors), 3U);
}

/* Each attempt costs system calls in the task that receives, so after one that failed there is a
 * pause, however many clients come. */
TEST_F(Lack, OfPortsCostsFewAttempts)
{
	constexpr int clients = 200;
	const std::string no_room = "datagrams_dropped_total{listener=\"udp\",reason=\"no_room\"}";
	udp_peer served;
	configured_relay relay("drain = 0\nadmin = \"127.0.0.1:0\"\n"
			       "[listeners.udp]\naddress = \"udp:127.0.0.1:0\"\ngroup = \"g\"\n"
			       "[groups.g]\nbackends = [\"" +
			       served.address() + "\"]\n");
	relay.await_error(" serves");
	lacks.write("ports");
	const auto start = std::chrono::steady_clock::now();
	for (int i = 0; i < clients; i++)
		udp_peer().send(relay.address(), "q");
	EXPECT_TRUE(eventually([&] { return relay.metric(no_room) == clients; }));
	const auto pauses = (std::chrono::steady_clock::now() - start) / 50ms;
	const auto attempts = std::filesystem::file_size(refused.name());
	EXPECT_GE(attempts, 1U);
	EXPECT_LE(attempts, static_cast<std::uintmax_t>(pauses + 1));
	relay.await_error(" no_room ");
	lacks.write("");
	EXPECT_TRUE(eventually([&] {
		udp_peer client;
		client.send(relay.address(), "later");
		return served.receive_within(20ms).has_value();
	}));
	EXPECT_EQ(relay.stop().status, 0);
}

/* Such an error is not about one datagram alone, so it ends the session. A datagram that could not
 * be sent is tried again, and counts once for the rates. */
TEST_F(Lack, OfARouteIsNoLackOfRate)
{
	const std::string drops = "datagrams_dropped_total{listener=\"udp\",reason=";
	for (const char *lacking : {"routes", "prohibited"}) {
		SCOPED_TRACE(lacking);
		udp_peer served, client;
		configured_relay relay(
			"drain = 0\nadmin = \"127.0.0.1:0\"\n"
			"[listeners.udp]\naddress = \"udp:127.0.0.1:0\"\ngroup = \"g\"\n"
			"accept_rate = 1\naccept_burst = 1\naccept_rate_per_source = 1\n"
			"accept_burst_per_source = 1\nmax_connections = 1\n"
			"max_connections_per_source = 1\n[groups.g]\nbackends = [\"" +
			served.address() + "\"]\n");
		relay.await_error(" serves");
		lacks.write(lacking);
		client.send(relay.address(), "q");
		EXPECT_TRUE(eventually(
			[&] { return relay.metric(drops + "\"backend_failed\"}") == 1; }));
		lacks.write("");
		EXPECT_EQ(relay.metric("connections_accepted_total{listener=\"udp\"}"), 2U);
		EXPECT_TRUE(eventually([&] {
			return relay.metric("connections_ended_total{listener=\"udp\",cause="
					    "\"connect_failed\"}") == 2;
		}));
		EXPECT_EQ(relay.stop().status, 0);
	}
}

/* The system reports such a drop with the error of a lack of memory, which says nothing about a
 * backend; but a backend that no question reaches is down. */
TEST_F(Lack, OfRoomInAQueueLosesTheQuestionsOfChecks)
{
	udp_peer served;
	const std::string name = "backend " + served.address() + " of g is ";
	lacks.write("queue"); /* also for the first question */
	configured_relay relay("drain = 0\nadmin = \"127.0.0.1:0\"\n"
			       "[listeners.udp]\naddress = \"udp:127.0.0.1:0\"\ngroup = \"g\"\n"
			       "[groups.g]\nbackends = [\"" +
			       served.address() +
			       "\"]\n[groups.g.check]\nudp = true\nsend = \"q\"\nexpect = \"a\"\n"
			       "interval = \"20ms\"\ntimeout = \"40ms\"\nfall = 1\nrise = 1\n");
	relay.await_error(name + "down: Connection timed out");
	EXPECT_GE(std::filesystem::file_size(refused.name()), 1U);
	lacks.write("");
	EXPECT_TRUE(eventually([&] {
		if (const auto asked = served.receive_within(5ms))
			served.send(asked->from, "a");
		return relay.errors().find(name + "up again") != std::string::npos;
	}));
	EXPECT_EQ(relay.stop().status, 0);
}

/* The system has the same error for it, but says nothing about a backend then. */
TEST_F(Lack, OfMemoryForTheQuestionsOfChecksIsNoFailure)
{
	udp_peer served;
	const std::string of = "{group=\"g\",backend=\"" + served.address() + "\"}";
	lacks.write("buffers");
	configured_relay relay("drain = 0\nadmin = \"127.0.0.1:0\"\n"
			       "[listeners.udp]\naddress = \"udp:127.0.0.1:0\"\ngroup = \"g\"\n"
			       "[groups.g]\nbackends = [\"" +
			       served.address() +
			       "\"]\n[groups.g.check]\nudp = true\nsend = \"q\"\nexpect = \"a\"\n"
			       "interval = \"10ms\"\ntimeout = \"20ms\"\nfall = 1\nrise = 1\n");
	relay.await_error("could not be made for lack of a resource: No buffer space available");
	EXPECT_TRUE(was_refused(40));
	EXPECT_EQ(relay.metric("backend_check_failures_total" + of), 0U);
	lacks.write("");
	EXPECT_TRUE(eventually([&] {
		if (const auto asked = served.receive_within(5ms))
			served.send(asked->from, "a");
		return relay.metric("backend_checks_total" + of) > 0;
	}));
	EXPECT_EQ(relay.stop().status, 0);
}

/* A listener of UDP that could not receive must not seem to serve. */
TEST_F(Lack, OfMemoryForDatagramsFailsAReload)
{
#if TEST_ASAN || TEST_TSAN
	GTEST_SKIP() << "the sanitizer allocates the memory";
#endif
	const std::string before = "drain = 0\n[listeners.web]\naddress = \"127.0.0.1:0\"\n"
				   "group = \"g\"\n[groups.g]\nbackends = [\"" +
				   backend.address() + "\"]\n";
	const std::string after = before + "[listeners.udp]\naddress = \"udp:127.0.0.1:0\"\n"
					   "group = \"g\"\n";
	configured_relay relay(before);
	relay.await_error(" serves");
	lacks.write("large");
	EXPECT_FALSE(relay.reload(after));
	EXPECT_GT(std::filesystem::file_size(refused.name()), 0U);
	auto client = peer::sending("x", relay.address());
	EXPECT_EQ(backend.accept().receive(1), "x");
	lacks.write("");
	EXPECT_TRUE(relay.reload(after));
	EXPECT_EQ(relay.stop().status, 0);
	/* Nor does the relay start, or wait for that listener at its end. */
	lacks.write("large");
	const file both(after);
	relay_process other({"--config", both.name()});
	EXPECT_NE(other.wait().status, 0);
}

/* There is no memory for the reason why a stream has broken. Its other end is reset nevertheless,
 * because a stream that ends in good order would seem to be complete. */
TEST_F(Lack, OfMemoryDoesNotCompleteABrokenStream)
{
#if TEST_ASAN || TEST_TSAN
	GTEST_SKIP() << "the sanitizer allocates the memory";
#endif
	configured_relay relay("drain = 0\naccess_log = \"stderr\"\n"
			       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
			       "[groups.g]\nbackends = [\"" +
			       backend.address() + "\"]\n");
	relay.await_error(" serves");
	for (const bool by_client : {false, true}) {
		auto client = peer::sending("x", relay.address());
		auto served = backend.accept();
		EXPECT_EQ(served.receive(1), "x");
		served.send("a part");
		EXPECT_EQ(client.receive(6), "a part");
		lacks.write("new");
		(by_client ? client : served).reset();
		EXPECT_EQ((by_client ? served : client).receive_end(), ending::reset);
		lacks.write("");
	}
	EXPECT_EQ(relay.stop().status, 0);
}

/* There is no memory for what the relay reports about itself. */
TEST_F(Lack, OfMemoryDoesNotEndTheRelay)
{
#if TEST_ASAN || TEST_TSAN
	GTEST_SKIP() << "the sanitizer allocates the memory";
#endif
	configured_relay relay("drain = \"1h\"\nstats_interval = \"20ms\"\n"
			       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
			       "[groups.g]\nbackends = [\"" +
			       backend.address() + "\"]\n");
	/* A client may be served before everything has started, which takes memory. */
	relay.await_error(" serves");
	auto client = peer::sending("x", relay.address());
	auto served = backend.accept();
	EXPECT_EQ(served.receive(1), "x");
	lacks.write("new");
	EXPECT_TRUE(was_refused(10));
	served.send("y");
	EXPECT_EQ(client.receive(1), "y");
	kill(relay.pid(), SIGHUP);
	EXPECT_TRUE(was_refused(10));
	lacks.write("");
	relay.await_error(" events_lost ");
	EXPECT_TRUE(relay.reload());
	lacks.write("new");
	EXPECT_TRUE(was_refused(10));
	kill(relay.pid(), SIGTERM);
	served.send("z");
	EXPECT_EQ(client.receive(1), "z");
	client.close();
	served.close();
	EXPECT_EQ(relay.wait().status, 0);
}

} // namespace
