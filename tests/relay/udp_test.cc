/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* Listeners of UDP: which datagrams are passed on, from which address, and how sessions end.
 * udp_oracle_test.cc tests many clients at the same time, and udp_operation_test.cc reloads,
 * handovers and stopping. */
#include "datagrams.hpp"
#include "harness.hpp"
#include "quic_examples.hpp"
#include "wire/proxy_header.hpp"
#include "wire/quic_crypto.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <set>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>

using namespace harness;
using namespace std::string_literals;

namespace
{

std::string config(const std::string &backends, const std::string &of_listener = "",
		   const std::string &of_group = "")
{
	return "drain = 0\naccess_log = \"stderr\"\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.dns]\naddress = \"udp:127.0.0.1:0\"\ngroup = \"g\"\n" +
	       of_listener + "\n[groups.g]\nbackends = [" + backends + "]\n" + of_group;
}

std::string address_of_nobody()
{
	const udp_peer gone;
	return gone.address();
}

std::string quoted(const std::string &text)
{
	return '"' + text + '"';
}

/* The datagram with a UDP header, without a checksum. */
std::string udp_packet(unsigned from, unsigned to, const std::string &bytes)
{
	std::string packet;
	for (const unsigned word : {from, to, 8 + static_cast<unsigned>(bytes.size()), 0U})
		packet += {static_cast<char>(word >> 8), static_cast<char>(word)};
	return packet + bytes;
}

/* Stops the relay while it exists. */
class standstill
{
public:
	explicit standstill(const relay_process &of) : pid_(of.pid())
	{
		int status = 0;
		kill(pid_, SIGSTOP);
		if (waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status))
			return;
		kill(pid_, SIGCONT);
		throw std::runtime_error("the relay did not stop");
	}
	standstill(const standstill &) = delete;
	standstill &operator=(const standstill &) = delete;
	~standstill() { kill(pid_, SIGCONT); }

private:
	const pid_t pid_;
};

class Udp : public testing::Test
{
protected:
	void start(const std::string &text)
	{
		settings_.emplace(text);
		relay_.emplace(std::vector<std::string>{"--config", settings_->name()});
		at_ = relay_->address();
	}

	std::uint64_t dropped(const std::string &reason)
	{
		return relay_->metric("datagrams_dropped_total{listener=\"dns\",reason=\"" +
				      reason + "\"}");
	}
	std::uint64_t open() { return relay_->metric("connections{listener=\"dns\"}"); }
	std::uint64_t ended(const std::string &cause)
	{
		return relay_->metric("connections_ended_total{listener=\"dns\",cause=\"" + cause +
				      "\"}");
	}

	/* Lets a datagram of the client reach the backend, and its answer the client. Returns the
	 * session's address, as the backend sees it. */
	std::string exchange(udp_peer &client, udp_peer &backend, const std::string &bytes = "q")
	{
		client.send(at_, bytes);
		const auto arrived = backend.receive();
		EXPECT_EQ(arrived.bytes, bytes);
		backend.send(arrived.from, "a" + bytes);
		const auto answer = client.receive();
		EXPECT_EQ(answer.bytes, "a" + bytes);
		EXPECT_EQ("udp:" + answer.from, at_);
		return arrived.from;
	}

	void TearDown() override
	{
		if (!relay_)
			return;
		const ended_program end = relay_->stop();
		EXPECT_EQ(end.status, 0) << end.errors;
	}

	using ended_program = harness::ended;
	std::optional<file> settings_;
	std::optional<relay_process> relay_;
	std::string at_;
};

TEST_F(Udp, PassesOnEachSizeWhole)
{
	udp_peer backend, client;
	start(config(quoted(backend.address())));
	std::mt19937_64 random(seed());
	for (const std::size_t size : {0, 1, 512, 1472, 1473, 4096, 65506, 65507}) {
		const auto bytes = random_bytes(random, size);
		client.send(at_, bytes);
		const auto arrived = backend.receive();
		EXPECT_TRUE(arrived.bytes == bytes) << size << ": " << arrived.bytes.size();
		backend.send(arrived.from, bytes);
		const auto answer = client.receive();
		EXPECT_TRUE(answer.bytes == bytes) << size << ": " << answer.bytes.size();
		EXPECT_EQ("udp:" + answer.from, at_);
	}
	EXPECT_EQ(relay_->metric("connections_accepted_total{listener=\"dns\"}"), 1U);
	EXPECT_EQ(relay_->metric("datagrams_total{listener=\"dns\",to=\"backend\"}"), 8U);
	/* The relay counts a datagram after it has sent it, so the client may have it earlier. */
	EXPECT_TRUE(eventually([&] {
		return relay_->metric("datagrams_total{listener=\"dns\",to=\"client\"}") == 8;
	}));
	EXPECT_EQ(relay_->metric("bytes_total{listener=\"dns\",to=\"client\"}"), 138567U);
}

