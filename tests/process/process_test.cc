// SPDX-License-Identifier: MIT
// Labels: machine
//
// Programs that tasks start: what they inherit, how tasks wait for them and end them, and what is
// left afterwards.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/child.h"
#include "support/hanging.h"
#include "support/net.h"
#include "support/refused.h"

namespace
{

using test::soon;
using test::Task;

// The argument vector that the C interface takes.
class Arguments
{
public:
	Arguments(std::initializer_list<std::string> words) : words_(words)
	{
		for (std::string &word : words_)
			pointers_.push_back(word.c_str());
		pointers_.push_back(nullptr);
	}
	Arguments(const Arguments &) = delete;
	Arguments &operator=(const Arguments &) = delete;
	operator const char * const *() const { return pointers_.data(); }

private:
	std::vector<std::string> words_;
	std::vector<const char *> pointers_;
};

constexpr sn_process_stdio a_pipe = {SN_PROCESS_PIPE, 0};

sn_process *start(const Arguments &argv, const sn_process_attr *attr = nullptr)
{
	sn_process *process = nullptr;

	EXPECT_EQ(0, sn_process_start(&process, argv, attr));
	if (!process)
		abort(); // without these, nothing else in the test would make sense
	return process;
}

int open_descriptors()
{
	DIR *directory = opendir("/proc/self/fd");
	int n = -1; // does not count the descriptor of the directory itself

	while (readdir(directory))
		n++;
	closedir(directory);
	return n;
}

// Waits for the process, and frees the handle. Returns the exit code, or 1000 plus the signal.
int end_of(sn_process *process)
{
	sn_process_status status = {};

	EXPECT_EQ(0, sn_process_wait(process, &status, soon()));
	EXPECT_EQ(0, sn_process_close(process));
	return status.signum ? 1000 + status.signum : status.exit_code;
}

// Whether a process of that number exists, as a zombie or otherwise.
bool exists(pid_t pid)
{
	return kill(pid, 0) == 0;
}

TASK_TEST(Process, ExitsWithACode)
{
	sn_process *process = start({"sh", "-c", "exit 7"});
	sn_process_status status = {};
	const pid_t pid = sn_process_pid(process);

	EXPECT_LT(0, pid);
	ASSERT_EQ(0, sn_process_wait(process, &status, soon()));
	EXPECT_EQ(7, status.exit_code);
	EXPECT_EQ(0, status.signum);
	EXPECT_EQ(0, status.core_dumped);
	EXPECT_FALSE(exists(pid)) << "a zombie is left";
	// A second wait works as well, by any number of tasks, and with a deadline in the
	// past.
	EXPECT_EQ(0, sn_process_wait(process, nullptr, 1));
	EXPECT_EQ(pid, sn_process_pid(process));
	EXPECT_EQ(-ESRCH, sn_process_kill(process, SIGTERM));
	EXPECT_EQ(0, sn_process_close(process));
	EXPECT_EQ(-ESRCH, sn_process_wait(process, nullptr, 1));
	EXPECT_EQ(-ESRCH, sn_process_close(process));
}

TASK_TEST(Process, IsKilled)
{
	sn_process *process = start({"sleep", "1000"});
	sn_process_status status = {};

	EXPECT_EQ(-ETIMEDOUT, sn_process_wait(process, &status, 1));
	EXPECT_EQ(-ETIMEDOUT, sn_process_wait(process, &status, sn_now() + test::ms));
	EXPECT_EQ(0, sn_process_kill(process, 0));
	EXPECT_EQ(-EINVAL, sn_process_kill(process, 1000));
	EXPECT_EQ(-EINVAL, sn_process_kill_group(process, SIGTERM));
	EXPECT_EQ(0, sn_process_kill(process, SIGTERM));
	ASSERT_EQ(0, sn_process_wait(process, &status, soon()));
	EXPECT_EQ(SIGTERM, status.signum);
	EXPECT_EQ(-1, status.exit_code);
	EXPECT_EQ(0, sn_process_close(process));
}

TASK_TEST(Process, SeveralTasksWait)
{
	sn_process *process = start({"sleep", "1000"});
	std::vector<Task> waiting;
	std::atomic<int> about_to = 0;

	for (int i = 0; i < 10; i++)
		waiting.emplace_back([&] {
			sn_process_status status = {};

			about_to++;
			EXPECT_EQ(0, sn_process_wait(process, &status, soon()));
			return status.signum;
		});
	EXPECT_TRUE(test::eventually([&] { return about_to == 10; }));
	EXPECT_EQ(0, sn_process_kill(process, SIGKILL));
	for (Task &task : waiting)
		EXPECT_EQ(SIGKILL, task.join());
	EXPECT_EQ(0, sn_process_close(process));
}

TASK_TEST(Process, ThatCannotBeStartedIsAnError)
{
	sn_process *process = nullptr;
	sn_process_attr attr = {};

	EXPECT_EQ(-ENOENT, sn_process_start(&process, Arguments{"there-is-no-such"}, nullptr));
	EXPECT_EQ(-ENOENT, sn_process_start(&process, Arguments{""}, nullptr));
	EXPECT_EQ(-EACCES, sn_process_start(&process, Arguments{"/etc/passwd"}, nullptr));
	EXPECT_EQ(-EACCES, sn_process_start(&process, Arguments{"/"}, nullptr));
	EXPECT_EQ(-ENOTDIR, sn_process_start(&process, Arguments{"/etc/passwd/x"}, nullptr));
	EXPECT_EQ(-E2BIG, sn_process_start(&process, Arguments{"true", std::string(1 << 20, 'x')},
					   nullptr));
	attr.directory = "/no/such/directory";
	EXPECT_EQ(-ENOENT, sn_process_start(&process, Arguments{"true"}, &attr));
	attr.directory = "/etc/passwd";
	EXPECT_EQ(-ENOTDIR, sn_process_start(&process, Arguments{"true"}, &attr));
	attr = {};
	attr.flags = 1u << 31;
	EXPECT_EQ(-EINVAL, sn_process_start(&process, Arguments{"true"}, &attr));
	EXPECT_EQ(nullptr, process);
	EXPECT_EQ(-1, waitpid(-1, nullptr, WNOHANG));
	EXPECT_EQ(ECHILD, errno) << "a child is left";
	EXPECT_TRUE(test::all_ended()) << "a keeper is left";
}

TASK_TEST(Process, ReadsAndWritesPipes)
{
	sn_process_attr attr = {};
	char buf[16];
	size_t done = 0;

	attr.in = attr.out = a_pipe;
	sn_process *process = start({"cat"}, &attr);
	sn_stream *in = sn_process_stream(process, 0), *out = sn_process_stream(process, 1);
	EXPECT_EQ(nullptr, sn_process_stream(process, 2));
	EXPECT_EQ(nullptr, sn_process_stream(process, 3));
	EXPECT_EQ(5, sn_stream_write_all(in, "hello", 5, nullptr));
	EXPECT_EQ(5, sn_stream_read_full(out, buf, 5, &done));
	EXPECT_EQ("hello", std::string(buf, 5));
	EXPECT_EQ(0, sn_stream_close(in));
	EXPECT_EQ(0, sn_stream_read(out, buf, sizeof buf));
	EXPECT_EQ(0, end_of(process));
	EXPECT_EQ(-EBADF, sn_stream_read(out, buf, sizeof buf)) << "closed with the process";
}

// In a 32-bit process, handles repeat after 63 others.
TASK_TEST(Process, ClosesNoOthersConnection, 1)
{
	constexpr int most = 200;
	sn_process_attr attr = {};
	std::vector<int> far_ends;

	attr.in = a_pipe;
	sn_process *process = start({"cat"}, &attr);
	sn_stream *const in = sn_process_stream(process, 0);
	sn_stream *stranger = nullptr;
	EXPECT_EQ(0, sn_stream_close(in));
	EXPECT_EQ(nullptr, sn_process_stream(process, 0));
	for (int i = 0; i < most && stranger != in; i++) {
		int ends[2];

		ASSERT_EQ(0, sn_stream_close(stranger));
		ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
		ASSERT_EQ(0, sn_stream_adopt(&stranger, ends[0]));
		far_ends.push_back(ends[1]);
	}
	if (sizeof(void *) == 4) {
		EXPECT_EQ(in, stranger) << "the test does not reach the same handle";
	}
	EXPECT_EQ(nullptr, sn_process_stream(process, 0));
	EXPECT_EQ(0, end_of(process));
	EXPECT_LE(0, sn_stream_fd(stranger)) << "it was closed";
	sn_stream_close(stranger);
	for (const int each : far_ends)
		close(each);
}

// ---- what the program inherits ----

// The standard output of a program; if err.kind is SN_PROCESS_STDOUT, its errors are included.
std::string output_of(const Arguments &argv, const sn_process_attr *attr = nullptr)
{
	sn_process_result output = {};

	EXPECT_EQ(0, sn_process_output(&output, argv, nullptr, 0, 0, attr, soon()));
	EXPECT_EQ(0, output.status.exit_code) << (output.err ? output.err : "");
	const std::string text(output.out ? output.out : "", output.out_size);
	sn_process_result_free(&output);
	return text;
}

// The first line that a program writes.
std::string line_of(sn_process *process)
{
	std::string line;
	char byte;

	while (sn_stream_read(sn_process_stream(process, 1), &byte, 1) == 1 && byte != '\n')
		line += byte;
	return line;
}

std::string shell(const std::string &script, const sn_process_attr *attr = nullptr)
{
	return output_of({"sh", "-c", script}, attr);
}

std::string with_environment(const char *const *environment, const char *const *changes)
{
	sn_process_attr attr = {};

	attr.environment = environment;
	attr.changes = changes;
	return output_of({"env"}, &attr);
}

TEST(ProcessGets, AnEnvironment)
{
	test::Environment one("SENNIT_TEST_ONE", "1"), two("SENNIT_TEST_TWO", "2");

	test::run({1}, [] {
		std::string all = with_environment(nullptr, nullptr);
		EXPECT_NE(std::string::npos, all.find("SENNIT_TEST_ONE=1\n"));
		EXPECT_EQ("X=1\nY=2\n", with_environment(Arguments{"X=1", "Y=2"}, nullptr));
		EXPECT_EQ("", with_environment(Arguments{}, nullptr));
		EXPECT_EQ("Y=2\nXX=5\nX=4\n",
			  with_environment(Arguments{"X=1", "Y=2", "Z=", "XX=5"},
					   Arguments{"X=3", "Z", "NONE", "X=4"}));
		all = with_environment(nullptr, Arguments{"SENNIT_TEST_ONE", "SENNIT_TEST_TWO=3"});
		EXPECT_EQ(std::string::npos, all.find("SENNIT_TEST_ONE"));
		EXPECT_EQ(std::string::npos, all.find("SENNIT_TEST_TWO=2"));
		EXPECT_NE(std::string::npos, all.find("SENNIT_TEST_TWO=3\n"));
		sn_process_attr attr = {};
		sn_process *process = nullptr;
		const Arguments nameless{"=x"};
		attr.changes = nameless;
		EXPECT_EQ(-EINVAL, sn_process_start(&process, Arguments{"true"}, &attr));
	});
}

TASK_TEST(ProcessGets, ADirectory, 1)
{
	sn_process_attr attr = {};

	attr.directory = "/";
	EXPECT_EQ("/\n", shell("pwd", &attr));
}

// A directory for files, which is removed together with them.
class Directory
{
public:
	Directory() { EXPECT_NE(nullptr, mkdtemp(path_.data())) << path_; }
	~Directory()
	{
		for (const std::string &file : files_)
			unlink(file.c_str());
		rmdir(path_.c_str());
	}
	Directory(const Directory &) = delete;
	Directory &operator=(const Directory &) = delete;

