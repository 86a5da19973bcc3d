// SPDX-License-Identifier: MIT
//
// Signals for tasks: they are caught and waited for, they merge, waits time out, and the
// dispositions are restored afterwards.
#include <atomic>
#include <csignal>
#include <thread>

#include <unistd.h>

#include "support/runtime.h"

namespace
{

using test::Task;

int64_t soon()
{
	return sn_now() + test::patience;
}

TEST(Signal, IsWaitedFor)
{
	test::run([] {
		ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
		ASSERT_EQ(0, sn_signal_catch(SIGUSR2));
		ASSERT_EQ(0, sn_signal_catch(SIGUSR1)) << "twice is as good as once";

		// One that comes before the wait.
		kill(getpid(), SIGUSR2);
		EXPECT_EQ(SIGUSR2, sn_signal_wait(soon()));
		// One that comes during it.
		Task sender([] {
			sn_sleep(2 * test::ms);
			kill(getpid(), SIGUSR1);
		});
		EXPECT_EQ(SIGUSR1, sn_signal_wait(SN_NO_DEADLINE));
		sender.join();
		EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(sn_now() + test::ms)) << "nothing is left";
	});
}

TEST(Signal, DeliveriesMerge)
{
	test::run([] {
		ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
		ASSERT_EQ(0, sn_signal_catch(SIGUSR2));
		for (int i = 0; i < 5; i++)
			raise(SIGUSR1);
		raise(SIGUSR2);
		// Both come, once each, in any order.
		const int first = sn_signal_wait(soon()), second = sn_signal_wait(soon());
		EXPECT_TRUE((first == SIGUSR1 && second == SIGUSR2) ||
			    (first == SIGUSR2 && second == SIGUSR1))
			<< first << " " << second;
		EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(sn_now() + test::ms));
	});
}

TEST(Signal, ManyAreNotLost)
{
	test::run([] {
		ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
		const int n = test::scaled(500);
		std::atomic<int> seen{0};
		std::thread sender([&] {
			for (int i = 0; i < n; i++) {
				kill(getpid(), SIGUSR1);
				ASSERT_TRUE(test::eventually_in_thread(
					[&] { return seen.load() == i + 1; }));
			}
		});

		for (int i = 0; i < n; i++) {
			ASSERT_EQ(SIGUSR1, sn_signal_wait(soon()));
			seen++;
		}
		sender.join();
	});
}

TEST(Signal, TimesOutAndNotEarly)
{
	test::run([] {
		ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
		const int64_t deadline = sn_now() + 5 * test::ms;

		EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(deadline));
		EXPECT_GE(sn_now(), deadline);
		EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(1)) << "long past";
		raise(SIGUSR1);
		EXPECT_EQ(SIGUSR1, sn_signal_wait(soon())) << "usable after a timeout";
	});
}

TEST(Signal, OneWaiterAtATime)
{
	test::run([] {
		ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
		std::atomic<int> busy{0}, got{0};
		std::vector<Task> tasks;

		for (int i = 0; i < 3; i++)
			tasks.emplace_back([&] {
				const int n = sn_signal_wait(soon());

				busy += n == -EBUSY;
				got += n == SIGUSR1;
			});
		EXPECT_TRUE(test::eventually([&] { return busy.load() == 2; }));
		raise(SIGUSR1);
		for (Task &task : tasks)
			task.join();
		EXPECT_EQ(1, got.load());
	});
}

TEST(Signal, SomeCannotBeCaught)
{
	test::run(1, [] {
		for (int signum : {SIGSEGV, SIGBUS, SIGKILL, SIGSTOP, 0, -1, 65, 1000})
			EXPECT_EQ(-EINVAL, sn_signal_catch(signum)) << signum;
	});
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
