// SPDX-License-Identifier: MIT
//
// At the limit of threads, everything gets done that the existing threads can do. A case that fails
// hangs.
#include <atomic>
#include <cstdio>
#include <ctime>
#include <thread>
#include <vector>

#include <unistd.h>

#include <sennit/foreign.h>

#include "support/runtime.h"
#include "support/yields.h"

namespace
{

// Tasks that stay in foreign code until the test releases them.
class Blocked
{
public:
	explicit Blocked(int n) : n_(n) { EXPECT_EQ(0, pipe(gate_)); }
	~Blocked()
	{
		close(gate_[0]);
		close(gate_[1]);
	}
	Blocked(const Blocked &) = delete;
	Blocked &operator=(const Blocked &) = delete;

	void begin()
	{
		for (int i = 0; i < n_; i++)
			tasks_.emplace_back([this] {
				char byte;

				in_++;
				EXPECT_EQ(1, read(gate_[0], &byte, 1));
			});
	}
	int in() const { return in_; }
	void end()
	{
		for (int i = 0; i < n_; i++)
			EXPECT_EQ(1, write(gate_[1], "x", 1));
		test::join_all(tasks_);
	}

private:
	const int n_;
	int gate_[2];
	std::atomic<int> in_{0};
	std::vector<test::Task> tasks_;
};

// The only other thread is in foreign code, so no thread serves the timers, and the thread that
// waits for the pinned task cannot run another one.
TEST(LimitOfThreads, TimersOfPinnedTasksFire)
{
	test::Environment most("SENNIT_MAX_THREADS", "2");

	test::run({1, 2}, [] {
		Blocked blocked(1);
		std::atomic<bool> begins{false};

		test::Task pinned([&] {
			EXPECT_EQ(0, sn_pin());
			begins = true;
			// Until the other thread is in foreign code, and then once more.
			while (blocked.in() == 0)
				EXPECT_EQ(0, sn_sleep(test::ms));
			for (int i = 0; i < 5; i++)
				EXPECT_EQ(0, sn_sleep(10 * test::ms));
			EXPECT_EQ(0, sn_unpin());
		});
		EXPECT_TRUE(test::eventually([&] { return begins.load(); }));
		blocked.begin();
		pinned.join();
		blocked.end();
	});
}

// The same for a deadline, which ends the wait.
TEST(LimitOfThreads, DeadlinesOfPinnedTasksFire)
{
	test::Environment most("SENNIT_MAX_THREADS", "2");

	test::run({1, 2}, [] {
		Blocked blocked(1);
		std::atomic<bool> begins{false};

		test::Task pinned([&] {
			sn_scope *scope;
			sn_chan *chan;

			EXPECT_EQ(0, sn_chan_new(&chan, 0, 0));
			EXPECT_EQ(0, sn_pin());
			begins = true;
			while (blocked.in() == 0)
				EXPECT_EQ(0, sn_sleep(test::ms));
			EXPECT_EQ(0, sn_scope_open(&scope, sn_after(20 * test::ms)));
			EXPECT_EQ(-ETIMEDOUT, sn_chan_recv(chan, nullptr));
			EXPECT_EQ(-ETIMEDOUT, sn_scope_close(scope));
			EXPECT_EQ(0, sn_unpin());
			sn_chan_unref(chan);
		});
		EXPECT_TRUE(test::eventually([&] { return begins.load(); }));
		blocked.begin();
		pinned.join();
		blocked.end();
	});
}

// The same after such a long quiet time that the monitor, which alone could notice, would sleep.
// Without trimming it has nothing else to wake up for.
TEST(LimitOfThreads, LateTimersOfPinnedTasksFire)
{
	test::Environment most("SENNIT_MAX_THREADS", "2"), never("SENNIT_TRIM_MS", "0");

	test::run({1, 2}, [] {
		Blocked blocked(1);
		std::atomic<bool> begins{false};

		test::Task pinned([&] {
			EXPECT_EQ(0, sn_pin());
			begins = true;
			while (blocked.in() == 0)
				EXPECT_EQ(0, sn_sleep(test::ms));
			EXPECT_EQ(0, sn_sleep(400 * test::ms));
			EXPECT_EQ(0, sn_unpin());
		});
		EXPECT_TRUE(test::eventually([&] { return begins.load(); }));
		blocked.begin();
		pinned.join();
		blocked.end();
	});
}

// And input from the network.
TEST(LimitOfThreads, LateInputOfPinnedTasksComes)
{
	test::Environment most("SENNIT_MAX_THREADS", "2"), never("SENNIT_TRIM_MS", "0");

	test::run({1, 2}, [] {
		Blocked blocked(1);
		std::atomic<bool> begins{false};
		int ends[2];

		ASSERT_EQ(0, pipe(ends));
		test::Task pinned([&] {
			sn_stream *stream = nullptr;
			char byte;

			EXPECT_EQ(0, sn_pin());
			EXPECT_EQ(0, sn_stream_adopt(&stream, ends[0]));
			begins = true;
			while (blocked.in() == 0)
				EXPECT_EQ(0, sn_sleep(test::ms));
			EXPECT_EQ(1, sn_stream_read(stream, &byte, 1));
			EXPECT_EQ(0, sn_stream_close(stream));
			EXPECT_EQ(0, sn_unpin());
		});
		EXPECT_TRUE(test::eventually([&] { return begins.load(); }));
		std::thread writer([&] {
			usleep(400000);
			EXPECT_EQ(1, write(ends[1], "x", 1));
		});
		blocked.begin();
		pinned.join();
		blocked.end();
		writer.join();
		close(ends[1]);
	});
}

// Tasks that are bound to a thread wait in the same queue as all others. When no thread can be
// started, the runtime looks for the threads of the bound tasks.
TEST(LimitOfThreads, ThreadsThatComeBackGoOn)
{
	test::Environment most("SENNIT_MAX_THREADS", "4");

	test::run({1, 2, 4}, [] {
		std::vector<test::Task> tasks;
		std::atomic<bool> over{false};
		std::atomic<int> rounds{0};

		for (int i = 0; i < 100; i++)
			tasks.emplace_back([&] {
				while (!over)
					sn_yield();
			});
		for (int i = 0; i < 10; i++)
			tasks.emplace_back([&] {
				for (int round = 0; round < 20; round++, rounds++)
					usleep(1000);
			});
		EXPECT_TRUE(test::eventually([&] { return rounds == 200; }));
		over = true;
		test::join_all(tasks);
	});
}

// ---- cost ----

// How many tasks yield. In the short form the sanitizers look at a few for races; what the tasks
// cost shows in the builds without one.
int yielding()
{
	return test::is_short() && (TEST_TSAN || TEST_ASAN) ? 200 : test::scaled(10000);
}

void expect_no_dearer(double yield, double before)
{
	// Of fewer, one stall of the machine is much.
	if (yielding() == test::scaled(10000)) {
		EXPECT_LT(yield, 8 * before);
	}
}

// A task spawns others, and then keeps the only other thread: in foreign code, or pinned to it. The
// remaining thread always has something else to do. It runs the others nevertheless.
template <class Keep, class Release>
void spawn_and_keep(Keep keep, Release release)
{
	std::atomic<pid_t> busy{0};
	std::atomic<int> ran{0};
	std::atomic<bool> over{false};
	test::Task yielding([&] {
		while (!over) {
			busy = gettid();
			sn_yield();
		}
	});
	test::Task spawning([&] {
		std::vector<test::Task> others;

		// Until the other one runs on another thread. This makes no call that parks.
		while (busy == 0 || busy == gettid())
			;
		for (int i = 0; i < 8; i++)
			others.emplace_back([&] { ran++; });
		keep();
		test::join_all(others);
	});

	EXPECT_TRUE(test::eventually([&] { return ran == 8; }));
	over = true;
	release();
	yielding.join();
	spawning.join();
}

TEST(LimitOfThreads, TasksOfAProcessorThatLosesItsThreadRun)
{
	test::Environment most("SENNIT_MAX_THREADS", "2");

	test::run(2, [] {
		int gate[2];

		ASSERT_EQ(0, pipe(gate));
		for (int i = 0; i < 2; i++)
			spawn_and_keep(
				[&] {
					char byte;

					EXPECT_EQ(1, read(gate[0], &byte, 1));
				},
				[&] { EXPECT_EQ(1, write(gate[1], "x", 1)); });
		close(gate[0]);
		close(gate[1]);
	});
}

TEST(LimitOfThreads, TasksOfAProcessorThatAPinnedTaskGivesUpRun)
{
	test::Environment most("SENNIT_MAX_THREADS", "2");

	test::run(2, [] {
		sn_chan *chan;

		ASSERT_EQ(0, sn_chan_new(&chan, 0, 0));
		for (int i = 0; i < 2; i++)
			spawn_and_keep(
				[&] {
					EXPECT_EQ(0, sn_pin());
					EXPECT_EQ(0, sn_chan_recv(chan, nullptr));
					EXPECT_EQ(0, sn_unpin());
				},
				[&] { EXPECT_EQ(0, sn_chan_send(chan, nullptr)); });
		sn_chan_unref(chan);
	});
}

// Only one thread is left. What each task costs it does not depend on how many others wait: no
// wake-up goes through the queue in search of a task whose thread is free, unless there is one.
TEST(LimitOfThreads, AYieldCostsWhatItDoesBelowTheLimit)
{
	test::Environment most("SENNIT_MAX_THREADS", "8");
	const int n = yielding();

	test::run({2, 4}, [n] {
		const double before = test::cost_of_a_yield(n);
		Blocked blocked(7);

		blocked.begin();
		EXPECT_TRUE(test::eventually([&] { return blocked.in() == 7; }));
		const double at_the_limit = test::cost_of_a_yield(n);
		EXPECT_GT(test::stats().thread_limit_hits, 0u);
		blocked.end();
		printf("a yield: %.0f ns, at the limit %.0f ns\n", before, at_the_limit);
		expect_no_dearer(at_the_limit, before);
		// And what it did before, once threads have come back.
		expect_no_dearer(test::cost_of_a_yield(n), before);
	});
}

// The same while tasks that say that they block are among those that wait. These are bound to no
// thread in particular, so no thread waits for them.
TEST(LimitOfThreads, AYieldCostsTheSameBesideTasksThatSayThatTheyBlock)
{
	test::Environment most("SENNIT_MAX_THREADS", "8");
	const int n = yielding();

	test::run({2, 4}, [n] {
		const double before = test::cost_of_a_yield(n);
		Blocked blocked(7);

		blocked.begin();
		EXPECT_TRUE(test::eventually([&] { return blocked.in() == 7; }));
		std::atomic<bool> over{false};
		std::vector<sn_task *> apart;
		for (int i = 0; i < 4; i++) {
			struct sn_task_attr attr = {};
			sn_task *task = nullptr;

			attr.flags = SN_TASK_BLOCKS;
			ASSERT_EQ(0, sn_spawn(
					     &task,
					     [](void *arg) {
						     while (!*static_cast<std::atomic<bool> *>(arg))
							     sn_yield();
						     return 0;
					     },
					     &over, &attr));
			apart.push_back(task);
		}
		const double at_the_limit = test::cost_of_a_yield(n);
		EXPECT_GT(test::stats().thread_limit_hits, 0u);
		over = true;
		for (sn_task *task : apart)
			EXPECT_EQ(0, sn_join(task, nullptr));
		blocked.end();
		printf("a yield: %.0f ns, at the limit %.0f ns\n", before, at_the_limit);
		expect_no_dearer(at_the_limit, before);
	});
}

} // namespace
