// SPDX-License-Identifier: MIT
//
// The dump of all tasks describes each kind of task and lists tasks at the same place together. A
// process that hangs can make a dump, too. No task is lost because of a dump.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/files.h"
#include "support/runtime.h"

// Exported and not inlined, so that backtraces contain their names.
#define NAMED extern "C" __attribute__((visibility("default"), noinline))
NAMED int dump_test_sleeps(void *arg);
NAMED int dump_test_receives(void *chan);
NAMED int dump_test_locks(void *mutex);
NAMED int dump_test_reads(void *fd);
NAMED int dump_test_computes(void *stop);
NAMED int dump_test_spawns(sn_task **task, sn_fn *fn, void *arg, const char *name);

extern "C" int dump_test_sleeps(void *)
{
	return sn_sleep(INT64_MAX);
}

extern "C" int dump_test_receives(void *chan)
{
	int item, err = sn_chan_recv(static_cast<sn_chan *>(chan), &item);

	return err < 0 ? err : item;
}

extern "C" int dump_test_locks(void *mutex)
{
	int err = sn_mutex_lock(static_cast<sn_mutex *>(mutex));

	return err < 0 ? err : sn_mutex_unlock(static_cast<sn_mutex *>(mutex));
}

extern "C" int dump_test_reads(void *fd)
{
	struct pollfd readable = {*static_cast<int *>(fd), POLLIN, 0};

	while (poll(&readable, 1, -1) < 0 && errno == EINTR)
		;
	return readable.revents ? 1 : 0;
}

extern "C" int dump_test_computes(void *stop)
{
	while (!*static_cast<std::atomic<bool> *>(stop))
		if (TEST_TSAN) // TSan delivers signals only in calls of the C library
			usleep(10);
	return 0;
}

extern "C" int dump_test_spawns(sn_task **task, sn_fn *fn, void *arg, const char *name)
{
	struct sn_task_attr attr = {};

	attr.name = name;
	int err = sn_spawn(task, fn, arg, &attr);

	return err;
}

