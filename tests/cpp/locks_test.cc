/* SPDX-License-Identifier: MIT */
/* Locks and timers through the C++ interface, with the standard library's guards and durations. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "support/child.h"

using namespace std::chrono_literals;

namespace
{

sn::mutex constant_initialised; /* compiles only if the constructor is constexpr */

TEST(Mutex, WorksWithTheStandardsGuards)
{
	sn::run([] {
		sn::mutex a, b;
		int counter = 0;
		std::vector<sn::task<void>> tasks;

		for (int t = 0; t < 4; t++)
			tasks.push_back(sn::spawn([&, t] {
				for (int i = 0; i < 500; i++) {
					if (t % 2) {
						const std::scoped_lock both(a, b);
						counter++;
					} else {
						const std::scoped_lock both(b, a);
						counter++;
					}
				}
			}));
		std::thread thread([&] {
			for (int i = 0; i < 500; i++) {
				const std::lock_guard first(a);
				const std::unique_lock second(b);
				counter++;
			}
		});
		for (auto &task : tasks)
			task.join();
		thread.join();
		EXPECT_EQ(counter, 2500);

		std::unique_lock held(a);
		EXPECT_FALSE(a.try_lock());
		sn::spawn([&] { /* another task, because for the owner this would be a mistake */
				EXPECT_FALSE(a.try_lock_for(1ms));
				EXPECT_FALSE(
					a.try_lock_until(std::chrono::steady_clock::now() + 1ms));
				EXPECT_FALSE(
					a.try_lock_until(std::chrono::system_clock::now() - 1h));
				EXPECT_FALSE(a.try_lock_until(sn::now() + 1ms));
		})
			.join();
		held.unlock();
		EXPECT_TRUE(a.try_lock_for(std::chrono::hours::max()));
		a.unlock();
		const std::unique_lock timed(constant_initialised, 1s);
		EXPECT_TRUE(timed.owns_lock());
	});
}

// Runs the body in a task whose scope is cancelled, and unlocks the lock once the body has begun.
template <class Lock, class F>
void in_cancelled_scope_with(Lock &lock, F body)
{
	sn::run([&] {
		std::atomic<bool> begun{false};

		lock.lock();
		auto waiter = sn::spawn([&] {
			sn_scope *scope = nullptr;

			EXPECT_EQ(sn_scope_open(&scope, SN_NO_DEADLINE), 0);
			sn_scope_cancel(scope);
			begun = true;
			body();
			EXPECT_EQ(sn_scope_close(scope), -ECANCELED);
		});
		while (!begun)
			sn::sleep(1ms);
		lock.unlock();
		waiter.join();
	});
}

// Takes the lock in a destructor, where an exception would end the program by std::terminate().
template <class Lock>
struct CleansUp {
	Lock &lock;
	int &cleaned;
	~CleansUp()
	{
		const std::lock_guard held(lock);
		cleaned++;
	}
};

TEST(Mutex, LockGuardInADestructorOfACancelledScope)
{
	sn::mutex lock;
	int cleaned = 0;

	in_cancelled_scope_with(lock, [&] { const CleansUp<sn::mutex> last{lock, cleaned}; });
	EXPECT_EQ(cleaned, 1);
}

TEST(SharedMutex, LockGuardInADestructorOfACancelledScope)
{
	sn::shared_mutex lock;
	int cleaned = 0;

	in_cancelled_scope_with(lock, [&] {
		const CleansUp<sn::shared_mutex> last{lock, cleaned};
		const std::shared_lock reads(lock);
	});
	EXPECT_EQ(cleaned, 1);
}

template <class Lock>
void expect_reason()
{
	sn::run([] {
		Lock lock;
		const std::lock_guard held(lock);

		sn::spawn([&] {
			sn_scope *scope = nullptr;

			EXPECT_EQ(sn_scope_open(&scope, SN_NO_DEADLINE), 0);
			sn_scope_cancel(scope);
			const auto locked = lock.try_lock_until_cancelled();
			ASSERT_FALSE(locked);
			EXPECT_EQ(locked.error(), std::errc::operation_canceled);
			EXPECT_EQ(sn_scope_close(scope), -ECANCELED);
		}).join();
	});
}

