/* SPDX-License-Identifier: MIT */
/* A spell of trouble begins once, and another only after a quiet time. */
#include "base/spell.hpp"

#include <gtest/gtest.h>

namespace
{

using relay::spell;

TEST(Spell, LastsWhileTroublesAreCloseTogether)
{
	spell trouble;
	std::int64_t now = 1;
	EXPECT_TRUE(trouble.begins(now));
	for (int i = 0; i < 100; i++)
		EXPECT_FALSE(trouble.begins(now += spell::quiet - 1));
	EXPECT_TRUE(trouble.begins(now += spell::quiet));
	EXPECT_FALSE(trouble.begins(now));
}

TEST(Spell, IsNotOverWhileOneTroubleLasts)
{
	spell trouble;
	EXPECT_TRUE(trouble.begins(1));
	trouble.goes_on(1 + 7 * spell::quiet);
	EXPECT_FALSE(trouble.begins(8 * spell::quiet));
	EXPECT_TRUE(trouble.begins(9 * spell::quiet));
}

} // namespace