	const std::string &path() const { return path_; }
	std::string add(const std::string &name, const std::string &text, mode_t mode)
	{
		const std::string file = path_ + "/" + name;
		FILE *out = fopen(file.c_str(), "we");

		EXPECT_NE(nullptr, out) << file;
		EXPECT_EQ(text.size(), fwrite(text.data(), 1, text.size(), out));
		EXPECT_EQ(0, fclose(out));
		EXPECT_EQ(0, chmod(file.c_str(), mode));
		files_.push_back(file);
		return file;
	}

private:
	std::string path_ = "/tmp/sennit-process-XXXXXX";
	std::vector<std::string> files_;
};

TEST(ProcessGets, FoundByItsName)
{
	Directory first, second;
	test::Environment path("PATH", first.path() + ":" + second.path() + ":/usr/bin:/bin");
	const std::string script = "#!/bin/sh\necho found $0\n";

	first.add("closed", script, 0600);
	first.add("both", script, 0600);
	const std::string both = second.add("both", script, 0700);
	second.add("raw", "echo raw\n", 0700);
	test::run({1}, [&] {
		sn_process *process = nullptr;
		sn_process_attr attr = {};

		// A file that must not be executed is skipped, but the error is remembered.
		EXPECT_EQ("found " + both + "\n", output_of({"both"}));
		EXPECT_EQ(-EACCES, sn_process_start(&process, Arguments{"closed"}, nullptr));
		EXPECT_EQ(-ENOEXEC, sn_process_start(&process, Arguments{"raw"}, nullptr));
		attr.flags = SN_PROCESS_NO_SEARCH;
		EXPECT_EQ(-ENOENT, sn_process_start(&process, Arguments{"both"}, &attr));
		attr.directory = second.path().c_str();
		EXPECT_EQ("found both\n", output_of({"both"}, &attr));
		attr = {};
		attr.program = "sh";
		EXPECT_EQ("another\n", output_of({"another", "-c", "echo $0"}, &attr));
	});
}

TEST(ProcessGets, NoOtherDescriptors)
{
	int open_ends[2];

	ASSERT_EQ(0, pipe(open_ends)); // not close-on-exec
	ASSERT_EQ(500, dup2(open_ends[0], 500));
	test::run({1}, [&] {
		const std::string list = "cd /proc/$$/fd && echo *";
		const sn_process_descriptor further[] = {{open_ends[1], 7}, {open_ends[0], 600}};
		sn_process_attr attr = {};

		// The last number is the directory that the shell itself reads.
		EXPECT_EQ("0 1 2 3\n", shell(list));
		attr.descriptors = further;
		attr.descriptor_count = 2;
		EXPECT_EQ("0 1 2 3 600 7\n", shell(list, &attr));
	});
	close(500);
	close(open_ends[0]);
	close(open_ends[1]);
}

// Checks that a program has no standard input. Runs in a child process of its own.
void expect_no_input(void (*before_the_run)(), void (*in_the_run)())
{
	const pid_t child = fork();

	ASSERT_GE(child, 0);
	if (child == 0) {
		static void (*change)();

		change = in_the_run;
		before_the_run();
		_exit(sn_run(
			[](void *) {
				change();
				CHILD_CHECK(fcntl(0, F_GETFD) != 0); // not open, or close-on-exec
				sn_process_attr attr = {};

				attr.out = a_pipe;
				sn_process *process = start(
					{"sh", "-c", "readlink /proc/$$/fd/0 || echo none"}, &attr);
				const std::string seen = line_of(process);
				CHILD_CHECK(end_of(process) == 0);
				if (seen != "none")
					fprintf(stderr, "the program has as its input: %s\n",
						seen.c_str());
				return seen == "none" ? 0 : 1;
			},
			nullptr));
	}
	int status;
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

// Nor does the program get one under the number of a standard descriptor that this process has
// closed.
TEST(ProcessGets, NoDescriptorOfOursAsAStandardOne)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "no threads after a fork";
	const auto close_input = [] { CHILD_CHECK(close(0) == 0); };
	const auto nothing_more = [] {};

	// The runtime does not take the number, but its monitor may have a file open there for a
	// moment.
	expect_no_input(close_input, [] {
		CHILD_CHECK(test::eventually([] { return fcntl(0, F_GETFD) < 0; }));
	});
	// and the pipe to the program does not take the number either
	expect_no_input(nothing_more, close_input);
	expect_no_input(close_input, [] {
		struct stat about = {};

		// The listener takes it, unless the monitor has it at that moment, and is
		// close-on-exec.
		CHILD_CHECK(test::eventually([&] {
			sn_tcp_listener *listener = nullptr;

			CHILD_CHECK(sn_tcp_listen(&listener, "127.0.0.1:0") == 0);
			return fstat(0, &about) == 0 && S_ISSOCK(about.st_mode);
		}));
		CHILD_CHECK(fcntl(0, F_GETFD) == FD_CLOEXEC);
	});
	expect_no_input(
		[] {
			CHILD_CHECK(close(0) == 0);
			CHILD_CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) == 0);
		},
		nothing_more);
}

