// SPDX-License-Identifier: MIT
// Labels: machine
//
// What a task changes on its thread, or a foreign thread changes on itself, stays on that thread:
// threads that the runtime starts at the same time or later are as the caller of sn_run() was.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/runtime.h"

namespace
{

std::atomic<bool> refuses; // threads
std::atomic<int> refused;

} // namespace

#if !TEST_TSAN // TSan has its own pthread_create(), which this one would hide
extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			      void *arg) noexcept
{
	using Create = int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));

	if (!refuses)
		return real(thread, attr, start, arg);
	refused++;
	return EAGAIN;
}
#endif

namespace
{

using test::Environment;
using test::Task;

pid_t thread_id()
{
	return static_cast<pid_t>(syscall(SYS_gettid));
}

// ---- the attributes of a thread ----

using Portrait = std::map<std::string, std::string>;

std::string namespace_of(const char *which)
{
	char text[64] = "";
	const ssize_t n =
		readlink((std::string("/proc/thread-self/ns/") + which).c_str(), text, 63);

	return n > 0 ? std::string(text, size_t(n)) : "";
}

Portrait portrait()
{
	static const char *const lines[] = {"Uid",     "Gid",         "SigBlk", "CapInh",
					    "CapPrm",  "CapEff",      "CapBnd", "NoNewPrivs",
					    "Seccomp", "Cpus_allowed"};
	std::ifstream status("/proc/thread-self/status");
	std::string line;
	Portrait all;

	while (std::getline(status, line))
		for (const char *name : lines)
			if (line.rfind(std::string(name) + ":", 0) == 0)
				all[name] = line;
	for (const char *which : {"net", "uts", "ipc"})
		all[which] = namespace_of(which);
	all["nice"] = std::to_string(getpriority(PRIO_PROCESS, 0));
	all["policy"] = std::to_string(sched_getscheduler(0));
	all["securebits"] = std::to_string(prctl(PR_GET_SECUREBITS));
	all["slack"] = std::to_string(prctl(PR_GET_TIMERSLACK));
	all["io"] = std::to_string(syscall(SYS_ioprio_get, 1, 0));
	return all;
}

// ---- changes of the calling thread only; each returns 0 or an errno ----

int result(long value)
{
	return value < 0 ? errno : 0;
}

int change_niceness()
{
	return result(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 7));
}

int change_policy()
{
	const struct sched_param none = {};

	return result(sched_setscheduler(0, SCHED_BATCH, &none));
}

int change_cpus()
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof all, &all) < 0)
		return errno;
	if (CPU_COUNT(&all) < 2)
		return ENODEV;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	return result(sched_setaffinity(0, sizeof one, &one));
}

int change_io_priority()
{
	return result(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 7));
}

