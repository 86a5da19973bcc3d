/* SPDX-License-Identifier: MIT */
/* A stop request cancels a scope, and the cancellation of a scope requests a stop, even if either
 * comes just when the other side ends. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

using namespace std::chrono_literals;

namespace
{

constexpr int rounds = 2000;

sn::result<int> wait_for_ever()
{
	return sn::channel<int>().recv();
}

/* Starts a plain thread that waits for the stop by means of the standard library, and joins it. */
void expect_stop(const std::stop_token &token)
{
	sn::blocking([&] {
		std::mutex lock;
		std::condition_variable_any changed;
		std::unique_lock held(lock);
		changed.wait(held, token, [] { return false; });
	});
	EXPECT_TRUE(token.stop_requested());
}

} // namespace

TEST(CancelOnStop, CancelsTheScope)
{
	sn::run([] {
		std::stop_source source;
		sn::scope all;
		const sn::cancel_on_stop by_token(all, source.get_token());
		all.go([] { EXPECT_EQ(wait_for_ever().error(), std::errc::operation_canceled); });

		EXPECT_FALSE(sn::cancelled());
		std::thread stopper([&] { source.request_stop(); });
		EXPECT_EQ(wait_for_ever().error(), std::errc::operation_canceled);
		sn::blocking([&] { stopper.join(); });
		EXPECT_EQ(all.join().error(), std::errc::operation_canceled);
	});
}

TEST(CancelOnStop, CancelsAtOnceWhenTheStopCameBefore)
{
	sn::run([] {
		std::stop_source source;
		source.request_stop();
		sn::scope all;
		const sn::cancel_on_stop by_token(all, source.get_token());

		EXPECT_EQ(sn::cancelled(), std::errc::operation_canceled);
	});
}

TEST(CancelOnStop, ReachesNoOtherScope)
{
	sn::run([] {
		std::stop_source source;
		std::optional<sn::cancel_on_stop> late, gone;
		{
			sn::scope first;
			late.emplace(first, source.get_token());
			EXPECT_TRUE(first.join());
			gone.emplace(first, source.get_token());
		}
		sn::scope next; /* probably at the place of the first */
		source.request_stop();
		EXPECT_FALSE(sn::cancelled());
		EXPECT_TRUE(next.join());
	});
}

TEST(CancelOnStop, HasNoEffectAfterItsEnd)
{
	sn::run([] {
		std::stop_source source;
		sn::scope all;
		{
			const sn::cancel_on_stop by_token(all, source.get_token());
		}
		source.request_stop();
		EXPECT_TRUE(all.join());
	});
}

TEST(StopOnCancel, StopsForEachReason)
{
	sn::run([] {
		{
			sn::scope all;
			const sn::stop_on_cancel stop;
			EXPECT_FALSE(stop.get_token().stop_requested());
			all.cancel();
			expect_stop(stop.get_token());
		}
		{
			sn::scope all(1ms);
			const sn::stop_on_cancel stop;
			expect_stop(stop.get_token());
		}
		{
			sn::scope all;
			const sn::stop_on_cancel stop;
			all.go([] { return -EPROTO; });
			expect_stop(stop.get_token());
		}
		{
			sn::scope outer, inner;
			const sn::stop_on_cancel stop;
			outer.cancel();
			expect_stop(stop.get_token());
		}
	});
}

TEST(StopOnCancel, StopsWhatWasCancelledBefore)
{
	sn::run([] {
		sn::scope all;
		all.cancel();
		const sn::stop_on_cancel stop;

		EXPECT_TRUE(stop.get_token().stop_requested());
	});
}

TEST(StopOnCancel, DoesNotStopWhatEndsInGoodOrder)
{
	sn::run([] {
		std::stop_token token;
		sn::scope all;
		{
			const sn::stop_on_cancel stop;
			token = stop.get_token();
			all.go([] { sn::yield(); });
		}
		EXPECT_FALSE(token.stop_requested());
		all.cancel();
		EXPECT_FALSE(token.stop_requested())
			<< "it has an effect only as long as the object exists";
	});
}

