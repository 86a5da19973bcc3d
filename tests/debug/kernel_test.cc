// SPDX-License-Identifier: MIT
//
// sn_kernel_report() names the mechanism in use. Each fallback is forced, by a filter of system
// calls or by the environment; the report must name this fallback and no other, and everything that
// depends on it must work.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/debug.h>
#include <sennit/process.h>
#include <sennit/profile.h>
#include <sennit/scan.h>

#include "support/refused.h"
#include "support/runtime.h"

#ifndef SYS_epoll_pwait2
#	define SYS_epoll_pwait2 441
#endif
#ifndef SYS_process_madvise
#	define SYS_process_madvise 440
#endif
#ifndef SYS_close_range
#	define SYS_close_range 436
#endif
#ifndef SYS_pidfd_open
#	define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#	define SYS_pidfd_send_signal 424
#endif

namespace
{

using test::Refusal;
using test::Task;

using Report = std::map<std::string, std::string>;

Report parse(const std::string &text)
{
	Report report;

	for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
		const std::string line = text.substr(at, end - at);
		const size_t colon = line.find(": ");

		EXPECT_NE(colon, std::string::npos) << line;
		if (colon != std::string::npos)
			report[line.substr(0, colon)] = line.substr(colon + 2);
	}
	return report;
}

// The result of a process that runs the body and then reports.
struct Outcome {
	int status = -1; // as waitpid() reports it
	Report report;
};

