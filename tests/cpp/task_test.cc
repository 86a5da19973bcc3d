/* SPDX-License-Identifier: MIT */
/* Tasks through the C++ interface: values, exceptions, ownership, time. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/child.h"

using namespace std::chrono_literals;

namespace
{

/* In a child: exits as exit() would, but LeakSanitizer does not check the child, whose stacks of
 * other threads it would miss. */
void exit_without_checks()
{
	on_exit([](int status, void *) { _exit(status); }, nullptr);
	/* Of deaths that the test expects nothing is printed, and no core is written. */
	const rlimit none = {};
	CHILD_CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
	CHILD_CHECK(freopen("/dev/null", "w", stderr) != nullptr);
}

/* Waits until other tasks have set the value, for as long as the test may run. */
void until(const std::atomic<int> &value, int expected)
{
	while (value.load() != expected)
		sn::sleep(1ms);
}

struct error_with_number : std::runtime_error {
	explicit error_with_number(int n) : std::runtime_error("with a number"), number(n) {}
	int number;
};

TEST(Run, ReturnsWhatTheTaskReturns)
{
	EXPECT_EQ(sn::run([] { return 42; }), 42);
	EXPECT_EQ(sn::run([] { return -EBADF; }), -EBADF) << "not an error of the runtime";
	EXPECT_EQ(sn::run([] {}), 0);

	/* A callable with state, which must not be copied. */
	struct counting {
		int calls = 0;
		int operator()() { return ++calls; }
		counting() = default;
		counting(const counting &) = delete;
		counting &operator=(const counting &) = delete;
	} callable;
	EXPECT_EQ(sn::run(callable), 1);
	EXPECT_EQ(sn::run(callable), 2);
}

TEST(Run, RethrowsWhatTheTaskThrows)
{
	try {
		sn::run([] {
			sn::sleep(1ms);
			throw error_with_number(5);
		});
		FAIL() << "run() returned";
	} catch (const error_with_number &error) {
		EXPECT_EQ(error.number, 5);
	}
	EXPECT_EQ(sn::run([] { return 1; }), 1) << "the runtime can run again afterwards";
}

TEST(Run, TakesAttributes)
{
	sn::run_attr attr;

	attr.stack_size = 1 << 20;
	EXPECT_EQ(3, sn::run(
			     [] {
				     sn::spawn([] {
					     volatile char large[600 << 10];

					     large[0] = 1;
					     EXPECT_EQ(1, large[0]);
				     }).join();
				     return 3;
			     },
			     attr));
	attr.stack_size = SIZE_MAX;
	EXPECT_THROW(sn::run([] {}, attr), std::system_error);
}

TEST(Run, WithinRunIsAnError)
{
	sn::run([] {
		try {
			sn::run([] {});
			ADD_FAILURE() << "run() returned";
		} catch (const std::system_error &error) {
			EXPECT_EQ(error.code().value(), EALREADY);
		}
	});
}

TEST(Go, TakesMoveOnlyCallables)
{
	sn::run([] {
		std::atomic<int> got = 0;
		auto number = std::make_unique<int>(7);
		sn::go([number = std::move(number), &got] { got = *number; });
		until(got, 7);
	});
}

TEST(Go, DestroysTheCallableInTheTask)
{
	sn::run([] {
		std::atomic<int> destroyed = 0;
		struct reports {
			std::atomic<int> *where;
			explicit reports(std::atomic<int> *w) : where(w) {}
			reports(reports &&other) noexcept
			    : where(std::exchange(other.where, nullptr))
			{
			}
			reports &operator=(reports &&) = delete;
			~reports()
			{
				if (where)
					++*where;
			}
		};
		sn::go([guard = reports(&destroyed)] { sn::sleep(1ms); });
		until(destroyed, 1);
	});
}

