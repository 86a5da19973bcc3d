// SPDX-License-Identifier: MIT
//
// Tasks that have been parked for long give back the unused part of their stacks, and do not
// notice, whatever happens at the same time. No other task does, and no task at all when trimming
// is switched off. Stacks of ended tasks are given back when they are not needed again.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/runtime.h"

#define UNCHECKED __attribute__((no_sanitize("address", "thread"), noinline))

namespace
{

constexpr size_t deep = size_t(64) << 10, stack_size = size_t(256) << 10;

const size_t page = size_t(sysconf(_SC_PAGESIZE));

// Writes to this many bytes of stack and reads them again. Returns the address of their middle, or
// 0 if other bytes were read.
UNCHECKED uintptr_t touch(size_t bytes, unsigned seed)
{
	auto *room = static_cast<volatile unsigned char *>(__builtin_alloca(bytes));

	for (size_t i = 0; i < bytes; i += 512)
		room[i] = static_cast<unsigned char>(seed + i / 512);
	for (size_t i = 0; i < bytes; i += 512)
		if (room[i] != static_cast<unsigned char>(seed + i / 512))
			return 0;
	return reinterpret_cast<uintptr_t>(room) + bytes / 2;
}

bool resident(uintptr_t address)
{
	unsigned char in = 0;

	EXPECT_EQ(0, mincore(reinterpret_cast<void *>(address & ~(page - 1)), page, &in));
	return in & 1;
}

// Parks with this many bytes on the stack, and returns whether they are still the same afterwards.
template <class F>
UNCHECKED bool keeps(size_t bytes, unsigned seed, F park)
{
	auto *room = static_cast<volatile unsigned char *>(__builtin_alloca(bytes));
	bool same = true;

	for (size_t i = 0; i < bytes; i += 64)
		room[i] = static_cast<unsigned char>(seed * 7 + i / 64);
	park();
	for (size_t i = 0; i < bytes; i += 64)
		same &= room[i] == static_cast<unsigned char>(seed * 7 + i / 64);
	return same;
}

// A task that has used much of its stack, and now waits with data on the upper part.
struct Sleeper {
	std::atomic<uintptr_t> touched{0};
	bool right = false;
	sn_semaphore wake = {};
	test::Task task;

	void start(unsigned seed)
	{
		sn_task_attr attr = {};

		attr.stack_size = stack_size;
		task = test::Task([this, seed] { body(seed); }, &attr);
	}

	void body(unsigned seed)
	{
		right = keeps(2000, seed, [&] {
			touched = touch(deep, seed);
			EXPECT_EQ(0, sn_semaphore_acquire(&wake));
		});
		right &= touch(deep, seed + 1) != 0;
	}