namespace
{

std::string dump()
{
	return test::written_by(sn_dump);
}

bool has(const std::string &text, const char *pattern)
{
	return std::regex_search(text, std::regex(pattern));
}

// The part of the dump about the task with this name.
std::string part(const std::string &text, const std::string &name)
{
	size_t at = text.find("\"" + name + "\"");

	if (at == std::string::npos)
		return "";
	size_t begin = text.rfind("\n\n", at);
	size_t end = std::min(text.find("\n\n", at), text.find("\nsennit: end", at));
	return text.substr(begin, end - begin);
}

TEST(Dump, NoneOutsideARun)
{
	EXPECT_EQ(-ESRCH, sn_dump(2));
}

TASK_TEST(Dump, DescribesEachKindOfTask, 2, 4)
{
	std::atomic<bool> stop{false};
	sn_mutex mutex = SN_MUTEX_INIT;
	sn_task *tasks[5] = {};
	sn_chan *chan;
	int ends[2];

	ASSERT_EQ(0, sn_chan_new(&chan, sizeof(int), 0));
	ASSERT_EQ(0, sn_mutex_lock(&mutex));
	ASSERT_EQ(0, pipe(ends));
	ASSERT_EQ(0, dump_test_spawns(&tasks[0], dump_test_sleeps, nullptr, "sleeper"));
	ASSERT_EQ(0, dump_test_spawns(&tasks[1], dump_test_receives, chan, "receiver"));
	ASSERT_EQ(0, dump_test_spawns(&tasks[2], dump_test_locks, &mutex, "locker"));
	ASSERT_EQ(0, dump_test_spawns(&tasks[3], dump_test_reads, &ends[0], "reader"));
	ASSERT_EQ(0, dump_test_spawns(&tasks[4], dump_test_computes, &stop, "computer"));
	sn_sleep(50 * test::ms);
	// TSan passes a signal on so late that the registers have changed long before.
	const char *in_loop = TEST_TSAN ? "running|blocking" : "dump_test_computes";
	std::string text;
	// Repeats until all tasks are where they stay. Before that, the dump may show them
	// on their way.
	EXPECT_TRUE(test::eventually([&] {
		text = dump();
		return has(part(text, "sleeper"), "parked") &&
		       has(part(text, "receiver"), "parked") &&
		       has(part(text, "locker"), "parked") &&
		       has(part(text, "reader"), "dump_test_reads") &&
		       has(part(text, "computer"), in_loop);
	})) << text;
	EXPECT_TRUE(has(text, "^sennit: 6 tasks,")) << text;
	EXPECT_TRUE(has(text, "\nsennit: end of the dump\n$")) << text;
	std::string sleeper = part(text, "sleeper");
	EXPECT_TRUE(has(sleeper, "1 task parked, waits for a time, for ")) << text;
	EXPECT_TRUE(has(sleeper, "spawned at dump_test_spawns\\+0x.* by task [0-9]+")) << text;
	EXPECT_TRUE(has(sleeper, "#[0-9]+ 0x[0-9a-f]+ dump_test_sleeps\\+0x[0-9a-f]+ \\(")) << text;
	// The backtrace ends at the task's function.
	for (const char *name : {"sleeper", "receiver", "locker", "reader"})
		EXPECT_TRUE(has(part(text, name), "sn_arch_task_start[^\n]*$")) << name << text;
	char object[64];
	snprintf(object, sizeof object, "in %p", static_cast<void *>(chan));
	EXPECT_NE(std::string::npos, part(text, "receiver").find(object)) << text;
	EXPECT_TRUE(has(part(text, "receiver"), "waits for a channel")) << text;
	EXPECT_TRUE(has(part(text, "receiver"), "dump_test_receives")) << text;
	EXPECT_TRUE(has(part(text, "locker"), "waits for a mutex")) << text;
	EXPECT_TRUE(has(part(text, "locker"), "dump_test_locks")) << text;
	EXPECT_TRUE(has(part(text, "reader"), "(blocking|running), for ")) << text;
	EXPECT_TRUE(has(part(text, "computer"), "(blocking|running), for ")) << text;
	EXPECT_TRUE(has(part(text, "main"), "sn_dump")) << text;

	stop = true;
	ASSERT_EQ(1, write(ends[1], "x", 1));
	ASSERT_EQ(0, sn_mutex_unlock(&mutex));
	ASSERT_EQ(0, sn_chan_close(chan));
	for (int i = 1; i < 5; i++)
		EXPECT_EQ(0, sn_join(tasks[i], nullptr));
	sn_detach(tasks[0]);
	sn_chan_unref(chan);
	close(ends[0]);
	close(ends[1]);
}

TEST(Dump, GroupsTasksThatDoTheSame)
{
	test::Environment listed("SENNIT_DUMP_TASKS", "3");

	test::run(2, [] {
		const int n = test::scaled(20000);

		for (int i = 0; i < n; i++) {
			sn_task *task;
			ASSERT_EQ(0, dump_test_spawns(&task, dump_test_sleeps, nullptr, nullptr));
			sn_detach(task);
		}
		sn_yield();
		const std::string whole = std::to_string(n) + " tasks parked, waits for a time";
		std::string text;
		EXPECT_TRUE(test::eventually([&] {
			text = dump();
			return text.find(whole) != std::string::npos;
		})) << text;
		EXPECT_LT(text.size(), 8000u) << text;
		EXPECT_TRUE(has(text, ("and " + std::to_string(n - 3) + " more").c_str())) << text;
	});
}

TASK_TEST(Dump, WorksFromAForeignThread, 2)
{
	std::string text;

	std::thread([&] { text = dump(); }).join();
	EXPECT_TRUE(has(text, "^sennit: 1 task,")) << text;
	EXPECT_TRUE(has(part(text, "main"), "(running|blocking)")) << text;
}

TASK_TEST(Dump, ReportsWriteErrors, 2)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	EXPECT_EQ(-ENOSPC, sn_dump(fd));
	EXPECT_EQ(-EBADF, sn_dump(-1));
	close(fd);
}

TASK_TEST(Dump, OneAtATime, 2, 4)
{
	int ends[2];
	std::vector<test::Task> many;
	std::atomic<int> result{1};

	ASSERT_EQ(0, pipe(ends));
	fcntl(ends[1], F_SETPIPE_SZ, 4096);
	for (int i = 0; i < 200; i++) // more than the pipe holds
		many.emplace_back([] { sn_sleep(INT64_MAX); });
	test::Environment listed("SENNIT_DUMP_TASKS", "1000");
	std::thread first([&] { result = sn_dump(ends[1]); });
	struct pollfd readable = {ends[0], POLLIN, 0};
	while (poll(&readable, 1, -1) < 0) // the dump's signal interrupts this thread
		EXPECT_EQ(EINTR, errno);
	EXPECT_EQ(-EBUSY, sn_dump(2));
	char buffer[65536];
	while (result == 1)
		if (poll(&readable, 1, 10) > 0) {
			EXPECT_LT(0, read(ends[0], buffer, sizeof buffer));
		}
	first.join();
	EXPECT_EQ(0, result);
	for (test::Task &task : many)
		task.detach();
	close(ends[0]);
	close(ends[1]);
}