TEST(Go, TakesACopyOfAnLvalue)
{
	sn::run([] {
		std::atomic<int> sum = 0;
		const auto add = [&sum] { ++sum; };
		for (int i = 0; i < 100; i++)
			sn::go(add);
		until(sum, 100);
	});
}

TEST(Go, OutsideTheRuntimeThrowsAndDestroysTheCallable)
{
	const auto shared = std::make_shared<int>(1);
	EXPECT_THROW(sn::go([shared] {}), std::system_error);
	EXPECT_EQ(shared.use_count(), 1);
}

TEST(GoDeathTest, AnUncaughtExceptionNamesTheTask)
{
	GTEST_FLAG_SET(death_test_style, TEST_DEATH_STYLE);
	EXPECT_DEATH(sn::run([] {
			     sn::go([] { throw std::runtime_error("lost"); },
				    {.name = "the culprit"});
			     sn::sleep(10s);
		     }),
		     "an exception left the detached task [0-9]+ \"the culprit\"");
}

TEST(Spawn, JoinReturnsTheValue)
{
	sn::run([] {
		auto number = sn::spawn([] { return 3; });
		auto text = sn::spawn([] {
			sn::sleep(1ms);
			return std::string("text");
		});
		auto nothing = sn::spawn([] { sn::yield(); });
		auto pointer = sn::spawn([] { return std::make_unique<int>(4); });
		EXPECT_TRUE(number.joinable());
		EXPECT_EQ(number.join(), 3);
		EXPECT_FALSE(number.joinable());
		EXPECT_EQ(text.join(), "text");
		EXPECT_EQ(*pointer.join(), 4);
		nothing.join();
		EXPECT_THROW(nothing.join(), std::system_error);
	});
}

TEST(Spawn, JoinRethrows)
{
	sn::run([] {
		auto early = sn::spawn([]() -> int { throw error_with_number(1); });
		auto late = sn::spawn([] {
			sn::sleep(2ms);
			throw error_with_number(2);
		});
		sn::yield();
		for (int expected = 1; expected <= 2; expected++) {
			try {
				if (expected == 1)
					static_cast<void>(early.join());
				else
					late.join();
				ADD_FAILURE() << "join() returned";
			} catch (const error_with_number &error) {
				EXPECT_EQ(error.number, expected);
			}
		}
	});
}

TEST(Spawn, HandlesMoveAndDestroyingJoins)
{
	sn::run([] {
		std::atomic<int> ended = 0;
		const auto slowly = [&ended] {
			sn::sleep(5ms);
			++ended;
		};
		{
			auto first = sn::spawn(slowly);
			sn::task<void> second = std::move(first);
			EXPECT_FALSE(first.joinable());
			EXPECT_TRUE(second.joinable());
			second = sn::spawn(slowly); /* joins the task that it had */
			EXPECT_GE(ended, 1);
		}
		EXPECT_EQ(ended, 2);
		/* The exception of a task that is never joined does not escape either. */
		const auto dropped = sn::spawn([] { throw error_with_number(1); });
	});
}

/* Forks in a task that `start` starts. The child returns from it, or throws. Returns how it has
 * ended, as status_of(). */
template <class Start>
int forked(int value, Start start)
{
	pid_t child = -1;
	int status = -1;

	start([&] {
		child = fork();
		if (child == 0) {
			exit_without_checks();
			if (value < 0)
				throw std::runtime_error("in the child");
			return value;
		}
		status = test::status_of(child);
		return 0;
	});
	return status;
}

constexpr int aborted = 1000 + SIGABRT;