// This holds when descriptors have to change places, or when each is the other's standard
// descriptor.
TEST(ProcessGets, DescriptorsUnderOtherNumbers)
{
	Directory directory;
	int fd[3];

	for (int i = 0; i < 3; i++)
		fd[i] = open(
			directory.add("file" + std::to_string(i), std::to_string(i) + "\n", 0600)
				.c_str(),
			O_RDONLY | O_CLOEXEC);
	test::run({1}, [&] {
		const sn_process_descriptor further[] = {
			{fd[0], fd[1]}, {fd[1], fd[2]}, {fd[2], fd[0]}};
		sn_process_attr attr = {};
		const auto read_from = [](int number) {
			return "head -n1 /proc/self/fd/" + std::to_string(number) + ";";
		};

		attr.descriptors = further;
		attr.descriptor_count = 3;
		EXPECT_EQ("2\n0\n1\n",
			  shell(read_from(fd[0]) + read_from(fd[1]) + read_from(fd[2]), &attr));
		sn_process *process = nullptr;
		const sn_process_descriptor wrong[] = {
			{fd[0], 2}, {fd[0], 5}, {fd[1], 5}, {999, 6}};
		attr.descriptor_count = 1;
		attr.descriptors = &wrong[0];
		EXPECT_EQ(-EINVAL, sn_process_start(&process, Arguments{"true"}, &attr));
		attr.descriptors = &wrong[3];
		EXPECT_EQ(-EBADF, sn_process_start(&process, Arguments{"true"}, &attr));
		attr.descriptor_count = 2;
		attr.descriptors = &wrong[1];
		EXPECT_EQ(-EINVAL, sn_process_start(&process, Arguments{"true"}, &attr));
	});
	for (const int each : fd)
		close(each);
}

TASK_TEST(ProcessGets, StandardDescriptors, 1)
{
	sn_process_attr attr = {};

	attr.err = {SN_PROCESS_STDOUT, 0};
	EXPECT_EQ("out\nerr\n", shell("echo out; echo err >&2", &attr));
	attr.err = {SN_PROCESS_NULL, 0};
	EXPECT_EQ("out\n", shell("echo out; echo err >&2", &attr));
	int ends[2];
	ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
	attr.err = {SN_PROCESS_DESCRIPTOR, ends[1]};
	EXPECT_EQ("out\n", shell("echo out; echo err >&2", &attr));
	char buf[16];
	EXPECT_EQ(4, read(ends[0], buf, sizeof buf));
	attr = {};
	attr.in = {SN_PROCESS_DESCRIPTOR, ends[0]};
	attr.out = {SN_PROCESS_DESCRIPTOR, ends[1]};
	attr.err = {SN_PROCESS_STDOUT, 0};
	EXPECT_EQ(2, write(ends[1], "x\n", 2));
	EXPECT_EQ(0, end_of(start({"sh", "-c", "read a; echo $a$a >&2"}, &attr)));
	EXPECT_EQ(3, read(ends[0], buf, sizeof buf));
	EXPECT_EQ("xx\n", std::string(buf, 3));
	close(ends[0]);
	close(ends[1]);
	sn_process *process = nullptr;
	attr = {};
	attr.in = {SN_PROCESS_STDOUT, 0};
	EXPECT_EQ(-EINVAL, sn_process_start(&process, Arguments{"true"}, &attr));
	attr.in = {SN_PROCESS_DESCRIPTOR, 999};
	EXPECT_EQ(-EBADF, sn_process_start(&process, Arguments{"true"}, &attr));
}

// Whether the program has been loaded and waits for something, or has ended.
bool waits_or_has_ended(pid_t pid, const std::string &name)
{
	std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
	std::string text;

	return !std::getline(file, text) || text.find("(" + name + ") S") != text.npos;
}