TEST_F(Udp, EachClientHasASession)
{
	udp_peer backend, one, two;
	start(config(quoted(backend.address())));
	const auto first = exchange(one, backend, "1");
	const auto second = exchange(two, backend, "2");
	EXPECT_NE(first, second);
	EXPECT_EQ(exchange(one, backend, "3"), first);
	backend.send(second, "late, and unasked for");
	EXPECT_EQ(two.receive().bytes, "late, and unasked for");
	EXPECT_EQ(open(), 2U);
}

/* A listener at every address of the machine answers from the address to which the client has
 * sent. */
TEST_F(Udp, AnswersFromTheAddressThatWasAsked)
{
	udp_peer backend;
	start("[listeners.any]\naddress = 'udp::0'\ngroup = 'g'\n"
	      "[listeners.four]\naddress = 'udp:0.0.0.0:0'\ngroup = 'g'\n"
	      "[groups.g]\nbackends = ['" +
	      backend.address() + "']\n");
	const auto port_of = [](const std::string &address) {
		return address.substr(address.rfind(':'));
	};
	udp_peer client, client6("[::1]:0");
	std::set<std::string> sessions;
	for (const std::string &host : {"127.0.0.1"s, "127.0.0.5"s, "127.9.9.9"s})
		for (const std::size_t nth : {0U, 1U}) {
			const auto to = host + port_of(relay_->address(nth));
			client.send(to, "q");
			const auto arrived = backend.receive();
			sessions.insert(arrived.from);
			backend.send(arrived.from, "a");
			EXPECT_EQ(client.receive().from, to);
		}
	EXPECT_EQ(sessions.size(), 6U) << "one for each address that was asked";
	const auto to = "[::1]" + port_of(relay_->address(0));
	client6.send(to, "q");
	backend.send(backend.receive().from, "a");
	EXPECT_EQ(client6.receive().from, to);
}

TEST_F(Udp, ASessionEndsWhenItIsIdle)
{
	udp_peer backend, client;
	start(config(quoted(backend.address()), "idle_timeout = '50ms'\n"));
	const auto first = exchange(client, backend);
	EXPECT_TRUE(eventually([&] { return ended("idle_timeout") == 1; }));
	EXPECT_EQ(open(), 0U);
	relay_->await_error("cause=idle_timeout listener=dns client=" + client.address());
	relay_->await_error("datagrams_to_backend=1 datagrams_to_client=1");
	EXPECT_NE(exchange(client, backend), first);
}

/* Also if the backend sends so fast that a datagram is always there: here those that it has sent
 * while the relay was stopped. */
TEST_F(Udp, AFloodOutlivesNoLifetime)
{
	constexpr int sent = 50;
	udp_peer backend, client;
	start(config(quoted(backend.address()), "lifetime = '1s'\n"));
	client.send(at_, "q");
	const auto session = backend.receive().from;
	{
		const standstill here(*relay_);
		for (int i = 0; i < sent; i++)
			backend.send(session, "a");
		std::this_thread::sleep_for(1s);
	}
	EXPECT_TRUE(eventually([&] { return ended("lifetime") == 1; }));
	/* The one for which the session's task had waited is passed on. */
	int passed = 0;
	while (client.receive_within(0ms))
		passed++;
	EXPECT_LT(passed, sent / 2);
	EXPECT_EQ(open(), 0U);
}

/* Each datagram of the client allows so many answers: none is lost because another one came
 * early. */
TEST_F(Udp, ASessionEndsWithItsLastAnswer)
{
	udp_peer backend, client;
	start(config(quoted(backend.address()), "responses = 2\n"));
	client.send(at_, "1");
	client.send(at_, "2");
	const auto session = backend.receive().from;
	EXPECT_EQ(backend.receive().from, session);
	for (const char *answer : {"a", "b", "c", "d"}) {
		EXPECT_EQ(ended("server_end"), 0U);
		backend.send(session, answer);
		EXPECT_EQ(client.receive().bytes, answer);
	}
	EXPECT_TRUE(eventually([&] { return ended("server_end") == 1; }));
	EXPECT_EQ(open(), 0U);
}