TEST(Run, AChildOfForkExitsWithItsValue)
{
	const auto run = [](auto body) { sn::run(body); };
	const auto without_value = [](auto body) { sn::run([&] { static_cast<void>(body()); }); };
	const auto spawned = [](auto body) { sn::run([&] { sn::spawn(body).join(); }); };
	const auto in_scope = [](auto body) {
		sn::run([&] {
			sn::scope all;
			all.go(body);
			EXPECT_TRUE(all.join());
		});
	};

	EXPECT_EQ(forked(7, run), 7);
	EXPECT_EQ(forked(-1, run), aborted);
	EXPECT_EQ(forked(7, without_value), 0);
	EXPECT_EQ(forked(-1, without_value), aborted);
	EXPECT_EQ(forked(7, spawned), 7);
	EXPECT_EQ(forked(-1, spawned), aborted);
	EXPECT_EQ(forked(7, in_scope), 7);
	EXPECT_EQ(forked(-1, in_scope), aborted);
}

TEST(Go, AChildOfForkExitsWithItsValue)
{
	for (const bool large : {false, true})
		EXPECT_EQ(
			forked(7,
			       [large](auto body) {
				       std::atomic<int> ended = 0;

				       sn::run([&] {
					       const auto f = [&] {
						       const int value = body();
						       ended++;
						       return value;
					       };
					       if (large)
						       sn::go([f, room = std::array<char, 4096>()] {
							       return f() + room[0];
						       });
					       else
						       sn::go(f);
					       until(ended, 1);
				       });
			       }),
			7)
			<< large;
}

/* Forks in a task, and returns the status of the child, in which the handle of a task of the parent
 * goes to in_child(). */
template <class F>
int with_handle_in_child(F in_child)
{
	int status = -1;

	sn::run([&] {
		std::atomic<int> over = 0;
		auto forks = sn::spawn([&] {
			auto waits = sn::spawn([&] { until(over, 1); });
			sn::yield();
			const pid_t child = fork();
			if (child == 0) {
				exit_without_checks();
				in_child(waits);
				return 7;
			}
			over = 1;
			return test::status_of(child);
		});
		status = forks.join();
	});
	return status;
}

TEST(Spawn, AChildOfForkDropsItsHandles)
{
	EXPECT_EQ(with_handle_in_child([](sn::task<void> &) {}), 7);
}

/* The number of the child's own run is another one than that of the handle's. */
TEST(Spawn, AChildOfForkDropsItsHandlesAlsoAroundARunOfItsOwn)
{
	EXPECT_EQ(with_handle_in_child([](sn::task<void> &) { sn::run([] {}); }), 7);
	EXPECT_EQ(with_handle_in_child([](sn::task<void> &handle) {
			  sn::run([&] { const auto dropped = std::move(handle); });
		  }),
		  7);
}

/* Becomes an int, but not without an error. */
struct NoInt {
	operator int() const { throw std::runtime_error("asked for an int"); }
};

TEST(Go, ValuesAreNotConvertedWhereNobodyAsksForThem)
{
	sn::run([] {
		std::atomic<int> ended = 0;

		sn::go([&] {
			ended++;
			return NoInt();
		});
		until(ended, 1);
		sn::yield();
		sn::spawn([] { return NoInt(); }).join();
	});
}

TEST(SpawnDeathTest, AHandleIsNotDestroyedOnAThread)
{
	GTEST_FLAG_SET(death_test_style, TEST_DEATH_STYLE);
	EXPECT_DEATH(sn::run([] {
			     std::thread([task = sn::spawn([] { sn::sleep(1h); })]() mutable {
				     sn::task<void> own = std::move(task);
			     }).join();
		     }),
		     "");
}

TEST(Spawn, TheCallableEndsWithTheTask)
{
	sn::run([] {
		const auto shared = std::make_shared<int>(1);
		auto task = sn::spawn([shared] { return *shared; });
		while (shared.use_count() > 1)
			sn::sleep(1ms);
		EXPECT_EQ(task.join(), 1);
	});
}

TEST(Spawn, AttributesReachTheTask)
{
	sn::run([] {
		auto named = sn::spawn([] { return std::string(sn_task_name(sn_self())); },
				       {.name = "forty-two"});
		EXPECT_EQ(named.join(), "forty-two");
		auto deep = sn::spawn(
			[] {
				volatile char frame[600 * 1024];
				frame[0] = 1;
				frame[sizeof frame - 1] = 2;
				return frame[0] + frame[sizeof frame - 1];
			},
			{.stack_size = 1024 * 1024});
		EXPECT_EQ(deep.join(), 3);
	});
}

