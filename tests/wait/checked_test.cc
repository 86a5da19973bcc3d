// SPDX-License-Identifier: MIT
// Labels: checked
//
// The checked build ends a program that waits while it holds a lock of the runtime, and says where.
// Each fault is planted in a child process. Code that does not wait continues.
#include <atomic>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/scan.h>

#include "support/checked.h"
#include "support/runtime.h"

namespace
{

class Checked : public testing::Test
{
protected:
	Checked()
	{
		testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE;
		EXPECT_EQ(0, pipe(ends_));
	}
	~Checked() override
	{
		close(ends_[0]);
		close(ends_[1]);
	}

	char byte_ = 0;
	int ends_[2];
};

// Tests that need the checked build's view of system calls.
class CheckedCalls : public Checked
{
protected:
	void SetUp() override
	{
		if (!checked_sees_calls())
			GTEST_SKIP() << "the kernel has no system call user dispatch";
	}
};

// ---- the order of locks ----

TEST_F(Checked, LocksInTheirOrderAreTaken)
{
	checked_take_outer();
	checked_take_inner();
	checked_release_outer();
	checked_release_inner();
}

TEST_F(Checked, AWrongOrderOfLocksIsFatal)
{
	EXPECT_DEATH(
		{
			checked_take_inner();
			checked_take_outer();
		},
		"\"a test's outer lock\" .* is taken while \"a test's inner lock\" is held; held: "
		"\"a test's inner lock\"");
}

TEST_F(Checked, ALockThatIsTakenTwiceIsFatal)
{
	EXPECT_DEATH(
		{
			checked_take_outer();
			checked_take_outer();
		},
		"is taken twice");
}

TEST_F(Checked, ALockWithoutARankIsFatal)
{
	EXPECT_DEATH(checked_take_nameless(), "has no line in src/wait/rank.h");
}

TEST_F(Checked, ALockThatAnotherThreadHoldsIsWaitedForWithAnotherHeld)
{
	std::atomic<bool> taken{false};
	std::thread other([&] {
		checked_take_inner();
		taken = true;
		checked_pass();
		usleep(20000); // long enough for the sleep on the futex, most of the time
		checked_pass_end();
		checked_release_inner();
	});

	while (!taken)
		sched_yield();
	checked_take_outer();
	checked_take_inner();
	checked_release_inner();
	checked_release_outer();
	other.join();
}

// ---- parks and callbacks ----

TEST_F(Checked, AParkUnderALockIsFatal)
{
	auto body = [](void *) -> int {
		checked_take_inner(); // the timer may allocate memory while it holds this one
		return sn_sleep(1000000);
	};

	EXPECT_DEATH(sn_run(body, nullptr), "a task leaves its thread; held: "
					    "\"a test's inner lock\"");
}

TEST_F(Checked, ACallbackUnderALockIsFatal)
{
	auto body = [](void *) -> int {
		checked_take_outer();
		return sn_tasks_each([](const struct sn_task_info *, void *) { return 0; },
				     nullptr);
	};

	EXPECT_DEATH(sn_run(body, nullptr), "a thread calls the program's visitor; held:");
}

TEST_F(Checked, ReturningFromTheRuntimeWithALockIsFatal)
{
	auto body = [](void *) -> int {
		checked_take_outer();
		return sn_yield();
	};

	EXPECT_DEATH(sn_run(body, nullptr), "held: \"a test's outer lock\"");
}

TEST_F(Checked, ALineOnStderrUnderALockIsFatal)
{
	EXPECT_DEATH(
		{
			checked_take_outer();
			checked_log();
		},
		"a thread writes a line on stderr; held:");
}

TEST_F(Checked, ASleepOnAFutexUnderALockIsFatal)
{
	EXPECT_DEATH(
		{
			checked_take_outer();
			checked_sleep(1);
		},
		"a thread sleeps in a futex; held:");
}

// ---- system calls ----

TEST_F(CheckedCalls, ABlockingReadUnderALockIsFatal)
{
	EXPECT_DEATH(
		{
			checked_take_outer();
			(void)!read(ends_[0], &byte_, 1);
		},
		"a thread calls read \\(0.*held: \"a test's outer lock\".*\n"
		"(.*\n)*  #0 0x[0-9a-f]+ .*read");
}

TEST_F(CheckedCalls, ABlockingReadInATaskUnderALockIsFatal)
{
	auto body = [](void *end) -> int {
		char byte;

		checked_take_outer();
		return (int)read(*static_cast<int *>(end), &byte, 1);
	};

	EXPECT_DEATH(sn_run(body, &ends_[0]), "calls read .*held: \"a test's outer lock\"");
}

TEST_F(CheckedCalls, ABlockingReadOnAThreadThatMustNotWaitIsFatal)
{
	EXPECT_DEATH(
		{
			checked_forbid("the monitor");
			(void)!read(ends_[0], &byte_, 1);
		},
		"the monitor calls read");
}

TEST_F(CheckedCalls, MemoryForALockThatHasNoLeaveIsFatal)
{
	EXPECT_DEATH(
		{
			checked_take_outer();
			mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		},
		"calls mmap");
}

// The heap does so while it allocates or frees memory.
TEST_F(CheckedCalls, TheHeapReadsItsFilesUnderALockThatHasLeave)
{
	for (const char *path :
	     {"/sys/devices/system/cpu/online", "/proc/sys/vm/overcommit_memory"}) {
		checked_take_inner();
		const int fd = open(path, O_RDONLY | O_CLOEXEC);
		const ssize_t n = fd < 0 ? 1 : read(fd, &byte_, 1);
		if (fd >= 0)
			close(fd);
		checked_release_inner();
		EXPECT_EQ(1, n) << path;
	}
	EXPECT_DEATH(
		{
			checked_take_inner();
			open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
		},
		"calls openat");
}

// As the monitor once did, while destructors of the joined thread ran.
TEST_F(CheckedCalls, AJoinOnAThreadThatMustNotWaitIsFatal)
{
	EXPECT_DEATH(
		{
			std::thread other([] { pause(); });

			checked_forbid("the monitor");
			other.join();
		},
		"the monitor calls futex");
}

TEST_F(CheckedCalls, ABlockedSignalHidesNothing)
{
	EXPECT_DEATH(
		{
			sigset_t all;

			sigfillset(&all);
			pthread_sigmask(SIG_SETMASK, &all, nullptr);
			checked_take_outer();
			(void)!read(ends_[0], &byte_, 1);
		},
		"calls read");
}

TEST_F(CheckedCalls, ACallInAHandlerOfASignalUnderALockIsFatal)
{
	EXPECT_DEATH(
		{
			signal(SIGUSR1, [](int) { pause(); });
			checked_take_outer();
			raise(SIGUSR1);
		},
		"calls pause");
}

TEST_F(CheckedCalls, AForkedChildIsLookedAt)
{
	EXPECT_DEATH(
		{
			checked_take_outer();
			checked_release_outer();
			pid_t child = fork();
			int status = 0;

			if (child == 0) {
				checked_take_outer();
				(void)!read(ends_[0], &byte_, 1);
			}
			waitpid(child, &status, 0);
			if (WIFSIGNALED(status))
				abort();
		},
		"calls read");
}

TEST_F(CheckedCalls, WhatDoesNotWaitGoesOnUnderALock)
{
	struct pollfd one = {ends_[0], POLLIN, 0};
	static volatile sig_atomic_t handled;
	sigset_t set, now;

	fcntl(ends_[0], F_SETFL, O_NONBLOCK);
	fcntl(ends_[1], F_SETFL, O_NONBLOCK);
	signal(SIGUSR1, [](int) { handled = handled + 1; });
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);

