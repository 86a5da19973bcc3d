// SPDX-License-Identifier: MIT
//
// Signals for tasks: they are caught, waited for and merged, waits time out, and the previous
// dispositions are restored afterwards.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <thread>

#include <unistd.h>

#include "support/child.h"

namespace
{

using test::soon;
using test::Task;

TASK_TEST(Signal, IsWaitedFor)
{
	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	ASSERT_EQ(0, sn_signal_catch(SIGUSR2));
	ASSERT_EQ(0, sn_signal_catch(SIGUSR1)) << "catching it twice is no error";

	// A signal that comes before the wait.
	kill(getpid(), SIGUSR2);
	EXPECT_EQ(SIGUSR2, sn_signal_wait(soon()));
	// A signal that comes during the wait.
	Task sender([] {
		sn_sleep(2 * test::ms);
		kill(getpid(), SIGUSR1);
	});
	EXPECT_EQ(SIGUSR1, sn_signal_wait(SN_NO_DEADLINE));
	sender.join();
	EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(sn_now() + test::ms)) << "nothing is left";
}

TASK_TEST(Signal, DeliveriesMerge)
{
	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	ASSERT_EQ(0, sn_signal_catch(SIGUSR2));
	for (int i = 0; i < 5; i++)
		raise(SIGUSR1);
	raise(SIGUSR2);
	// Both signals come, once each, in any order.
	const int first = sn_signal_wait(soon()), second = sn_signal_wait(soon());
	EXPECT_TRUE((first == SIGUSR1 && second == SIGUSR2) ||
		    (first == SIGUSR2 && second == SIGUSR1))
		<< first << " " << second;
	EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(sn_now() + test::ms));
}

TASK_TEST(Signal, ManyAreNotLost)
{
	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	const int n = test::scaled(500);
	std::atomic<int> seen{0};
	std::thread sender([&] {
		for (int i = 0; i < n; i++) {
			kill(getpid(), SIGUSR1);
			ASSERT_TRUE(
				test::eventually_in_thread([&] { return seen.load() == i + 1; }));
		}
	});

	for (int i = 0; i < n; i++) {
		ASSERT_EQ(SIGUSR1, sn_signal_wait(soon()));
		seen++;
	}
	sender.join();
}

TASK_TEST(Signal, TimesOutAndNotEarly)
{
	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	const int64_t deadline = sn_now() + 5 * test::ms;

	EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(deadline));
	EXPECT_GE(sn_now(), deadline);
	EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(1)) << "long past";
	raise(SIGUSR1);
	EXPECT_EQ(SIGUSR1, sn_signal_wait(soon())) << "usable after a timeout";
}

TASK_TEST(Signal, EachWakesOneOfSeveralWaiters)
{
	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	std::atomic<int> got{0};
	std::vector<Task> tasks;

	for (int i = 0; i < 3; i++)
		tasks.emplace_back([&] {
			EXPECT_EQ(SIGUSR1, sn_signal_wait(soon()));
			got++;
		});
	for (int i = 1; i <= 3; i++) {
		raise(SIGUSR1);
		ASSERT_TRUE(test::eventually([&] { return got.load() >= i; }));
		EXPECT_EQ(i, got.load());
	}
	test::join_all(tasks);
}

// Also when a task comes after the signal, and before the poller has seen that.
TASK_TEST(Signal, GoesToTheTaskThatHasWaitedLonger, 1)
{
	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	std::atomic<bool> about_to{false};
	Task first([&] {
		about_to = true;
		return sn_signal_wait(soon());
	});

	while (!about_to)
		sn_yield();
	raise(SIGUSR1);
	EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(sn_now() + 5 * test::ms));
	EXPECT_EQ(SIGUSR1, first.join());
}

TASK_TEST(Signal, WaitersChoose)
{
	const int first[] = {SIGUSR1}, second[] = {SIGUSR2, SIGUSR2};

	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	EXPECT_EQ(-EINVAL, sn_signal_wait_for(second, 2, soon())) << "not caught";
	ASSERT_EQ(0, sn_signal_catch(SIGUSR2));
	Task one([&] { return sn_signal_wait_for(first, 1, soon()); });
	Task two([&] { return sn_signal_wait_for(second, 2, soon()); });

	raise(SIGUSR2);
	EXPECT_EQ(SIGUSR2, two.join());
	// The signal that nobody has chosen stays pending.
	raise(SIGUSR2);
	EXPECT_EQ(-ETIMEDOUT, sn_signal_wait_for(first, 1, sn_now() + test::ms));
	raise(SIGUSR1);
	EXPECT_EQ(SIGUSR1, one.join());
	EXPECT_EQ(SIGUSR2, sn_signal_wait(soon()));
	for (int wrong : {0, -1, 65}) {
		EXPECT_EQ(-EINVAL, sn_signal_wait_for(&wrong, 1, soon()));
	}
	EXPECT_EQ(-EINVAL, sn_signal_wait_for(first, 0, soon()));
	EXPECT_EQ(-EINVAL, sn_signal_wait_for(nullptr, 1, soon()));
}

