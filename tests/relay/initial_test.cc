/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * Checks with initial = "down": a backend gets no connection before its first check has passed.
 * Clients wait for it or are refused, the relay is not ready before, and a reload and a new process
 * of the relay keep what is known.
 */
#include "datagrams.hpp"
#include "harness.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <vector>

using namespace harness;

namespace
{

/* A backend that serves clients by its name; and, at an address of its own, its checks, each of
 * which the test answers. */
class judged
{
public:
	explicit judged(char name) : name_(1, name) {}

	/* Waits for a check, and answers it. */
	void judge(bool well)
	{
		auto check = checks_.accept();
		EXPECT_EQ(check.receive(3), "ok?");
		check.send(well ? "yes!" : "no");
	}
	/* Whether a check has come that has no answer yet. */
	bool is_asked() const
	{
		pollfd entry{checks_.fd(), POLLIN, 0};
		return poll(&entry, 1, 0) > 0;
	}
	const std::string &address() const { return served_.address(); }
	std::string toml(const std::string &more = "") const
	{
		return "{address = \"" + address() + "\", check = {address = \"" +
		       checks_.address() + "\"}" + more + "}";
	}

private:
	const std::string name_;
	listener checks_;
	serving served_{[this](peer &client) {
		client.receive(3);
		client.send(name_);
	}};
};

/* With checks that come once. */
std::string text(const std::string &backends, const std::string &group = "")
{
	return "drain = 0\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
	       "[groups.g]\nslow_return = 0\n" +
	       group + "backends = [" + backends +
	       "]\n[groups.g.check]\ninitial = \"down\"\ninterval = \"1h\"\ntimeout = \"10m\"\n"
	       "send = \"ok?\"\nexpect = \"yes!\"\n";
}

std::string state_of(relay_process &relay, const std::string &address)
{
	for (const char *state : {"unknown", "up", "down"})
		if (relay.metric("backend_state{group=\"g\",backend=\"" + address + "\",state=\"" +
				 state + "\"}"))
			return state;
	return "another";
}

std::uint64_t is_up(relay_process &relay, const judged &one)
{
	return relay.metric("backend_up{group=\"g\",backend=\"" + one.address() + "\"}");
}

std::uint64_t of_queue(relay_process &relay, const std::string &name)
{
	return relay.metric("queue_" + name + "{group=\"g\"}");
}

std::uint64_t ended_by(relay_process &relay, const std::string &cause)
{
	return relay.metric("connections_ended_total{listener=\"web\",cause=\"" + cause + "\"}");
}

bool has_queued(relay_process &relay, std::uint64_t n)
{
	return eventually([&] { return of_queue(relay, "connections") == n; });
}

bool becomes_ready(relay_process &relay)
{
	return eventually([&] { return relay.metric("ready") == 1; });
}

TEST(Initial, ClientsWaitForTheFirstCheck)
{
	judged a('a');
	configured_relay relay(text(a.toml()));
	std::vector<peer> clients;
	for (unsigned i = 0; i < 3; i++) {
		clients.push_back(peer::sending("who", relay.address()));
		ASSERT_TRUE(has_queued(relay, i + 1));
	}
	EXPECT_EQ(state_of(relay, a.address()), "unknown");
	EXPECT_EQ(is_up(relay, a), 0U);
	EXPECT_EQ(relay.metric("ready"), 0U);
	a.judge(true);
	for (auto &each : clients)
		EXPECT_EQ(each.receive(1), "a");
	EXPECT_EQ(state_of(relay, a.address()), "up");
	EXPECT_EQ(is_up(relay, a), 1U);
	EXPECT_EQ(relay.metric("ready"), 1U);
	EXPECT_EQ(of_queue(relay, "waits_total"), 3U);
	clients.clear();
	stop(relay);
}

/* They need not wait any longer, although the queue has no timeout. */
TEST(Initial, ClientsLeaveWhenAllFirstChecksHaveFailed)
{
	judged a('a');
	judged b('b');
	configured_relay relay(text(a.toml() + ", " + b.toml(), "queue_timeout = 0\n"));
	std::vector<peer> clients;
	for (unsigned i = 0; i < 3; i++) {
		clients.push_back(peer::sending("who", relay.address()));
		ASSERT_TRUE(has_queued(relay, i + 1));
	}
	a.judge(false);
	relay.await_error("backend " + a.address() + " of g is down: ");
	EXPECT_EQ(of_queue(relay, "connections"), 3U) << "the other one may still be well";
	EXPECT_EQ(relay.metric("ready"), 0U);
	b.judge(false);
	for (auto &each : clients)
		EXPECT_EQ(each.receive_end(), ending::reset) << "its bytes were not read";
	EXPECT_TRUE(eventually([&] { return ended_by(relay, "no_backend") == 3; }));
	EXPECT_EQ(relay.metric("ready"), 1U) << "the checks are over, whatever they have said";
	stop(relay);
}

/* The first of them has come when a backend that had passed its check was full. */
TEST(Initial, ClientsLeaveAlsoIfAReloadHasBroughtTheCheck)
{
	judged a('a');
	judged b('b');
	configured_relay relay(text(a.toml(", max_connections = 1"), "queue_timeout = 0\n"));
	a.judge(true);
	ASSERT_TRUE(becomes_ready(relay));
	auto open = peer::connect(relay.address());
	ASSERT_TRUE(eventually([&] {
		return relay.metric("backend_connections{group=\"g\",backend=\"" + a.address() +
				    "\"}") == 1;
	}));
	auto first = peer::sending("who", relay.address());
	ASSERT_TRUE(has_queued(relay, 1));
	ASSERT_TRUE(relay.reload(text(b.toml(), "queue_timeout = 0\n")));
	auto second = peer::sending("who", relay.address());
	ASSERT_TRUE(has_queued(relay, 2));
	b.judge(false);
	EXPECT_EQ(first.receive_end(), ending::reset) << "its bytes were not read";
	EXPECT_EQ(second.receive_end(), ending::reset);
	EXPECT_TRUE(eventually([&] { return ended_by(relay, "no_backend") == 2; }));
	open.close();
	stop(relay);
}

/* Waiting in vain for a check does not count as the last attempt. */
TEST(Initial, AClientIsTriedAgainAfterAFailedCheck)
{
	listener door("127.0.0.1", -1);
	listener checks;
	judged b('b');
	configured_relay relay(text("{address = \"" + door.address() + "\", check = {address = \"" +
				    checks.address() + "\"}}, " + b.toml()));
	{
		auto check = checks.accept();
		EXPECT_EQ(check.receive(3), "ok?");
		check.send("yes!");
	}
	ASSERT_TRUE(eventually([&] { return state_of(relay, door.address()) == "up"; }));
	auto client = peer::sending("x", relay.address());
	ASSERT_TRUE(has_queued(relay, 1)) << "it was refused, and waits for the other one";
	door.listen();
	b.judge(false);
	auto open = door.accept();
	EXPECT_EQ(open.receive(1), "x");
	client.close();
	open.close();
	stop(relay);
}

TEST(Initial, ClientsThatMayNotWaitAreRefused)
{
	judged a('a');
	configured_relay relay(text(a.toml(), "queue = 0\n"));
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	relay.await_error("first checks of backends of g are not over yet, and the group has no "
			  "queue");
	EXPECT_EQ(ended_by(relay, "refused_limit"), 1U);
	EXPECT_EQ(relay.counter("refused"), 1U);
	a.judge(true);
	ASSERT_TRUE(becomes_ready(relay));
	EXPECT_EQ(served_by(relay, 2), "aa");
	stop(relay);
}

TEST(Initial, ClientsDoNotWaitForever)
{
	judged a('a');
	configured_relay relay(text(a.toml(), "queue = 1\nqueue_timeout = \"50ms\"\n"));
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	relay.await_error("first checks of backends of g are not over yet, and the client has "
			  "waited for queue_timeout");
	EXPECT_EQ(ended_by(relay, "queue_timeout"), 1U);
	EXPECT_EQ(relay.metric("ready"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* A backup that is checked first gets no clients, as when the primary is full; it does when the
 * primary has failed. */
TEST(Initial, ABackupWaitsForThePrimary)
{
	judged primary('p');
	judged backup('b');
	const std::string both = primary.toml() + ", " + backup.toml(", priority = 1");
	for (const bool well : {true, false}) {
		configured_relay relay(text(both));
		backup.judge(true);
		ASSERT_TRUE(eventually([&] { return state_of(relay, backup.address()) == "up"; }));
		auto client = peer::sending("who", relay.address());
		ASSERT_TRUE(has_queued(relay, 1));
		primary.judge(well);
		EXPECT_EQ(client.receive(1), well ? "p" : "b");
		client.close();
		stop(relay);
	}
}

/* They are not spread over a second, as others are. */
TEST(Initial, FirstChecksAreMadeAtOnce)
{
	using clock = std::chrono::steady_clock;
	constexpr std::size_t backends = 8;
	constexpr unsigned tries = 10;

	/* A loaded machine may spread the checks of one start, but not those of every start. */
	auto shortest = clock::duration::max();
	for (unsigned i = 0; i < tries && shortest > 500ms; i++) {
		std::vector<listener> doors(backends);
		std::vector<pollfd> entries;
		std::string list;
		for (const auto &each : doors) {
			list += (list.empty() ? "\"" : ", \"") + each.address() + '"';
			entries.push_back({each.fd(), POLLIN, 0});
		}
		configured_relay relay(text(list));
		clock::time_point first{}, last{};
		for (std::size_t seen = 0; seen < backends;) {
			ASSERT_GT(poll(entries.data(), entries.size(), 40000), 0)
				<< "no check came";
			last = clock::now();
			if (seen == 0)
				first = last;
			for (auto &each : entries)
				if (each.revents) {
					each.fd = -1;
					each.revents = 0;
					seen++;
				}
		}
		shortest = std::min(shortest, last - first);
		EXPECT_EQ(relay.stop().status, 0);
	}
	EXPECT_LE(shortest, 500ms);
}

TEST(Initial, AReloadKeepsWhatIsKnown)
{
	judged a('a');
	judged b('b');
	configured_relay relay(text(a.toml()));
	a.judge(true);
	ASSERT_TRUE(becomes_ready(relay));
	ASSERT_TRUE(relay.reload(text(a.toml() + ", " + b.toml())));
	EXPECT_EQ(state_of(relay, a.address()), "up");
	EXPECT_EQ(state_of(relay, b.address()), "unknown");
	EXPECT_EQ(served_by(relay, 4), "aaaa") << "the new backend has not been checked";
	EXPECT_EQ(relay.metric("ready"), 1U) << "the relay serves already";
	EXPECT_EQ(of_queue(relay, "waits_total"), 0U);
	b.judge(true);
	EXPECT_TRUE(eventually([&] { return state_of(relay, b.address()) == "up"; }));
	EXPECT_NE(served_by(relay, 2).find('b'), std::string::npos);
	stop(relay);
}

/* Nobody checks its backends any more. Such a client is not given one that has not been checked. */
TEST(Initial, ClientsOfAGroupThatIsRemovedDoNotWait)
{
	const judged a('a');
	const judged b('b');
	configured_relay relay(text(a.toml(), "queue_timeout = 0\n"));
	auto client = peer::sending("who", relay.address());
	ASSERT_TRUE(has_queued(relay, 1));
	ASSERT_TRUE(relay.reload("drain = 0\nadmin = \"127.0.0.1:0\"\n[listeners.web]\n"
				 "address = \"127.0.0.1:0\"\ngroup = \"h\"\n"
				 "[groups.h]\nbackends = [\"" +
				 b.address() + "\"]\n"));
	EXPECT_EQ(client.receive_end(), ending::reset) << "its bytes were not read";
	EXPECT_EQ(ended_by(relay, "no_backend"), 1U);
	EXPECT_EQ(served_by(relay, 1), "b");
	stop(relay);
}

TEST(Initial, ABackendThatIsAddedIsCheckedFirst)
{
	const judged a('a');
	const judged b('b');
	const folder in;
	const std::string control = "unix:" + in / "ctl";
	listener checks;
	const auto judge = [&] {
		auto check = checks.accept();
		EXPECT_EQ(check.receive(3), "ok?");
		check.send("yes!");
	};
	configured_relay relay("control = \"" + control + "\"\n" + text('"' + a.address() + '"') +
			       "address = \"" + checks.address() + "\"\n");
	judge();
	ASSERT_TRUE(becomes_ready(relay));
	const auto answer = peer::sending("POST /backends/add?group=g&backend=" + b.address() +
						  " HTTP/1.1\r\nHost: localhost\r\n"
						  "Connection: close\r\n\r\n",
					  control)
				    .receive_rest()
				    .first;
	EXPECT_NE(answer.find(" is added"), std::string::npos) << answer;
	EXPECT_EQ(state_of(relay, b.address()), "unknown");
	EXPECT_EQ(served_by(relay, 4), "aaaa");
	judge(); /* a change begins the interval of all checks again */
	judge();
	EXPECT_TRUE(eventually([&] { return state_of(relay, b.address()) == "up"; }));
	EXPECT_NE(served_by(relay, 2).find('b'), std::string::npos);
	stop(relay);
}

/* A backend that was away for some time is not known any more, also if it still had connections. */
TEST(Initial, ABackendThatReturnsIsCheckedAgain)
{
	judged a('a');
	listener door;
	listener checks;
	const std::string its = "{address = \"" + door.address() + "\", check = {address = \"" +
				checks.address() + "\"}}";
	configured_relay relay(text(its));
	const auto judge = [&] {
		auto check = checks.accept();
		EXPECT_EQ(check.receive(3), "ok?");
		check.send("yes!");
	};
	judge();
	ASSERT_TRUE(becomes_ready(relay));
	auto client = peer::sending("x", relay.address());
	auto open = door.accept();
	EXPECT_EQ(open.receive(1), "x");

	ASSERT_TRUE(relay.reload(text(a.toml())));
	a.judge(true);
	EXPECT_EQ(served_by(relay, 2), "aa");
	ASSERT_TRUE(relay.reload(text(its)));
	auto second = peer::sending("y", relay.address());
	ASSERT_TRUE(has_queued(relay, 1));
	judge();
	auto late = door.accept();
	EXPECT_EQ(late.receive(1), "y");
	for (auto *each : {&client, &open, &second, &late})
		each->close();
	stop(relay);
}

TEST(Initial, DatagramsAreDroppedUntilThen)
{
	listener checks;
	udp_peer backend, client;
	configured_relay relay(
		"drain = 0\nadmin = \"127.0.0.1:0\"\n[listeners.web]\n"
		"address = \"udp:127.0.0.1:0\"\ngroup = \"g\"\n[groups.g]\nbackends = [\"" +
		backend.address() + "\"]\n[groups.g.check]\ninitial = \"down\"\naddress = \"" +
		checks.address() + "\"\ninterval = \"1h\"\ntimeout = \"10m\"\nexpect = \"yes!\"\n");
	client.send(relay.address(), "lost");
	EXPECT_TRUE(eventually([&] {
		return relay.metric("datagrams_dropped_total{listener=\"web\","
				    "reason=\"no_backend\"}") == 1;
	}));
	auto check = checks.accept();
	check.send("yes!");
	ASSERT_TRUE(becomes_ready(relay));
	client.send(relay.address(), "q");
	EXPECT_EQ(backend.receive().bytes, "q");
	EXPECT_EQ(relay.stop().status, 0);
}

/* The old process serves until the checks of the new one are over. */
TEST(Initial, AHandoverWaitsForTheFirstChecks)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	judged a('a');
	configured_relay relay(text(a.toml()));
	a.judge(true);
	ASSERT_TRUE(becomes_ready(relay));
	relay.signal(SIGUSR2);
	ASSERT_TRUE(eventually([&] { return a.is_asked(); }));
	EXPECT_EQ(served_by(relay, 8), "aaaaaaaa");
	EXPECT_EQ(relay.errors().find("handed over"), std::string::npos);
	a.judge(true);
	const pid_t pid = std::atoi(relay.next_error("handed over to process ").c_str());
	ASSERT_GT(pid, 0);
	EXPECT_EQ(served_by(relay, 2), "aa");
	EXPECT_EQ(of_queue(relay, "waits_total"), 0U);
	EXPECT_TRUE(becomes_ready(relay)) << "the old process may answer for a moment";
	EXPECT_EQ(kill(pid, SIGTERM), 0);
	EXPECT_EQ(relay.wait().status, 0);
	int status = -1;
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
}

/* Nobody would accept clients if the new process waited any longer. */
TEST(Initial, AHandoverWaitsForNobodyIfTheOldProcessHasEnded)
{
	using clock = std::chrono::steady_clock;
	constexpr auto soon = 15s; /* half of the time for which it waits otherwise */
	constexpr unsigned tries = 3;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* A loaded machine may be slow once, but not each time. */
	auto shortest = clock::duration::max();
	for (unsigned i = 0; i < tries && shortest > soon; i++) {
		judged a('a');
		configured_relay relay(text(a.toml()));
		a.judge(true);
		ASSERT_TRUE(becomes_ready(relay));
		static_cast<void>(relay.next_error(" info serving "));
		relay.signal(SIGUSR2);
		ASSERT_TRUE(eventually([&] { return a.is_asked(); }));
		relay.signal(SIGKILL);
		const auto start = clock::now();
		auto client = peer::sending("who", relay.address());
		ASSERT_TRUE(has_queued(relay, 1));
		shortest = std::min(shortest, clock::now() - start);
		a.judge(true);
		EXPECT_EQ(client.receive(1), "a");
		EXPECT_EQ(served_by(relay, 2), "aa");
		const std::string said = relay.next_error(" info serving ");
		const pid_t pid = std::atoi(said.c_str() + said.find(" pid=") + 5);
		EXPECT_EQ(kill(pid, SIGTERM), 0);
		EXPECT_EQ(relay.wait().status, 128 + SIGKILL);
		int status = -1;
		EXPECT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(status, 0);
	}
	EXPECT_LE(shortest, soon);
}

} // namespace
