// SPDX-License-Identifier: MIT
//
// Starting and ending the runtime: repeated runs, the environment, abandoned tasks, statistics, and
// what foreign threads may do.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "support/internals.h"
#include "support/runtime.h"

namespace
{

using test::Environment;
using test::Task;

int return_seven(void *)
{
	return 7;
}

int nothing(void *)
{
	return 0;
}

// What the body writes to stderr.
std::string errors_of(const std::function<void()> &body)
{
	testing::internal::CaptureStderr();
	body();
	return testing::internal::GetCapturedStderr();
}

int lines(const std::string &text)
{
	return int(std::count(text.begin(), text.end(), '\n'));
}

TEST(Run, ReturnsTheValue)
{
	for (const char *procs : {"1", "2", "4", "64"}) {
		Environment environment("SENNIT_PROCS", procs);

		EXPECT_EQ(7, sn_run(return_seven, nullptr));
	}
	for (int value : {0, -5, INT32_MAX, INT32_MIN})
		EXPECT_EQ(value,
			  sn_run([](void *arg) { return *static_cast<int *>(arg); }, &value));
}

TEST(Run, CanBeRepeated)
{
	for (int i = 0; i < 50; i++) {
		const int n = i % 4 * i % 7;

		test::run(1 + i % 4, [n] {
			std::vector<Task> tasks;

			for (int t = 0; t < n; t++)
				tasks.emplace_back([t] {
					sn_sleep(t * 10 * test::us);
					return t;
				});
			for (int t = 0; t < n; t++)
				EXPECT_EQ(t, tasks[size_t(t)].join());
		});
	}
}

int open_descriptors()
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

long mappings()
{
	FILE *file = fopen("/proc/self/maps", "re");
	long n = 0;

	for (int c; (c = fgetc(file)) != EOF;)
		n += c == '\n';
	fclose(file);
	return n;
}

TEST(Run, LeavesNoThreadAndNoDescriptor)
{
	const auto rounds = [](int n) {
		for (int i = 0; i < n; i++)
			test::run(4, [] {
				std::vector<Task> tasks;

				for (int t = 0; t < 50; t++)
					tasks.emplace_back([] { sn_sleep(100 * test::us); });
				test::join_all(tasks);
			});
	};

	rounds(5); // allocators, and ThreadSanitizer, keep from now on what they have taken
	const int descriptors = open_descriptors();
	const long threads = test::process_status("Threads"), maps = mappings();

	rounds(20);
	EXPECT_EQ(descriptors, open_descriptors());
	// A joined thread may still be leaving the kernel for a moment.
	EXPECT_TRUE(test::eventually_in_thread(
		[&] { return test::process_status("Threads") <= threads; }));
	// Heaps of threads may be mapped and unmapped, but stacks must not pile up.
	EXPECT_LT(mappings() - maps, 100);
}

TEST(Run, OnlyOneAtATime)
{
	test::run([] {
		EXPECT_EQ(-EALREADY, sn_run(nothing, nullptr)) << "from a task";
		std::thread([] { EXPECT_EQ(-EALREADY, sn_run(nothing, nullptr)); }).join();
		EXPECT_EQ(0, sn_yield()) << "the first run continues";
	});
	EXPECT_EQ(7, sn_run(return_seven, nullptr));
}

TEST(Run, FromAnyThread)
{
	for (int i = 0; i < 5; i++)
		std::thread([] { test::run(2, [] { EXPECT_EQ(0, sn_sleep(test::us)); }); }).join();
}

// Whatever state tasks are in when the first one returns, the run ends, and the next one works.
TEST(Run, AbandonsTheRemainingTasks)
{
	for (int i = 0; i < 10; i++)
		test::run({1, 2, 4}, [] {
			static std::atomic<int> begun;
			const int kinds = 4;

			begun = 0;
			for (int t = 0; t < kinds * 5; t++) {
				sn_fn *const bodies[kinds] = {
					[](void *) { // parked forever
						begun++;
						return sn_sleep(INT64_MAX);
					},
					[](void *) { // always runnable
						begun++;
						while (sn_yield() == 0)
							continue;
						return 0;
					},
					[](void *) { // waits in a timer
						begun++;
						while (sn_sleep(50 * test::us) == 0)
							continue;
						return 0;
					},
					[](void *) { // spawns
						begun++;
						for (;;) {
							sn_go(nothing, nullptr);
							sn_sleep(20 * test::us);
						}
						return 0;
					},
				};

				ASSERT_EQ(0, sn_go(bodies[t % kinds], nullptr));
			}
			EXPECT_TRUE(test::eventually([] { return begun.load() == kinds * 5; }));
		});
}

// The end of the run waits for a task in user code until its next call, which never returns.
TEST(Run, WaitsForTasksInUserCode)
{
	static std::atomic<bool> begun, out, returned;

	for (int procs : {2, 4}) {
		EXPECT_TRUE(test::end_waits_for(procs, out, [] {
			begun = returned = false;
			ASSERT_EQ(0, sn_go(
					     [](void *) {
						     begun = true;
						     while (!probe_run_is_ending())
							     continue;
						     // If the run did not wait, it would be over
						     // before this ends.
						     const int64_t end = sn_now() + 50 * test::ms;
						     while (sn_now() < end)
							     continue;
						     out = true;
						     sn_yield();
						     returned = true;
						     return 0;
					     },
					     nullptr));
			while (!begun.load())
				sn_yield();
		}));
		EXPECT_FALSE(returned.load());
	}
}

TEST(RunEnvironment, InvalidProcessorsAreReported)
{
	for (const char *bad : {"0", "-1", "1025", "x", "4x", "1.5", "99999999999999999999", " "}) {
		Environment environment("SENNIT_PROCS", bad);
		int result = 0;
		const std::string said = errors_of([&] { result = sn_run(return_seven, nullptr); });

		EXPECT_EQ(-EINVAL, result) << bad;
		EXPECT_EQ(1, lines(said)) << said;
		EXPECT_NE(std::string::npos, said.find(std::string("SENNIT_PROCS=") + bad)) << said;
	}
	Environment empty("SENNIT_PROCS", "");
	EXPECT_EQ(7, sn_run(return_seven, nullptr)) << "empty counts as not set";
}

TEST(RunEnvironment, InvalidMaxThreadsAreReported)
{
	for (const char *bad : {"0", "1", "-2", "many"}) {
		Environment environment("SENNIT_MAX_THREADS", bad);
		int result = 0;
		const std::string said = errors_of([&] { result = sn_run(return_seven, nullptr); });

		EXPECT_EQ(-EINVAL, result) << bad;
		EXPECT_EQ(1, lines(said)) << said;
		EXPECT_NE(std::string::npos, said.find("SENNIT_MAX_THREADS")) << said;
	}
}

/* ---- sizes of stacks ---- */

void expect_begins(const std::string &text, const std::string &with)
{
	EXPECT_EQ(with, text.substr(0, with.size())) << text;
}

// The size of the calling task's stack, in KiB.
size_t own_stack()
{
	probe_stack stack = {};
	bool in_guard;

	EXPECT_TRUE(probe_stack_find(__builtin_frame_address(0), &stack, &in_guard));
	return size_t(stack.high - stack.low) >> 10;
}

// The stack sizes of the first task and of tasks started in every possible way.
std::vector<size_t> stacks_with(const sn_run_attr *attr)
{
	static std::atomic<size_t> seen;
	static std::vector<size_t> sizes;

	sizes.clear();
	EXPECT_EQ(
		0,
		sn_run_with_attr(
			[](void *) {
				sn_fn *look = [](void *) {
					seen = own_stack();
					return 0;
				};
				auto next = [&](auto start) {
					seen = 0;
					start();
					EXPECT_TRUE(test::eventually([] { return seen != 0; }));
					sizes.push_back(seen);
				};
				sn_task_attr own = {};
				sn_scope *scope;

				own.stack_size = 32 << 10;
				sizes.push_back(own_stack());
				next([&] { EXPECT_EQ(0, sn_go(look, nullptr)); });
				next([&] {
					EXPECT_EQ(0, sn_spawn(nullptr, look, nullptr, nullptr));
				});
				EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
				next([&] { EXPECT_EQ(0, sn_scope_go(scope, look, nullptr)); });
				EXPECT_EQ(0, sn_scope_close(scope));
				next([&] {
					std::thread([&] {
						EXPECT_EQ(0, sn_go(look, nullptr));
					}).join();
				});
				next([&] { EXPECT_EQ(0, sn_spawn(nullptr, look, nullptr, &own)); });
				return 0;
			},
			nullptr, attr));
	return sizes;
}

const size_t usual = probe_stack_default_size() >> 10, first = sizeof(void *) == 8 ? 8192 : 1024;

TEST(RunStacks, HaveTheSizeThatTheRunIsGiven)
{
	using Sizes = std::vector<size_t>;
	sn_run_attr attr = {};

	EXPECT_EQ((Sizes{first, usual, usual, usual, usual, 32}), stacks_with(nullptr));
	EXPECT_EQ((Sizes{first, usual, usual, usual, usual, 32}), stacks_with(&attr));
	attr.stack_size = 200 << 10;
	EXPECT_EQ((Sizes{first, 256, 256, 256, 256, 32}), stacks_with(&attr));
	attr.first_stack_size = 64 << 10;
	EXPECT_EQ((Sizes{64, 256, 256, 256, 256, 32}), stacks_with(&attr));
	attr = {};
	attr.stack_size = 16 << 20;
	EXPECT_EQ(16384u, stacks_with(&attr)[0]) << "no smaller than the others";
}

TEST(RunStacks, HaveTheSizeThatTheEnvironmentGives)
{
	using Sizes = std::vector<size_t>;
	sn_run_attr attr = {};

	attr.stack_size = 64 << 10;
	attr.first_stack_size = 64 << 10;
	for (const char *text : {"512k", "512K", "524288", "400000"}) {
		Environment size("SENNIT_STACK_SIZE", text);

		EXPECT_EQ((Sizes{first, 512, 512, 512, 512, 32}), stacks_with(nullptr)) << text;
		EXPECT_EQ((Sizes{512, 512, 512, 512, 512, 32}), stacks_with(&attr)) << text;
	}
	Environment size("SENNIT_STACK_SIZE", "1M");
	EXPECT_EQ(1024u, stacks_with(nullptr)[1]);
}

TEST(RunStacks, BadSizesAreReported)
{
	for (const char *text : {"0", "128", "1K", "-1", " 64K", "K", "64KB", "64 K", "0x10000",
				 "2G", "99999999999999999999", "17179869184G", "1e6"}) {
		Environment size("SENNIT_STACK_SIZE", text);

		expect_begins(errors_of([] { EXPECT_EQ(-EINVAL, sn_run(nothing, nullptr)); }),
			      std::string("sennit: SENNIT_STACK_SIZE=") + text +
				      ": expected a size from 16K to ");
	}
	sn_run_attr attr = {};
	attr.stack_size = SIZE_MAX;
	expect_begins(
		errors_of([&] { EXPECT_EQ(-EINVAL, sn_run_with_attr(nothing, nullptr, &attr)); }),
		"sennit: sn_run_with_attr(): a stack can have ");
	attr = {};
	attr.first_stack_size = (size_t(1) << 30) + 1;
	EXPECT_EQ(-EINVAL, sn_run_with_attr(nothing, nullptr, &attr));
}

TEST(RunEnvironment, SetsTheNumberOfProcessors)
{
	for (int n : {1, 3, 1024})
		test::run(n, [n] { EXPECT_EQ(uint64_t(n), test::stats().processors); });
	Environment environment("SENNIT_PROCS", "");
	EXPECT_EQ(0, sn_run(
			     [](void *) {
				     const uint64_t n = test::stats().processors;

				     EXPECT_GE(n, 1u);
				     EXPECT_LE(n, std::thread::hardware_concurrency());
				     return 0;
			     },
			     nullptr));
}

// With a limit of two threads, work continues on two threads, and the shortage is reported once.
TEST(RunEnvironment, MaxThreadsIsRespected)
{
	Environment environment("SENNIT_MAX_THREADS", "2");
	std::atomic<uint64_t> most{0};
	const std::string said = errors_of([&] {
		test::run(8, [&] {
			std::vector<Task> tasks;

			for (int t = 0; t < 100; t++)
				tasks.emplace_back([&, t] {
					if (t % 4 == 0)
						sn_blocking(
							[](void *) {
								usleep(1000);
								return 0;
							},
							nullptr);
					else
						sn_sleep(t * 10 * test::us);
					uint64_t now = test::stats().threads;
					uint64_t seen = most.load();
					while (now > seen && !most.compare_exchange_weak(seen, now))
						continue;
				});
			test::join_all(tasks);
		});
	});

	EXPECT_LE(most.load(), 2u);
	EXPECT_EQ(1, lines(said)) << said;
	EXPECT_NE(std::string::npos, said.find("SENNIT_MAX_THREADS")) << said;
}

TEST(RunResources, WithoutDescriptorsItFailsAndCanBeRepeated)
{
	struct rlimit former, none;
	struct sigaction before, after;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &former));
	ASSERT_EQ(0, sigaction(SIGQUIT, nullptr, &before));
	none = former;
	none.rlim_cur = 3;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
	const int result = sn_run(return_seven, nullptr);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &former));
	EXPECT_EQ(-EMFILE, result);
	ASSERT_EQ(0, sigaction(SIGQUIT, nullptr, &after));
	EXPECT_EQ(before.sa_handler, after.sa_handler)
		<< "a run that did not start leaves no handler";
	EXPECT_EQ(7, sn_run(return_seven, nullptr));
}