// If the deadline of the scope made the call return false, like its own, a loop that tries again
// would spin.
TEST(Locks, ATimedCallThrowsTheDeadlineOfItsScope)
{
	sn::run([] {
		sn::mutex lock, free_lock;
		sn::shared_mutex shared;
		sn::semaphore none(0);
		sn::wait_group group;
		sn::condition_variable never;

		const std::lock_guard held(lock);
		const std::lock_guard held_too(shared);
		group.add();
		sn::spawn([&] {
			sn::scope scope(sn::after(1ms));
			const auto expect_timed_out = [](auto &&call, const char *what) {
				try {
					call();
					ADD_FAILURE() << what << " returned";
				} catch (const std::system_error &error) {
					EXPECT_EQ(error.code(), std::errc::timed_out) << what;
				}
			};

			expect_timed_out([&] { lock.try_lock_for(1h); }, "mutex");
			expect_timed_out([&] { shared.try_lock_for(1h); }, "shared_mutex");
			expect_timed_out([&] { shared.try_lock_shared_for(1h); }, "reading");
			expect_timed_out([&] { none.try_acquire_for(1h); }, "semaphore");
			expect_timed_out([&] { group.wait_for(1h); }, "wait_group");
			expect_timed_out(
				[&] {
					std::unique_lock waits(free_lock);
					never.wait_for(waits, 1h);
				},
				"condition_variable");
			/* Also where the call's own deadline has passed, too. */
			for (int i = 0; i < 2; i++) {
				const std::chrono::seconds past(-i);
				expect_timed_out([&] { lock.try_lock_for(past); }, "mutex");
				expect_timed_out([&] { shared.try_lock_for(past); }, "writing");
				expect_timed_out([&] { shared.try_lock_shared_for(past); },
						 "reading");
				expect_timed_out([&] { none.try_acquire_for(past); }, "semaphore");
				expect_timed_out([&] { group.wait_for(past); }, "wait_group");
			}
			EXPECT_EQ(scope.join().error(), std::errc::timed_out);
		}).join();
		group.done();
	});
}

/* The deadline ends the wait, and the scope is cancelled before the task runs. If the monitor takes
 * the processor in between, the task runs first, and the round says nothing. */
TEST(Semaphore, TheReasonIsTheScopesIfThatIsCancelledAfterTheDeadline)
{
	setenv("SENNIT_PROCS", "1", 1);
	sn::run([] {
		for (int cancelled = 0; cancelled < 10;) {
			sn::semaphore none(0);
			sn::scope scope;
			std::error_code reason;
			bool waits = false;

			scope.go([&] {
				try {
					waits = true;
					none.try_acquire_for(1ms);
				} catch (const std::system_error &error) {
					reason = error.code();
				}
			});
			while (!waits)
				sn::yield();
			const auto until = sn::now() + 3ms;
			while (sn::now() < until)
				;
			/* This fires the timer, and queues the task after this one. */
			sn::yield();
			scope.cancel();
			EXPECT_FALSE(scope.join());
			ASSERT_NE(reason, std::errc::timed_out);
			cancelled += reason == std::errc::operation_canceled;
		}
	});
	unsetenv("SENNIT_PROCS");
}

TEST(Mutex, LockOrReasonReturnsWhyTheScopeIsCancelled)
{
	expect_reason<sn::mutex>();
}

TEST(SharedMutex, LockOrReasonReturnsWhyTheScopeIsCancelled)
{
	expect_reason<sn::shared_mutex>();
}