TASK_TEST(Signal, WaitsEndWithTheirScope)
{
	sn_scope *scope;
	std::atomic<int> result{0};

	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	ASSERT_EQ(0, sn_scope_go(
			     scope,
			     [](void *arg) {
				     *static_cast<std::atomic<int> *>(arg) =
					     sn_signal_wait(SN_NO_DEADLINE);
				     return 0;
			     },
			     &result));
	sn_yield();
	sn_scope_cancel(scope);
	sn_scope_close(scope);
	EXPECT_EQ(-ECANCELED, result.load());
	raise(SIGUSR1);
	EXPECT_EQ(SIGUSR1, sn_signal_wait(soon())) << "nothing took it";
}

// A deadline and a signal at the same time: the signal goes to the task or stays pending.
TASK_TEST(Signal, NoneIsLostToADeadline)
{
	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	for (int i = 0; i < test::scaled(500); i++) {
		Task waiter([] { return sn_signal_wait(sn_now() + 20 * test::us); });

		sn_sleep(20 * test::us);
		raise(SIGUSR1);
		if (waiter.join() == -ETIMEDOUT) {
			EXPECT_EQ(SIGUSR1, sn_signal_wait(soon()));
		}
		EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(1));
	}
}

int next_of(sn_chan *chan)
{
	int signum = 0;

	EXPECT_EQ(0, sn_chan_recv_until(chan, &signum, soon()));
	return signum;
}

TASK_TEST(SignalChannel, GetsWhatItAskedFor)
{
	const int one[] = {SIGUSR1}, two[] = {SIGUSR2};
	sn_chan *chan, *other;

	ASSERT_EQ(0, sn_chan_new(&chan, sizeof(int), 4));
	ASSERT_EQ(0, sn_chan_new(&other, sizeof(int), 4));
	ASSERT_EQ(0, sn_signal_send_to(chan, one, 1));
	raise(SIGUSR1);
	EXPECT_EQ(SIGUSR1, next_of(chan));
	// One more signal for the channel, and one more channel for the signal.
	ASSERT_EQ(0, sn_signal_send_to(chan, two, 1));
	ASSERT_EQ(0, sn_signal_send_to(other, two, 1));
	raise(SIGUSR2);
	EXPECT_EQ(SIGUSR2, next_of(chan));
	EXPECT_EQ(SIGUSR2, next_of(other));
	// No task gets a signal that a channel gets.
	Task waiter([&] { return sn_signal_wait(soon()); });
	raise(SIGUSR2);
	EXPECT_EQ(SIGUSR2, next_of(other));
	EXPECT_EQ(0, sn_signal_stop(other));
	EXPECT_EQ(0, sn_signal_stop(other)) << "the channel gets no signals already";
	EXPECT_EQ(SIGUSR2, next_of(chan));
	EXPECT_EQ(0, sn_signal_stop(chan));
	raise(SIGUSR2);
	EXPECT_EQ(SIGUSR2, waiter.join());
	// A pending signal goes to the channel immediately.
	raise(SIGUSR1);
	ASSERT_EQ(0, sn_signal_send_to(chan, one, 1));
	EXPECT_EQ(SIGUSR1, next_of(chan));
	sn_chan_unref(chan); // the runtime has a reference until the run ends
	sn_chan_unref(other);
}

