/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * The queue of a group together with its endpoints, without connections: which client gets which
 * place, while clients arrive and leave, and backends and their limits change. There is no periodic
 * look at the queue here, so a client that is forgotten stays forgotten.
 */
#include "backends/balance.hpp"
#include "harness.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <string>
#include <utility>
#include <vector>

using relay::queue;

namespace
{

const auto refused = std::make_error_code(std::errc::connection_refused);

/* A group, its current pool, and its clients, which the test treats as sessions do. */
class group
{
public:
	explicit group(const relay::group_config &first) { reload(first); }

	void reload(const relay::group_config &next)
	{
		auto both = std::make_shared<configured>(next, counts_);
		pool_ = std::shared_ptr<relay::pool>(both, &both->made);
		both->opened.commit();
		relay::pool::lead(pool_);
	}
	relay::pool &pool() const { return *pool_; }
	const std::shared_ptr<relay::pool> &shared() const { return pool_; }
	queue &line() const { return pool_->line(); }
	const relay::registry &counts() const { return counts_; }
	std::shared_ptr<relay::endpoint> at(std::size_t backend) const
	{
		return pool_->backends()[backend].endpoints.now()->front().at;
	}

private:
	struct configured {
		configured(const relay::group_config &says, relay::registry &counts)
		    : settings(says), opened(counts), made(settings, "g", opened)
		{
		}
		const relay::group_config settings;
		relay::registry::generation opened;
		relay::pool made;
	};

	relay::registry counts_;
	std::shared_ptr<relay::pool> pool_;
};

class client
{
public:
	explicit client(const group &of, std::uint64_t from = 0,
			relay::tried_endpoints in_vain = {})
	    : pool_(of.shared()), source(from), tried(std::move(in_vain))
	{
	}
	~client() { leave(); }

	/* Does what session::take_place() does. Returns nothing if no backend is left for the
	 * client. */
	std::optional<queue::entry> come()
	{
		got = pool_->choose_in_turn(source, tried);
		if (got)
			return queue::entry::served;
		if (!pool_->has_other(tried))
			return std::nullopt;
		waits_.emplace(source, tried);
		const auto entered = pool_->line().enter(*waits_);
		if (entered == queue::entry::served)
			take();
		else if (entered == queue::entry::full)
			waits_.reset();
		return entered;
	}
	/* Whether the client has been given a place since then. */
	bool is_given()
	{
		if (!waits_ || pool_->line().look(*waits_) != queue::place::given)
			return false;
		leave();
		return true;
	}
	bool waits() const { return waits_.has_value(); }
	/* Leaves, with the place if it was given one just before. */
	void leave()
	{
		if (!waits_)
			return;
		if (pool_->line().leave(*waits_))
			take();
		else
			waits_.reset();
	}
	bool hears(std::chrono::nanoseconds within) const
	{
		return sn_chan_recv_until(waits_->rings.chan(), nullptr,
					  sn_now() + within.count()) == 0;
	}

private:
	void take()
	{
		later_ = std::move(waits_->of);
		got = std::move(waits_->got);
		waits_.reset();
	}

