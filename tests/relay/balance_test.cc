/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* The choice of a backend, without connections. */
#include "backends/balance.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <thread>

using relay::balancing;

namespace
{

struct group {
	group(balancing how, const std::vector<std::uint32_t> &weights, std::uint64_t most = 0)
	{
		settings.balance = how;
		for (std::size_t i = 0; i < weights.size(); i++)
			settings.backends.push_back(
				{"10.0.0." + std::to_string(i) + ":1", weights[i], most});
		relay::registry::generation first(registry);
		made.emplace(settings, "g", first);
		first.commit();
		/* The cases turn checks on later. */
		for (auto &each : made->backends())
			each.endpoints.use_checks(true);
	}

	/* Chooses a backend, and returns its name. */
	std::string choose(std::uint64_t source = 0) { return name_of(made->choose(source, {})); }

	static std::string name_of(const relay::ticket &chosen)
	{
		return chosen ? "b" + chosen->address.substr(7) : "none";
	}

	relay::registry registry;
	relay::group_config settings;
	std::optional<relay::pool> made;
};

TEST(RoundRobin, IsExactAndSmooth)
{
	group g(balancing::round_robin, {5, 1, 0, 1});
	for (int round = 0; round < 3; round++) {
		std::string order;
		for (int i = 0; i < 7; i++)
			order += g.choose()[1];
		EXPECT_EQ(order, "0010300") << "by weight, and evenly spread";
	}
}

TEST(LeastConnections, FollowsTheWeights)
{
	group g(balancing::least_connections, {3, 1, 0});
	std::vector<relay::ticket> open;
	std::map<std::string, int> counts;
	for (int i = 0; i < 40; i++) {
		open.push_back(g.made->choose(0, {}));
		counts[g.name_of(open.back())]++;
	}
	EXPECT_EQ(counts["b0:1"], 30);
	EXPECT_EQ(counts["b1:1"], 10);
	/* The backend that has become free is the next choice. */
	std::erase_if(open, [](auto &each) { return group::name_of(each) == "b1:1"; });
	EXPECT_EQ(g.choose(), "b1:1");
}

TEST(TwoChoices, KeepsLoadsClose)
{
	group g(balancing::two_choices, {1, 1, 1, 1, 1, 1, 1, 1});
	std::vector<relay::ticket> open;
	std::map<std::string, int> counts;
	for (int i = 0; i < 8000; i++) {
		open.push_back(g.made->choose(0, {}));
		counts[g.name_of(open.back())]++;
	}
	/* With one choice the numbers would differ by about 90 (three standard deviations), with
	 * two by a few. */
	for (const auto &[address, n] : counts)
		EXPECT_NEAR(n, 1000, 12) << address;
}

TEST(TwoChoices, NeverTakesWeightZeroAndWorksWithOneBackend)
{
	group g(balancing::two_choices, {0, 1, 0});
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(g.choose(), "b1:1");
}

TEST(SourceHash, SharesByWeight)
{
	group g(balancing::source_hash, {1, 2, 1, 0});
	std::map<std::string, int> counts;
	for (int i = 0; i < 40000; i++)
		counts[g.choose(relay::hash_of(std::to_string(i)))]++;
	EXPECT_NEAR(counts["b0:1"], 10000, 400); /* more than four standard deviations */
	EXPECT_NEAR(counts["b1:1"], 20000, 400);
	EXPECT_NEAR(counts["b2:1"], 10000, 400);
	EXPECT_EQ(counts["b3:1"], 0);
}

TEST(SourceHash, MovesNoOtherSources)
{
	group before(balancing::source_hash, {1, 1, 1, 1});
	group after(balancing::source_hash, {1, 1, 1, 1, 1});
	int moved = 0;
	for (int i = 0; i < 20000; i++) {
		const auto source = relay::hash_of(std::to_string(i));
		const auto old = before.choose(source);
		const auto now = after.choose(source);
		if (now != old) {
			EXPECT_EQ(now, "b4:1");
			moved++;
		}
	}
	EXPECT_NEAR(moved, 4000, 300);
}

TEST(SourceHash, TriesAnotherWhenOneFailed)
{
	group g(balancing::source_hash, {1, 1, 1});
	relay::tried_endpoints tried;
	std::set<std::string> seen;
	while (g.made->has_other(tried)) {
		const auto next = g.made->choose(42, tried);
		ASSERT_TRUE(next);
		tried.push_back(next.get());
		seen.insert(next->address);
	}
	EXPECT_EQ(seen.size(), 3U);
	EXPECT_FALSE(g.made->choose(42, tried));
}

TEST(Ejection, EjectsAfterFailuresInARowAndReturnsSlowly)
{
	group g(balancing::round_robin, {1, 1});
	g.settings.eject_after = 3;
	/* So long that it does not end before the test looks, even on a machine that stalls. */
	g.settings.eject_for = std::chrono::hours(1);
	g.settings.slow_return = std::chrono::hours(1);
	auto first = g.made->choose(0, {});
	relay::endpoint &bad = *first.get();
	EXPECT_FALSE(g.made->failed(bad));
	EXPECT_FALSE(g.made->failed(bad));
	g.made->succeeded(bad);
	EXPECT_FALSE(g.made->failed(bad)) << "not in a row";
	EXPECT_FALSE(g.made->failed(bad));
	EXPECT_TRUE(g.made->failed(bad));
	EXPECT_FALSE(g.made->failed(bad)) << "it is ejected already";
	EXPECT_EQ(g.registry.read().backends[0].state, relay::health::ejected);
	EXPECT_GT(bad.counts.ejected_until.load(), sn_now() + 3000 * INT64_C(1000000000));
	const auto until = sn_now() + 30 * INT64_C(1000000);
	bad.counts.ejected_until = until;
	do {
		const auto chosen = g.choose();
		if (sn_now() < until) {
			ASSERT_EQ(chosen, "b1:1");
		}
	} while (sn_now() < until);
	EXPECT_EQ(g.registry.read().backends[0].state, relay::health::slow);
	int again = 0;
	for (int i = 0; i < 1010; i++)
		again += g.choose() == "b0:1";
	EXPECT_NEAR(again, 10, 2) << "a hundredth of its share";
	EXPECT_TRUE(g.made->failed(bad)) << "ejected immediately";
}

TEST(Ejection, OfAllBackendsEjectsNone)
{
	group g(balancing::least_connections, {1, 1});
	g.settings.eject_after = 1;
	for (int i = 0; i < 2; i++) {
		const auto chosen = g.made->choose(0, {});
		EXPECT_TRUE(g.made->failed(*chosen.get()));
	}
	EXPECT_NE(g.choose(), "none");
}

/* Until a backend answers, other backends are chosen. */
TEST(Silence, SendsClientsElsewhere)
{
	for (const auto how : {balancing::round_robin, balancing::least_connections,
			       balancing::two_choices, balancing::source_hash}) {
		group g(how, {1, 1, 1}, 2);
		g.settings.backends[2].priority = 1;
		const auto chosen = [&g] {
			std::set<std::string> found;
			for (std::uint64_t i = 0; i < 200; i++)
				found.insert(g.choose(relay::hash_of(std::to_string(i))));
			return found;
		};
		const std::set<std::string> all{"b0:1", "b1:1"};
		const auto first = g.made->backends()[0].endpoints.now()->front().at;
		const auto second = g.made->backends()[1].endpoints.now()->front().at;
		auto &since = first->counts.unanswered_since;
		relay::asked(*first);
		EXPECT_EQ(chosen(), all) << "the backend still has time to answer";
		since = sn_now() - relay::most_patience;
		EXPECT_EQ(chosen(), std::set<std::string>{"b1:1"});
		relay::asked(*first);
		EXPECT_EQ(chosen(), std::set<std::string>{"b1:1"})
			<< "being asked alone changes nothing";
		relay::answered(*first);
		EXPECT_EQ(chosen(), all);
		since = sn_now() - relay::most_patience - relay::silence_probed;
		EXPECT_EQ(g.name_of(g.made->choose(0, {second})), "b0:1") << "rather than a backup";
		EXPECT_EQ(chosen(), std::set<std::string>{"b1:1"}) << "the backend is being probed";
		const auto one = g.made->choose(0, {}), two = g.made->choose(0, {});
		EXPECT_EQ(g.name_of(one) + g.name_of(two), "b1:1b1:1");
		EXPECT_EQ(g.choose(), "b0:1") << "the other one is full";
	}
}

/* A session takes an endpoint as if it were not silent, and never its probe. */
TEST(Silence, IsNothingToDatagrams)
{
	for (const auto how : {balancing::round_robin, balancing::least_connections,
			       balancing::two_choices, balancing::source_hash}) {
		group g(how, {1, 1});
		const auto first = g.made->backends()[0].endpoints.now()->front().at;
		const auto second = g.made->backends()[1].endpoints.now()->front().at;
		auto &since = first->counts.unanswered_since;
		for (const auto silent_for : {relay::most_patience + relay::silence_probed,
					      relay::most_patience, std::int64_t{0}}) {
			const std::int64_t began = sn_now() - silent_for;
			since = began;
			std::set<std::string> found;
			for (std::uint64_t i = 0; i < 200; i++)
				found.insert(group::name_of(
					g.made->choose(relay::hash_of(std::to_string(i)), {},
						       relay::pool::use::datagrams)));
			EXPECT_EQ(found, (std::set<std::string>{"b0:1", "b1:1"}));
			EXPECT_EQ(since, began);
		}
		since = sn_now() - relay::most_patience - relay::silence_probed;
		EXPECT_EQ(g.name_of(g.made->choose(0, {second})), "b0:1");
		EXPECT_EQ(g.choose(), "b1:1") << "that connection is the probe";
	}
}

/* Backups are used when no backend of a lower value is available. */
TEST(Priority, OfALowerValueComesFirst)
{
	for (const auto how : {balancing::round_robin, balancing::least_connections,
			       balancing::two_choices, balancing::source_hash}) {
		group g(how, {1, 1, 100, 0}, 2);
		g.settings.eject_after = 1;
		g.settings.eject_for = std::chrono::hours(1);
		g.settings.check.interval = std::chrono::seconds(1);
		g.settings.check.fall = 1;
		g.settings.backends[0].priority = 1;
		g.settings.backends[2].priority = 2;
		const auto is_only = [&](const char *which) {
			for (std::uint64_t i = 0; i < 20; i++)
				if (g.choose(relay::hash_of(std::to_string(i))) != which)
					return false;
			return true;
		};
		const auto at = [&](std::size_t i) {
			return g.made->backends()[i].endpoints.now()->front().at;
		};
		EXPECT_TRUE(is_only("b1:1"));
		{
			const auto first = g.made->choose(0, {});
			const auto second = g.made->choose(0, {});
			EXPECT_FALSE(g.made->choose(0, {})) << "a full one is available";
			EXPECT_EQ(g.name_of(g.made->choose(0, {at(1)})), "b0:1")
				<< "once it failed";
			EXPECT_EQ(g.name_of(g.made->choose(0, {at(1), at(0)})), "b2:1");
			EXPECT_FALSE(g.made->choose(0, {at(1), at(0), at(2)}));
		}
		EXPECT_TRUE(g.made->failed(*at(1)));
		EXPECT_TRUE(is_only("b0:1")) << "the first is ejected";
		const auto bad = std::make_error_code(std::errc::timed_out);
		EXPECT_TRUE(g.made->checked(*at(0), bad));
		EXPECT_TRUE(is_only("b2:1")) << "and the second down";
		EXPECT_TRUE(g.made->checked(*at(2), bad));
		EXPECT_TRUE(is_only("b1:1")) << "only the one that is ejected is left";
		at(1)->counts.ejected_until = at(1)->counts.slow_until = 0;
		EXPECT_FALSE(g.made->checked(*at(0), {}));
		EXPECT_TRUE(is_only("b1:1"));
		EXPECT_EQ(g.registry.read().backends[0].weight, 1U);
	}
}

class Limits : public testing::TestWithParam<balancing>
{
};

/* Many threads take connections and give them back. There are never more than allowed. */
TEST_P(Limits, AreExact)
{
	group g(GetParam(), {1, 3}, 2);
	std::atomic<int> open{0};
	std::atomic<int> most{0};
	std::atomic<int> refused{0};
	std::vector<std::thread> threads;
	for (unsigned t = 0; t < 6; t++)
		threads.emplace_back([&, t] {
			for (unsigned i = 0; i < 3000; i++) {
				const auto chosen = g.made->choose(i * 7 + t, {});
				if (!chosen) {
					refused++;
					continue;
				}
				const int now = ++open;
				int seen = most;
				while (now > seen && !most.compare_exchange_weak(seen, now))
					;
				std::this_thread::yield();
				open--;
			}
		});
	for (auto &each : threads)
		each.join();
	EXPECT_LE(most, 4);
	std::vector<relay::ticket> all;
	for (int i = 0; i < 4; i++) {
		all.push_back(g.made->choose(1, {}));
		EXPECT_TRUE(all.back());
	}
	EXPECT_FALSE(g.made->choose(1, {}));
	all.clear();
	EXPECT_TRUE(g.made->choose(1, {}));
}

INSTANTIATE_TEST_SUITE_P(Each, Limits,
			 testing::Values(balancing::round_robin, balancing::least_connections,
					 balancing::two_choices, balancing::source_hash));

TEST(Checks, NeedRiseOrFallAnswersInARow)
{
	group g(balancing::round_robin, {1, 1});
	g.settings.check.interval = std::chrono::seconds(1);
	g.settings.slow_return = std::chrono::hours(1);
	auto &first = *g.made->backends()[0].endpoints.now()->front().at;
	const auto bad = std::make_error_code(std::errc::connection_refused);
	const auto ask = [&](bool well) {
		return g.made->checked(first, well ? std::error_code() : bad);
	};
	EXPECT_FALSE(ask(true));
	EXPECT_FALSE(ask(false));
	EXPECT_FALSE(ask(false));
	EXPECT_FALSE(ask(true)) << "the count starts again";
	EXPECT_FALSE(ask(false));
	EXPECT_FALSE(ask(false));
	EXPECT_EQ(g.choose()[1], '0') << "not yet";
	EXPECT_TRUE(ask(false));
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(g.choose(), "b1:1");
	g.settings.backends[1].weight = 0;
	EXPECT_EQ(g.choose(), "none") << "not even if there is no other";
	EXPECT_FALSE(g.made->has_other({}));
	EXPECT_FALSE(ask(true));
	EXPECT_FALSE(ask(false));
	EXPECT_FALSE(ask(true));
	EXPECT_TRUE(ask(true));
	EXPECT_EQ(g.choose(), "b0:1");
	g.settings.backends[1].weight = 1;
	std::map<std::string, int> counts;
	for (int i = 0; i < 50; i++)
		counts[g.choose()]++;
	EXPECT_LE(counts["b0:1"], 1) << "it comes back slowly";
	EXPECT_FALSE(ask(true));
	EXPECT_EQ(first.counts.checks.get(), 12U);
	EXPECT_EQ(first.counts.check_failures.get(), 6U);
	/* Nothing is known about the other backend yet, so its first answer decides. */
	EXPECT_TRUE(g.made->checked(*g.made->backends()[1].endpoints.now()->front().at, bad));
	/* Without checks, earlier results have no effect. */
	for (int i = 0; i < 3; i++)
		ask(false);
	g.settings.check = {};
	EXPECT_TRUE(g.made->has_other({g.made->backends()[1].endpoints.now()->front().at}));
}

/* Before its first check an endpoint is like a full one. */
TEST(Checks, MayComeBeforeTheFirstConnection)
{
	group g(balancing::round_robin, {1, 1});
	g.settings.check.interval = std::chrono::seconds(1);
	g.settings.check.starts_down = true;
	g.settings.backends[1].priority = 1;
	const auto bad = std::make_error_code(std::errc::connection_refused);
	const auto first = g.made->backends()[0].endpoints.now()->front().at;
	const auto second = g.made->backends()[1].endpoints.now()->front().at;
	EXPECT_EQ(g.choose(), "none");
	EXPECT_TRUE(g.made->has_other({}));
	EXPECT_TRUE(g.made->awaits_first_checks({}));
	EXPECT_FALSE(g.made->may_be_ready(*first));

	EXPECT_FALSE(g.made->checked(*second, {}));
	EXPECT_EQ(g.choose(), "none") << "the backup waits for the primary";
	EXPECT_TRUE(g.made->awaits_first_checks({}));
	EXPECT_FALSE(g.made->awaits_first_checks({first}));
	EXPECT_EQ(group::name_of(g.made->choose(0, {first})), "b1:1");

	/* The check could not be made, and it is not known when it can be. */
	first->counts.last_error = EMFILE;
	EXPECT_EQ(g.choose(), "b1:1");
	EXPECT_FALSE(g.made->awaits_first_checks({}));
	EXPECT_TRUE(g.made->awaits_first_checks({second}));
	g.made->backends()[0].endpoints.forget_checks();
	EXPECT_EQ(g.choose(), "none") << "an error from before says nothing of the next check";

	EXPECT_FALSE(g.made->checked(*first, {}));
	EXPECT_EQ(g.choose(), "b0:1") << "one good check is enough";
	first->counts.check = relay::checked::unknown;
	EXPECT_TRUE(g.made->checked(*first, bad)) << "and so is a bad one";
	EXPECT_EQ(g.choose(), "b1:1");
	EXPECT_FALSE(g.made->has_other({second}));

	/* Without checks it would stay so forever. */
	g.made->unchecked();
	EXPECT_EQ(g.choose(), "b0:1");
	/* The answer of the last check comes too late. */
	g.made->backends()[0].endpoints.use_checks(false);
	EXPECT_FALSE(g.made->checked(*first, bad));
	EXPECT_FALSE(g.made->not_checked(*first, bad));
	EXPECT_EQ(first->counts.check, relay::checked::unknown);
	EXPECT_EQ(first->counts.last_error, 0);
}

} // namespace
