/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * Waits and sleeps of the relay while there is no memory for timers. The linker leads the library's
 * calls that start a timer here (--wrap).
 */
#include "base/client_wait.hpp"
#include "base/sleep.hpp"
#include "base/untimed.hpp"
#include "harness.hpp"
#include "support/runtime.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <gtest/gtest.h>
#include <sys/socket.h>

using namespace harness;

namespace
{

std::atomic<bool> is_short{false};
std::atomic<std::int64_t> refused{0};

/* Those that would have started in more than ten minutes. */
std::atomic<std::int64_t> refused_long{0};

bool may_start(std::int64_t when)
{
	if (!is_short)
		return true;
	refused++;
	refused_long += when > sn_now() + 600'000'000'000;
	return false;
}

} // namespace

extern "C" {

/* Names of the linker, and those of timer.h. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
int __real_sn_timer_start(void *self, void *timer, std::int64_t when);
int __wrap_sn_timer_start(void *self, void *timer, std::int64_t when);

int __wrap_sn_timer_start(void *self, void *timer, std::int64_t when)
{
	return may_start(when) ? __real_sn_timer_start(self, timer, when) : -ENOMEM;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
}

namespace
{

using relay::woken;

/* A client's connection. */
struct connection {
	connection()
	{
		int both[2];
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
		client = peer(both[0]);
		accepted = peer(both[1]);
	}
	relay::waiting_client waits() const
	{
		return {.fd = accepted.fd(), .has_sent = true, .leaves_by_half_close = false};
	}

	peer client, accepted;
};

/* Runs the body without timers. */
void run_short(const std::function<void()> &body)
{
	test::run({1, 2, 4}, [&] {
		is_short = true;
		body();
		is_short = false;
	});
}

/* Waits until a task has failed to get a timer. */
void await_refusal()
{
	for (const auto before = refused.load(); refused == before;)
		sn_yield();
}

TEST(Untimed, SleepsLastUntilTheirTime)
{
	run_short([] {
		for (const auto time : {1ms, 30ms, 250ms}) {
			const auto then = sn::after(time);
			relay::sleep_fully_until(then);
			EXPECT_GE(sn::now(), then);
		}
		relay::sleep_fully(-1s);
	});
}

TEST(Untimed, WaitsLastUntilTheirTime)
{
	run_short([] {
		const connection open;
		relay::bell rings;
		const auto then = sn::after(250ms);
		EXPECT_EQ(relay::wait_for(rings, open.waits(), then), woken::late);
		EXPECT_GE(sn::now(), then);
	});
}

/* Also if another task keeps the time. */
TEST(Untimed, WaitsEndWithARing)
{
	run_short([] {
		const connection open;
		relay::bell first, second;
		std::atomic<int> rung{0};
		std::deque<test::Task> waiting;
		for (auto *each : {&first, &second})
			waiting.emplace_back([&open, &rung, each] {
				EXPECT_EQ(relay::wait_for(*each, open.waits(), sn::after(1h)),
					  woken::rung);
				rung++;
			});
		await_refusal();
		first.ring();
		EXPECT_EQ(waiting.front().join(), 0);
		EXPECT_EQ(rung, 1);
		await_refusal();
		second.ring();
		EXPECT_EQ(waiting.back().join(), 0);
	});
}

/* The wake-up of a wait that had no timer may come just as the wait ends. It is no ring. */
TEST(Untimed, AWakeUpIsNoRing)
{
	test::run({1, 4}, [] {
		const connection open;
		relay::bell rings;
		rings.wake();
		const auto then = sn::after(20ms);
		EXPECT_EQ(relay::wait_for(rings, open.waits(), then), woken::late);
		EXPECT_GE(sn::now(), then);
		rings.wake();
		rings.ring();
		EXPECT_EQ(relay::wait_for(rings, open.waits(), sn::after(1h)), woken::rung);
	});
}

TEST(Untimed, WaitsEndWhenTheClientLeaves)
{
	run_short([] {
		connection open;
		relay::bell rings;
		test::Task waiting([&] {
			EXPECT_EQ(relay::wait_for(rings, open.waits(), sn::after(1h)),
				  woken::client_left);
		});
		await_refusal();
		open.client.close();
		EXPECT_EQ(waiting.join(), 0);
	});
}

TEST(Untimed, EndsWithItsScope)
{
	run_short([] {
		for (const int tasks : {1, 3}) {
			sn::scope scope;
			std::atomic<int> ended{0};
			for (int i = 0; i < tasks; i++)
				scope.go([&ended] {
					relay::sleep_fully(1h);
					EXPECT_TRUE(sn::cancelled());
					ended++;
				});
			await_refusal();
			scope.cancel();
			static_cast<void>(scope.join());
			EXPECT_EQ(ended, tasks);
		}
	});
}

/* However many wait, one of them sleeps, a millisecond at a time; the others wake once in a tick,
 * and ask for a timer up to three times. */
TEST(Untimed, OneTaskKeepsTheTimeForAll)
{
	const int each = test::scaled(100);
	run_short([&] {
		const connection open;
		const auto before = refused.load();
		const auto begin = sn::now();
		const auto then = sn::after(300ms);
		std::deque<relay::bell> bells;
		std::deque<test::Task> tasks;
		for (int i = 0; i < each; i++) {
			tasks.emplace_back([then] { relay::sleep_fully_until(then); });
			auto &rings = bells.emplace_back();
			tasks.emplace_back([&rings, &open, then] {
				EXPECT_EQ(relay::wait_for(rings, open.waits(), then), woken::late);
			});
		}
		for (auto &task : tasks)
			EXPECT_EQ(task.join(), 0);
		const auto took = sn::now() - begin;
		const std::int64_t ticks = took / relay::untimed_wait::tick + 2;
		EXPECT_LE(refused - before, 2 * each * ticks * 3 + took / 1ms * 2);
	});
}

/* Short waits end at their own rate, and do not wake the others at it. */
TEST(Untimed, ShortWaitsWakeNoOthers)
{
	const int each = test::scaled(100);
	run_short([&] {
		const connection open;
		std::deque<relay::bell> bells;
		std::deque<test::Task> waiting, sleeping;
		for (int i = 0; i < 3; i++)
			sleeping.emplace_back([] {
				for (const auto end = sn::after(500ms); sn::now() < end;)
					relay::sleep_fully(2ms);
			});
		for (int i = 0; i < each; i++) {
			auto &rings = bells.emplace_back();
			waiting.emplace_back([&rings, &open] {
				EXPECT_EQ(relay::wait_for(rings, open.waits(), sn::after(1h)),
					  woken::rung);
			});
		}
		await_refusal();
		const auto before = refused_long.load();
		const auto begin = sn::now();
		for (auto &task : sleeping)
			EXPECT_EQ(task.join(), 0);
		const auto took = sn::now() - begin;
		const std::int64_t ticks = took / relay::untimed_wait::tick + 2;
		EXPECT_LE(refused_long - before, each * ticks + took / 1ms);
		for (auto &rings : bells)
			rings.ring();
		for (auto &task : waiting)
			EXPECT_EQ(task.join(), 0);
	});
}

/* Clients go on waiting as usual, and that there was a lack is counted once. */
TEST(Untimed, ALackIsCountedOnceAndEnds)
{
	test::run({1, 4}, [] {
		const connection open;
		std::deque<relay::bell> bells(10);
		std::deque<test::Task> waiting;
		is_short = true;
		relay::sleep_fully(2 * relay::untimed_wait::tick); /* begins the spell */
		const auto spells = relay::untimed_wait::spells();
		for (auto &rings : bells)
			waiting.emplace_back([&rings, &open] {
				EXPECT_EQ(relay::wait_for(rings, open.waits(), sn::after(1h)),
					  woken::rung);
			});
		await_refusal();
		is_short = false;
		/* A task may be about to be refused. */
		relay::sleep_fully(2 * relay::untimed_wait::tick);
		const auto before = refused.load();
		relay::sleep_fully(2 * relay::untimed_wait::tick);
		EXPECT_EQ(refused, before);
		for (auto &rings : bells)
			rings.ring();
		for (auto &each : waiting)
			EXPECT_EQ(each.join(), 0);
		EXPECT_EQ(relay::untimed_wait::spells(), spells);
		EXPECT_GT(spells, 0U);
	});
}

} // namespace
