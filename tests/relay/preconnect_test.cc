/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* Connections to backends that the relay makes ahead of clients (preconnect). */
#include "harness.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace harness;

namespace
{

std::string text(const std::string &group, const std::string &backends,
		 const std::string &more = "")
{
	return "drain = 0\nadmin = \"127.0.0.1:0\"\n" + more +
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n[groups.g]\n" + group +
	       "backends = [" + backends + "]\n";
}

std::string quoted(const std::string &address)
{
	return '"' + address + '"';
}

std::uint64_t of_group(relay_process &relay, const std::string &name)
{
	return relay.metric("preconnect_" + name + "{group=\"g\"}");
}

std::uint64_t discarded(relay_process &relay, const std::string &reason)
{
	return relay.metric("preconnect_discarded_total{group=\"g\",reason=\"" + reason + "\"}");
}

std::uint64_t all_discarded(relay_process &relay)
{
	std::uint64_t n = 0;
	for (const char *reason : {"closed", "spoke", "age", "backend", "room", "config"})
		n += discarded(relay, reason);
	return n;
}

bool has_ready(relay_process &relay, std::uint64_t n)
{
	return eventually([&] { return of_group(relay, "ready") == n; });
}

/*
 * A backend that echoes on any number of connections, in one thread. It notices ended connections
 * before it counts a newer one, so most_open() is exact.
 */
class echo
{
public:
	enum class kind { plain, greets, closes_at_random };

	explicit echo(kind which = kind::plain) : kind_(which), random_(seed()) {}
	echo(const echo &) = delete;
	echo &operator=(const echo &) = delete;
	~echo()
	{
		over_ = true;
		running_.join();
	}

	const std::string &address() const { return listener_.address(); }
	std::size_t accepted() const { return accepted_; }
	std::size_t open() const { return open_; }
	std::size_t most_open() const { return most_open_; }
	/* How many connections received bytes after the backend had ended them. */
	std::size_t raced() const { return raced_; }

	/* Closes all connections so far that have received nothing. Those that the relay makes to
	 * replace them stay. */
	void close_silent()
	{
		closing_ = true;
		EXPECT_TRUE(eventually([&] { return !closing_; }));
	}

private:
	struct one {
		peer to;
		std::chrono::steady_clock::time_point ends{}; /* when the connection is ended if
		                                               * it has received nothing */
		bool has_spoken = false;
		bool is_ending = false;
		bool is_over = false;
	};

	void run()
	{
		while (!over_) {
			std::vector<pollfd> all{{listener_.fd(), POLLIN, 0}};
			for (const auto &each : those_)
				all.push_back({each.to.fd(), POLLIN, 0});
			poll(all.data(), all.size(), 2);
			serve();
			/* Read before the loop, so that the loop has accepted all connections that
			 * were made before closing was requested. */
			const bool is_closing = closing_;
			pollfd more{listener_.fd(), POLLIN, 0};
			while (poll(&more, 1, 0) > 0) {
				const int fd = accept4(listener_.fd(), nullptr, nullptr,
						       SOCK_CLOEXEC | SOCK_NONBLOCK);
				if (fd < 0)
					break;
				serve();
				const int now = 1;
				setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
				const auto life = random_() % 60'000 * 1us;
				those_.push_back(
					{peer(fd), std::chrono::steady_clock::now() + life});
				if (kind_ == kind::greets)
					send(fd, "hello\n", 6, MSG_NOSIGNAL);
				accepted_++;
				open_ = those_.size();
				most_open_ = std::max<std::size_t>(most_open_, open_);
			}
			if (is_closing) {
				std::erase_if(those_, [](auto &each) { return !each.has_spoken; });
				closing_ = false;
			}
			if (kind_ == kind::closes_at_random)
				end_some();
			open_ = those_.size();
		}
	}

	void serve()
	{
		for (auto &each : those_)
			serve(each);
		std::erase_if(those_, [](const auto &each) { return each.is_over; });
	}

