// SPDX-License-Identifier: MIT
//
// What remains of one run when the next begins: counts of foreign callers, and handles of tasks
// that were never joined.
#include <atomic>
#include <csignal>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "support/runtime.h"

namespace
{

// A foreign thread makes a call just when a run begins or ends. Afterwards no run counts it as
// inside, so no end of a run waits for it.
TEST(BetweenRuns, ForeignCallersDelayNoEnd)
{
	static std::atomic<bool> asks, pauses;
	std::atomic<bool> over{false};
	std::thread outside([&] {
		while (!over)
			if (asks) {
				pauses = false;
				sn_go([](void *) { return 0; }, nullptr);
			} else {
				pauses = true;
				sched_yield();
			}
	});

	for (int i = 0; i < test::scaled(1000); i++) {
		asks = true;
		pauses = false;
		test::run(1, [] {
			asks = false;
			EXPECT_TRUE(test::eventually([] { return pauses.load(); }));
		});
	}
	over = true;
	outside.join();
}

sn_task *parked, *ended;

// Leaves the handles of two tasks that were not joined.
void leave_handles()
{
	CHILD_CHECK(sn_spawn(
			    &parked, [](void *) { return sn_sleep(INT64_MAX); }, nullptr,
			    nullptr) == 0);
	CHILD_CHECK(sn_spawn(
			    &ended, [](void *) { return 8; }, nullptr, nullptr) == 0);
	CHILD_CHECK(test::eventually([] { return test::stats().tasks_alive == 2; }));
}

// The join has a deadline, so that the test fails, instead of hanging, if the call takes the handle
// for a task of this run.
void expect_stale()
{
	int result = 0;

	for (sn_task *task : {parked, ended}) {
		CHILD_CHECK(sn_task_id(task) == 0);
		CHILD_CHECK(sn_join_until(task, &result, sn_now() + 100 * test::ms) == -ESRCH);
		CHILD_CHECK(sn_detach(task) == -ESRCH);
	}
}

void run_in_child(void (*body)())
{
	const int result = sn_run(
		[](void *arg) {
			(*static_cast<void (**)()>(arg))();
			return 4711;
		},
		&body);

	CHILD_CHECK(result == 4711);
}

// Each test runs in a process of its own, because the handles stay there.
class Handles : public testing::Test
{
protected:
	Handles() { testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE; }
};

TEST_F(Handles, OfAFormerRunAreStale)
{
	EXPECT_EXIT(
		{
			run_in_child(leave_handles);
			run_in_child(expect_stale);
			_exit(0);
		},
		testing::ExitedWithCode(0), "");
}

// A task that never returns makes the run leave its memory as it is.
TEST_F(Handles, OfAFormerRunWithOrphansAreStale)
{
	EXPECT_EXIT(
		{
			run_in_child([] {
				static std::atomic<bool> gone;

				leave_handles();
				CHILD_CHECK(sn_go(
						    [](void *) {
							    gone = true;
							    for (;;)
								    pause();
							    return 0;
						    },
						    nullptr) == 0);
				CHILD_CHECK(test::eventually([] { return gone.load(); }));
			});
			for (int i = 0; i < 3; i++)
				run_in_child(expect_stale);
			_exit(0);
		},
		testing::ExitedWithCode(0), "");
}

// TSan does not let a child of a process with threads start threads. ASan looks for leaks when a
// process exits, and in a forked child that happens on a task's stack.
#if !TEST_TSAN && !TEST_ASAN && !TEST_EMULATED

TEST_F(Handles, OfTheParentAreStaleInAForkedChild)
{
	EXPECT_EXIT(
		{
			run_in_child([] {
				int status = -1;

				leave_handles();
				const pid_t child = fork();
				if (child == 0) {
					for (int i = 0; i < 3; i++)
						run_in_child(expect_stale);
					_exit(0);
				}
				CHILD_CHECK(waitpid(child, &status, 0) == child);
				CHILD_CHECK(status == 0);
				// In the parent, the handles are still valid.
				CHILD_CHECK(sn_join(ended, &status) == 0 && status == 8);
				CHILD_CHECK(sn_detach(parked) == 0);
			});
			_exit(0);
		},
		testing::ExitedWithCode(0), "");
}

#endif

} // namespace