	std::shared_ptr<relay::pool> pool_;
	std::shared_ptr<relay::pool> later_;

public:
	const std::uint64_t source;
	const relay::tried_endpoints tried;
	relay::ticket got;

private:
	std::optional<relay::queued_choice> waits_;
};

relay::group_config settings_of(const std::vector<relay::backend_config> &backends)
{
	relay::group_config made;
	made.backends = backends;
	made.eject_after = 1;
	made.eject_for = std::chrono::hours(1);
	made.slow_return = {};
	made.check.interval = std::chrono::seconds(1);
	made.check.rise = made.check.fall = 1;
	return made;
}

/* The first backend is full, and the second is a backup. */
const std::vector<relay::backend_config> with_backup = {
	{.address = "10.0.0.1:1", .max_connections = 1},
	{.address = "10.0.0.2:1", .max_connections = 1, .priority = 1}};

void in_task(const std::function<void()> &what)
{
	EXPECT_EQ(sn::run([&] {
			  what();
			  return 0;
		  }),
		  0);
}

TEST(Places, OfABackupAreGivenAtOnceWhenTheFirstIsDown)
{
	in_task([] {
		const group g(settings_of(with_backup));
		client first(g);
		client second(g);
		ASSERT_EQ(first.come(), queue::entry::served);
		ASSERT_EQ(second.come(), queue::entry::waits) << "for the first backend";
		EXPECT_TRUE(g.pool().checked(*g.at(0), refused));
		ASSERT_TRUE(second.is_given());
		EXPECT_EQ(second.got.get(), g.at(1));
	});
}

TEST(Places, OfABackupAreGivenAtOnceWhenTheFirstIsEjected)
{
	in_task([] {
		const group g(settings_of(with_backup));
		client first(g);
		client second(g);
		ASSERT_EQ(first.come(), queue::entry::served);
		ASSERT_EQ(second.come(), queue::entry::waits);
		EXPECT_TRUE(g.pool().failed(*g.at(0)));
		ASSERT_TRUE(second.is_given());
		EXPECT_EQ(second.got.get(), g.at(1));
	});
}

/* The waiting clients do not take the backup's place, so it goes to a client that has no other
 * choice. */
TEST(Places, ThatOthersDoNotTakeAreGivenBesideThem)
{
	in_task([] {
		const group g(settings_of(with_backup));
		client first(g);
		client second(g);
		client third(g, 0, {g.at(0)});
		client fourth(g, 0, {g.at(0)});
		ASSERT_EQ(first.come(), queue::entry::served);
		ASSERT_EQ(second.come(), queue::entry::waits);
		ASSERT_EQ(third.come(), queue::entry::served) << "it has tried the first one";
		EXPECT_EQ(third.got.get(), g.at(1));
		ASSERT_EQ(fourth.come(), queue::entry::waits);
		third.got = {};
		EXPECT_TRUE(fourth.is_given());
		EXPECT_FALSE(second.is_given());
		first.got = {};
		EXPECT_TRUE(second.is_given());
	});
}

/* ---- at random ---------------------------------------------------------------------------- */

constexpr std::uint64_t most_places = 3;

class random_world
{
public:
	explicit random_world(std::uint64_t seed) : random_(seed), g_(next_settings())
	{
		resolve();
	}

	std::size_t below(std::size_t n) { return random_() % n; }

	relay::group_config next_settings()
	{
		auto made = settings_of({{.address = "backend.test:1"},
					 {.address = "10.0.1.1:1"},
					 {.address = "10.0.1.2:1"}});
		for (auto &each : made.backends) {
			each.weight = static_cast<std::uint32_t>(below(3));
			each.priority = static_cast<std::uint32_t>(below(2));
			each.max_connections = 1 + below(most_places);
		}
		made.balance = static_cast<relay::balancing>(below(4));
		made.queue.limit = 2 + below(20);
		return made;
	}
	void reload() { g_.reload(next_settings()); }