// An accepted connection as standard input and output, as inetd(8) does it. Its O_NONBLOCK would be
// the program's, too.
TASK_TEST(ProcessGets, AConnection)
{
	test::Pair pair;
	const int fd = sn_tcp_fd(pair.server);
	char buf[8];

	ASSERT_EQ(0, fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
	sn_process_attr attr = {};

	attr.in = attr.out = {SN_PROCESS_DESCRIPTOR, fd};
	sn_process *process = start({"cat"}, &attr);
	const pid_t pid = sn_process_pid(process);

	sn_tcp_set_read_deadline(pair.client, soon());
	EXPECT_TRUE(test::eventually([&] { return waits_or_has_ended(pid, "cat"); }));
	ASSERT_EQ(5, sn_tcp_write_all(pair.client, "hello", 5, nullptr));
	ASSERT_EQ(5, sn_tcp_read_full(pair.client, buf, 5, nullptr));
	EXPECT_EQ(0, sn_tcp_shutdown(pair.client, SN_SHUT_WRITE));
	EXPECT_EQ(0, end_of(process));
}

TASK_TEST(ProcessGets, ATerminal, 1)
{
	sn_process_attr attr = {};
	std::string text;
	char buf[256];
	ssize_t n;

	attr.in = attr.out = attr.err = {SN_PROCESS_TERMINAL, 0};
	attr.rows = 33;
	attr.columns = 44;
	sn_process *process = start({"sh", "-c",
				     "test -t 0 && test -t 1 && test -t 2 && stty size && "
				     "read line && echo got $line >/dev/tty"},
				    &attr);
	sn_stream *stream = sn_process_stream(process, 0);
	EXPECT_EQ(stream, sn_process_stream(process, 1));
	EXPECT_EQ(stream, sn_process_stream(process, 2));
	EXPECT_EQ(6, sn_stream_write_all(stream, "hello\n", 6, nullptr));
	while ((n = sn_stream_read(stream, buf, sizeof buf)) > 0)
		text.append(buf, size_t(n));
	EXPECT_EQ(-EIO, n);
	EXPECT_NE(std::string::npos, text.find("33 44\r\n")) << text;
	EXPECT_NE(std::string::npos, text.find("got hello\r\n")) << text;
	EXPECT_EQ(0, end_of(process));
}

TASK_TEST(ProcessGets, Limits, 1)
{
	const sn_process_limit limits[] = {{RLIMIT_NOFILE, 77, 88}, {RLIMIT_CORE, 0, 0}};
	sn_process_attr attr = {};
	sn_process *process = nullptr;

	attr.limits = limits;
	attr.limit_count = 2;
	EXPECT_EQ("77 88 0\n", shell("echo $(ulimit -Sn) $(ulimit -Hn) $(ulimit -c)", &attr));
	const sn_process_limit wrong[] = {{RLIMIT_NOFILE, 2, 1}, {12345, 1, 1}};
	attr.limit_count = 1;
	attr.limits = &wrong[0];
	EXPECT_EQ(-EINVAL, sn_process_start(&process, Arguments{"true"}, &attr));
	attr.limits = &wrong[1];
	EXPECT_EQ(-EINVAL, sn_process_start(&process, Arguments{"true"}, &attr));
}

// A set of signals in /proc/self/status, of a program.
uint64_t signals_of(const char *name, const sn_process_attr *attr)
{
	const std::string text = output_of({"grep", name, "/proc/self/status"}, attr);

	return strtoull(text.substr(text.find(':') + 1).c_str(), nullptr, 16);
}

// The same set of this process.
uint64_t own_signals(const std::string &name)
{
	std::ifstream status("/proc/self/status");

	for (std::string line; std::getline(status, line);)
		if (line.starts_with(name + ":"))
			return strtoull(line.substr(name.size() + 1).c_str(), nullptr, 16);
	ADD_FAILURE() << "no " << name << " in /proc/self/status";
	return 0;
}

void nothing(int) {}

// The signals that the C library reserves: 32 and 33.
constexpr uint64_t reserved = uint64_t{3} << 31;

// The program has the default actions, whatever this process does with signals.
TEST(ProcessGets, DefaultSignals)
{
	struct sigaction former_pipe, former_hup, former_usr1, action = {};

	action.sa_handler = SIG_IGN;
	ASSERT_EQ(0, sigaction(SIGPIPE, &action, &former_pipe));
	ASSERT_EQ(0, sigaction(SIGHUP, &action, &former_hup));
	action.sa_handler = nothing;
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, &former_usr1));
	test::run({1}, [] {
		sn_process_attr attr = {};
		sigset_t all, former, now;

		ASSERT_EQ(0, sn_pin());
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &former);
		EXPECT_EQ(0u, signals_of("SigBlk", &attr));
		// An emulator reserves some signals for itself, and does not pass them on.
		EXPECT_EQ(0u, signals_of("SigIgn", &attr) & ~(TEST_EMULATED ? reserved : 0));
		attr.flags = SN_PROCESS_IGNORED;
		// The signals that this process ignores. There may be more than the test sets,
		// because its parent may have ignored others.
		const uint64_t ignored = own_signals("SigIgn");
		EXPECT_EQ(1u << (SIGPIPE - 1) | 1u << (SIGHUP - 1),
			  ignored & (1u << (SIGPIPE - 1) | 1u << (SIGHUP - 1)));
		EXPECT_EQ(ignored | (TEST_EMULATED ? reserved : 0),
			  signals_of("SigIgn", &attr) | (TEST_EMULATED ? reserved : 0));
		EXPECT_EQ(0u, signals_of("SigBlk", &attr));
		pthread_sigmask(SIG_SETMASK, &former, &now);
		EXPECT_EQ(1, sigismember(&now, SIGUSR1)) << "the caller's mask has changed";
		EXPECT_EQ(0, sn_unpin());
	});
	ASSERT_EQ(0, sigaction(SIGPIPE, &former_pipe, nullptr));
	ASSERT_EQ(0, sigaction(SIGHUP, &former_hup, nullptr));
	ASSERT_EQ(0, sigaction(SIGUSR1, &former_usr1, nullptr));
}

TASK_TEST(ProcessGets, AGroupOrASession, 1)
{
	for (const uint32_t flag : {0u, SN_PROCESS_GROUP, SN_PROCESS_SESSION}) {
		sn_process_attr attr = {};

		attr.flags = flag;
		sn_process *process = start({"sleep", "1000"}, &attr);
		const pid_t pid = sn_process_pid(process);
		EXPECT_EQ(flag ? pid : getpgrp(), getpgid(pid));
		EXPECT_EQ(flag == SN_PROCESS_SESSION ? pid : getsid(0), getsid(pid));
		EXPECT_EQ(flag ? 0 : -EINVAL, sn_process_kill_group(process, SIGKILL));
		if (!flag) {
			EXPECT_EQ(0, sn_process_kill(process, SIGKILL));
		}
		EXPECT_EQ(1000 + SIGKILL, end_of(process));
	}
}

// ---- its end ----

TASK_TEST(ProcessEnd, SaysWhatWasUsed, 1)
{
	sn_process *process =
		start({"sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"});
	sn_process_status status = {};

	ASSERT_EQ(0, sn_process_wait(process, &status, soon()));
	EXPECT_EQ(0, status.exit_code);
	if (!TEST_EMULATED) {
		EXPECT_LT(0, status.user_ns);
		EXPECT_LT(100u << 10, status.max_resident);
		EXPECT_GT(1u << 30, status.max_resident);
	}
	EXPECT_EQ(0, sn_process_close(process));
}

TASK_TEST(ProcessEnd, LeavesNoZombieWhenNobodyWaits)
{
	sn_process *kept = start({"true"}), *closed = start({"true"});
	const pid_t pids[] = {sn_process_pid(kept), sn_process_pid(closed)};

	EXPECT_EQ(0, sn_process_close(closed));
	for (const pid_t pid : pids)
		EXPECT_TRUE(test::eventually([&] { return !exists(pid); }));
	EXPECT_EQ(0, end_of(kept));
	EXPECT_TRUE(test::all_ended());
}

// A program whose handle was freed continues.
TASK_TEST(ProcessEnd, GivingItBackEndsNothing, 2)
{
	int ends[2];
	char byte;
	sn_process_attr attr = {};

	ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
	attr.in = a_pipe;
	attr.out = {SN_PROCESS_DESCRIPTOR, ends[1]};
	sn_process *process = start({"sh", "-c", "read x; echo y"}, &attr);
	Task waiting([&] { return sn_process_wait(process, nullptr, soon()); });
	sn_yield();
	EXPECT_EQ(0, sn_process_close(process));
	// The program's input has ended, so it continues.
	EXPECT_EQ(POLLIN, sn_fd_wait(ends[0], POLLIN, soon()));
	EXPECT_EQ(1, read(ends[0], &byte, 1));
	// The wait began before or after the close.
	const int result = waiting.join();
	EXPECT_TRUE(result == 0 || result == -ESRCH) << result;
	close(ends[0]);
	close(ends[1]);
	EXPECT_TRUE(test::all_ended());
}

