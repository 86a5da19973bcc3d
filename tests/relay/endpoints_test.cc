/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* The endpoints of a name as its addresses change, without connections. */
#include "backends/balance.hpp"
#include "backends/names.hpp"

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <set>
#include <thread>

using relay::balancing;

namespace
{

std::string at(int i)
{
	return "10.0." + std::to_string(i / 256) + '.' + std::to_string(i % 256) + ":80";
}

relay::found_endpoints some(std::initializer_list<int> which)
{
	relay::found_endpoints list;
	for (const int i : which)
		list.push_back({at(i)});
	return list;
}

/* A group whose only backend is a name. */
struct name {
	explicit name(balancing how = balancing::round_robin, std::uint64_t most = 0)
	{
		settings.balance = how;
		settings.backends.push_back(
			{.address = "backend.test:80", .max_connections = most});
		reload();
	}

	void reload()
	{
		relay::registry::generation next(registry);
		made.emplace(settings, "g", next);
		next.commit();
	}

	relay::endpoints &its() { return made->backends()[0].endpoints; }
	relay::ticket choose(std::uint64_t source = 0) { return made->choose(source, {}); }
	std::string chosen(std::uint64_t source = 0)
	{
		const auto ticket = choose(source);
		return ticket ? ticket->address : "none";
	}
	std::shared_ptr<relay::endpoint> find(int i)
	{
		for (const auto &each : *its().now())
			if (each.at->address == at(i))
				return each.at;
		return nullptr;
	}
	relay::backend_snapshot read() { return registry.read().backends.at(0); }
	/* The states of the endpoints by address. */
	std::map<std::string, relay::health> states()
	{
		std::map<std::string, relay::health> all;
		for (const auto &each : read().endpoints)
			all[each.address] = each.state;
		return all;
	}

