// SPDX-License-Identifier: MIT
//
// The store of free objects: what a home keeps and gives away, and that no object is lost or taken
// twice while tasks on all processors and plain threads take and return.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "support/runtime.h"
#include "support/store.h"

namespace
{

class Store : public testing::Test
{
protected:
	Store() { store_reset(); }
	// Puts the objects from first to first + n - 1, and returns how many were refused.
	static int put(int first, int n)
	{
		int refused = 0;

		for (int i = first; i < first + n; i++)
			refused += store_put(i);
		return refused;
	}
};

TEST_F(Store, IsEmptyAtFirst)
{
	EXPECT_EQ(-1, store_take());
	test::run(1, [] { EXPECT_EQ(-1, store_take()); });
}

TEST_F(Store, GivesAPlainThreadWhatIsInTheCommonList)
{
	EXPECT_EQ(0, put(0, 3));
	EXPECT_EQ(3u, store_common());
	EXPECT_EQ(2, store_take()) << "the last one first";
	EXPECT_EQ(1, store_take());
	EXPECT_EQ(0, store_take());
	EXPECT_EQ(-1, store_take());
}

TEST_F(Store, RefusesWhatTheCommonListHasNoRoomFor)
{
	EXPECT_EQ(0, put(0, STORE_MOST));
	EXPECT_EQ(1, store_put(STORE_MOST));
	EXPECT_EQ(uint32_t(STORE_MOST), store_common());
}

TEST_F(Store, GivesBackFirstWhatWasReturnedLast)
{
	test::run(1, [] {
		put(0, 2 * STORE_BATCH);
		EXPECT_EQ(0u, store_common());
		for (int i = 2 * STORE_BATCH - 1; i >= 0; i--)
			EXPECT_EQ(i, store_take());
		EXPECT_EQ(-1, store_take());
	});
}

TEST_F(Store, MovesABatchOnceAHomeHasTwo)
{
	test::run(1, [] {
		put(0, 2 * STORE_BATCH + 1);
		EXPECT_EQ(uint32_t(STORE_BATCH), store_common());
		EXPECT_EQ(uint32_t(STORE_BATCH + 1), store_homes());
	});
}

TEST_F(Store, TakesABatchFromTheCommonList)
{
	store_add(0, STORE_BATCH + 2);
	test::run(1, [] {
		EXPECT_EQ(0, store_take());
		EXPECT_EQ(uint32_t(STORE_BATCH - 1), store_homes());
		EXPECT_EQ(2u, store_common());
		for (int i = 1; i < STORE_BATCH + 2; i++)
			EXPECT_EQ(i, store_take());
		EXPECT_EQ(-1, store_take());
	});
}

TEST_F(Store, RefusesABatchWhenTheCommonListIsFull)
{
	store_add(0, STORE_MOST);
	test::run(1, [] {
		EXPECT_EQ(STORE_BATCH, put(STORE_MOST, 2 * STORE_BATCH + 1));
		EXPECT_EQ(uint32_t(STORE_MOST), store_common());
	});
}

// An object is marked while somebody has it, so one that is taken twice is found marked. At the end
// each object is in the store or was refused.
TEST_F(Store, LosesNothingAndGivesNothingTwice)
{
	constexpr int turns = 20000, users = 8;
	std::array<std::atomic<int>, STORE_OBJECTS> marks{};
	std::atomic<int> twice{0}, refused{0};
	const uint64_t seed = test::Random().seed();
	auto use = [&](int number) {
		test::Random random(seed + uint64_t(number));
		std::vector<int> mine;

		for (int i = 0; i < test::scaled(turns); i++) {
			if (random.below(2) && mine.size() < 6) {
				int object = store_take();

				if (object < 0)
					continue;
				twice += marks[size_t(object)].exchange(1) != 0;
				mine.push_back(object);
			} else if (!mine.empty()) {
				marks[size_t(mine.back())] = 0;
				refused += store_put(mine.back());
				mine.pop_back();
			}
			if (random.below(16) == 0)
				sn_yield();
		}
		for (int object : mine) {
			marks[size_t(object)] = 0;
			refused += store_put(object);
		}
	};

	store_add(0, STORE_OBJECTS);
	test::run(4, [&] {
		std::thread plain([&] { use(users); });
		std::vector<test::Task> tasks;

		for (int i = 0; i < users; i++)
			tasks.emplace_back([&use, i] { use(i); });
		test::join_all(tasks);
		plain.join();
	});
	EXPECT_EQ(0, twice.load());
	EXPECT_EQ(uint32_t(STORE_OBJECTS),
		  store_common() + store_homes() + uint32_t(refused.load()));
}

} // namespace