TEST(ProcessEnd, IsNoticedWithoutAStatus)
{
	struct sigaction former, action = {};

	action.sa_handler = SIG_IGN;
	ASSERT_EQ(0, sigaction(SIGCHLD, &action, &former));
	test::run([] {
		sn_process *process = start({"true"}), *killed = start({"sleep", "1000"});
		sn_process_status status = {};

		EXPECT_EQ(-ECHILD, sn_process_wait(process, &status, soon()));
		EXPECT_EQ(-ECHILD, sn_process_wait(process, &status, 1));
		EXPECT_EQ(-ESRCH, sn_process_kill(process, 0));
		EXPECT_EQ(0, sn_process_kill(killed, SIGKILL));
		EXPECT_EQ(-ECHILD, sn_process_wait(killed, nullptr, soon()));
		EXPECT_EQ(0, sn_process_close(process));
		EXPECT_EQ(0, sn_process_close(killed));
	});
	ASSERT_EQ(0, sigaction(SIGCHLD, &former, nullptr));
}

// Another part of the program takes the status of any child that it can get.
TASK_TEST(ProcessEnd, IsNoticedBesideWaitpid, 2)
{
	std::atomic<bool> stop = false;
	std::thread thief([&] {
		while (!stop)
			if (waitpid(-1, nullptr, WNOHANG) <= 0)
				usleep(10);
	});
	for (int i = 0; i < test::scaled(100); i++) {
		sn_process *process = start({"true"});
		const int err = sn_process_wait(process, nullptr, soon());

		EXPECT_TRUE(err == 0 || err == -ECHILD) << err;
		EXPECT_EQ(0, sn_process_close(process));
	}
	stop = true;
	sn_enter_blocking();
	thief.join();
	sn_exit_blocking();
}

// Nothing but the program's end wakes the task, and that is no deadlock.
TASK_TEST(ProcessEnd, IsNoDeadlock)
{
	sn_process *process = start({"sleep", "0.3"});

	EXPECT_EQ(0, sn_process_wait(process, nullptr, SN_NO_DEADLINE));
	EXPECT_EQ(0, sn_process_close(process));
}

TASK_TEST(ProcessEnd, TakesNoThreads, 2)
{
	std::vector<sn_process *> processes;

	for (int i = 0; i < 100; i++)
		processes.push_back(start({"sleep", "1000"}));
	std::vector<Task> waiting;
	for (sn_process *process : processes)
		waiting.emplace_back([=] { return end_of(process); });
	sn_sleep(10 * test::ms);
	// TSan has a thread of its own. Threads that lost their processors because they
	// were preempted end soon.
	EXPECT_TRUE(test::eventually([] {
		return test::process_status("Threads") <= 2 + 5 + TEST_TSAN;
	})) << test::process_status("Threads");
	for (sn_process *process : processes)
		EXPECT_EQ(0, sn_process_kill(process, SIGTERM));
	for (Task &task : waiting)
		EXPECT_EQ(1000 + SIGTERM, task.join());
}

// ---- scopes, and the end of the run ----

sn_process *start_in_scope(const std::string &script, int64_t grace, uint32_t flags = 0)
{
	sn_process_attr attr = {};

	attr.flags = SN_PROCESS_IN_SCOPE | flags;
	attr.grace = grace;
	attr.out = a_pipe;
	return start({"sh", "-c", script}, &attr);
}

TASK_TEST(ProcessScope, ClosingWaits)
{
	sn_process_attr attr = {};
	sn_process *process = nullptr;
	sn_scope *scope;

	attr.flags = SN_PROCESS_IN_SCOPE;
	EXPECT_EQ(-EINVAL, sn_process_start(&process, Arguments{"true"}, &attr));
	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	process = start({"sleep", "0.1"}, &attr);
	EXPECT_EQ(0, sn_scope_close(scope));
	EXPECT_EQ(0, sn_process_wait(process, nullptr, 1));
	EXPECT_EQ(0, sn_process_close(process));
}

TASK_TEST(ProcessScope, CancellationEndsIt)
{
	sn_scope *scope;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	sn_process *polite = start_in_scope("trap 'exit 3' TERM; echo; while :; do sleep 0.1; done",
					    test::patience);
	sn_process *stubborn =
		start_in_scope("trap '' TERM; echo; while :; do sleep 0.1; done", test::ms);
	sn_process *at_once = start_in_scope("trap 'exit 3' TERM; echo; exec sleep 1000", -1);
	for (sn_process *process : {polite, stubborn, at_once})
		EXPECT_EQ("", line_of(process)); // the program has set its trap
	EXPECT_EQ(0, sn_scope_cancel(scope));
	EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
	EXPECT_EQ(3, end_of(polite));
	EXPECT_EQ(1000 + SIGKILL, end_of(stubborn));
	EXPECT_EQ(1000 + SIGKILL, end_of(at_once));
}

// The deadline of a scope ends programs, including those whose handles were freed.
TASK_TEST(ProcessScope, DeadlineEndsIt)
{
	sn_scope *scope;

	ASSERT_EQ(0, sn_scope_open(&scope, sn_now() + 20 * test::ms));
	sn_process_attr attr = {};
	attr.flags = SN_PROCESS_IN_SCOPE;
	sn_process *process = nullptr;
	const int err = sn_process_start(&process, Arguments{"sleep", "1000"}, &attr);
	if (err == 0)
		EXPECT_EQ(0, sn_process_close(process));
	else
		EXPECT_EQ(-ETIMEDOUT, err);
	EXPECT_EQ(-ETIMEDOUT, sn_scope_close(scope));
	EXPECT_TRUE(test::all_ended());
	EXPECT_EQ(-1, waitpid(-1, nullptr, WNOHANG));
	EXPECT_EQ(ECHILD, errno);
}

TASK_TEST(ProcessScope, CancelledStartsNothing, 1)
{
	sn_process_attr attr = {};
	sn_process *process = nullptr;
	sn_scope *scope;

	attr.flags = SN_PROCESS_IN_SCOPE;
	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	sn_scope_cancel(scope);
	EXPECT_EQ(-ECANCELED, sn_process_start(&process, Arguments{"true"}, &attr));
	EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
}

// The processes that the leader has started are killed as well, even if the leader itself ends in
// time.
TASK_TEST(ProcessScope, TheGroupEndsWithIt)
{
	sn_scope *scope;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	sn_process *process = start_in_scope(
		"trap 'exit 3' TERM; (trap '' TERM; echo $(exec sh -c 'echo $PPID'); exec "
		"sleep 1000) & wait",
		test::patience, SN_PROCESS_GROUP);
	const pid_t grandchild = pid_t(atoi(line_of(process).c_str()));
	EXPECT_LT(1, grandchild);
	EXPECT_EQ(0, sn_scope_cancel(scope));
	EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
	EXPECT_EQ(3, end_of(process));
	// The end of its pipe proves that it has ended; init may leave a zombie for a
	// while.
	EXPECT_TRUE(test::eventually([&] {
		const std::string state = "/proc/" + std::to_string(grandchild) + "/stat";
		FILE *file = fopen(state.c_str(), "re");
		char letter = 'X';

		if (!file)
			return true;
		const int n = fscanf(file, "%*d (%*[^)]) %c", &letter);
		fclose(file);
		return n < 1 || letter == 'Z' || letter == 'X';
	}));
}

TEST(ProcessRun, EndsThoseInScopesAndLeavesTheOthers)
{
	pid_t scoped = 0, other = 0;
	sn_process *kept = nullptr;

	test::run({2}, [&] {
		sn_scope *scope;

		kept = start({"sleep", "1000"});
		other = sn_process_pid(kept);
		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		scoped = sn_process_pid(start_in_scope("exec sleep 1000", test::patience));
	});
	EXPECT_EQ(-ESRCH, sn_process_kill(kept, SIGTERM)) << "handles end with their run";
	EXPECT_TRUE(exists(other));
	EXPECT_EQ(0, kill(other, SIGKILL));
	// The zombies are removed when the next program is started.
	test::run({2}, [&] {
		EXPECT_TRUE(test::eventually([&] {
			EXPECT_EQ(0, end_of(start({"true"})));
			return !exists(other) && !exists(scoped);
		}));
	});
}