TEST(Stats, NoneBeforeAnyRun)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "the child would be executed without the emulator";
	// In another process, because in this one an earlier test may have had a run.
	testing::FLAGS_gtest_death_test_style = "threadsafe";
	EXPECT_EXIT(
		{
			struct sn_run_stats s;
			CHILD_CHECK(sn_run_stats(&s) == -ENODEV);
			CHILD_CHECK(sn_run(nothing, nullptr) == 0);
			CHILD_CHECK(sn_run_stats(&s) == 0);
			_exit(0);
		},
		testing::ExitedWithCode(0), "");
}

TEST(Stats, AddUp)
{
	test::run([] {
		struct sn_run_stats before = test::stats();

		EXPECT_EQ(1u, before.tasks_alive);
		EXPECT_EQ(1u, before.tasks_spawned);
		std::atomic<bool> end{false};
		std::vector<Task> tasks;
		for (int i = 0; i < 100; i++)
			tasks.emplace_back([&] {
				while (!end.load())
					sn_sleep(100 * test::us);
			});
		EXPECT_EQ(101u, test::stats().tasks_alive);
		EXPECT_EQ(101u, test::stats().tasks_spawned);
		// Each task gets a stack when it first runs.
		EXPECT_TRUE(test::eventually([] { return test::stats().stacks_mapped >= 101u; }));
		end = true;
		test::join_all(tasks);
		struct sn_run_stats after = test::stats();
		EXPECT_EQ(1u, after.tasks_alive);
		EXPECT_EQ(101u, after.tasks_spawned);
		EXPECT_GE(after.switches, before.switches + 100);
		EXPECT_GE(after.threads, 1u);
		EXPECT_EQ(0u, after.threads_blocking);
		EXPECT_EQ(0u, after.accept_pauses);
	});
	// After a run the statistics are still those of this run.
	EXPECT_EQ(101u, test::stats().tasks_spawned);
	EXPECT_EQ(4u, test::stats().processors);
	EXPECT_EQ(0u, test::stats().threads);
}