	relay::registry registry;
	relay::group_config settings;
	std::optional<relay::pool> made;
};

TEST(Endpoints, AreNoneUntilTheNameIsKnown)
{
	name n;
	EXPECT_FALSE(n.its().known());
	EXPECT_EQ(n.chosen(), "none");
	EXPECT_FALSE(n.made->has_other({}));
	EXPECT_EQ(n.read().state, relay::health::unknown);
	EXPECT_TRUE(n.its().failed()) << "to be reported";
	EXPECT_FALSE(n.its().failed());
	EXPECT_TRUE(n.its().down());
	EXPECT_EQ(n.read().state, relay::health::down);
	EXPECT_TRUE(n.its().found(some({1})));
	EXPECT_FALSE(n.its().found(some({1})));
	EXPECT_EQ(n.chosen(), at(1));
	EXPECT_EQ(n.read().state, relay::health::unchecked);
	EXPECT_TRUE(n.its().failed());
	EXPECT_EQ(n.chosen(), at(1)) << "it stays";
}

TEST(Endpoints, TakeTurns)
{
	name n;
	n.its().found(some({3, 1, 2}));
	std::map<std::string, int> counts;
	for (int i = 0; i < 30; i++)
		counts[n.chosen()]++;
	EXPECT_EQ(counts, (std::map<std::string, int>{{at(1), 10}, {at(2), 10}, {at(3), 10}}));
}

/* When a fourth address is added, about a quarter of the clients move, and only to the new one. */
TEST(Endpoints, OfASourceMoveOnlyToANewOne)
{
	name n(balancing::source_hash);
	n.its().found(some({1, 2, 3}));
	std::vector<std::string> before;
	for (int i = 0; i < 4000; i++)
		before.push_back(n.chosen(relay::hash_of(std::to_string(i))));
	n.its().found(some({4, 3, 2, 1}));
	int moved = 0;
	for (std::size_t i = 0; i < before.size(); i++) {
		const auto now = n.chosen(relay::hash_of(std::to_string(i)));
		if (now != before[i]) {
			EXPECT_EQ(now, at(4));
			moved++;
		}
	}
	EXPECT_NEAR(moved, 1000, 140); /* five standard deviations */

	/* The clients are distributed as if the addresses were backends in the list. */
	relay::registry registry;
	relay::group_config listed;
	listed.balance = balancing::source_hash;
	for (const int i : {2, 4, 1, 3})
		listed.backends.push_back({.address = at(i)});
	relay::registry::generation first(registry);
	relay::pool pool(listed, "g", first);
	for (std::size_t i = 0; i < 200; i++) {
		const auto source = relay::hash_of(std::to_string(i));
		EXPECT_EQ(pool.choose(source, {})->address, n.chosen(source));
	}
}

TEST(Endpoints, AreEjectedByThemselves)
{
	for (const auto how : {balancing::round_robin, balancing::least_connections,
			       balancing::two_choices, balancing::source_hash}) {
		name n(how);
		n.settings.eject_after = 2;
		n.settings.eject_for = std::chrono::hours(1);
		n.its().found(some({1, 2, 3}));
		const auto bad = n.find(2);
		EXPECT_FALSE(n.made->failed(*bad));
		EXPECT_TRUE(n.made->failed(*bad));
		std::set<std::string> seen;
		for (int i = 0; i < 300; i++)
			seen.insert(n.chosen(relay::hash_of(std::to_string(i))));
		EXPECT_EQ(seen, (std::set<std::string>{at(1), at(3)}));
		EXPECT_EQ(n.states()[at(2)], relay::health::ejected);
		EXPECT_EQ(n.states()[at(1)], relay::health::unchecked);
		EXPECT_EQ(n.read().state, relay::health::unchecked) << "of the name: the best";
		EXPECT_EQ(n.read().ejections, 1U);
		/* The ejection survives lookups and reloads. */
		n.its().found(some({2, 3, 5}));
		n.reload();
		EXPECT_EQ(n.find(2), bad);
		EXPECT_EQ(n.states()[at(2)], relay::health::ejected);
		for (int i = 0; i < 300; i++)
			EXPECT_NE(n.chosen(relay::hash_of(std::to_string(i))), at(2));
	}
}

TEST(Endpoints, AreCheckedByThemselves)
{
	name n;
	n.settings.check.interval = std::chrono::seconds(1);
	n.settings.check.fall = 1;
	n.settings.check.rise = 1;
	n.settings.slow_return = {};
	n.reload();
	n.its().found(some({1, 2}));
	EXPECT_TRUE(n.made->checked(*n.find(1), std::make_error_code(std::errc::timed_out)));
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(n.chosen(), at(2));
	EXPECT_EQ(n.states(),
		  (std::map<std::string, relay::health>{{at(1), relay::health::down},
							{at(2), relay::health::unknown}}));
	n.reload();
	EXPECT_EQ(n.chosen(), at(2)) << "a reload keeps what is known";
	EXPECT_EQ(n.states()[at(1)], relay::health::down);
	EXPECT_TRUE(n.made->checked(*n.find(2), std::make_error_code(std::errc::timed_out)));
	EXPECT_EQ(n.chosen(), "none");
	EXPECT_EQ(n.read().state, relay::health::down);
	EXPECT_NE(n.read().last_error, "");
	EXPECT_EQ(n.read().check_failures, 2U) << "the sum";
	EXPECT_TRUE(n.made->checked(*n.find(1), {}));
	EXPECT_EQ(n.chosen(), at(1));
	/* Without checks, earlier results have no effect. */
	n.settings.check = {};
	n.reload();
	EXPECT_EQ(n.states()[at(2)], relay::health::unchecked);
}

TEST(Endpoints, HaveALimitEach)
{
	name n(balancing::least_connections, 2);
	n.its().found(some({1, 2, 3}));
	std::vector<relay::ticket> open;
	std::map<std::string, int> counts;
	for (int i = 0; i < 6; i++) {
		open.push_back(n.choose());
		ASSERT_TRUE(open.back());
		counts[open.back()->address]++;
	}
	EXPECT_EQ(counts, (std::map<std::string, int>{{at(1), 2}, {at(2), 2}, {at(3), 2}}));
	EXPECT_FALSE(n.choose());
	EXPECT_EQ(n.read().active, 6U);
	EXPECT_EQ(n.read().limit, 6U);
	for (const auto &each : n.read().endpoints) {
		EXPECT_EQ(each.active, 2U);
		EXPECT_EQ(each.limit, 2U);
	}
}

/* An endpoint that is gone is listed until its last connection ends. Its totals are added to those
 * of the name. */
TEST(Endpoints, ThatAreGoneAreForgottenAfterTheirLastConnection)
{
	name n;
	n.its().found(some({1, 2}));
	auto ticket = n.choose();
	const auto gone = ticket->address;
	ticket->counts.connected.add(3);
	ticket->counts.to_client.bytes.add(100);
	const std::weak_ptr<relay::endpoint> same = ticket.get();
	n.its().found(some({5}));
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(n.chosen(), at(5));
	EXPECT_EQ(n.states(),
		  (std::map<std::string, relay::health>{{gone, relay::health::drained},
							{at(5), relay::health::unchecked}}));
	EXPECT_EQ(n.read().addresses, std::vector<std::string>{at(5)});
	EXPECT_EQ(n.read().active, 1U);

	/* If the address comes back before that, it is the same endpoint. */
	n.its().found(some({1, 2, 5}));
	EXPECT_EQ(n.states()[gone], relay::health::unchecked);
	n.its().found(some({5}));
	EXPECT_EQ(same.lock(), ticket.get());

	ticket = {};
	EXPECT_EQ(n.states().size(), 1U);
	EXPECT_TRUE(same.expired()) << "and takes no memory";
	EXPECT_EQ(n.read().connected, 3U);
	EXPECT_EQ(n.read().to_client.bytes, 100U);
	EXPECT_EQ(n.read().active, 0U);
}

TEST(Endpoints, DoNotAddUpWhileAddressesChange)
{
	name n;
	std::vector<std::weak_ptr<relay::endpoint>> all;
	for (int i = 0; i < 2000; i++) {
		n.its().found(some({i, i + 1}));
		n.choose()->counts.connected.add();
		all.emplace_back(n.find(i));
	}
	n.its().found(some({1, 2}));
	EXPECT_EQ(n.read().endpoints.size(), 2U);
	EXPECT_EQ(n.read().connected, 2000U);
	EXPECT_TRUE(std::ranges::all_of(all, [](const auto &each) { return each.expired(); }));
}

/* The weights and priorities of SRV records. */
TEST(Endpoints, HaveWeightsAndPriorities)
{
	name n;
	n.settings.eject_after = 1;
	n.settings.eject_for = std::chrono::hours(1);
	n.its().found({{at(1), 3, 10}, {at(2), 1, 10}, {at(3), 0, 10}, {at(4), 1, 20}});
	std::map<std::string, int> counts;
	for (int i = 0; i < 4010; i++)
		counts[n.chosen()]++;
	EXPECT_NEAR(counts[at(1)], 3000, 10);
	EXPECT_NEAR(counts[at(2)], 1000, 10);
	EXPECT_NEAR(counts[at(3)], 10, 2) << "a weight of 0 counts almost as nothing";
	EXPECT_EQ(counts[at(4)], 0);
	EXPECT_EQ(n.read().endpoints[3].priority, 20U);
	EXPECT_EQ(n.read().endpoints[0].weight, 3U);
	for (int i = 1; i <= 3; i++)
		EXPECT_TRUE(n.made->failed(*n.find(i)));
	EXPECT_EQ(n.chosen(), at(4));
}

/* Neither the order of an answer nor its duplicates have an effect. */
TEST(Endpoints, ChangeOnlyWithTheSet)
{
	name n;
	n.its().found(some({1, 2, 3}));
	const auto before = n.its().changes();
	const auto list = n.its().now();
	n.its().found(some({3, 2, 1, 2}));
	EXPECT_EQ(n.its().changes(), before);
	EXPECT_EQ(n.its().now(), list);
	n.its().found({{at(1), 7}, {at(2)}, {at(3)}});
	EXPECT_GT(n.its().changes(), before) << "a weight is another";
	EXPECT_EQ(n.its().now()->front().at, list->front().at);
}

TEST(Endpoints, AreNotTooMany)
{
	name n;
	relay::found_endpoints many;
	for (int i = 0; i < 1000; i++)
		many.push_back({at(i)});
	n.its().found(many);
	EXPECT_EQ(n.its().now()->size(), relay::most_endpoints);
	const auto before = n.its().changes();
	std::ranges::reverse(many);
	n.its().found(many);
	EXPECT_EQ(n.its().changes(), before) << "the same ones";
	for (auto &each : many)
		each.priority = each.address == at(999) ? 0 : 1;
	n.its().found(many);
	EXPECT_EQ(n.its().now()->size(), relay::most_endpoints);
	EXPECT_EQ(n.chosen(), at(999)) << "the best priority is not dropped";
}

/* Many threads choose while the addresses change, and the limit holds. */
TEST(Endpoints, ChangeWhileTheyAreChosen)
{
	name n(balancing::round_robin, 3);
	n.its().found(some({0, 1}));
	std::atomic<bool> over{false};
	std::atomic<int> missed{0};
	std::vector<std::thread> threads;
	for (unsigned t = 0; t < 3; t++)
		threads.emplace_back([&, t] {
			for (unsigned i = 0; i < 2000; i++) {
				const auto ticket = n.choose(i * 7 + t);
				if (!ticket) {
					missed++;
					continue;
				}
				if (ticket->counts.active.load() > 3)
					missed++;
				ticket->counts.connected.add();
			}
		});
	std::thread changing([&] {
		for (int i = 0; !over; i = (i + 1) % 50)
			n.its().found(some({i, i + 1}));
	});
	std::thread reading([&] {
		while (!over)
			static_cast<void>(n.read());
	});
	for (auto &each : threads)
		each.join();
	over = true;
	changing.join();
	reading.join();
	EXPECT_EQ(missed, 0);
	EXPECT_EQ(n.read().connected, 6000U);
	EXPECT_EQ(n.read().active, 0U);
}

} // namespace
