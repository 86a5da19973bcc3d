// SPDX-License-Identifier: MIT
//
// The statistics of waits. Every real wait is counted, in its site and its bucket, no matter which
// thread waited or whether it has ended. If no thread had to wait, nothing is counted.
#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/wait_stats.h>

#include "support/child.h"
#include "support/files.h"
#include "support/full_stderr.h"
#include "support/locks.h"

namespace
{

struct sn_wait_stats site(const char *name)
{
	std::vector<struct sn_wait_stats> all(static_cast<size_t>(sn_wait_stats(nullptr, 0)));

	EXPECT_EQ(int(all.size()), sn_wait_stats(all.data(), int(all.size())));
	for (const auto &each : all)
		if (strcmp(each.name, name) == 0)
			return each;
	ADD_FAILURE() << "no site " << name;
	return {};
}

TEST(Sites, HaveUniqueNames)
{
	std::map<std::string, int> seen;
	std::vector<struct sn_wait_stats> all(100);
	const int n = sn_wait_stats(all.data(), 100);

	ASSERT_GT(n, 5);
	ASSERT_LT(n, 100);
	for (int i = 0; i < n; i++) {
		ASSERT_NE(nullptr, all[size_t(i)].name) << i;
		EXPECT_NE(nullptr, all[size_t(i)].what);
		EXPECT_EQ(1, ++seen[all[size_t(i)].name]) << all[size_t(i)].name;
	}
}

TEST(Sites, AreReadUpToTheSizeOfTheArray)
{
	struct sn_wait_stats two[2];

	two[1].waits = 0xeeeeeeeeeeeeeeee;
	EXPECT_EQ(sn_wait_stats(nullptr, 0), sn_wait_stats(two, 1));
	EXPECT_STREQ(site(two[0].name).name, two[0].name);
	EXPECT_EQ(0xeeeeeeeeeeeeeeeeu, two[1].waits) << "past the end of the array";
	EXPECT_EQ(-EINVAL, sn_wait_stats(two, -1));
	EXPECT_EQ(-EINVAL, sn_wait_stats(nullptr, 1));
}

// Taking a free lock counts no wait. Taking one that another thread holds for a while counts one
// wait of that length.
TEST(Sites, CountAContendedLock)
{
	probe_lock *lock = probe_lock_new();
	const auto first = site("lock");

	for (int i = 0; i < 1000; i++) {
		probe_lock_take(lock);
		probe_lock_release(lock);
	}
	EXPECT_EQ(first.waits, site("lock").waits) << "the lock was free";

	// No thread spins for 50 ms. The time doubles if the other thread arrives too late.
	auto before = first, after = first;
	for (useconds_t us = 50000; us < 10000000 && after.longest_ns < 20 * uint64_t(test::ms);
	     us *= 2) {
		std::atomic<bool> begun{false};

		before = after;
		probe_lock_take(lock);
		std::thread other([&] {
			begun = true;
			probe_lock_take(lock);
			probe_lock_release(lock);
		});
		while (!begun)
			std::this_thread::yield();
		usleep(us);
		probe_lock_release(lock);
		other.join();
		after = site("lock");
		EXPECT_LE(after.waits, before.waits + 1);
	}
	probe_lock_free(lock);

	EXPECT_EQ(before.waits + 1, after.waits);
	EXPECT_EQ(before.slept + 1, after.slept);
	EXPECT_GE(after.longest_ns, 20 * uint64_t(test::ms));
	EXPECT_GE(after.total_ns, before.total_ns + 20 * uint64_t(test::ms));
}

TEST(Sites, CountAContendedMutexOnce)
{
	const auto before = site("mutex");

	test::run(2, [] {
		sn_mutex mutex = {};

		EXPECT_EQ(0, sn_mutex_lock(&mutex));
		test::Task waiter([&] {
			EXPECT_EQ(0, sn_mutex_lock(&mutex));
			EXPECT_EQ(0, sn_mutex_unlock(&mutex));
		});
		// A waiter that is in the list has already reported that it sleeps.
		EXPECT_TRUE(test::waiting(mutex, 1));
		EXPECT_EQ(0, sn_mutex_unlock(&mutex));
		waiter.join();
	});
	EXPECT_EQ(before.waits + 1, site("mutex").waits);
	EXPECT_EQ(before.slept + 1, site("mutex").slept);
}

// There is one processor. One task computes on it while another returns from the kernel and waits
// for it.
TEST(Sites, CountThreadsThatWaitForAProcessor)
{
	const auto before = site("processor");

	test::run(1, [&] {
		const auto waited = [&] { return site("processor").waits > before.waits; };
		const int64_t end = sn_now() + test::patience;

		// Sleeps longer each time, until the monitor takes the processor away before the
		// sleep ends.
		for (useconds_t us = 3000; !waited() && sn_now() < end; us *= 2) {
			std::atomic<bool> back{false};
			test::Task sleeper([&] {
				usleep(us);
				sn_yield();
				back = true;
			});

			sn_yield();
			while (!back && !waited())
				for (const int64_t busy = sn_now() + 5 * test::ms;
				     sn_now() < busy && !back;)
					;
			sleeper.join();
		}
	});
	EXPECT_GT(site("processor").waits, before.waits);
	EXPECT_EQ(site("processor").waits, site("processor").slept);
}

TEST(Sites, HaveABucketForEachPowerOfTwo)
{
	const auto before = site("steal");
	const std::vector<std::pair<int64_t, int>> cases = {{-5, 0},
							    {0, 0},
							    {1, 0},
							    {2, 1},
							    {3, 1},
							    {4, 2},
							    {1023, 9},
							    {1024, 10},
							    {(int64_t(1) << 39) - 1, 38},
							    {int64_t(1) << 39, 39},
							    {INT64_MAX, 39}};
	std::vector<uint64_t> wanted(before.buckets, before.buckets + SN_WAIT_BUCKETS);

	for (const auto &[ns, bucket] : cases) {
		probe_wait_record("steal", ns, false);
		wanted[size_t(bucket)]++;
	}
	const auto after = site("steal");
	for (int i = 0; i < SN_WAIT_BUCKETS; i++)
		EXPECT_EQ(wanted[size_t(i)], after.buckets[i]) << i;
	EXPECT_EQ(before.waits + cases.size(), after.waits);
	EXPECT_EQ(before.slept, after.slept);
	EXPECT_EQ(uint64_t(INT64_MAX), after.longest_ns);
}

// Threads start, wait and end while another reads. At the end every wait is counted, in its bucket.
TEST(Sites, KeepTheCountsOfEndedThreads)
{
	const int rounds = test::scaled(8), threads = 16, waits = 500;
	const auto before = site("reset");
	std::atomic<bool> done{false};
	std::thread reader([&] {
		uint64_t last = 0;

		while (!done) {
			const uint64_t now = site("reset").waits;

			EXPECT_GE(now, last) << "counts never decrease";
			last = now;
			usleep(1000);
		}
	});

	for (int round = 0; round < rounds; round++) {
		std::vector<std::thread> all;

		for (int t = 0; t < threads; t++)
			all.emplace_back([=] {
				for (int i = 0; i < waits; i++)
					probe_wait_record("reset", int64_t(1) << t, i % 2);
			});
		test::join_all(all);
	}
	done = true;
	reader.join();

	const auto after = site("reset");
	const uint64_t each = uint64_t(rounds) * uint64_t(waits);

	EXPECT_EQ(each * threads, after.waits - before.waits);
	EXPECT_EQ(each * threads / 2, after.slept - before.slept);
	for (int t = 0; t < threads; t++)
		EXPECT_EQ(each, after.buckets[t] - before.buckets[t]) << t;
}

TEST(Sites, ReuseTheBlocksOfEndedThreads)
{
	const unsigned before = probe_wait_blocks();

	for (int i = 0; i < 100; i++) {
		pid_t thread = 0;

		std::thread([&] {
			thread = gettid();
			probe_wait_record("reset", 1, false);
		}).join();
		// join() returns a moment before the kernel has forgotten the thread's id.
		ASSERT_TRUE(test::eventually_in_thread(
			[&] { return tgkill(getpid(), thread, 0) < 0 && errno == ESRCH; }));
	}
	// A sanitizer's own threads may have blocks, too.
	EXPECT_LE(probe_wait_blocks(), before + 2);
}

TEST(Sites, CountInAChildOfFork)
{
	const auto before = site("reset");
	int status = 0;

	probe_wait_record("reset", 100, false);
	const pid_t child = fork();
	if (child == 0) {
		const unsigned blocks = probe_wait_blocks();

		uint64_t waits = before.waits + 2;

		probe_wait_record("reset", 100, false);
		// TSan does not let a child start threads.
		for (; !TEST_TSAN && waits < before.waits + 4; waits++)
			std::thread([] { probe_wait_record("reset", 100, false); }).join();
		CHILD_CHECK(waits == site("reset").waits);
		CHILD_CHECK(probe_wait_blocks() <= blocks + 2);
		_exit(0);
	}
	ASSERT_GT(child, 0);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(before.waits + 1, site("reset").waits) << "the child's are its own";
}

TEST(Sites, KeepErrno)
{
	std::thread([] {
		errno = 4242;
		probe_wait_record("reset", 1, false); // makes, or takes over, a block
		EXPECT_EQ(4242, errno);
	}).join();
}

std::string printed()
{
	return test::written_by(sn_wait_print);
}

std::string row(const char *range, uint64_t count, int stars)
{
	char text[128];

	snprintf(text, sizeof text, "%s [%10llu]%s%s\n", range, (unsigned long long)count,
		 stars ? " " : "", std::string(size_t(stars), '*').c_str());
	return text;
}

// Uses a site where nothing else in this program waits. The same process may have run this test
// before.
TEST(Sites, ArePrintedAsHistograms)
{
	const auto before = site("scan owner");
	const uint64_t times = before.buckets[14] + 1;

	for (int i = 0; i < 100; i++)
		probe_wait_record("scan owner", 1500, false);
	probe_wait_record("scan owner", 20000, true);
	const std::string text = printed();
	std::vector<std::string> wanted = {
		"scan owner: " + std::to_string(101 * times) + " waits for ",
		"\n# " + std::to_string(times) + " slept, longest 20.0 us, together ",
		"each * stands for " + std::to_string(2 * times) + "\n",
		row("  1.02 us -   2.04 us", 100 * times, 50),
		row("  2.04 us -   4.09 us", 0, 0),
		row("  16.3 us -   32.7 us", times, 1),
	};

	for (const std::string &part : wanted)
		EXPECT_NE(std::string::npos, text.find(part)) << part << "is not in\n" << text;
	EXPECT_TRUE(times > 1 || text.find("together 170 us;") != std::string::npos) << text;
	ASSERT_EQ(0u, site("alarm").waits) << "for the next line";
	EXPECT_EQ(std::string::npos, text.find("alarm:")) << "no thread waited there";
}

// In a child, because the longest time of a site is kept, and nothing else in this program waits at
// this one.
TEST(Sites, HaveTimesOfThreeDigits)
{
	const std::pair<int64_t, const char *> times[] = {
		{999, "999 ns"},
		{1000, "1.00 us"},
		{9999, "9.99 us"},
		{10000, "10.0 us"},
		{99999, "99.9 us"},
		{100000, "100 us"},
		{999999, "999 us"},
		{1000000, "1.00 ms"},
		{100 * test::second, "100 s"},
		{1000 * test::second, "1000 s"},
	};

	EXPECT_EQ(0, test::in_child([&] {
			  for (const auto &[ns, text] : times) {
				  probe_wait_record("scan", ns, false);
				  const std::string all = printed();
				  const std::string mine = all.substr(all.find("\nscan: ") + 1);
				  const std::string wanted = std::string(", longest ") + text + ",";
				  if (mine.find(wanted) == std::string::npos) {
					  fprintf(stderr, "%s is not in\n%s", wanted.c_str(),
						  mine.c_str());
					  _exit(1);
				  }
			  }
		  }));
}

TEST(Sites, ArePrintedAtTheEndOfARunOnRequest)
{
	const auto run = [](const char *wish) {
		test::Environment asked("SENNIT_WAIT_STATS", wish);

		testing::internal::CaptureStderr();
		const int result = sn_run([](void *) { return 5; }, nullptr);
		const std::string text = testing::internal::GetCapturedStderr();

		return std::to_string(result) + " " + text;
	};

	probe_wait_record("reset", 1, false);
	EXPECT_EQ("5 ", run("0"));
	EXPECT_NE(std::string::npos, run("1").find("reset: ")) << run("1");
	EXPECT_EQ("-22 sennit: SENNIT_WAIT_STATS", run("2").substr(0, 29)) << run("2");
}

TEST(Sites, OnlySpinOnRequest)
{
	const auto run = [](const char *wish) {
		test::Environment asked("SENNIT_WAIT_SPIN", wish);

		testing::internal::CaptureStderr();
		const int result = sn_run(
			[](void *) {
				const auto thread = probe_backoff_at(false, 0, 0, 1000);
				const auto task = probe_backoff_at(true, 0, 0, 1000);

				return static_cast<int>(thread + task);
			},
			nullptr);
		const std::string text = testing::internal::GetCapturedStderr();

		return std::to_string(result) + " " + text;
	};

	EXPECT_EQ("1000 ", run("1")) << "not for tasks, which may need this thread";
	EXPECT_EQ("0 ", run("0")) << "a run without the request, after one with it";
	EXPECT_EQ("-22 sennit: SENNIT_WAIT_SPIN", run("2").substr(0, 28)) << run("2");
}

TEST(SitesAtTheEndOfARun, DoNotKeepItFromReturningIfNobodyReads)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "what TSan says of threads in a child of fork() waits for room";
	const int status = test::in_child([] {
		test::Environment print("SENNIT_WAIT_STATS", "1");

		probe_wait_record("reset", 1, false);
		test::full_pipe();
		test::run(1, [] {});
		_exit(42);
	});

	EXPECT_EQ(42, status);
}

TEST(Sites, ReportADescriptorThatCannotBeWritten)
{
	probe_wait_record("reset", 1, false);
	EXPECT_EQ(-EBADF, sn_wait_print(-1));

	const int full = open("/dev/full", O_WRONLY);
	ASSERT_GE(full, 0);
	EXPECT_EQ(-ENOSPC, sn_wait_print(full));
	close(full);
}

} // namespace
