// SPDX-License-Identifier: MIT
//
// The program's threads that are inside a call of the runtime, mostly without a runtime around
// them: which are counted and marked, and what the end of a run waits for.
#include <cerrno>

extern "C" {
#include "sched/foreign.h"
}
#include "support/runtime.h"

namespace
{

// A guest is counted until it has come back and left, so that no deadlock is reported while it may
// still wake a task.
TEST(Foreign, AGuestIsCounted)
{
	sn_foreign_begin();
	EXPECT_EQ(0u, sn_foreign_count());
	ASSERT_EQ(0, sn_foreign_enter());
	EXPECT_EQ(1u, sn_foreign_count());
	const uint32_t run = sn_foreign_go_out();
	EXPECT_EQ(1u, sn_foreign_count()) << "as a guest";
	ASSERT_EQ(0, sn_foreign_enter()) << "in the callback";
	EXPECT_EQ(2u, sn_foreign_count());
	sn_foreign_leave();
	EXPECT_EQ(1u, sn_foreign_count());
	ASSERT_EQ(0, sn_foreign_come_back(run));
	EXPECT_EQ(1u, sn_foreign_count());
	sn_foreign_leave();
	EXPECT_EQ(0u, sn_foreign_count());
	EXPECT_EQ(0u, sn_foreign_end(sn_now()));
}

TEST(Foreign, NoThreadEntersWithoutARun)
{
	EXPECT_FALSE(sn_foreign_admitted());
	EXPECT_EQ(-ESRCH, sn_foreign_enter());
	EXPECT_EQ(0u, sn_foreign_count());
}

// The end of a run gives up waiting for a guest, which then belongs to no later run.
TEST(Foreign, AGuestThatWasLeftBehindDoesNotComeBack)
{
	sn_foreign_begin();
	ASSERT_EQ(0, sn_foreign_enter());
	const uint32_t run = sn_foreign_go_out();
	EXPECT_EQ(1u, sn_foreign_end(sn_now()));
	EXPECT_EQ(0u, sn_foreign_count());
	EXPECT_EQ(-ESRCH, sn_foreign_enter());
	sn_foreign_begin();
	EXPECT_EQ(-ESRCH, sn_foreign_come_back(run));
	EXPECT_EQ(0u, sn_foreign_count());
	ASSERT_EQ(0, sn_foreign_enter());
	const uint32_t next = sn_foreign_go_out();
	EXPECT_EQ(-ESRCH, sn_foreign_come_back(run));
	EXPECT_EQ(1u, sn_foreign_count());
	EXPECT_EQ(0, sn_foreign_come_back(next));
	sn_foreign_leave();
	EXPECT_EQ(0u, sn_foreign_end(sn_now()));
}

// A signal handler relies on it. A mark that stayed would make each later fork() in sennit-run a
// bare one.
TEST(Foreign, AThreadIsMarkedExactlyWhileItIsInside)
{
	EXPECT_EQ(-ESRCH, sn_foreign_enter());
	EXPECT_FALSE(sn_foreign_is_marked());
	sn_foreign_begin();
	ASSERT_EQ(0, sn_foreign_enter());
	EXPECT_TRUE(sn_foreign_is_marked());
	sn_foreign_mark();
	sn_foreign_unmark();
	EXPECT_TRUE(sn_foreign_is_marked());
	uint32_t run = sn_foreign_go_out();
	EXPECT_FALSE(sn_foreign_is_marked());
	EXPECT_EQ(0, sn_foreign_come_back(run));
	EXPECT_TRUE(sn_foreign_is_marked());
	run = sn_foreign_go_out();
	EXPECT_EQ(1u, sn_foreign_end(sn_now()));
	EXPECT_EQ(-ESRCH, sn_foreign_come_back(run));
	EXPECT_FALSE(sn_foreign_is_marked());
	sn_foreign_begin();
	EXPECT_EQ(-ESRCH, sn_foreign_come_back(run));
	EXPECT_FALSE(sn_foreign_is_marked());
	EXPECT_EQ(0u, sn_foreign_end(sn_now()));
}

// A task may be on another thread when it leaves.
TEST(Foreign, ATaskIsNotMarked)
{
	test::run(1, [] {
		ASSERT_EQ(0, sn_foreign_enter());
		EXPECT_FALSE(sn_foreign_is_marked());
		sn_foreign_leave();
	});
}

} // namespace