// After a run: expects that the programs of that run end, and that the next run leaves nothing of
// them.
void expect_nothing_left(int descriptors)
{
	test::run({1}, [] {
		EXPECT_TRUE(test::eventually([] {
			EXPECT_EQ(0, end_of(start({"true"})));
			return waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
		})) << "a program still runs";
	});
	EXPECT_EQ(descriptors, open_descriptors());
}

// Opens what a run keeps open, so that a test sees what is left beside that.
int descriptors_of_runs()
{
	test::run({2}, [] { EXPECT_EQ(0, end_of(start({"true"}))); });
	return open_descriptors();
}

// Has no memory of its own, which would be lost with the task.
int start_sleeping()
{
	static const char *const argv[] = {"sleep", "1000", nullptr};
	sn_process *process = nullptr;
	sn_process_attr attr = {};

	attr.flags = SN_PROCESS_IN_SCOPE;
	attr.grace = test::patience;
	attr.out = a_pipe;
	return sn_process_start(&process, argv, &attr);
}

// The run ends while programs are being started in a scope, at some point of each start.
TEST(ProcessRun, EndsThoseThatAreBeingStarted)
{
	const int before = descriptors_of_runs();

	for (int round = 0; round < (test::is_short() ? 10 : 40); round++) {
		test::run({2}, [&] {
			sn_scope *scope;

			ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
			for (int i = 0; i < 4; i++)
				ASSERT_EQ(0, sn_scope_go(
						     scope, [](void *) { return start_sleeping(); },
						     nullptr));
			sn_sleep(round % 20 * 100 * test::us);
		});
		expect_nothing_left(before);
	}
}

// The run ends while the kernel loads the program, and does not wait for that.
TEST(ProcessRun, EndsOneThatHangs)
{
	const int before = descriptors_of_runs();
	test::HangingProgram program("/bin/sleep");
	static const char *argv[3];

	if (!program.hangs())
		GTEST_SKIP() << "the file system has no leases";
	argv[0] = program.path().c_str();
	argv[1] = "1000";
	test::run({2}, [&] {
		sn_scope *scope;

		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		ASSERT_EQ(0, sn_scope_go(
				     scope,
				     [](void *) {
					     sn_process *process = nullptr;
					     sn_process_attr attr = {};

					     attr.flags = SN_PROCESS_IN_SCOPE;
					     attr.out = a_pipe;
					     return sn_process_start(&process, argv, &attr);
				     },
				     nullptr));
		EXPECT_TRUE(test::eventually([&] { return program.has_someone_waiting(); }));
	});
	// A start of this run uses the records of programs, too.
	test::run({2}, [&] {
		EXPECT_EQ(0, end_of(start({"true"})));
		program.end();
	});
	EXPECT_TRUE(test::eventually([&] { return open_descriptors() <= before + 2; }));
	expect_nothing_left(before + 1); // the descriptor with the lease
}

// The program gets the end of its pipes. It writes only when the run has ended, because what
// sn_process_output() has collected is lost with the task.
TEST(ProcessRun, ClosesThePipesOfACollection)
{
	const int before = descriptors_of_runs();
	static const char *const argv[] = {"sh", "-c",
					   "until [ -e \"$MAY_WRITE\" ]; do sleep 0.02; done;"
					   "while echo; do sleep 0.02; done",
					   nullptr};
	static std::atomic<bool> begun;
	Directory directory;
	const test::Environment may_write("MAY_WRITE", directory.path() + "/now");

	begun = false;
	test::run({2}, [&] {
		ASSERT_EQ(0, sn_go(
				     [](void *) {
					     sn_process_result output;

					     begun = true;
					     return sn_process_output(&output, argv, nullptr, 0, 0,
								      nullptr, SN_NO_DEADLINE);
				     },
				     nullptr));
		EXPECT_TRUE(test::eventually([&] { return begun.load(); }));
		sn_sleep(20 * test::ms);
	});
	directory.add("now", "", 0600);
	expect_nothing_left(before);
}

// Programs that ask for a signal when their parent dies. Each is started on a thread of its own:
// all these tasks block at the same time, and then end.
TEST(ProcessEnd, IsNotThatOfTheThreadThatHasStartedIt)
{
	test::Environment soon_idle("SENNIT_IDLE_MS", "10");

	test::run({2}, [] {
		sn_process *asks = start({"setpriv", "--pdeathsig", "KILL", "true"});

		if (end_of(asks) != 0)
			GTEST_SKIP() << "setpriv has no --pdeathsig";
		for (bool pinned : {false, true}) {
			constexpr int n = 6;
			std::vector<Task> tasks;
			std::atomic<int> in{0};
			sn_process *processes[n];

			for (int i = 0; i < n; i++)
				tasks.emplace_back([&, i] {
					EXPECT_EQ(0, pinned ? sn_pin() : 0);
					in++;
					while (in < n)
						usleep(1000);
					processes[i] = start({"setpriv", "--pdeathsig", "KILL",
							      "sleep", "1000"});
				});
			test::join_all(tasks);
			EXPECT_TRUE(test::eventually([] { return test::stats().threads <= 4; }));
			sn_sleep(100 * test::ms);
			for (sn_process *process : processes) {
				EXPECT_EQ(-ETIMEDOUT, sn_process_wait(process, nullptr, 1));
				EXPECT_EQ(0, sn_process_kill(process, SIGTERM));
				EXPECT_EQ(1000 + SIGTERM, end_of(process));
			}
		}
	});
}

int run_one()
{
	return sn_run([](void *) { return end_of(start({"sh", "-c", "exit 5"})); }, nullptr);
}

TASK_TEST(ProcessFork, HandlesAreStaleInTheChild, 2)
{
	sn_process *process = start({"sleep", "1000"});
	const pid_t child = fork();

	if (child == 0) {
		CHILD_CHECK(sn_process_kill(process, SIGKILL) == -ESRCH);
		CHILD_CHECK(sn_process_pid(process) == -ESRCH);
		CHILD_CHECK(sn_process_close(process) == -ESRCH);
		// Under TSan there are no threads after a fork.
		if (!TEST_TSAN && !TEST_EMULATED)
			CHILD_CHECK(run_one() == 5);
		_exit(0);
	}
	int status = -1;
	sn_enter_blocking();
	EXPECT_EQ(child, waitpid(child, &status, 0));
	sn_exit_blocking();
	EXPECT_EQ(0, status);
	EXPECT_EQ(-ETIMEDOUT, sn_process_wait(process, nullptr, 1));
	EXPECT_EQ(0, sn_process_kill(process, SIGKILL));
	EXPECT_EQ(1000 + SIGKILL, end_of(process));
}

// ---- running a program from beginning to end ----

TASK_TEST(ProcessOutput, NoPipeFillsUp)
{
	const size_t size = 1000000;
	const std::string input(size, 'i');
	sn_process_result output;

	EXPECT_EQ(0, sn_process_output(&output,
				       Arguments{"sh", "-c",
						 "head -c 1000000 /dev/zero >&2;"
						 "head -c 1000000 /dev/zero; cat; exit 9"},
				       input.data(), size, 0, nullptr, soon()));
	EXPECT_EQ(9, output.status.exit_code);
	EXPECT_EQ(size, output.err_size);
	ASSERT_EQ(2 * size, output.out_size);
	EXPECT_EQ(input, std::string(output.out + size, size));
	EXPECT_EQ('\0', output.out[2 * size]);
	sn_process_result_free(&output);
	sn_process_result_free(&output);
}

