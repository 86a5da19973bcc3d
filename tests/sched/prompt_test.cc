// SPDX-License-Identifier: MIT
//
// How soon waiting work runs when the thread of its processor has blocked without a bracket, after
// a time in which the monitor had nothing to do. The median over the rounds is compared with how
// late a plain thread wakes at the same time, because the work depends on several such wake-ups
// (three looks of the monitor, and the thread that gets the processor).
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "support/runtime.h"

using test::Task;

namespace
{

constexpr int rounds = 21;

void block(int64_t ns)
{
	struct timespec ts = {static_cast<time_t>(ns / test::second),
			      static_cast<long>(ns % test::second)};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

int64_t median(std::vector<int64_t> values)
{
	std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
	return values[values.size() / 2];
}

// Measures how late a plain thread wakes, as long as the object lives.
class PlainThread
{
public:
	PlainThread()
	{
		thread_ = std::thread([this] {
			while (!ends_) {
				const int64_t until = sn_now() + 2 * test::ms;

				block(until - sn_now());
				late_.push_back(sn_now() - until);
			}
		});
	}
	int64_t end()
	{
		ends_ = true;
		thread_.join();
		return median(late_);
	}

private:
	std::atomic<bool> ends_{false};
	std::vector<int64_t> late_;
	std::thread thread_;
};

// Each round begins with a quiet time. Then the work is prepared, and as many tasks block as there
// are processors, each for 20 ms. prepare() returns the time from which the work could run, and the
// work stores the time at which it runs in the argument.
void expect_prompt(int processors,
		   const std::function<int64_t(std::atomic<int64_t> &ran, Task &work)> &prepare)
{
	std::vector<int64_t> late;
	PlainThread plain;

	test::run(processors, [&] {
		for (int i = 0; i < rounds; i++) {
			std::atomic<int64_t> ran{0};
			std::atomic<int> begun{0};
			std::vector<Task> others;
			Task work;

			EXPECT_EQ(0, sn_sleep((25 + i % 8) * test::ms));
			for (int k = 1; k < processors; k++)
				others.emplace_back([&begun] {
					begun++;
					block(20 * test::ms);
				});
			while (begun < processors - 1)
				; // keeps its processor, so that the others run elsewhere
			const int64_t could = prepare(ran, work);
			block(20 * test::ms);
			work.join();
			for (Task &each : others)
				each.join();
			late.push_back(ran - could);
		}
	});
	const int64_t plainly = plain.end();
	EXPECT_LT(median(late), 2 * test::ms + 20 * plainly) << "a plain thread: " << plainly;
}

TEST(Prompt, ATaskRunsSoonThoughTheOnlyThreadHasBlocked)
{
	expect_prompt(1, [](std::atomic<int64_t> &ran, Task &work) {
		work = Task([&ran] { ran = sn_now(); });
		return sn_now();
	});
}

TEST(Prompt, ATimerFiresSoonThoughTheOnlyThreadHasBlocked)
{
	expect_prompt(1, [](std::atomic<int64_t> &ran, Task &work) {
		const int64_t due = sn_now() + test::ms;

		work = Task([&ran, due] {
			EXPECT_EQ(0, sn_sleep_until(due));
			ran = sn_now();
		});
		sn_yield(); // so that it sleeps
		return due;
	});
}

TEST(Prompt, APipeIsReadSoonThoughTheOnlyThreadHasBlocked)
{
	int ends[2];
	std::vector<std::thread> writers;

	ASSERT_EQ(0, pipe(ends));
	expect_prompt(1, [&](std::atomic<int64_t> &ran, Task &work) {
		const int64_t due = sn_now() + test::ms;

		work = Task([&ran, &ends] {
			char byte;

			EXPECT_GT(sn_fd_wait(ends[0], POLLIN, SN_NO_DEADLINE), 0);
			EXPECT_EQ(1, read(ends[0], &byte, 1));
			ran = sn_now();
		});
		sn_yield();
		writers.emplace_back([&ends, due] {
			block(due - sn_now());
			EXPECT_EQ(1, write(ends[1], "x", 1));
		});
		return due;
	});
	for (std::thread &each : writers)
		each.join();
	close(ends[0]);
	close(ends[1]);
}

TEST(Prompt, ATaskRunsSoonThoughBothThreadsHaveBlocked)
{
	expect_prompt(2, [](std::atomic<int64_t> &ran, Task &work) {
		work = Task([&ran] { ran = sn_now(); });
		return sn_now();
	});
}

} // namespace