/* No answer comes to a datagram that was dropped, whether the first one or another. */
TEST_F(Udp, WhatWasDroppedNeedsNoAnswer)
{
	udp_peer backend, client;
	start(config(quoted(backend.address()),
		     "responses = 1\nbandwidth = { to_backend = '1MiB', burst = '1KiB' }\n"));
	const std::string large(2000, 'x'); /* more than the burst */
	std::uint64_t drops = 0;
	for (std::uint64_t round = 1; round <= 2; round++)
		for (const bool is_first : {true, false}) {
			const auto drop = [&] {
				client.send(at_, large);
				drops++;
				EXPECT_TRUE(
					eventually([&] { return dropped("bandwidth") == drops; }));
			};
			if (is_first)
				drop();
			/* One that has passed nothing on stays until it is idle. */
			EXPECT_EQ(open(), is_first ? 1U : 0U);
			client.send(at_, "q");
			const auto session = backend.receive().from;
			if (!is_first)
				drop();
			EXPECT_EQ(open(), 1U);
			backend.send(session, "a");
			EXPECT_EQ(client.receive().bytes, "a");
			EXPECT_TRUE(eventually([&] {
				return ended("server_end") == 2 * round - (is_first ? 1 : 0);
			}));
			EXPECT_EQ(open(), 0U);
		}
}

TEST_F(Udp, LimitsAndListsCountWhatTheyDrop)
{
	udp_peer backend, client, other, denied("127.0.0.9:0"), alone("127.0.0.2:0"),
		second("127.0.0.2:0");
	start(config(quoted(backend.address()),
		     "max_connections = 3\nmax_connections_per_source = 2\n"
		     "deny = ['127.0.0.9']\n"));
	exchange(client, backend);
	denied.send(at_, "no");
	EXPECT_TRUE(eventually([&] { return dropped("refused_list") == 1; }));
	exchange(other, backend);
	udp_peer third;
	third.send(at_, "no");
	EXPECT_TRUE(eventually([&] { return dropped("refused_limit") == 1; }));
	relay_->await_error("limit=max_connections_per_source");
	exchange(alone, backend);
	second.send(at_, "no");
	EXPECT_TRUE(eventually([&] { return dropped("refused_limit") == 2; }));
	relay_->await_error("limit=max_connections ");
	exchange(client, backend, "a session that is open is not limited");
	EXPECT_FALSE(backend.receive_within(0ms)) << "no datagram of the others has arrived";
	EXPECT_EQ(open(), 3U);
}

TEST_F(Udp, RatesCountWhatTheyDrop)
{
	udp_peer backend, one, two, three, elsewhere("127.0.0.2:0");
	start(config(quoted(backend.address()),
		     "accept_rate = 1\naccept_burst = 3\n"
		     "accept_rate_per_source = 1\naccept_burst_per_source = 2\n"));
	const stops machine;
	exchange(one, backend);
	exchange(two, backend);
	three.send(at_, "no");
	EXPECT_TRUE(eventually([&] { return dropped("refused_rate") == 1; }))
		<< "unless a second has passed: " << machine.longest().count() << " ns";
	relay_->await_error("limit=accept_rate_per_source");
	exchange(elsewhere, backend);
}

TEST_F(Udp, BandwidthDropsWhatIsTooFast)
{
	udp_peer backend, client;
	start(config(quoted(backend.address()),
		     "bandwidth = { to_backend = '1KiB', burst = '4KiB' }\n"));
	const std::string kibibyte(1024, 'x');
	for (int i = 0; i < 100; i++)
		client.send(at_, kibibyte);
	EXPECT_TRUE(eventually([&] {
		return relay_->metric("datagrams_total{listener=\"dns\",to=\"backend\"}") +
			       dropped("bandwidth") ==
		       100;
	}));
	EXPECT_GT(dropped("bandwidth"), 50U);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(backend.receive().bytes, kibibyte);
}

