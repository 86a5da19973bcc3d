// SPDX-License-Identifier: MIT
//
// How soon waiting work runs when the thread of its processor has blocked without a bracket, after
// a time in which the monitor had nothing to do. The median over the rounds (of few: a good one) is
// compared with how late a plain thread wakes at the same time, because the work depends on several
// such wake-ups (the monitor's, and that of the thread that gets the processor).
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "support/internals.h"
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
			test::join_all(others);
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
	test::join_all(writers);
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

// Two tasks of one processor that take turns of some 20 us, so that something always waits.
void be_busy(int64_t ns)
{
	const int64_t until = sn_now() + ns;
	const auto take_turns = [until] {
		for (int64_t now = sn_now(); now < until; now = sn_now()) {
			while (sn_now() < now + 20 * test::us)
				;
			sn_yield();
		}
	};
	Task other(take_turns);

	take_turns();
	other.join();
}

// How often the monitor has gone to sleep so far.
uint64_t sleeps_of_the_monitor()
{
	for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
		std::ifstream file(task.path() / "status");
		std::string word, name;

		file >> word >> name;
		while (name == "sennit-monitor" && file >> word)
			if (word == "voluntary_ctxt_switches:") {
				uint64_t n;

				file >> n;
				return n;
			}
	}
	ADD_FAILURE() << "there is no monitor";
	return 0;
}

// Wakes a task again and again from a thread of the program, which finds every processor taken and
// tells the monitor so.
class Waker
{
public:
	Waker()
	    : task_([this] {
		      while (!ends_)
			      EXPECT_EQ(0, sn_semaphore_acquire(&turns_));
	      }),
	      thread_([this] {
		      while (!ends_) {
			      EXPECT_EQ(0, sn_semaphore_release(&turns_, 1));
			      block(200 * test::us);
		      }
	      })
	{
	}
	~Waker()
	{
		ends_ = true;
		EXPECT_EQ(0, sn_semaphore_release(&turns_, 1));
		task_.join();
		thread_.join();
	}

private:
	std::atomic<bool> ends_{false};
	sn_semaphore turns_ = {};
	Task task_;
	std::thread thread_;
};

// Each look costs some 20 us of CPU, so a program that is busy and never blocks should have few
// more than the regular one in a millisecond. A revocation, as of a thread that waits for a page,
// allows 256 more looks and 45 for the task's next turns, and is followed by some 60.
TEST(Prompt, TheMonitorLooksSeldomWhereNothingEverBlocks)
{
	test::run(1, [] {
		Waker waker;

		be_busy(250 * test::ms); // uses up the looks that a new run may make
		const uint64_t revoked = test::stats().revocations;
		const uint64_t sleeps = sleeps_of_the_monitor();
		const int64_t begin = sn_now();
		be_busy(300 * test::ms);
		const uint64_t more = sleeps_of_the_monitor() - sleeps;
		const int64_t took = sn_now() - begin;
		EXPECT_LT(more, static_cast<uint64_t>(took / test::ms) * 2 +
					400 * (test::stats().revocations - revoked));
	});
}

// While nothing blocks, the hints use up the looks that the revocation in the round before allows.
// The monitor then finds the blocked thread by its next two regular looks. If those were 10 ms
// apart, each round would be late; beside other programs only some are, so the second best counts.
TEST(Prompt, ATaskRunsSoonThoughTheMonitorHasFoundNothingForLong)
{
	std::vector<int64_t> late;
	PlainThread plain;

	test::run(1, [&] {
		for (int i = 0; i < 5; i++) {
			std::atomic<int64_t> ran{0};

			{
				Waker waker;

				be_busy(200 * test::ms);
			}
			const int64_t could = sn_now();
			Task work([&ran] { ran = sn_now(); });
			block(20 * test::ms);
			work.join();
			late.push_back(ran - could);
		}
	});
	const int64_t plainly = plain.end();
	std::sort(late.begin(), late.end());
	EXPECT_LT(late[1], 4 * test::ms + 20 * plainly) << "a plain thread: " << plainly;
}

// Takes turns until the task is not expected to block any more. Returns how many it took, and how
// many were expected. Tries again if the processor was revoked during these turns. A join of a task
// that has not run yet is a turn; a short sleep may be over before it begins.
std::pair<unsigned, unsigned> turns_that_may_block()
{
	for (;;) {
		const uint64_t revoked = test::stats().revocations;
		const unsigned expected = probe_may_block();
		unsigned took = 0;

		for (; probe_may_block() > 0 && took <= expected; took++)
			Task([] {}).join();
		if (test::stats().revocations == revoked)
			return {took, expected};
	}
}

// A processor is revoked only if something waits for it.
TEST(Prompt, ATaskThatHasBlockedIsExpectedToBlockAgainForSomeTurns)
{
	test::run(1, [] {
		EXPECT_TRUE(test::eventually([] {
			Task other([] { EXPECT_EQ(0U, probe_may_block()); });

			block(15 * test::ms);
			other.join();
			return probe_may_block() > 1;
		}));
		const auto [took, expected] = turns_that_may_block();
		EXPECT_EQ(expected, took);
	});
}

TEST(Prompt, ATaskThatComputesIsNotExpectedToBlock)
{
	test::run(1, [] {
		const uint64_t revoked = test::stats().revocations;

		EXPECT_TRUE(test::eventually([revoked] {
			Task other([] {});

			for (const int64_t until = sn_now() + 20 * test::ms; sn_now() < until;)
				;
			other.join();
			return test::stats().revocations > revoked;
		}));
		EXPECT_EQ(0U, probe_may_block());
	});
}

TEST(Prompt, TheMonitorLooksWhenATaskRunsThatIsExpectedToBlock)
{
	std::atomic<bool> ended{false};
	std::thread monitor([&ended] {
		EXPECT_TRUE(test::eventually([] { return probe_nap_is_for_a_block(); }));
		ended = true;
	});

	while (!ended) {
		probe_expect_block();
		std::this_thread::yield();
	}
	monitor.join();
}

} // namespace