TASK_TEST(SignalChannel, IsACaseOfASelect)
{
	const int both[] = {SIGUSR1, SIGUSR2};
	sn_chan *signals, *work;
	int signum = 0, item = 0;

	ASSERT_EQ(0, sn_chan_new(&signals, sizeof(int), 1));
	ASSERT_EQ(0, sn_chan_new(&work, sizeof(int), 0));
	ASSERT_EQ(0, sn_signal_send_to(signals, both, 2));
	struct sn_case cases[2] = {};
	cases[0] = {.chan = work, .elem = &item, .op = SN_CASE_RECV, .result = 0};
	cases[1] = {.chan = signals, .elem = &signum, .op = SN_CASE_RECV, .result = 0};
	for (int i = 0; i < test::scaled(200); i++) {
		Task sender([&] {
			sn_yield();
			if (i % 2)
				raise(SIGUSR1);
			else
				EXPECT_EQ(0, sn_chan_send_until(work, &i, soon()));
		});

		ASSERT_EQ(i % 2, sn_select(cases, 2, soon()));
		EXPECT_EQ(0, cases[i % 2].result);
		sender.join();
	}
	EXPECT_EQ(SIGUSR1, signum);
	// A full channel drops further signals.
	raise(SIGUSR1);
	ASSERT_TRUE(test::eventually([&] { return sn_chan_len(signals) == 1; }));
	raise(SIGUSR2);
	Task last([&] { return sn_signal_wait(sn_now() + 10 * test::ms); });
	EXPECT_EQ(-ETIMEDOUT, last.join()) << "the signal belongs to the channel";
	EXPECT_EQ(SIGUSR1, next_of(signals));
	sn_signal_stop(signals);
	sn_chan_unref(signals);
	sn_chan_unref(work);
}

TEST(SignalChannel, BadArguments)
{
	const int one[] = {SIGUSR1}, wrong[] = {SIGKILL};

	test::run(1, [&] {
		sn_chan *chan, *large, *unbuffered;

		ASSERT_EQ(0, sn_chan_new(&chan, sizeof(int), 1));
		ASSERT_EQ(0, sn_chan_new(&large, sizeof(int64_t), 1));
		ASSERT_EQ(0, sn_chan_new(&unbuffered, sizeof(int), 0));
		EXPECT_EQ(-EINVAL, sn_signal_send_to(nullptr, one, 1));
		EXPECT_EQ(-EINVAL, sn_signal_send_to(large, one, 1));
		EXPECT_EQ(-EINVAL, sn_signal_send_to(unbuffered, one, 1));
		EXPECT_EQ(-EINVAL, sn_signal_send_to(chan, one, 0));
		EXPECT_EQ(-EINVAL, sn_signal_send_to(chan, nullptr, 1));
		EXPECT_EQ(-EINVAL, sn_signal_send_to(chan, wrong, 1));
		EXPECT_EQ(-EINVAL, sn_signal_stop(nullptr));
		EXPECT_EQ(0, sn_signal_stop(chan));
		sn_chan_unref(chan);
		sn_chan_unref(large);
		sn_chan_unref(unbuffered);
	});
	EXPECT_EQ(-ENOTSUP, sn_signal_send_to(nullptr, one, 1));
}

TASK_TEST(Signal, SomeCannotBeCaught, 1)
{
	for (int signum : {SIGSEGV, SIGBUS, SIGKILL, SIGSTOP, 0, -1, 65, 1000})
		EXPECT_EQ(-EINVAL, sn_signal_catch(signum)) << signum;
}

// An instruction that no processor has.
[[noreturn]] void execute_nonsense()
{
#if defined(__x86_64__) || defined(__i386__)
	__asm__ volatile("ud2");
#elif defined(__aarch64__) || defined(__arm__)
	__asm__ volatile("udf #0");
#elif defined(__riscv)
	__asm__ volatile("unimp");
#elif defined(__s390x__) || defined(__powerpc__)
	__asm__ volatile(".long 0");
#else
	__builtin_trap();
#endif
	abort();
}

// It is executed again when the handler returns, so catching its signal would keep the process busy
// forever.
TEST(Signal, OfAnInstructionIsNotCaught)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "a child can start no threads";
	const int status = test::in_child([] {
		signal(SIGILL, SIG_DFL); // a sanitizer may have a handler
		test::run(2, [] {
			CHILD_CHECK(sn_signal_catch(SIGILL) == 0);
			kill(getpid(), SIGILL);
			CHILD_CHECK(sn_signal_wait(soon()) == SIGILL);
			Task bad([] { execute_nonsense(); });
			sn_signal_wait(soon());
			CHILD_CHECK(false);
		});
	});

	ASSERT_LE(1000, status) << "not ended by a signal, but with that status";
	EXPECT_EQ(SIGILL, WTERMSIG(status - 1000));
}

sigjmp_buf recovery;
volatile sig_atomic_t recoveries;

extern "C" void recover(int /*signum*/)
{
	recoveries = recoveries + 1;
	siglongjmp(recovery, 1); // NOLINT: what such programs do
}