/* The network reports the refusal, and the next datagram goes to another backend. */
TEST_F(Udp, ABackendThatRefusesIsEjected)
{
	udp_peer backend, client;
	const std::string nobody = address_of_nobody();
	start(config(quoted(nobody) + ", " + quoted(backend.address()), "",
		     "eject_after = 2\neject_for = '1h'\n"));
	const auto failures = [&] {
		return relay_->metric("backend_failures_total{group=\"g\",backend=\"" + nobody +
				      "\"}");
	};
	EXPECT_TRUE(eventually([&] {
		udp_peer each;
		each.send(at_, "lost, or not");
		return failures() == 2;
	}));
	EXPECT_EQ(relay_->metric("backend_ejections_total{group=\"g\",backend=\"" + nobody + "\"}"),
		  1U);
	relay_->await_error("cause=connect_failed");
	relay_->await_error("warning backend_ejected");
	for (int i = 0; i < 4; i++) {
		udp_peer each;
		each.send(at_, std::to_string(i));
		while (backend.receive().bytes != std::to_string(i))
			continue;
	}
	EXPECT_EQ(failures(), 2U);
}

/* All datagrams are there when the relay continues, so the second one usually comes while the task
 * of the session that the first one has begun is not over. That session must not count against the
 * limits any more. */
TEST_F(Udp, ASessionThatFailedLeavesItsPlaceToTheNext)
{
	constexpr std::uint64_t sent = 20;
	udp_peer backend, client;
	const std::string nobody =
		"{ address = '" + address_of_nobody() + "', max_connections = 1 }";
	for (const std::string &other : {""s, ", " + quoted(backend.address())}) {
		start(config(nobody + other,
			     "max_connections = 1\nmax_connections_per_source = 1\n",
			     "eject_after = 0\n"));
		/* The answer says that the relay receives. */
		EXPECT_EQ(open(), 0U);
		{
			const standstill here(*relay_);
			for (std::uint64_t i = 0; i < sent; i++)
				client.send(at_, "q");
		}
		EXPECT_TRUE(eventually([&] {
			return relay_->metric("datagrams_total{listener=\"dns\",to=\"backend\"}") +
				       dropped("refused_limit") + dropped("no_backend") +
				       dropped("backend_failed") ==
			       sent;
		}));
		EXPECT_EQ(dropped("refused_limit"), 0U);
		EXPECT_EQ(dropped("no_backend"), 0U);
		/* The report of a refusal may come late. */
		EXPECT_TRUE(other.empty() || eventually([&] {
				    client.send(at_, "q");
				    return backend.receive_within(10ms).has_value();
			    }));
		TearDown();
	}
	relay_.reset();
}

/* A client that has its last answer may ask again immediately. */
TEST_F(Udp, ASessionThatIsOverLeavesItsPlaceToTheNext)
{
	const std::size_t exchanges = scaled(10000);
	udp_peer backend;
	start(config(quoted(backend.address()), "responses = 1\nmax_connections_per_source = 1\n"));
	std::jthread echo([&](const std::stop_token &stop) {
		while (!stop.stop_requested())
			if (const auto arrived = backend.receive_within(10ms))
				backend.send(arrived->from, arrived->bytes);
	});
	std::vector<std::unique_ptr<udp_peer>> clients;
	for (int i = 1; i <= 4; i++) {
		clients.push_back(
			std::make_unique<udp_peer>("127.0.0." + std::to_string(i) + ":0"));
		clients.back()->send(at_, "q");
	}
	std::size_t done = 0;
	EXPECT_TRUE(eventually([&] {
		for (bool are_all = true; are_all && done < exchanges;)
			for (const auto &each : clients)
				if (each->receive_within(20ms)) {
					each->send(at_, "q");
					done++;
				} else {
					each->send(at_, "q"); /* one was lost */
					are_all = false;
				}
		return done >= exchanges || dropped("refused_limit") > 0;
	})) << done;
	EXPECT_EQ(dropped("refused_limit"), 0U) << done;
}

/* A backend that goes away after answers has failed in another way. */
TEST_F(Udp, ABackendThatGoesAwayEndsTheSession)
{
	std::optional<udp_peer> backend(std::in_place);
	udp_peer client;
	start(config(quoted(backend->address())));
	exchange(client, *backend);
	const auto address = backend->address();
	backend.reset();
	client.send(at_, "lost");
	EXPECT_TRUE(eventually([&] { return ended("server_reset") == 1; }));
	backend.emplace(address);
	exchange(client, *backend, "again");
}

TEST_F(Udp, WithoutABackendDatagramsAreDropped)
{
	udp_peer backend, client;
	start(config("{ address = '" + backend.address() + "', weight = 0 }"));
	client.send(at_, "q");
	EXPECT_TRUE(eventually([&] { return dropped("no_backend") == 1; }));
	relay_->await_error("error no_backend");
	EXPECT_EQ(relay_->metric("connections_accepted_total{listener=\"dns\"}"), 0U);
}

