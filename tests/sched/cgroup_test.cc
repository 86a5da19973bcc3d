// SPDX-License-Identifier: MIT
//
// Limits of a control group, which come and go while a program runs. Each case is a child process
// in a group of its own.
#include <atomic>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "support/child.h"
#include "support/own_cgroup.h"

namespace
{

using test::OwnCgroup;
using test::Task;

// In a child process that is in the group: runs the body as the first task.
template <class F>
int in_group(const OwnCgroup &group, F body)
{
	return test::in_child([&] {
		CHILD_CHECK(group.enter());
		_exit(sn_run(
			[](void *arg) {
				(*static_cast<F *>(arg))();
				return 0;
			},
			&body));
	});
}

// Tasks of which each has to have a thread at the same time as all others.
void all_have_threads(int n)
{
	std::atomic<int> in{0};
	std::vector<Task> tasks;
	int gate[2];

	CHILD_CHECK(pipe2(gate, O_CLOEXEC) == 0);
	for (int i = 0; i < n; i++)
		tasks.emplace_back([&] {
			char byte;

			in++;
			CHILD_CHECK(read(gate[0], &byte, 1) == 1);
		});
	CHILD_CHECK(test::eventually([&] { return in == n; }));
	for (int i = 0; i < n; i++)
		CHILD_CHECK(write(gate[1], "x", 1) == 1);
	test::join_all(tasks);
	close(gate[0]);
	close(gate[1]);
}

// pids.max: at the limit work waits, and one line says so. When the limit is lifted, threads are
// started again.
TEST(ControlGroup, ThreadsComeBackWhenPidsMaxIsLifted)
{
	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "the sanitizers do not let a child start threads";
	const OwnCgroup group("pids");
	if (!group.exists())
		GTEST_SKIP() << group.why();
	int ends[2];
	std::string said;
	char buf[4096];

	ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
	EXPECT_EQ(0, in_group(group, [&] {
			  std::vector<Task> sleepers;

			  dup2(ends[1], STDERR_FILENO);
			  CHILD_CHECK(group.set("pids.max", group.get("pids.current")));
			  for (int i = 0; i < 20; i++)
				  sleepers.emplace_back([] {
					  sn_enter_blocking();
					  usleep(5000);
					  sn_exit_blocking();
				  });
			  test::join_all(sleepers);
			  CHILD_CHECK(test::stats().thread_limit_hits > 0);
			  CHILD_CHECK(group.set("pids.max", "max"));
			  all_have_threads(12);
		  }));
	close(ends[1]);
	for (ssize_t n; (n = read(ends[0], buf, sizeof buf)) > 0;)
		said.append(buf, size_t(n));
	close(ends[0]);
	EXPECT_EQ(0u, said.find("sennit: cannot start another thread")) << said;
	EXPECT_EQ(said.size() - 1, said.find('\n')) << said;
}

// The CPU quota: there are as many processors as the quota grants, while it does.
TEST(ControlGroup, ProcessorsFollowTheQuota)
{
	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "the sanitizers do not let a child start threads";
	const OwnCgroup group("cpu");
	cpu_set_t cpus;

	if (!group.exists())
		GTEST_SKIP() << group.why();
	ASSERT_EQ(0, sched_getaffinity(0, sizeof cpus, &cpus));
	if (CPU_COUNT(&cpus) < 2)
		GTEST_SKIP() << "there is only one CPU";
	const auto one_cpu = [&] {
		return group.is_second_version() ? group.set("cpu.max", "100000 100000")
						 : group.set("cpu.cfs_quota_us", "100000");
	};
	const auto no_limit = [&] {
		return group.is_second_version() ? group.set("cpu.max", "max 100000")
						 : group.set("cpu.cfs_quota_us", "-1");
	};
	unsetenv("SENNIT_PROCS");
	EXPECT_EQ(
		0, in_group(group, [&] {
			const uint64_t all = test::stats().processors;
			std::atomic<bool> over{false};
			std::vector<Task> tasks;

			CHILD_CHECK(all == uint64_t(CPU_COUNT(&cpus)));
			for (int i = 0; i < 100; i++)
				tasks.emplace_back([&] {
					while (!over)
						sn_sleep(test::ms);
				});
			CHILD_CHECK(one_cpu());
			CHILD_CHECK(test::eventually([] { return test::stats().processors == 1; }));
			CHILD_CHECK(no_limit());
			CHILD_CHECK(
				test::eventually([&] { return test::stats().processors == all; }));
			over = true;
			test::join_all(tasks);
		}));
}

} // namespace