	checked_take_outer();
	errno = 0;
	EXPECT_EQ(-1, read(ends_[0], &byte_, 1));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(1, write(ends_[1], &byte_, 1));
	EXPECT_EQ(1, poll(&one, 1, 0));
	raise(SIGUSR1); // the handler returns, which is a system call too
	EXPECT_EQ(1, handled);
	EXPECT_EQ(0, pthread_sigmask(SIG_BLOCK, &set, nullptr));
	checked_release_outer();

	EXPECT_EQ(0, pthread_sigmask(SIG_UNBLOCK, &set, &now));
	EXPECT_EQ(1, sigismember(&now, SIGUSR2));
	EXPECT_EQ(1, read(ends_[0], &byte_, 1));
	signal(SIGUSR1, SIG_DFL);
}

TEST_F(CheckedCalls, ALockThatIsTakenInAStretchThatMayWaitCounts)
{
	EXPECT_DEATH(
		{
			checked_take_outer();
			checked_pass();
			checked_take_inner();
			(void)!read(ends_[0], &byte_, 1);
		},
		"calls read");
}

TEST_F(CheckedCalls, AStretchThatMayWaitDoes)
{
	(void)!write(ends_[1], &byte_, 1);
	checked_take_outer();
	checked_pass();
	EXPECT_EQ(1, read(ends_[0], &byte_, 1));
	checked_pass_end();
	checked_release_outer();
}

} // namespace