	void serve(one &each)
	{
		char bytes[4096];
		for (;;) {
			const auto n = recv(each.to.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
			if (n < 0 && errno == EAGAIN)
				return;
			each.is_over = n <= 0;
			if (each.is_over)
				return;
			if (each.is_ending) {
				raced_++;
				each.to.reset();
				each.is_over = true;
				return;
			}
			each.has_spoken = true;
			send(each.to.fd(), bytes, static_cast<std::size_t>(n), MSG_NOSIGNAL);
		}
	}

	/* Ends only the sending side, so that the backend notices bytes that come too late. */
	void end_some()
	{
		const auto now = std::chrono::steady_clock::now();
		for (auto &each : those_)
			if (!each.has_spoken && !each.is_ending && now >= each.ends) {
				shutdown(each.to.fd(), SHUT_WR);
				each.is_ending = true;
			}
	}

	const kind kind_;
	std::mt19937_64 random_;
	listener listener_;
	std::vector<one> those_;
	std::atomic<std::size_t> accepted_{0}, open_{0}, most_open_{0}, raced_{0};
	std::atomic<bool> closing_{false}, over_{false};
	std::thread running_{[this] { run(); }};
};

void ask(peer &client)
{
	client.send("question");
	EXPECT_EQ(client.receive(8), "question");
}

void ask(relay_process &relay)
{
	auto client = peer::connect(relay.address());
	ask(client);
}

TEST(Preconnect, GivesClientsWhatItHasMadeAhead)
{
	listener backend;
	configured_relay relay(text("preconnect = 2\n", quoted(backend.address())));
	peer first = backend.accept();
	peer second = backend.accept();
	ASSERT_TRUE(has_ready(relay, 2));
	auto client = peer::sending("x", relay.address());
	/* The client gets the youngest connection; the other one stays. */
	pollfd both[2] = {{first.fd(), POLLIN, 0}, {second.fd(), POLLIN, 0}};
	ASSERT_GT(poll(both, 2, static_cast<int>(patience / 1ms)), 0);
	peer &served = both[0].revents ? first : second;
	EXPECT_EQ(served.receive(1), "x");
	served.send("y");
	EXPECT_EQ(client.receive(1), "y");
	peer third = backend.accept();
	ASSERT_TRUE(has_ready(relay, 2));
	EXPECT_EQ(of_group(relay, "hits_total"), 1U);
	EXPECT_EQ(of_group(relay, "misses_total"), 0U);
	EXPECT_EQ(of_group(relay, "failures_total"), 0U);
	const std::string of_backend = "{group=\"g\",backend=\"" + backend.address() + "\"}";
	EXPECT_EQ(relay.metric("backend_connections" + of_backend), 1U) << "clients' only";
	served.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Preconnect, IsOffByDefault)
{
	echo backend;
	configured_relay relay(text("", quoted(backend.address())));
	ask(relay);
	EXPECT_EQ(backend.accepted(), 1U);
	EXPECT_THROW(of_group(relay, "ready"), std::exception);
	EXPECT_EQ(relay.stop().status, 0);
}

/* A closed connection is replaced immediately, before the keeper's next look. */
TEST(Preconnect, ReplacesWhatTheBackendHasClosed)
{
	echo backend;
	configured_relay relay(text("preconnect = 3\n", quoted(backend.address())));
	for (unsigned i = 0; i < 5; i++) {
		ASSERT_TRUE(has_ready(relay, 3));
		backend.close_silent();
		ask(relay);
	}
	EXPECT_GE(discarded(relay, "closed"), 5U);
	ASSERT_TRUE(has_ready(relay, 3)) << "also without a client";
	EXPECT_EQ(relay.counter("resets"), 0U);
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* The backend's time limit began before the client came. */
TEST(Preconnect, ReplacesWhatIsClosedBeforeTheClientSpeaks)
{
	echo backend;
	configured_relay relay(text("preconnect = 1\n", quoted(backend.address())));
	ASSERT_TRUE(has_ready(relay, 1));
	auto client = peer::connect(relay.address());
	ASSERT_TRUE(eventually([&] { return of_group(relay, "hits_total") == 1; }));
	ASSERT_TRUE(has_ready(relay, 1));
	backend.close_silent();
	ASSERT_TRUE(eventually([&] { return discarded(relay, "closed") >= 1; }));
	ask(client);
	client.close();
	EXPECT_EQ(relay.counter("retries"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* A client that does not send its first bytes is ended for the usual reasons. */
TEST(Preconnect, EndsSilentClientsAsUsual)
{
	echo backend;
	configured_relay relay(
		text("preconnect = 1\n", quoted(backend.address()), "access_log = \"stderr\"\n"));
	ASSERT_TRUE(has_ready(relay, 1));
	auto leaves = peer::connect(relay.address());
	ASSERT_TRUE(eventually([&] { return of_group(relay, "hits_total") == 1; }));
	leaves.close();
	relay.await_error("cause=client_end ");
	ASSERT_TRUE(has_ready(relay, 1));
	auto stays = peer::connect(relay.address());
	ASSERT_TRUE(eventually([&] { return of_group(relay, "hits_total") == 2; }));
	EXPECT_EQ(relay.stop().status, 0);
	EXPECT_EQ(stays.receive_end(), ending::reset);
}

TEST(Preconnect, IdleTimeoutEndsSilentClients)
{
	echo backend;
	configured_relay relay(
		"drain = 0\nadmin = \"127.0.0.1:0\"\naccess_log = \"stderr\"\n"
		"[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
		"idle_timeout = \"200ms\"\n[groups.g]\npreconnect = 1\nbackends = [\"" +
		backend.address() + "\"]\n");
	ASSERT_TRUE(has_ready(relay, 1));
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	relay.await_error("cause=idle_timeout ");
	EXPECT_EQ(relay.counter("idle_timeouts"), 1U);
	EXPECT_EQ(relay.stop().status, 0);
}

/*
 * How many connections a backend has accepted, of those that had been made when this was called.
 * A connection is made before the backend accepts it. They are accepted in order, and this adds one
 * to them, which it does not count.
 */
std::size_t made(echo &backend)
{
	auto last = peer::connect(backend.address());
	ask(last);
	return backend.accepted() - 1;
}

/* Each of the looks at a connection finds the greeting, whichever is first. */
TEST(Preconnect, IsSwitchedOffWhereTheBackendSpeaksFirst)
{
	echo backend(echo::kind::greets);
	configured_relay relay(text("preconnect = 4\n", quoted(backend.address())));
	const std::string event = " warning preconnect_off group=g backend=" + backend.address();
	relay.await_error(event);
	/* The relay has closed all, and the backend has accepted them. */
	ASSERT_TRUE(eventually(
		[&] { return backend.open() == 0 && backend.accepted() == all_discarded(relay); }));
	const auto before = backend.accepted();
	for (unsigned i = 0; i < 3; i++) {
		auto client = peer::connect(relay.address());
		EXPECT_EQ(client.receive(6), "hello\n");
		ask(client);
	}
	EXPECT_EQ(backend.accepted(), before + 3);
	EXPECT_EQ(of_group(relay, "ready"), 0U);
	EXPECT_GE(discarded(relay, "spoke"), 1U);
	EXPECT_EQ(count_of(event, relay.errors()), 1U);
	ASSERT_TRUE(relay.reload());
	EXPECT_TRUE(eventually([&] { return count_of(event, relay.errors()) == 2; }));
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Preconnect, ReplacesWhatIsOld)
{
	echo backend;
	configured_relay relay(
		text("preconnect = 2\npreconnect_age = \"200ms\"\n", quoted(backend.address())));
	EXPECT_TRUE(eventually([&] { return discarded(relay, "age") >= 6; }));
	EXPECT_LE(backend.most_open(), 4U);
	EXPECT_GE(made(backend), 6U);
	ask(relay);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Preconnect, ClosesAllOfABackendThatIsDown)
{
	echo backend;
	auto checked = std::make_optional<listener>();
	const std::string agent = checked->address();
	configured_relay relay(text("preconnect = 2\n", quoted(backend.address()), "") +
			       "[groups.g.check]\ninterval = \"20ms\"\nfall = 1\nrise = 1\n"
			       "address = \"" +
			       agent + "\"\n");
	ASSERT_TRUE(has_ready(relay, 2));
	checked.reset();
	relay.await_error("warning backend_down");
	ASSERT_TRUE(has_ready(relay, 0));
	ASSERT_TRUE(eventually([&] { return backend.open() == 0; }));
	EXPECT_EQ(discarded(relay, "backend"), 2U);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Preconnect, FollowsTheConfiguration)
{
	echo backend, other;
	configured_relay relay(text("preconnect = 2\n", quoted(backend.address())));
	ASSERT_TRUE(has_ready(relay, 2));
	/* A reload that changes another setting. */
	ASSERT_TRUE(relay.reload(text("preconnect = 2\nretries = 1\n",
				      quoted(backend.address()) + ", " + quoted(other.address()))));
	ASSERT_TRUE(has_ready(relay, 4));
	EXPECT_EQ(made(backend), 2U) << "they stay";
	ASSERT_TRUE(relay.reload(
		text("preconnect = 1\n", quoted(backend.address()) + ", {address = " +
						 quoted(other.address()) + ", weight = 0}")));
	ASSERT_TRUE(has_ready(relay, 1));
	EXPECT_TRUE(eventually([&] { return other.open() == 0 && backend.open() == 1; }));
	ASSERT_TRUE(relay.reload(text("", quoted(backend.address()))));
	EXPECT_TRUE(eventually([&] { return backend.open() == 0; }));
	ask(relay);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Preconnect, ClosesAllWhenTheRelayStops)
{
	echo backend;
	configured_relay relay(
		text("preconnect = 3\n", quoted(backend.address()), "stop_delay = \"1h\"\n"));
	ASSERT_TRUE(has_ready(relay, 3));
	relay.signal(SIGTERM);
	EXPECT_TRUE(eventually([&] { return backend.open() == 0; }));
	ask(relay);
	EXPECT_EQ(relay.stop().status, 0);
}

#if !TEST_EMULATED // the new process would run without the emulator
TEST(Preconnect, ClosesAllAfterAHandover)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	echo backend;
	configured_relay relay(text("preconnect = 3\n", quoted(backend.address())));
	ASSERT_TRUE(has_ready(relay, 3));
	auto client = peer::connect(relay.address());
	ask(client);
	relay.signal(SIGUSR2);
	const std::string start = "handed over to process ";
	relay.await_error(start);
	ASSERT_TRUE(eventually([&] {
		return relay.errors().find('\n', relay.errors().find(start)) != std::string::npos;
	}));
	const std::string said = relay.errors();
	const pid_t next = std::stoi(said.substr(said.find(start) + start.size()));
	EXPECT_TRUE(eventually([&] { return backend.open() == 4; }))
		<< "3 of the new process, and 1";
	ask(client);
	client.close();
	siginfo_t first{};
	EXPECT_TRUE(eventually([&] {
		return waitid(P_PID, static_cast<id_t>(relay.pid()), &first,
			      WEXITED | WNOHANG | WNOWAIT) == 0 &&
		       first.si_pid == relay.pid();
	}));
	/* The new process has the same stderr. */
	kill(next, SIGTERM);
	int status = -1;
	EXPECT_TRUE(eventually([&] { return waitpid(next, &status, WNOHANG) == next; }));
	EXPECT_EQ(status, 0);
	EXPECT_EQ(relay.wait().status, 0);
}
#endif

TEST(Preconnect, StaysWithinMaxConnections)
{
	echo backend;
	configured_relay relay(
		text("preconnect = 3\nqueue_timeout = 0\n",
		     "{address = " + quoted(backend.address()) + ", max_connections = 4}"));
	ASSERT_TRUE(has_ready(relay, 3));
	std::vector<std::thread> clients;
	for (unsigned i = 0; i < 8; i++)
		clients.emplace_back([&] {
			for (std::size_t n = scaled(200); n-- > 0;)
				ask(relay);
		});
	for (auto &each : clients)
		each.join();
	EXPECT_LE(backend.most_open(), 4U);
	EXPECT_GT(of_group(relay, "hits_total"), 0U);
	ASSERT_TRUE(has_ready(relay, 3));
	/* Clients can have all of the places if they need them. */
	std::vector<peer> four;
	for (unsigned i = 0; i < 4; i++) {
		four.push_back(peer::connect(relay.address()));
		ask(four.back());
	}
	EXPECT_EQ(backend.open(), 4U);
	EXPECT_EQ(of_group(relay, "ready"), 0U);
	four.clear();
	EXPECT_EQ(relay.stop().status, 0);
}

/* Ready connections hold places, but give clients none beyond the new limit. */
TEST(Preconnect, FollowsALimitThatIsLowered)
{
	echo backend;
	const auto with = [&](const std::string &limit) {
		return text("queue = 0\nretries = 0\npreconnect = 6\n",
			    "{address = " + quoted(backend.address()) + limit + "}");
	};
	configured_relay relay(with(""));
	ASSERT_TRUE(has_ready(relay, 6));
	ASSERT_TRUE(relay.reload(with(", max_connections = 2")));
	EXPECT_TRUE(eventually([&] { return backend.open() <= 2; }));
	auto first = peer::connect(relay.address()), second = peer::connect(relay.address());
	ask(first);
	ask(second);
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	ask(first);
}

/* Keepers start and stop, and share the store at the same time. */
TEST(Preconnect, IsReloadedUnderLoad)
{
	echo backend;
	const auto with = [&](unsigned n) {
		return text("queue_timeout = 0\npreconnect = " + std::to_string(n) + "\n",
			    "{address = " + quoted(backend.address()) + ", max_connections = 6}");
	};
	configured_relay relay(with(3));
	const std::string address = relay.address();
	std::atomic<bool> over{false};
	std::atomic<std::size_t> asked{0};
	std::vector<std::thread> clients;
	for (unsigned i = 0; i < 4; i++)
		clients.emplace_back([&] {
			while (!over) {
				auto client = peer::connect(address);
				ask(client);
				asked++;
			}
		});
	const unsigned wanted[] = {0, 4, 1, 3};
	for (std::size_t i = 0; i < std::max<std::size_t>(scaled(100), 8); i++) {
		const auto before = asked.load();
		EXPECT_TRUE(relay.reload(with(wanted[i % 4])));
		EXPECT_TRUE(eventually([&] { return asked >= before + 4; }));
	}
	over = true;
	for (auto &each : clients)
		each.join();
	EXPECT_LE(backend.most_open(), 6U);
	ASSERT_TRUE(relay.reload(with(2)));
	ASSERT_TRUE(has_ready(relay, 2));
	EXPECT_TRUE(eventually([&] { return backend.open() == 2; }));
	EXPECT_EQ(relay.counter("resets"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* Ready connections take no descriptor from a client. */
TEST(Preconnect, GivesWayWhenDescriptorsRunShort)
{
	echo backend;
	const file config(text("preconnect = 30\n", quoted(backend.address())));
	relay_process relay({"--config", config.name()}, 100);
	const auto most = relay.metric("sessions_limit");
	ASSERT_GT(most, 10U);
	ASSERT_TRUE(eventually([&] { return of_group(relay, "ready") >= most / 2; }));
	std::vector<peer> clients;
	for (std::uint64_t i = 0; i < most; i++) {
		clients.push_back(peer::connect(relay.address()));
		ask(clients.back());
	}
	EXPECT_EQ(of_group(relay, "ready"), 0U);
	EXPECT_GT(discarded(relay, "room"), 0U);
	EXPECT_EQ(relay.counter("no_memory"), 0U);
	clients.clear();
	ASSERT_TRUE(eventually([&] { return of_group(relay, "ready") >= most / 2; }));
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Preconnect, DoesNotHammerABackendThatRefuses)
{
	listener backend("127.0.0.1", -1);
	const file config(text("preconnect = 100\neject_after = 1\n", quoted(backend.address())));
	const auto start = std::chrono::steady_clock::now();
	relay_process relay({"--config", config.name()});
	ASSERT_TRUE(eventually([&] { return of_group(relay, "failures_total") >= 8; }));
	const auto failures = of_group(relay, "failures_total");
	const auto time = std::chrono::steady_clock::now() - start;
	/* The pauses last at least 100 ms, and four connections are tried at a time. */
	EXPECT_LE(failures, 4U * (1 + static_cast<std::uint64_t>(time / 100ms)));
	const std::string of_backend = "{group=\"g\",backend=\"" + backend.address() + "\"}";
	EXPECT_EQ(relay.metric("backend_failures_total" + of_backend), 0U);
	EXPECT_EQ(relay.counter("ejections"), 0U);
	backend.listen();
	EXPECT_TRUE(eventually([&] { return of_group(relay, "ready") == 100; }));
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Preconnect, SendsThePROXYHeaderWithTheClient)
{
	listener backend;
	configured_relay relay(
		text("preconnect = 1\nsend_proxy = \"v1\"\n", quoted(backend.address())));
	peer made = backend.accept();
	ASSERT_TRUE(has_ready(relay, 1));
	auto client = peer::sending("x", relay.address());
	EXPECT_EQ(made.receive(10), "PROXY TCP4");
	std::string rest;
	while (!rest.ends_with("\r\nx"))
		rest += made.receive(1);
	made.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	EXPECT_EQ(of_group(relay, "hits_total"), 1U);
	EXPECT_EQ(relay.stop().status, 0);
}

/*
 * Clients race with a backend that ends unused connections at any time. Each client is answered,
 * except those whose request was under way at that moment, or that were slow to use a connection
 * which had been made for them: the backend counts both.
 */
TEST(Preconnect, AnswersEveryClientOfABackendThatClosesAtRandom)
{
	SCOPED_TRACE("seed " + std::to_string(seed()));
	echo backend(echo::kind::closes_at_random);
	configured_relay relay(text("preconnect = 8\n", quoted(backend.address())));
	const std::string address = relay.address();
	std::atomic<std::size_t> answered{0}, lost{0};
	std::vector<std::thread> clients;
	for (unsigned i = 0; i < 8; i++)
		clients.emplace_back([&, i] {
			std::mt19937_64 random(seed() + i);
			for (std::size_t n = scaled(500); n-- > 0;) {
				auto client = peer::connect(address);
				if (random() % 4 == 0)
					std::this_thread::sleep_for(random() % 5000 * 1us);
				const std::string bytes = random_bytes(random, 8);
				try {
					client.send(bytes);
					if (client.receive(8) != bytes)
						throw std::runtime_error("another answer");
					answered++;
				} catch (const std::exception &) {
					lost++;
				}
			}
		});
	for (auto &each : clients)
		each.join();
	EXPECT_EQ(answered + lost, 8 * scaled(500));
	EXPECT_LE(lost, backend.raced());
	EXPECT_GT(answered, lost);
	EXPECT_GT(of_group(relay, "hits_total"), 0U);
	EXPECT_GT(discarded(relay, "closed"), 0U);
	RecordProperty("lost", static_cast<int>(lost));
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

} // namespace
