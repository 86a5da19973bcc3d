// SPDX-License-Identifier: MIT
//
// What a task may rely on across parks, on every architecture: its exceptions, rounding mode and
// errno stay its own, and the runtime knows on which thread the task is.
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <exception>
#include <gtest/gtest.h>
#include <sennit/sennit.h>
#include <stdexcept>
#include <string>

#include "thread_block.h"

namespace
{

constexpr int kTasks = 16;
constexpr int kRounds = 50;

std::atomic<int> failures, done;

void check(bool good)
{
	if (!good)
		failures++;
}

/* Runs the body in kTasks tasks that take turns, because each parks between its steps. */
int run_together(sn_fn *body)
{
	static sn_fn *the_body;

	the_body = body;
	failures = done = 0;
	int err = sn_run(
		[](void *) {
			sn_task *tasks[kTasks];

			for (auto &task : tasks)
				if (sn_spawn(&task, the_body, &task, nullptr) < 0)
					return -1;
			for (auto *task : tasks)
				if (sn_join(task, nullptr) < 0)
					return -2;
			return 0;
		},
		nullptr);
	EXPECT_EQ(done, kTasks);
	EXPECT_EQ(failures, 0);
	return err;
}

/* errno's address belongs to the thread. A separate function looks it up, so it is not kept across
 * a park. */
[[gnu::noinline]] int get_errno()
{
	int value = errno;
	asm volatile("" ::: "memory");
	return value;
}

[[gnu::noinline]] void set_errno(int value)
{
	errno = value;
	asm volatile("" ::: "memory");
}

/* Parks while an exception is in flight, which is the most delicate moment. */
struct Parker {
	~Parker()
	{
		check(std::uncaught_exceptions() == 1);
		sn_yield();
		check(std::uncaught_exceptions() == 1);
		try {
			throw 1;
		} catch (int) {
			sn_yield();
		}
		check(std::uncaught_exceptions() == 1);
	}
};

[[gnu::noinline]] void fail(int levels, const std::string &what)
{
	Parker parker;

	if (levels == 0)
		throw std::runtime_error(what);
	fail(levels - 1, what);
}

int throw_and_park(void *arg)
{
	const std::string mine = "task " + std::to_string(reinterpret_cast<uintptr_t>(arg));

	for (int i = 0; i < kRounds; i++) {
		try {
			fail(3, mine);
			check(false);
		} catch (const std::runtime_error &err) {
			sn_yield();
			check(err.what() == mine);
			try {
				std::rethrow_exception(std::current_exception());
			} catch (const std::exception &again) {
				sn_yield();
				check(again.what() == mine);
			}
			sn_yield();
		}
		check(std::uncaught_exceptions() == 0);
		check(!std::current_exception());
	}
	done++;
	return 0;
}

TEST(Task, ExceptionsStayWithTheirTask)
{
	EXPECT_EQ(run_together(throw_and_park), 0);
}

int round_and_park(void *arg)
{
	static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
	const auto number = static_cast<unsigned>(reinterpret_cast<uintptr_t>(arg) / sizeof arg);

	for (unsigned i = 0; i < kRounds; i++) {
		int mode = modes[(number + i) % 4];

		std::fesetround(mode);
		set_errno(static_cast<int>(number % 100 + i));
		sn_yield();
		check(std::fegetround() == mode);
		check(get_errno() == static_cast<int>(number % 100 + i));
	}
	done++;
	return 0;
}

TEST(Task, RoundingAndErrnoStayWithTheirTask)
{
	EXPECT_EQ(run_together(round_and_park), 0);
}

int move_about(void *)
{
	int moves = 0;

	check(thread_block_follows(kRounds, &moves) == 0);
	done++;
	return 0;
}

TEST(Task, FindsItsThreadAfterEachPark)
{
	EXPECT_EQ(run_together(move_about), 0);
}

} // namespace
