/* SPDX-License-Identifier: MIT */
#include "stats/history.hpp"

#include "backends/registry.hpp"

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <thread>

using relay::history;
using relay::history_sample;
using namespace std::chrono_literals;

namespace
{

TEST(History, KeepsTheLatest)
{
	history kept;
	EXPECT_TRUE(kept.since(0).empty());
	for (std::uint64_t n = 1; n <= 2 * history::most + 7; n++) {
		kept.add({.uptime_ms = n});
		const auto all = kept.since(0);
		ASSERT_EQ(all.size(), std::min<std::uint64_t>(n, history::most));
		ASSERT_EQ(all.back().uptime_ms, n);
		ASSERT_EQ(all.front().uptime_ms, n - all.size() + 1);
	}
	const auto all = kept.since(0);
	EXPECT_TRUE(std::ranges::is_sorted(all, {}, &history_sample::uptime_ms));
	const auto some = kept.since(all[1000].uptime_ms);
	ASSERT_EQ(some.size(), history::most - 1001);
	EXPECT_EQ(some.front().uptime_ms, all[1001].uptime_ms);
}

TEST(History, IsReadWhileItGrows)
{
	history kept;
	std::jthread writer([&kept](const std::stop_token &end) {
		for (std::uint64_t n = 1; !end.stop_requested(); n++)
			kept.add({.uptime_ms = n, .active = 2 * n});
	});
	for (int i = 0; i < 200; i++) {
		const auto all = kept.since(0);
		ASSERT_LE(all.size(), history::most);
		for (std::size_t k = 0; k < all.size(); k++) {
			ASSERT_EQ(all[k].active, 2 * all[k].uptime_ms);
			ASSERT_EQ(all[k].uptime_ms, all[0].uptime_ms + k);
		}
	}
}

TEST(History, IsAnArrayForEachField)
{
	EXPECT_EQ(relay::to_json(std::vector<history_sample>{}),
		  R"({"uptime_ms":[],"active":[],"queued":[],"accepted":[],"failed":[],)"
		  R"("to_backend":[],"to_client":[],"connect_p99_us":[]})"
		  "\n");
	EXPECT_EQ(relay::to_json({{1, 2, 3, 4, 5, 6, 7, 8},
				  {11, 12, 13, 14, 15, 16, 18446744073709551615U, 18}}),
		  R"({"uptime_ms":[1,11],"active":[2,12],"queued":[3,13],"accepted":[4,14],)"
		  R"("failed":[5,15],"to_backend":[6,16],"to_client":[7,18446744073709551615],)"
		  R"("connect_p99_us":[8,18]})"
		  "\n");
}

TEST(History, HasTheSumsOfTheListeners)
{
	sn::run([] {
		relay::registry registry;
		relay::registry::generation first(registry);
		const auto a = first.open_listener("a", "", {});
		const auto b = first.open_listener("b", "", {});
		first.commit();
		for (const auto &each : {a, b}) {
			each->accepted.add(5);
			each->active = 2;
			each->to_client.bytes.add(100);
			each->to_backend.bytes.add(10);
			each->connect.record(1ms);
			for (std::size_t i = 0; i < relay::terminations; i++)
				each->ended[i].add();
		}
		registry.remember();
		b->connect.record(1s);
		registry.remember();
		registry.remember();
		const auto all = registry.past()->since(0);
		ASSERT_EQ(all.size(), 3U);
		EXPECT_LE(all[0].uptime_ms, all[1].uptime_ms);
		EXPECT_LE(all[2].uptime_ms, registry.read().uptime / 1ms);
		EXPECT_EQ(all[0].active, 4U);
		EXPECT_EQ(all[0].accepted, 10U);
		EXPECT_EQ(all[0].failed, 2 * relay::history_failures.size());
		EXPECT_EQ(all[0].to_client, 200U);
		EXPECT_EQ(all[0].to_backend, 20U);
		/* The value is at most an eighth too high, and counts only new connections. */
		EXPECT_GE(all[0].connect_p99_us, 1000U);
		EXPECT_LE(all[0].connect_p99_us, 1125U);
		EXPECT_GE(all[1].connect_p99_us, 1'000'000U);
		EXPECT_EQ(all[2].connect_p99_us, 0U);
	});
}

/* Otherwise those that reloads have removed would accumulate while nobody reads snapshots. */
TEST(History, ForgetsCountersThatAreNotInUse)
{
	sn::run([] {
		relay::registry registry;
		std::weak_ptr<relay::listener_counters> listener;
		std::weak_ptr<relay::backend_counters> backend;
		std::weak_ptr<relay::group_counters> group;
		{
			relay::registry::generation first(registry);
			listener = first.open_listener("a", "", {});
			backend = first.open_backend("g", {.address = "127.0.0.1:1"},
						     relay::checking::none, nullptr);
			group = first.open_group("g", 1);
			first.commit();
		}
		listener.lock()->to_client.bytes.add(100);
		registry.remember();
		EXPECT_FALSE(listener.expired());
		EXPECT_FALSE(backend.expired());
		EXPECT_FALSE(group.expired());
		relay::registry::generation(registry).commit();
		registry.remember();
		EXPECT_TRUE(listener.expired());
		EXPECT_TRUE(backend.expired());
		EXPECT_TRUE(group.expired());
		EXPECT_EQ(registry.past()->since(0).back().to_client, 100U);
	});
}

} // namespace
