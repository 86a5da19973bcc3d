// SPDX-License-Identifier: MIT
// Labels: machine
//
// The memory of control blocks: no free block is lost or handed out twice, whichever way it was
// freed, and what a task leaves in its block is not seen by the next task in that block.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <sennit/foreign.h>
#include <sennit/unstable.h>

#include "support/internals.h"
#include "support/runtime.h"

namespace
{

// More than two mappings of 64 slabs with 64 blocks each.
constexpr size_t many = 2 * 64 * 64 + 100;

class Blocks : public testing::Test
{
protected:
	void TearDown() override
	{
		probe_blocks_free(mine_);
		probe_blocks_free(other_);
		probe_blocks_destroy();
	}

	static std::vector<void *> take(size_t n, probe_blocks *from)
	{
		std::vector<void *> taken;

		while (taken.size() < n) {
			taken.push_back(probe_block_alloc(from));
			EXPECT_NE(nullptr, taken.back());
		}
		EXPECT_EQ(n, std::set<void *>(taken.begin(), taken.end()).size());
		return taken;
	}

	static void give(const std::vector<void *> &blocks, probe_blocks *to)
	{
		for (void *block : blocks)
			probe_block_free(block, to);
	}

	// How many of the blocks are not among the known ones.
	static size_t others(const std::vector<void *> &blocks, const std::vector<void *> &known)
	{
		const std::set<void *> all(known.begin(), known.end());
		size_t n = 0;

		for (void *block : blocks)
			n += all.count(block) == 0;
		return n;
	}

	probe_blocks *mine_ = probe_blocks_new(), *other_ = probe_blocks_new();
};

TEST_F(Blocks, TheLastFreedIsTakenFirst)
{
	const std::vector<void *> taken = take(10, mine_);

	give(taken, mine_);
	for (size_t i = taken.size(); i-- > 0;)
		EXPECT_EQ(taken[i], probe_block_alloc(mine_));
}

TEST_F(Blocks, AllThatAreFreeAreFoundAgain)
{
	// The first blocks also come from slabs of which the caches had not used all.
	std::vector<void *> known = take(many, mine_);

	for (int round = 0; round < 3; round++) {
		give(known, round % 2 ? nullptr : mine_);
		probe_block_flush(mine_);
		std::vector<void *> again = take(many, round == 1 ? other_ : mine_);
		EXPECT_LT(others(again, known), 64u) << round;
		known = again;
	}
}

TEST_F(Blocks, WhatOneProcessorFreesAnotherTakes)
{
	const std::vector<void *> taken = take(many, mine_);

	give(taken, mine_);
	// All except those in the cache.
	const size_t shared = many - 128;
	EXPECT_LT(others(take(shared, other_), taken), 64u);
}

TEST_F(Blocks, AFlushGivesBackThoseThatWereNeverUsed)
{
	void *first = probe_block_alloc(mine_);

	probe_block_flush(mine_);
	const std::vector<void *> rest = take(63, other_);
	for (void *block : rest)
		EXPECT_LT(size_t(std::abs(static_cast<char *>(block) - static_cast<char *>(first))),
			  size_t(64) * 1024);
	EXPECT_EQ(1u, others({first}, rest));
}

// The kernel does not take back the pages of locked memory, so the runtime clears these itself.
// Otherwise the next run would take what tasks left in them for handles of its own.
TEST_F(Blocks, OfARunThatHasEndedAreZeroAlsoInLockedMemory)
{
	if (TEST_ASAN)
		GTEST_SKIP() << "the blocks of earlier runs stay there";
	const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
	// More than a page of them, so that some lie in pages that are theirs alone.
	const std::vector<void *> taken = take(size_t(4) * 64, mine_);
	char *const locked = reinterpret_cast<char *>((uintptr_t(taken[128]) + page - 1) & -page);

	if (mlock(locked, page) < 0)
		GTEST_SKIP() << "memory cannot be locked here";
	for (void *block : taken)
		memset(block, 0xa5, 64);
	probe_blocks_destroy();
	EXPECT_EQ(0, munlock(locked, page));
	const char zeros[64] = {};
	for (void *block : taken)
		EXPECT_EQ(0, memcmp(block, zeros, sizeof zeros));
}

// Leaves a mark in every field that a task can change.
int leave_marks(void *)
{
	sn_scope *scope = nullptr;

	EXPECT_EQ(0, sn_task_set_name("marked"));
	sn_foreign_self()->locks = 7;
	sn_foreign_self()->hooks = SN_HOOKS_ON;
	EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	EXPECT_EQ(0, sn_cancel_mask());
	EXPECT_EQ(0, sn_scope_close(scope));
	EXPECT_EQ(0, sn_pin());
	return 5;
}

int expect_no_marks(void *)
{
	sn_scope *scope = nullptr;

	EXPECT_STREQ("task", sn_task_name(sn_self()));
	EXPECT_EQ(0, sn_foreign_self()->locks);
	EXPECT_EQ(SN_HOOKS_DEFAULT, sn_foreign_self()->hooks);
	EXPECT_EQ(nullptr, sn_scope_current());
	EXPECT_EQ(-EINVAL, sn_unpin());
	EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	EXPECT_EQ(0, sn_scope_cancel(scope));
	EXPECT_EQ(-ECANCELED, sn_cancelled());
	EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
	return 0;
}

TASK_TEST(Block, IsAsNewForItsNextTask, 1)
{
	struct sn_task_attr attr = {};

	attr.name = "attributes";
	attr.flags = SN_TASK_BRIEF | SN_TASK_UNHOOKED;
	for (const struct sn_task_attr *with :
	     std::vector<const struct sn_task_attr *>{&attr, nullptr})
		for (int again = 0; again < 2; again++) {
			sn_task *task = nullptr, *next = nullptr;
			int result = 0;

			ASSERT_EQ(0, sn_spawn(&task, leave_marks, nullptr, with));
			const void *block = probe_block_of(task);
			ASSERT_EQ(0, sn_join(task, &result));
			EXPECT_EQ(5, result);
			ASSERT_EQ(0, sn_spawn(&next, expect_no_marks, nullptr, nullptr));
			EXPECT_EQ(block, probe_block_of(next))
				<< "the task has another block, so nothing is tested";
			ASSERT_EQ(0, sn_join(next, &result));
			EXPECT_EQ(0, result);
		}
}

// A task that has run in a scope is in no scope in its next life, and no scope counts it there.
TASK_TEST(Block, ForgetsTheScopeOfItsTask, 1)
{
	for (int i = 0; i < 3; i++) {
		sn_scope *scope = nullptr;
		static std::atomic<const void *> block;
		sn_task *next = nullptr;

		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		ASSERT_EQ(0, sn_scope_go(
				     scope,
				     [](void *) {
					     block = probe_block_of(sn_self());
					     return 0;
				     },
				     nullptr));
		ASSERT_EQ(0, sn_scope_close(scope));
		ASSERT_EQ(0, sn_spawn(&next, expect_no_marks, nullptr, nullptr));
		EXPECT_EQ(block, probe_block_of(next))
			<< "the task has another block, so nothing is tested";
		ASSERT_EQ(0, sn_join(next, nullptr));
	}
}

} // namespace
