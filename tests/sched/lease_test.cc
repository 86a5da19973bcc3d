// SPDX-License-Identifier: MIT
// Labels: machine
//
// Leases: what user code may rely on when it blocks or hogs a thread without a bracket, and what
// happens to code that uses brackets wrongly. No test fails because something took long on a loaded
// machine. Where time matters, a test only checks that one task makes progress *while* another one
// blocks.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/full_stderr.h"
#include "support/internals.h"
#include "support/runtime.h"

using test::Environment;
using test::Task;

namespace
{

pid_t thread_id()
{
	return static_cast<pid_t>(syscall(SYS_gettid));
}

// Accessed only in functions that are not inlined, because a compiler may keep the address of a
// thread-local across a call in which the task changes threads.
thread_local long thread_local_mark;
[[gnu::noinline]] void set_mark(long value)
{
	thread_local_mark = value;
	asm volatile("" ::: "memory");
}
[[gnu::noinline]] long mark()
{
	asm volatile("" ::: "memory");
	return thread_local_mark;
}
[[gnu::noinline]] void set_errno(int value)
{
	errno = value;
	asm volatile("" ::: "memory");
}
[[gnu::noinline]] int get_errno()
{
	asm volatile("" ::: "memory");
	return errno;
}

void block(int64_t ns)
{
	struct timespec ts = {static_cast<time_t>(ns / test::second),
			      static_cast<long>(ns % test::second)};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

[[gnu::noinline]] void compute(int64_t ns)
{
	const int64_t end = sn_now() + ns;

	while (sn_now() < end)
		asm volatile("");
}

// Joins all tasks.
void join(std::vector<Task> &tasks)
{
	test::join_all(tasks);
}

// Repeats the round until the monitor has revoked a processor. On a busy machine it may be too late
// for a whole round.
template <class F>
bool until_revoked(F round)
{
	return test::eventually([&] {
		round();
		return test::stats().revocations > 0;
	});
}

// Whether the text contains all of the strings.
bool has_all(const std::string &text, std::initializer_list<const char *> parts)
{
	for (const char *part : parts)
		if (text.find(part) == std::string::npos)
			return false;
	return true;
}

// Returns what a run prints. The run is repeated until the output is as expected: on a busy machine
// the monitor may look for stalls too late, or the stalled thread may answer too late.
template <class F, class G>
std::string said_until(F expected, G round)
{
	const int64_t end = sn_now() + test::patience;
	std::string said;

	do {
		testing::internal::CaptureStderr();
		round();
		said = testing::internal::GetCapturedStderr();
	} while (!expected(said) && sn_now() < end);
	return said;
}

long number_from_environment(const char *name, long otherwise)
{
	const char *text = getenv(name);

	return text ? strtol(text, nullptr, 10) : otherwise;
}

} // namespace

// ---- a task stays on its thread ----

// Tasks that block again and again are on the same thread each time.
template <class F>
void expect_none_is_moved_by(F blocks)
{
	test::run({1, 2}, [blocks] {
		EXPECT_TRUE(until_revoked([blocks] {
			std::vector<Task> tasks;

			for (int i = 0; i < 20; i++)
				tasks.emplace_back([blocks] {
					for (int round = 0; round < 10; round++) {
						const pid_t before = thread_id();

						blocks();
						EXPECT_EQ(before, thread_id());
						sn_yield();
					}
				});
			join(tasks);
		}));
	});
}

TEST(Lease, BracketNeverMovesATask)
{
	expect_none_is_moved_by([] {
		sn_enter_blocking();
		block(2 * test::ms);
		sn_exit_blocking();
	});
}

TEST(Lease, BlockingWithoutABracketNeverMovesATask)
{
	expect_none_is_moved_by([] { block(2 * test::ms); });
}

// SENNIT_TEST_REVOCATIONS in the environment sets the number; make test-revocations runs a million.
// Each bracket lasts long enough to be revoked when others wait for a processor.
TEST(Lease, ErrnoAndThreadLocalsSurviveRevokedBrackets)
{
	const auto wanted = static_cast<uint64_t>(
		number_from_environment("SENNIT_TEST_REVOCATIONS", test::scaled(5000)));
	uint64_t revocations = 0, brackets_all = 0;

	for (int processors : {1, 2}) {
		test::run(processors, [&] {
			std::vector<Task> tasks;
			std::atomic<uint64_t> brackets = 0, wrong = 0;
			const int64_t end =
				sn_now() +
				number_from_environment("SENNIT_TEST_SECONDS", 30) * test::second;

			for (int i = 0; i < 64; i++)
				tasks.emplace_back([&, i] {
					uint32_t random = i + 1;

					while (test::stats().revocations < wanted / 2 &&
					       sn_now() < end) {
						const pid_t thread = thread_id();
						const auto n = static_cast<int>(brackets++);
						const int error = 1 + (n ^ i) % 100;

						random = random * 1664525 + 1013904223;
						set_mark(n);
						set_errno(error);
						if (random >> 31)
							sn_enter_blocking();
						else
							sn_enter_blocking_as("a sleep");
						struct timespec ts = {
							0, 50000 + static_cast<long>(random >> 16)};
						syscall(SYS_nanosleep, &ts, nullptr);
						sn_exit_blocking();
						wrong += get_errno() != error;
						wrong += mark() != n;
						wrong += thread_id() != thread;
						if (n % 7 == 0)
							sn_yield();
					}
				});
			join(tasks);
			EXPECT_EQ(0u, wrong.load());
			EXPECT_GT(test::stats().revocations, 0u);
			revocations += test::stats().revocations;
			brackets_all += brackets;
		});
	}
	printf("%llu brackets, %llu revocations\n", static_cast<unsigned long long>(brackets_all),
	       static_cast<unsigned long long>(revocations));
	RecordProperty("revocations", std::to_string(revocations));
}

// ---- pinning ----

TASK_TEST(Pin, KeepsTheThreadAcrossParks)
{
	std::vector<Task> tasks;

	for (int i = 0; i < 8; i++)
		tasks.emplace_back([i] {
			ASSERT_EQ(0, sn_pin());
			const pid_t thread = thread_id();

			for (int round = 0; round < 20; round++) {
				sn_yield();
				EXPECT_EQ(thread, thread_id());
				sn_sleep((i + 1) * 100 * test::us);
				EXPECT_EQ(thread, thread_id());
				block(100 * test::us);
				EXPECT_EQ(thread, thread_id());
				Task other([] { sn_yield(); });
				other.join();
				EXPECT_EQ(thread, thread_id());
			}
			EXPECT_EQ(0, sn_unpin());
			sn_yield();
		});
	for (int i = 0; i < 8; i++)
		tasks.emplace_back([] {
			for (int round = 0; round < 200; round++)
				sn_yield();
		});
	join(tasks);
}

TEST(Pin, CountsItsCalls)
{
	EXPECT_EQ(-ENOTSUP, sn_pin());
	EXPECT_EQ(-ENOTSUP, sn_unpin());
	test::run([] {
		EXPECT_EQ(-EINVAL, sn_unpin());
		EXPECT_EQ(0, sn_pin());
		EXPECT_EQ(0, sn_pin());
		EXPECT_EQ(0, sn_unpin());

		const pid_t thread = thread_id();

		for (int i = 0; i < 10; i++) {
			Task other([] { sn_yield(); });

			sn_sleep(test::ms);
			EXPECT_EQ(thread, thread_id());
			other.join();
		}
		EXPECT_EQ(0, sn_unpin());
		EXPECT_EQ(-EINVAL, sn_unpin());
	});
}

TASK_TEST(Pin, EndsWithTheTask)
{
	for (int round = 0; round < 20; round++) {
		std::vector<Task> tasks;

		for (int i = 0; i < 10; i++)
			tasks.emplace_back([i] {
				sn_pin();
				sn_pin();
				if (i % 2)
					sn_yield();
				return i;
			});
		for (int i = 0; i < 10; i++)
			EXPECT_EQ(i, tasks[i].join());
	}
	// The threads are as before the pins: the next tasks on them are not pinned.
	Task task([] { EXPECT_EQ(-EINVAL, sn_unpin()); });
	task.join();
}

TASK_TEST(Pin, PinnedTasksJoinEachOther)
{
	sn_pin();
	for (int round = 0; round < 20; round++) {
		const pid_t thread = thread_id();
		Task outer([] {
			sn_pin();
			Task inner([] {
				sn_pin();
				sn_sleep(200 * test::us);
				return 1;
			});
			return inner.join() + 1;
		});

		EXPECT_EQ(2, outer.join());
		EXPECT_EQ(thread, thread_id());
	}
	sn_unpin();
}

// If all threads were pinned, none would be left to serve the timers that the pinned tasks wait
// for.
TEST(Pin, LeavesAThreadForTheOthers)
{
	Environment most("SENNIT_MAX_THREADS", "4");

	testing::internal::CaptureStderr();
	test::run({1, 2}, [] {
		std::vector<Task> tasks;
		std::atomic<int> pinned = 0, refused = 0, over = 0;

		for (int i = 0; i < 30; i++)
			tasks.emplace_back([&] {
				const int err = sn_pin();

				(err == 0 ? pinned : refused)++;
				EXPECT_TRUE(err == 0 || err == -EAGAIN) << err;
				EXPECT_EQ(err, sn_pin());
				sn_sleep(20 * test::ms);
				if (err == 0) {
					EXPECT_EQ(0, sn_unpin());
					EXPECT_EQ(0, sn_unpin());
				}
				over++;
			});
		join(tasks);
		EXPECT_GE(pinned, 3);
		EXPECT_EQ(30, over);
		EXPECT_EQ(0, sn_pin());
	});
	testing::internal::GetCapturedStderr();
}

// ---- everything else continues ----

TASK_TEST(Lease, OthersRunWhileATaskBlocks, 1, 2)
{
	std::atomic<bool> stop = false;
	std::atomic<uint64_t> beats = 0;
	std::vector<Task> blockers;
	Task heart([&] {
		while (!stop) {
			sn_sleep(10 * test::ms);
			beats++;
		}
	});

	// Only beats that come while this task blocks or computes count.
	for (int i = 0; i < 4; i++)
		blockers.emplace_back([&] {
			uint64_t before;
			int tries = 0;

			do {
				before = beats;
				block(300 * test::ms);
			} while (beats == before && ++tries < 50);
			EXPECT_NE(before, beats);
		});
	join(blockers);
	stop = true;
	heart.join();
}

TASK_TEST(Lease, OthersRunWhileATaskComputes, 1, 2)
{
	std::atomic<bool> stop = false;
	std::atomic<uint64_t> beats = 0;
	std::vector<Task> hogs;
	Task heart([&] {
		while (!stop) {
			sn_sleep(10 * test::ms);
			beats++;
		}
	});

	for (int i = 0; i < 4; i++)
		hogs.emplace_back([&] {
			uint64_t before;
			int tries = 0;

			do {
				before = beats;
				compute(300 * test::ms);
			} while (beats == before && ++tries < 50);
			EXPECT_NE(before, beats);
		});
	join(hogs);
	stop = true;
	heart.join();
	EXPECT_GT(test::stats().revocations, 0u);
}

// This is what leases are for. Without them the same task stops everything.
TEST(Lease, WithoutLeasesNothingElseRuns)
{
	Environment off("SENNIT_LEASES", "0");

	test::run(1, [] {
		std::atomic<bool> stop = false;
		std::atomic<uint64_t> beats = 0;
		Task heart([&] {
			while (!stop) {
				beats++;
				sn_yield();
			}
		});
		Task blocker([&] {
			ASSERT_TRUE(test::eventually([&] { return beats > 0; }));
			const uint64_t before = beats;

			block(200 * test::ms);
			EXPECT_EQ(before, beats);
			stop = true;
		});

		blocker.join();
		heart.join();
		EXPECT_EQ(0u, test::stats().revocations);
	});
}

// The only processor's thread sleeps in the kernel. A connection is accepted and served all the
// same.
TASK_TEST(Lease, TheNetworkIsServedWhileAllProcessorsBlock, 1)
{
	std::atomic<bool> blocking = false, stop = false;
	std::atomic<int> answered = 0;
	sn_tcp_listener *listener;
	char address[SN_ADDRESS_MAX];

	ASSERT_EQ(0, sn_tcp_listen(&listener, "127.0.0.1:0"));
	sn_tcp_listener_address(listener, address, sizeof address);
	const auto port = static_cast<uint16_t>(atoi(strrchr(address, ':') + 1));
	Task server([&] {
		sn_tcp *peer;

		while (sn_tcp_accept(listener, &peer) >= 0) {
			char buf[16];
			ssize_t n;

			while ((n = sn_tcp_read(peer, buf, sizeof buf)) > 0)
				(void)!sn_tcp_write_all(peer, buf, static_cast<size_t>(n), nullptr);
			sn_tcp_close(peer);
		}
	});
	Task blocker([&] {
		while (!stop) {
			blocking = true;
			block(500 * test::ms);
			blocking = false;
			sn_yield();
		}
	});
	// A foreign thread, which leases do not concern.
	std::thread client([&] {
		for (int i = 0; i < 1000 && answered < 5; i++) {
			const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
			struct sockaddr_in to = {};
			char c = 'x';

			to.sin_family = AF_INET;
			to.sin_port = htons(port);
			to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
			while (!blocking)
				usleep(1000);
			if (connect(fd, reinterpret_cast<struct sockaddr *>(&to), sizeof to) == 0 &&
			    write(fd, &c, 1) == 1 && read(fd, &c, 1) == 1 && blocking)
				answered++;
			close(fd);
		}
		stop = true;
	});
	blocker.join();
	client.join();
	EXPECT_EQ(5, answered);
	sn_tcp_listener_close(listener);
	server.join();
}

// ---- threads ----

TASK_TEST(Threads, AreReleasedAfterABurst, 2)
{
	const int n = test::scaled(500);
	std::vector<Task> tasks;
	std::atomic<uint64_t> most = 0;

	for (int i = 0; i < n; i++)
		tasks.emplace_back([&] {
			block(300 * test::ms);
			const uint64_t now = test::stats().threads;
			uint64_t known = most;
			while (now > known && !most.compare_exchange_weak(known, now))
				;
		});
	join(tasks);
	EXPECT_GT(most, 4u);
	EXPECT_TRUE(test::eventually([] { return test::stats().threads <= 6; }))
		<< test::stats().threads << " threads";
}

TEST(Threads, AtTheLimitWorkWaits)
{
	Environment most("SENNIT_MAX_THREADS", "8");

	for (int processors : {1, 2}) {
		testing::internal::CaptureStderr();
		test::run(processors, [] {
			// Repeats until the monitor has been in time often enough.
			EXPECT_TRUE(test::eventually([] {
				std::vector<Task> tasks;
				std::atomic<uint64_t> beyond = 0;

				for (int i = 0; i < 60; i++)
					tasks.emplace_back([&] {
						block(20 * test::ms);
						beyond += test::stats().threads > 8;
					});
				join(tasks);
				EXPECT_EQ(0u, beyond.load());
				return test::stats().thread_limit_hits > 0;
			}));
		});
		const std::string said = testing::internal::GetCapturedStderr();
		const size_t at = said.find("SENNIT_MAX_THREADS");

		EXPECT_NE(std::string::npos, at) << said;
		EXPECT_EQ(std::string::npos, said.find("SENNIT_MAX_THREADS", at + 1)) << said;
	}
}

TEST(Threads, AnImpossibleLimitIsRefused)
{
	for (const char *value : {"1", "0", "-3", "many", "10000000"}) {
		Environment most("SENNIT_MAX_THREADS", value);

		testing::internal::CaptureStderr();
		EXPECT_EQ(-EINVAL, sn_run([](void *) { return 0; }, nullptr)) << value;
		EXPECT_NE(std::string::npos,
			  testing::internal::GetCapturedStderr().find("SENNIT_MAX_THREADS"));
	}
}

// ---- wrong and unusual use ----

TEST(Bracket, OutsideATaskDoesNothing)
{
	const auto use = [] {
		sn_exit_blocking();
		sn_enter_blocking();
		sn_enter_blocking_as("name");
		sn_exit_blocking();
		EXPECT_EQ(7, sn_blocking([](void *arg) { return *static_cast<int *>(arg); },
					 std::vector<int>{7}.data()));
	};

	use();
	test::run({1, 2}, [&] {
		std::thread own(use);

		own.join();
	});
	use();
}

TASK_TEST(Bracket, ReturnsTheFunctionsValue)
{
	EXPECT_EQ(-5, sn_blocking([](void *) { return -5; }, nullptr));
	EXPECT_EQ(3, sn_blocking(
			     [](void *) {
				     block(test::ms);
				     return 3;
			     },
			     nullptr));
}

#if defined(SENNIT_DEBUG) && SENNIT_DEBUG

namespace
{

void in_task(void (*body)())
{
	test::run(1, body);
}

} // namespace

TEST(BracketDeathTest, TwiceEntered)
{
	GTEST_FLAG_SET(death_test_style, TEST_DEATH_STYLE);
	EXPECT_DEATH(in_task([] {
			     sn_enter_blocking();
			     sn_enter_blocking();
		     }),
		     "sn_enter_blocking\\(\\) called twice");
}

TEST(BracketDeathTest, LeftWithoutEntering)
{
	GTEST_FLAG_SET(death_test_style, TEST_DEATH_STYLE);
	EXPECT_DEATH(in_task([] { sn_exit_blocking(); }),
		     "sn_exit_blocking\\(\\) called without sn_enter_blocking\\(\\)");
}

TEST(BracketDeathTest, SennitCallWithin)
{
	GTEST_FLAG_SET(death_test_style, TEST_DEATH_STYLE);
	EXPECT_DEATH(in_task([] {
			     sn_enter_blocking_as("reading the disk");
			     sn_yield();
		     }),
		     "sn_yield\\(\\).*reading the disk");
	EXPECT_DEATH(in_task([] {
			     sn_blocking([](void *) { return sn_sleep_until(sn_now() + 1000); },
					 nullptr);
		     }),
		     "sn_sleep_until\\(\\)");
}

#else

TASK_TEST(Bracket, WrongUseIsSafe)
{
	std::vector<Task> tasks;

	for (int i = 0; i < 20; i++)
		tasks.emplace_back([] {
			for (int round = 0; round < 50; round++) {
				sn_exit_blocking();
				sn_enter_blocking();
				sn_enter_blocking_as("again");
				block(100 * test::us);
				sn_yield();
				EXPECT_EQ(0, sn_sleep(10 * test::us));
				sn_exit_blocking();
				sn_exit_blocking();
			}
			sn_enter_blocking(); // and never left
		});
	join(tasks);
	EXPECT_TRUE(test::all_ended());
}

#endif

TEST(ForeignThread, GetsErrorsAndMaySpawn)
{
	test::run([] {
		std::atomic<int> ran = 0;
		sn_task *mine;
		std::thread own([&] {
			EXPECT_EQ(nullptr, sn_self());
			EXPECT_EQ(-ENOTSUP, sn_yield());
			EXPECT_EQ(-ENOTSUP, sn_sleep(1));
			EXPECT_EQ(-ENOTSUP, sn_sleep_until(sn_now() + 1));
			EXPECT_EQ(-ENOTSUP, sn_pin());
			EXPECT_EQ(-ENOTSUP, sn_unpin());
			EXPECT_EQ(-ENOTSUP, sn_task_set_name("no task"));
			ASSERT_EQ(0, sn_spawn(
					     &mine,
					     [](void *arg) {
						     return ++*static_cast<std::atomic<int> *>(arg);
					     },
					     &ran, nullptr));
			EXPECT_EQ(-ENOTSUP, sn_join(mine, nullptr));
			EXPECT_TRUE(test::eventually_in_thread([&] { return ran == 1; }));
			EXPECT_EQ(0, sn_detach(mine));
		});

		own.join();
		EXPECT_EQ(1, ran);
	});
	std::thread own([] { EXPECT_EQ(-ESRCH, sn_go([](void *) { return 0; }, nullptr)); });
	own.join();
}

// ---- fork ----

namespace
{

// Waits in a task, without a bracket, for a child. Returns its exit status.
int status_of(pid_t child)
{
	int status = -1;

	EXPECT_EQ(child, waitpid(child, &status, 0));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

} // namespace

TASK_TEST(Fork, ChildHasNoRuntime)
{
	std::vector<Task> others;

	for (int i = 0; i < 10; i++)
		others.emplace_back([] {
			for (int round = 0; round < 20; round++)
				sn_sleep(test::ms);
		});
	for (int round = 0; round < 10; round++) {
		const pid_t child = fork();

		if (child == 0) {
			CHILD_CHECK(sn_yield() == -ENOTSUP);
			CHILD_CHECK(sn_sleep(1000) == -ENOTSUP);
			CHILD_CHECK(sn_go([](void *) { return 0; }, nullptr) == -ESRCH);
			CHILD_CHECK(sn_pin() == -ENOTSUP);
			CHILD_CHECK(sn_self() == nullptr);
			sn_enter_blocking();
			sn_exit_blocking();
			CHILD_CHECK(sn_blocking([](void *) { return 5; }, nullptr) == 5);
			_exit(0);
		}
		EXPECT_EQ(0, status_of(child));
	}
	join(others);
}

TASK_TEST(Fork, ChildExecutesAProgram)
{
	const pid_t child = fork();

	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "exit 23", nullptr);
		_exit(127);
	}
	EXPECT_EQ(23, status_of(child));
}

