/* SPDX-License-Identifier: MIT */
/* Scopes through the C++ interface: results, exceptions, destructors, shields, values. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace
{

TEST(Scope, WaitsForItsTasks)
{
	sn::run([] {
		std::atomic<int> ended = 0;
		sn::scope scope;
		for (int i = 0; i < 50; i++)
			scope.go([&] {
				sn::sleep(1ms);
				ended++;
			});
		EXPECT_TRUE(scope.join());
		EXPECT_EQ(ended, 50);
		EXPECT_EQ(scope.join().error(), std::errc::invalid_argument);
	});
}

TEST(Scope, TakesAnyCallable)
{
	sn::run([] {
		std::atomic<int> sum = 0;
		auto token = std::make_shared<int>(1);
		{
			sn::scope scope;
			scope.go([&sum, own = std::make_unique<int>(2)] { sum += *own; });
			std::array<char, 4096> large{};
			large[4000] = 3;
			scope.go([&sum, large] { sum += large[4000]; });
			const auto copied = [&sum, token] { sum += *token; };
			scope.go(copied);
			struct throws_on_move {
				std::atomic<int> *sum;
				explicit throws_on_move(std::atomic<int> *s) : sum(s) {}
				throws_on_move(const throws_on_move &other) : sum(other.sum) {}
				void operator()() { *sum += 10; }
			};
			scope.go(throws_on_move(&sum));
			EXPECT_TRUE(scope.join());
		}
		EXPECT_EQ(sum, 16);
		EXPECT_EQ(token.use_count(), 1) << "a callable was not destroyed";
	});
}

TEST(Scope, ReturnsTheFirstError)
{
	sn::run([] {
		sn::scope scope;
		scope.go([]() -> sn::result<void> {
			sn::sleep(1h);
			return {};
		});
		scope.go([]() -> sn::result<int> {
			return sn::unexpected(std::errc::protocol_error);
		});
		EXPECT_EQ(scope.join().error(), std::errc::protocol_error);

		sn::scope with_int;
		with_int.go([] { return -EIO; });
		EXPECT_EQ(with_int.join().error(), std::errc::io_error);

		sn::scope positive;
		positive.go([] { return 5; });
		EXPECT_TRUE(positive.join());
	});
}

TEST(Scope, RethrowsAtTheJoin)
{
	sn::run([] {
		sn::scope scope;
		std::atomic<int> unwound = 0;
		for (int i = 0; i < 10; i++)
			scope.go([&] {
				struct guard {
					std::atomic<int> &unwound;
					~guard() { unwound++; }
				} guard{unwound};
				sn::sleep(1h); /* throws when the scope is cancelled */
			});
		scope.go([] {
			sn::sleep(1ms);
			throw std::runtime_error("the first");
		});
		try {
			static_cast<void>(scope.join());
			FAIL() << "join() returned";
		} catch (const std::runtime_error &error) {
			EXPECT_STREQ(error.what(), "the first");
		}
		EXPECT_EQ(unwound, 10);
	});
}

TEST(Scope, IsCancelledByAnExceptionThatLeavesIt)
{
	sn::run([] {
		std::atomic<int> cancelled = 0;
		try {
			sn::scope scope;
			scope.go([&] {
				try {
					sn::sleep(1h);
				} catch (const std::system_error &error) {
					cancelled += error.code() == std::errc::operation_canceled;
				}
			});
			sn::sleep(2ms);
			throw std::logic_error("in between");
		} catch (const std::logic_error &) {
		}
		EXPECT_EQ(cancelled, 1);
		sn::sleep(1ms);
	});
}

TEST(Scope, HasADeadline)
{
	sn::run([] {
		sn::scope scope(sn::after(5ms));
		try {
			scope.go([] { sn::sleep(1h); }); /* throws if the machine stalls the test
			                                  * here */
			sn::sleep(1h);
			FAIL() << "slept";
		} catch (const std::system_error &error) {
			EXPECT_EQ(error.code(), std::errc::timed_out);
		}
		EXPECT_EQ(sn::cancelled(), std::errc::timed_out);
		EXPECT_EQ(scope.join().error(), std::errc::timed_out);
		EXPECT_FALSE(sn::cancelled());
	});
}