	/* Changes the addresses, as the resolver does. */
	void resolve()
	{
		relay::found_endpoints found;
		while (found.empty())
			for (int i = 0; i < 5; i++)
				if (below(2))
					found.push_back({"10.0.2." + std::to_string(i) + ":1",
							 static_cast<std::uint32_t>(below(3)),
							 static_cast<std::uint32_t>(below(2))});
		g_.pool().backends()[0].endpoints.found(std::move(found));
		g_.line().changed();
	}
	std::shared_ptr<relay::endpoint> any_endpoint()
	{
		const auto list = g_.pool().backends()[below(3)].endpoints.now();
		return (*list)[below(list->size())].at;
	}
	void check() { g_.pool().checked(*any_endpoint(), below(2) ? refused : std::error_code()); }
	void eject() { g_.pool().failed(*any_endpoint()); }
	/* Time passes until an ejection ends, and the first client of the queue notices. */
	void end_ejection()
	{
		auto &its = any_endpoint()->counts;
		its.ejected_until = its.slow_until = 0;
		g_.line().changed();
	}
	relay::tried_endpoints some_tried()
	{
		relay::tried_endpoints tried;
		for (std::size_t n = below(3) ? 0 : 1 + below(3); n > 0; n--) {
			auto one = any_endpoint();
			if (std::ranges::find(tried, one) == tried.end())
				tried.push_back(std::move(one));
		}
		return tried;
	}
	group &its() { return g_; }

private:
	std::mt19937_64 random_;
	group g_;
};

struct open_place {
	std::shared_ptr<relay::endpoint> at;
	std::uint64_t most;
};

/* A second implementation of the rules in balance.hpp: the endpoints with room for a client that
 * has tried these. */
std::vector<open_place> open_places(const relay::pool &of, const relay::tried_endpoints &tried)
{
	struct seen {
		open_place place;
		std::pair<std::uint32_t, std::uint32_t> priority;
		bool is_ejected;
	};
	std::vector<seen> all;
	for (const auto &backend : of.backends())
		for (const auto &each : *backend.endpoints.now())
			if (backend.settings.weight != 0 &&
			    each.at->counts.check != relay::checked::down &&
			    std::ranges::find(tried, each.at) == tried.end())
				all.push_back({{each.at, backend.settings.max_connections},
					       {backend.settings.priority, each.priority},
					       each.at->counts.ejected_until > sn_now()});
	if (std::ranges::any_of(all, [](const seen &each) { return !each.is_ejected; }))
		std::erase_if(all, [](const seen &each) { return each.is_ejected; });
	std::vector<open_place> open;
	if (all.empty())
		return open;
	const auto first = std::ranges::min(all, {}, &seen::priority).priority;
	for (const seen &each : all)
		if (each.priority == first && each.place.at->counts.active < each.place.most)
			open.push_back(each.place);
	return open;
}

/* One step at a time; after each step everything is checked. */
class serial_world : random_world
{
public:
	using random_world::random_world;

	void step()
	{
		const std::size_t what = below(100);
		if (what < 45)
			come();
		else if (what < 70)
			finish();
		else if (what < 76)
			give_up();
		else if (what < 80)
			reload();
		else if (what < 86)
			resolve();
		else if (what < 93)
			check();
		else if (what < 96)
			eject();
		else
			end_ejection();
		note_given();
		see_that_nobody_is_forgotten();
	}
	/* Called after the last step. */
	void end()
	{
		waiting_.clear();
		served_.clear();
		EXPECT_TRUE(its().line().is_empty());
		EXPECT_EQ(its().counts().read().backends.size(), 3U);
		see_counters();
		its().pool().backends()[0].endpoints.found({{"10.0.3.1:1"}});
		EXPECT_EQ(its().counts().read().backends[0].endpoints.size(), 1U);
	}
	void see_counters()
	{
		std::uint64_t active = 0;
		const auto now = its().counts().read();
		for (const auto &each : now.backends)
			active += each.active;
		EXPECT_EQ(active, served_.size());
		EXPECT_EQ(now.groups.at(0).queued, waiting_.size());
	}
	std::size_t waited() const { return waited_; }

private:
	void come()
	{
		auto tried = some_tried();
		const auto open = open_places(its().pool(), tried);
		std::list<client> one;
		client &made = one.emplace_back(its(), below(100), tried);
		const auto entered = made.come();
		if (!entered || *entered == queue::entry::full) {
			EXPECT_TRUE(open.empty())
				<< "the client was refused although there was a place";
			if (entered) {
				EXPECT_GE(waiting_.size(), its().pool().settings().queue.limit);
			}
		} else if (*entered == queue::entry::served) {
			see_given(made, open);
			served_.splice(served_.end(), one);
		} else {
			waiting_.splice(waiting_.end(), one);
			waited_++;
		}
	}
	void finish()
	{
		if (!served_.empty())
			served_.erase(any_of(served_));
	}
	void give_up()
	{
		if (!waiting_.empty())
			waiting_.erase(any_of(waiting_));
	}
	std::list<client>::iterator any_of(std::list<client> &all)
	{
		return std::next(all.begin(), static_cast<std::ptrdiff_t>(below(all.size())));
	}

