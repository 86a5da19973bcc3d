// SPDX-License-Identifier: MIT
// Labels: machine
//
// The runtime's lock excludes, and under contention no waiter sleeps forever.
#include <algorithm>
#include <thread>
#include <vector>

#include "support/internals.h"
#include "support/runtime.h"

namespace
{

struct Guarded {
	probe_lock *lock = probe_lock_new();
	int inside = 0;      // under the lock
	uint64_t count = 0;  // under the lock
	bool broken = false; // under the lock

	Guarded() = default;
	~Guarded() { probe_lock_free(lock); }
	Guarded(const Guarded &) = delete;
	Guarded &operator=(const Guarded &) = delete;
};

TEST(Lock, IsFreeAgainAfterRelease)
{
	Guarded g;

	for (int i = 0; i < 3; i++) {
		probe_lock_take(g.lock);
		probe_lock_release(g.lock);
	}
}

// There are more threads than CPUs, and holders yield their CPU, so every path is taken: spinning,
// sleeping and waking a sleeper.
void contend()
{
	const int threads = 8, rounds = test::scaled(40000);
	Guarded g;
	std::vector<std::thread> all;

	for (int t = 0; t < threads; t++)
		all.emplace_back([&, t] {
			for (int i = 0; i < rounds; i++) {
				probe_lock_take(g.lock);
				g.broken |= g.inside++ != 0;
				if ((i + t) % 1024 == 0)
					std::this_thread::yield();
				g.count++;
				g.inside--;
				probe_lock_release(g.lock);
			}
		});
	test::join_all(all);
	EXPECT_FALSE(g.broken);
	EXPECT_EQ(uint64_t(threads) * uint64_t(rounds), g.count);
}

TEST(Lock, ExcludesUnderContention)
{
	contend();
}

// Once a runtime has registered for membarriers, unlocking is a plain store.
TEST(Lock, ExcludesUnderContentionAfterRegistration)
{
	test::run(1, [] {});
	contend();
}

// The registration happens while threads are about to sleep.
TEST(Lock, ExcludesUnderContentionDuringRegistration)
{
	std::thread other(contend);

	test::run(1, [] {});
	contend();
	other.join();
}

// A holder keeps the lock for long. The others must sleep instead of spinning, and all get the lock
// in the end.
TEST(Lock, WaitersSleep)
{
	// Four spinning threads would use all of the CPUs for 0.3 s.
	constexpr double most = 0.15;
	double least = most;

	// A virtual machine may charge the process for time that the host took away. Then the test
	// tries again.
	for (int i = 0; i < 10 && least >= most; i++) {
		Guarded g;
		std::vector<std::thread> all;

		probe_lock_take(g.lock);
		for (int t = 0; t < 4; t++)
			all.emplace_back([&] {
				probe_lock_take(g.lock);
				g.count++;
				probe_lock_release(g.lock);
			});
		const clock_t before = clock();
		usleep(300000);
		least = std::min(least, double(clock() - before) / CLOCKS_PER_SEC);

		EXPECT_EQ(0u, g.count);
		probe_lock_release(g.lock);
		test::join_all(all);
		EXPECT_EQ(4u, g.count);
	}
	EXPECT_LT(least, most);
}

} // namespace
