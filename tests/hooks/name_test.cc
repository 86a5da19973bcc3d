// SPDX-License-Identifier: MIT
//
// Names that hang delay the lookups of others no longer than for a moment. This program's own
// function stands for the C library's getaddrinfo().
#include <atomic>
#include <string>
#include <vector>

#include <netdb.h>

#include "hooks.h"

#define _Noreturn [[noreturn]] // the header is C
#include "hooks/real.h"

namespace
{

std::atomic<int> hanging{0};
std::atomic<bool> over{false};

int resolve(const char *node, const char *, const struct addrinfo *, struct addrinfo **)
{
	if (node != std::string("hangs.test"))
		return EAI_FAIL;
	hanging++;
	while (!over)
		usleep(1000);
	return EAI_AGAIN;
}

int look_up(const char *node)
{
	struct addrinfo *found = nullptr;

	return getaddrinfo(node, nullptr, nullptr, &found);
}

TASK_TEST(HookedNames, ThatHangDelayOthersForAMoment)
{
	// More than the lookups that begin without a delay: SLOTS of src/hooks/name.c.
	constexpr int many = 20;
	const auto real = sn_real.getaddrinfo;
	std::vector<test::Task> tasks;

	hanging = 0;
	over = false;
	sn_real.getaddrinfo = resolve;
	for (int i = 0; i < many; i++)
		tasks.push_back(test::hooked([] { EXPECT_EQ(EAI_AGAIN, look_up("hangs.test")); }));
	EXPECT_TRUE(test::eventually([] { return hanging == many; })) << hanging;
	test::hooked([] { EXPECT_EQ(EAI_FAIL, look_up("fails.test")); }).join();
	over = true;
	test::join_all(tasks);
	sn_real.getaddrinfo = real;
}

} // namespace
