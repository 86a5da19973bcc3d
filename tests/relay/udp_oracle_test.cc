/* SPDX-License-Identifier: MIT */
/* Labels: long */
/*
 * What many clients get over UDP, as seen from outside: every datagram that arrives at a backend or
 * a client was sent to it, and arrives whole, once, in its session and from the right address. All
 * others are counted as dropped, by the relay or by a socket of this test, so the sums are exact.
 */
#include "datagrams.hpp"
#include "harness.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

using namespace harness;

namespace
{

/* "client sequence ", followed by bytes that depend on both. */
std::string make(std::size_t client, std::size_t sequence, std::mt19937_64 &random)
{
	/* Mostly small sizes; some need several packets. */
	const auto kind = random() % 16;
	std::size_t size = 20 + random() % 1200;
	if (kind == 0)
		size = 20 + random() % 65000;
	std::string text = std::to_string(client) + ' ' + std::to_string(sequence) + ' ';
	std::mt19937_64 bytes(std::uint64_t{client} << 32 | sequence);
	text += random_bytes(bytes, size);
	return text;
}

/* Whether the text is what make() returned for its client and sequence. */
bool is_whole(const std::string &text, std::size_t &client, std::size_t &sequence)
{
	int used = 0;
	if (std::sscanf(text.c_str(), "%zu %zu %n", &client, &sequence, &used) != 2)
		return false;
	std::mt19937_64 bytes(std::uint64_t{client} << 32 | sequence);
	const auto start = std::to_string(client) + ' ' + std::to_string(sequence) + ' ';
	return text.starts_with(start) &&
	       text.substr(start.size()) == random_bytes(bytes, text.size() - start.size());
}

/* Sends every datagram back, and checks it. */
class echo
{
public:
	explicit echo(std::map<std::pair<std::size_t, std::size_t>, std::string> &sent)
	    : sent_(sent)
	{
	}

	void run(const std::atomic<bool> &over)
	{
		while (!over.load()) {
			const auto one = socket.receive_within(20ms);
			if (!one)
				continue;
			std::size_t client = 0, sequence = 0;
			received++;
			if (!is_whole(one->bytes, client, sequence)) {
				wrong++;
				continue;
			}
			if (!seen_.emplace(client, sequence).second)
				repeated++;
			/* A session belongs to one client. */
			const auto [at, is_new] = sessions_.emplace(one->from, client);
			if (!is_new && at->second != client)
				mixed++;
			const auto found = sent_.find({client, sequence});
			if (found == sent_.end() || found->second != one->bytes)
				wrong++;
			socket.send(one->from, one->bytes);
			answered++;
		}
	}

