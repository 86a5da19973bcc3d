// SPDX-License-Identifier: MIT
//
// What a memory fault leads to: a stack overflow is reported with the task's name and a backtrace,
// a guard hit by somebody else says so, any other fault is none of sennit's business. Each in a
// child process that dies of it.
#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

#include "support/internals.h"
#include "support/runtime.h"

// Exported, so that the backtrace can name it.
extern "C" __attribute__((visibility("default"), noinline)) int sennit_test_runaway(int depth);

static volatile bool enough; // never: but compilers refuse a recursion that plainly has no end

extern "C" int sennit_test_runaway(int depth)
{
	volatile char frame[128];

	frame[0] = char(depth);
	const int below = enough ? 0 : sennit_test_runaway(depth + 1);
	return below + frame[0];
}

namespace
{

// In the text, or not in it.
class Text : public testing::MatcherInterface<const std::string &>
{
public:
	Text(std::string what, bool wanted) : what_(std::move(what)), wanted_(wanted) {}
	bool MatchAndExplain(const std::string &text, testing::MatchResultListener *) const override
	{
		return (text.find(what_) != std::string::npos) == wanted_;
	}
	void DescribeTo(std::ostream *os) const override
	{
		*os << (wanted_ ? "has \"" : "lacks \"") << what_ << "\"";
	}

private:
	std::string what_;
	bool wanted_;
};

testing::Matcher<const std::string &> lacks(const char *what)
{
	return testing::MakeMatcher(new Text(what, false));
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
		EXPECT_EXIT(overflow(procs, 0), testing::KilledBySignal(SIGSEGV), overflow_report);
}

TEST_F(Fault, EndlessRecursionOnALargeStack)
{
	EXPECT_EXIT(overflow(2, 1 << 20), testing::KilledBySignal(SIGSEGV), overflow_report);
}

TEST_F(Fault, EndlessRecursionWithGuardsByMprotect)
{
	test::Environment guard("SENNIT_STACK_GUARD", "mprotect");

	EXPECT_EXIT(overflow(2, 0), testing::KilledBySignal(SIGSEGV), overflow_report);
}

// The first task's stack is of another size and has a name of its own.
TEST_F(Fault, EndlessRecursionInTheFirstTask)
{
	EXPECT_EXIT(
		{
			no_core_dump();
			test::run(1, [] { sennit_test_runaway(0); });
			_exit(0);
		},
		testing::KilledBySignal(SIGSEGV), "stack overflow in task [0-9]+ \"main\"");
}

// Writes below the stack of a task named "victim", from whatever thread calls hit.
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
	EXPECT_EXIT(hit_guard([](char *at) {
			    struct sn_task_attr attr = {};

			    attr.name = "culprit";
			    test::Task culprit([at] { write_to(at); }, &attr);
			    culprit.join();
		    }),
		    testing::KilledBySignal(SIGSEGV),
		    "sennit: the guard below the stack of task [0-9]+ \"victim\" was hit at "
		    "0x[0-9a-f]+ by task [0-9]+ \"culprit\"");
}

TEST_F(Fault, AGuardHitByAForeignThreadNamesTheVictim)
{
	EXPECT_EXIT(hit_guard([](char *at) { std::thread([at] { write_to(at); }).join(); }),
		    testing::KilledBySignal(SIGSEGV),
		    "sennit: the guard below the stack of task [0-9]+ \"victim\" was hit at "
		    "0x[0-9a-f]+: a wild pointer");
}

// A sanitizer has a handler of its own, which we chain to: it reports and exits.
bool died_of_the_fault(int status)
{
	if (TEST_ASAN || TEST_TSAN)
		return WIFEXITED(status) && WEXITSTATUS(status) != 0;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

__attribute__((noinline)) char *nowhere()
{
	char *volatile null = nullptr;

	return null;
}

TEST_F(Fault, ANullPointerIsNotOurs)
{
	EXPECT_EXIT(
		{
			no_core_dump();
			test::run(2, [] { write_to(nowhere()); });
			_exit(0);
		},
		died_of_the_fault, lacks("sennit:"));
}

/* The emulator loses a signal to the process when the thread that gets it ends just then. */
void send_fault()
{
	if (TEST_EMULATED)
		raise(SIGSEGV);
	else
		kill(getpid(), SIGSEGV);
}

TEST_F(Fault, ASignalThatWasSentKills)
{
	if (TEST_ASAN || TEST_TSAN) // its handler decides; ours must only pass it on
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
		testing::ExitedWithCode(42), "^chained\n$");
	EXPECT_EXIT(
		{
			signal(SIGSEGV, own_handler);
			test::run(2, [] { write_to(nowhere()); });
			_exit(0);
		},
		testing::ExitedWithCode(43), "");
}

// An overflow is reported also when the program has a handler of its own.
TEST_F(Fault, AnOverflowIsReportedBesideAFormerHandler)
{
	EXPECT_EXIT(
		{
			signal(SIGSEGV, own_handler);
			overflow(2, 0);
		},
		testing::KilledBySignal(SIGSEGV), overflow_report);
}

TEST_F(Fault, FormerHandlersComeBackAfterTheRun)
{
	struct sigaction former[2], now;
	const int signals[] = {SIGSEGV, SIGBUS};

	for (int i = 0; i < 2; i++)
		sigaction(signals[i], nullptr, &former[i]);
	test::run([] {});
	for (int i = 0; i < 2; i++) {
		sigaction(signals[i], nullptr, &now);
		EXPECT_EQ(former[i].sa_handler, now.sa_handler);
		// Linux's SA_RESTORER comes and goes with the C library's wrapper.
		EXPECT_EQ(former[i].sa_flags & ~0x04000000, now.sa_flags & ~0x04000000);
	}
	// One that was installed meanwhile stays.
	test::run(1, [] { signal(SIGSEGV, own_handler); });
	sigaction(SIGSEGV, nullptr, &now);
	EXPECT_EQ(own_handler, now.sa_handler);
	sigaction(SIGSEGV, &former[0], nullptr);
}

} // namespace
