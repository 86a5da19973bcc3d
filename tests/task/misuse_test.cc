// SPDX-License-Identifier: MIT
//
// What programs do wrong with tasks and scopes. Each mistake returns an error, and never affects
// another task or scope.
#include "support/locks.h"
#include "support/misuse.h"

#include <sennit/collector.h>
#include <sennit/scan.h>
#include <sennit/wait_stats.h>

namespace
{

using namespace test;

int nothing(void *)
{
	return 0;
}

void ignore(const struct sn_scan *, void *) {}

TEST(Misuse, NullArguments)
{
	struct sn_task_attr with_argument = {};

	with_argument.arg_size = 8;
	EXPECT_EQ(-EINVAL, sn_run(nullptr, nullptr));
	test::run(1, [&] {
		const int64_t soon = sn_now() + ms;
		static const int key = 0;
		sn_scope *scope = nullptr;
		sn_task *task = nullptr;

		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		expect_each({
			MISTAKE(-EINVAL, sn_go(nullptr, nullptr)),
			MISTAKE(-EINVAL, sn_spawn(&task, nullptr, nullptr, nullptr)),
			MISTAKE(-EINVAL, sn_spawn(nullptr, nothing, nullptr, &with_argument)),
			MISTAKE(-EINVAL, sn_join(nullptr, nullptr)),
			MISTAKE(-EINVAL, sn_join_until(nullptr, nullptr, soon)),
			MISTAKE(0, sn_detach(nullptr)),
			MISTAKE(0, (int64_t)sn_task_id(nullptr)),
			MISTAKE(0, strlen(sn_task_name(nullptr))),
			MISTAKE(-EINVAL, sn_blocking(nullptr, nullptr)),
			MISTAKE(-EINVAL, sn_run_stats(nullptr)),
			MISTAKE(-EINVAL, sn_tasks_each(nullptr, nullptr)),
			MISTAKE(-EINVAL, sn_task_scan(nullptr, ignore, nullptr)),
			MISTAKE(-EINVAL, sn_task_scan_async(nullptr, ignore, nullptr)),
			MISTAKE(-EINVAL, sn_collector_install(nullptr)),
			MISTAKE(-EINVAL, sn_wait_stats(nullptr, 1)),
			MISTAKE(-EINVAL, sn_scope_open(nullptr, SN_NO_DEADLINE)),
			MISTAKE(-EINVAL, sn_scope_go(nullptr, nothing, nullptr)),
			MISTAKE(-EINVAL, sn_scope_go(scope, nullptr, nullptr)),
			MISTAKE(-EINVAL, sn_scope_spawn(nullptr, nothing, nullptr, nullptr)),
			MISTAKE(-EINVAL, sn_scope_spawn(scope, nullptr, nullptr, nullptr)),
			MISTAKE(-EINVAL, sn_scope_cancel(nullptr)),
			MISTAKE(-EINVAL, sn_scope_set_value(nullptr, &key, nullptr)),
			MISTAKE(0, sn_scope_close(nullptr)),
		});
		EXPECT_EQ(nullptr, task);
		EXPECT_EQ(0, sn_scope_close(scope));
	});
}

// ---- tasks ----

sn_task *spawn(sn_fn *fn, void *arg)
{
	sn_task *task = nullptr;

	EXPECT_EQ(0, sn_spawn(&task, fn, arg, nullptr));
	return task;
}

TASK_TEST(Misuse, JoiningTwice)
{
	sn_task *task = spawn(nothing, nullptr);
	int result = 7;

	EXPECT_EQ(0, sn_join(task, &result));
	result = 7;
	expect_each({
		MISTAKE(-ESRCH, sn_join(task, &result)),
		MISTAKE(-ESRCH, sn_join_until(task, &result, sn_now() + ms)),
		MISTAKE(-ESRCH, sn_detach(task)),
		MISTAKE(-ESRCH, sn_task_scan(task, ignore, nullptr)),
		MISTAKE(-ESRCH, sn_task_scan_async(task, ignore, nullptr)),
		MISTAKE(0, (int64_t)sn_task_id(task)),
		MISTAKE(0, strlen(sn_task_name(task))),
	});
	EXPECT_EQ(7, result) << "nothing was joined";
}

TASK_TEST(Misuse, JoiningADetachedTask)
{
	sn_semaphore end = SN_SEMAPHORE_INIT(0);
	sn_task *task =
		spawn([](void *arg) { return sn_semaphore_acquire((sn_semaphore *)arg); }, &end);

	EXPECT_EQ(0, sn_detach(task));
	EXPECT_EQ(-EINVAL, sn_join(task, nullptr));
	EXPECT_EQ(-EINVAL, sn_join_until(task, nullptr, sn_now() + ms));
	EXPECT_EQ(-EINVAL, sn_detach(task));
	EXPECT_EQ(0, sn_semaphore_release(&end, 1));
	EXPECT_TRUE(test::all_ended());
	EXPECT_EQ(-ESRCH, sn_join(task, nullptr));
	EXPECT_EQ(-ESRCH, sn_detach(task));
}

// The control block of an ended task is used for the next one.
TASK_TEST(Misuse, AJoinedTaskIsNotItsSuccessor, 1, 2)
{
	for (int i = 0; i < 60; i++) {
		sn_semaphore end = SN_SEMAPHORE_INIT(0);
		sn_task *stale = spawn(nothing, nullptr);
		int result = 7;

		EXPECT_EQ(0, sn_join(stale, nullptr));
		sn_task *next = spawn(
			[](void *arg) { return sn_semaphore_acquire((sn_semaphore *)arg) - 5; },
			&end);
		EXPECT_EQ(-ESRCH, sn_join_until(stale, &result, sn_now() + ms));
		EXPECT_EQ(-ESRCH, sn_detach(stale));
		EXPECT_EQ(0u, sn_task_id(stale));
		EXPECT_EQ(0, sn_semaphore_release(&end, 1));
		EXPECT_EQ(0, sn_join(next, &result));
		EXPECT_EQ(-5, result);
	}
}

// Many tasks join one. Exactly one gets the result, no matter when the others call.
TASK_TEST(Misuse, ManyJoinOne, 1, 2, 4)
{
	for (int i = 0; i < test::scaled(300); i++) {
		std::atomic<int> joined{0};
		sn_task *target = spawn([](void *) { return sn_yield(); }, nullptr);
		std::vector<Task> joiners;

		for (int j = 0; j < 4; j++)
			joiners.emplace_back([&, j] {
				const int err = j % 2 ? sn_join(target, nullptr)
						      : sn_join_until(target, nullptr,
								      sn_after(test::second * 100));

				joined += err == 0;
				EXPECT_TRUE(err == 0 || err == -EBUSY || err == -ESRCH) << err;
			});
		join_all(joiners);
		EXPECT_EQ(1, joined);
	}
}

TEST(Misuse, ATaskEndsWithItsRun)
{
	sn_task *stale = nullptr, *own = nullptr;
	sn_scope *scope = nullptr;

	test::run(1, [&] {
		stale = spawn([](void *) { return sn_sleep(test::second * 1000); }, nullptr);
		own = sn_self();
		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		EXPECT_EQ(0, sn_scope_close(scope));
		spawn(
			[](void *arg) {
				EXPECT_EQ(0, sn_scope_open((sn_scope **)arg, SN_NO_DEADLINE));
				return sn_sleep(test::second * 1000);
			},
			&scope);
		sn_sleep(ms);
	});
	EXPECT_EQ(-ESRCH, sn_detach(stale));
	test::run(1, [&] {
		std::vector<Task> others;

		for (int i = 0; i < 3; i++)
			others.emplace_back([] { sn_sleep(20 * ms); });
		EXPECT_EQ(-ESRCH, sn_join(stale, nullptr));
		EXPECT_EQ(-ESRCH, sn_detach(stale));
		EXPECT_EQ(0u, sn_task_id(own));
		EXPECT_EQ(-ESRCH, sn_scope_cancel(scope));
		EXPECT_EQ(-ESRCH, sn_scope_go(scope, nothing, nullptr));
		join_all(others);
	});
}

TASK_TEST(Misuse, SelfIsTheSpawnersHandle, 1)
{
	sn_task *seen = nullptr;
	sn_task *task = spawn(
		[](void *arg) {
			*(sn_task **)arg = sn_self();
			return sn_join(sn_self(), nullptr);
		},
		&seen);
	int result = 0;

	EXPECT_EQ(0, sn_join(task, &result));
	EXPECT_EQ(task, seen);
	EXPECT_EQ(-EDEADLK, result);
}

// ---- scopes ----

TASK_TEST(Misuse, AClosedScopeIsNotItsSuccessor, 1, 2)
{
	static const int key = 0;

	for (int i = 0; i < 50; i++) {
		sn_scope *stale = nullptr, *next = nullptr;

		ASSERT_EQ(0, sn_scope_open(&stale, SN_NO_DEADLINE));
		EXPECT_EQ(0, sn_scope_close(stale));
		ASSERT_EQ(0, sn_scope_open(&next, SN_NO_DEADLINE));
		EXPECT_EQ(next, sn_scope_current());
		expect_each({
			MISTAKE(-ESRCH, sn_scope_cancel(stale)),
			MISTAKE(-ESRCH, sn_scope_go(stale, nothing, nullptr)),
			MISTAKE(-ESRCH, sn_scope_spawn(stale, nothing, nullptr, nullptr)),
			MISTAKE(-ESRCH, sn_scope_set_value(stale, &key, nullptr)),
			MISTAKE(-ESRCH, sn_scope_close(stale)),
			MISTAKE(0, sn_cancelled()),
		});
		EXPECT_EQ(0, sn_scope_close(next));
	}
}

#if SENNIT_DEBUG
TEST(MisuseDeathTest, ClosingInTheWrongOrderNamesTheTask)
{
	GTEST_FLAG_SET(death_test_style, TEST_DEATH_STYLE);
	EXPECT_DEATH(test::run(1,
			       [] {
				       sn_scope *outer = nullptr, *inner = nullptr;

				       ASSERT_EQ(0, sn_scope_open(&outer, SN_NO_DEADLINE));
				       ASSERT_EQ(0, sn_scope_open(&inner, SN_NO_DEADLINE));
				       sn_scope_close(outer);
			       }),
		     "sn_scope_close\\(\\).*opened last, in task [0-9]+ \"main\"");
}
#endif

// The scope is closed while other tasks start tasks in it, or cancel it. Each call either reaches
// the scope or reports that it is gone.
TASK_TEST(Misuse, UsingAScopeRacesWithClosing, 2, 4)
{
	std::atomic<sn_scope *> current{nullptr};
	std::atomic<bool> done{false};
	std::atomic<int> started{0}, ran{0};
	static std::atomic<int> *counter;
	std::vector<Task> users;

	counter = &ran;
	for (int i = 0; i < 3; i++)
		users.emplace_back([&, i] {
			while (!done) {
				sn_scope *scope = current;
				int err = 0;

				if (scope && i == 0)
					err = sn_scope_cancel(scope);
				else if (scope)
					err = sn_scope_go(
						scope, [](void *) { return 0 * ++*counter; },
						nullptr);
				started += scope && i > 0 && err == 0;
				EXPECT_TRUE(err == 0 || err == -ESRCH || err == -ECANCELED) << err;
				sn_yield();
			}
		});
	for (int i = 0; i < test::scaled(3000); i++) {
		sn_scope *scope = nullptr;

		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		current = scope;
		if (i % 2)
			sn_yield();
		const int err = sn_scope_close(scope);
		EXPECT_TRUE(err == 0 || err == -ECANCELED) << err;
	}
	done = true;
	join_all(users);
	EXPECT_TRUE(test::eventually([&] { return ran == started; }));
}

} // namespace