/*
 * The C++ runtime keeps the state of exceptions per thread. It has to be per task here, because
 * several tasks park while they handle their exceptions, on all processors.
 */
TEST(Exceptions, BelongToTheTaskAcrossParks)
{
	sn::run([] {
		std::vector<sn::task<void>> tasks;
		for (int i = 0; i < 50; i++)
			tasks.push_back(sn::spawn([i] {
				for (int round = 0; round < 20; round++) {
					try {
						try {
							sn::yield();
							throw error_with_number(i);
						} catch (const error_with_number &) {
							sn::sleep(std::chrono::microseconds(
								100 * (i % 3)));
							try {
								throw round;
							} catch (int inner) {
								sn::yield();
								EXPECT_EQ(inner, round);
							}
							EXPECT_EQ(std::uncaught_exceptions(), 0);
							throw;
						}
					} catch (const error_with_number &error) {
						sn::yield();
						EXPECT_EQ(error.number, i);
					}
					EXPECT_EQ(std::current_exception(), nullptr);
				}
			}));
		for (auto &task : tasks)
			task.join();
	});
}

TEST(Exceptions, UnwindThroughDestructorsThatPark)
{
	sn::run([] {
		struct parks {
			int *count;
			~parks()
			{
				sn::sleep(1ms);
				++*count;
			}
		};
		std::vector<sn::task<int>> tasks;
		for (int i = 0; i < 10; i++)
			tasks.push_back(sn::spawn([] {
				int count = 0;
				try {
					const parks one{&count};
					const parks two{&count};
					throw 1;
				} catch (int) {
				}
				return count;
			}));
		for (auto &task : tasks)
			EXPECT_EQ(task.join(), 2);
	});
}

TEST(Time, SleepTakesAnyDuration)
{
	sn::run([] {
		const auto start = sn::now();
		sn::sleep(2ms);
		EXPECT_GE(sn::now() - start, 2ms);
		sn::sleep(0ms);
		sn::sleep(-1h);
		sn::sleep(std::chrono::duration<double>(0.001));
		sn::sleep_until(start + 5ms);
		EXPECT_GE(sn::now() - start, 5ms);
	});
}

TEST(Time, DurationsSaturate)
{
	EXPECT_EQ(sn::detail::to_ns(std::chrono::hours::max()), INT64_MAX);
	EXPECT_EQ(sn::detail::to_ns(std::chrono::hours::min()), INT64_MIN);
	EXPECT_EQ(sn::detail::to_ns(std::chrono::duration<double, std::nano>(0.5)), 1);
	EXPECT_EQ(sn::detail::to_ns(1h), 3'600'000'000'000);
	EXPECT_EQ(sn::after(std::chrono::hours::max()), sn::no_deadline);
	EXPECT_GT(sn::after(1h), sn::now());
}

TEST(Time, SleepOutsideOfATaskThrows)
{
	EXPECT_THROW(sn::sleep(1ms), std::system_error);
	EXPECT_THROW(sn::yield(), std::system_error);
}

TEST(Blocking, LetsOtherTasksRun)
{
	sn::run([] {
		std::atomic<int> ran = 0;
		sn::go([&ran] { ran = 1; });
		const int value = sn::blocking([&ran] {
			while (!ran)
				std::this_thread::sleep_for(1ms);
			return 9;
		});
		EXPECT_EQ(value, 9);
		sn::blocking([] {});
		EXPECT_THROW(sn::blocking([] { throw error_with_number(1); }), error_with_number);
	});
	EXPECT_EQ(sn::blocking([] { return 1; }), 1) << "outside a task it just calls the function";
}

} // namespace