int change_privileges()
{
	return result(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

int change_filter()
{
	struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	const struct sock_fprog program = {1, &allow};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return errno;
	return result(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
}

int change_network()
{
	return result(unshare(CLONE_NEWNET));
}

int change_host_name()
{
	return result(unshare(CLONE_NEWUTS));
}

int change_ipc()
{
	return result(unshare(CLONE_NEWIPC));
}

int change_identity()
{
	// setfsuid() returns the previous id, whether it succeeds or not.
	syscall(SYS_setfsuid, 1234);
	return syscall(SYS_setfsuid, -1) == 1234 ? 0 : EPERM;
}

int change_securebits()
{
	return result(prctl(PR_SET_SECUREBITS, 1 << 2)); // SECBIT_NO_SETUID_FIXUP
}

int change_capabilities()
{
	return result(prctl(PR_CAPBSET_DROP, 25)); // CAP_SYS_TIME
}

int change_signals()
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int change_slack()
{
	return result(prctl(PR_SET_TIMERSLACK, 12345678UL));
}

struct Change {
	const char *name;
	int (*make)();
};

void PrintTo(const Change &change, std::ostream *out)
{
	*out << change.name;
}

const Change changes[] = {
	{"Niceness", change_niceness},
	{"Policy", change_policy},
	{"Cpus", change_cpus},
	{"IoPriority", change_io_priority},
	{"NoNewPrivileges", change_privileges},
	{"Filter", change_filter},
	{"Network", change_network},
	{"HostName", change_host_name},
	{"Ipc", change_ipc},
	{"Identity", change_identity},
	{"Securebits", change_securebits},
	{"Capabilities", change_capabilities},
	{"Signals", change_signals},
	{"TimerSlack", change_slack},
};

// ---- the other threads, while the change lasts ----

// Tasks that block at the same time, so that each has a thread of its own, and compare that thread
// with the usual one.
class Others
{
public:
	explicit Others(const Portrait &usual) : usual_(usual) {}

	void begin(int n)
	{
		n_ += n;
		for (int i = 0; i < n; i++)
			tasks_.emplace_back([this] { look(); });
	}
	// Adds n tasks to those that wait for each other; the caller starts them and has each call
	// look().
	void expect(int n) { n_ += n; }
	void look()
	{
		const Portrait mine = portrait();

		for (const auto &[name, value] : usual_)
			if (mine.at(name) != value && thread_id() != except)
				different_++;
		in_++;
		while (in_ < n_)
			usleep(1000);
	}
	bool all_in() const { return in_ == n_; }
	int different()
	{
		test::join_all(tasks_);
		tasks_.clear();
		return different_;
	}

	std::atomic<pid_t> except{0};

private:
	const Portrait usual_;
	std::vector<Task> tasks_;
	std::atomic<int> n_{0}, in_{0}, different_{0};
};

constexpr int crowd = 12;

// Runs the body with each number of processors. The short form has one of them for each change, so
// that each test still has all of them.
void run_for(const Change &change, std::initializer_list<int> each,
	     const std::function<void()> &body)
{
	size_t number = 0;

	while (strcmp(changes[number].name, change.name) != 0)
		number++;
	if (test::is_short())
		test::run(each.begin()[number % each.size()], body);
	else
		test::run(each, body);
}

class WhatAThreadHas : public testing::TestWithParam<Change>
{
protected:
	// Returns false if the test was skipped.
	bool changes(int err)
	{
		if (err == 0)
			return true;
		if (!testing::Test::IsSkipped())
			skip(err);
		return false;
	}

private:
	static void skip(int err) { GTEST_SKIP() << "not permitted here: " << strerror(err); }
};

TEST_P(WhatAThreadHas, StaysWithAPinnedTask)
{
	run_for(GetParam(), {1, 2, 4}, [&] {
		Others others(portrait());
		Task pinned([&] {
			EXPECT_EQ(0, sn_pin());
			if (!changes(GetParam().make()))
				return;
			const Portrait mine = portrait();

			others.begin(crowd);
			EXPECT_TRUE(test::eventually([&] { return others.all_in(); }));
			EXPECT_EQ(mine, portrait());
		});

		pinned.join();
		EXPECT_EQ(0, others.different());
	});
}

TEST_P(WhatAThreadHas, EndsWithAPinnedTask)
{
	run_for(GetParam(), {1, 2, 4}, [&] {
		Others others(portrait());
		std::atomic<pid_t> thread{0};

		for (int i = 0; i < 3; i++) {
			Task pinned([&] {
				EXPECT_EQ(0, sn_pin());
				thread = thread_id();
				changes(GetParam().make());
			});
			pinned.join();
			// The change does not get to the thread of another task.
			for (int j = 0; j < 10; j++) {
				Task after([&] { EXPECT_NE(thread, thread_id()); });
				after.join();
			}
		}
		const std::string directory = "/proc/self/task/" + std::to_string(thread);
		EXPECT_TRUE(test::eventually([&] { return access(directory.c_str(), F_OK) != 0; }));
		others.begin(crowd);
		EXPECT_EQ(0, others.different());
	});
}

TEST_P(WhatAThreadHas, StaysThereAfterUnpinning)
{
	run_for(GetParam(), {1, 2, 4}, [&] {
		Others others(portrait());
		Task unpinned([&] {
			EXPECT_EQ(0, sn_pin());
			others.except = thread_id();
			const int err = GetParam().make();
			EXPECT_EQ(0, sn_unpin());
			if (!changes(err))
				return;
			others.begin(crowd);
			while (!others.all_in())
				usleep(1000);
		});

		unpinned.join();
		EXPECT_EQ(0, others.different());
	});
}

// A foreign thread wakes tasks for which there are no threads yet.
TEST_P(WhatAThreadHas, IsNotThatOfTheThreadThatWakes)
{
	run_for(GetParam(), {2, 4}, [&] {
		Others others(portrait());
		sn_semaphore gate = {};
		std::vector<Task> tasks;

		others.expect(crowd);
		for (int i = 0; i < crowd; i++)
			tasks.emplace_back([&] {
				EXPECT_EQ(0, sn_semaphore_acquire(&gate));
				others.look();
			});
		sn_yield();
		std::atomic<int> err{-1};
		std::thread wakes([&] {
			err = GetParam().make();
			for (int i = 0; i < crowd; i++) {
				EXPECT_EQ(0, sn_semaphore_release(&gate, 1));
				usleep(1000);
			}
		});
		test::join_all(tasks);
		wakes.join();
		changes(err);
		EXPECT_EQ(0, others.different());
	});
}

std::string name_of(const testing::TestParamInfo<Change> &of)
{
	return of.param.name;
}

INSTANTIATE_TEST_SUITE_P(Each, WhatAThreadHas, testing::ValuesIn(changes), name_of);

// Between two calls that park, a task that is not pinned has its thread for itself, too.
TASK_TEST(Births, AreNotOnAThreadThatATaskHasForAMoment, 2, 4)
{
	const struct sched_param none = {};
	Others others(portrait());

	ASSERT_EQ(0, change_policy());
	others.begin(crowd);
	const int64_t until = sn_now() + 5 * test::ms;
	while (sn_now() < until)
		; // it computes
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_OTHER, &none));
	EXPECT_TRUE(test::eventually([&] { return others.all_in(); }));
	EXPECT_EQ(0, others.different());
}

// ---- at the limits ----

class Gate
{
public:
	Gate() { EXPECT_EQ(0, pipe(ends_)); }
	~Gate()
	{
		close(ends_[0]);
		close(ends_[1]);
	}
	Gate(const Gate &) = delete;
	Gate &operator=(const Gate &) = delete;

	void wait()
	{
		char byte;

		EXPECT_EQ(1, read(ends_[0], &byte, 1));
	}
	void open() { EXPECT_EQ(1, write(ends_[1], "x", 1)); }

private:
	int ends_[2];
};

// The thread of the pinned task gets a successor, although the limit of threads is reached.
TEST(Births, ReplaceAThreadAtTheLimit)
{
	Environment most("SENNIT_MAX_THREADS", "2");

	testing::internal::CaptureStderr();
	test::run({1, 2}, [] {
		for (int i = 0; i < 30; i++) {
			Gate gate;
			Task pinned([&] {
				EXPECT_EQ(0, sn_pin());
				sn_yield();
				EXPECT_EQ(0, sn_go(
						     [](void *to) {
							     static_cast<Gate *>(to)->open();
							     return 0;
						     },
						     &gate));
			});
			gate.wait(); // with the only other thread of the runtime
			pinned.join();
		}
	});
	testing::internal::GetCapturedStderr();
}

// The system refuses new threads for a while. When it grants them again, the work continues,
// although no thread is left that could notice this.
TEST(Births, AreTriedAgainWhenTheSystemHasRefused)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "the sanitizer starts the threads";
	Environment most("SENNIT_MAX_THREADS", "2"); // so that no thread is idle

	refused = 0;
	testing::internal::CaptureStderr();
	test::run({1}, [] {
		Gate gate;
		std::atomic<bool> blocks{false};
		Task pinned([&] {
			EXPECT_EQ(0, sn_pin());
			while (!blocks)
				usleep(1000);
			EXPECT_EQ(0, sn_go(
					     [](void *to) {
						     static_cast<Gate *>(to)->open();
						     return 0;
					     },
					     &gate));
			refuses = true;
		});
		std::thread system([] {
			while (refused < 3)
				usleep(1000);
			refuses = false;
		});
		sn_yield();
		blocks = true;
		gate.wait();
		pinned.join();
		system.join();
	});
	testing::internal::GetCapturedStderr();
	EXPECT_LE(3, refused);
}

