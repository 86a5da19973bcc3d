// SPDX-License-Identifier: MIT
// Labels: machine
//
// Children with a parent-death signal (PR_SET_PDEATHSIG) live as long as this process, even if the
// thread ends on which a task has started them.
#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/runtime.h"

namespace
{

using test::Task;

// A child that the kernel kills when its parent, which is a thread, ends.
class Child
{
public:
	Child()
	{
		int ready[2];
		char byte = 0;

		EXPECT_EQ(0, pipe(ready));
		pid_ = fork();
		if (pid_ == 0) {
			if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && write(ready[1], "x", 1) == 1)
				for (;;)
					pause();
			_exit(1);
		}
		close(ready[1]);
		EXPECT_EQ(1, read(ready[0], &byte, 1)) << "the child cannot set it";
		close(ready[0]);
	}
	Child(const Child &) = delete;
	Child &operator=(const Child &) = delete;

	bool lives() const { return waitpid(pid_, nullptr, WNOHANG) == 0; }
	void end()
	{
		int status = -1;

		EXPECT_EQ(0, kill(pid_, SIGTERM));
		EXPECT_EQ(pid_, waitpid(pid_, &status, 0)) << "somebody else took its status";
		EXPECT_TRUE(WIFSIGNALED(status));
		EXPECT_EQ(SIGTERM, WTERMSIG(status)) << "it had been killed before";
	}

private:
	pid_t pid_;
};

int threads()
{
	return int(test::stats().threads);
}

// n children, each started by a task on its own thread; all these tasks block at the same time.
// Each task calls before() first.
template <class F>
std::vector<std::unique_ptr<Child>> children(int n, F before)
{
	std::vector<std::unique_ptr<Child>> list(static_cast<size_t>(n));
	std::atomic<int> in{0};
	std::vector<Task> tasks;

	for (int i = 0; i < n; i++)
		tasks.emplace_back([&, i] {
			before();
			in++;
			while (in < n)
				usleep(1000);
			list[size_t(i)] = std::make_unique<Child>();
		});
	test::join_all(tasks);
	return list;
}

// Waits until the threads of the burst have left the runtime, and then for longer than they would
// take to end.
void outlast_threads()
{
	EXPECT_TRUE(test::eventually([] { return threads() <= 4; })) << threads();
	sn_sleep(50 * test::ms);
}

void end_all(std::vector<std::unique_ptr<Child>> &list)
{
	for (auto &child : list) {
		EXPECT_TRUE(child->lives());
		child->end();
	}
}

// The sanitizer has a thread of its own, and so has an emulator.
constexpr int others = TEST_TSAN + TEST_EMULATED;

TEST(Linger, ChildrenOutliveIdleThreads)
{
	test::Environment soon("SENNIT_IDLE_MS", "10");

	test::run({1, 2}, [] {
		auto list = children(10, [] {});

		outlast_threads();
		end_all(list);
		// When the children end, so do the threads. What remains besides is the monitor and
		// the thread of sn_run().
		EXPECT_TRUE(test::eventually(
			[] { return test::process_status("Threads") <= threads() + 2 + others; }));
	});
}

TEST(Linger, ChildrenOutliveAPinnedTask)
{
	test::Environment soon("SENNIT_IDLE_MS", "10");

	test::run({1, 2}, [] {
		auto list = children(5, [] { EXPECT_EQ(0, sn_pin()); });

		outlast_threads();
		end_all(list);
	});
}

TEST(Linger, ChildrenOutliveTheRun)
{
	for (bool pinned : {false, true}) {
		std::vector<std::unique_ptr<Child>> list;

		test::run({2}, [&] {
			list = children(3, [&] { EXPECT_EQ(0, pinned ? sn_pin() : 0); });
		});
		usleep(50000);
		// Another run does not disturb them.
		test::run({2}, [] { sn_sleep(test::ms); });
		end_all(list);
	}
	for (int i = 0; i < 3000 && test::process_status("Threads") > 1 + others; i++)
		usleep(10000);
	EXPECT_GE(1 + others, test::process_status("Threads"));
}

// A zombie gets no signals, so no thread has to stay for it.
TEST(Linger, NoThreadStaysForAZombie)
{
	test::Environment soon("SENNIT_IDLE_MS", "10");

	test::run({2}, [] {
		std::atomic<int> made{0};
		pid_t zombies[4];
		auto list = children(4, [&] {
			const pid_t pid = fork();

			if (pid == 0)
				_exit(7);
			zombies[made++] = pid;
		});

		outlast_threads();
		end_all(list);
		EXPECT_TRUE(test::eventually(
			[] { return test::process_status("Threads") <= threads() + 2 + others; }));
		for (pid_t zombie : zombies) {
			int status = -1;

			EXPECT_EQ(zombie, waitpid(zombie, &status, 0));
			EXPECT_EQ(7, WEXITSTATUS(status));
		}
	});
}

// A thread that has left the runtime does not take part in the signal handling of the program.
TEST(Linger, SignalsOfTheProgramDoNotComeToIt)
{
	std::vector<std::unique_ptr<Child>> list;
	sigset_t set, former;
	int signum = 0;

	test::run({2}, [&] { list = children(3, [] {}); });
	usleep(10000);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &former);
	// If the lingering thread took this signal, it would end the process.
	EXPECT_EQ(0, kill(getpid(), SIGUSR1));
	EXPECT_EQ(0, sigwait(&set, &signum));
	EXPECT_EQ(SIGUSR1, signum);
	sigprocmask(SIG_SETMASK, &former, nullptr);
	end_all(list);
}

} // namespace