// TSan does not let a child of a process with threads start threads. ASan looks for leaks when a
// process exits, and in a forked child that happens on a task's stack.
#if !TEST_TSAN && !TEST_ASAN
TASK_TEST(Fork, ChildMayStartItsOwnRuntime, 1, 2)
{
	const pid_t child = fork();

	if (child == 0) {
		const int result = sn_run(
			[](void *) {
				Task task([] {
					sn_sleep(test::ms);
					return 4;
				});
				return task.join() + 1;
			},
			nullptr);

		_exit(result);
	}
	EXPECT_EQ(5, status_of(child));
}

TASK_TEST(Fork, ChildThatReturnsFromItsTaskExits, 1, 2)
{
	pid_t child = 0;
	Task task([&] {
		child = fork();
		return child == 0 ? 9 : 0;
	});

	task.join();
	EXPECT_EQ(9, status_of(child));
}
#endif

// ---- the end ----

TEST(End, DoesNotWaitForATaskThatBlocksForever)
{
	for (int processors : {1, 2}) {
		int fds[2];
		std::atomic<bool> reading = false, returned = false;
		const int64_t began = sn_now();
		auto *flags = new std::atomic<bool> *[2] { &reading, &returned };

		ASSERT_EQ(0, pipe2(fds, O_CLOEXEC));
		test::run(processors, [&] {
			// The task outlives the run, so what it uses is not on a task's stack.
			struct Stuck {
				int fd;
				std::atomic<bool> **flags;
			};
			static Stuck stuck;

			stuck = {fds[0], flags};
			ASSERT_EQ(0, sn_go(
					     [](void *arg) {
						     auto *self = static_cast<Stuck *>(arg);
						     char c;

						     *self->flags[0] = true;
						     const ssize_t n = read(self->fd, &c, 1);
						     *self->flags[1] = n == 1;
						     // the task does not return from this call
						     sn_yield();
						     abort();
						     return 0;
					     },
					     &stuck));
			EXPECT_TRUE(test::eventually([&] { return reading.load(); }));
			block(30 * test::ms);
		});
		printf("sn_run() returned after %.1f s\n",
		       static_cast<double>(sn_now() - began) / 1e9);
		EXPECT_LT(sn_now() - began, test::patience);

		test::run(processors, [] {
			Task task([] { sn_sleep(test::ms); });
			task.join();
		});
		ASSERT_EQ(1, write(fds[1], "x", 1));
		EXPECT_TRUE(test::eventually_in_thread([&] { return returned.load(); }));
		usleep(50000);
		test::run(processors, [] {
			Task task([] { sn_sleep(test::ms); });
			task.join();
		});
		close(fds[0]);
		close(fds[1]);
		delete[] flags;
	}
}

