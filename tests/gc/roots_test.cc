// SPDX-License-Identifier: MIT
//
// What tasks refer to survives collections, wherever the reference is; what they do not refer to
// any more does not; and with any one part of the bridge left out, the former does not hold.
#include <atomic>
#include <csignal>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include "gc/heap.h"

namespace
{

using namespace test;

// How many tasks hold something. Some thousands, as the collector's roots are otherwise bounded.
const int many = scaled(4000);

// What tasks wait for, holding their list.
class Gate
{
public:
	void wait() { EXPECT_EQ(0, sn_semaphore_acquire(&semaphore_)); }
	void open(int n) { EXPECT_EQ(0, sn_semaphore_release(&semaphore_, n)); }

private:
	sn_semaphore semaphore_ = {};
};

// All lists that were made are whole now; only few are when nobody refers to them any more. A
// conservative collector may keep some.
void expect_reclaimed(Lists &lists)
{
	collect();
	EXPECT_GE(lists.ended() * 10, lists.made() * 9);
}

struct Found {
	uint32_t lost = 0; // while their tasks held them
};

// Each of n tasks holds a list in the way that hold_one(list, until) does it until the gate opens.
template <class Holder>
Found held_by_tasks(int n, Holder hold_one, const sn_task_attr *attr = nullptr)
{
	Lists lists((uint32_t)n);
	Gate gate;
	std::atomic<int> holding{0}, broken{0};
	std::vector<Task> tasks;
	Found found;

	for (int i = 0; i < n; i++)
		tasks.emplace_back(
			[&, i] {
				Hidden list = hold_one(
					lists.make(),
					[&] {
						holding++;
						gate.wait();
					},
					i);
				if (!lists.whole(reinterpret_cast<Node *>(~list)))
					broken++;
			},
			attr);
	EXPECT_TRUE(eventually([&] { return holding == n; }));
	collect();
	// Also by tasks on other threads.
	Task([] { collect(); }).join();
	found.lost = lists.ended();
	gate.open(n);
	for (auto &task : tasks)
		task.join();
	if (!found.lost) {
		EXPECT_EQ(0, broken);
		expect_reclaimed(lists);
	}
	return found;
}

// A function, so that the frame is the task's own.
template <class F>
[[gnu::noinline]] Hidden hold_on_stack(Hidden list, F wait)
{
	void *volatile plain = reinterpret_cast<void *>(~list);

	wait();
	return hide(plain);
}

TEST(GcRoots, Init)
{
	connect();
	EXPECT_EQ(0, sn_gc_init());
	EXPECT_EQ(-EINVAL, sn_gc_stats(nullptr));
	run([] {
		struct sn_gc_stats before, after;

		EXPECT_EQ(0, sn_gc_init());
		ASSERT_EQ(0, sn_gc_stats(&before));
		collect();
		ASSERT_EQ(0, sn_gc_stats(&after));
		EXPECT_GT(after.stops, before.stops);
		EXPECT_GE(after.tasks, 1u);
		EXPECT_GE(after.threads, 1u);
		uint64_t counted = 0;
		for (uint64_t n : after.pauses)
			counted += n;
		EXPECT_EQ(after.stops, counted);
	});
}

TEST(GcRoots, GarbageIsReclaimed)
{
	connect();
	// Not a collection for each of the first 64 KiB.
	ASSERT_TRUE(GC_expand_hp(4 << 20));
	run([] {
		std::vector<Task> tasks;

		for (int i = 0; i < scaled(200); i++)
			tasks.emplace_back([] {
				for (int n = 0; n < 1000; n++) {
					auto *node = static_cast<Node *>(GC_MALLOC(1024));
					node->check = 1;
					if (n % 100 == 0)
						sn_yield();
				}
			});
		for (auto &task : tasks)
			task.join();
	});
	// Of 200 MB each time.
	EXPECT_LT(GC_get_heap_size(), size_t{64} << 20);
}

TEST(GcRoots, StacksOfParkedTasks)
{
	connect();
	auto test = [] {
		return held_by_tasks(many, [](Hidden list, auto wait, int) {
			return hold_on_stack(list, wait);
		});
	};
	run([&] { EXPECT_EQ(0u, test().lost); });
	run(2, [&] {
		Blind blind(SN_GC_BLIND_STACKS);
		EXPECT_GT(test().lost, 0u);
	});
}

TEST(GcRoots, RegistersOfParkedTasks)
{
	connect();
	auto test = [] {
		return held_by_tasks(many,
				     [](Hidden list, auto wait, int) { return hold(list, wait); });
	};
	run([&] { EXPECT_EQ(0u, test().lost); });
	run(2, [&] {
		Blind blind(SN_GC_BLIND_STACKS);
		EXPECT_GT(test().lost, 0u);
	});
}

} // namespace
