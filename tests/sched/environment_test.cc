// SPDX-License-Identifier: MIT
//
// What the system grants to the process shrinks while it runs: system calls are refused, limits are
// lowered. Each case is a child process, because not all of that can be undone.
#include <atomic>
#include <cerrno>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/scan.h>

#include "support/child.h"
#include "support/refused.h"
#include "support/runtime.h"

namespace
{

using test::Task;

struct Outcome {
	int status; // as waitpid() reports it
	std::string said;
};

// Runs the body as the first task of a child process, and returns how the child ended. It exits
// with 0 when the body returns.
Outcome child(int processors, void (*body)())
{
	Outcome outcome = {-1, ""};
	char buf[4096];
	int ends[2];

	EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
	const pid_t pid = fork();
	if (pid == 0) {
		alarm(120); // ends a child that hangs, which is a failure
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

void refuse_membarrier()
{
	CHILD_CHECK(test::refuse({{SYS_membarrier, EPERM}}));
}

// On one processor, a task blocks without a bracket, or computes, until another task has done
// something.
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
	if (TEST_EMULATED)
		GTEST_SKIP() << "the emulator has no filters";
	for (const int processors : {1, 2}) {
		const Outcome outcome = child(processors, [] {
			others_go_on();
			refuse_membarrier();
			others_go_on();
			scans_work();
		});

		EXPECT_EQ(0, outcome.status) << outcome.said;
		// With fences from the beginning, as in some presets, the runtime makes no such
		// call.
		EXPECT_LE(count(outcome.said, "membarrier() now fails"), 1u) << outcome.said;
		EXPECT_EQ(count(outcome.said, "\n"), count(outcome.said, "membarrier() now fails"))
			<< outcome.said;
	}
}

// TSan does not let a child of a process with threads start threads, and ASan looks for leaks
// there.
#if !TEST_TSAN && !TEST_ASAN && !TEST_EMULATED // the emulator has no filters

// Another run, in a child process of the first, learns at its start that membarrier() is refused.
TEST(Seccomp, TheNextRunDoesWithoutMembarrier)
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

// No barrier is available at all. A task that blocks keeps its processor until the call returns,
// and nothing is killed.
TEST(Seccomp, RefusesEveryBarrier)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "the emulator has no filters";
	const Outcome outcome = child(2, [] {
		CHILD_CHECK(
			test::refuse({{SYS_membarrier, EPERM}, {SYS_sched_setaffinity, EPERM}}));
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
		CHILD_CHECK(err == -ENOSYS || err == 0); // 0: the preset uses fences
		const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		CHILD_CHECK(sn_dump(null) == 0);
		close(null);
		parked.join();
	});

	EXPECT_EQ(0, outcome.status) << outcome.said;
	EXPECT_LE(count(outcome.said, "membarrier() now fails"), 1u) << outcome.said;
	EXPECT_EQ(count(outcome.said, "\n"), count(outcome.said, "membarrier() now fails"))
		<< outcome.said;
}

// ---- limits ----

void set_limit(__rlimit_resource which, rlim_t value)
{
	struct rlimit limit;

	CHILD_CHECK(getrlimit(which, &limit) == 0);
	limit.rlim_cur = value;
	CHILD_CHECK(setrlimit(which, &limit) == 0);
}

// Tasks, timers, brackets, and calls that block without one. None of them needs more resources than
// are left.
void all_is_well()
{
	for (int round = 0; round < 5; round++) {
		std::vector<Task> tasks;

		for (int i = 0; i < 20; i++)
			tasks.emplace_back([i] {
				sn_sleep(i % 3 * test::ms);
				sn_yield();
				sn_enter_blocking();
				usleep(100);
				sn_exit_blocking();
				return i;
			});
		for (int i = 0; i < 20; i++)
			CHILD_CHECK(tasks[size_t(i)].join() == i);
	}
}

bool connects(const std::string &address, int error)
{
	sn_tcp *conn = nullptr;
	const int err = sn_tcp_connect(&conn, address.c_str(), sn_now() + test::patience);

	if (err == 0)
		sn_tcp_close(conn);
	return err == error;
}

// The CPU time of the process for a call, in ns: the least of several rounds.
template <class F>
double cost_of(F call, int calls = 2000)
{
	double least = 0;

	for (int round = 0; round < 5; round++) {
		const int64_t from = test::cpu_ns();

		for (int i = 0; i < calls; i++)
			call();
		const double cost = double(test::cpu_ns() - from) / calls;
		least = round == 0 || cost < least ? cost : least;
	}
	return least;
}

// No more descriptors: a call that needs one fails, and works again later.
TEST(Limits, DescriptorsRunOut)
{
	const Outcome outcome = child(2, [] {
		sn_tcp_listener *listener = nullptr, *another = nullptr;
		char address[SN_ADDRESS_MAX];
		struct rlimit former;

		CHILD_CHECK(sn_tcp_listen(&listener, "127.0.0.1:0") == 0);
		CHILD_CHECK(sn_tcp_listener_address(listener, address, sizeof address) > 0);
		CHILD_CHECK(connects(address, 0));
		const auto listens = [&](int error) {
			const int err = sn_tcp_listen(&another, "127.0.0.1:0");

			CHILD_CHECK(err == error &&
				    (err < 0 || sn_tcp_listener_close(another) == 0));
		};
		const double before = cost_of([&] { listens(0); }, 200);
		CHILD_CHECK(getrlimit(RLIMIT_NOFILE, &former) == 0);
		set_limit(RLIMIT_NOFILE, 3);
		CHILD_CHECK(connects(address, -EMFILE));
		CHILD_CHECK(cost_of([&] { listens(-EMFILE); }, 200) < 8 * before);
		CHILD_CHECK(sn_signal_catch(SIGUSR1) == -EMFILE);
		all_is_well();
		// A task that accepts waits until there are descriptors again.
		Task accepting([&] {
			sn_tcp *conn = nullptr;

			for (int i = 0; i < 2; i++) {
				CHILD_CHECK(sn_tcp_accept(listener, &conn) == 0);
				sn_tcp_close(conn);
			}
		});
		CHILD_CHECK(test::eventually([] { return test::stats().accept_pauses > 0; }));
		set_limit(RLIMIT_NOFILE, former.rlim_cur);
		CHILD_CHECK(connects(address, 0));
		accepting.join();
		CHILD_CHECK(sn_signal_catch(SIGUSR1) == 0);
	});

	EXPECT_EQ(0, outcome.status) << outcome.said;
	EXPECT_EQ("", outcome.said);
}

// No more threads can be started: work waits for the existing ones, and one line of the log says
// so.
TEST(Limits, ThreadsRunOut)
{
	const Outcome outcome = child(2, [] {
		std::vector<Task> sleepers;

		set_limit(RLIMIT_NPROC, 0);
		// The limit does not hold for root. setresuid() changes the user of all threads.
		if (geteuid() == 0)
			CHILD_CHECK(setresuid(65534, 65534, 65534) == 0);
		for (int i = 0; i < 20; i++)
			sleepers.emplace_back([] {
				sn_enter_blocking();
				usleep(5000);
				sn_exit_blocking();
			});
		test::join_all(sleepers);
		all_is_well();
	});

	EXPECT_EQ(0, outcome.status) << outcome.said;
	EXPECT_EQ(count(outcome.said, "\n"), 1u) << outcome.said;
	EXPECT_EQ(1u, count(outcome.said, "cannot start another thread")) << outcome.said;
}

// The limit is lifted while every thread is blocked: more are started, as many as there is work
// for.
TEST(Limits, ThreadsComeBack)
{
	const Outcome outcome = child(2, [] {
		constexpr int n = 12;
		std::atomic<int> in{0};
		std::vector<Task> tasks;
		struct rlimit former;
		int gate[2];

		CHILD_CHECK(pipe2(gate, O_CLOEXEC) == 0);
		CHILD_CHECK(getrlimit(RLIMIT_NPROC, &former) == 0);
		if (geteuid() == 0)
			CHILD_CHECK(setresuid(65534, 65534, 65534) == 0);
		// Not a task, because no task may have a thread to run on.
		std::thread lifts([&] {
			CHILD_CHECK(test::eventually_in_thread(
				[] { return test::stats().thread_limit_hits > 0; }));
			CHILD_CHECK(in < n);
			set_limit(RLIMIT_NPROC, former.rlim_cur);
		});
		set_limit(RLIMIT_NPROC, 0);
		for (int i = 0; i < n; i++)
			tasks.emplace_back([&] {
				char byte;

				in++;
				CHILD_CHECK(read(gate[0], &byte, 1) == 1);
			});
		CHILD_CHECK(test::eventually([&] { return in == n; }));
		for (int i = 0; i < n; i++)
			CHILD_CHECK(write(gate[1], "x", 1) == 1);
		test::join_all(tasks);
		lifts.join();
		close(gate[0]);
		close(gate[1]);
		all_is_well();
	});

	EXPECT_EQ(0, outcome.status) << outcome.said;
	EXPECT_EQ(count(outcome.said, "\n"), 1u) << outcome.said;
	EXPECT_EQ(1u, count(outcome.said, "cannot start another thread")) << outcome.said;
}

#if !TEST_TSAN && !TEST_ASAN // the sanitizers' shadow memory is larger than any limit

// No more address space: spawning fails, or the tasks wait for stacks. Running tasks continue.
TEST(Limits, AddressSpaceRunsOut)
{
	const Outcome outcome = child(2, [] {
		static std::atomic<bool> stop;
		static std::atomic<int> begun;
		std::vector<sn_task *> tasks;
		int spawned = 0, refused = 0;

		tasks.reserve(200000);
		all_is_well();
		test::limit_address_space(8 << 20);
		for (int i = 0; i < 200000 && refused == 0; i++) {
			sn_task *task = nullptr;
			const int err = sn_spawn(
				&task,
				[](void *) {
					begun++;
					while (!stop)
						sn_sleep(test::ms);
					return 0;
				},
				nullptr, nullptr);

			CHILD_CHECK(err == 0 || err == -ENOMEM);
			if (err == 0) {
				tasks.push_back(task);
				spawned++;
			} else {
				refused++;
			}
			if (i % 64 == 0)
				sn_yield();
		}
		CHILD_CHECK(spawned > 0);
		CHILD_CHECK(test::eventually([] { return begun > 0; }));
		stop = true;
		for (sn_task *task : tasks)
			CHILD_CHECK(sn_join(task, nullptr) == 0);
		CHILD_CHECK(begun == spawned);
		// Freed stacks may stay in the other processor's cache for a while.
		CHILD_CHECK(test::eventually([] {
			sn_task *task = nullptr;

			return sn_spawn(
				       &task, [](void *) { return 4711; }, nullptr, nullptr) == 0 &&
			       sn_join(task, nullptr) == 0;
		}));
		set_limit(RLIMIT_AS, RLIM_INFINITY);
		all_is_well();
	});

	EXPECT_EQ(0, outcome.status) << outcome.said;
	EXPECT_LE(count(outcome.said, "\n"), 2u) << outcome.said;
}

// While there is no address space for stacks, and tasks wait for some, neither a refused spawn nor
// what continues costs much more than before.
TEST(Limits, WithoutAddressSpaceCallsCostTheSame)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "the emulator enforces no limit on address space";
	const Outcome outcome = child(2, [] {
		static std::atomic<bool> stop;
		const auto sleeps = [](void *) {
			while (!stop)
				sn_sleep(10 * test::ms);
			return 0;
		};
		const auto spawns = [] {
			sn_task *task = nullptr;
			const int err = sn_spawn(
				&task, [](void *) { return 0; }, nullptr, nullptr);

			if (err == 0)
				sn_join(task, nullptr);
			return err;
		};
		std::vector<sn_task *> tasks;
		int err = 0;

		tasks.reserve(200000);
		// So many that each yield switches to another task, on whichever processor.
		std::vector<Task> yielding;
		for (int i = 0; i < 8; i++)
			yielding.emplace_back([] {
				while (!stop)
					sn_yield();
			});
		const double spawn = cost_of([&] { CHILD_CHECK(spawns() == 0); });
		const double yield = cost_of([] { sn_yield(); });
		test::limit_address_space(8 << 20);
		while (err == 0 && tasks.size() < 200000) {
			sn_task *task = nullptr;

			err = sn_spawn(&task, sleeps, nullptr, nullptr);
			if (err == 0)
				tasks.push_back(task);
			if (tasks.size() % 64 == 0)
				sn_yield();
		}
		CHILD_CHECK(err == -ENOMEM);
		const double refused = cost_of([&] { err = spawns(); });
		CHILD_CHECK(err == -ENOMEM);
		const double later = cost_of([] { sn_yield(); });
		printf("a spawn: %.0f ns, refused %.0f ns; a yield: %.0f ns, later %.0f ns\n",
		       spawn, refused, yield, later);
		fflush(stdout);
		CHILD_CHECK(refused < 8 * spawn);
		CHILD_CHECK(later < 8 * yield);
		stop = true;
		test::join_all(yielding);
		for (sn_task *task : tasks)
			CHILD_CHECK(sn_join(task, nullptr) == 0);
	});

	EXPECT_EQ(0, outcome.status) << outcome.said;
}

#endif

// The limit is on the first thread's stack. The runtime's stacks have the sizes that the runtime
// chooses.
TEST(Limits, TheStackLimitIsLowered)
{
	const Outcome outcome = child(2, [] {
		set_limit(RLIMIT_STACK, 16 << 10);
		all_is_well();
		Task large([] {
			char frame[40 << 10];

			for (size_t i = 0; i < sizeof frame; i += 1024)
				static_cast<volatile char *>(frame)[i] = 1;
			sn_yield();
		});
		large.join();
	});

	EXPECT_EQ(0, outcome.status) << outcome.said;
	EXPECT_EQ("", outcome.said);
}

} // namespace