// Foreign threads spawn, detach and read the statistics during the run.
TASK_TEST(ForeignThreads, SpawnDetachAndReadStatistics)
{
	const int each = test::scaled(2000);
	static std::atomic<int> ran;
	std::atomic<int> ready{0};
	std::vector<std::thread> threads;

	ran = 0;
	for (int t = 0; t < 3; t++)
		threads.emplace_back([&] {
			ready++;
			for (int i = 0; i < each; i++) {
				sn_fn *body = [](void *) {
					ran++;
					return sn_yield();
				};

				if (i % 2) {
					ASSERT_EQ(0, sn_go(body, nullptr));
				} else {
					sn_task *task;

					ASSERT_EQ(0, sn_spawn(&task, body, nullptr, nullptr));
					ASSERT_EQ(0, sn_detach(task));
				}
				struct sn_run_stats s;
				ASSERT_EQ(0, sn_run_stats(&s));
				ASSERT_LE(s.tasks_alive, s.tasks_spawned);
			}
		});
	EXPECT_TRUE(test::eventually([&] { return ran.load() == 3 * each; }));
	test::join_all(threads);
	EXPECT_TRUE(test::all_ended());
	EXPECT_EQ(uint64_t(3 * each + 1), test::stats().tasks_spawned);
}

// A spawn from a foreign thread wakes a sleeping runtime, whatever its threads sleep in.
TASK_TEST(ForeignThreads, WakeASleepingRuntime)
{
	static std::atomic<int> ran;
	std::atomic<bool> done{false};
	const int n = test::scaled(500);

	ran = 0;
	std::thread outside([&] {
		test::Random random;

		for (int i = 0; i < n; i++) {
			usleep(useconds_t(random.below(300)));
			ASSERT_EQ(0, sn_go(
					     [](void *) {
						     ran++;
						     return 0;
					     },
					     nullptr));
			ASSERT_TRUE(
				test::eventually_in_thread([&] { return ran.load() == i + 1; }));
		}
		done = true;
	});
	// The sleeps are long, so that for most of the time nothing but the spawns wakes a
	// thread.
	EXPECT_TRUE(test::eventually([&] {
		if (!done.load())
			sn_sleep(20 * test::ms);
		return done.load();
	}));
	outside.join();
}

