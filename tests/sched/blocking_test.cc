// SPDX-License-Identifier: MIT
// Labels: machine
//
// sn_blocking(): other tasks get the processor while the function blocks, the thread and errno
// stay, and afterwards everything is as before.
#include <atomic>
#include <cerrno>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

#include "support/internals.h"
#include "support/net.h"
#include "support/runtime.h"

namespace
{

using test::Task;

__attribute__((noinline)) long thread_id()
{
	return syscall(SYS_gettid);
}

__attribute__((noinline)) void set_errno(int value)
{
	errno = value;
}

__attribute__((noinline)) int get_errno()
{
	__asm__ volatile("" ::: "memory");
	return errno;
}

template <class F>
int blocking(F body)
{
	return sn_blocking([](void *arg) { return int((*static_cast<F *>(arg))()); }, &body);
}

TEST(Blocking, OutsideATaskJustCalls)
{
	int called = 0;

	EXPECT_EQ(12, blocking([&] {
			  called++;
			  return 12;
		  }));
	EXPECT_EQ(1, called);
}

// Even on one processor, other tasks do what the blocking call waits for.
TASK_TEST(Blocking, OthersRunMeanwhile)
{
	std::atomic<int> done{0};
	Task other([&] {
		for (int i = 0; i < 50; i++) {
			sn_sleep(100 * test::us); // timers are served
			done++;
		}
	});

	EXPECT_EQ(3, blocking([&] {
			  return test::eventually_in_thread([&] { return done.load() >= 50; }) ? 3
											       : -1;
		  }));
	other.join();
}

TASK_TEST(Blocking, KeepsThreadAndErrno)
{
	std::vector<Task> tasks;

	for (int t = 0; t < 20; t++)
		tasks.emplace_back([t] {
			for (int i = 0; i < test::scaled(50); i++) {
				const long before = thread_id();

				set_errno(1);
				const int result = blocking([&] {
					EXPECT_EQ(before, thread_id());
					usleep(useconds_t(i * 10));
					set_errno(1000 + t);
					return t;
				});
				ASSERT_EQ(1000 + t, get_errno()) << "fn's own errno";
				ASSERT_EQ(before, thread_id());
				ASSERT_EQ(t, result);
				sn_yield();
				ASSERT_EQ(1000 + t, get_errno());
			}
		});
	test::join_all(tasks);
}

TASK_TEST(Blocking, AHundredAtOnce)
{
	const int n = TEST_TSAN ? 40 : 100;
	std::atomic<int> inside{0};
	std::atomic<bool> end{false};
	std::vector<Task> tasks;

	for (int t = 0; t < n; t++)
		tasks.emplace_back([&] {
			return blocking([&] {
				inside++;
				while (!end.load())
					usleep(1000);
				return 1;
			});
		});
	EXPECT_TRUE(test::eventually([&] { return inside.load() == n; }));
	EXPECT_EQ(uint64_t(n), test::stats().threads_blocking);
	EXPECT_GE(test::stats().threads, uint64_t(n));
	end = true;
	for (Task &task : tasks)
		EXPECT_EQ(1, task.join());
	EXPECT_EQ(0u, test::stats().threads_blocking);
}

// Calls that do not park may be made from within sn_blocking().
TASK_TEST(Blocking, CallsThatDoNotParkWorkWithin)
{
	static std::atomic<int> ran;
	sn_task *me = sn_self();
	test::Pair pair;
	Task reader([&] {
		char c;

		return int(sn_tcp_read(pair.client, &c, 1));
	});

	ran = 0;
	EXPECT_TRUE(test::someone_reads(pair.client));
	EXPECT_EQ(0, blocking([&] {
			  struct sn_run_stats s;
			  sn_task *task;
			  char text[SN_ADDRESS_MAX];

			  EXPECT_EQ(me, sn_self());
			  EXPECT_EQ(0, sn_task_set_name("within"));
			  EXPECT_EQ(0, sn_run_stats(&s));
			  EXPECT_EQ(1u, s.threads_blocking);
			  EXPECT_GT(sn_tcp_local_address(pair.client, text, sizeof text), 0);
			  EXPECT_EQ(0, sn_tcp_shutdown(pair.client, SN_SHUT_WRITE));
			  sn_fn *body = [](void *) {
				  ran++;
				  return 0;
			  };
			  EXPECT_EQ(0, sn_go(body, nullptr));
			  EXPECT_EQ(0, sn_spawn(&task, body, nullptr, nullptr));
			  EXPECT_EQ(0, sn_detach(task));
			  EXPECT_EQ(0, sn_tcp_cancel(pair.client));
			  EXPECT_TRUE(test::eventually_in_thread([] { return ran.load() == 2; }));
			  return 0;
		  }));
	EXPECT_EQ(-ECANCELED, reader.join());
	EXPECT_STREQ("within", sn_task_name(sn_self()));
	EXPECT_TRUE(test::all_ended());
}

// A deadline set from within sn_blocking() is kept, although the caller has no processor that the
// timer could belong to.
TASK_TEST(Blocking, DeadlinesSetWithinAreKept)
{
	test::Pair pair;
	Task reader([&] {
		char c;

		return int(sn_tcp_read(pair.client, &c, 1));
	});

	EXPECT_TRUE(test::someone_reads(pair.client));
	EXPECT_EQ(0, blocking([&] {
			  return sn_tcp_set_read_deadline(pair.client, sn_now() + 2 * test::ms);
		  }));
	EXPECT_EQ(-ETIMEDOUT, reader.join());
}

// There are more blocking calls than processors. Timers and the network are served all the same.
TASK_TEST(Blocking, TimersAndNetworkAreServedMeanwhile)
{
	std::atomic<int> inside{0};
	std::atomic<bool> end{false};
	std::vector<Task> blocked;

	for (int i = 0; i < 8; i++)
		blocked.emplace_back([&] {
			blocking([&] {
				inside++;
				while (!end.load())
					usleep(500);
				return 0;
			});
		});
	EXPECT_TRUE(test::eventually([&] { return inside.load() == 8; }));
	test::Pair pair;
	Task echo([&] {
		char c;

		while (sn_tcp_read(pair.server, &c, 1) == 1)
			(void)!sn_tcp_write(pair.server, &c, 1);
	});
	for (int i = 0; i < 100; i++) {
		char c = char(i), got = 0;

		sn_sleep(100 * test::us);
		ASSERT_EQ(1, sn_tcp_write(pair.client, &c, 1));
		ASSERT_EQ(1, sn_tcp_read(pair.client, &got, 1));
		ASSERT_EQ(c, got);
	}
	end = true;
	test::join_all(blocked);
	sn_tcp_shutdown(pair.client, SN_SHUT_WRITE);
	echo.join();
}

// Many tasks make short calls, one after the other, and their processors are taken and given back.
// No processor is lost, and no thread is left counted as blocking. (The number of tasks that are in
// user code at a time would show nothing, because a task that loses its processor there keeps
// running until its next call.)
TASK_TEST(Blocking, NoProcessorIsLost)
{
	const uint64_t procs = test::stats().processors;
	std::vector<Task> tasks;

	for (int t = 0; t < 30; t++)
		tasks.emplace_back([t] {
			for (int i = 0; i < test::scaled(100); i++) {
				blocking([t] {
					if (t % 3 == 0)
						usleep(50);
					return 0;
				});
				sn_yield();
			}
		});
	test::join_all(tasks);
	EXPECT_EQ(procs, test::stats().processors);
	EXPECT_EQ(0u, test::stats().threads_blocking);
}

// The run ends while a task blocks. It waits for the call, which never returns to the task.
TEST(Blocking, EndOfTheRunWaitsForIt)
{
	static std::atomic<bool> inside, out, returned;

	for (int procs : {1, 2, 4}) {
		EXPECT_TRUE(test::end_waits_for(procs, out, [] {
			inside = returned = false;
			ASSERT_EQ(0, sn_go(
					     [](void *) {
						     blocking([] {
							     inside = true;
							     while (!probe_run_is_ending())
								     continue;
							     // The call that blocks. If the run did
							     // not wait for it, it would be over
							     // before this ends.
							     usleep(30000);
							     out = true;
							     return 0;
						     });
						     returned = true;
						     return 0;
					     },
					     nullptr));
			EXPECT_TRUE(test::eventually([] { return inside.load(); }));
		}));
		EXPECT_FALSE(returned.load());
	}
}

} // namespace