	udp_peer socket;
	std::uint64_t received = 0, answered = 0, wrong = 0, repeated = 0, mixed = 0;

private:
	std::map<std::pair<std::size_t, std::size_t>, std::string> &sent_;
	std::set<std::pair<std::size_t, std::size_t>> seen_;
	std::map<std::string, std::size_t> sessions_;
};

/* How many datagrams the relay has passed on, to "backend" or "client". */
std::uint64_t to(relay_process &relay, const std::string &whom)
{
	return relay.metric("datagrams_total{listener=\"a\",to=\"" + whom + "\"}");
}

/* How many datagrams the relay has dropped, for any reason. */
std::uint64_t dropped(relay_process &relay)
{
	std::uint64_t total = 0;
	for (const char *reason :
	     {"refused_list", "refused_rate", "refused_limit", "no_backend", "no_room", "stopping",
	      "bad_source", "bad_hello", "no_route", "bandwidth", "too_large", "backend_failed",
	      "not_sent", "receive_buffer"})
		total += relay.metric("datagrams_dropped_total{listener=\"a\",reason=\"" +
				      std::string(reason) + "\"}");
	return total;
}

class UdpOracle : public testing::TestWithParam<const char *>
{
};

TEST_P(UdpOracle, EveryDatagramIsAccountedFor)
{
	SCOPED_TRACE("seed " + std::to_string(seed()));
	std::mt19937_64 random(seed());
	const std::size_t clients = 40;
	const std::size_t each = std::max<std::size_t>(scaled(100), 10);
	/* Made in advance, so that the backends only read the map. */
	std::map<std::pair<std::size_t, std::size_t>, std::string> sent;
	for (std::size_t c = 0; c < clients; c++)
		for (std::size_t i = 0; i < each; i++)
			sent[{c, i}] = make(c, i, random);

	/* Longer than a backend may need for all datagrams that come together, because an answer
	 * after the end of its session has no receiver. Sanitizers and emulators are slow. */
	const std::string idle = each < 100 ? "10s" : "2s";
	echo one(sent), two(sent);
	configured_relay relay(
		"admin = '127.0.0.1:0'\n[listeners.a]\naddress = 'udp::0'\ngroup = 'g'\n"
		"idle_timeout = '" +
		idle + "'\n" + std::string(GetParam()) +
		"[groups.g]\nbalance = 'two-choices'\nbackends = ['" + one.socket.address() +
		"', '" + two.socket.address() + "']\n");
	const auto port = relay.address().substr(relay.address().rfind(':'));

	std::atomic<bool> over{false};
	std::vector<std::unique_ptr<udp_peer>> sockets;
	std::vector<std::string> asked;
	for (std::size_t c = 0; c < clients; c++) {
		sockets.push_back(
			std::make_unique<udp_peer>(c % 4 == 3 ? "[::1]:0" : "127.0.0.1:0"));
		asked.push_back((c % 4 == 3 ? "[::1]" : "127.0.0." + std::to_string(1 + c % 4)) +
				port);
	}
	std::uint64_t delivered = 0, wrong = 0, repeated = 0, misplaced = 0;
	std::set<std::pair<std::size_t, std::size_t>> seen;
	const auto take = [&](std::size_t c, std::chrono::milliseconds wait) {
		const auto answer = sockets[c]->receive_within(wait);
		if (!answer)
			return false;
		std::size_t client = 0, sequence = 0;
		delivered++;
		if (!is_whole(answer->bytes, client, sequence) || client != c ||
		    sent.at({client, sequence}) != answer->bytes)
			wrong++;
		else if (!seen.emplace(client, sequence).second)
			repeated++;
		if (answer->from != asked[c])
			misplaced++;
		return true;
	};
	{
		std::jthread first([&] { one.run(over); });
		std::jthread second([&] { two.run(over); });
		for (std::size_t i = 0; i < each; i++)
			for (std::size_t c = 0; c < clients; c++) {
				sockets[c]->send(asked[c], sent.at({c, i}));
				while (take(c, 0ms))
					continue;
			}
		const auto take_all = [&] {
			for (std::size_t c = 0; c < clients; c++)
				while (take(c, 0ms))
					continue;
		};
		/* The number of active sessions is also 0 before the first datagram. */
		EXPECT_TRUE(eventually([&] {
			take_all();
			return to(relay, "backend") + dropped(relay) >= sent.size();
		}));
		/* The datagrams that the system has dropped at a session's socket are counted when
		 * the session ends. */
		EXPECT_TRUE(eventually([&] {
			take_all();
			return relay.counter("active") == 0;
		}));
		take_all();
		over.store(true);
	}

	const auto to_backend = to(relay, "backend");
	const auto to_client = to(relay, "client");
	std::uint64_t lost_by_clients = 0;
	for (const auto &socket : sockets)
		lost_by_clients += socket->dropped();
	for (const auto *backend : {&one, &two}) {
		EXPECT_EQ(backend->wrong, 0U);
		EXPECT_EQ(backend->repeated, 0U);
		EXPECT_EQ(backend->mixed, 0U);
	}
	EXPECT_EQ(wrong, 0U);
	EXPECT_EQ(repeated, 0U);
	EXPECT_EQ(misplaced, 0U);
	EXPECT_EQ(to_backend,
		  one.received + two.received + one.socket.dropped() + two.socket.dropped());
	EXPECT_EQ(to_client, delivered + lost_by_clients);
	EXPECT_EQ(sent.size() + one.answered + two.answered,
		  to_backend + to_client + dropped(relay));
	EXPECT_GT(delivered, 0U);
	std::printf("%zu sent, %llu answered, %llu delivered, %llu dropped\n", sent.size(),
		    static_cast<unsigned long long>(one.answered + two.answered),
		    static_cast<unsigned long long>(delivered),
		    static_cast<unsigned long long>(dropped(relay)));
	EXPECT_EQ(relay.stop().status, 0);
}

constexpr const char *limits[] = {
	"",
	"max_connections = 20\n",
	"bandwidth = { to_backend = '1MiB', to_client = '1MiB', burst = '64KiB' }\n",
};

std::string name_of(const testing::TestParamInfo<const char *> &limit)
{
	constexpr const char *names[] = {"Plain", "Limited", "Slow"};
	return names[limit.index];
}

INSTANTIATE_TEST_SUITE_P(All, UdpOracle, testing::ValuesIn(limits), name_of);

} // namespace