Outcome in_child(const std::function<void(int fd)> &body)
{
	Outcome outcome;
	std::string text;
	char buf[4096];
	int ends[2];

	EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
	const pid_t pid = fork();
	if (pid == 0) {
		alarm(120); // ends a process that hangs, which is a failure
		body(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	for (ssize_t n; (n = read(ends[0], buf, sizeof buf)) > 0;)
		text.append(buf, size_t(n));
	close(ends[0]);
	EXPECT_EQ(pid, waitpid(pid, &outcome.status, 0));
	outcome.report = parse(text);
	return outcome;
}

Outcome here()
{
	return in_child([](int fd) { CHILD_CHECK(sn_kernel_report(fd) == 0); });
}

// Tasks, sleeps shorter than a millisecond, a thread that blocks, and a program: the promises are
// the same with each mechanism.
int work(void *)
{
	const char *const argv[] = {"/bin/sh", "-c", "exit 7", nullptr};
	std::vector<Task> tasks;
	sn_process *process = nullptr;
	sn_process_status status;

	for (int i = 0; i < 100; i++)
		tasks.emplace_back([i] {
			if (i % 10 == 0)
				usleep(1000);
			return int(sn_sleep(i * test::us)) + i;
		});
	for (int i = 0; i < 100; i++)
		CHILD_CHECK(tasks[size_t(i)].join() == i);
	CHILD_CHECK(sn_process_start(&process, argv, nullptr) == 0);
	CHILD_CHECK(sn_process_wait(process, &status, sn_now() + test::patience) == 0);
	CHILD_CHECK(status.exit_code == 7);
	CHILD_CHECK(sn_process_close(process) == 0);
	process = nullptr;
	const char *const sleeper[] = {"/bin/sleep", "1000", nullptr};
	CHILD_CHECK(sn_process_start(&process, sleeper, nullptr) == 0);
	CHILD_CHECK(sn_process_kill(process, SIGTERM) == 0);
	CHILD_CHECK(sn_process_wait(process, &status, sn_now() + test::patience) == 0);
	CHILD_CHECK(status.signum == SIGTERM);
	CHILD_CHECK(sn_process_close(process) == 0);
	return 9;
}

// For example "epoll_wait() instead of epoll_pwait2() (Linux 5.11)".
bool is_fallback(const std::string &line, const std::string &way)
{
	return line.starts_with(way + " instead of ") &&
	       line.find(" (Linux ") != std::string::npos && line.back() == ')';
}

// How a fallback is forced, the features that use one then, and how their lines begin.
struct Fallback {
	const char *name;
	std::vector<Refusal> refusals;
	std::vector<const char *> environment; // names, each followed by its value
	Report expected;
};

std::ostream &operator<<(std::ostream &out, const Fallback &fallback)
{
	return out << fallback.name;
}

class Fallbacks : public testing::TestWithParam<Fallback>
{
};

TEST_P(Fallbacks, AreReportedAndWork)
{
	const Fallback &forced = GetParam();
	const Report before = here().report;

	if (TEST_EMULATED && !forced.refusals.empty())
		GTEST_SKIP() << "the emulator has no filters";
	for (const bool runs : {false, true}) {
		if (runs && TEST_TSAN)
			continue; // a forked child may not have threads there
		const Outcome outcome = in_child([&](int fd) {
			for (size_t i = 0; i < forced.environment.size(); i += 2)
				setenv(forced.environment[i], forced.environment[i + 1], 1);
			CHILD_CHECK(forced.refusals.empty() || test::refuse(forced.refusals));
			if (runs)
				CHILD_CHECK(sn_run(work, nullptr) == 9);
			CHILD_CHECK(sn_kernel_report(fd) == 0);
		});

		EXPECT_EQ(0, outcome.status);
		ASSERT_EQ(before.size(), outcome.report.size());
		for (const auto &[feature, line] : outcome.report) {
			const auto expected = forced.expected.find(feature);

			EXPECT_TRUE(expected == forced.expected.end()
					    ? line == before.at(feature)
					    : is_fallback(line, expected->second))
				<< feature << ": " << line;
		}
	}
}

const Fallback fallbacks[] = {
	{"MembarrierByEnvironment",
	 {},
	 {"SENNIT_MEMBARRIER", "0"},
	 {{"barrier on all threads", "fences in each entry"}}},
	{"Membarrier",
	 {{SYS_membarrier, ENOSYS}},
	 {},
	 {{"barrier on all threads", "fences in each entry"}}},
	{"GuardsByEnvironment",
	 {},
	 {"SENNIT_STACK_GUARD", "mprotect"},
	 {{"guards of stacks", "mprotect()"}, {"several guards at once", "one call each"}}},
	{"ProcessMadvise",
	 {{SYS_process_madvise, ENOSYS}},
	 {},
	 {{"several guards at once", "one call each"}}},
	{"EpollPwait2",
	 {{SYS_epoll_pwait2, ENOSYS}},
	 {},
	 {{"sleep of the poller", "epoll_wait()"}}},
	{"EpollPwait2BySandbox",
	 {{SYS_epoll_pwait2, EPERM}},
	 {},
	 {{"sleep of the poller", "epoll_wait()"}}},
#ifdef SYS_futex_time64
	{"FutexTime64", {{SYS_futex_time64, ENOSYS}}, {}, {{"sleep of a thread", "futex()"}}},
#endif
	{"ThreadClocks",
#ifdef SYS_clock_gettime64
	 {{SYS_clock_gettime64, EINVAL, 0x80000000}, {SYS_clock_gettime, EINVAL, 0x80000000}},
#else
	 {{SYS_clock_gettime, EINVAL, 0x80000000}},
#endif
	 {},
	 {{"threads that block are noticed", "not at all"}}},
	{"Timers", {{SYS_timer_create, ENOSYS}}, {}, {{"CPU profiles", "none"}}},
	{"Pidfds",
	 {{SYS_pidfd_open, ENOSYS}, {SYS_clone, EINVAL, 0x1000 /* CLONE_PIDFD */}},
	 {},
	 {{"end of a program", "asked for at intervals"},
	  {"status of a program", "waitid(P_PID)"},
	  {"signals to a program", "kill()"}}},
	{"WaitingByPidfd",
	 {{SYS_waitid, EINVAL, 2 /* a bit that P_PIDFD has and P_PID has not */}},
	 {},
	 {{"status of a program", "waitid(P_PID)"}}},
	{"SignalsByPidfd",
	 {{SYS_pidfd_send_signal, ENOSYS}},
	 {},
	 {{"signals to a program", "kill()"}}},
	{"CloseRange",
	 {{SYS_close_range, ENOSYS}},
	 {},
	 {{"descriptors of a program", "/proc/self/fd"}}},
	{"WritesWithoutWaiting",
	 {{SYS_pwritev2, EOPNOTSUPP}},
	 {},
	 {{"lines on stderr", "poll() and write()"}}},
};

INSTANTIATE_TEST_SUITE_P(Kernel, Fallbacks, testing::ValuesIn(fallbacks),
			 [](const auto &each) { return std::string(each.param.name); });

// membarrier() worked when the run began, and is refused during it.
struct Late {
	std::vector<Refusal> refusals;
	int fd;
};

int lose_the_barrier(void *arg)
{
	const Late &late = *static_cast<Late *>(arg);

	CHILD_CHECK(test::refuse(late.refusals));
	Task parked([] { return int(sn_sleep(test::ms)); });
	sn_yield();
	sn_task_scan(
		parked.get(), [](const sn_scan *, void *) {}, nullptr);
	parked.join();
	return sn_kernel_report(late.fd);
}

TEST(Kernel, ABarrierThatIsRefusedLaterIsReported)
{
	if (TEST_EMULATED || TEST_TSAN)
		GTEST_SKIP() << "no filters, or no threads after a fork";
	if (here().report["barrier on all threads"] != "membarrier()")
		GTEST_SKIP() << "membarrier() is not used here";
	for (const bool visits : {true, false}) {
		const Outcome outcome = in_child([visits](int fd) {
			Late late = {{{SYS_membarrier, EPERM}}, fd};

			if (!visits)
				late.refusals.push_back({SYS_sched_setaffinity, EPERM});
			// because the fallback logs a line
			dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
			CHILD_CHECK(sn_run(lose_the_barrier, &late) == 0);
		});

		EXPECT_EQ(0, outcome.status);
		EXPECT_TRUE(is_fallback(outcome.report.at("barrier on all threads"),
					visits ? "visits to every CPU" : "none"));
	}
}

// A filter of system calls belongs to threads. The report names how the last barrier was executed.
int lose_the_barrier_in_one_thread(void *fd)
{
	std::atomic<bool> over{false};
	Task parked([&] {
		while (!over)
			sn_sleep(test::ms);
		return 0;
	});
	const auto scan = [&] {
		return sn_task_scan(
			parked.get(), [](const sn_scan *, void *) {}, nullptr);
	};
	int result = -1;

	sn_yield();
	std::thread([&] {
		CHILD_CHECK(test::refuse({{SYS_membarrier, EPERM}}, 0));
		result = scan();
	}).join();
	CHILD_CHECK(result == 0);
	CHILD_CHECK(scan() == 0);
	over = true;
	parked.join();
	return sn_kernel_report(static_cast<int>(reinterpret_cast<intptr_t>(fd)));
}

TEST(Kernel, ABarrierThatIsRefusedToOneThreadIsNotReportedForOthers)
{
	if (TEST_EMULATED || TEST_TSAN)
		GTEST_SKIP() << "no filters, or no threads after a fork";
	if (here().report["barrier on all threads"] != "membarrier()")
		GTEST_SKIP() << "membarrier() is not used here";
	const Outcome outcome = in_child([](int fd) {
		// because the fallback logs a line
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		CHILD_CHECK(sn_run(lose_the_barrier_in_one_thread,
				   reinterpret_cast<void *>(intptr_t(fd))) == 0);
	});

	EXPECT_EQ(0, outcome.status);
	EXPECT_EQ("membarrier()", outcome.report.at("barrier on all threads"));
}

int make_cpu_profile(void *)
{
	const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC), err = sn_profile_cpu(fd, 0, 0);

	close(fd);
	return err < 0 ? err : 0;
}

TEST(Kernel, CpuProfilesCanBeMadeIfTheReportSaysSo)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "no threads after a fork, or no timers";
	Outcome outcome = in_child([](int fd) {
		CHILD_CHECK(sn_kernel_report(fd) == 0);
		_exit(sn_run(make_cpu_profile, nullptr) == 0 ? 7 : 8);
	});
	const std::string way = outcome.report["CPU profiles"];

	ASSERT_TRUE(WIFEXITED(outcome.status));
	EXPECT_EQ(way == "timers on CPU clocks" ? 7 : 8, WEXITSTATUS(outcome.status)) << way;
}

TEST(Kernel, TheReportFailsAsTheWriteDoes)
{
	EXPECT_EQ(0, in_child([](int) { CHILD_CHECK(sn_kernel_report(-1) == -EBADF); }).status);
}

} // namespace
