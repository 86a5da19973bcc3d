// SPDX-License-Identifier: MIT
// Labels: machine
//
// A run in a child of fork(), whose parent has hooked calls under way: what they hold is not held
// in the child, where their tasks do not exist.
#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "hanging_lookups.h"
#include "hooks.h"
#include "support/child.h"

// As in tests/net/fork_test.cc.
#if !TEST_TSAN && !TEST_ASAN && !TEST_EMULATED

namespace
{

using namespace test;

// Whether the thread is blocked in this system call.
bool blocks_in(pid_t thread, long call)
{
	const std::string path = "/proc/self/task/" + std::to_string(thread) + "/syscall";
	FILE *file = fopen(path.c_str(), "re");
	long found = -1;

	if (!file)
		return false;
	const bool known = fscanf(file, "%ld", &found) == 1;
	fclose(file);
	return known && found == call;
}

// A write to an eventfd of more than there is room for blocks in turn (turn.h).
TASK_TEST(Child, HasNoTurns, 2)
{
	const uint64_t there = UINT64_MAX - 2, two = 2, one = 1;
	const int fd = eventfd(0, EFD_CLOEXEC);
	std::atomic<pid_t> writer{0};
	uint64_t sum = 0;

	ASSERT_EQ(8, write(fd, &there, sizeof there));
	Task stuck = hooked([&] {
		writer = gettid();
		EXPECT_EQ(8, outcome(write(fd, &two, sizeof two)));
	});
	EXPECT_TRUE(test::eventually([&] { return writer && blocks_in(writer, SYS_write); }));
	EXPECT_EQ(0, in_child([&] {
			  test::run(1, [&] {
				  hooked([&] {
					  const uint64_t passed = hooks().passed_other;

					  CHILD_CHECK(write(fd, &one, sizeof one) == 8);
					  CHILD_CHECK(hooks().passed_other == passed);
				  }).join();
			  });
		  }));
	EXPECT_EQ(8, read(fd, &sum, sizeof sum));
	EXPECT_EQ(UINT64_MAX - 1, sum);
	stuck.join();
	close(fd);
}

// With as many lookups as there may be at a time, MOST of src/hooks/name.c, others wait.
TASK_TEST(Child, HasNoLookupsUnderWay, 2)
{
	constexpr int Most = 256;
	HangingLookups lookups;
	std::vector<test::Task> tasks;

	for (int i = 0; i < Most; i++)
		tasks.push_back(test::hooked([] { EXPECT_EQ(EAI_AGAIN, look_up("hangs.test")); }));
	EXPECT_TRUE(test::eventually([] { return HangingLookups::hanging() == Most; }))
		<< lookups.hanging();
	EXPECT_EQ(0, in_child([] {
			  alarm(unsigned(test::patience / test::second));
			  test::run(1, [] {
				  hooked([] {
					  CHILD_CHECK(look_up("fails.test") == EAI_FAIL);
				  }).join();
			  });
		  }));
	lookups.end();
	test::join_all(tasks);
}

} // namespace

#endif