// A program's own handler gets the signal of the instruction each time, and tasks the others.
TEST(Signal, OfAnInstructionGoesToTheFormerHandler)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "a child can start no threads";
	const int status = test::in_child([] {
		signal(SIGILL, recover);
		test::run(2, [] {
			CHILD_CHECK(sn_signal_catch(SIGILL) == 0);
			for (int i = 0; i < 3; i++)
				if (sigsetjmp(recovery, 1) == 0)
					execute_nonsense();
			CHILD_CHECK(recoveries == 3);
			kill(getpid(), SIGILL);
			CHILD_CHECK(sn_signal_wait(soon()) == SIGILL);
			CHILD_CHECK(recoveries == 3);
		});
	});

	EXPECT_EQ(0, status);
}

#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
// On x86 the program continues after the instruction; elsewhere it would be executed again.
TEST(Signal, OfABreakpoint)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "a child can start no threads";
	const int status = test::in_child([] {
		signal(SIGTRAP, SIG_DFL);
		test::run(2, [] {
			CHILD_CHECK(sn_signal_catch(SIGTRAP) == 0);
			kill(getpid(), SIGTRAP);
			CHILD_CHECK(sn_signal_wait(soon()) == SIGTRAP);
#	ifdef __aarch64__
			__asm__ volatile("brk #1000");
			CHILD_CHECK(false);
#	else
			__asm__ volatile("int3");
			CHILD_CHECK(sn_signal_wait(soon()) == SIGTRAP);
#	endif
		});
	});

#	ifdef __aarch64__
	ASSERT_LE(1000, status) << "not ended by a signal, but with that status";
	EXPECT_EQ(SIGTRAP, WTERMSIG(status - 1000));
#	else
	EXPECT_EQ(0, status);
#	endif
}
#endif

std::atomic<bool> kills_children;

// Handlers of fork() run in the order in which they were registered, so this one runs before the
// runtime's, like the program's own that are registered before the first run.
[[gnu::constructor]] void register_handler()
{
	pthread_atfork(nullptr, nullptr, [] {
		if (kills_children)
			kill(getpid(), SIGTERM);
	});
}

TASK_TEST(Signal, EndsAChildImmediately, 1)
{
	sigset_t before, after;

	ASSERT_EQ(0, sn_signal_catch(SIGTERM));
	pthread_sigmask(SIG_BLOCK, nullptr, &before);
	kills_children = true;
	const int status = test::in_child([] { pause(); });
	kills_children = false;
	pthread_sigmask(SIG_BLOCK, nullptr, &after);
	EXPECT_EQ(1000 + SIGTERM, status);
	EXPECT_EQ(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
	EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(sn_now() + test::ms)) << "it was the child's";
}

TEST(Signal, OutsideATaskIsRefused)
{
	EXPECT_EQ(-ENOTSUP, sn_signal_catch(SIGUSR1));
	EXPECT_EQ(-ENOTSUP, sn_signal_wait(SN_NO_DEADLINE));
}

std::atomic<int> own_handler_calls;

TEST(Signal, FormerDispositionIsRestored)
{
	struct sigaction own = {}, now = {};

	own.sa_handler = [](int) { own_handler_calls++; };
	own.sa_flags = SA_RESTART;
	sigaddset(&own.sa_mask, SIGUSR2);
	ASSERT_EQ(0, sigaction(SIGUSR1, &own, nullptr));
	ASSERT_EQ(SIG_DFL, signal(SIGUSR2, SIG_IGN));
	for (int procs : {1, 4}) {
		own_handler_calls = 0;
		test::run(procs, [] {
			ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
			ASSERT_EQ(0, sn_signal_catch(SIGUSR2));
			raise(SIGUSR1);
			EXPECT_EQ(SIGUSR1, sn_signal_wait(soon()));
			raise(SIGUSR2); // stays pending: the next run must not see it
		});
		EXPECT_EQ(0, own_handler_calls.load());
		raise(SIGUSR1);
		EXPECT_EQ(1, own_handler_calls.load());
		ASSERT_EQ(0, sigaction(SIGUSR1, nullptr, &now));
		EXPECT_TRUE(sigismember(&now.sa_mask, SIGUSR2));
		raise(SIGUSR2);
		test::run(procs, [] {
			ASSERT_EQ(0, sn_signal_catch(SIGUSR2));
			EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(sn_now() + 2 * test::ms));
		});
	}
	signal(SIGUSR1, SIG_DFL);
	EXPECT_EQ(SIG_IGN, signal(SIGUSR2, SIG_DFL));
}

} // namespace
