// SPDX-License-Identifier: MIT
// Labels: machine
//
// The run queue with a ring of four: order, overflow and stealing. With one owner and three
// thieves, no task is lost or taken twice.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "support/runtime.h"
#include "support/small_runqueue.h"

namespace
{

class RunQueue : public testing::Test
{
protected:
	~RunQueue() override
	{
		small_queue_free(queue);
		small_queue_free(other);
		for (small_task *task : tasks)
			small_task_free(task);
	}
	small_task *make()
	{
		tasks.push_back(small_task_new(tasks.size() + 1));
		return tasks.back();
	}
	// Puts n tasks, which have to fit.
	void fill(int n)
	{
		for (int i = 0; i < n; i++)
			ASSERT_EQ(0u, small_put(queue, make(), overflow));
	}
	static uint64_t id(small_task *task) { return task ? small_task_id(task) : 0; }

	small_queue *queue = small_queue_new(), *other = small_queue_new();
	small_task *overflow[SMALL_CAPACITY];
	std::vector<small_task *> tasks;
};

TEST_F(RunQueue, IsFirstInFirstOut)
{
	for (int round = 0; round < 100; round++) {
		const size_t first = tasks.size() + 1;

		fill(1 + round % SMALL_CAPACITY);
		for (size_t i = first; i <= tasks.size(); i++)
			EXPECT_EQ(i, id(small_get(queue)));
		EXPECT_EQ(nullptr, small_get(queue));
	}
}

TEST_F(RunQueue, KnowsWhetherItIsEmpty)
{
	EXPECT_TRUE(small_empty(queue));
	fill(1);
	EXPECT_FALSE(small_empty(queue));
	small_get(queue);
	EXPECT_TRUE(small_empty(queue));
	small_set_next(queue, make());
	EXPECT_FALSE(small_empty(queue)) << "the next task counts";
	small_take_next(queue);
	EXPECT_TRUE(small_empty(queue));
}

TEST_F(RunQueue, OverflowsByHalfAndTheNewTask)
{
	fill(SMALL_CAPACITY);
	ASSERT_EQ(3u, small_put(queue, make(), overflow));
	EXPECT_EQ(1u, id(overflow[0]));
	EXPECT_EQ(2u, id(overflow[1]));
	EXPECT_EQ(5u, id(overflow[2]));
	EXPECT_EQ(3u, id(small_get(queue)));
	EXPECT_EQ(4u, id(small_get(queue)));
	EXPECT_EQ(nullptr, small_get(queue));
}

TEST_F(RunQueue, NextIsSeparateFromTheRing)
{
	fill(1);
	EXPECT_EQ(nullptr, small_take_next(queue));
	EXPECT_EQ(nullptr, small_set_next(queue, make()));
	EXPECT_EQ(2u, id(small_set_next(queue, make()))) << "the previous one is given back";
	EXPECT_EQ(3u, id(small_take_next(queue)));
	EXPECT_EQ(nullptr, small_take_next(queue));
	EXPECT_EQ(1u, id(small_get(queue)));
}

// Of n tasks the larger half is stolen. One of these is returned, and the others are in the thief's
// ring.
TEST_F(RunQueue, StealsHalf)
{
	for (int n = 0; n <= SMALL_CAPACITY; n++) {
		const uint64_t first = tasks.size() + 1;
		const int taken = n - n / 2;

		fill(n);
		small_task *stolen = small_steal(other, queue, false);

		if (n == 0) {
			EXPECT_EQ(nullptr, stolen);
			continue;
		}
		EXPECT_EQ(first + uint64_t(taken) - 1, id(stolen));
		for (int i = 0; i < taken - 1; i++)
			EXPECT_EQ(first + uint64_t(i), id(small_get(other)));
		EXPECT_EQ(nullptr, small_get(other));
		for (int i = taken; i < n; i++)
			EXPECT_EQ(first + uint64_t(i), id(small_get(queue)));
		EXPECT_EQ(nullptr, small_get(queue));
	}
}

TEST_F(RunQueue, StealsNextOnlyOnRequestAndFromAnEmptyRing)
{
	small_set_next(queue, make());
	EXPECT_EQ(nullptr, small_steal(other, queue, false));
	EXPECT_EQ(1u, id(small_steal(other, queue, true)));
	EXPECT_EQ(nullptr, small_take_next(queue));

	fill(1);
	small_set_next(queue, make());
	EXPECT_EQ(2u, id(small_steal(other, queue, true))) << "the ring goes first";
	EXPECT_EQ(3u, id(small_take_next(queue)));
}

// The counters of the ring only grow, so their values must not matter.
TEST_F(RunQueue, WrapsAroundManyTimes)
{
	small_task *task = make();

	for (int i = 0; i < 100000; i++) {
		ASSERT_EQ(0u, small_put(queue, task, overflow));
		ASSERT_EQ(task, i % 3 ? small_get(queue) : small_steal(other, queue, false));
	}
	EXPECT_TRUE(small_empty(queue));
	EXPECT_TRUE(small_empty(other));
}

/*
 * The owner puts, gets, sets next and overflows; three thieves steal into rings of their own and
 * take what they stole. Every task is taken by exactly one of the four, and comes with what was
 * written before it was queued.
 */
TEST(RunQueueStress, LosesAndDuplicatesNothing)
{
	constexpr int thieves = 3;
	const int total = test::scaled(400000);
	test::Random random;
	std::vector<small_task *> tasks;
	auto taken = std::make_unique<std::atomic<uint8_t>[]>(size_t(total));
	std::vector<int> payload(size_t(total), 0); // written before the put, read by the taker
	std::atomic<int> count{0}, wrong{0};
	std::atomic<bool> done{false};
	small_queue *queue = small_queue_new();
	small_queue *rings[thieves];
	std::vector<std::thread> threads;

	for (int i = 0; i < total; i++)
		tasks.push_back(small_task_new(uint64_t(i)));
	auto take = [&](small_task *task) {
		const size_t i = size_t(small_task_id(task));

		if (taken[i].fetch_add(1) != 0 || payload[i] != int(i) + 1)
			wrong++;
		count++;
	};
	for (small_queue *&ring : rings)
		ring = small_queue_new();
	for (int t = 0; t < thieves; t++) {
		threads.emplace_back([&, ring = rings[t], t, seed = random.next()] {
			test::Random mine(seed);

			while (!done.load()) {
				// Thieves steal from each other too, as processors do.
				small_queue *victim =
					mine.below(4) ? queue
						      : rings[(t + 1 + int(mine.below(2))) % 3];
				small_task *task = small_steal(ring, victim, mine.below(2) == 0);

				if (!task) {
					std::this_thread::yield();
					continue;
				}
				take(task);
				while ((task = small_get(ring)) != nullptr)
					take(task);
			}
		});
	}
	for (int i = 0; i < total;) {
		small_task *overflow[SMALL_CAPACITY], *task;

		switch (random.below(8)) {
		case 0:
			if ((task = small_get(queue)) != nullptr)
				take(task);
			break;
		case 1:
			if ((task = small_take_next(queue)) != nullptr)
				take(task);
			break;
		case 2:
			payload[size_t(i)] = i + 1;
			if ((task = small_set_next(queue, tasks[size_t(i++)])) != nullptr)
				take(task);
			break;
		default:
			payload[size_t(i)] = i + 1;
			uint32_t n = small_put(queue, tasks[size_t(i++)], overflow);
			for (uint32_t k = 0; k < n; k++)
				take(overflow[k]);
		}
	}
	// The owner takes what is left in its ring, and the thieves what is left in theirs.
	EXPECT_TRUE(test::eventually_in_thread([&] {
		small_task *task;

		while ((task = small_take_next(queue)) || (task = small_get(queue)))
			take(task);
		return count.load() >= total;
	})) << "lost "
	    << total - count.load() << ", seed " << random.seed();
	done = true;
	test::join_all(threads);
	EXPECT_EQ(0, wrong.load()) << "seed " << random.seed();
	EXPECT_EQ(total, count.load()) << "seed " << random.seed();
	for (small_task *task : tasks)
		small_task_free(task);
	for (small_queue *ring : rings)
		small_queue_free(ring);
	small_queue_free(queue);
}

} // namespace
