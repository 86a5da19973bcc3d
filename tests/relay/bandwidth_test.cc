/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * Bandwidth limits: they are never exceeded, used fully by a connection that always has more to
 * send, shared fairly, waited for without using the CPU, and changed by a reload.
 *
 * Lower bounds on times hold on any machine. Upper bounds only catch hangs.
 */
#include "backends/bandwidth.hpp"
#include "base/size.hpp"
#include "config_case.hpp"
#include "datagrams.hpp"
#include "harness.hpp"

#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <list>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <sys/ioctl.h>
#include <thread>

using namespace harness;

namespace
{

constexpr std::int64_t second = 1'000'000'000;

std::string text(const std::string &of_listener, const std::string &backend,
		 const std::string &of_backend = "")
{
	return "drain = 0\naccess_log = \"stderr\"\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n" +
	       of_listener + "[groups.g]\nbackends = [{ address = \"" + backend + "\"" +
	       of_backend + " }]\n";
}

std::chrono::duration<double> since(std::chrono::steady_clock::time_point began)
{
	return std::chrono::steady_clock::now() - began;
}

/* Sends `size` bytes through the relay, and checks that they arrive. Returns how long that took. */
std::chrono::duration<double> pass(peer &from, peer &to, std::size_t size)
{
	std::mt19937_64 random(seed());
	const std::string bytes = random_bytes(random, size);
	const auto began = std::chrono::steady_clock::now();
	std::thread sender([&] { from.send(bytes); });
	const bool same = to.receive(size) == bytes;
	const auto took = since(began);
	sender.join();
	EXPECT_TRUE(same);
	return took;
}

TEST(Size, IsWrittenWithAUnit)
{
	using relay::parse_size;
	EXPECT_EQ(parse_size("0"), 0U);
	EXPECT_EQ(parse_size("65536"), 65536U);
	EXPECT_EQ(parse_size("12B"), 12U);
	EXPECT_EQ(parse_size("3kB"), 3000U);
	EXPECT_EQ(parse_size("3KiB"), 3072U);
	EXPECT_EQ(parse_size("10MiB"), 10U << 20);
	EXPECT_EQ(parse_size("10MB"), 10'000'000U);
	EXPECT_EQ(parse_size("2GB"), 2'000'000'000U);
	EXPECT_EQ(parse_size("1TiB"), std::uint64_t{1} << 40);
	EXPECT_EQ(parse_size("9223372036854775807"), std::uint64_t{INT64_MAX});
	EXPECT_EQ(parse_size("8388607TiB"), std::uint64_t{8388607} << 40);
	for (const char *wrong :
	     {"", "B", "KiB", "-1", "+1", " 1", "1 ", "1 KiB", "1.5MiB", "1kib", "1KB", "1K", "1Mi",
	      "1MiB/s", "0x10", "1e3", "9223372036854775808", "8388608TiB", "99999999999999999999"})
		EXPECT_EQ(parse_size(wrong), std::nullopt) << wrong;
}

/* A random text that is accepted has a value that is a multiple of its digits, and reads back as
 * itself. This is a short form of fuzzing. */
TEST(Size, OfRandomTexts)
{
	std::mt19937_64 random(seed());
	SCOPED_TRACE(seed());
	const std::string_view letters = "0123456789BkKMGTi .-/";
	for (int i = 0; i < 200'000; i++) {
		std::string written;
		for (auto n = random() % 9; n > 0; n--)
			written += letters[random() % letters.size()];
		const auto read = relay::parse_size(written);
		if (!read)
			continue;
		EXPECT_LE(*read, std::uint64_t{INT64_MAX}) << written;
		const auto digits = written.find_first_not_of("0123456789");
		const std::uint64_t number = std::stoull(written.substr(0, digits));
		EXPECT_TRUE(number == 0 ? *read == 0 : *read % number == 0) << written;
		EXPECT_EQ(relay::parse_size(std::to_string(*read)), read) << written;
	}
}

/*
 * Greedy takers, pauses and bytes that are given back, at every rate. The bytes that have moved at
 * any time are at most the burst plus the rate times the time, and a taker that always wants more
 * gets all of that.
 */
TEST(Bucket, IsExact)
{
	std::mt19937_64 random(seed());
	SCOPED_TRACE(seed());
	for (const std::uint64_t rate :
	     {std::uint64_t{1} << 10, std::uint64_t{1000003}, std::uint64_t{1} << 30,
	      (std::uint64_t{1} << 33) - 1, std::uint64_t{1} << 33, std::uint64_t{1} << 40}) {
		const std::uint64_t burst = std::max<std::uint64_t>(1024, rate / 7);
		relay::bucket of;
		std::int64_t now = 123456789;
		const std::int64_t began = now;
		of.set(rate, burst, now);
		EXPECT_EQ(of.most(), std::clamp<std::uint64_t>(rate / 50, 1024, 262144));
		std::uint64_t moved = 0;
		const auto worth = [&](std::int64_t time) {
			return static_cast<double>(time - began) * 1e-9 * static_cast<double>(rate);
		};
		for (int i = 0; i < 20'000; i++) {
			const std::uint64_t bytes = 1 + random() % of.most();
			const auto place = of.take(bytes, now);
			if (random() % 10 == 0) {
				of.give_back(bytes);
				continue;
			}
			now = std::max(now, of.when(place));
			moved += bytes;
			EXPECT_LE(static_cast<double>(moved),
				  static_cast<double>(burst) + worth(now) + 1);
			if (random() % 1000 == 0)
				now += static_cast<std::int64_t>(random() % second) / 5;
		}
		/* From the moment when nothing is left, the taker is always greedy: it gets all of
		 * the rate. */
		now = std::max(now, of.when(of.take(burst, now)));
		const std::int64_t from = now;
		std::uint64_t more = 0;
		while (more < rate && more < (std::uint64_t{1} << 31)) {
			more += of.most();
			now = std::max(now, of.when(of.take(of.most(), now)));
		}
		const double due = static_cast<double>(more) / static_cast<double>(rate);
		EXPECT_NEAR(static_cast<double>(now - from) * 1e-9, due, due * 1e-3 + 2e-6) << rate;
	}
}

/* Connections that always want more, each of which waits for its next chunk, and more datagrams
 * than may pass. All of these together get what one connection gets. */
TEST(Bucket, DatagramsGetTheShareOfAConnection)
{
	constexpr std::uint64_t rate = 1 << 20, burst = 64 << 10;
	for (const std::uint64_t size : {50U, 1400U, 65507U})
		for (const std::size_t takers : {1U, 2U, 20U}) {
			SCOPED_TRACE(std::to_string(size) + " bytes, " + std::to_string(takers));
			relay::bucket of;
			std::int64_t now = 5;
			of.set(rate, burst, now);
			std::vector<std::uint64_t> places(takers), moved(takers);
			for (auto &each : places)
				each = of.take(of.most(), now);
			std::uint64_t passed = 0, all = 0;
			const std::int64_t began = now, end = now + 20 * second;
			for (; now < end; now += second / 1000) {
				for (std::size_t i = 0; i < takers; i++)
					while (of.when(places[i]) <= now) {
						moved[i] += of.most();
						all += of.most();
						places[i] = of.take(of.most(), now);
					}
				for (std::uint64_t tried = 0; tried < 4096; tried += size)
					if (of.take_at_once(size, now)) {
						passed += size;
						all += size;
					}
				ASSERT_LE(all,
					  burst + static_cast<double>(now - began) * 1e-9 * rate);
			}
			const double share = 20.0 * rate / static_cast<double>(takers + 1);
			EXPECT_NEAR(static_cast<double>(passed), share, share / 20 + 65507);
			for (const auto each : moved)
				EXPECT_NEAR(static_cast<double>(each), share, share / 20 + 65507);
		}
}

/* Connections get all the bandwidth when no datagrams come. */
TEST(Bucket, DatagramsThatDoNotComeTakeNothing)
{
	constexpr std::uint64_t rate = 1 << 20;
	relay::bucket of;
	std::int64_t now = 5;
	of.set(rate, 1024, now);
	auto place = of.take(1024 + of.most(), now);
	EXPECT_FALSE(of.take_at_once(100, now));
	EXPECT_FALSE(of.take_at_once(2000, now)) << "larger than the burst";
	now = of.when(place);
	place = of.take(of.most(), now); /* after the chunk of the datagrams */
	EXPECT_FALSE(of.take_at_once(100, now));
	now = of.when(place);
	EXPECT_TRUE(of.take_at_once(100, now));
	const std::int64_t began = now;
	std::uint64_t moved = 0;
	for (; moved < rate; moved += of.most())
		now = of.when(of.take(of.most(), now));
	EXPECT_NEAR(static_cast<double>(now - began), second, second / 20);
	EXPECT_TRUE(of.take_at_once(100, now)) << "what was saved stays";
	/* Without connections the burst is all there is. */
	now += second;
	EXPECT_TRUE(of.take_at_once(1024, now));
	EXPECT_FALSE(of.take_at_once(30 << 10, now));
	while (of.take_at_once(1024, now))
		;
	now += second / 1000;
	EXPECT_TRUE(of.take_at_once(1024, now));
	EXPECT_FALSE(of.take_at_once(1024, now));
}

/* What datagrams have saved is no reason to exceed a burst that is smaller now. */
TEST(Bucket, DatagramsKeepNoMoreThanANewBurst)
{
	relay::bucket of;
	std::int64_t now = 5;
	of.set(1 << 20, 64 << 10, now);
	auto place = of.take((64 << 10) + of.most(), now);
	for (int i = 0; i < 5; i++) { /* saves two chunks of some 20 KiB */
		EXPECT_FALSE(of.take_at_once(60'000, now));
		now = of.when(place);
		place = of.take(of.most(), now);
	}
	of.set(1 << 20, 1024, now);
	EXPECT_FALSE(of.take_at_once(30'000, now));
	EXPECT_TRUE(of.take_at_once(1024, now));
}

TEST(Bucket, CanChangeWhileATakerWaits)
{
	relay::bucket of;
	EXPECT_EQ(of.most(), 0U);
	of.set(1024, 1024, 0);
	EXPECT_LE(of.when(of.take(1024, 0)), 0);
	const auto place = of.take(10 * 1024, 0);
	EXPECT_EQ(of.when(place), 10 * second);
	of.set(1024, 1024, second); /* the same limit */
	EXPECT_EQ(of.when(place), 10 * second);
	of.set(2048, 1024, 2 * second); /* 2 of 10 KiB are paid for */
	EXPECT_EQ(of.when(place), 6 * second);
	of.set(0, 0, 3 * second);
	EXPECT_EQ(of.when(place), INT64_MIN);
	EXPECT_EQ(of.most(), 0U);
	of.set(1024, 2048, 4 * second); /* a new limit, and a full bucket */
	EXPECT_EQ(of.when(place), INT64_MIN);
	EXPECT_LE(of.when(of.take(2048, 4 * second)), 4 * second);
	EXPECT_EQ(of.when(of.take(512, 4 * second)), 4 * second + second / 2);
	/* A pause of a year earns one burst. */
	const std::int64_t later = 365 * 24 * 3600 * second;
	EXPECT_LE(of.when(of.take(2048, later)), later);
	EXPECT_EQ(of.when(of.take(1024, later)), later + second);
}

/* In both directions at the same time, each with a limit of its own; spliced and in userspace. */
TEST(Bandwidth, IsKeptInEachDirection)
{
	for (const bool spliced : {true, false}) {
		listener door;
		const file config(text("bandwidth = { to_backend = '1MiB', to_client = '512KiB', "
				       "burst = '64KiB' }\n",
				       door.address()));
		if (!spliced)
			setenv("SENNIT_PIPES", "0", 1);
		relay_process relay({"--config", config.name()});
		unsetenv("SENNIT_PIPES");
		{
			pair at(relay, door);
			std::chrono::duration<double> up{};
			std::thread other([&] { up = pass(at.client, at.backend, 512 << 10); });
			const auto down = pass(at.backend, at.client, 256 << 10);
			other.join();
			EXPECT_GE(up.count(), 448.0 / 1024);
			EXPECT_GE(down.count(), 192.0 / 512);
		}
		/* How often the connection is throttled depends on how long the machine stalls the
		 * relay. */
		EXPECT_GT(relay.counter("throttled"), 0U);
		EXPECT_GT(relay.metric("throttled_total{listener=\"web\"}"), 0U);
		EXPECT_EQ(relay.metric("backend_throttled_total{group=\"g\",backend=\"" +
				       door.address() + "\"}"),
			  0U);
		EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
		EXPECT_EQ(relay.metric("path_bytes_total{listener=\"web\",to=\"client\",path=\""
				       "splice\"}") > 0,
			  spliced);
		stop(relay);
	}
}

TEST(Bandwidth, LimitsOfABackendAndOfAConnection)
{
	listener door;
	configured_relay relay(
		text("bandwidth_per_connection = { to_backend = '256KiB', burst = 1024 }\n",
		     door.address(), ", bandwidth = { to_client = '256kB', burst = '1KiB' }"));
	pair one(relay, door);
	pair two(relay, door);
	const auto began = std::chrono::steady_clock::now();
	/* The limit of connections: each connection has its own. */
	std::thread other(
		[&] { EXPECT_GE(pass(one.client, one.backend, 64 << 10).count(), 63.0 / 256); });
	EXPECT_GE(pass(two.client, two.backend, 64 << 10).count(), 63.0 / 256);
	other.join();
	const std::string of_backend =
		"backend_throttled_total{group=\"g\",backend=\"" + door.address() + "\"}";
	EXPECT_EQ(relay.metric(of_backend), 0U);
	EXPECT_GT(relay.metric("throttled_total{listener=\"web\"}"), 0U);
	/* The limit of the backend: both connections share it. */
	other = std::thread([&] { pass(one.backend, one.client, 64'000); });
	pass(two.backend, two.client, 64'000);
	other.join();
	EXPECT_GE(since(began).count(), 63.0 / 256 + 127.0 / 256);
	EXPECT_GT(relay.metric(of_backend), 0U);
	one.client.close();
	two.client.close();
	one.backend.close();
	two.backend.close();
	stop(relay);
}

/* A connection that always has more to send leaves datagrams a share. */
TEST(Bandwidth, OfABackendIsSharedByDatagrams)
{
	std::optional<listener> door;
	std::optional<udp_peer> backend;
	for (int tries = 0; !backend; tries++)
		try { /* another program may have the port for UDP */
			door.emplace();
			backend.emplace(door->address());
		} catch (const std::runtime_error &) {
			ASSERT_LT(tries, 10);
		}
	configured_relay relay(text("[listeners.u]\naddress = \"udp:127.0.0.1:0\"\ngroup = \"g\"\n",
				    door->address(),
				    ", bandwidth = { to_backend = '256KiB', burst = '4KiB' }"));
	pair at(relay, *door);
	/* A reset ends both immediately, because what is in the buffers would take many seconds. */
	std::jthread sender([&] {
		try {
			for (;;)
				at.client.send(std::string(16 << 10, 'x'));
		} catch (const std::runtime_error &) {
			/* It was reset. */
		}
	});
	std::jthread receiver([&](const std::stop_token &is_enough) {
		try {
			while (!is_enough.stop_requested())
				at.backend.receive(1024);
		} catch (const std::runtime_error &) {
			ADD_FAILURE() << "the relay passes nothing on";
		}
		at.backend.reset();
	});
	EXPECT_TRUE(eventually([&] {
		return relay.metric("backend_throttled_total{group=\"g\",backend=\"" +
				    door->address() + "\"}") > 0;
	}));
	udp_peer client;
	int arrived = 0;
	EXPECT_TRUE(eventually([&] {
		client.send(relay.address(1), std::string(1024, 'y'));
		while (backend->receive_within(0ms))
			arrived++;
		return arrived >= 100;
	})) << arrived;
	receiver.request_stop();
	receiver.join();
	sender.join();
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Bandwidth, LimitsOfEachSource)
{
	constexpr std::size_t burst = 64 << 10;
	listener door;
	configured_relay relay(
		text("bandwidth_per_source = { to_backend = '4KiB', burst = '64KiB' }\n",
		     door.address()));
	const std::string known = "bandwidth_sources{listener=\"web\"}";
	const auto began = std::chrono::steady_clock::now();
	{
		pair first(relay, door);
		pass(first.client, first.backend, burst);
		first.client.close();
		first.backend.close();
	}
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	/* The next connection of the source has no burst of its own. */
	pair next(relay, door);
	pass(next.client, next.backend, 8 << 10);
	EXPECT_GE(since(began).count(), 7.0 / 4);
	const auto waits = relay.counter("throttled");
	EXPECT_GT(waits, 0U);
	EXPECT_GT(relay.metric("throttled_total{listener=\"web\"}"), 0U);
	/* Another source has one. */
	auto elsewhere = peer::connect(relay.address(), "127.0.0.2");
	auto backend = door.accept();
	pass(elsewhere, backend, burst / 2);
	EXPECT_EQ(relay.counter("throttled"), waits) << "two sources share a limit";
	EXPECT_EQ(relay.metric(known), 2U);

	/* A reload changes the limit of connections that are open. */
	EXPECT_TRUE(relay.reload(text("bandwidth_per_source = '10MiB'\n", door.address())));
	pass(elsewhere, backend, 8 << 20); /* half an hour at the old limit */
	EXPECT_TRUE(relay.reload(text("", door.address())));
	pass(elsewhere, backend, 8 << 20);
	elsewhere.close();
	backend.close();
	next.client.close();
	next.backend.close();
	EXPECT_TRUE(eventually([&] { return relay.metric(known) == 0; }))
		<< "a source without a limit stays in the table";
	stop(relay);
}

/* The backend is silent until the limit is gone, so nothing has asked for it before. */
TEST(Bandwidth, LimitsOfEachSourceEndForThoseWhoHaveMovedNothing)
{
	listener door;
	configured_relay relay(text(
		"bandwidth_per_source = { to_client = '4KiB', burst = '8KiB' }\n", door.address()));
	pair one(relay, door);
	pass(one.client, one.backend, 1); /* the session has its backend */
	EXPECT_TRUE(relay.reload(text("", door.address())));
	pass(one.backend, one.client, 256 << 10); /* a minute at the old limit */
	EXPECT_EQ(relay.counter("throttled"), 0U);
	one.client.close();
	one.backend.close();
	stop(relay);
}

/* The source of a connection is known only after the reload, and all connections of the source
 * share its buckets. */
TEST(Bandwidth, LimitsOfEachSourceStayNewWithALateHeader)
{
	const std::string header = "PROXY TCP4 10.1.1.1 10.2.2.2 1000 80\r\n";
	const std::string behind = "proxy_from = ['127.0.0.1']\n";
	const std::string old = "bandwidth_per_source = { to_client = '4KiB', burst = '8KiB' }\n";
	for (const std::string now : {"bandwidth_per_source = '100MiB'\n", ""}) {
		listener door;
		configured_relay relay(text(behind + old, door.address()));
		auto first = peer::sending(header, relay.address());
		auto backend = door.accept();
		auto late = peer::connect(relay.address());
		EXPECT_TRUE(eventually([&] { return relay.counter("active") == 2; }));
		EXPECT_TRUE(relay.reload(text(behind + now, door.address())));
		late.send(header);
		auto other = door.accept();
		/* A minute each at the old limit. */
		EXPECT_LT(pass(other, late, 256 << 10), patience);
		EXPECT_LT(pass(backend, first, 256 << 10), patience);
		for (peer *each : {&first, &backend, &late, &other})
			each->close();
		stop(relay);
	}
}

/* Nobody comes or goes at this listener any more. */
TEST(Bandwidth, SourcesAreForgottenOnceTheyAreFull)
{
	listener door;
	configured_relay relay(
		text("bandwidth_per_source = { to_client = '64KiB', burst = '64KiB' }\n",
		     door.address()));
	const std::string known = "bandwidth_sources{listener=\"web\"}";
	{
		pair one(relay, door);
		pass(one.backend, one.client, 64 << 10);
	}
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_TRUE(eventually([&] { return relay.metric(known) == 0; }));
	stop(relay);
}

int waiting_at(const peer &of)
{
	int n = 0;
	ioctl(of.fd(), FIONREAD, &n);
	return n;
}

/* Connections that always have more to send get about the same rate. */
TEST(Bandwidth, IsSharedFairly)
{
	constexpr std::size_t each = 256 << 10;
	listener door;
	configured_relay relay(
		text("bandwidth = { to_client = '512KiB', burst = '8KiB' }\n", door.address()));
	std::list<pair> all;
	for (int i = 0; i < 4; i++)
		all.emplace_back(relay, door);
	const std::string bytes(each, 'x');
	for (auto &one : all)
		one.backend.send(bytes);
	const std::string moved = "bytes_total{listener=\"web\",to=\"client\"}";
	EXPECT_TRUE(eventually([&] { return relay.metric(moved) >= 2 * each; }));
	int least = std::numeric_limits<int>::max();
	int most = 0;
	for (const auto &one : all) {
		const int n = waiting_at(one.client);
		least = std::min(least, n);
		most = std::max(most, n);
	}
	EXPECT_GE(2 * least, most);
	all.clear();
	stop(relay);
}

/* Waiting for bandwidth does not count as idle, uses no processor time, and ends with the
 * connection. */
TEST(Bandwidth, IsWaitedForAsleep)
{
	listener door;
	/* Each KiB takes a second: longer than either timeout. */
	configured_relay relay(
		text("idle_timeout = '900ms'\nhalf_close_timeout = '800ms'\n"
		     "bandwidth_per_connection = { to_client = 1024, burst = 1024 }\n",
		     door.address()));
	const auto until = std::chrono::steady_clock::now() + patience;
	std::uint64_t idle = 0;
	/* Repeats if the machine stalled the relay, and this test, for about as long as these
	 * timeouts. */
	for (bool stood = true; stood && std::chrono::steady_clock::now() < until;) {
		const stops seen;
		std::list<pair> all;
		const auto used = relay.cpu_time();
		const auto began = std::chrono::steady_clock::now();
		for (int i = 0; i < 10; i++) {
			auto &one = all.emplace_back(relay, door);
			one.backend.send(std::string(3 << 10, 'x'));
			/* The half-close timeout must not end a stream that is only held back. */
			one.client.shutdown_write();
			one.backend.shutdown_write();
		}
		std::size_t cut = 0;
		for (auto &one : all)
			cut += one.client.receive_rest() !=
			       std::pair(std::string(3 << 10, 'x'), ending::fin);
		stood = cut > 0 && seen.longest() > 400ms;
		const std::chrono::duration<double> busy = relay.cpu_time() - used;
		EXPECT_LT(busy, since(began) / 2);
		EXPECT_TRUE(cut > 0 || since(began).count() >= 2);
		EXPECT_TRUE(cut == 0 || stood) << cut << " of 10";
		all.clear();
		EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
		EXPECT_EQ(relay.counter("idle_timeouts") > idle, cut > 0);
		idle = relay.counter("idle_timeouts");
	}

	pair last(relay, door);
	last.backend.send(std::string(100 << 10, 'x'));
	EXPECT_EQ(last.client.receive(1024).size(), 1024U);
	const auto began = std::chrono::steady_clock::now();
	EXPECT_EQ(relay.stop().status, 0); /* drain is 0; the bytes would take minutes */
	EXPECT_LT(since(began), patience);
}

/* A connection is counted as long as it waits, however the wait ends. */
TEST(Bandwidth, WaitingConnectionsAreCounted)
{
	for (const bool is_backends : {true, false}) {
		listener door;
		const std::string limit = "bandwidth = { to_client = 1024, burst = 1024 }";
		configured_relay relay(text(is_backends ? "" : limit + "\n", door.address(),
					    is_backends ? ", " + limit : ""));
		const auto waiting = [&](const std::string &name, const std::string &to) {
			return relay.metric(name + ",to=\"" + to + "\"}");
		};
		const std::string of_listener = "throttled_connections{listener=\"web\"";
		const std::string of_backend =
			"backend_throttled_connections{group=\"g\",backend=\"" + door.address() +
			'"';
		{
			pair one(relay, door);
			pair two(relay, door);
			for (pair *each : {&one, &two}) /* minutes */
				each->backend.send(std::string(100 << 10, 'x'));
			EXPECT_TRUE(
				eventually([&] { return waiting(of_listener, "client") == 2; }));
			EXPECT_TRUE(eventually([&] {
				return waiting(of_backend, "client") == (is_backends ? 2 : 0);
			}));
			EXPECT_EQ(waiting(of_listener, "backend"), 0U);
			EXPECT_EQ(waiting(of_backend, "backend"), 0U);
			one.client.reset();
			EXPECT_EQ(one.backend.receive_end(), ending::reset);
			two.client.reset();
		}
		EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
		EXPECT_EQ(waiting(of_listener, "client"), 0U);
		EXPECT_EQ(waiting(of_backend, "client"), 0U);
		stop(relay);
	}
}

TEST(Bandwidth, ChangesByReload)
{
	listener door;
	configured_relay relay(text("bandwidth = 1024\n", door.address()));
	pair at(relay, door);
	std::string bytes(256 << 10, 'x');
	at.backend.send(bytes);
	EXPECT_EQ(at.client.receive(1024), bytes.substr(0, 1024));
	EXPECT_TRUE(relay.reload(text("bandwidth = '10MiB'\n", door.address())));
	at.client.receive(bytes.size() - 1024); /* four minutes at the old limit */

	EXPECT_TRUE(relay.reload(text("", door.address())));
	pass(at.backend, at.client, 1 << 20);
	const auto before = relay.counter("throttled");
	pass(at.backend, at.client, 1 << 20);
	EXPECT_EQ(relay.counter("throttled"), before) << "there is no limit";

	EXPECT_TRUE(relay.reload(
		text("bandwidth_per_connection = { to_client = '64KiB', burst = '1KiB' }\n",
		     door.address())));
	EXPECT_GE(pass(at.backend, at.client, 32 << 10).count(), 31.0 / 64);
	EXPECT_FALSE(relay.reload(text("bandwidth_per_connection = 'fast'\n", door.address())));
	relay.await_error(
		"listeners.web.bandwidth_per_connection: \"fast\" is not a number of bytes");
	at.client.close();
	at.backend.close();
	stop(relay);
}

TEST(Bandwidth, NonsenseIsRefused)
{
	const auto errors = config_case::bad(
		"[listeners.a]\naddress = ':1'\ngroup = 'g'\nbandwidth = 0\n"
		"bandwidth_per_connection = -5\n"
		"[listeners.b]\naddress = ':2'\ngroup = 'g'\nbandwidth = true\n"
		"bandwidth_per_connection = { to_client = '2TiB', burst = '1B', speed = 1 }\n"
		"[listeners.c]\naddress = ':3'\ngroup = 'g'\nbandwidth = { burst = '1MiB' }\n"
		"bandwidth_per_connection = '10 MiB'\n"
		"[groups.g]\nbackends = [{ address = 'h:1', bandwidth = '10MiB/s' },"
		" { address = 'h:2', bandwidth = [] }, { address = 'h:3', bandwidth = 1.5 }]\n");
	const std::vector<std::string> starts = {
		"f:4:13: listeners.a.bandwidth: \"0\" is out of range; expected 1KiB to 1TiB, or "
		"no such",
		"f:5:28: listeners.a.bandwidth_per_connection: \"-5\" is not a number of bytes; "
		"expected",
		"f:9:13: listeners.b.bandwidth: is a boolean; expected a number of bytes, such as",
		"f:10:42: listeners.b.bandwidth_per_connection.to_client: \"2TiB\" is out of range",
		"f:10:58: listeners.b.bandwidth_per_connection.burst: \"1B\" is out of range; "
		"expected",
		"f:10:64: listeners.b.bandwidth_per_connection.speed: unknown key; expected one of",
		"f:14:13: listeners.c.bandwidth: limits nothing; expected to_backend, to_client or",
		"f:15:28: listeners.c.bandwidth_per_connection: \"10 MiB\" is not a number of "
		"bytes",
		"f:17:44: groups.g.backends[0].bandwidth: \"10MiB/s\" is not a number of bytes;",
		"f:17:88: groups.g.backends[1].bandwidth: is an array; expected a number of bytes",
		"f:17:125: groups.g.backends[2].bandwidth: is a floating-point number; expected a",
	};
	config_case::expect_starts(errors, starts);
}

} // namespace