TEST_F(Udp, ClientsStayWithTheirBackendBySourceHash)
{
	udp_peer one, two;
	start(config(quoted(one.address()) + ", " + quoted(two.address()), "responses = 1\n",
		     "balance = 'source-hash'\n"));
	udp_peer first;
	first.send(at_, "q");
	bool is_one = false;
	ASSERT_TRUE(eventually([&] {
		is_one = one.receive_within(0ms).has_value();
		return is_one || two.receive_within(0ms);
	}));
	udp_peer &its = is_one ? one : two;
	for (int i = 0; i < 20; i++) {
		udp_peer another; /* another port of the same address */
		another.send(at_, std::to_string(i));
		EXPECT_EQ(its.receive().bytes, std::to_string(i));
	}
}

/* The header is in each datagram, because a lost or late one must not take the client's address
 * with it. */
TEST_F(Udp, EachDatagramHasAProxyHeader)
{
	udp_peer backend, client, client6("[::1]:0");
	start("[listeners.a]\naddress = 'udp::0'\ngroup = 'g'\n[groups.g]\nsend_proxy = 'v2'\n"
	      "backends = ['" +
	      backend.address() + "']\n");
	const auto port = at_.substr(at_.rfind(':'));
	for (const auto &[from, host] :
	     {std::pair(&client, "127.0.0.7"s), std::pair(&client6, "[::1]"s)})
		for (const std::string &bytes : {"q"s, ""s, "r"s}) {
			from->send(host + port, bytes);
			const auto arrived = backend.receive();
			relay::proxy_header header;
			const auto read = relay::read_proxy_header(arrived.bytes, header);
			ASSERT_TRUE(read) << read.why;
			EXPECT_EQ(arrived.bytes.substr(read.size), bytes);
			EXPECT_TRUE(header.datagram);
			EXPECT_FALSE(header.own);
			EXPECT_EQ(to_text(header, header.source), from->address());
			EXPECT_EQ(to_text(header, header.destination), host + port);
			backend.send(arrived.from, "a");
			EXPECT_EQ(from->receive().bytes, "a");
		}
	client.send("127.0.0.1" + port, std::string(65507, 'x'));
	EXPECT_TRUE(eventually([&] {
		return relay_->counters().at("active") == 3; /* with the header, the datagram is
		                                              * too long */
	}));
}

/* Otherwise the answers to one forged datagram would circulate forever. */
TEST_F(Udp, ADatagramFromTheListenerItselfIsDropped)
{
	const int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);
	if (raw < 0)
		GTEST_SKIP() << "raw sockets are not permitted";
	udp_peer backend, client;
	start(config(quoted(backend.address())));
	socklen_t size = 0;
	auto to = to_sockaddr(at_, size);
	const auto port = ntohs(reinterpret_cast<const sockaddr_in &>(to).sin_port);
	for (const unsigned from : {unsigned{port}, 0U}) {
		const auto packet = udp_packet(from, port, "loop");
		EXPECT_EQ(sendto(raw, packet.data(), packet.size(), 0,
				 reinterpret_cast<const sockaddr *>(&to), size),
			  static_cast<ssize_t>(packet.size()));
	}
	close(raw);
	EXPECT_TRUE(eventually([&] { return dropped("bad_source") == 2; }));
	exchange(client, backend);
	EXPECT_EQ(open(), 1U);
}

/* A backend that answers every datagram would answer its own answers. */
TEST_F(Udp, ADatagramFromABackendOfTheGroupIsDropped)
{
	udp_peer one, two, client;
	start(config(quoted(one.address()) + ", " + quoted(two.address())));
	two.send(at_, "loop");
	EXPECT_TRUE(eventually([&] { return dropped("bad_source") == 1; }));
	client.send(at_, "q");
	udp_peer *its = nullptr;
	ASSERT_TRUE(eventually([&] {
		for (auto *each : {&one, &two})
			if (const auto arrived = each->receive_within(0ms)) {
				EXPECT_EQ(arrived->bytes, "q");
				its = each;
			}
		return its != nullptr;
	}));
	EXPECT_EQ(open(), 1U);
}