	/* Checks that the client may have the place, and that no client before it could have had
	 * it. */
	void see_given(client &who, const std::vector<open_place> &open)
	{
		const auto found = std::ranges::find(open, who.got.get(), &open_place::at);
		ASSERT_NE(found, open.end());
		EXPECT_LE(who.got->counts.active, found->most);
	}
	void note_given()
	{
		for (auto each = waiting_.begin(); each != waiting_.end();) {
			const auto next = std::next(each);
			if (each->is_given()) {
				EXPECT_LE(each->got->counts.active, most_places);
				for (auto before = waiting_.begin(); before != each; ++before)
					EXPECT_FALSE(could_have(*before, *each))
						<< "the client has overtaken another one";
				served_.splice(served_.end(), waiting_, each);
			}
			each = next;
		}
	}
	/* Whether the first client, which still waits, could use the place that the second one
	 * got. */
	bool could_have(const client &former, client &latter)
	{
		latter.got->counts.active--;
		const auto open = open_places(its().pool(), former.tried);
		latter.got->counts.active++;
		return std::ranges::find(open, latter.got.get(), &open_place::at) != open.end();
	}
	void see_that_nobody_is_forgotten()
	{
		EXPECT_EQ(its().line().waiting(), waiting_.size());
		for (const client &each : waiting_)
			EXPECT_TRUE(open_places(its().pool(), each.tried).empty())
				<< "the client waits although there is a place";
	}

	std::list<client> waiting_; /* in the order of their arrival */
	std::list<client> served_;
	std::size_t waited_ = 0;
};

TEST(Places, AreGivenInTurnWhateverChanges)
{
	std::size_t waited = 0;
	for (std::size_t round = 0; round < harness::scaled(100) && !HasFailure(); round++)
		in_task([&] {
			const std::uint64_t seed = harness::seed() + round;
			SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(seed));
			serial_world world(seed);
			for (int i = 0; i < 400 && !HasFailure(); i++) {
				world.step();
				if (i % 50 == 0)
					world.see_counters();
			}
			world.end();
			waited += world.waited();
		});
	EXPECT_GT(waited, 0U);
}

/* All steps run at the same time. If a client is never woken, the test fails. */
TEST(Places, AreNotLostAmongManyTasks)
{
	constexpr std::size_t clients = 12;
	const std::size_t rounds = harness::scaled(3000);
	const std::uint64_t seed = harness::seed();
	SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(seed));
	std::atomic<std::size_t> running{clients};
	std::atomic<std::size_t> served{0};
	std::atomic<std::size_t> waited{0};
	std::mutex latest; /* guards the pool that newcomers use */
	in_task([&] {
		random_world world(seed);
		auto &line = world.its().line();
		const auto live = [&](std::size_t number) {
			std::mt19937_64 random(seed + 1 + number);
			for (std::size_t i = 0; i < rounds; i++) {
				std::optional<client> one;
				{
					const std::lock_guard lock(latest);
					one.emplace(world.its(), random() % 100,
						    random() % 4 ? relay::tried_endpoints()
								 : world.some_tried());
				}
				const auto entered = one->come();
				if (!entered)
					sn::sleep(std::chrono::microseconds(20));
				if (entered == queue::entry::waits) {
					waited++;
					const bool is_patient = random() % 4 != 0;
					while (is_patient && !one->is_given())
						ASSERT_TRUE(one->hears(std::chrono::minutes(1)))
							<< "the client was not woken";
					one->leave();
				}
				if (!one->got)
					continue;
				EXPECT_LE(one->got->counts.active, most_places);
				served++;
				for (std::size_t n = random() % 3; n > 0; n--)
					sn::yield();
			}
		};
		std::vector<sn::task<void>> tasks;
		for (std::size_t i = 0; i < clients; i++)
			tasks.push_back(sn::spawn([&, i] {
				live(i);
				running--;
			}));
		while (running > 0) {
			{
				const std::lock_guard lock(latest);
				switch (world.below(5)) {
				case 0:
					world.reload();
					break;
				case 1:
					world.resolve();
					break;
				case 2:
					world.eject();
					break;
				case 3:
					world.end_ejection();
					break;
				default:
					world.check();
					break;
				}
			}
			sn::sleep(std::chrono::microseconds(50));
		}
		for (auto &each : tasks)
			each.join();
		EXPECT_TRUE(line.is_empty());
		for (const auto &each : world.its().counts().read().backends)
			EXPECT_EQ(each.active, 0U);
	});
	EXPECT_GT(served, 0U);
	EXPECT_GT(waited, 0U);
}

} // namespace
