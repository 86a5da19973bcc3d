// SPDX-License-Identifier: MIT
#ifndef SENNIT_TESTS_SUPPORT_YIELDS_H
#define SENNIT_TESTS_SUPPORT_YIELDS_H

#include <atomic>
#include <vector>

#include "support/runtime.h"

namespace test
{

// The CPU time of the whole process for a yield, in ns, when n tasks yield at the same time: the
// least of several rounds, because other programs may disturb some of them.
inline double cost_of_a_yield(int n, int rounds = 3)
{
	constexpr int yields = 5;
	double least = 0;

	for (int round = 0; round < rounds; round++) {
		std::vector<Task> tasks;
		std::atomic<int> ready{0};
		std::atomic<bool> begin{false};
		std::atomic<int64_t> from{0};

		for (int i = 0; i < n; i++)
			tasks.emplace_back([&] {
				ready++;
				while (!begin)
					sn_yield();
				for (int j = 0; j < yields; j++)
					sn_yield();
			});
		EXPECT_TRUE(eventually([&] { return ready == n; }));
		from = cpu_ns();
		begin = true;
		join_all(tasks);
		const double cost = double(cpu_ns() - from) / n / yields;
		least = round == 0 || cost < least ? cost : least;
	}
	return least;
}

} // namespace test

#endif