TASK_TEST(ProcessOutput, InputNeedNotBeRead)
{
	const std::string input(1 << 20, 'i');
	sn_process_result output;

	EXPECT_EQ(0, sn_process_output(&output, Arguments{"true"}, input.data(), input.size(), 0,
				       nullptr, soon()));
	EXPECT_EQ(0u, output.out_size);
	sn_process_result_free(&output);
	EXPECT_EQ(0, sn_process_output(&output, Arguments{"cat"}, nullptr, 0, 0, nullptr, soon()));
	EXPECT_EQ(0u, output.out_size) << "without input it is empty";
	sn_process_result_free(&output);
}

TASK_TEST(ProcessOutput, EndsAtItsLimitsAndDeadline)
{
	sn_process_result output;

	EXPECT_EQ(-EMSGSIZE, sn_process_output(&output, Arguments{"cat", "/dev/zero"}, nullptr, 0,
					       100000, nullptr, soon()));
	EXPECT_EQ(100000u, output.out_size);
	EXPECT_NE(0, output.status.signum) << "it was killed, or could not write";
	sn_process_result_free(&output);
	const Arguments exact{"head", "-c", "100000", "/dev/zero"};
	EXPECT_EQ(0, sn_process_output(&output, exact, nullptr, 0, 100000, nullptr, soon()));
	EXPECT_EQ(100000u, output.out_size);
	sn_process_result_free(&output);
	EXPECT_EQ(-ETIMEDOUT, sn_process_output(&output, Arguments{"sh", "-c", "exec sleep 1000"},
						nullptr, 0, 0, nullptr, sn_now() + 20 * test::ms));
	EXPECT_EQ(SIGKILL, output.status.signum);
	sn_process_result_free(&output);
	// A process that the program has started keeps its pipes open.
	sn_process_attr attr = {};
	attr.flags = SN_PROCESS_GROUP;
	EXPECT_EQ(-ETIMEDOUT,
		  sn_process_output(&output, Arguments{"sh", "-c", "echo before; sleep 5 & exit 0"},
				    nullptr, 0, 0, &attr, sn_now() + 300 * test::ms));
	sn_process_result_free(&output);
	EXPECT_EQ(-ENOENT, sn_process_output(&output, Arguments{"there-is-no-such"}, nullptr, 0, 0,
					     nullptr, soon()));
	EXPECT_EQ(nullptr, output.out);
}

TASK_TEST(ProcessOutput, EndsWithItsScope)
{
	sn_scope *scope;
	std::atomic<int> result = 0, signum = 0;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	auto body = [&] {
		sn_process_result output;

		result = sn_process_output(&output, Arguments{"sleep", "1000"}, nullptr, 0, 0,
					   nullptr, soon());
		signum = output.status.signum;
		sn_process_result_free(&output);
	};
	ASSERT_EQ(0, sn_scope_go(
			     scope,
			     [](void *arg) {
				     (*static_cast<decltype(body) *>(arg))();
				     return 0;
			     },
			     &body));
	sn_sleep(10 * test::ms);
	EXPECT_EQ(0, sn_scope_cancel(scope));
	EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
	EXPECT_EQ(-ECANCELED, result);
	EXPECT_TRUE(signum == SIGKILL || signum == 0) << signum;
}

// ---- shortages ----

// At whichever descriptor the limit is reached, nothing is left open.
TASK_TEST(ProcessShortage, OfDescriptors, 1)
{
	sn_process_attr plain = {}, terminal = {};
	struct rlimit former, tight;
	bool failed = false;

	plain.in = plain.out = plain.err = a_pipe;
	terminal.in = terminal.out = {SN_PROCESS_TERMINAL, 0};
	terminal.err = {SN_PROCESS_NULL, 0};
	EXPECT_EQ(0, end_of(start({"true"}, &plain)));
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &former));
	tight = former;
	for (const sn_process_attr *attr : {&plain, &terminal})
		for (int room = 0;; room++) {
			const int before = open_descriptors();
			sn_process *process = nullptr;

			ASSERT_GT(100, room);
			tight.rlim_cur = rlim_t(before - 2 + room);
			ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &tight));
			const int err = sn_process_start(&process, Arguments{"true"}, attr);
			ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &former));
			if (err == 0) {
				EXPECT_EQ(0, end_of(process));
				break;
			}
			failed = true;
			EXPECT_EQ(-EMFILE, err) << room;
			EXPECT_EQ(nullptr, process);
			EXPECT_EQ(before, open_descriptors()) << room;
			EXPECT_EQ(-1, waitpid(-1, nullptr, WNOHANG)) << room;
		}
	EXPECT_TRUE(failed);
	EXPECT_TRUE(test::all_ended());
}

// Runs as a user who may not have more processes, in a child, because the limit counts all
// processes of a user. The child starts threads, so under the thread sanitizer this has to run
// alone in its process, as it does under ctest.
TEST(ProcessShortage, OfProcesses)
{
	const pid_t child = fork();

	ASSERT_GE(child, 0);
	if (child == 0) {
		if (geteuid() == 0)
			CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
		_exit(sn_run(
			[](void *) {
				const char *argv[] = {"/bin/true", nullptr};
				const struct rlimit none = {0, 0};
				sn_process *process = nullptr;

				CHILD_CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
				const pid_t another = vfork();
				if (another == 0)
					_exit(0);
				if (another > 0)
					return 77; // this system does not enforce the limit
				CHILD_CHECK(sn_process_start(&process, argv, nullptr) == -EAGAIN);
				CHILD_CHECK(process == nullptr);
				return 0;
			},
			nullptr));
	}
	int status;
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		GTEST_SKIP() << "the system does not limit processes";
	EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST(ProcessShortage, OutsideATaskAndWithoutArguments)
{
	sn_process *process = nullptr;
	sn_process_result output;
	const char *none[] = {nullptr};

	EXPECT_EQ(-ENOTSUP, sn_process_start(&process, Arguments{"true"}, nullptr));
	EXPECT_EQ(-ENOTSUP,
		  sn_process_output(&output, Arguments{"true"}, nullptr, 0, 0, nullptr, 1));
	EXPECT_EQ(-EINVAL, sn_process_start(nullptr, Arguments{"true"}, nullptr));
	EXPECT_EQ(-EINVAL, sn_process_start(&process, none, nullptr));
	EXPECT_EQ(-EINVAL, sn_process_start(&process, nullptr, nullptr));
	EXPECT_EQ(-EINVAL, sn_process_wait(nullptr, nullptr, 1));
	EXPECT_EQ(-EINVAL, sn_process_kill(nullptr, 0));
	EXPECT_EQ(nullptr, sn_process_stream(nullptr, 0));
	EXPECT_EQ(0, sn_process_close(nullptr));
}

// Makes the kernel refuse pidfds and close_range() to this process, as an old one does. Returns
// false where that is impossible.
bool become_old()
{
	return test::refuse({{434 /* pidfd_open */, ENOSYS},
			     {436 /* close_range */, ENOSYS},
			     {SYS_clone, EINVAL, 0x1000 /* CLONE_PIDFD */}});
}

int use_old(void *)
{
	sn_process_attr attr = {};
	sn_process_result output;
	sn_process *process = start({"sleep", "0.2"});
	sn_scope *scope;

	CHILD_CHECK(syscall(SYS_pidfd_open, getpid(), 0) < 0 && errno == ENOSYS);
	CHILD_CHECK(sn_process_wait(process, nullptr, 1) == -ETIMEDOUT);
	CHILD_CHECK(end_of(process) == 0);
	process = start({"sleep", "1000"});
	CHILD_CHECK(sn_process_kill(process, SIGTERM) == 0);
	CHILD_CHECK(end_of(process) == 1000 + SIGTERM);
	CHILD_CHECK(sn_scope_open(&scope, sn_now() + 20 * test::ms) == 0);
	attr.flags = SN_PROCESS_IN_SCOPE;
	attr.grace = -1;
	process = start({"sleep", "1000"}, &attr);
	CHILD_CHECK(sn_scope_close(scope) == -ETIMEDOUT);
	CHILD_CHECK(end_of(process) == 1000 + SIGKILL);
	// Without close_range() descriptors are closed in another way.
	CHILD_CHECK(dup2(0, 500) == 500);
	CHILD_CHECK(sn_process_output(&output,
				      Arguments{"sh", "-c", "cd /proc/$$/fd && test ! -e 500"},
				      nullptr, 0, 0, nullptr, soon()) == 0);
	CHILD_CHECK(output.status.exit_code == 0);
	sn_process_result_free(&output);
	return 8;
}

TEST(ProcessShortage, OfPidfds)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "no threads after a fork, or no filters";
	const pid_t child = fork();
	if (child == 0)
		_exit(become_old() ? sn_run(use_old, nullptr) : 77);
	int status = -1;
	EXPECT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status)) << status;
	if (WEXITSTATUS(status) == 77)
		GTEST_SKIP() << "no filters here";
	EXPECT_EQ(8, WEXITSTATUS(status));
}