/* Answers would circulate between two listeners as well. */
TEST_F(Udp, ADatagramFromAnotherListenerIsDropped)
{
	const int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);
	if (raw < 0)
		GTEST_SKIP() << "raw sockets are not permitted";
	udp_peer backend, client;
	start(config(quoted(backend.address()),
		     "[listeners.other]\naddress = 'udp:127.0.0.1:0'\ngroup = 'g'\n"));
	const auto port_of = [](const std::string &at) {
		return static_cast<unsigned>(std::stoul(at.substr(at.rfind(':') + 1)));
	};
	socklen_t size = 0;
	const auto to = to_sockaddr(at_, size);
	const auto packet = udp_packet(port_of(relay_->address(1)), port_of(at_), "loop");
	EXPECT_EQ(sendto(raw, packet.data(), packet.size(), 0,
			 reinterpret_cast<const sockaddr *>(&to), size),
		  static_cast<ssize_t>(packet.size()));
	close(raw);
	EXPECT_TRUE(eventually([&] { return dropped("bad_source") == 1; }));
	exchange(client, backend);
	EXPECT_EQ(open(), 1U);
}

/* This includes other addresses of a listener that has them all, because these would answer each
 * other. */
TEST_F(Udp, ADatagramFromAnotherAddressOfTheListenerIsDropped)
{
	const int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);
	if (raw < 0)
		GTEST_SKIP() << "raw sockets are not permitted";
	udp_peer backend, client;
	start("admin = '127.0.0.1:0'\n[listeners.dns]\naddress = 'udp:0.0.0.0:0'\ngroup = 'g'\n"
	      "[groups.g]\nbackends = ['" +
	      backend.address() + "']\n");
	const auto port = static_cast<std::uint16_t>(std::stoi(at_.substr(at_.rfind(':') + 1)));
	at_ = "udp:127.0.0.1:" + std::to_string(port);
	socklen_t size = 0;
	const auto from = to_sockaddr("127.0.0.2:0", size);
	ASSERT_EQ(bind(raw, reinterpret_cast<const sockaddr *>(&from), size), 0);
	const auto to = to_sockaddr(at_, size);
	const auto packet = udp_packet(port, port, "loop");
	EXPECT_EQ(sendto(raw, packet.data(), packet.size(), 0,
			 reinterpret_cast<const sockaddr *>(&to), size),
		  static_cast<ssize_t>(packet.size()));
	close(raw);
	EXPECT_TRUE(eventually([&] { return dropped("bad_source") == 1; }));
	exchange(client, backend);
	EXPECT_EQ(open(), 1U);
}

/* The lists and limits come first: a look at the addresses of the machine opens a socket, and each
 * forged datagram could cost one. */
TEST_F(Udp, WhoIsRefusedAnywayCostsNoLookAtTheAddresses)
{
	const int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);
	if (raw < 0)
		GTEST_SKIP() << "raw sockets are not permitted";
	udp_peer backend, client;
	start("admin = '127.0.0.1:0'\n[listeners.dns]\naddress = 'udp:0.0.0.0:0'\ngroup = 'g'\n"
	      "deny = ['127.0.0.2']\nmax_connections = 1\n[groups.g]\nbackends = ['" +
	      backend.address() + "']\n");
	const auto port = static_cast<unsigned>(std::stoi(at_.substr(at_.rfind(':') + 1)));
	at_ = "udp:127.0.0.1:" + std::to_string(port);
	exchange(client, backend);
	const auto packet = udp_packet(port, port, "loop");
	socklen_t size = 0;
	const auto to = to_sockaddr(at_, size);
	for (const auto &[host, reason] : {std::pair("127.0.0.2:0"s, "refused_list"s),
					   std::pair("127.0.0.3:0"s, "refused_limit"s)}) {
		const auto from = to_sockaddr(host, size);
		ASSERT_EQ(bind(raw, reinterpret_cast<const sockaddr *>(&from), size), 0);
		EXPECT_EQ(sendto(raw, packet.data(), packet.size(), 0,
				 reinterpret_cast<const sockaddr *>(&to), size),
			  static_cast<ssize_t>(packet.size()));
		EXPECT_TRUE(eventually([&, why = reason] {
			return dropped(why) + dropped("bad_source") > 0;
		})) << reason;
		EXPECT_EQ(dropped("bad_source"), 0U) << host;
		EXPECT_EQ(dropped(reason), 1U);
	}
	close(raw);
}

