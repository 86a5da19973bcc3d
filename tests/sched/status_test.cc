// SPDX-License-Identifier: MIT
//
// The table of a task's status, and the list of all tasks: which tasks it lists, what it says of
// each, and that this is consistent while tasks come and go.
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>

#include <sennit/scan.h>

#include "support/internals.h"
#include "support/runtime.h"

// Exported, so that its name can be found.
extern "C" __attribute__((visibility("default"), noinline)) sn_task *sennit_test_spawner(void);

extern "C" sn_task *sennit_test_spawner(void)
{
	struct sn_task_attr attr = {};
	sn_task *task = nullptr;

	attr.name = "sleeper";
	EXPECT_EQ(0, sn_spawn(
			     &task, [](void *) { return sn_sleep(INT64_MAX); }, nullptr, &attr));
	return task;
}

namespace
{

using Infos = std::map<uint64_t, struct sn_task_info>;

Infos all_tasks()
{
	Infos infos;
	int result = sn_tasks_each(
		[](const struct sn_task_info *info, void *arg) {
			auto &into = *static_cast<Infos *>(arg);

			EXPECT_TRUE(into.emplace(info->id, *info).second) << "seen twice";
			return 0;
		},
		&infos);

	EXPECT_EQ(0, result);
	return infos;
}

enum { FREE, NEW, RUNNABLE, RUNNING, PARKED, BLOCKING, RETURNING, ENDED, STATUSES };
enum { CREATOR = 1, WAKER = 2, RUNNER = 4, LEAVER = 8, MONITOR = 16, FREER = 32, SCANNER = 64 };

// The table is written a second time here, from the description in status.h. A change there has to
// be made here, too.
TEST(Status, TheTableMatchesItsSpecification)
{
	const std::map<std::pair<int, int>, int> meant = {
		{{FREE, NEW}, CREATOR},
		{{NEW, RUNNABLE}, CREATOR | WAKER},
		{{NEW, PARKED}, CREATOR},
		{{NEW, FREE}, FREER},
		{{RUNNABLE, RUNNING}, RUNNER},
		{{RUNNABLE, RUNNABLE}, SCANNER},
		{{RUNNING, PARKED}, LEAVER},
		{{RUNNING, RUNNABLE}, RUNNER},
		{{RUNNING, BLOCKING}, MONITOR | RUNNER},
		{{RUNNING, ENDED}, RUNNER},
		{{PARKED, RUNNABLE}, WAKER},
		{{BLOCKING, RUNNING}, RUNNER},
		{{BLOCKING, RETURNING}, RUNNER},
		{{RETURNING, RUNNING}, RUNNER},
		{{ENDED, FREE}, FREER},
	};

	for (int from = 0; from < STATUSES; from++)
		for (int to = 0; to < STATUSES; to++)
			for (int by = CREATOR; by <= SCANNER; by *= 2) {
				auto found = meant.find({from, to});
				bool wanted = found != meant.end() && (found->second & by);

				EXPECT_EQ(wanted, probe_status_allowed(from, to, by))
					<< from << " to " << to << " by " << by;
			}
	EXPECT_FALSE(probe_status_allowed(STATUSES, NEW, CREATOR));
}

TEST(Tasks, NoneOutsideARun)
{
	sn_task_visitor *never = [](const struct sn_task_info *, void *) { return 1; };

	EXPECT_EQ(-ESRCH, sn_tasks_each(never, nullptr));
	EXPECT_EQ(-EINVAL, sn_tasks_each(nullptr, nullptr));
}

TASK_TEST(Tasks, EachIsSeenWithItsNameAndState)
{
	struct sn_task_attr attr = {};

	sn_task *sleeper = sennit_test_spawner();
	attr.name = "a name that is longer than thirty-one bytes";
	test::Task joiner([] {}, &attr);
	ASSERT_TRUE(test::eventually([&] {
		Infos infos = all_tasks();
		return infos.count(sn_task_id(sleeper)) &&
		       infos[sn_task_id(sleeper)].state == SN_STATE_PARKED &&
		       infos[sn_task_id(joiner.get())].state == SN_STATE_ENDED;
	}));
	const uint64_t me = sn_task_id(sn_self());
	Infos infos;

	// sn_tasks_each() runs outside the runtime, so this task counts as blocking if the
	// machine stalls it for long.
	EXPECT_TRUE(test::eventually([&] {
		infos = all_tasks();
		return infos[me].state == SN_STATE_RUNNING;
	}));
	EXPECT_EQ(3u, infos.size());
	EXPECT_STREQ("main", infos[me].name);
	EXPECT_EQ(sn_self(), infos[me].task);
	// Not the address of a variable, because ASan may move variables off the stack.
	const void *const here = __builtin_frame_address(0);
	EXPECT_LT(infos[me].stack_low, here);
	EXPECT_GT(infos[me].stack_high, here);
	EXPECT_EQ(nullptr, infos[me].spawned_at);
	EXPECT_EQ(0u, infos[me].spawned_by);

	const struct sn_task_info &s = infos[sn_task_id(sleeper)];
	EXPECT_STREQ("sleeper", s.name);
	EXPECT_EQ(me, s.spawned_by);
	EXPECT_GE(s.stack_saved, s.stack_low);
	EXPECT_LT(s.stack_saved, s.stack_high);
	Dl_info where;
	ASSERT_TRUE(dladdr(s.spawned_at, &where));
	ASSERT_NE(nullptr, where.dli_sname);
	EXPECT_STREQ("sennit_test_spawner", where.dli_sname);
	EXPECT_STREQ("a name that is longer than thir", infos[sn_task_id(joiner.get())].name);
	joiner.join();
	EXPECT_EQ(0, sn_detach(sleeper));
}

// The monitor takes the times of states. Because it may look late on a busy machine, and the
// sleeper may begin late, one right try is enough in this test and the next.
TASK_TEST(Tasks, AStateLastsFromWhenItBegan, 2)
{
	struct sn_task_info info = {};
	int64_t passed = 0;

	EXPECT_TRUE(test::eventually([&] {
		test::Task sleeper([] { sn_sleep(INT64_MAX); });
		const int64_t begun = sn_now();

		sn_sleep(100 * test::ms);
		info = all_tasks()[sn_task_id(sleeper.get())];
		passed = sn_now() - begun;
		sleeper.detach();
		return info.state == SN_STATE_PARKED && info.state_ns >= 80 * test::ms &&
		       info.state_ns <= passed + 500 * test::ms;
	})) << info.state
	    << " for " << info.state_ns << " of " << passed << " ns";
}

// The sleep is so long that the monitor sleeps too.
TASK_TEST(Tasks, AStateThatBeginsAfterALongSleepIsYoung, 2)
{
	int64_t age = 0;

	EXPECT_TRUE(test::eventually([&] {
		sn_sleep(500 * test::ms);
		test::Task sleeper([] { sn_sleep(INT64_MAX); });

		EXPECT_TRUE(test::eventually([&] {
			return all_tasks()[sn_task_id(sleeper.get())].state == SN_STATE_PARKED;
		}));
		age = all_tasks()[sn_task_id(sleeper.get())].state_ns;
		sleeper.detach();
		return age <= 300 * test::ms;
	})) << age;
}

TASK_TEST(Tasks, TheVisitorCanStop, 1)
{
	std::vector<test::Task> tasks;
	int calls = 0;

	for (int i = 0; i < 10; i++)
		tasks.emplace_back([] {});
	EXPECT_EQ(7,
		  sn_tasks_each([](const struct sn_task_info *,
				   void *arg) { return ++*static_cast<int *>(arg) == 4 ? 7 : 0; },
				&calls));
	EXPECT_EQ(4, calls);
	test::join_all(tasks);
}

TASK_TEST(Tasks, AHundredThousandAreSeenOnceEach, 2)
{
	// Where guards cost mappings, as under an emulator, there can be at most 16,000
	// stacks.
	const int n = TEST_EMULATED ? 10000 : test::scaled(100000);
	std::vector<uint64_t> ids;

	for (int i = 0; i < n; i++) {
		sn_task *task;
		ASSERT_EQ(0, sn_spawn(
				     &task, [](void *) { return sn_sleep(INT64_MAX); }, nullptr,
				     nullptr));
		ids.push_back(sn_task_id(task));
		sn_detach(task);
	}
	Infos infos = all_tasks();
	EXPECT_EQ(size_t(n) + 1, infos.size());
	for (uint64_t id : ids)
		ASSERT_EQ(1u, infos.count(id));
}

// Tasks that carry their spawner's number in their name come and go as fast as possible, while
// threads and tasks look. What is seen of a task is consistent, and tasks that were there before
// and after are always seen.
TEST(Tasks, ComingAndGoingTasksAreSeenConsistently)
{
	static std::atomic<bool> stop;
	static std::atomic<uint64_t> looks, seen;

	stop = false;
	looks = seen = 0;
	test::run({1, 4}, [] {
		const int64_t end = sn_now() + 500 * test::ms;
		// so that the test ends however slow the machine is
		const uint64_t enough = looks + 10;
		sn_task *rock;

		stop = false;
		ASSERT_EQ(0, sn_spawn(
				     &rock, [](void *) { return sn_sleep(INT64_MAX); }, nullptr,
				     nullptr));
		const uint64_t rock_id = sn_task_id(rock), main_id = sn_task_id(sn_self());
		auto look = [rock_id, main_id] {
			struct Look {
				uint64_t rock_id, main_id;
				int fixed;
			} found{rock_id, main_id, 0};
			int result = sn_tasks_each(
				[](const struct sn_task_info *info, void *arg) {
					auto *sought = static_cast<Look *>(arg);

					sought->fixed += info->id == sought->rock_id ||
							 info->id == sought->main_id;
					seen++;
					if (info->name[0] != 'n')
						return 0;
					// Only the tasks of this test have such names.
					EXPECT_EQ(info->spawned_by,
						  strtoull(info->name + 1, nullptr, 10));
					return 0;
				},
				&found);
			EXPECT_EQ(0, result);
			EXPECT_EQ(2, found.fixed);
			looks++;
		};
		std::vector<std::thread> threads;
		for (int i = 0; i < 2; i++)
			threads.emplace_back([look] {
				while (!stop)
					look();
			});
		std::vector<test::Task> tasks;
		for (int i = 0; i < 4; i++)
			tasks.emplace_back([] {
				const std::string name =
					"n" + std::to_string(sn_task_id(sn_self()));
				struct sn_task_attr attr = {};

				attr.name = name.c_str();
				for (int n = 0; !stop; n++) {
					attr.stack_size = size_t(16384) << n % 3;
					(void)!sn_spawn(
						nullptr, [](void *) { return sn_yield(); }, nullptr,
						&attr);
					if (n % 64 == 0)
						sn_yield();
				}
			});
		while (sn_now() < end || looks < enough) {
			look();
			sn_yield();
		}
		stop = true;
		test::join_all(threads);
		test::join_all(tasks);
		sn_detach(rock);
	});
	printf("%llu looks saw %llu tasks\n", (unsigned long long)looks.load(),
	       (unsigned long long)seen.load());
	EXPECT_GT(looks, 10u);
}

} // namespace