int end_without_permission(void *)
{
	sn_process_attr attr = {};
	sn_scope *scope;

	CHILD_CHECK(sn_scope_open(&scope, SN_NO_DEADLINE) == 0);
	attr.flags = SN_PROCESS_IN_SCOPE;
	attr.grace = -1;
	sn_process *process = start({"sleep", "1000"}, &attr);
	CHILD_CHECK(sn_process_kill(process, 0) == 0);
	sn_scope_cancel(scope);
	CHILD_CHECK(sn_scope_close(scope) == -ECANCELED);
	CHILD_CHECK(end_of(process) == 1000 + SIGKILL);
	return 8;
}

// Old profiles of containers refuse the call with EPERM instead of ENOSYS.
TEST(ProcessShortage, OfPermissionForSignalsByPidfd)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "no threads after a fork, or no filters";
	const int status = test::in_child([] {
		if (!test::refuse({{424 /* pidfd_send_signal */, EPERM}}))
			_exit(77);
		_exit(sn_run(end_without_permission, nullptr));
	});
	if (status == 77)
		GTEST_SKIP() << "no filters here";
	EXPECT_EQ(8, status);
}

TASK_TEST(ProcessStart, GoesOnBesideThoseThatHang, 2)
{
	test::HangingProgram program;
	std::atomic<int> started{0};

	if (!program.hangs())
		GTEST_SKIP() << "the file system has no leases";
	// Under an emulator, whose children do not share the memory, each start has a pipe
	// (process_child.h). A child that hangs keeps the pipes of starts before it, so
	// there is none whose beginning nobody sees.
	const int n = TEST_EMULATED ? 1 : 3;
	std::vector<Task> hanging;
	for (int i = 0; i < n; i++)
		hanging.emplace_back([&] {
			sn_process *process = start({program.path()});

			started++;
			return end_of(process);
		});
	EXPECT_TRUE(test::eventually([&] { return program.has_someone_waiting(); }));
	EXPECT_EQ(0, end_of(start({"true"})));
	EXPECT_EQ(0, started);
	program.end();
	for (Task &each : hanging)
		EXPECT_EQ(0, each.join());
	EXPECT_EQ(0, end_of(start({"true"})));
}

TASK_TEST(ProcessStart, OfADescriptor)
{
	const int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);

	for (const char *folder : {"/proc/self/fd/", "/dev/fd/"})
		EXPECT_EQ(0, end_of(start({folder + std::to_string(fd)}))) << folder;
	close(fd);
}

// Tasks write programs, close them and start them, while the children of the others begin.
TASK_TEST(ProcessStart, OfFilesThatSeveralTasksWrite, 4)
{
	std::vector<Task> tasks;

	for (int number = 0; number < 4; number++)
		tasks.emplace_back([number] {
			const std::string path = "/tmp/sennit-written-" + std::to_string(getpid()) +
						 "-" + std::to_string(number);

			for (int i = 0; i < (test::is_short() ? 15 : 50); i++) {
				const int fd =
					open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

				EXPECT_EQ(17, write(fd, "#!/bin/sh\nexit 3\n", 17));
				close(fd);
				EXPECT_EQ(3, end_of(start({path})));
				unlink(path.c_str());
			}
		});
	test::join_all(tasks);
}

// A task writes a program, closes it and starts it, while the child of another start has not yet
// executed its own program. A file that somebody writes cannot be executed.
TEST(ProcessStart, OfAFileThatWasWrittenBesideAnotherStart)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "children do not share the memory";
	test::run({2}, [] {
		const std::string path = "/tmp/sennit-written-" + std::to_string(getpid());
		const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
		test::HangingProgram program;

		if (!program.hangs())
			GTEST_SKIP() << "the file system has no leases";
		ASSERT_EQ(17, write(fd, "#!/bin/sh\nexit 3\n", 17));
		Task hanging([&] { return end_of(start({program.path()})); });
		ASSERT_TRUE(test::eventually([&] { return program.has_someone_waiting(); }));
		// The other child has no copy of the descriptor any more, although it has not
		// executed its program yet.
		close(fd);
		EXPECT_EQ(3, end_of(start({path})));
		EXPECT_TRUE(program.has_someone_waiting());
		program.end();
		EXPECT_EQ(0, hanging.join());
		// A file that is still open for writing is an error.
		const int open_fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
		sn_process *process = nullptr;
		EXPECT_EQ(-ETXTBSY, sn_process_start(&process, Arguments{path}, nullptr));
		close(open_fd);
		unlink(path.c_str());
	});
}

// Many programs at the same time, of every kind, while other descriptors are opened and closed.
TASK_TEST(ProcessStress, ManyAtOnce)
{
	const int before = open_descriptors();
	std::atomic<bool> stop = false;
	Task opens([&] {
		while (!stop) {
			for (int i = 0; i < 16; i++) {
				int ends[2];

				if (pipe(ends) == 0) {
					EXPECT_EQ(0, close(ends[0]));
					EXPECT_EQ(0, close(ends[1]));
				}
				sn_yield();
			}
			sn_sleep(20 * test::us); // otherwise it would keep a CPU busy
		}
	});
	std::vector<Task> tasks;
	for (int i = 0; i < 8; i++)
		tasks.emplace_back([i] {
			for (int round = 0; round < test::scaled(20); round++) {
				sn_process *process = nullptr;
				const std::string text = std::to_string(i * 1000 + round);

				EXPECT_EQ(text + "\n", output_of({"echo", text}));
				EXPECT_EQ(-ENOENT,
					  sn_process_start(&process, Arguments{"no-such-one"},
							   nullptr));
				process = start({"sleep", "1000"});
				EXPECT_EQ(0, sn_process_kill(process, SIGTERM));
				EXPECT_EQ(1000 + SIGTERM, end_of(process));
			}
		});
	test::join_all(tasks);
	stop = true;
	opens.join();
	EXPECT_TRUE(test::all_ended());
	// The runtime itself may have opened a few.
	EXPECT_GE(before + 8, open_descriptors());
}

} // namespace
