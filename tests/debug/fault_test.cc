// SPDX-License-Identifier: MIT
// Labels: machine
//
// A fault in a task leads to a report that names the task, says where the address lies relative to
// its stack, and has a backtrace. Then the previous handler runs, or the process dies. Outside of
// tasks, the runtime adds nothing. Each case runs in a child process, which dies of it.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/full_stderr.h"
#include "support/internals.h"
#include "support/runtime.h"

// Exported, so that the backtrace can name it.
extern "C" __attribute__((visibility("default"), noinline)) int sennit_test_runaway(int depth);

// never true, but compilers refuse a recursion that obviously has no end
static volatile bool enough;

extern "C" int sennit_test_runaway(int depth)
{
	volatile char frame[128];

	frame[0] = char(depth);
	const int below = enough ? 0 : sennit_test_runaway(depth + 1);
	return below + frame[0];
}

namespace
{

// Matches a text that has a string exactly this many times.
class Text : public testing::MatcherInterface<const std::string &>
{
public:
	Text(std::string what, int times) : what_(std::move(what)), times_(times) {}
	bool MatchAndExplain(const std::string &text, testing::MatchResultListener *) const override
	{
		int times = 0;

		for (size_t at = 0; (at = text.find(what_, at)) != std::string::npos; at++)
			times++;
		return times == times_;
	}
	void DescribeTo(std::ostream *os) const override
	{
		*os << "has \"" << what_ << "\" " << times_ << " times";
	}

private:
	std::string what_;
	int times_;
};

testing::Matcher<const std::string &> has_times(const char *what, int times)
{
	return testing::MakeMatcher(new Text(what, times));
}

testing::Matcher<const std::string &> lacks(const char *what)
{
	return has_times(what, 0);
}

// A sanitizer has a handler of its own, which runs after sennit's. It reports and exits.
bool died_of_the_fault(int status)
{
	if (TEST_ASAN || TEST_TSAN) // or by SIGABRT, for which a sanitizer has no handler
		return WIFEXITED(status) && WEXITSTATUS(status) != 0;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

class Fault : public testing::Test
{
protected:
	Fault() { testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE; }
};

void no_core_dump()
{
	const struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
}

[[noreturn]] void overflow(int procs, size_t stack_size)
{
	no_core_dump();
	test::run(procs, [stack_size] {
		struct sn_task_attr attr = {};

		attr.name = "runaway";
		attr.stack_size = stack_size;
		test::Task task([] { return sennit_test_runaway(0); }, &attr);
		task.join();
	});
	_exit(0);
}

const char overflow_report[] = "sennit: stack overflow in task [0-9]+ \"runaway\": its [0-9]+ KiB "
			       "are used up.*#0 .*#1 .*sennit_test_runaway.*more frames";

TEST_F(Fault, EndlessRecursionNamesTheTask)
{
	for (int procs : {1, 2, 4})
		EXPECT_EXIT(overflow(procs, 0), died_of_the_fault, overflow_report);
}

// The advice has to fit the task: another default size does not help a task that has a size of its
// own.
TEST_F(Fault, EndlessRecursionOnALargeStack)
{
	EXPECT_EXIT(overflow(2, 1 << 20), died_of_the_fault, overflow_report);
	EXPECT_EXIT(overflow(2, 1 << 20), died_of_the_fault,
		    "are used up \\(sn_task_attr.stack_size sets the size\\)");
	EXPECT_EXIT(
		overflow(2, 0), died_of_the_fault,
		"are used up \\(sn_task_attr.stack_size sets the size, SENNIT_STACK_SIZE that of "
		"all tasks\\)");
}

TEST_F(Fault, EndlessRecursionWithGuardsByMprotect)
{
	test::Environment guard("SENNIT_STACK_GUARD", "mprotect");

	EXPECT_EXIT(overflow(2, 0), died_of_the_fault, overflow_report);
}

// The first task's stack has another size, and the advice names another setting.
TEST_F(Fault, EndlessRecursionInTheFirstTask)
{
	EXPECT_EXIT(
		{
			no_core_dump();
			test::run(1, [] { sennit_test_runaway(0); });
			_exit(0);
		},
		died_of_the_fault,
		"stack overflow in task [0-9]+ \"main\": its [0-9]+ KiB are used up "
		"\\(sn_run_attr.first_stack_size or SENNIT_STACK_SIZE sets the size\\)");
}

// Calls hit() with an address in the guard below the stack of a task named "victim".
[[noreturn]] void hit_guard(void (*hit)(char *at))
{
	no_core_dump();
	static char *at;

	test::run(2, [hit] {
		std::atomic<bool> known{false};
		struct sn_task_attr attr = {};

		attr.name = "victim";
		test::Task victim(
			[&] {
				probe_stack stack;
				bool in_guard;
				const void *me = __builtin_frame_address(0);

				CHILD_CHECK(probe_stack_find(me, &stack, &in_guard));
				CHILD_CHECK(!in_guard);
				at = stack.low - 8;
				known = true;
				sn_sleep(INT64_MAX);
			},
			&attr);
		CHILD_CHECK(test::eventually([&] { return known.load(); }));
		hit(at);
		victim.detach();
	});
	_exit(0);
}

__attribute__((noinline)) void write_to(char *at)
{
	*const_cast<volatile char *>(at) = 1;
}

TEST_F(Fault, AGuardHitByAnotherTaskNamesBoth)
{
	EXPECT_EXIT(
		hit_guard([](char *at) {
			struct sn_task_attr attr = {};

			attr.name = "culprit";
			test::Task culprit([at] { write_to(at); }, &attr);
			culprit.join();
		}),
		died_of_the_fault,
		"sennit: the guard below the stack of task [0-9]+ \"victim\" was hit at "
		"0x[0-9a-f]+ by task [0-9]+ \"culprit\": a wild pointer\n"
		"  address 0x[0-9a-f]+: [0-9]+ .* (below|above) its stack, in the guard below the "
		"stack of task [0-9]+ \"victim\"\n");
}

TEST_F(Fault, AGuardHitByAForeignThreadNamesTheVictim)
{
	EXPECT_EXIT(hit_guard([](char *at) { std::thread([at] { write_to(at); }).join(); }),
		    died_of_the_fault,
		    "sennit: the guard below the stack of task [0-9]+ \"victim\" was hit at "
		    "0x[0-9a-f]+: a wild pointer");
}

__attribute__((noinline)) char *nowhere()
{
	char *volatile null = nullptr;

	return null;
}

// Runs the body in a task with a name, which the report has to contain.
[[noreturn]] void in_task(void (*body)())
{
	no_core_dump();
	test::run(2, [body] {
		struct sn_task_attr attr = {};

		attr.name = "faulty";
		test::Task([body] { body(); }, &attr).join();
	});
	_exit(0);
}

TEST_F(Fault, ANullPointerNamesTheTask)
{
	EXPECT_EXIT(in_task([] { write_to(nowhere()); }), died_of_the_fault,
		    "^sennit: SIGSEGV in task [0-9]+ \"faulty\"\n"
		    "  address 0x0: a null pointer.*\n"
		    "  its stack: 0x[0-9a-f]+ to 0x[0-9a-f]+ \\([0-9]+ KiB\\), the stack pointer "
		    "[0-9]+ .*below its upper end\n"
		    "  spawned at .* by task 1\n"
		    "  #0 .*write_to");
}

// Without the alarm a report that waits without a limit would hold up all tests.
TEST_F(Fault, WithoutAReaderOfTheReportTheProcessDiesToo)
{
	if (TEST_ASAN || TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "the sanitizer's or the emulator's own report waits for room";
	EXPECT_EXIT(
		{
			alarm(60);
			test::full_pipe();
			in_task([] { write_to(nowhere()); });
		},
		died_of_the_fault, "^$");
}

TEST_F(Fault, AFaultOfTheFirstTaskNamesIt)
{
	EXPECT_EXIT(
		{
			no_core_dump();
			test::run(2, [] { write_to(nowhere()); });
			_exit(0);
		},
		died_of_the_fault,
		"sennit: SIGSEGV in task 1 \"main\".*the first task, of sn_run.*#0 .*write_to");
}

TEST_F(Fault, TheDistanceFromTheStackIsReported)
{
#ifdef __s390x__ // its processors report only the page
	const std::string last_digits = "00";
#else
	const std::string last_digits = "01";
#endif
#ifdef __powerpc64__ // where qemu 7.2 tells no difference
	const std::string why = "(access is not allowed|nothing is mapped)";
#else
	const std::string why = "access is not allowed";
#endif
	EXPECT_EXIT(in_task([] {
			    void *at = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
					    -1, 0);

			    write_to(static_cast<char *>(at) + 1);
		    }),
		    died_of_the_fault,
		    "address 0x[0-9a-f]+" + last_digits +
			    ": [0-9]+ (bytes|[KMG]iB) (below|above) its stack, where " + why +
			    "\n");
}

TEST_F(Fault, AnAddressFarFromTheStackIsCalledThat)
{
	if (sizeof(void *) < 8)
		GTEST_SKIP() << "no address is far from the stack there";
	if (TEST_TSAN || TEST_ASAN)
		GTEST_SKIP() << "the sanitizer accesses its shadow of the address first";
	EXPECT_EXIT(in_task([] { write_to(nowhere() - (1 << 20)); }), died_of_the_fault,
		    "address 0xfffffffffff00000: far from its stack, where nothing is mapped\n");
}

// Writes to the first page of a mapped file that was truncated. The mapping is longer, because qemu
// 7.2 gives a bus error's address in its own address space, for arm 4 KiB higher: with one page
// only, a guard above it seemed to be hit.
void touch_missing_page()
{
	const size_t size = 64 << 10;
	char name[] = "/tmp/sennit-fault-XXXXXX";
	const int fd = mkstemp(name);

	unlink(name);
	CHILD_CHECK(ftruncate(fd, size) == 0);
	void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHILD_CHECK(at != MAP_FAILED && ftruncate(fd, 0) == 0);
	write_to(static_cast<char *>(at));
}

TEST_F(Fault, ABusErrorNamesTheTask)
{
	auto died = [](int status) {
		return TEST_ASAN || TEST_TSAN ? died_of_the_fault(status)
					      : WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
	};
	EXPECT_EXIT(in_task(touch_missing_page), died,
		    "sennit: SIGBUS in task [0-9]+ \"faulty\"\n  address 0x.*#0 .*write_to");
}

TEST_F(Fault, AnAbortNamesTheTask)
{
	auto died = [](int status) {
		return (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) ||
		       died_of_the_fault(status);
	};
	EXPECT_EXIT(in_task([] { abort(); }), died,
		    "sennit: SIGABRT in task [0-9]+ \"faulty\"\n  its stack: .*#2 .*abort");
	EXPECT_EXIT(in_task([] { std::terminate(); }), died,
		    "sennit: SIGABRT in task [0-9]+ \"faulty\"\n");
}

// Jumps over the guard in one step. The report still recognizes an overflow, and names the task
// whose stack it is.
__attribute__((noinline)) int sparse(const char *text)
{
	volatile char frame[200 << 10];

	frame[0] = *text;
	return frame[0];
}

TEST_F(Fault, ALargeFrameIsAnOverflow)
{
	if (TEST_ASAN || TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "the compiler alone does not decide the frames here";
	EXPECT_EXIT(in_task([] { sparse("x"); }), testing::KilledBySignal(SIGSEGV),
		    "sennit: stack overflow in task [0-9]+ \"faulty\"");
}

TEST_F(Fault, OnlyOverflowsAreReportedOnRequest)
{
	test::Environment wish("SENNIT_FAULT_REPORTS", "0");

	EXPECT_EXIT(in_task([] { write_to(nowhere()); }), died_of_the_fault, lacks("sennit:"));
	EXPECT_EXIT(overflow(2, 0), died_of_the_fault, overflow_report);
}

TEST_F(Fault, AForeignThreadsFaultIsNotReported)
{
	EXPECT_EXIT(
		{
			no_core_dump();
			test::run(2, [] { std::thread([] { write_to(nowhere()); }).join(); });
			_exit(0);
		},
		died_of_the_fault, lacks("sennit:"));
}

// The signal is sent to the process, whose first thread runs no task.
void send_fault()
{
	kill(getpid(), SIGSEGV);
}

TEST_F(Fault, ASignalThatWasSentKills)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "a signal to the process is lost when the thread that gets it ends "
				"just then";
	if (TEST_TSAN)
		GTEST_SKIP() << "TSan's handler makes a report, and may wait for a lock that the "
				"interrupted thread holds";
	// the sanitizer's handler decides; sennit's must only pass the signal on
	if (TEST_ASAN)
		EXPECT_EXIT(
			{
				no_core_dump();
				test::run(2, send_fault);
				test::run(2, [] { sn_sleep(test::second); });
				_exit(0);
			},
			died_of_the_fault, lacks("sennit:"));
	else
		EXPECT_EXIT(
			{
				no_core_dump();
				test::run(2, send_fault);
				test::run(2, [] { sn_sleep(test::second); });
				_exit(0);
			},
			testing::KilledBySignal(SIGSEGV), lacks("sennit:"));
}

void own_action(int signum, siginfo_t *info, void *)
{
	const char text[] = "chained\n";

	if (signum == SIGSEGV && info->si_addr == nullptr)
		(void)!write(STDERR_FILENO, text, sizeof text - 1);
	_exit(42);
}

void own_handler(int)
{
	_exit(43);
}

TEST_F(Fault, AFormerHandlerIsChained)
{
	EXPECT_EXIT(
		{
			struct sigaction action = {};
			action.sa_sigaction = own_action;
			action.sa_flags = SA_SIGINFO;
			sigaction(SIGSEGV, &action, nullptr);
			test::run(2, [] { write_to(nowhere()); });
			_exit(0);
		},
		testing::ExitedWithCode(42), "sennit: SIGSEGV in task 1 .*#0 .*chained\n$");
	EXPECT_EXIT(
		{
			signal(SIGSEGV, own_handler);
			test::run(2, [] { write_to(nowhere()); });
			_exit(0);
		},
		testing::ExitedWithCode(43), "");
}

// The handler has SA_RESETHAND, so the second fault kills by the default action. While the handler
// runs, its own mask is in force.
TEST_F(Fault, AFormerHandlerRunsAsItWasInstalled)
{
	EXPECT_EXIT(
		{
			struct sigaction action = {};
			action.sa_handler = [](int) {
				sigset_t now;

				pthread_sigmask(SIG_BLOCK, nullptr, &now);
				CHILD_CHECK(sigismember(&now, SIGUSR1) &&
					    sigismember(&now, SIGSEGV));
				CHILD_CHECK(write(STDERR_FILENO, "once\n", 5) == 5);
			};
			action.sa_flags = int(SA_RESETHAND);
			sigemptyset(&action.sa_mask);
			sigaddset(&action.sa_mask, SIGUSR1);
			sigaction(SIGSEGV, &action, nullptr);
			in_task([] { write_to(nowhere()); });
		},
		// An emulator prints a message of its own after that.
		testing::KilledBySignal(SIGSEGV), TEST_EMULATED ? "\nonce\n" : "\nonce\n$");
}

sigjmp_buf back;

// A program that survives faults, for example by a jump, gets one report.
TEST_F(Fault, AProgramThatSurvivesFaultsGetsOneReport)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "TSan does not follow jumps between its fibers' handlers";
	EXPECT_EXIT(
		{
			signal(SIGSEGV, [](int) { siglongjmp(back, 1); });
			test::run(2, [] {
				static std::atomic<int> i;

				for (i = 0; i < 3; i++)
					if (sigsetjmp(back, 1) == 0)
						write_to(nowhere());
			});
			test::run(2, [] { // and again in the next run
				if (sigsetjmp(back, 1) == 0)
					write_to(nowhere());
			});
			_exit(0);
		},
		testing::ExitedWithCode(0), has_times("sennit: SIGSEGV in task", 2));
}

/* ---- threads of the program that rely on faults, as collectors and virtual machines do ---- */

const size_t page = size_t(sysconf(_SC_PAGESIZE));
char *barrier[3]; // a page for each thread

void open_barrier(int, siginfo_t *info, void *)
{
	for (char *at : barrier)
		if (info->si_addr == at) {
			mprotect(at, page, PROT_READ | PROT_WRITE);
			return;
		}
	static const char text[] = "an unexpected fault\n";
	(void)!write(STDERR_FILENO, text, sizeof text - 1);
	_exit(42);
}

void hit_again_and_again(char *at, const std::atomic<bool> &over)
{
	while (!over) {
		CHILD_CHECK(mprotect(at, page, PROT_NONE) == 0);
		write_to(at);
	}
}

// Uses stacks of several sizes, so that there are many to search and to give back.
void use_many_stacks()
{
	for (size_t size = 4096; size <= size_t(1) << 20; size *= 2) {
		struct sn_task_attr attr = {};

		attr.stack_size = size;
		test::Task([] {}, &attr).join();
	}
}

// Each of the threads' faults is looked up among the stacks, while the end of a run gives the
// stacks back.
TEST_F(Fault, RunsEndWhileThreadsRelyOnFaults)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "TSan and emulators cannot handle thousands of faults";
	EXPECT_EXIT(
		{
			struct sigaction action = {};
			std::atomic<bool> over{false};
			std::vector<std::thread> threads;

			action.sa_sigaction = open_barrier;
			action.sa_flags = SA_SIGINFO;
			for (char *&at : barrier) {
				at = static_cast<char *>(mmap(nullptr, page, PROT_NONE,
							      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
				CHILD_CHECK(at != MAP_FAILED);
			}
			CHILD_CHECK(sigaction(SIGSEGV, &action, nullptr) == 0);
			for (char *at : barrier)
				threads.emplace_back(
					[at, &over] { hit_again_and_again(at, over); });
			for (int i = 0; i < test::scaled(500); i++)
				test::run(1, use_many_stacks);
			over = true;
			test::join_all(threads);
			_exit(0);
		},
		testing::ExitedWithCode(0), "");
}

TEST_F(Fault, TheProgramsHandlerReplacesOurs)
{
	EXPECT_EXIT(
		{
			test::run(2, [] {
				signal(SIGSEGV, own_handler);
				write_to(nowhere());
			});
			_exit(0);
		},
		testing::ExitedWithCode(43), lacks("sennit:"));
}

// An overflow is reported even if the program has a handler of its own, which runs afterwards.
TEST_F(Fault, AnOverflowIsReportedBesideAFormerHandler)
{
	EXPECT_EXIT(
		{
			signal(SIGSEGV, own_handler);
			overflow(2, 0);
		},
		testing::ExitedWithCode(43), overflow_report);
}

TEST_F(Fault, FormerHandlersAreRestoredAfterTheRun)
{
	struct sigaction former[3], now;
	const int signals[] = {SIGSEGV, SIGBUS, SIGABRT};

	for (int i = 0; i < 3; i++)
		sigaction(signals[i], nullptr, &former[i]);
	test::run([] {});
	for (int i = 0; i < 3; i++) {
		sigaction(signals[i], nullptr, &now);
		EXPECT_EQ(former[i].sa_handler, now.sa_handler);
		// SA_RESTORER depends on the C library's wrapper.
		EXPECT_EQ(former[i].sa_flags & ~0x04000000, now.sa_flags & ~0x04000000);
	}
	// A handler that was installed during the run stays.
	test::run(1, [] { signal(SIGSEGV, own_handler); });
	sigaction(SIGSEGV, nullptr, &now);
	EXPECT_EQ(own_handler, now.sa_handler);
	sigaction(SIGSEGV, &former[0], nullptr);
}

/* ---- threads that end under a task ---- */

TEST_F(Fault, ATaskThatEndsItsThreadIsNamed)
{
	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "ending a thread from another stack is an error to them";
	EXPECT_EXIT(in_task([] { pthread_exit(nullptr); }), testing::KilledBySignal(SIGABRT),
		    "^sennit: task [0-9]+ \"faulty\" has ended the thread that it ran on: by "
		    "pthread_exit[^\n]*\n");
}

TEST_F(Fault, ATaskWhoseThreadIsCancelledIsNamed)
{
	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "ending a thread from another stack is an error to them";
	EXPECT_EXIT(in_task([] {
			    const pthread_t me = pthread_self();

			    // The thread is not joined, because the join would be cancelled.
			    static std::atomic<bool> cancelled;

			    std::thread([me] {
				    pthread_cancel(me);
				    cancelled = true;
			    }).detach();
			    while (!cancelled)
				    sched_yield();
			    pthread_testcancel();
		    }),
		    testing::KilledBySignal(SIGABRT),
		    "sennit: task [0-9]+ \"faulty\" has ended the thread that it ran on");
}

// A forked child has no runtime, and its thread is an ordinary one.
TEST_F(Fault, AForkedChildMayEndItsThread)
{
	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "ending a thread from another stack is an error to them";
	EXPECT_EXIT(
		{
			test::run(2, [] {
				const pid_t child = fork();
				int status = -1;

				if (child == 0)
					pthread_exit(nullptr);
				CHILD_CHECK(waitpid(child, &status, 0) == child);
				CHILD_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
			});
			_exit(0);
		},
		testing::ExitedWithCode(0), "");
}

// A report that does not end, such as one that nobody reads, does not make another fault silent.
TEST_F(Fault, BesideAReportThatDoesNotEndIsALine)
{
	EXPECT_EXIT(
		in_task([] {
			static std::atomic<bool> has_begun;

			std::thread([] {
				has_begun = probe_report_begin();
				for (;;)
					pause();
			}).detach();
			test::eventually([] { return has_begun.load(); });
			write_to(nowhere());
		}),
		died_of_the_fault,
		"^sennit: SIGSEGV in task [0-9]+ \"faulty\": no report, because another one has "
		"been under way for 5 s\n");
}

} // namespace
