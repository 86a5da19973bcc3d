// SPDX-License-Identifier: MIT
//
// When a flow is spliced: only the policy, which just counts.
#include <gtest/gtest.h>

#include "copy/copy_policy.h"

namespace
{

constexpr size_t large_read = 64 << 10, small_read = 64;

struct Policy : sn_copy_policy {
	Policy() { sn_policy_init(this); }

	// Makes large reads until the flow is spliced. Returns how many it took.
	uint32_t promote()
	{
		uint32_t reads = 1;

		while (reads < 1000 && !sn_policy_read(this, large_read))
			reads++;
		sn_policy_begin(this);
		return reads;
	}
	// Makes passes until the flow goes back to userspace, at most 1000. Returns how many it
	// took.
	int demote(uint64_t each)
	{
		int passes = 1;

		while (passes < 1000 && !sn_policy_pass(this, each))
			passes++;
		if (passes < 1000)
			sn_policy_end(this);
		return passes;
	}
};

TEST(CopyPolicy, LargeReadsInARowBeginIt)
{
	Policy policy;

	for (int i = 0; i < 1000; i++)
		EXPECT_FALSE(sn_policy_read(&policy, small_read));
	for (int i = 0; i < 1000; i++)
		EXPECT_FALSE(sn_policy_read(&policy, i % 3 ? large_read : small_read));
	EXPECT_FALSE(sn_policy_read(&policy, small_read));
	EXPECT_FALSE(policy.splicing);
	EXPECT_EQ(3u, policy.promote());
	EXPECT_TRUE(policy.splicing);
}

TEST(CopyPolicy, ShortPassesInARowEndIt)
{
	Policy policy;

	policy.promote();
	EXPECT_EQ(8, policy.demote(small_read));
	EXPECT_FALSE(policy.splicing);
}

// Tails of chunks that arrive alone, and wake-ups for bytes that were already read.
TEST(CopyPolicy, ALargeFlowWithTailsStaysSpliced)
{
	Policy policy;

	policy.promote();
	for (int i = 0; i < 1000; i++) {
		EXPECT_FALSE(sn_policy_pass(&policy, large_read));
		for (int tails = 0; tails < 7; tails++)
			EXPECT_FALSE(sn_policy_pass(&policy, 53));
		for (int nothing = 0; nothing < 10; nothing++)
			EXPECT_FALSE(sn_policy_pass(&policy, 0));
	}
	EXPECT_EQ(1000, policy.demote(0));
}

// Passes that found nothing do not count as short, and do not interrupt a row of short ones.
TEST(CopyPolicy, AnEmptyPassIsNotShort)
{
	Policy policy;

	policy.promote();
	for (int i = 0; i < 7; i++) {
		EXPECT_FALSE(sn_policy_pass(&policy, small_read));
		EXPECT_FALSE(sn_policy_pass(&policy, 0));
	}
	EXPECT_TRUE(sn_policy_pass(&policy, small_read));
}

TEST(CopyPolicy, SwitchingToAndFroBacksOff)
{
	Policy policy;
	uint32_t expected = 3;

	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(expected, policy.promote());
		EXPECT_FALSE(sn_policy_pass(&policy, large_read));
		policy.demote(small_read);
		if (expected < 256)
			expected *= 2;
	}
	EXPECT_EQ(384u, expected);
}

// A flow that moved enough each time is not penalized.
TEST(CopyPolicy, AWorthwhileFlowResetsTheBackoff)
{
	Policy policy;

	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(3u, policy.promote());
		EXPECT_FALSE(sn_policy_pass(&policy, 4 << 20));
		policy.demote(small_read);
	}
	// One flow that was worth splicing makes up for earlier ones that were not.
	for (int i = 0; i < 5; i++) {
		policy.promote();
		policy.demote(small_read);
	}
	policy.promote();
	EXPECT_FALSE(sn_policy_pass(&policy, 8 << 20));
	policy.demote(small_read);
	EXPECT_EQ(3u, policy.promote());
}

TEST(CopyPolicy, WithoutAPipeItIsRetriedSoon)
{
	Policy policy;

	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(3u, policy.promote());
		sn_policy_pause(&policy);
		EXPECT_FALSE(policy.splicing);
	}
}

} // namespace