TEST(SharedMutex, WorksWithSharedLock)
{
	sn::run([] {
		sn::shared_mutex lock;
		{
			const std::shared_lock one(lock), two(lock);
			EXPECT_FALSE(lock.try_lock());
			EXPECT_FALSE(lock.try_lock_for(1ms));
			EXPECT_TRUE(lock.try_lock_shared_for(1ms));
			lock.unlock_shared();
		}
		const std::unique_lock writer(lock);
		EXPECT_FALSE(lock.try_lock_shared());
		sn::spawn([&] {
			EXPECT_FALSE(lock.try_lock_shared_until(sn::now() + 1ms));
		}).join();
	});
}

TEST(ConditionVariable, PassesItems)
{
	sn::run([] {
		sn::mutex lock;
		sn::condition_variable filled;
		std::deque<int> queue;
		int sum = 0;
		auto consumer = sn::spawn([&] {
			for (int i = 0; i < 200; i++) {
				std::unique_lock held(lock);
				filled.wait(held, [&] { return !queue.empty(); });
				sum += queue.front();
				queue.pop_front();
			}
		});
		std::thread producer([&] {
			for (int i = 0; i < 100; i++) {
				const std::lock_guard held(lock);
				queue.push_back(1);
				filled.notify_one();
			}
		});

		for (int i = 0; i < 100; i++) {
			const std::lock_guard held(lock);
			queue.push_back(2);
			filled.notify_all();
		}
		consumer.join();
		producer.join();
		EXPECT_EQ(sum, 300);

		std::unique_lock held(lock);
		EXPECT_EQ(filled.wait_for(held, 1ms), std::cv_status::timeout);
		EXPECT_FALSE(filled.wait_until(held, sn::now() + 1ms, [] { return false; }));
		EXPECT_TRUE(filled.wait_for(held, 1ms, [] { return true; }));
		EXPECT_TRUE(held.owns_lock());
	});
}

TEST(Semaphore, CountsPermits)
{
	sn::run([] {
		sn::semaphore permits(1);

		permits.acquire();
		EXPECT_FALSE(permits.try_acquire());
		EXPECT_FALSE(permits.try_acquire_for(1ms));
		auto releaser = sn::spawn([&] { permits.release(2); });
		permits.acquire();
		EXPECT_TRUE(permits.try_acquire_until(sn::now() + 1s));
		releaser.join();
		EXPECT_THROW(permits.release(0), std::system_error);
	});
}

TEST(Once, AnExceptionLetsTheNextTry)
{
	sn::run([] {
		sn::once_flag flag;
		std::atomic<int> calls = 0, thrown = 0;
		std::vector<sn::task<void>> tasks;
		auto call = [&](int limit) {
			sn::yield();
			if (++calls < limit)
				throw std::runtime_error("not yet");
		};

		for (int t = 0; t < 6; t++)
			tasks.push_back(sn::spawn([&] {
				try {
					sn::call_once(flag, call, 3);
				} catch (const std::runtime_error &) {
					thrown++;
				}
			}));
		for (auto &task : tasks)
			task.join();
		EXPECT_EQ(calls, 3);
		EXPECT_EQ(thrown, 2);
	});
}

TEST(WaitGroup, WaitsAndBarrierMeets)
{
	sn::run([] {
		sn::wait_group group;
		sn::barrier barrier(3);
		std::atomic<int> last = 0;

		for (int i = 0; i < 3; i++) {
			group.add();
			sn::go([&] {
				last += barrier.arrive_and_wait();
				group.done();
			});
		}
		EXPECT_TRUE(group.wait_for(std::chrono::minutes(1)));
		group.wait();
		EXPECT_TRUE(group.try_wait());
		EXPECT_EQ(last, 1);
	});
}

TEST(Alarm, RingsOrIsStopped)
{
	sn::run([] {
		sn::semaphore rang;
		std::atomic<int> calls = 0;
		sn::alarm alarm([&] {
			calls++;
			rang.release();
		});

		EXPECT_FALSE(alarm.set_after(1h));
		EXPECT_TRUE(alarm.set_after(1ms));
		rang.acquire();
		EXPECT_FALSE(alarm.stop());
		EXPECT_FALSE(alarm.set_at(sn::now() + 1h));
		EXPECT_TRUE(alarm.stop());
		EXPECT_EQ(calls, 1);
		{
			bool ended = false;
			sn::timer slow([&] {
				rang.release();
				sn::sleep(5ms);
				ended = true;
			});
			slow.set_after(0ms);
			rang.acquire();
			slow.~alarm(); /* waits for its task */
			EXPECT_TRUE(ended);
			new (&slow) sn::timer([] {});
		}
	});
}