TEST(StopOnCancel, LeavesTheScopeToItsTasks)
{
	sn::run([] {
		sn::scope all;
		const sn::stop_on_cancel stop;
		bool ended = false;

		/* It does not count as a task of that scope, which has none. */
		EXPECT_TRUE(sn::select(
			all.on_end([&](sn::result<void> how) { ended = how.has_value(); })));
		EXPECT_TRUE(ended);
	});
}

TEST(StopOnCancel, NeedsATask)
{
	try {
		const sn::stop_on_cancel stop;
		FAIL();
	} catch (const std::system_error &error) {
		EXPECT_EQ(error.code(), std::errc::not_supported);
	}
}

TEST(StopOnCancel, PassesACancellationToAnotherScope)
{
	sn::run([] {
		sn::scope first;
		const sn::stop_on_cancel stop;
		auto other = sn::spawn([token = stop.get_token()] {
			sn::scope second;
			const sn::cancel_on_stop by_token(second, token);
			return wait_for_ever().error();
		});
		first.cancel();
		const sn::cancel_shield shield;
		EXPECT_EQ(other.join(), std::errc::operation_canceled);
	});
}

TEST(StopOnCancel, StopsBeforeItsEndWhatWasCancelledBefore)
{
	sn::run([] {
		for (int i = 0; i < rounds; i++) {
			std::stop_token token;
			sn::scope all;
			{
				const sn::stop_on_cancel stop;
				token = stop.get_token();
				if (i % 2 == 0)
					sn::yield();
				all.cancel();
			}
			ASSERT_TRUE(token.stop_requested()) << i;
		}
	});
}

/* Plain threads request stops of scopes that are about to end, or have ended. */
TEST(StopRaces, AStopMeetsTheEndOfAScope)
{
	sn::run([] {
		std::mutex lock;
		std::stop_source source;
		std::atomic<bool> over{false};
		std::thread stopper([&] {
			while (!over) {
				std::unique_lock held(lock);
				std::stop_source mine = source;
				held.unlock();
				mine.request_stop();
				std::this_thread::yield();
			}
		});
		int cancelled = 0;
		for (int i = 0; i < rounds; i++) {
			std::stop_source fresh;
			{
				const std::lock_guard held(lock);
				source = fresh;
			}
			sn::scope all;
			std::optional<sn::cancel_on_stop> by_token(std::in_place, all,
								   fresh.get_token());
			try {
				all.go([] { sn::yield(); });
				if (i % 3 == 0)
					by_token.reset();
			} catch (const std::system_error &error) {
				EXPECT_EQ(error.code(), std::errc::operation_canceled);
			}
			const auto how = all.join();
			cancelled += !how;
			EXPECT_TRUE(how || how.error() == std::errc::operation_canceled);
		}
		over = true;
		sn::blocking([&] { stopper.join(); });
		RecordProperty("cancelled", cancelled);
	});
}

/* Tasks and plain threads cancel a scope whose stop_on_cancel is about to end, while callbacks are
 * registered at its token and removed. */
TEST(StopRaces, ACancellationMeetsTheEndOfTheToken)
{
	sn::run([] {
		for (int i = 0; i < rounds; i++) {
			std::atomic<int> called{0};
			sn::scope all;
			auto canceller = sn::spawn([&] {
				if (i % 2)
					sn::yield();
				all.cancel();
			});
			std::stop_token token;
			try {
				const sn::stop_on_cancel stop;
				token = stop.get_token();
				const std::stop_callback counts(token, [&] { called++; });
				if (i % 3 == 0)
					sn::yield();
			} catch (const std::system_error &error) {
				EXPECT_EQ(error.code(), std::errc::operation_canceled);
			}
			EXPECT_LE(called, token.stop_requested() ? 1 : 0);
			const sn::cancel_shield shield;
			canceller.join();
		}
	});
}