/* quic_test.py tests real clients. */
TEST_F(Udp, WithoutAHelloDatagramsGoToTheDefaultOrAreCounted)
{
	udp_peer backend, client;
	const std::string sni = "hello_timeout = '50ms'\nsni = { 'a.example' = 'g' }\n";
	if (!relay::has_quic_crypto())
		GTEST_SKIP() << "this build is without OpenSSL";
	start("admin = '127.0.0.1:0'\n[listeners.dns]\naddress = 'udp:127.0.0.1:0'\n" + sni +
	      "[listeners.all]\naddress = 'udp:127.0.0.1:0'\ngroup = 'g'\n" + sni +
	      "[groups.g]\nbackends = ['" + backend.address() + "']\n");
	client.send(at_, "not QUIC");
	EXPECT_TRUE(eventually([&] { return dropped("bad_hello") == 1; }));
	const auto other = "\xc0\x1a\x2a\x3a\x4a\x03"
			   "abc\x02yz" +
			   std::string(1200, 'x');
	client.send(at_, other);
	const auto answer = client.receive();
	EXPECT_EQ("udp:" + answer.from, at_);
	EXPECT_EQ(answer.bytes, "\xc0\0\0\0\0\x02yz\x03"
				"abc\0\0\0\x01"s);
	EXPECT_TRUE(eventually([&] { return dropped("bad_hello") == 2; }));
	client.send(at_, other.substr(0, 1000)); /* too short for an answer */
	EXPECT_TRUE(eventually([&] { return dropped("bad_hello") == 3; }));
	/* An Initial packet that cannot be decrypted. */
	client.send(at_, "\xc0\0\0\0\x01\x03"
			 "abc\0\0\x40\x80"s +
				 std::string(128, 'x'));
	EXPECT_TRUE(eventually([&] { return dropped("bad_hello") == 4; }));
	EXPECT_EQ(relay_->metric("connections_accepted_total{listener=\"dns\"}"), 0U);
	client.send(relay_->address(1), "not QUIC");
	EXPECT_EQ(backend.receive().bytes, "not QUIC");
	EXPECT_FALSE(client.receive_within(0ms));
}

/* A 0-RTT packet of the connection of quic_examples.hpp. */
std::string zero_rtt(unsigned char number)
{
	return "\xd0\0\0\0\x01\x08"s + quic_examples::from_hex("8394c8f03e515708") + "\0\x20"s +
	       std::string(32, static_cast<char>(number));
}

class QuicByName : public Udp
{
protected:
	void SetUp() override
	{
		if (!relay::has_quic_crypto())
			GTEST_SKIP() << "this build is without OpenSSL";
		start("admin = '127.0.0.1:0'\n[listeners.dns]\naddress = 'udp:127.0.0.1:0'\n"
		      "group = 'others'\nsni = { 'example.com' = 'named' }\n"
		      "[groups.others]\nbackends = ['" +
		      other.address() + "']\n[groups.named]\nbackends = ['" + named.address() +
		      "']\n");
	}

	udp_peer other, named, client;
};

/* A session in the default group would take the Initial, too. */
TEST_F(QuicByName, ZeroRttThatOvertakesTheHelloIsDropped)
{
	client.send(at_, zero_rtt(0));
	EXPECT_TRUE(eventually([&] { return dropped("bad_hello") == 1; }));
	const auto hello = quic_examples::from_hex(quic_examples::packet_1);
	client.send(at_, hello);
	EXPECT_TRUE(named.receive().bytes == hello);
	client.send(at_, zero_rtt(1));
	EXPECT_TRUE(named.receive().bytes == zero_rtt(1));
	EXPECT_FALSE(other.receive_within(0ms));
	EXPECT_EQ(open(), 1U);
}

/* A datagram of the hello is lost, and others come in the meantime. What is sent again finds the
 * client where it was. */
TEST_F(QuicByName, ManyDatagramsDoNotEndAHello)
{
	std::vector<std::string> kept = {quic_examples::from_hex(quic_examples::first_half)};
	client.send(at_, kept.front());
	for (unsigned char i = 0; i < 20; i++) {
		client.send(at_, zero_rtt(i));
		if (kept.size() < 16)
			kept.push_back(zero_rtt(i));
	}
	EXPECT_TRUE(eventually([&] { return dropped("bad_hello") == 5; }));
	kept.push_back(quic_examples::from_hex(quic_examples::second_half));
	client.send(at_, kept.back());
	for (const auto &each : kept)
		EXPECT_TRUE(named.receive().bytes == each);
	EXPECT_FALSE(named.receive_within(0ms));
	EXPECT_FALSE(other.receive_within(0ms));
	EXPECT_EQ(open(), 1U);
}

