// SPDX-License-Identifier: MIT
// Labels: machine
//
// The life of tasks: spawning with attributes, joining, detaching, names and numbers, with every
// error that task.h documents.
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/records.h"
#include "support/runtime.h"

namespace
{

using test::Task;

int return_arg(void *arg)
{
	return *static_cast<int *>(arg);
}

int nothing(void *)
{
	return 0;
}

TASK_TEST(Join, ReturnsTheValue)
{
	for (int value : {0, 1, -1, INT32_MIN, INT32_MAX}) {
		sn_task *task = nullptr;
		int result = 1234;

		ASSERT_EQ(0, sn_spawn(&task, return_arg, &value, nullptr));
		ASSERT_NE(nullptr, task);
		EXPECT_EQ(0, sn_join(task, &result));
		EXPECT_EQ(value, result);
	}
}

TASK_TEST(Join, ResultMayBeNull)
{
	sn_task *task;

	ASSERT_EQ(0, sn_spawn(&task, nothing, nullptr, nullptr));
	EXPECT_EQ(0, sn_join(task, nullptr));
}

TASK_TEST(Join, FindsATaskThatEndedLongAgo)
{
	Task task([] { return 5; });

	EXPECT_TRUE(test::eventually([] { return test::stats().tasks_alive == 1; }));
	EXPECT_EQ(5, task.join());
}

TASK_TEST(Join, OfItselfIsADeadlock)
{
	std::atomic<sn_task *> handle{nullptr};
	Task task([&] {
		while (!handle.load())
			sn_yield();
		EXPECT_EQ(-EDEADLK, sn_join(handle.load(), nullptr));
		return 6;
	});

	handle = task.get();
	EXPECT_EQ(6, task.join()) << "the handle stays valid";
}

TASK_TEST(Join, ASecondJoinerIsRefused)
{
	std::atomic<bool> end{false};
	std::atomic<int> busy{0}, joined{0};
	sn_task *target = nullptr;
	auto body = [&] {
		while (!end.load())
			sn_sleep(test::us);
		return 7;
	};
	Task task(body);

	target = task.get();
	// Of four joiners one waits. The others get an error at once.
	std::vector<Task> joiners;
	for (int i = 0; i < 4; i++)
		joiners.emplace_back([&] {
			int result = 0, err = sn_join(target, &result);

			if (err == 0) {
				EXPECT_EQ(7, result);
				joined++;
			} else {
				EXPECT_EQ(-EBUSY, err);
				busy++;
			}
		});
	EXPECT_TRUE(test::eventually([&] { return busy.load() == 3; }));
	EXPECT_EQ(-EBUSY, sn_detach(target));
	end = true;
	test::join_all(joiners);
	EXPECT_EQ(1, joined.load());
	task.release();
}

TEST(Join, OutsideATaskIsRefused)
{
	EXPECT_EQ(-ENOTSUP, sn_join(nullptr, nullptr));
	test::run([] {
		Task task([] { return 8; });

		std::thread([&] { EXPECT_EQ(-ENOTSUP, sn_join(task.get(), nullptr)); }).join();
		EXPECT_EQ(8, task.join());
	});
}

// The joiner may run straight after the task that it joins, but not before those queued earlier.
TEST(Join, TheJoinerTakesNoTurnFromOthers)
{
	constexpr int rounds = 1000;
	int in_order = 0;

	test::run(1, [&] {
		for (int i = 0; i < rounds; i++) {
			std::atomic<bool> other_ran{false};
			Task target([&] {
				sn_go(
					[](void *ran) {
						return *static_cast<std::atomic<bool> *>(ran) =
							       true,
										      0;
					},
					&other_ran);
			});

			target.join();
			in_order += other_ran.load();
			while (!other_ran.load())
				sn_yield();
		}
	});
	// Not in all rounds: a thread that the system stops for long loses its processor.
	EXPECT_GT(in_order, rounds * 9 / 10);
}

TASK_TEST(Join, APinnedJoinerStaysOnItsThread, 1, 2)
{
	ASSERT_EQ(0, sn_pin());
	const pid_t thread = gettid();

	for (int i = 0; i < 1000; i++) {
		Task task([i] { return i; });

		ASSERT_EQ(i, task.join());
		ASSERT_EQ(thread, gettid());
	}
	sn_unpin();
}

TASK_TEST(Join, ChainOfAThousand)
{
	std::function<int(int)> chain = [&](int depth) -> int {
		if (depth == 0)
			return 0;
		Task below([&, depth] { return chain(depth - 1); });
		return below.join() + 1;
	};

	EXPECT_EQ(1000, chain(1000));
}

TASK_TEST(Detach, BeforeAndAfterTheEnd)
{
	std::atomic<int> ran{0};

	for (int i = 0; i < 100; i++) {
		Task task([&] { ran++; });

		if (i % 2) {
			EXPECT_TRUE(test::eventually([&] { return ran.load() > i; }));
		}
		task.detach();
	}
	EXPECT_TRUE(test::all_ended());
	EXPECT_EQ(100, ran.load());
}

TASK_TEST(Detach, FromAnotherThread)
{
	std::atomic<bool> end{false};
	Task running([&] {
		while (!end.load())
			sn_yield();
	});
	Task ended([] {});

	EXPECT_TRUE(test::eventually([] { return test::stats().tasks_alive == 2; }));
	std::thread([&] {
		ended.detach();
		running.detach();
	}).join();
	end = true;
	EXPECT_TRUE(test::all_ended());
}

TASK_TEST(Go, RunsDetached)
{
	static std::atomic<int> ran;

	ran = 0;
	for (int i = 0; i < 1000; i++)
		ASSERT_EQ(0, sn_go(
				     [](void *) {
					     ran++;
					     return 0;
				     },
				     nullptr));
	EXPECT_TRUE(test::all_ended());
	EXPECT_EQ(1000, ran.load());
	EXPECT_EQ(1001u, test::stats().tasks_spawned);
}

// Each task begins in the switch away from the previous one, before that one's stack is left. The
// scheduler's loop comes in between at fair turns only.
TEST(Go, ShortTasksFollowEachOtherDirectly)
{
	constexpr int n = 6400;
	test::Environment size("SENNIT_RECORD", "1M");
	std::vector<struct test_record> records;
	int rings, loops = 0, ends = 0;

	test::run(1, [] {
		sn_waitgroup left = SN_WAITGROUP_INIT;

		EXPECT_EQ(0, sn_waitgroup_add(&left, n));
		for (int i = 0; i < n; i++)
			EXPECT_EQ(0, sn_go(
					     [](void *arg) {
						     return sn_waitgroup_done(
							     static_cast<sn_waitgroup *>(arg));
					     },
					     &left));
		EXPECT_EQ(0, sn_waitgroup_wait(&left));
	});
	records.resize(test_records_size(&rings));
	ASSERT_FALSE(records.empty());
	records.resize(test_records_copy(0, records.data()));
	for (const struct test_record &record : records) {
		loops += test_record_is(record.what, "run");
		ends += test_record_is(record.what, "end");
	}
	// The run may end before some of the last tasks have ended.
	EXPECT_GT(ends, n * 9 / 10);
	EXPECT_LT(loops, n / 10);
}

TEST(Spawn, WithoutARuntimeIsRefused)
{
	sn_task *task = reinterpret_cast<sn_task *>(1);

	EXPECT_EQ(-ESRCH, sn_go(nothing, nullptr));
	EXPECT_EQ(-ESRCH, sn_spawn(&task, nothing, nullptr, nullptr));
	EXPECT_EQ(reinterpret_cast<sn_task *>(1), task) << "written only on success";
	test::run(1, [] {});
	EXPECT_EQ(-ESRCH, sn_go(nothing, nullptr)) << "and again after a run";
}

TASK_TEST(Spawn, RefusesBadAttributes)
{
	const size_t most = sizeof(void *) == 8 ? size_t(1) << 30 : size_t(64) << 20;
	sn_task *task = reinterpret_cast<sn_task *>(1);
	struct sn_task_attr attr = {};

	attr.stack_size = most + 1;
	EXPECT_EQ(-EINVAL, sn_spawn(&task, nothing, nullptr, &attr));
	attr.stack_size = SIZE_MAX;
	EXPECT_EQ(-EINVAL, sn_spawn(&task, nothing, nullptr, &attr));
	attr = {};
	attr.flags = 1u << 31;
	EXPECT_EQ(-EINVAL, sn_spawn(&task, nothing, nullptr, &attr));
	EXPECT_EQ(reinterpret_cast<sn_task *>(1), task);
	EXPECT_EQ(1u, test::stats().tasks_spawned) << "what was refused does not count";
}

// Each size can be used to the last byte, whatever it is rounded up to.
TASK_TEST(Spawn, StackSizesAreUsable, 2)
{
	for (size_t size : {size_t(1), size_t(16) << 10, size_t(100) << 10, size_t(1) << 20,
			    size_t(5) << 20, size_t(32) << 20}) {
		struct sn_task_attr attr = {};

		attr.stack_size = size;
		Task task(
			[size] {
				// The test itself and the sanitizers need the rest.
				const size_t most = size > 16384 ? size - 8192 : 4096;
				volatile char *array = static_cast<char *>(__builtin_alloca(most));

				for (size_t i = 0; i < most; i += 1024)
					array[most - 1 - i] = 1;
				return array[most - 1];
			},
			&attr);
		EXPECT_EQ(1, task.join()) << size;
	}
}

TASK_TEST(Spawn, StacksBeginAtSeveralOffsets)
{
	constexpr int count = 256;
	std::atomic<int> begun{0};
	std::set<uintptr_t> offsets;
	std::vector<Task> tasks;
	std::mutex mutex;

	for (int i = 0; i < count; i++)
		tasks.emplace_back([&] {
			const void *here = __builtin_frame_address(0);

			{
				std::lock_guard lock(mutex);
				offsets.insert(reinterpret_cast<uintptr_t>(here) % 4096);
			}
			// Until all tasks have begun, so that no two have the same stack.
			for (begun++; begun != count;)
				sn_yield();
		});
	test::join_all(tasks);
	EXPECT_GE(offsets.size(), 8u);
	EXPECT_LE(offsets.size(), 16u);
}

TEST(Name, IsCopiedAndTruncated)
{
	test::run([] {
		const std::string longest(SN_TASK_NAME_MAX, 'x');
		std::string given = "given";
		struct sn_task_attr attr = {};

		EXPECT_STREQ("main", sn_task_name(sn_self()));
		attr.name = given.c_str();
		Task named([] { EXPECT_STREQ("given", sn_task_name(sn_self())); }, &attr);
		given = "other";
		named.join();

		const std::string too_long = longest + "y";
		attr.name = too_long.c_str();
		Task cut([&] { EXPECT_EQ(longest, sn_task_name(sn_self())); }, &attr);
		EXPECT_EQ(longest, sn_task_name(cut.get())) << "seen from another task";
		cut.join();

		Task unnamed([&] {
			EXPECT_STREQ("task", sn_task_name(sn_self()));
			EXPECT_EQ(0, sn_task_set_name("self"));
			EXPECT_STREQ("self", sn_task_name(sn_self()));
			EXPECT_EQ(0, sn_task_set_name(too_long.c_str()));
			EXPECT_EQ(longest, sn_task_name(sn_self()));
			EXPECT_EQ(0, sn_task_set_name(""));
			EXPECT_STREQ("task", sn_task_name(sn_self()));
		});
		unnamed.join();
	});
	EXPECT_EQ(-ENOTSUP, sn_task_set_name("outside"));
}

TEST(Id, IsUniqueFromOneUpwards)
{
	std::set<uint64_t> all;
	int count = 0;

	for (int round = 0; round < 2; round++)
		test::run([&] {
			std::vector<Task> tasks;

			EXPECT_TRUE(all.insert(sn_task_id(sn_self())).second);
			count++;
			for (int i = 0; i < 200; i++) {
				tasks.emplace_back([] {});
				EXPECT_TRUE(all.insert(sn_task_id(tasks.back().get())).second);
				count++;
			}
			test::join_all(tasks);
		});
	EXPECT_EQ(size_t(count), all.size());
	EXPECT_GE(*all.begin(), 1u);
}

TEST(Self, IsTheTaskAndNullOutside)
{
	EXPECT_EQ(nullptr, sn_self());
	test::run([] {
		Task task([] { return sn_self() != nullptr; });
		sn_task *me = sn_self(), *handle = task.get();

		EXPECT_NE(nullptr, me);
		EXPECT_NE(me, handle);
		EXPECT_EQ(1, task.join());
		for (int i = 0; i < 100; i++) {
			sn_yield();
			EXPECT_EQ(me, sn_self());
		}
		std::thread([] { EXPECT_EQ(nullptr, sn_self()); }).join();
	});
	EXPECT_EQ(nullptr, sn_self());
}

TEST(Outside, CallsThatParkAreRefused)
{
	EXPECT_EQ(-ENOTSUP, sn_yield());
	EXPECT_EQ(-ENOTSUP, sn_sleep(1));
	EXPECT_EQ(-ENOTSUP, sn_sleep(0));
	EXPECT_EQ(-ENOTSUP, sn_sleep(-1));
	EXPECT_EQ(-ENOTSUP, sn_sleep_until(sn_now() + 1));
	test::run(1, [] {
		std::thread([] {
			EXPECT_EQ(-ENOTSUP, sn_yield());
			EXPECT_EQ(-ENOTSUP, sn_sleep(1));
		}).join();
	});
}

} // namespace
