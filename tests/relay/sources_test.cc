/* SPDX-License-Identifier: MIT */
/* Client addresses, networks, limits per source and rates: the parts, without connections. */
#include "ip.hpp"
#include "sources.hpp"

#include <arpa/inet.h>
#include <atomic>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace
{

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

/* As a dual-stack socket reports them. */
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
	/* A long pause is worth one burst. */
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

} // namespace