TASK_TEST(End, TasksThatComputeOrBlockAreStopped)
{
	for (int i = 0; i < 10; i++) {
		sn_go(
			[](void *) {
				for (;;) {
					compute(5 * test::ms);
					sn_yield();
				}
				return 0;
			},
			nullptr);
		sn_go(
			[](void *) {
				for (;;) {
					sn_enter_blocking();
					block(5 * test::ms);
					sn_exit_blocking();
				}
				return 0;
			},
			nullptr);
	}
	sn_sleep(30 * test::ms);
}

// ---- stall reports ----

// Visible, so that the backtrace can name it.
extern "C" SN_API void stall_in_a_function_with_a_name();
[[gnu::noinline]] void stall_in_a_function_with_a_name()
{
	// Spends nearly all of the time in its own code, because not every vDSO can be unwound.
	const int64_t end = sn_now() + 200 * test::ms;
	volatile unsigned x = 0;

	while (sn_now() < end)
		for (int i = 0; i < 100000; i++)
			x = x + 1;
}

TEST(Stall, IsReportedWithTheTasksNameAndABacktrace)
{
	Environment stall("SENNIT_STALL_MS", "20");
	const auto is_reported = [](const std::string &said) {
		if (TEST_TSAN) // TSan delays signals until the task calls something that blocks
			return has_all(said, {"stall"});
		return has_all(said, {"stall", "\"sluggard\"", "#0 0x",
				      "stall_in_a_function_with_a_name"});
	};
	const std::string said = said_until(is_reported, [] {
		test::run({1, 2}, [] {
			struct sn_task_attr attr = {};

			attr.name = "sluggard";
			Task task(
				[] {
					stall_in_a_function_with_a_name();
					block(100 * test::ms);
				},
				&attr);
			task.join();
		});
	});

	EXPECT_TRUE(is_reported(said)) << said;
}

