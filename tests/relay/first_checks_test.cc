/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* Clients that wait for the first checks of backends, without connections. */
#include "backends/balance.hpp"
#include "backends/checker.hpp"
#include "backends/watcher.hpp"

#include "short_memory.hpp"
#include "support/runtime.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using relay::queue;

namespace
{

/* Backends of weight 1, the second one a backup, with checks that start with "down". */
struct checked_group {
	explicit checked_group(const std::vector<std::string> &addresses)
	{
		settings.check.interval = std::chrono::seconds(1);
		settings.check.fall = 1;
		settings.check.starts_down = true;
		for (const auto &each : addresses)
			settings.backends.push_back({each, 1});
		if (settings.backends.size() > 1)
			settings.backends[1].priority = 1;
		registry.set_ready(true);
	}
	/* A pool with the settings as they are now, not in effect yet. */
	std::shared_ptr<relay::pool> make()
	{
		next.emplace(registry);
		return std::make_shared<relay::pool>(settings, "g", *next);
	}
	void use(const std::shared_ptr<relay::pool> &made)
	{
		next->commit();
		relay::pool::lead(made);
	}
	static relay::endpoint &endpoint_of(relay::pool &of, std::size_t i)
	{
		return *of.backends()[i].endpoints.now()->front().at;
	}

