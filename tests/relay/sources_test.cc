/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* Client addresses, networks, limits per source and rates: the parts, without connections. */
#include "backends/source_bandwidth.hpp"
#include "backends/source_rates.hpp"
#include "backends/sources.hpp"
#include "base/ip.hpp"
#include "harness.hpp"
#include "stats/session_filter.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cstdio>
#include <gtest/gtest.h>
#include <net/if.h>
#include <random>
#include <sennit/clock.h>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace
{

using namespace std::string_literals;

relay::ip_address ip(const std::string &text)
{
	unsigned char bytes[16];
	const bool is_ipv6 = text.find(':') != text.npos;
	EXPECT_EQ(inet_pton(is_ipv6 ? AF_INET6 : AF_INET, text.c_str(), bytes), 1) << text;
	return relay::to_ip(bytes, is_ipv6);
}

bool is_in(const std::string &one, const std::string &network)
{
	const auto read = relay::ip_network::parse(network);
	if (const auto *problem = std::get_if<std::string>(&read)) {
		ADD_FAILURE() << network << ": " << *problem;
		return false;
	}
	return std::get<relay::ip_network>(read).contains(ip(one));
}

TEST(Networks, HaveWhatTheirPrefixSays)
{
	EXPECT_TRUE(is_in("10.255.0.1", "10.0.0.0/8"));
	EXPECT_FALSE(is_in("11.0.0.0", "10.0.0.0/8"));
	EXPECT_TRUE(is_in("192.168.1.127", "192.168.1.0/25"));
	EXPECT_FALSE(is_in("192.168.1.128", "192.168.1.0/25"));
	EXPECT_TRUE(is_in("1.2.3.4", "1.2.3.4"));
	EXPECT_FALSE(is_in("1.2.3.5", "1.2.3.4/32"));
	EXPECT_TRUE(is_in("255.255.255.255", "0.0.0.0/0"));
	EXPECT_TRUE(is_in("2001:db8:ffff::1", "2001:db8::/32"));
	EXPECT_FALSE(is_in("2001:db9::1", "2001:db8::/32"));
	EXPECT_TRUE(is_in("fe80::1", "fe80::/10"));
	EXPECT_TRUE(is_in("febf::1", "fe80::/10"));
	EXPECT_FALSE(is_in("fec0::1", "fe80::/10"));
	EXPECT_TRUE(is_in("::1", "::1"));
	EXPECT_FALSE(is_in("::2", "::1/128"));
}

/* Compared with a search through the whole list. The addresses differ in few bits, so that many
 * networks overlap. */
TEST(Networks, AreFoundInAList)
{
	std::minstd_rand random(20); /* the same each time */
	for (int round = 0; round < 300; round++) {
		relay::ip_networks all;
		for (auto n = random() % 12; n > 0; n--) {
			const bool is_ipv6 = random() % 3 == 0;
			const auto prefix = (is_ipv6 ? 120 : 24) + random() % 9;
			const auto kept = prefix - (is_ipv6 ? 120 : 24);
			const auto bits = random() & (0xffU << (8 - kept)) & 0xffU;
			char text[40];
			std::snprintf(text, sizeof text, is_ipv6 ? "::%x/%d" : "0.0.0.%u/%d",
				      static_cast<unsigned>(bits), static_cast<int>(prefix));
			const auto read = relay::ip_network::parse(text);
			ASSERT_TRUE(std::holds_alternative<relay::ip_network>(read)) << text;
			all.push_back(std::get<relay::ip_network>(read));
		}
		const auto plain = all;
		compact(all);
		for (unsigned i = 0; i < 256; i++) {
			char text[16];
			std::snprintf(text, sizeof text, "::%x", i);
			for (const auto &one : {ip("0.0.0." + std::to_string(i)), ip(text)})
				ASSERT_EQ(contains(all, one),
					  std::ranges::any_of(plain,
							      [&](const auto &each) {
								      return each.contains(one);
							      }))
					<< round << ' ' << i;
		}
	}
}

/* A dual-stack socket reports IPv4 addresses as mapped IPv6 addresses. */
TEST(Networks, TakeMappedAddressesForIpv4)
{
	EXPECT_EQ(ip("::ffff:10.0.0.1"), ip("10.0.0.1"));
	EXPECT_TRUE(is_in("::ffff:10.0.0.1", "10.0.0.0/8"));
	EXPECT_TRUE(is_in("10.0.0.1", "::ffff:10.0.0.0/104"));
	EXPECT_FALSE(is_in("10.0.0.1", "::/0"));
	EXPECT_FALSE(is_in("::1", "0.0.0.0/0"));
}

TEST(Networks, RefuseInvalidTexts)
{
	for (const char *text :
	     {"", "10.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/8x", "10.0.0.0/-1", "::/129",
	      "10.0.0.1/8", "fe80::1/10", "host", "[::1]", "10.0.0.1:80", "/8", "fe80::1%eth0",
	      "::ffff:10.0.0.0/8", "10.0.0.0/4294967304"})
		EXPECT_TRUE(std::holds_alternative<std::string>(relay::ip_network::parse(text)))
			<< text;
}

TEST(Addresses, AreParsed)
{
	EXPECT_EQ(relay::parse_ip("10.0.0.1"), ip("10.0.0.1"));
	EXPECT_EQ(relay::parse_ip("2001:DB8:0::1"), ip("2001:db8::1"));
	EXPECT_EQ(relay::parse_ip("::FFFF:10.0.0.1"), ip("10.0.0.1"));
	EXPECT_EQ(relay::parse_ip("0000:0000:0000:0000:0000:ffff:255.255.255.255"),
		  ip("255.255.255.255"));
	for (const std::string &text :
	     {std::string(), std::string("10.0.0"), std::string("10.0.0.1:80"),
	      std::string("[::1]"), std::string("::1%lo"), std::string("host"),
	      std::string("::1\0", 4), std::string("10.0.0.0/8"), std::string(100, ':')})
		EXPECT_FALSE(relay::parse_ip(text)) << text;
}

/* However the client's address is written. */
TEST(SessionFilter, ComparesClients)
{
	const auto fits = [](const char *wanted, const char *there) {
		relay::session_filter which;
		EXPECT_TRUE(which.name_client(wanted)) << wanted;
		return which.fits_client(there);
	};
	EXPECT_TRUE(fits("10.0.0.1", "10.0.0.1:80"));
	EXPECT_FALSE(fits("10.0.0.1", "10.0.0.2:80"));
	EXPECT_FALSE(fits("10.0.0.1", "[::1]:80"));
	EXPECT_TRUE(fits("::ffff:10.0.0.1", "10.0.0.1:80"));
	EXPECT_TRUE(fits("2001:DB8::0:1", "[2001:db8::1]:80"));
	EXPECT_TRUE(fits("[fe80::1]", "[fe80::1]:80"));
	EXPECT_FALSE(fits("fe80::1%1", "[fe80::1]:80"));
	EXPECT_TRUE(fits("unix:/run/a:b", "unix:/run/a:b"));
	EXPECT_FALSE(fits("unix:/run/a:b", "10.0.0.1:80"));
	EXPECT_TRUE(fits("unix:", "unix:"));
	EXPECT_FALSE(fits("unix:", "unix:/run/a"));
	EXPECT_FALSE(fits("unix:", "10.0.0.1:80"));
	EXPECT_FALSE(fits("10.0.0.1", ""));
	EXPECT_FALSE(fits("10.0.0.1", "unix:/run/a"));
}

/* However the interface is written. */
TEST(SessionFilter, ComparesScopesAsNumbers)
{
	const std::string lo = std::to_string(if_nametoindex("lo"));
	for (const auto &wanted : {"fe80::1%lo"s, "[fe80:0::1%lo]"s, "fe80::1%" + lo}) {
		relay::session_filter which;
		ASSERT_TRUE(which.name_client(wanted)) << wanted;
		EXPECT_TRUE(which.fits_client(ip("fe80::1"), if_nametoindex("lo")));
		EXPECT_FALSE(which.fits_client(ip("fe80::1"), 4711));
		EXPECT_FALSE(which.fits_client(ip("fe80::1"), 0));
		EXPECT_FALSE(which.fits_client(ip("fe80::2"), if_nametoindex("lo")));
	}
	relay::session_filter any;
	ASSERT_TRUE(any.name_client("fe80::1"));
	EXPECT_TRUE(any.fits_client(ip("fe80::1"), 4711));
	for (const auto &bad : {"fe80::1%"s, "fe80::1%0"s, "fe80::1%no-such"s, "fe80::1%1x"s,
				"fe80::1%4294967297"s, "fe80::1%lo]:1"s, "10.0.0.1%lo"s,
				"::ffff:10.0.0.1%lo"s, "%lo"s, "host%lo"s, "fe80::1%lo\0x"s})
		EXPECT_FALSE(relay::session_filter().name_client(bad)) << bad;
}

TEST(Sources, AreLimitedExactly)
{
	relay::sources all;
	constexpr unsigned most = 7;
	std::atomic<unsigned> in{0};
	std::atomic<bool> too_many{false};
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back([&] {
			for (int n = 0; n < 20000; n++) {
				if (!all.enter(ip("10.0.0.1"), most))
					continue;
				const relay::source_ticket held(all, ip("10.0.0.1"));
				if (in.fetch_add(1) >= most)
					too_many = true;
				in--;
			}
		});
	for (auto &each : threads)
		each.join();
	EXPECT_FALSE(too_many);
	for (unsigned i = 0; i < most; i++)
		EXPECT_TRUE(all.enter(ip("10.0.0.1"), most));
	EXPECT_FALSE(all.enter(ip("10.0.0.1"), most));
	EXPECT_TRUE(all.enter(ip("10.0.0.2"), most)) << "another source";
	all.leave(ip("10.0.0.1"));
	EXPECT_TRUE(all.enter(ip("10.0.0.1"), most));
}

TEST(Rate, LetsInABurstAndThenEvenly)
{
	relay::rate rate;
	const std::int64_t start = 1'000'000'000'000;
	constexpr std::int64_t ms = 1'000'000;
	for (int i = 0; i < 5; i++)
		EXPECT_TRUE(rate.enter(start, 10, 5));
	EXPECT_FALSE(rate.enter(start, 10, 5));
	EXPECT_FALSE(rate.enter(start + 99 * ms, 10, 5));
	EXPECT_TRUE(rate.enter(start + 100 * ms, 10, 5));
	EXPECT_FALSE(rate.enter(start + 199 * ms, 10, 5));
	EXPECT_TRUE(rate.enter(start + 200 * ms, 10, 5));
	/* A long pause earns only one burst. */
	int let_in = 0;
	while (rate.enter(start + 3'600'000 * ms, 10, 5))
		let_in++;
	EXPECT_EQ(let_in, 5);
	/* Ten seconds of attempts at ten times the rate. */
	relay::rate other;
	let_in = 0;
	for (int i = 0; i < 1000; i++)
		let_in += other.enter(start + i * 10 * ms, 10, 1) ? 1 : 0;
	EXPECT_EQ(let_in, 100);
	/* The largest values that can be configured. */
	relay::rate most;
	EXPECT_TRUE(most.enter(INT64_MAX / 2, 1'000'000'000, 1'000'000'000));
	EXPECT_TRUE(relay::rate().enter(start, 1, 1'000'000'000));
}

/* Calls it until it refuses; returns how often it did not. */
template <class Call>
int count_let_in(Call enter)
{
	int let_in = 0;
	while (enter())
		let_in++;
	return let_in;
}

/* A reload changes the limit, and the number that is kept is one of the old limit. */
TEST(Rate, TakesEffectAtOnceWhenItIsRaised)
{
	relay::rate rate;
	const std::int64_t start = 1'000'000'000'000;
	constexpr std::int64_t ms = 1'000'000;
	EXPECT_EQ(count_let_in([&] { return rate.enter(start, 1, 600); }), 600);
	/* As after a whole burst of the new limit. */
	EXPECT_FALSE(rate.enter(start, 1000, 5));
	EXPECT_TRUE(rate.enter(start + ms, 1000, 5));
	EXPECT_FALSE(rate.enter(start + ms, 1000, 5));
	EXPECT_EQ(count_let_in([&] { return rate.enter(start + 1000 * ms, 1000, 5); }), 5);
	/* A smaller burst is such a change, too. */
	EXPECT_FALSE(rate.enter(start + 1000 * ms, 1000, 2));
	EXPECT_TRUE(rate.enter(start + 1001 * ms, 1000, 2));
	/* A call whose time is older than another's takes nothing from the limit. */
	EXPECT_FALSE(rate.enter(start + 1000 * ms, 1000, 2));
	EXPECT_FALSE(rate.enter(start + 1001 * ms, 1000, 2));
}

TEST(SourceRates, TakeEffectAtOnceWhenTheyAreRaised)
{
	relay::source_rates rates;
	const std::int64_t start = 1'000'000'000'000;
	constexpr std::int64_t ms = 1'000'000;
	const auto enter = [&](const char *from, std::int64_t now, std::uint64_t per_second,
			       std::uint64_t burst) {
		return rates.enter(ip(from), now, per_second, burst);
	};
	for (const char *each : {"10.0.0.1", "2001:db8::1"})
		EXPECT_EQ(count_let_in([&] { return enter(each, start, 1, 600); }), 600);
	for (const char *each : {"10.0.0.1", "2001:db8::1"}) {
		EXPECT_FALSE(enter(each, start, 1000, 5)) << each;
		EXPECT_TRUE(enter(each, start + ms, 1000, 5)) << each;
		EXPECT_FALSE(enter(each, start + ms, 1000, 5)) << each;
		EXPECT_FALSE(enter(each, start, 1000, 5)) << each;
		EXPECT_FALSE(enter(each, start + ms, 1000, 5)) << each;
		EXPECT_EQ(count_let_in([&] { return enter(each, start + 1000 * ms, 1000, 5); }), 5);
	}
}

TEST(SourceRates, AreThoseOfEachSource)
{
	relay::source_rates rates;
	const std::int64_t start = 1'000'000'000'000;
	constexpr std::int64_t ms = 1'000'000;
	for (const char *each : {"10.0.0.1", "10.0.0.2", "::1", "2001:db8::1"}) {
		for (int i = 0; i < 5; i++)
			EXPECT_TRUE(rates.enter(ip(each), start, 10, 5)) << each;
		EXPECT_FALSE(rates.enter(ip(each), start, 10, 5)) << each;
		EXPECT_FALSE(rates.enter(ip(each), start + 99 * ms, 10, 5)) << each;
		EXPECT_TRUE(rates.enter(ip(each), start + 100 * ms, 10, 5)) << each;
	}
	/* An address in the same network of 64 bits, and one in another. */
	EXPECT_FALSE(rates.enter(ip("2001:db8::ffff:1"), start, 10, 5));
	EXPECT_TRUE(rates.enter(ip("2001:db8:0:1::1"), start, 10, 5));
	/* An address of another family that has the same bytes. */
	EXPECT_TRUE(rates.enter(ip("a00:1::"), start, 10, 5));
	EXPECT_EQ(rates.forgotten(), 0U);
}

TEST(SourceRates, ForgetThoseThatHaveBeenSilent)
{
	relay::source_rates rates;
	const std::int64_t start = 1'000'000'000'000;
	constexpr std::int64_t second = 1'000'000'000;
	const auto nth = [](std::uint32_t n) {
		const unsigned char bytes[] = {
			static_cast<unsigned char>(n >> 24), static_cast<unsigned char>(n >> 16),
			static_cast<unsigned char>(n >> 8), static_cast<unsigned char>(n)};
		return relay::to_ip(bytes, false);
	};
	/* A busy source stays at its limit while up to a million others come, a thousand each
	 * second: three times as many as there is room for, at least. */
	const auto others = static_cast<std::uint32_t>(
		std::max(harness::scaled(1000), 3 * relay::sources_most / 1000) * 1000);
	std::int64_t now = start;
	unsigned let_in = 0;
	for (std::uint32_t n = 0; n < others; n++) {
		now = start + n * second / 1000;
		EXPECT_TRUE(rates.enter(nth(0x14000000 + n), now, 1, 1));
		if (n % 100 == 0)
			let_in += rates.enter(ip("10.0.0.1"), now, 1, 1) ? 1 : 0;
	}
	EXPECT_EQ(let_in, others / 1000);
	EXPECT_EQ(rates.forgotten(), 0U);
	/* If more sources come at the same time than the table holds, some are forgotten, so that
	 * they are not limited. */
	for (std::uint32_t n = 0; n < 2 * relay::sources_most; n++)
		EXPECT_TRUE(rates.enter(nth(0x40000000 + n), now, 1, 1));
	EXPECT_GT(rates.forgotten(), relay::sources_most / 2);
	unsigned kept = 0;
	for (std::uint32_t n = 0; n < 2 * relay::sources_most; n++)
		kept += rates.enter(nth(0x40000000 + n), now, 1, 1) ? 0 : 1;
	EXPECT_LE(kept, relay::sources_most);
}

TEST(SourceRates, AreExactForSeveralThreads)
{
	relay::source_rates rates;
	const std::int64_t start = 1'000'000'000'000;
	std::atomic<unsigned> let_in{0};
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back([&] {
			for (int n = 0; n < 5000; n++)
				if (rates.enter(ip("10.0.0.1"), start, 1, 777))
					let_in++;
		});
	for (auto &each : threads)
		each.join();
	EXPECT_EQ(let_in, 777U);
}

TEST(SourceRates, TakeTheLargestValues)
{
	relay::source_rates rates;
	EXPECT_TRUE(rates.enter(ip("10.0.0.1"), INT64_MAX / 2, 1'000'000'000, 1'000'000'000));
	EXPECT_TRUE(rates.enter(ip("10.0.0.2"), 1'000'000'000'000, 1, 1'000'000'000));
}

/* So slow that nothing of the burst comes back during a test. */
constexpr relay::bandwidth_config slow{.to_backend = 1024, .to_client = 0, .burst = 1 << 20};

class slow_limit : public relay::allowance
{
public:
	slow_limit() { set(slow); }
};

relay::ip_address nth(std::uint32_t n)
{
	const unsigned char bytes[] = {
		static_cast<unsigned char>(n >> 24), static_cast<unsigned char>(n >> 16),
		static_cast<unsigned char>(n >> 8), static_cast<unsigned char>(n)};
	return relay::to_ip(bytes, false);
}

/* Otherwise sources that were at the old limit would keep their places for as long as it says. */
TEST(SourceRates, MakeRoomWhenTheyAreRaised)
{
	relay::source_rates rates;
	const std::int64_t start = 1'000'000'000'000;
	constexpr std::int64_t us = 1000;
	constexpr std::uint32_t enough = 4 * relay::sources_most; /* to fill every set */
	for (std::uint32_t n = 0; n < enough; n++)
		rates.enter(nth(0x14000000 + n), start, 1, 1);
	const auto before = rates.forgotten();
	EXPECT_GT(before, 0U);
	for (std::uint32_t n = 0; n < enough; n++)
		EXPECT_TRUE(rates.enter(nth(0x40000000 + n), start + 2 * n * us, 1'000'000, 1));
	/* The first of each shard comes within the microsecond that the old ones have left. */
	EXPECT_LE(rates.forgotten() - before, 16U);
}

TEST(SourceBandwidths, AreSharedByTheConnectionsOfASource)
{
	slow_limit each;
	relay::source_bandwidths all(each);
	const std::int64_t now = sn_now();
	const relay::source_bandwidths::use none;
	EXPECT_EQ(none.shared(), nullptr);
	auto one = all.enter(ip("10.0.0.1"), now);
	const auto same = all.enter(ip("10.0.0.1"), now);
	const auto other = all.enter(ip("10.0.0.2"), now);
	EXPECT_EQ(one.shared(), same.shared());
	EXPECT_NE(one.shared(), other.shared());
	EXPECT_EQ(all.known(), 2U);
	/* The addresses of one IPv6 host are in one network. */
	const auto host = all.enter(ip("2001:db8::1"), now);
	EXPECT_EQ(all.enter(ip("2001:db8::2:3:4:5"), now).shared(), host.shared());
	EXPECT_NE(all.enter(ip("2001:db8:0:1::1"), now).shared(), host.shared());
	EXPECT_EQ(all.known(), 3U) << "whoever has taken nothing is forgotten";
	/* The limit is the one in effect. */
	auto &bucket = (*one.shared())[SN_RELAY_A_TO_B];
	EXPECT_NE(bucket.most(), 0U);
	each.set({});
	const auto unlimited = all.enter(ip("10.0.0.1"), now);
	EXPECT_EQ(bucket.most(), 0U);
}

TEST(SourceBandwidths, OutliveTheConnectionsUntilTheyAreFull)
{
	const slow_limit each;
	relay::source_bandwidths all(each);
	{
		const auto one = all.enter(ip("10.0.0.1"), sn_now());
		(*one.shared())[SN_RELAY_A_TO_B].take(slow.burst, sn_now());
	}
	EXPECT_EQ(all.known(), 1U);
	{
		const std::int64_t now = sn_now();
		const auto again = all.enter(ip("10.0.0.1"), now);
		auto &bucket = (*again.shared())[SN_RELAY_A_TO_B];
		EXPECT_GT(bucket.when(bucket.take(slow.burst, now)), now + 1'000'000'000)
			<< "another connection has another burst";
		bucket.give_back(2 * slow.burst);
	}
	EXPECT_EQ(all.known(), 0U);
	EXPECT_EQ(all.forgotten(), 0U);
}

/* Takes the burst of a source that has a connection only for that. */
void take_burst(relay::source_bandwidths &from, const relay::ip_address &source)
{
	const auto one = from.enter(source, sn_now());
	(*one.shared())[SN_RELAY_A_TO_B].take(slow.burst, sn_now());
}

TEST(SourceBandwidths, AreForgottenOnceTheyAreFull)
{
	slow_limit each;
	relay::source_bandwidths all(each);
	for (std::uint32_t n = 0; n < 100; n++)
		take_burst(all, nth(n));
	const auto busy = all.enter(ip("10.0.0.1"), sn_now());
	EXPECT_EQ(all.known(), 101U);
	all.forget_full(sn_now());
	EXPECT_EQ(all.known(), 101U) << "a burst is given twice";
	/* All but one have got their burst back half an hour later. */
	const std::int64_t later = sn_now() + 1800 * 1'000'000'000LL;
	(*all.enter(nth(7), later).shared())[SN_RELAY_A_TO_B].take(slow.burst, later);
	all.forget_full(later);
	EXPECT_EQ(all.known(), 2U);
	/* Without a limit all are full. */
	each.set({});
	all.forget_full(later);
	EXPECT_EQ(all.known(), 1U) << "a source with a connection is forgotten";
	EXPECT_EQ(all.forgotten(), 0U);
}

/* Others of the same listener that only begin make room, too. */
TEST(SourceBandwidths, AreForgottenWhenOthersBegin)
{
	const slow_limit each;
	relay::source_bandwidths all(each);
	constexpr std::uint32_t gone = 100;
	for (std::uint32_t n = 0; n < gone; n++)
		take_burst(all, nth(n));
	const std::int64_t later = sn_now() + 1800 * 1'000'000'000LL;
	std::vector<relay::source_bandwidths::use> begun;
	for (std::uint32_t n = 0; n < 1000; n++)
		begun.push_back(all.enter(nth(0x40000000 + n), later));
	EXPECT_EQ(all.known(), begun.size());
}

TEST(SourceBandwidths, OfACrowdAreForgotten)
{
	const slow_limit each;
	relay::source_bandwidths all(each);
	constexpr std::uint32_t crowd = 2 * relay::idle_sources_most;
	const auto busy = all.enter(ip("10.0.0.1"), sn_now());
	for (std::uint32_t n = 0; n < crowd; n++) {
		const auto one = all.enter(nth(0x40000000 + n), sn_now());
		(*one.shared())[SN_RELAY_A_TO_B].take(slow.burst, sn_now());
	}
	EXPECT_LE(all.known(), 1 + relay::idle_sources_most);
	EXPECT_EQ(all.known() + all.forgotten(), 1 + crowd);
	EXPECT_EQ(all.enter(ip("10.0.0.1"), sn_now()).shared(), busy.shared())
		<< "a source with a connection is forgotten";
}

TEST(SourceBandwidths, AreCountedExactlyBySeveralThreads)
{
	const slow_limit each;
	relay::source_bandwidths all(each);
	std::vector<std::thread> threads;
	for (std::uint32_t i = 0; i < 4; i++)
		threads.emplace_back([&, i] {
			for (std::uint32_t n = 0; n < 5000; n++) {
				const auto mine = all.enter(nth(n % 7), sn_now());
				const auto other = all.enter(nth(i * 100 + n % 13), sn_now());
				(*mine.shared())[SN_RELAY_A_TO_B].take(1, sn_now());
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_LE(all.known(), 7U + 4 * 13U);
	EXPECT_EQ(all.forgotten(), 0U);
}

} // namespace