/* No version negotiation is sent either. */
TEST_F(Udp, ADeniedClientGetsNoAnswer)
{
	if (!relay::has_quic_crypto())
		GTEST_SKIP() << "this build is without OpenSSL";
	udp_peer backend, denied, allowed("127.0.0.2:0");
	start("admin = '127.0.0.1:0'\n[listeners.dns]\naddress = 'udp:127.0.0.1:0'\n"
	      "sni = { 'a.example' = 'g' }\ndeny = ['127.0.0.1']\n[groups.g]\nbackends = ['" +
	      backend.address() + "']\n");
	const auto other = "\xc0\x1a\x2a\x3a\x4a\x03"
			   "abc\x02yz" +
			   std::string(1200, 'x');
	denied.send(at_, other);
	EXPECT_TRUE(eventually([&] { return dropped("refused_list") == 1; }));
	allowed.send(at_, other);
	EXPECT_EQ("udp:" + allowed.receive().from, at_);
	/* The datagrams of one listener are handled in order, so the denied client would have its
	 * answer by now. */
	EXPECT_FALSE(denied.receive_within(0ms));
	/* The datagram is counted after the answer has been sent. */
	EXPECT_TRUE(eventually([&] { return dropped("bad_hello") == 1; }));
}

/* The answer comes from the address to which the client has sent, in both families. */
TEST_F(Udp, AVersionIsAnsweredFromTheAddressThatWasAsked)
{
	if (!relay::has_quic_crypto())
		GTEST_SKIP() << "this build is without OpenSSL";
	udp_peer backend, client, client6("[::1]:0");
	start("admin = '127.0.0.1:0'\n[listeners.dns]\naddress = 'udp::0'\n"
	      "sni = { 'a.example' = 'g' }\n[groups.g]\nbackends = ['" +
	      backend.address() + "']\n");
	const auto port = at_.substr(at_.rfind(':'));
	/* Connection ids of the greatest length. */
	const std::string name(255, 'n');
	const auto other =
		"\xc0\x1a\x2a\x3a\x4a\xff" + name + '\xff' + name + std::string(1200 - 517, 'x');
	for (const auto &[from, host] :
	     {std::pair(&client, "127.0.0.7"s), std::pair(&client6, "[::1]"s)}) {
		from->send(host + port, other);
		const auto answer = from->receive();
		EXPECT_EQ(answer.from, host + port);
		EXPECT_EQ(answer.bytes.size(), 7 + 2 * name.size() + 4);
		EXPECT_LT(answer.bytes.size(), other.size() / 2);
	}
}

/* Datagrams of new clients are dropped, which an event reports once; existing sessions are
 * served. */
TEST(UdpShortage, NewClientsAreDroppedUntilThereIsRoom)
{
	udp_peer backend;
	const file settings(config(quoted(backend.address()), "idle_timeout = '1s'\n"));
	relay_process relay({"--config", settings.name()}, 64);
	const auto at = relay.address();
	udp_peer first;
	first.send(at, "q");
	backend.send(backend.receive().from, "a");
	EXPECT_EQ(first.receive().bytes, "a");
	const auto dropped = [&] {
		return relay.metric("datagrams_dropped_total{listener=\"dns\",reason=\"no_room\"}");
	};
	std::vector<std::unique_ptr<udp_peer>> crowd;
	for (int i = 0; i < 100; i++) {
		crowd.push_back(std::make_unique<udp_peer>());
		crowd.back()->send(at, "q");
	}
	EXPECT_TRUE(eventually([&] {
		return dropped() + relay.metric("connections_accepted_total{listener=\"dns\"}") ==
		       101;
	}));
	EXPECT_GT(dropped(), 10U);
	relay.await_error("error no_room");
	/* There is room again when the other sessions are over. */
	EXPECT_TRUE(eventually([&] {
		udp_peer next;
		next.send(at, "later");
		for (;;) {
			const auto arrived = backend.receive_within(100ms);
			if (!arrived)
				return false;
			if (arrived->bytes == "later")
				return true;
		}
	}));
	const auto end = relay.stop();
	EXPECT_EQ(end.status, 0) << end.errors;
	EXPECT_EQ(count_of("error no_room", end.errors), 1U) << end.errors;
}

} // namespace
