// SPDX-License-Identifier: MIT
//
// The number of processors changes while the runtime works. A processor that retires leaves nothing
// undone, and no task is stuck.
#include <atomic>
#include <thread>
#include <vector>

#include <dirent.h>
#include <sched.h>

#include <sennit/channel.h>

#include "support/internals.h"
#include "support/runtime.h"

namespace
{

using test::Task;

// Changes the number at random, in place of the monitor, which leaves it alone when SENNIT_PROCS is
// set.
class Changer
{
public:
	Changer(int most, uint64_t seed)
	    : thread_([this, most, seed] {
		      test::Random random(seed);

		      while (!stop_) {
			      probe_processors_adjust(1 + int(random.below(uint64_t(most))));
			      changes_++;
			      usleep(useconds_t(random.below(300)));
		      }
	      })
	{
	}
	~Changer() { stop(); }

	void stop()
	{
		stop_ = true;
		if (thread_.joinable())
			thread_.join();
	}
	int changes() const { return changes_; }

private:
	std::atomic<bool> stop_{false};
	std::atomic<int> changes_{0};
	std::thread thread_;
};

void compute(int64_t ns)
{
	const int64_t until = sn_now() + ns;

	while (sn_now() < until)
		;
}

TEST(Processors, TasksGoOnWhileTheirNumberChanges)
{
	test::Random seeds;

	test::run(4, [&] {
		const int rounds = test::scaled(100);
		std::vector<Task> tasks;
		Changer changer(4, seeds.next());

		for (int t = 0; t < test::scaled(1000); t++)
			tasks.emplace_back([rounds = rounds] {
				for (int i = 0; i < rounds; i++) {
					compute(5 * test::us);
					ASSERT_EQ(0, sn_sleep(test::ms));
				}
			});
		test::join_all(tasks);
		changer.stop();
		EXPECT_GT(changer.changes(), 10);
	});
}

// These tasks are only ever in rings and next slots, never in the heaps of timers.
TEST(Processors, NoMessageIsLostWhileTheirNumberChanges)
{
	test::Random seeds;

	test::run(4, [&] {
		const int pairs = 20, messages = test::scaled(20000);
		std::vector<sn_chan *> chans(pairs);
		std::vector<Task> tasks;
		std::atomic<int64_t> sum{0};
		Changer changer(4, seeds.next());

		for (sn_chan *&chan : chans) {
			ASSERT_EQ(0, sn_chan_new(&chan, sizeof(int), 2));
			tasks.emplace_back([chan, messages = messages] {
				for (int i = 1; i <= messages; i++)
					ASSERT_EQ(0, sn_chan_send(chan, &i));
			});
			tasks.emplace_back([&, chan] {
				for (int i = 1; i <= messages; i++) {
					int got = 0;

					ASSERT_EQ(0, sn_chan_recv(chan, &got));
					sum += got;
				}
			});
		}
		test::join_all(tasks);
		EXPECT_EQ(int64_t(pairs) * messages * (messages + 1) / 2, sum);
		for (sn_chan *chan : chans)
			sn_chan_unref(chan);
	});
}

// The timers of processors that retire are due while the remaining processor always has something
// to run.
TASK_TEST(Processors, TimersOfARetiredProcessorFire, 4)
{
	std::atomic<bool> stop{false};
	std::atomic<int> asleep{0}, awake{0};
	std::vector<Task> sleepers, busy;

	// Each computes first, so that idle processors steal some of them.
	for (int i = 0; i < 40; i++)
		sleepers.emplace_back([&] {
			compute(200 * test::us);
			asleep++;
			ASSERT_EQ(0, sn_sleep(300 * test::ms));
			awake++;
		});
	ASSERT_TRUE(test::eventually([&] { return asleep == 40; }));
	for (int i = 0; i < 40; i++)
		busy.emplace_back([&] {
			while (!stop)
				sn_yield();
		});
	std::thread([] { probe_processors_adjust(1); }).join();
	EXPECT_TRUE(test::eventually([&] { return awake == 40; }));
	EXPECT_EQ(1U, test::stats().processors);
	stop = true;
	test::join_all(busy);
	test::join_all(sleepers);
}

// The number grows from one to the maximum and shrinks again. Each time all processors come into
// use, and then no more than one stays in use.
TASK_TEST(Processors, AreUsedAgainWhenThereAreMore, 4)
{
	std::atomic<bool> stop{false};
	std::vector<Task> busy;

	for (int i = 0; i < 16; i++)
		busy.emplace_back([&] {
			while (!stop) {
				compute(20 * test::us);
				sn_yield();
			}
		});
	for (int round = 0; round < 20; round++) {
		std::thread([] { probe_processors_adjust(1); }).join();
		ASSERT_TRUE(test::eventually([] { return test::stats().processors == 1; }));
		std::thread([] { probe_processors_adjust(4); }).join();
		ASSERT_EQ(4U, test::stats().processors);
	}
	stop = true;
	test::join_all(busy);
}

// Tasks that compute without a call keep their processor until it is revoked. A pinned task gets a
// processor again.
TASK_TEST(Processors, HogsAndPinnedTasksGiveTheirProcessorUp, 4)
{
	std::atomic<bool> stop{false};
	std::atomic<int> turns{0};
	std::vector<Task> tasks;

	for (int i = 0; i < 4; i++)
		tasks.emplace_back([&] {
			while (!stop)
				compute(10 * test::us);
		});
	tasks.emplace_back([&] {
		ASSERT_EQ(0, sn_pin());
		while (!stop) {
			sn_yield();
			turns++;
		}
		ASSERT_EQ(0, sn_unpin());
	});
	for (int round = 0; round < 5; round++) {
		const int before = turns;

		std::thread([] { probe_processors_adjust(1); }).join();
		EXPECT_TRUE(test::eventually([] { return test::stats().processors == 1; }));
		EXPECT_TRUE(test::eventually([&] { return turns > before + 1; }));
		std::thread([] { probe_processors_adjust(3); }).join();
	}
	stop = true;
	test::join_all(tasks);
}

std::vector<int> threads_of_process()
{
	std::vector<int> threads;
	DIR *dir = opendir("/proc/self/task");

	while (const dirent *entry = dir ? readdir(dir) : nullptr)
		if (entry->d_name[0] != '.')
			threads.push_back(atoi(entry->d_name));
	if (dir)
		closedir(dir);
	return threads;
}

// Does what taskset -a -p does.
void allow(const cpu_set_t &cpus)
{
	for (int thread : threads_of_process())
		// the thread may have ended since it was listed
		sched_setaffinity(thread, sizeof cpus, &cpus);
}

// The number changes the way in which users change it: by the affinity mask of the process.
TEST(Processors, FollowTheAffinityMask)
{
	cpu_set_t all, one;

	ASSERT_EQ(0, sched_getaffinity(0, sizeof all, &all));
	if (CPU_COUNT(&all) < 2)
		GTEST_SKIP() << "there is only one CPU";
	CPU_ZERO(&one);
	for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	unsetenv("SENNIT_PROCS");
	ASSERT_EQ(0, sn_run(
			     [](void *arg) {
				     auto *masks = static_cast<const cpu_set_t *const *>(arg);
				     std::atomic<bool> stop{false};
				     std::atomic<int64_t> rounds{0};
				     std::vector<Task> tasks;

				     for (int t = 0; t < 1000; t++)
					     tasks.emplace_back([&] {
						     while (!stop) {
							     compute(5 * test::us);
							     ASSERT_EQ(0, sn_sleep(test::ms));
							     rounds++;
						     }
					     });
				     for (int i = 0; i < 4; i++) {
					     const cpu_set_t &mask = *masks[i % 2];
					     const auto cpus = uint64_t(CPU_COUNT(&mask));

					     allow(mask);
					     EXPECT_TRUE(test::eventually([&] {
						     return test::stats().processors == cpus;
					     }));
					     const int64_t before = rounds;
					     EXPECT_TRUE(test::eventually(
						     [&] { return rounds > before + 2000; }));
				     }
				     stop = true;
				     test::join_all(tasks);
				     return 0;
			     },
			     const_cast<const cpu_set_t **>(
				     std::vector<const cpu_set_t *>{&one, &all}.data())));
	allow(all);
}

} // namespace
