// SPDX-License-Identifier: MIT
// Labels: long
//
// A program that has nothing to do uses no processor time, however many tasks wait in it.
//
// SENNIT_TEST_IDLE_SECONDS says for how long the test watches. "make test-idle" sets it.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

#include "support/runtime.h"

namespace
{

// In percent of one CPU. With a tool's own threads, or with translated code, the bound can only
// rule out a thread that polls every millisecond, which takes 1 to 2 %.
constexpr double most_percent = TEST_TSAN || TEST_EMULATED ? 1 : 0.1;

double seconds_wanted()
{
	const char *wish = getenv("SENNIT_TEST_IDLE_SECONDS");

	return wish ? strtod(wish, nullptr) : 0;
}

// Returns the CPU time of the process during the given time, in percent of one CPU.
double watch(int64_t ns)
{
	const int64_t cpu = test::cpu_ns(), began = sn_now();

	usleep(useconds_t(ns / 1000));
	return 100.0 * double(test::cpu_ns() - cpu) / double(sn_now() - began);
}

// Tasks that wait in every possible way, some for a time that is far away.
class Crowd
{
public:
	explicit Crowd(int count)
	{
		EXPECT_EQ(0, sn_chan_new(&channel_, sizeof(int), 0));
		EXPECT_EQ(0, sn_mutex_lock(&mutex_));
		for (int i = 0; i < count; i++)
			tasks_.emplace_back([this, i] { wait(i); });
		EXPECT_TRUE(test::eventually([&] { return waiting_ == count; }));
	}
	~Crowd()
	{
		EXPECT_EQ(0, sn_chan_close(channel_));
		EXPECT_EQ(0, sn_mutex_unlock(&mutex_));
		EXPECT_EQ(0, sn_semaphore_release(&semaphore_, int(tasks_.size())));
		test::join_all(tasks_);
		sn_chan_unref(channel_);
	}
	Crowd(const Crowd &) = delete;
	Crowd &operator=(const Crowd &) = delete;

private:
	void wait(int number)
	{
		const int64_t later = sn_now() + 3600 * test::second;
		int item;

		waiting_++;
		if (number % 4 == 0)
			EXPECT_EQ(-EPIPE, sn_chan_recv(channel_, &item));
		else if (number % 4 == 1)
			EXPECT_EQ(-EPIPE, sn_chan_recv_until(channel_, &item, later));
		else if (number % 4 == 2)
			EXPECT_EQ(0, sn_semaphore_acquire_until(&semaphore_, later));
		else if (sn_mutex_lock(&mutex_) == 0)
			EXPECT_EQ(0, sn_mutex_unlock(&mutex_));
		else
			ADD_FAILURE() << "cannot lock the mutex";
	}

	sn_chan *channel_ = nullptr;
	sn_mutex mutex_ = {};
	sn_semaphore semaphore_ = {};
	std::atomic<int> waiting_{0};
	std::vector<test::Task> tasks_;
};

void watch_all()
{
	// After this, surplus threads have ended, the monitor sleeps, and stacks have been trimmed.
	usleep(4000000);
	if (seconds_wanted() > 0) {
		const double percent = watch(int64_t(seconds_wanted() * 1e9));

		printf("%.4f %% of a CPU in %.0f s\n", percent, seconds_wanted());
		EXPECT_LT(percent, most_percent);
		return;
	}
	// Signals, faults and other noise of the system come now and then. Waste would show in
	// every second, so the least counts.
	double least = 100;
	for (int i = 0; i < 20 && least >= most_percent; i++)
		least = std::min(least, watch(test::second));
	EXPECT_LT(least, most_percent);
}

TEST(Idle, TakesNoProcessorTime)
{
	test::Environment soon("SENNIT_TRIM_MS", "1000");

	test::run(2, [] {
		Crowd crowd(test::scaled(10000));

		sn_semaphore done = {};
		// Watches from outside the runtime, so that no task runs for the measurement.
		std::thread watcher([&] {
			watch_all();
			EXPECT_EQ(0, sn_semaphore_release(&done, 1));
		});

		EXPECT_EQ(0, sn_semaphore_acquire(&done));
		watcher.join();
	});
}

} // namespace