TEST(Scope, JoinsUntilADeadline)
{
	sn::run([] {
		sn::scope in_time;
		in_time.go([] { sn::sleep(1ms); });
		EXPECT_TRUE(in_time.join_until(sn::after(1h)));

		std::atomic<int> cancelled = 0;
		sn::scope too_late;
		for (int i = 0; i < 5; i++)
			too_late.go([&] {
				try {
					sn::sleep(1h);
				} catch (const std::system_error &error) {
					cancelled += error.code() == std::errc::timed_out;
				}
			});
		EXPECT_EQ(too_late.join_until(sn::after(2ms)).error(), std::errc::timed_out);
		EXPECT_EQ(cancelled, 5);
		EXPECT_EQ(too_late.join_until(sn::after(2ms)).error(), std::errc::invalid_argument);

		sn::scope throws;
		throws.go([] { throw std::runtime_error("first"); });
		EXPECT_THROW(static_cast<void>(throws.join_until(sn::after(1h))),
			     std::runtime_error);
	});
}

TEST(Scope, MovesItsDeadline)
{
	sn::run([] {
		const auto late = sn::after(1h);
		EXPECT_EQ(sn::scope_deadline(), sn::no_deadline);
		sn::scope scope(late);
		EXPECT_EQ(sn::scope_deadline(), late);
		EXPECT_TRUE(scope.set_deadline(sn::no_deadline));
		EXPECT_EQ(sn::scope_deadline(), sn::no_deadline);
		EXPECT_TRUE(scope.set_deadline(sn::after(2ms)));
		EXPECT_THROW(sn::sleep(1h), std::system_error);
		EXPECT_EQ(scope.set_deadline(late).error(), std::errc::timed_out);
		EXPECT_EQ(scope.join().error(), std::errc::timed_out);
		EXPECT_EQ(scope.set_deadline(late).error(), std::errc::invalid_argument);
	});
}

TEST(Scope, RefusesTasksOnceCancelled)
{
	sn::run([] {
		sn::scope scope;
		scope.cancel();
		auto token = std::make_shared<int>(1);
		EXPECT_THROW(scope.go([token] {}), std::system_error);
		EXPECT_EQ(token.use_count(), 1);
		EXPECT_THROW(sn::scope(), std::system_error);
		EXPECT_EQ(scope.join().error(), std::errc::operation_canceled);
	});
}

TEST(Scope, IsOverOnceJoined)
{
	sn::run([] {
		sn::scope scope;
		EXPECT_TRUE(scope.join());
		scope.cancel();
		EXPECT_THROW(scope.go([] {}), std::system_error);
		EXPECT_EQ(scope.get(), nullptr);
	});
}

TEST(Scope, InnerScopesMustBeJoinedFirst)
{
	sn::run([] {
		sn::scope outer, inner;
		EXPECT_EQ(outer.join().error(), std::errc::invalid_argument);
		EXPECT_TRUE(inner.join());
		EXPECT_TRUE(outer.join());
	});
}

TEST(Scope, AForeignErrorIsNotTakenForAnException)
{
	sn::run([] {
		sn::scope scope;
		scope.go([] { sn::sleep(1h); });
		scope.go([] { return -ENOTRECOVERABLE; });
		EXPECT_EQ(scope.join().error().value(), ENOTRECOVERABLE);
	});
}

TEST(Task, WaitingInAScopeThatTimesOutThrows)
{
	sn::run([] {
		std::atomic<bool> stop = false;
		auto slow = sn::spawn([&stop] {
			while (!stop)
				sn::sleep(1ms);
		});
		sn::scope scope(sn::after(1ms));
		EXPECT_THROW(slow.wait_until(sn::no_deadline), std::system_error);
		stop = true;
		static_cast<void>(scope.join());
	});
}