// ---- how late ----

// The time from when a pinned task parks until a thread runs the next task. The same steps are
// measured among plain threads: a thread is woken, and starts another one.
TEST(Births, TakeAWakeUpAndAStart)
{
	constexpr int rounds = TEST_TSAN ? 10 : 40;
	std::vector<int64_t> ours, plain;

	test::run({1}, [&] {
		std::atomic<bool> over{false};
		std::vector<Task> blocked;
		Task pinned([&] {
			EXPECT_EQ(0, sn_pin());
			for (int i = 0; i < rounds; i++) {
				std::atomic<int64_t> began{0};
				// After this quiet time the monitor looks rarely.
				usleep(30000);
				const int64_t asked = sn_now();

				blocked.emplace_back([&] {
					began = sn_now();
					while (!over)
						usleep(10000);
				});
				while (!began)
					sn_sleep(test::us);
				ours.push_back(began - asked);

				std::atomic<int64_t> begins{0};
				Gate gate;
				std::thread starter([&] {
					gate.wait();
					std::thread([&] { begins = sn_now(); }).join();
				});
				usleep(1000);
				const int64_t from = sn_now();
				gate.open();
				starter.join();
				plain.push_back(begins - from);
			}
			over = true;
		});
		pinned.join();
		test::join_all(blocked);
	});
	std::sort(ours.begin(), ours.end());
	std::sort(plain.begin(), plain.end());
	printf("a start: %lld us, among plain threads %lld us\n",
	       (long long)(ours[rounds / 2] / 1000), (long long)(plain[rounds / 2] / 1000));
	EXPECT_LT(ours[rounds / 2], 10 * plain[rounds / 2]);
}

