/* SPDX-License-Identifier: MIT */
#include "config/options.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

using namespace std::chrono_literals;

namespace
{

auto parse(std::vector<const char *> arguments)
{
	arguments.insert(arguments.begin(), "sennit-relay");
	return relay::parse_options(static_cast<int>(arguments.size()), arguments.data());
}

relay::options parse_well(std::vector<const char *> arguments)
{
	auto parsed = parse(std::move(arguments));
	if (const auto *finished = std::get_if<relay::finished>(&parsed))
		ADD_FAILURE() << finished->text;
	auto *options = std::get_if<relay::options>(&parsed);
	return options ? *options : relay::options{};
}

TEST(Options, PairsOfAddressesAreRoutes)
{
	const auto one = parse_well({":80", "backend:80"});
	ASSERT_EQ(one.pairs.size(), 1U);
	EXPECT_EQ(one.pairs[0].listen, ":80");
	EXPECT_EQ(one.pairs[0].backend, "backend:80");

	const auto two = parse_well({"[::1]:1", "a:1", "--drain", "1", "127.0.0.1:2", "b:2"});
	ASSERT_EQ(two.pairs.size(), 2U);
	EXPECT_EQ(two.pairs[1].listen, "127.0.0.1:2");
	EXPECT_EQ(two.pairs[1].backend, "b:2");
}

TEST(Options, DefaultsMatchTheHelp)
{
	const auto options = parse_well({":80", "backend:80"});
	const auto help = std::get<relay::finished>(parse({"--help"})).text;
	EXPECT_EQ(options.connect_timeout, 5s);
	EXPECT_NE(help.find("does (default 5s)"), std::string::npos);
	EXPECT_FALSE(options.idle_timeout);
	EXPECT_EQ(relay::to_config(options).listeners.at(0).idle_timeout, 10min);
	EXPECT_NE(help.find("(default 10m, of UDP 30s)"), std::string::npos);
	EXPECT_EQ(options.keepalive, 1min);
	EXPECT_NE(help.find("never (default 1m)"), std::string::npos);
	EXPECT_EQ(options.drain, 10s);
	EXPECT_NE(help.find("none (default 10s)"), std::string::npos);
	EXPECT_EQ(options.handover_drain, std::nullopt);
	EXPECT_NE(help.find("(default: no limit)"), std::string::npos);
	EXPECT_EQ(options.stop_delay, 0s);
	EXPECT_NE(help.find("can notice (default 0)"), std::string::npos);
	EXPECT_EQ(options.retries, 4U);
	EXPECT_NE(help.find("never (default 4)"), std::string::npos);
	EXPECT_EQ(options.stats_interval, 0s);
	EXPECT_NE(help.find("SIGUSR1 (default 0)"), std::string::npos);
}

TEST(Options, DurationsAreRead)
{
	const auto options = parse_well({"--connect-timeout", "500ms", "--idle-timeout=0",
					 "--drain", "2m", "--handover-drain", "1h", "--stop-delay",
					 "5s", "--stats-interval", "10", ":80", "backend:80"});
	EXPECT_EQ(options.connect_timeout, 500ms);
	EXPECT_EQ(options.idle_timeout, 0s);
	EXPECT_EQ(options.drain, 2min);
	EXPECT_EQ(options.handover_drain, std::optional<std::chrono::nanoseconds>(1h));
	EXPECT_EQ(options.stop_delay, 5s);
	const auto made = relay::to_config(options);
	EXPECT_EQ(made.handover_drain, options.handover_drain);
	EXPECT_EQ(made.stop_delay, 5s);
	EXPECT_EQ(options.stats_interval, 10s);
}

TEST(Options, KeepaliveIsForBothSides)
{
	const auto made = [](const char *asked) {
		return relay::to_config(parse_well({"--keepalive", asked, ":80", "backend:80"}));
	};
	EXPECT_EQ(made("30").listeners[0].keepalive.idle, 30s);
	EXPECT_EQ(made("30").groups[0].keepalive.idle, 30s);
	EXPECT_EQ(made("0").listeners[0].keepalive.idle, 0s);
	EXPECT_EQ(made("0").groups[0].keepalive.idle, 0s);
}

TEST(Options, RetriesAreANumber)
{
	EXPECT_EQ(relay::to_config(parse_well({"--retries", "7", ":80", "b:80"}))
			  .groups[0]
			  .retry.most,
		  7U);
	for (const char *wrong : {"--retries=", "--retries=-1", "--retries=101", "--retries=2x",
				  "--retries=4294967297"}) {
		const auto parsed = parse({wrong, ":80", "b:80"});
		EXPECT_EQ(std::get<relay::finished>(parsed).status, relay::exit_usage) << wrong;
	}
}

TEST(Options, AnEmptyDurationIsNotTheDefault)
{
	const auto parsed = parse({"--drain=", ":80", "backend:80"});
	EXPECT_EQ(std::get<relay::finished>(parsed).status, relay::exit_usage);
}

} // namespace