// The report comes even if nothing else could run, and does not disturb the blocked call, because
// of SA_RESTART.
TEST(Stall, ReportDoesNotDisturbTheBlockedCall)
{
	Environment stall("SENNIT_STALL_MS", "10");
	const auto is_reported = [](const std::string &said) {
		return TEST_TSAN || has_all(said, {"reading a pipe"});
	};
	const std::string said = said_until(is_reported, [] {
		test::run({1, 2}, [] {
			std::atomic<bool> reads{false};
			int fds[2];
			char c;

			ASSERT_EQ(0, pipe2(fds, O_CLOEXEC));
			std::thread writer([&] {
				while (!reads)
					usleep(1000);
				// At least ten times the limit.
				usleep(TEST_EMULATED ? 1000000 : 100000);
				EXPECT_EQ(1, write(fds[1], "x", 1));
			});
			reads = true;
			// starting the thread may have been reported; this begins a new stay
			sn_yield();
			sn_enter_blocking_as("reading a pipe");
			EXPECT_EQ(1, read(fds[0], &c, 1));
			sn_exit_blocking();
			writer.join();
			close(fds[0]);
			close(fds[1]);
		});
	});

	EXPECT_TRUE(is_reported(said)) << said;
}

TEST(Stall, WithoutAReaderOfTheReportTheTaskContinues)
{
	testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE;
	EXPECT_EXIT(
		{
			Environment stall("SENNIT_STALL_MS", "20");

			alarm(60); // if it does not
			test::full_pipe();
			test::run({1, 2}, [] {
				sn_yield(); // begins a new stay
				compute(200 * test::ms);
			});
			_exit(42);
		},
		testing::ExitedWithCode(42), "^$");
}

