/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* The visits of endpoints for checks and agents: when they are made, without connections. */
#include "backends/visitor.hpp"

#include "short_memory.hpp"
#include "support/runtime.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>

namespace
{

constexpr const char *first = "10.0.0.1:80";
constexpr const char *second = "10.0.0.2:80";

/* Visits that only count those of the first address. All are urgent. */
class counted_visits final : public relay::visitor
{
public:
	explicit counted_visits(
		std::chrono::nanoseconds interval,
		std::function<void(const visit &)> during = [](const visit &) {})
	    : visitor(interval, "visit", "visits"), during_(std::move(during))
	{
	}
	void tell_ended(const relay::pool &, const char *) override {}
	/* Waits for so many visits, and returns how many there were. */
	int await(int most) const
	{
		for (const auto until = sn::after(std::chrono::seconds(20));
		     made_ < most && sn::now() < until;)
			sn::sleep(std::chrono::milliseconds(1));
		return made_;
	}

private:
	void go(const relay::backend_config &, visit &which) override
	{
		if (which.at().address == first)
			during_(which);
		made_ += which.at().address == first;
		which.end();
	}
	bool is_urgent(const relay::endpoint &) const override { return true; }

	const std::function<void(const visit &)> during_;
	std::atomic<int> made_{0};
};

/* A group whose only backend is a name with the first address. */
struct named_group {
	named_group()
	{
		settings.backends.push_back({.address = "backend.test:80"});
		relay::registry::generation next(registry);
		made = std::make_unique<relay::pool>(settings, "g", next);
		next.commit();
		its().found({{first}});
	}

	relay::backend &backend() { return made->backends().front(); }
	relay::endpoints &its() { return backend().endpoints; }

	relay::registry registry;
	relay::group_config settings;
	std::unique_ptr<relay::pool> made;
	std::atomic<bool> is_new{true};
};

/* Also if the address was gone for such a short time that nobody has noticed. */
TEST(Visits, OfAnAddressThatReturnsAreMadeAtOnce)
{
	EXPECT_EQ(sn::run([] {
			  named_group g;
			  g.its().start_down(true);
			  counted_visits visits(std::chrono::hours(1));
			  const std::atomic<bool> stopped{false};
			  sn::scope watching;
			  watching.go([&] { visits.watch(g.backend(), stopped); });
			  EXPECT_EQ(visits.await(1), 1);
			  for (int times = 2; times < 5; times++) {
				  g.its().found({{second}});
				  g.its().found({{first}});
				  EXPECT_EQ(visits.await(times), times);
			  }
			  return 0;
		  }),
		  0);
}

/* Also before the backend's task has noticed, which only starts another one. */
TEST(Visits, DoNotCountOnceTheAddressHasReturned)
{
	EXPECT_EQ(sn::run([] {
			  named_group g;
			  g.its().start_down(true);
			  counted_visits visits(std::chrono::hours(1), [&g](const auto &its) {
				  if (g.is_new.exchange(false)) {
					  EXPECT_TRUE(its.counts());
					  g.its().found({{second}});
					  g.its().found({{first}});
					  EXPECT_FALSE(its.counts());
				  }
			  });
			  const std::atomic<bool> stopped{false};
			  sn::scope watching;
			  watching.go([&] { visits.watch(g.backend(), stopped); });
			  EXPECT_EQ(visits.await(2), 2);
			  return 0;
		  }),
		  0);
}

/* There is no memory for the event that says so either. */
TEST(Visits, GoOnAfterALackOfMemory)
{
#if TEST_ASAN || TEST_TSAN
	GTEST_SKIP() << "the sanitizer allocates the memory";
#endif
	EXPECT_EQ(sn::run([] {
			  named_group g;
			  counted_visits visits(std::chrono::milliseconds(20));
			  const std::atomic<bool> stopped{false};
			  sn::scope watching;
			  watching.go([&] { visits.watch(g.backend(), stopped); });
			  EXPECT_GE(visits.await(1), 1);
			  /* Other addresses need new plans. If these were made before memory was
			   * short, others come. */
			  bool has_second = false;
			  for (const auto until = sn::after(std::chrono::seconds(20));
			       allocations_refused < 4 && sn::now() < until;) {
				  has_second = !has_second;
				  g.its().found(has_second
							? relay::found_endpoints{{first}, {second}}
							: relay::found_endpoints{{first}});
				  is_memory_short = true;
				  sn::sleep(std::chrono::milliseconds(300));
				  is_memory_short = false;
			  }
			  EXPECT_GE(allocations_refused, 4);
			  const int before = visits.await(0);
			  EXPECT_GE(visits.await(before + 3), before + 3);
			  return 0;
		  }),
		  0);
}

/* Each visit wakes the task that starts them. If it compared the addresses with its plans then, a
 * name with hundreds of addresses would keep it busy. */
TEST(Visits, LookAtTheAddressesOnlyIfTheyHaveChanged)
{
#if TEST_ASAN || TEST_TSAN
	GTEST_SKIP() << "allocations are not counted";
#endif
	EXPECT_EQ(sn::run([] {
			  named_group g;
			  relay::found_endpoints many{{first}};
			  for (int i = 1; i <= 250; i++)
				  many.push_back({"10.0.1." + std::to_string(i) + ":80"});
			  g.its().found(many);
			  /* That of the new plans. */
			  counted_size = many.size() * sizeof(std::shared_ptr<int>);
			  counted_visits visits(std::chrono::milliseconds(100));
			  const std::atomic<bool> stopped{false};
			  sn::scope watching;
			  watching.go([&] { visits.watch(g.backend(), stopped); });
			  EXPECT_GE(visits.await(3), 3);
			  EXPECT_EQ(allocations_counted, 1);
			  many.pop_back();
			  counted_size = many.size() * sizeof(std::shared_ptr<int>);
			  g.its().found(many);
			  const int before = visits.await(0);
			  EXPECT_GE(visits.await(before + 3), before + 3);
			  EXPECT_GE(allocations_counted, 2);
			  EXPECT_LE(allocations_counted, 3) << "once more if it looked in between";
			  counted_size = 0;
			  return 0;
		  }),
		  0);
}

} // namespace