// ---- the end of a run, and fork() ----

TEST(Births, MayBeAskedForWhenTheRunEnds)
{
	for (int i = 0; i < test::scaled(500); i++)
		test::run(1 + i % 3, [i] {
			EXPECT_EQ(0, i % 2 ? sn_pin() : 0);
			for (int j = 0; j < 3; j++)
				EXPECT_EQ(0, sn_go(
						     [](void *) {
							     (void)!sn_pin();
							     sn_yield();
							     return 0;
						     },
						     nullptr));
			if (i % 5 == 0)
				sn_yield();
		});
}

TEST(Births, AreInAChildAsWell)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "a child of a threaded process can start no threads";
	test::run({2}, [] {
		EXPECT_EQ(0, sn_pin());
		for (int i = 0; i < 5; i++) {
			Task task([] { sn_yield(); });
			const pid_t child = fork();

			if (child == 0) {
				const int sum = sn_run(
					[](void *) {
						Task pinned([] {
							CHILD_CHECK(sn_pin() == 0);
							Task inner([] { return 3; });
							return inner.join();
						});
						return pinned.join();
					},
					nullptr);
				_exit(sum == 3 ? 0 : 1);
			}
			int status = -1;
			EXPECT_EQ(child, waitpid(child, &status, 0));
			EXPECT_EQ(0, status);
			task.join();
		}
	});
}

} // namespace