TEST(Version, MatchesTheHeader)
{
	char expected[64];

	snprintf(expected, sizeof expected, "%d.%d.%d", SN_VERSION_MAJOR, SN_VERSION_MINOR,
		 SN_VERSION_PATCH);
	EXPECT_STREQ(expected, sn_version());
}

// New threads inherit from the caller of sn_run(), whichever thread starts them. The monitor has
// another mask, name and timer slack, and so may a task.
TEST(Threads, InheritFromTheCallerOfRun)
{
	sigset_t mask, former;
	char name[16] = "", now[16] = "";

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	ASSERT_EQ(0, pthread_sigmask(SIG_BLOCK, &mask, &former));
	ASSERT_EQ(0, prctl(PR_GET_NAME, name));
	ASSERT_EQ(0, prctl(PR_SET_NAME, "of-the-caller"));
	const int slack = prctl(PR_GET_TIMERSLACK);

	test::run({1, 2}, [slack] {
		std::vector<Task> tasks;

		// The tasks block without a bracket, so that the monitor starts threads for the
		// next ones.
		for (int i = 0; i < 20; i++)
			tasks.emplace_back([slack] {
				sigset_t blocked;
				char own[16] = "";

				EXPECT_EQ(0, pthread_sigmask(SIG_SETMASK, nullptr, &blocked));
				for (int signum : {SIGURG, SIGTERM, SIGUSR1})
					EXPECT_EQ(0, sigismember(&blocked, signum)) << signum;
				EXPECT_EQ(1, sigismember(&blocked, SIGUSR2));
				EXPECT_EQ(0, prctl(PR_GET_NAME, own));
				EXPECT_STREQ("of-the-caller", own);
				EXPECT_EQ(slack, prctl(PR_GET_TIMERSLACK));
				usleep(20000);
			});
		test::join_all(tasks);
	});
	ASSERT_EQ(0, prctl(PR_GET_NAME, now));
	EXPECT_STREQ("of-the-caller", now);
	ASSERT_EQ(0, prctl(PR_SET_NAME, name));
	ASSERT_EQ(0, pthread_sigmask(SIG_SETMASK, &former, nullptr));
}

} // namespace