// The thread is writing a report when it stalls.
TEST(Stall, ThatMeetsAnotherReportIsCountedThere)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "TSan delays the signal until the other report has ended";
	Environment stall("SENNIT_STALL_MS", "10");
	const auto is_said = [](const std::string &said) {
		return has_all(said, {"stall: 1 more could not be reported"});
	};
	const std::string said = said_until(is_said, [] {
		test::run({1, 2}, [] {
			sn_yield(); // begins a new stay
			ASSERT_TRUE(probe_report_begin());
			compute(200 * test::ms);
			probe_report_end();
		});
	});

	EXPECT_TRUE(is_said(said)) << said;
}

TEST(Stall, NothingIsReportedByDefault)
{
	testing::internal::CaptureStderr();
	test::run({1, 2}, [] {
		Task task([] { compute(50 * test::ms); });

		task.join();
		block(50 * test::ms);
	});
	EXPECT_EQ("", testing::internal::GetCapturedStderr());
}

// ---- stress ----

namespace
{

// Everything that enters or leaves the runtime, in random order, with brackets that are too short
// to be revoked, about long enough, and longer. If two threads had the same processor, it would
// lose tasks, or counts of its statistics, which are plain additions. TSan sees the races
// themselves.
void stress(int processors)
{
	test::run(processors, [] {
		const int tasks_n = 50, rounds = test::scaled(200);
		std::vector<Task> tasks;
		std::atomic<uint64_t> spawned = 0, ended = 0;
		test::Random random;

		for (int i = 0; i < tasks_n; i++) {
			const uint64_t seed = random.next();

			tasks.emplace_back([&, seed] {
				test::Random mine(seed);

				for (int round = 0; round < rounds; round++) {
					const auto ns = static_cast<int64_t>(mine.below(60000));

					switch (mine.below(8)) {
					case 0:
						sn_yield();
						break;
					case 1:
						sn_sleep(ns);
						break;
					case 2:
						sn_enter_blocking();
						sn_exit_blocking();
						break;
					case 3:
						sn_enter_blocking();
						block(ns);
						sn_exit_blocking();
						break;
					case 4:
						block(ns);
						break;
					case 5: {
						std::atomic<uint64_t> &count = ended;

						spawned++;
						Task child([&count, ns] {
							block(ns / 4);
							count++;
						});
						child.join();
						break;
					}
					case 6:
						sn_pin();
						sn_sleep(ns / 2);
						sn_unpin();
						break;
					default:
						compute(ns);
					}
				}
			});
		}
		join(tasks);
		EXPECT_EQ(spawned.load(), ended.load());
		EXPECT_TRUE(test::all_ended());
		EXPECT_EQ(1u + tasks_n + spawned, test::stats().tasks_spawned);
	});
}

} // namespace

TEST(LeaseStress, ProcessorsAreNeverOwnedTwice)
{
	Environment race("SENNIT_RACE", "1");

	for (int processors : {1, 2, 4})
		stress(processors);
}

TEST(LeaseStress, WithFencesInsteadOfMembarrier)
{
	Environment race("SENNIT_RACE", "1");
	Environment fences("SENNIT_MEMBARRIER", "0");

	for (int processors : {1, 2, 4})
		stress(processors);
}

TEST(LeaseStress, WithFewThreads)
{
	Environment race("SENNIT_RACE", "1");
	Environment most("SENNIT_MAX_THREADS", "6");

	testing::internal::CaptureStderr();
	for (int processors : {1, 2, 4})
		stress(processors);
	testing::internal::GetCapturedStderr();
}