	relay::registry registry;
	relay::group_config settings;
	std::optional<relay::registry::generation> next;
};

const auto refused = std::make_error_code(std::errc::connection_refused);
const relay::tried_endpoints untried;

/* Also one that has come while another backend, which is down by now, might have served it. */
TEST(FirstChecks, AllThatWaitInVainAreDismissed)
{
	checked_group g({"10.0.0.0:1", "10.0.0.1:1"});
	g.settings.queue.limit = 2;
	const auto made = g.make();
	g.use(made);
	auto &primary = g.endpoint_of(*made, 0);
	auto &backup = g.endpoint_of(*made, 1);
	made->checked(backup, {});
	relay::queued_choice first(0, untried);
	ASSERT_EQ(made->line().enter(first), queue::entry::waits);
	made->checked(backup, refused);
	relay::queued_choice second(0, untried);
	ASSERT_EQ(made->line().enter(second), queue::entry::waits);
	made->checked(primary, refused);
	EXPECT_EQ(made->line().look(first), queue::place::in_vain);
	EXPECT_EQ(made->line().look(second), queue::place::in_vain);
	EXPECT_FALSE(made->line().leave(first));
	EXPECT_FALSE(made->line().leave(second));
	EXPECT_EQ(made->line().waiting(), 0U);
	relay::queued_choice late(0, untried);
	EXPECT_EQ(made->line().enter(late), queue::entry::in_vain);
	EXPECT_TRUE(g.registry.read().ready);
}

/* The check ends between the newcomer's choice and its place in the queue. */
TEST(FirstChecks, ANewcomerMayWaitInVain)
{
	checked_group g({"10.0.0.0:1"});
	g.settings.queue.limit = 1;
	const auto made = g.make();
	g.use(made);
	relay::queued_choice before(0, untried);
	ASSERT_EQ(made->line().enter(before), queue::entry::waits);
	EXPECT_FALSE(made->line().leave(before));
	g.endpoint_of(*made, 0).counts.check = relay::checked::down;
	relay::queued_choice newcomer(0, untried);
	EXPECT_EQ(made->line().enter(newcomer), queue::entry::in_vain);
	EXPECT_FALSE(made->line().leave(newcomer));
	EXPECT_EQ(made->line().waiting(), 0U);
}

/* Nobody has looked at the queue between the lookup and the end of the check that it has led to. */
TEST(FirstChecks, AClientMayHaveComeBetweenALookupAndItsNews)
{
	checked_group g({"10.0.0.0:1", "b.example:1"});
	g.settings.queue.limit = 1;
	g.settings.backends[0].max_connections = 1;
	const auto made = g.make();
	made->backends()[1].endpoints.failed();
	g.use(made);
	auto &first = g.endpoint_of(*made, 0);
	made->checked(first, {});
	auto place = made->choose(0, {});
	ASSERT_TRUE(place);
	relay::queued_choice client(0, untried);
	ASSERT_EQ(made->line().enter(client), queue::entry::waits);
	made->backends()[1].endpoints.found({{"10.0.0.1:1"}});
	first.counts.check = relay::checked::down;
	made->checked(g.endpoint_of(*made, 1), refused);
	EXPECT_EQ(made->line().look(client), queue::place::in_vain);
	EXPECT_FALSE(made->line().leave(client));
}

/* Once a backend has passed, clients wait for it as for any that is full. */
TEST(FirstChecks, ClientsOfABackendThatHasPassedStay)
{
	checked_group g({"10.0.0.0:1"});
	g.settings.queue.limit = 1;
	g.settings.backends[0].max_connections = 1;
	const auto made = g.make();
	g.use(made);
	auto &only = g.endpoint_of(*made, 0);
	made->checked(only, {});
	auto taken = made->choose(0, {});
	ASSERT_TRUE(taken);
	relay::queued_choice client(0, untried);
	ASSERT_EQ(made->line().enter(client), queue::entry::waits);
	EXPECT_TRUE(made->checked(only, refused));
	EXPECT_EQ(made->line().look(client), queue::place::first);
	EXPECT_FALSE(made->line().leave(client));
}

TEST(FirstChecks, ANameMayStillBringABackend)
{
	checked_group g({"10.0.0.0:1", "b.example:1"});
	g.settings.queue.limit = 2;
	const auto made = g.make();
	g.use(made);
	auto &name = made->backends()[1].endpoints;
	relay::queued_choice client(0, untried);
	ASSERT_EQ(made->line().enter(client), queue::entry::waits);
	made->checked(g.endpoint_of(*made, 0), refused);
	EXPECT_EQ(made->line().look(client), queue::place::first);
	EXPECT_FALSE(made->has_other({}));
	EXPECT_TRUE(made->may_get_other({}));
	EXPECT_FALSE(g.registry.read().ready);

	name.found({{"10.0.0.1:1"}});
	made->line().changed();
	EXPECT_EQ(made->line().look(client), queue::place::first);
	made->checked(g.endpoint_of(*made, 1), refused);
	EXPECT_EQ(made->line().look(client), queue::place::in_vain);
	EXPECT_FALSE(made->may_get_other({}));
	EXPECT_TRUE(g.registry.read().ready);
}

TEST(FirstChecks, ABackupWaitsForTheNameOfThePrimary)
{
	checked_group g({"a.example:1", "10.0.0.1:1"});
	const auto made = g.make();
	g.use(made);
	made->checked(g.endpoint_of(*made, 1), {});
	EXPECT_FALSE(made->choose(0, {}));
	EXPECT_TRUE(made->awaits_first_checks({}));
	made->backends()[0].endpoints.failed();
	EXPECT_TRUE(made->choose(0, {}));
}

/* Nothing would change after that by which the relay could notice it. */
TEST(FirstChecks, AreOverAlsoWithoutMemory)
{
	checked_group g({"a.example:1", "10.0.0.1:1"});
	g.settings.queue.limit = 1;
	const auto made = g.make();
	g.use(made);
	made->backends()[0].endpoints.found({{"10.0.0.0:1"}});
	made->line().changed();
	made->checked(g.endpoint_of(*made, 1), refused);
	relay::queued_choice client(0, untried);
	ASSERT_EQ(made->line().enter(client), queue::entry::waits);
	auto &last = g.endpoint_of(*made, 0);
	is_memory_short = true;
	made->checked(last, refused);
	is_memory_short = false;
	EXPECT_EQ(made->line().look(client), queue::place::in_vain);
	EXPECT_TRUE(g.registry.read().ready);
}

/* Checks for which there is no memory, and none for the event that says so either. */
class no_checks final : public relay::watcher::work
{
	void watch(relay::backend &, const std::atomic<bool> &) override { throw std::bad_alloc(); }
	void given_up(relay::pool &of) noexcept override { of.unchecked(); }
	void tell_ended(const relay::pool &, const char *) override { throw std::bad_alloc(); }
};

TEST(FirstChecks, AreNotAwaitedIfTheyEndForLackOfMemory)
{
	checked_group g({"10.0.0.0:1"});
	const auto made = g.make();
	g.use(made);
	EXPECT_FALSE(made->choose(0, {}));
	EXPECT_EQ(sn::run([&] {
			  relay::watcher all(made, std::make_unique<no_checks>(), "check");
			  EXPECT_TRUE(all.over(sn::after(std::chrono::seconds(20))));
			  return 0;
		  }),
		  0);
	EXPECT_TRUE(made->choose(0, {}));
	EXPECT_TRUE(g.registry.read().ready);
}

/* Checks may be turned off while one is under way. Its result is not counted anywhere. */
TEST(Checks, ThatAreTurnedOffDoNotCount)
{
	EXPECT_EQ(sn::run([] {
			  auto door = sn::tcp_listener::listen("127.0.0.1:0").value();
			  door.set_deadline(sn::after(std::chrono::seconds(40)));
			  checked_group g({door.address().value()});
			  g.settings.check.interval = std::chrono::milliseconds(1);
			  g.settings.check.timeout = std::chrono::seconds(40);
			  g.settings.check.http = "GET /";
			  const auto made = g.make();
			  g.use(made);
			  relay::counters counts;
			  relay::sessions none;
			  const auto checks = relay::watch_health(made, counts, none, {});
			  /* One check is made at a time, so all but the last have their result. */
			  const auto fail = [&door](int times) {
				  for (int i = 0; i < times; i++)
					  EXPECT_TRUE(door.accept());
			  };
			  for (const bool are_used : {false, true}) {
				  made->backends()[0].endpoints.use_checks(are_used);
				  fail(3);
				  EXPECT_EQ(counts.check_failures.get() > 0, are_used);
				  EXPECT_EQ(counts.check_failures.get(),
					    g.endpoint_of(*made, 0).counts.check_failures.get());
			  }
			  checks->stop();
			  EXPECT_TRUE(checks->over(sn::after(std::chrono::seconds(20))));
			  return 0;
		  }),
		  0);
}

/* The checks of a pool can end before it takes effect. */
TEST(FirstChecks, AreNotAwaitedWithoutChecks)
{
	checked_group g({"10.0.0.0:1"});
	const auto made = g.make();
	made->unchecked();
	g.use(made);
	const auto now = g.registry.read();
	EXPECT_TRUE(now.ready);
	EXPECT_FALSE(now.backends.front().awaits_check);
	EXPECT_TRUE(made->choose(0, {}));
}

/* A reload can remove the group while clients wait. What is known stays. */
TEST(FirstChecks, AreNotAwaitedOfAGroupThatIsRemoved)
{
	for (const bool may_wait : {true, false}) {
		checked_group g({"10.0.0.0:1", "10.0.0.1:1", "c.example:1"});
		g.settings.check.starts_down = may_wait;
		g.settings.backends[0].max_connections = 1;
		g.settings.queue.limit = 2;
		const auto made = g.make();
		g.use(made);
		made->checked(g.endpoint_of(*made, 0), {});
		made->checked(g.endpoint_of(*made, 1), refused);
		auto place = made->choose(0, {});
		const relay::tried_endpoints tried{place.get()};
		relay::queued_choice first(0, untried), second(0, tried);
		ASSERT_EQ(made->line().enter(first), queue::entry::waits);
		ASSERT_EQ(made->line().enter(second), queue::entry::waits);
		EXPECT_FALSE(made->choose(0, tried));
		made->end_watching();
		EXPECT_EQ(made->line().look(first), queue::place::first);
		EXPECT_EQ(made->line().look(second), queue::place::in_vain);
		EXPECT_FALSE(made->choose(0, tried)) << "it is down";
		place = {};
		EXPECT_EQ(made->line().look(first), queue::place::given);
		EXPECT_TRUE(made->line().leave(first));
	}
}

/* Its latest pool serves those that came by an earlier one, although nobody else uses it. */
TEST(FirstChecks, AnEarlierPoolOwnsTheLatestOfAGroupThatIsRemoved)
{
	checked_group g({"10.0.0.0:1", "10.0.0.1:1"});
	g.settings.check.starts_down = false;
	g.settings.backends[0].max_connections = 1;
	g.settings.queue.limit = 2;
	auto first = g.make();
	g.use(first);
	first->checked(g.endpoint_of(*first, 0), {});
	first->checked(g.endpoint_of(*first, 1), refused);
	auto place = first->choose(0, {});
	const relay::tried_endpoints tried{place.get()};
	relay::queued_choice client(0, untried), late(0, tried);
	ASSERT_EQ(first->line().enter(client), queue::entry::waits);

	auto second = g.make();
	g.use(second);
	auto third = g.make();
	g.use(third);
	third->end_watching();
	const std::weak_ptr<relay::pool> between(second), latest(third);
	second.reset();
	third.reset();
	EXPECT_TRUE(between.expired());
	EXPECT_EQ(first->successor(), latest.lock());
	EXPECT_EQ(first->line().enter(late), queue::entry::in_vain);
	place = {};
	EXPECT_EQ(first->line().look(client), queue::place::given);
	EXPECT_TRUE(first->line().leave(client));
	client.of.reset();
	client.got = {};
	first.reset();
	EXPECT_TRUE(latest.expired());
}

/* A check may have been under way when its group was removed. */
TEST(FirstChecks, AnAnswerAfterTheRemovalOfAGroupCounts)
{
	checked_group g({"10.0.0.0:1"});
	g.settings.check.starts_down = false;
	g.settings.backends[0].max_connections = 1;
	g.settings.queue.limit = 1;
	const auto made = g.make();
	g.use(made);
	auto &only = g.endpoint_of(*made, 0);
	made->checked(only, {});
	auto place = made->choose(0, {});
	relay::queued_choice client(0, untried);
	ASSERT_EQ(made->line().enter(client), queue::entry::waits);
	made->end_watching();
	EXPECT_EQ(made->line().look(client), queue::place::first) << "it is full";
	EXPECT_TRUE(made->checked(only, refused));
	EXPECT_EQ(made->line().look(client), queue::place::in_vain);
	EXPECT_FALSE(made->line().leave(client));
}

/* The check had begun when the address was gone from its name, and has returned. */
TEST(FirstChecks, OfBeforeAnAddressHasReturnedDoNotCount)
{
	checked_group g({"a.example:1"});
	const auto made = g.make();
	g.use(made);
	auto &name = made->backends()[0].endpoints;
	name.found({{"10.0.0.1:1"}});
	auto &only = g.endpoint_of(*made, 0);
	const auto kept = name.now(); /* as a connection of the address would */
	const std::uint64_t before = only.returns;
	name.found({{"10.0.0.2:1"}});
	name.found({{"10.0.0.1:1"}});
	ASSERT_EQ(&g.endpoint_of(*made, 0), &only);
	EXPECT_FALSE(made->checked(only, {}, before));
	EXPECT_FALSE(made->checked(only, refused, before));
	EXPECT_FALSE(made->not_checked(only, refused, before));
	EXPECT_EQ(only.counts.check, relay::checked::unknown);
	EXPECT_EQ(only.counts.last_error, 0);
	EXPECT_EQ(only.counts.checks.get(), 0U);
	EXPECT_TRUE(made->not_checked(only, refused, only.returns));
	EXPECT_FALSE(made->checked(only, {}, only.returns));
	EXPECT_EQ(only.counts.check, relay::checked::up);
}

/* An answer is recorded before an address returns or after that, but not during it. */
TEST(FirstChecks, AnAnswerAndAReturnExcludeEachOther)
{
	checked_group g({"a.example:1"});
	const auto made = g.make();
	g.use(made);
	auto &name = made->backends()[0].endpoints;
	name.found({{"10.0.0.1:1"}});
	const auto kept = name.now();
	auto &only = *kept->front().at;
	const std::uint64_t before = only.returns;
	std::atomic<int> ended{0};
	std::unique_lock lock(only.results);
	std::thread checking([&] {
		made->checked(only, {}, before);
		ended++;
	});
	std::thread looking_up([&] {
		name.found({{"10.0.0.2:1"}});
		name.found({{"10.0.0.1:1"}});
		ended++;
	});
	/* The time is enough for what would be wrong. */
	for (const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
	     ended == 0 && std::chrono::steady_clock::now() < until;)
		std::this_thread::yield();
	EXPECT_EQ(ended, 0);
	EXPECT_EQ(only.returns, before);
	EXPECT_EQ(only.counts.check, relay::checked::unknown);
	lock.unlock();
	checking.join();
	looking_up.join();
	EXPECT_EQ(only.returns, before + 1);
	EXPECT_EQ(only.counts.check, relay::checked::unknown);
}

/* A reload that is rejected because its checks have ended changes nothing. */
TEST(FirstChecks, OfAPoolThatDoesNotLeadChangeNothing)
{
	checked_group g({"10.0.0.0:1"});
	const auto live = g.make();
	g.use(live);
	live->checked(g.endpoint_of(*live, 0), {});
	g.make()->unchecked();
	EXPECT_EQ(g.registry.read().backends.front().state, relay::health::up);
	EXPECT_TRUE(live->choose(0, {}));
	live->unchecked();
	EXPECT_EQ(g.registry.read().backends.front().state, relay::health::unknown);
	EXPECT_TRUE(live->choose(0, {}));
}

/* Only those that clients would wait for, and nobody need look in between. */
TEST(FirstChecks, OfNewBackendsDoNotMakeTheRelayUnready)
{
	checked_group g({"10.0.0.0:1", "10.0.0.1:1"});
	g.settings.backends.push_back({"10.0.0.2:1", 0});
	const auto first = g.make();
	g.use(first);
	EXPECT_TRUE(first->awaits_first_checks({}));
	first->checked(g.endpoint_of(*first, 0), {});
	EXPECT_FALSE(first->awaits_first_checks({})) << "a backup, and one of weight 0";

	g.settings.backends.push_back({"10.0.0.3:1", 1});
	const auto second = g.make();
	g.use(second);
	EXPECT_TRUE(second->awaits_first_checks({}));
	EXPECT_TRUE(g.registry.read().ready);
}

TEST(FirstChecks, AreSeenOfABackendThatReturnsSlowly)
{
	checked_group g({"10.0.0.0:1"});
	const auto made = g.make();
	g.use(made);
	g.endpoint_of(*made, 0).counts.slow_until = INT64_MAX;
	const auto now = g.registry.read().backends.front();
	EXPECT_EQ(now.state, relay::health::unknown);
	EXPECT_TRUE(now.awaits_check);
}

} // namespace