	bool end()
	{
		EXPECT_EQ(0, sn_semaphore_release(&wake, 1));
		task.join();
		return right;
	}
};

TEST(Trim, GivesBackWhatALongParkedTaskDoesNotUse)
{
	test::Environment soon("SENNIT_TRIM_MS", "50");

	test::run([] {
		Sleeper sleeper;

		sleeper.start(1);
		ASSERT_TRUE(test::eventually([&] { return sleeper.touched != 0; }));
		EXPECT_TRUE(test::eventually([&] { return !resident(sleeper.touched); }));
		// The statistics count the trim a moment later.
		EXPECT_TRUE(test::eventually([] { return test::stats().stacks_trimmed >= 1; }));
		EXPECT_TRUE(sleeper.end());
	});
}

// Stacks of ended tasks are given back, too: those that a burst has used and that no task has
// needed for a while.
TEST(Cooling, AfterABurstOfTasks)
{
	// The tasks that wait here must not be trimmed, however slow the machine is.
	test::Environment no_trimming("SENNIT_TRIM_MS", "0");

	test::run({2}, [] {
		constexpr size_t n = 500;
		std::vector<uintptr_t> touched(n);
		std::vector<std::unique_ptr<test::Task>> tasks;
		std::atomic<size_t> ready{0};
		sn_semaphore end = {};
		const auto warm = [&] {
			return size_t(std::count_if(touched.begin(), touched.end(), resident));
		};
		sn_task_attr attr = {};

		attr.stack_size = stack_size;
		for (size_t i = 0; i < n; i++)
			tasks.push_back(std::make_unique<test::Task>(
				[&, i] {
					touched[i] = touch(deep, unsigned(i));
					ready++;
					EXPECT_EQ(0, sn_semaphore_acquire(&end));
				},
				&attr));
		ASSERT_TRUE(test::eventually([&] { return ready == n; }));
		EXPECT_EQ(0, std::count(touched.begin(), touched.end(), 0));
		EXPECT_EQ(n, warm());
		EXPECT_EQ(0, sn_semaphore_release(&end, n));
		for (const auto &task : tasks)
			task->join();
		// All except those that the two processors keep for themselves.
		EXPECT_TRUE(test::eventually([&] { return warm() <= 100; })) << warm();
	});
}

// The monitor sleeps, too, when nothing happens, but only after it has given the stack back.
TEST(Trim, GivesBackInAProcessWithNothingToDo)
{
	test::Environment soon("SENNIT_TRIM_MS", "300");

	test::run({1, 2}, [] {
		Sleeper sleepers[3];
		std::atomic<bool> given_back{false};

		for (unsigned i = 0; i < 3; i++)
			sleepers[i].start(i);
		ASSERT_TRUE(test::eventually([&] {
			return sleepers[0].touched && sleepers[1].touched && sleepers[2].touched;
		}));
		// This is not a task, so nothing runs while it waits.
		sn_semaphore done = {};
		std::thread watcher([&] {
			given_back = test::eventually_in_thread([&] {
				return !resident(sleepers[0].touched) &&
				       !resident(sleepers[1].touched) &&
				       !resident(sleepers[2].touched);
			});
			EXPECT_EQ(0, sn_semaphore_release(&done, 1));
		});
		EXPECT_EQ(0, sn_semaphore_acquire(&done));
		watcher.join();
		EXPECT_TRUE(given_back);
		for (Sleeper &sleeper : sleepers)
			EXPECT_TRUE(sleeper.end());
	});
}

// A stack is trimmed once for each time that its task parks, not once for each pass.
TEST(Trim, LeavesAloneWhatItHasTrimmed)
{
	test::Environment soon("SENNIT_TRIM_MS", "20");

	test::run({2}, [] {
		Sleeper sleeper;

		sleeper.start(1);
		ASSERT_TRUE(test::eventually([&] { return sleeper.touched != 0; }));
		ASSERT_TRUE(test::eventually([&] { return !resident(sleeper.touched); }));
		const uint64_t before = test::stats().stacks_trimmed;

		// This task keeps running, so the monitor makes passes. Only this task could be
		// trimmed: about a dozen times, once for each time that it sleeps long enough.
		for (int i = 0; i < 10; i++)
			sn_sleep(60 * test::ms);
		EXPECT_LE(test::stats().stacks_trimmed, before + 11);
		EXPECT_TRUE(sleeper.end());
	});
}

TEST(Trim, DoesNothingWhenSwitchedOff)
{
	test::Environment never("SENNIT_TRIM_MS", "0");

	test::run({2}, [] {
		Sleeper sleeper;

		sleeper.start(1);
		ASSERT_TRUE(test::eventually([&] { return sleeper.touched != 0; }));
		sn_sleep(500 * test::ms);
		EXPECT_TRUE(resident(sleeper.touched));
		EXPECT_EQ(0u, test::stats().stacks_trimmed);
		EXPECT_TRUE(sleeper.end());
	});
}

TEST(Trim, RejectsAnInvalidTime)
{
	for (const char *wish : {"-1", "soon", "86400001"}) {
		test::Environment bad("SENNIT_TRIM_MS", wish);

		testing::internal::CaptureStderr();
		EXPECT_EQ(-EINVAL, sn_run([](void *) { return 0; }, nullptr)) << wish;
		EXPECT_NE(std::string::npos,
			  testing::internal::GetCapturedStderr().find("SENNIT_TRIM_MS"));
	}
}

// Leaves data above and below the place where it parks. Returns false if it finds other data
// afterwards.
bool live(test::Random &random, size_t most, sn_semaphore &wake)
{
	const auto mark = unsigned(random.next());
	const bool same = keeps(64 + size_t(random.below(most / 2)), mark, [&] {
		touch(most, mark);
		if (random.below(4) == 0)
			sn_sleep(int64_t(random.below(20 * test::ms)));
		else
			(void)!sn_semaphore_acquire_until(&wake, sn_now() + 30 * test::ms);
	});

	// What it writes from now on must stay, too.
	return same && touch(most, mark + 1) != 0;
}

// Tasks park at random depths for random times, and are woken, dumped and scanned while their
// stacks are trimmed as soon as possible. Each task finds the bytes that it left, and no task is
// lost.
TEST(Trim, AtRandomWhileTasksLive)
{
	test::Environment at_once("SENNIT_TRIM_MS", "1"), race("SENNIT_RACE", "1");
	test::Random seeds;
	const int rounds = test::scaled(60);
	uint64_t trimmed = 0;

	test::run({1, 2, 4}, [&] {
		constexpr int count = 64;
		std::vector<test::Task> tasks;
		std::atomic<int> wrong{0};
		std::atomic<bool> stop{false};
		std::vector<sn_semaphore> wake(count);

		// Some tasks have so much to give back that a wake-up can come during the trim.
		for (int t = 0; t < count; t++) {
			const size_t most = t % 4 ? size_t(24) << 10 : size_t(512) << 10;
			sn_task_attr attr = {};

			attr.stack_size = 2 * most + (size_t(64) << 10);
			tasks.emplace_back(
				[&, t, most, seed = seeds.next()] {
					test::Random random(seed);

					for (int i = 0; i < rounds; i++)
						if (!live(random, most, wake[size_t(t)]))
							wrong++;
				},
				&attr);
		}
		test::Task waker([&, seed = seeds.next()] {
			test::Random random(seed);

			while (!stop) {
				sn_semaphore_release(&wake[random.below(count)], 1);
				if (random.below(8) == 0)
					sn_sleep(int64_t(random.below(3 * test::ms)));
				else
					sn_yield();
			}
		});
		std::thread dumper([&] {
			const int null = open("/dev/null", O_WRONLY);

			while (!stop) {
				EXPECT_EQ(0, sn_dump(null));
				usleep(2000);
			}
			close(null);
		});
		test::join_all(tasks);
		stop = true;
		waker.join();
		// The bracket gives the processor away while the task waits for the thread.
		sn_enter_blocking();
		dumper.join();
		sn_exit_blocking();
		EXPECT_EQ(0, wrong);
		trimmed += test::stats().stacks_trimmed;
	});
	printf("%llu stacks trimmed\n", (unsigned long long)trimmed);
	EXPECT_GT(trimmed, 0u);
}

} // namespace