/* What is tried again without a wait, in a scope whose deadline passes. */
TEST(Scope, ItsDeadlineEndsALoopThatDoesNotWait)
{
	sn::run([] {
		std::atomic<bool> stop = false;
		auto slow = sn::spawn([&stop] {
			while (!stop)
				sn::sleep(1ms);
		});
		sn::semaphore none;
		sn::ticker never;
		const sn::channel<int> nothing;
		const auto expect_end = [](auto attempt, const char *what) {
			sn::scope all(10ms);
			all.go([&] {
				/* Bounded, because this test would otherwise not end either. */
				const sn::deadline late = sn::after(20s);
				while (!attempt() && sn::now() < late)
					sn::yield();
			});
			try {
				EXPECT_EQ(all.join().error(), std::errc::timed_out) << what;
			} catch (const std::system_error &error) {
				EXPECT_EQ(error.code(), std::errc::timed_out) << what;
			}
		};
		const sn::deadline begin = sn::now();

		expect_end([&] { return none.try_acquire_for(0s); }, "semaphore");
		expect_end([&] { return never.wait(0s) > 0; }, "ticker");
		expect_end([&] { return slow.wait_for(0s); }, "task");
		expect_end(
			[&] {
				bool late = false;
				const auto how =
					sn::select(nothing.on_recv([] {}),
						   sn::on_deadline(0s, [&] { late = true; }));
				return !how || !late;
			},
			"select");
		EXPECT_LT(sn::now(), begin + 20s) << "a loop did not end by itself";
		stop = true;
		slow.join();
	});
}

TEST(Scope, ShieldsCleanUp)
{
	sn::run([] {
		sn::scope scope;
		scope.cancel();
		EXPECT_THROW(sn::sleep(1ms), std::system_error);
		{
			sn::cancel_shield shield;
			sn::sleep(1ms);
			EXPECT_FALSE(sn::cancelled());
		}
		EXPECT_EQ(sn::cancelled(), std::errc::operation_canceled);
		static_cast<void>(scope.join());
	});
}

TEST(Scope, ATaskHandleSurvivesACancelledJoin)
{
	sn::run([] {
		std::atomic<bool> stop = false;
		auto slow = sn::spawn([&] {
			while (!stop)
				sn::sleep(1ms);
			return 5;
		});
		{
			sn::scope scope;
			scope.cancel();
			EXPECT_THROW(slow.join(), std::system_error);
			EXPECT_TRUE(slow.joinable());
			auto other = sn::spawn([] { sn::sleep(1ms); });
			/* the destructor of `other` joins nevertheless */
		}
		stop = true;
		EXPECT_EQ(slow.join(), 5);
	});
}

TEST(Task, CanBeWaitedForWithADeadline)
{
	sn::run([] {
		std::atomic<bool> stop = false;
		auto slow = sn::spawn([&] {
			while (!stop)
				sn::sleep(1ms);
			return std::string("done");
		});
		EXPECT_FALSE(slow.wait_for(1ms));
		EXPECT_FALSE(slow.wait_until(sn::now()));
		stop = true;
		EXPECT_TRUE(slow.wait_for(30s));
		EXPECT_TRUE(slow.wait_for(0s));
		EXPECT_TRUE(slow.joinable());
		EXPECT_EQ(slow.join(), "done");
		EXPECT_FALSE(slow.joinable());
		EXPECT_FALSE(slow.wait_for(0s));
	});
}

struct user {
	std::string name;
};
sn::scope_value<user> current_user;
sn::scope_value<user> other_user;

TEST(ScopeValue, IsSeenByTheTasksOfTheScope)
{
	sn::run([] {
		user ada{"ada"};
		sn::scope scope;
		EXPECT_EQ(current_user.get(), nullptr);
		current_user.set(scope, ada);
		scope.go([&] {
			EXPECT_EQ(current_user.get(), &ada);
			EXPECT_EQ(other_user.get(), nullptr);
			EXPECT_THROW(other_user.set(scope, ada), std::system_error);
		});
		EXPECT_TRUE(scope.join());
		EXPECT_EQ(current_user.get(), nullptr);
	});
}

/* Exceptions in flight while their tasks park, change threads and are cancelled. */
TEST(Exceptions, StayWithTheirTaskAcrossCancellation)
{
	sn::run([] {
		sn::scope scope;
		for (int i = 0; i < 200; i++)
			scope.go([i] {
				try {
					throw i;
				} catch (int caught) {
					EXPECT_EQ(caught, i);
					try {
						sn::sleep(std::chrono::milliseconds(i % 5));
						sn::sleep(10ms);
					} catch (const std::system_error &) {
						EXPECT_EQ(std::uncaught_exceptions(), 0);
					}
					try {
						throw;
					} catch (int again) {
						EXPECT_EQ(again, i);
					}
				}
			});
		sn::sleep(2ms);
		scope.cancel();
		EXPECT_EQ(scope.join().error(), std::errc::operation_canceled);
	});
}

} // namespace
