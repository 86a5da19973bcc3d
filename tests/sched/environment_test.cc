// SPDX-License-Identifier: MIT
//
// What the system allows the process changes while it runs: system calls are refused. Each case is a
// child process, as none of that can be taken back.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/runtime.h"

namespace
{

using test::Task;

struct Outcome {
	int status; // of waitpid()
	std::string said;
};

// What becomes of a child that runs this as the first task; it exits with 0 when it returns.
Outcome child(int processors, void (*body)())
{
	Outcome outcome = {-1, ""};
	char buf[4096];
	int ends[2];

	EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
	const pid_t pid = fork();
	if (pid == 0) {
		alarm(120); // one that hangs is a failure
		dup2(ends[1], STDERR_FILENO);
		setenv("SENNIT_PROCS", std::to_string(processors).c_str(), 1);
		_exit(sn_run(
			[](void *arg) {
				reinterpret_cast<void (*)()>(arg)();
				return 0;
			},
			reinterpret_cast<void *>(body)));
	}
	close(ends[1]);
	for (ssize_t n; (n = read(ends[0], buf, sizeof buf)) > 0;)
		outcome.said.append(buf, size_t(n));
	close(ends[0]);
	EXPECT_EQ(pid, waitpid(pid, &outcome.status, 0));
	return outcome;
}

size_t count(const std::string &text, const std::string &what)
{
	size_t n = 0;

	for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at++)
		n++;
	return n;
}

// From now on these calls fail with EPERM in all threads.
void refuse(unsigned first, unsigned second)
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const sock_fprog program = {sizeof code / sizeof *code, code};

	CHILD_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHILD_CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
			    &program) == 0);
}

void refuse_membarrier()
{
	refuse(SYS_membarrier, SYS_membarrier);
}

// One processor: who blocks without a word, or computes, waits for what another task does.
void others_go_on()
{
	for (int round = 0; round < 10; round++) {
		std::atomic<bool> flag = false;
		int ends[2];
		char byte;

		CHILD_CHECK(pipe(ends) == 0);
		Task writer([&] { return int(write(ends[1], "x", 1)); });
		CHILD_CHECK(read(ends[0], &byte, 1) == 1);
		CHILD_CHECK(writer.join() == 1);
		close(ends[0]);
		close(ends[1]);

		Task setter([&] { flag = true; });
		while (!flag)
			continue;
		setter.join();
	}
}

void scans_work()
{
	std::atomic<int> visits = 0;
	std::atomic<bool> stop = false;
	Task parked([&] {
		while (!stop)
			sn_sleep(test::ms);
	});
	Task busy([&] {
		while (!stop)
			sn_yield();
	});

	for (int i = 0; i < 20; i++)
		for (Task *task : {&parked, &busy}) {
			const int err = sn_task_scan(
				task->get(),
				[](const sn_scan *, void *arg) {
					++*static_cast<std::atomic<int> *>(arg);
				},
				&visits);

			CHILD_CHECK(err == 0);
		}
	CHILD_CHECK(visits == 40);
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	CHILD_CHECK(sn_dump(null) == 0);
	close(null);
	stop = true;
	parked.join();
	busy.join();
}

TEST(Seccomp, RefusesMembarrierLater)
{
	for (const int processors : {1, 2}) {
		const Outcome outcome = child(processors, [] {
			others_go_on();
			refuse_membarrier();
			others_go_on();
			scans_work();
		});

		EXPECT_EQ(0, outcome.status) << outcome.said;
		// With fences from the beginning, as in some presets, nobody asks for it.
		EXPECT_LE(count(outcome.said, "membarrier() is refused"), 1u) << outcome.said;
		EXPECT_EQ(count(outcome.said, "\n"), count(outcome.said, "membarrier() is refused"))
			<< outcome.said;
	}
}

// TSan does not let a child of a process with threads start threads, and leaks are looked for there.
#if !TEST_TSAN && !TEST_ASAN

// Another run, in a child of it, finds out at its beginning.
TEST(Seccomp, AndTheNextRunDoesWithoutFromTheBeginning)
{
	const Outcome outcome = child(1, [] {
		refuse_membarrier();
		others_go_on();
		const pid_t pid = fork();

		if (pid == 0)
			_exit(sn_run(
				[](void *) {
					others_go_on();
					return 23;
				},
				nullptr));
		int status = 0;
		CHILD_CHECK(waitpid(pid, &status, 0) == pid);
		CHILD_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 23);
	});

	EXPECT_EQ(0, outcome.status) << outcome.said;
}

#endif

// No barrier can be had at all: who blocks keeps the processor until it is back, and nobody is killed.
TEST(Seccomp, RefusesEveryBarrier)
{
	const Outcome outcome = child(2, [] {
		refuse(SYS_membarrier, SYS_sched_setaffinity);
		for (int round = 0; round < 20; round++) {
			Task sleeper([] { usleep(2000); });
			Task other([] { sn_sleep(test::ms); });

			usleep(1000);
			sleeper.join();
			other.join();
		}
		Task parked([] { sn_sleep(20 * test::ms); });
		sn_yield();
		const int err = sn_task_scan(
			parked.get(), [](const sn_scan *, void *) {}, nullptr);
		CHILD_CHECK(err == -ENOSYS || err == 0); // 0: with fences
		const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		CHILD_CHECK(sn_dump(null) == 0);
		close(null);
		parked.join();
	});

	EXPECT_EQ(0, outcome.status) << outcome.said;
	EXPECT_LE(count(outcome.said, "membarrier() is refused"), 1u) << outcome.said;
	EXPECT_EQ(count(outcome.said, "\n"), count(outcome.said, "membarrier() is refused"))
		<< outcome.said;
}

} // namespace