// While tasks of all kinds begin and end, none of them is lost, and each dump is complete.
TASK_TEST(Dump, WhileEverythingMoves, 1, 4)
{
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> rounds{0};
	std::vector<test::Task> tasks;

	for (int i = 0; i < 20; i++)
		tasks.emplace_back([&, i] {
			while (!stop) {
				test::Task child([] { sn_yield(); });

				child.join();
				if (i % 4 == 0)
					sn_sleep(100 * test::us);
				else if (i % 4 == 1)
					usleep(50);
				else
					sn_yield();
				rounds++;
			}
		});
	for (int i = 0; i < test::scaled(30); i++) {
		const uint64_t before = rounds;
		std::string text = dump();

		ASSERT_TRUE(has(text, "^sennit: [0-9]+ tasks,")) << text;
		ASSERT_TRUE(has(text, "sennit: end of the dump\n$")) << text;
		ASSERT_TRUE(test::eventually([&] { return rounds > before + 20; }));
	}
	stop = true;
	test::join_all(tasks);
	EXPECT_TRUE(test::all_ended());
}

// ---- by signal ----

// Foreign code keeps every processor, so no task can be made to run.
void hang(int processors)
{
	static std::atomic<bool> never;

	test::run(processors, [processors] {
		for (int i = 0; i < 3 * processors; i++) {
			sn_task *task;

			CHILD_CHECK(dump_test_spawns(&task, dump_test_computes, &never, "busy") ==
				    0);
		}
		CHILD_CHECK(write(STDERR_FILENO, "hangs\n", 6) == 6);
		dump_test_computes(&never);
	});
}

std::string quit(int signum, const std::function<void()> &body, const char *end, int *status)
{
	int ends[2];
	std::string text;
	char buffer[4096];
	bool sent = false, ended = false;
	pid_t child;

	EXPECT_EQ(0, pipe(ends));
	child = fork();
	if (child == 0) {
		const struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none); // some of the signals would write a core file
		// a shell makes its background jobs ignore the signal
		signal(SIGQUIT, SIG_DFL);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		body();
		_exit(7);
	}
	close(ends[1]);
	const int64_t deadline = sn_now() + test::patience;
	while (sn_now() < deadline && text.find(end) == std::string::npos) {
		struct pollfd readable = {ends[0], POLLIN, 0};

		if (poll(&readable, 1, 100) > 0) {
			ssize_t n = read(ends[0], buffer, sizeof buffer);

			ended = n <= 0;
			if (ended)
				break;
			text.append(buffer, size_t(n));
		}
		if (!sent && text.find("hangs\n") != std::string::npos) {
			usleep(30000);
			kill(child, signum);
			sent = true;
		}
	}
	*status = 0;
	// The child ends a moment after its output does.
	if (!ended)
		kill(child, SIGKILL);
	waitpid(child, status, 0);
	close(ends[0]);
	return text;
}

TEST(Quit, DumpsAHungProcess)
{
	for (int processors : {1, 2}) {
		int status;
		std::string text;

		// The machine may run a thread too late for the dump, which then says so, or so
		// late that the thread has not reached the place where it hangs.
		const char *wanted = TEST_TSAN ? "main" : "dump_test_computes"; // as above
		for (const int64_t until = sn_now() + test::patience; sn_now() < until;) {
			text = quit(
				SIGQUIT, [=] { hang(processors); }, "end of the dump\n", &status);
			if (has(part(text, "main"), wanted))
				break;
		}
		EXPECT_TRUE(has(text, "sennit: [0-9]+ tasks,")) << text;
		EXPECT_TRUE(has(part(text, "main"), wanted)) << text;
		EXPECT_NE("", part(text, "main")) << text;
		EXPECT_EQ(SIGKILL, WTERMSIG(status)) << "the program continued until then";
	}
}

TEST(Quit, AnotherSignalCanBeChosen)
{
	test::Environment number("SENNIT_DUMP_SIGNAL", std::to_string(SIGUSR1));
	int status;
	std::string text = quit(
		SIGUSR1, [] { hang(2); }, "end of the dump\n", &status);

	EXPECT_TRUE(has(text, "end of the dump")) << text;
}

TEST(Quit, CanBeSwitchedOff)
{
	test::Environment number("SENNIT_DUMP_SIGNAL", "0");
	int status;
	std::string text = quit(
		SIGQUIT, [] { hang(2); }, "no such text", &status);

	if (TEST_EMULATED) // the emulator then prints a line of its own
		text.resize(std::min(text.size(), text.find('\n') + 1));
	EXPECT_EQ("hangs\n", text);
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGQUIT, WTERMSIG(status));
}