TEST(Alarm, TakesMoveOnlyCallables)
{
	sn::run([] {
		sn::semaphore rang;
		sn::alarm alarm([&, number = std::make_unique<int>(3)] {
			EXPECT_EQ(*number, 3);
			rang.release();
		});

		alarm.set_after(0s);
		rang.acquire();
	});
}

/* An alarm that a run has set, and that is destroyed after it: set, or in its function. */
TEST(Alarm, OutlivesItsRun)
{
	sn::alarm set([] { ADD_FAILURE() << "it rang"; });
	std::atomic<int> begun = 0;
	sn::alarm in_function([&] {
		sn::semaphore none;
		begun++;
		none.acquire();
	});

	sn::run([&] {
		set.set_after(1h);
		in_function.set_after(0s);
		while (begun == 0)
			sn::sleep(1ms);
	});
}

/* The end of a run does not wait for a task that stays in foreign code, here in an alarm's
 * function, to which it returns after the alarm has been destroyed. */
TEST(Alarm, EndsWhileItsFunctionRuns)
{
	std::atomic<bool> begun = false, destroyed = false;
	std::atomic<std::size_t> seen = 0;
	{
		sn::alarm alarm([&, text = std::string(100, 'x')] {
			begun = true;
			while (!destroyed)
				usleep(1000);
			seen = text.size();
		});

		sn::run([&] {
			alarm.set_after(0s);
			while (!begun)
				sn::sleep(1ms);
		});
	}
	destroyed = true;
	while (seen == 0)
		usleep(1000);
	EXPECT_EQ(seen, 100U);
}

TEST(Alarm, IsSetAgainInALaterRun)
{
	std::atomic<int> rang = 0;
	sn::alarm alarm([&] { rang++; });

	for (int run = 1; run <= 3; run++)
		sn::run([&] {
			EXPECT_FALSE(alarm.set_after(0s));
			while (rang < run)
				sn::sleep(1ms);
			EXPECT_FALSE(alarm.set_after(1h));
		});
}

/* Static objects are destroyed in a child that exits. */
TEST(Alarm, EndsInAChildOfFork)
{
	sn::run([] {
		auto alarm = std::make_unique<sn::alarm>([] {});
		auto ticker = std::make_unique<sn::ticker>(1h);

		alarm->set_after(1h);
		EXPECT_EQ(0, test::in_child([&] {
				  alarm.reset();
				  ticker.reset();
			  }));
		EXPECT_TRUE(alarm->stop());
		EXPECT_TRUE(ticker->stop());
	});
}

TEST(Ticker, IsStartedAgainInALaterRun)
{
	std::vector<std::unique_ptr<sn::ticker>> tickers;

	for (int i = 0; i < 8; i++)
		tickers.push_back(std::make_unique<sn::ticker>());
	for (int run = 0; run < 2; run++)
		sn::run([&] {
			for (int i = 7; i >= 0; i--)
				EXPECT_FALSE(tickers[i]->start(1h)) << i;
			tickers[3]->start(1ms);
			EXPECT_EQ(tickers[3]->wait(), 1);
		});
	/* Destroyed in a run that has not started them. */
	sn::run([&] { tickers.clear(); });
}

TEST(Ticker, Ticks)
{
	sn::run([] {
		sn::ticker ticker(1ms);
		std::int64_t ticks = 0;

		while (ticks < 5)
			ticks += ticker.wait();
		EXPECT_TRUE(ticker.stop() || ticks > 5);
		EXPECT_EQ(ticker.wait(sn::now() + 1ms), 0);
		ticker.start(1ms);
		EXPECT_EQ(ticker.wait(), 1);
	});
}

} // namespace
