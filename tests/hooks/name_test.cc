// SPDX-License-Identifier: MIT
//
// Names that hang delay the lookups of others no longer than for a moment. This program's own
// function stands for the C library's getaddrinfo().
#include <vector>

#include "hanging_lookups.h"

using test::HangingLookups;
using test::look_up;

namespace
{

TASK_TEST(HookedNames, ThatHangDelayOthersForAMoment)
{
	// More than the lookups that begin without a delay: SLOTS of src/hooks/name.c.
	constexpr int many = 20;
	HangingLookups lookups;
	std::vector<test::Task> tasks;

	for (int i = 0; i < many; i++)
		tasks.push_back(test::hooked([] { EXPECT_EQ(EAI_AGAIN, look_up("hangs.test")); }));
	EXPECT_TRUE(test::eventually([] { return HangingLookups::hanging() == many; }))
		<< lookups.hanging();
	test::hooked([] { EXPECT_EQ(EAI_FAIL, look_up("fails.test")); }).join();
	lookups.end();
	test::join_all(tasks);
}

} // namespace