TEST(Quit, TheProgramsOwnHandlerStays)
{
	int status;
	std::string text = quit(
		SIGQUIT,
		[] {
			signal(SIGQUIT,
			       [](int) { _exit(write(STDERR_FILENO, "mine\n", 5) == 5 ? 5 : 6); });
			hang(2);
		},
		"mine\n", &status);

	EXPECT_EQ("hangs\nmine\n", text);
}

TEST(Quit, DumpsAnIdleProcess)
{
	const char *wanted = "1 task parked, waits for a time";
	std::string text;
	int status;

	// As above.
	for (const int64_t until = sn_now() + test::patience;
	     !has(part(text, "main"), wanted) && sn_now() < until;)
		text = quit(
			SIGQUIT,
			[] {
				test::run(2, [] {
					sn_sleep(500 * test::ms); // until the monitor sleeps
					CHILD_CHECK(write(STDERR_FILENO, "hangs\n", 6) == 6);
					dump_test_sleeps(nullptr);
				});
			},
			"end of the dump\n", &status);
	EXPECT_TRUE(has(part(text, "main"), wanted)) << text;
}

// The next test starts this one in the background. It makes a dump when asked to, then ends.
TEST(Quit, Background)
{
	const char *report = getenv("SENNIT_TEST_REPORT");

	if (!report)
		GTEST_SKIP() << "another test runs this one";
	int fd = open(report, O_RDWR | O_CLOEXEC);

	ASSERT_LE(0, dup2(fd, STDERR_FILENO));
	test::run(2, [fd] {
		kill(getpid(), SIGQUIT);
		EXPECT_TRUE(test::eventually(
			[fd] { return has(test::contents(fd), "end of the dump"); }));
	});
	struct sigaction after;

	ASSERT_EQ(0, sigaction(SIGQUIT, nullptr, &after));
	EXPECT_EQ(SIG_IGN, after.sa_handler) << "restored";
}

TEST(Quit, DumpsABackgroundJobOfAScript)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "programs cannot execute themselves here";
	char name[] = "/tmp/sennit-dump-XXXXXX", self[4096] = "";
	int fd = mkstemp(name);

	ASSERT_LE(0, fd);
	ASSERT_LT(0, readlink("/proc/self/exe", self, sizeof self - 1));
	test::Environment report("SENNIT_TEST_REPORT", name), program("SENNIT_TEST_SELF", self);
	EXPECT_EQ(0, system("\"$SENNIT_TEST_SELF\" --gtest_filter=Quit.Background >&2 & wait $!"));
	const std::string text = test::contents(fd);
	EXPECT_TRUE(has(text, "sennit: [0-9]+ tasks?,")) << text;
	unlink(name);
	close(fd);
}

TEST(Quit, WhatTheProgramIgnoresStaysIgnored)
{
	int status;
	std::string text = quit(
		SIGQUIT,
		[] {
			test::run(2,
				  // the signal begins with its default action here, whatever action
				  // the test has inherited
				  [] {
					  struct sigaction now;

					  CHILD_CHECK(sigaction(SIGQUIT, nullptr, &now) == 0);
					  CHILD_CHECK(now.sa_handler != SIG_DFL &&
						      now.sa_handler != SIG_IGN);
				  });
			signal(SIGUSR1, SIG_IGN);
			for (const char *wish : {"", "10"}) {
				const bool asked_for = *wish;

				setenv("SENNIT_DUMP_SIGNAL", wish, 1);
				test::run(2, [asked_for] {
					struct sigaction now;

					CHILD_CHECK(sigaction(SIGUSR1, nullptr, &now) == 0);
					CHILD_CHECK((now.sa_handler == SIG_IGN) != asked_for);
				});
			}
			CHILD_CHECK(write(STDERR_FILENO, "done\n", 5) == 5);
		},
		"done\n", &status);

	EXPECT_EQ("done\n", text);
}

TEST(Quit, TheHandlerIsRestoredAfterTheRun)
{
	struct sigaction now;

	signal(SIGQUIT, SIG_DFL);
	test::run(1, [] {
		struct sigaction during;

		ASSERT_EQ(0, sigaction(SIGQUIT, nullptr, &during));
		EXPECT_NE(SIG_DFL, during.sa_handler);
	});
	ASSERT_EQ(0, sigaction(SIGQUIT, nullptr, &now));
	EXPECT_EQ(SIG_DFL, now.sa_handler);
	for (const char *wish : {"100", "4", "5", "8", "11"}) { // SIGILL, SIGTRAP, SIGFPE, SIGSEGV
		test::Environment number("SENNIT_DUMP_SIGNAL", wish);
		EXPECT_EQ(-EINVAL, sn_run([](void *) { return 0; }, nullptr)) << wish;
	}
}

} // namespace
