// SPDX-License-Identifier: MIT
//
// The waiting policy keeps its budgets: no thread spins or yields for longer than its budget.
#include <sched.h>

#include "support/internals.h"
#include "support/runtime.h"

namespace
{

// Other programs may take the CPU at any moment, above all when the test yields it. Therefore the
// shortest of many tries counts: the test makes at least 20, and more until one is below the bound.
int64_t least_time(int64_t spin, int64_t yield)
{
	const int64_t bound = 20 * (spin + yield), end = sn_now() + test::patience;
	int64_t least = INT64_MAX;

	for (int i = 0; i < 20 || (least >= bound && sn_now() < end); i++) {
		const int64_t before = sn_now();

		probe_backoff(spin, yield);
		least = std::min(least, sn_now() - before);
	}
	return least;
}

TEST(Backoff, WithoutABudgetParksAtOnce)
{
	EXPECT_EQ(0u, probe_backoff(0, 0));
}

TEST(Backoff, SpinsForItsBudgetAndNoLonger)
{
	const int64_t budget = 200 * test::us, took = least_time(budget, 0);

	if (probe_usable_cpus() == 1)
		EXPECT_EQ(0u, probe_backoff(budget, 0)) << "no other thread to wait for on one CPU";
	else
		EXPECT_GE(took, budget);
	EXPECT_LT(took, 20 * budget);
}

TEST(Backoff, YieldsAfterSpinning)
{
	const int64_t spin = 50 * test::us, yield = 200 * test::us;
	const int64_t took = least_time(spin, yield);

	EXPECT_GE(took, probe_usable_cpus() == 1 ? yield : spin + yield);
	EXPECT_LT(took, 20 * (spin + yield));
	EXPECT_GT(probe_backoff(0, yield), 0u);
}

TEST(Backoff, KeepsErrno)
{
	errno = 4242;
	probe_backoff(10 * test::us, 10 * test::us);
	EXPECT_EQ(4242, errno);
}

TEST(Backoff, CountsTheCpusOfTheMask)
{
	cpu_set_t set;

	ASSERT_EQ(0, sched_getaffinity(0, sizeof set, &set));
	EXPECT_EQ(CPU_COUNT(&set), probe_usable_cpus());
}

} // namespace
