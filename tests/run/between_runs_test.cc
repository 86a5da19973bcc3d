// SPDX-License-Identifier: MIT
//
// What remains of one run when the next begins: counts of foreign callers and of open descriptors,
// and handles of tasks that were never joined.
#include <atomic>
#include <csignal>
#include <thread>

#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/net.h"
#include "support/runtime.h"

namespace
{

// A foreign thread makes a call just when a run begins or ends. Afterwards no run counts it as
// inside, so no end of a run waits for it.
TEST(BetweenRuns, ForeignCallersDelayNoEnd)
{
	static std::atomic<bool> asks, pauses;
	std::atomic<bool> over{false};
	std::thread outside([&] {
		while (!over)
			if (asks) {
				pauses = false;
				sn_go([](void *) { return 0; }, nullptr);
			} else {
				pauses = true;
				sched_yield();
			}
	});

	for (int i = 0; i < test::scaled(1000); i++) {
		asks = true;
		pauses = false;
		test::run(1, [] {
			asks = false;
			EXPECT_TRUE(test::eventually([] { return pauses.load(); }));
		});
	}
	over = true;
	outside.join();
}

// Stores both ends of a TCP connection. Whoever closes the first waits for the second.
void connect_lingering(int ends[2])
{
	const linger wait = {.l_onoff = 1, .l_linger = 3600};
	sockaddr_in address = {};
	socklen_t length = sizeof address;
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(0, bind(listener, reinterpret_cast<sockaddr *>(&address), length));
	ASSERT_EQ(0, listen(listener, 1));
	ASSERT_EQ(0, getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length));
	ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, connect(ends[0], reinterpret_cast<sockaddr *>(&address), length));
	ends[1] = accept(listener, nullptr, nullptr);
	ASSERT_EQ(0, setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &wait, sizeof wait));
	close(listener);
}

// A thread outside the runtime is in close() when the run ends. The descriptor that it closes is
// counted out once: if a later run found a count below zero, it would poll for nothing, and take no
// deadlock for one.
TEST(BetweenRuns, ADescriptorIsCountedOutOnceIfItsCloseOutlastsTheRun)
{
	for (int i = 0; i < 3; i++) {
		int ends[2] = {-1, -1};
		std::thread closes;

		ASSERT_FALSE(probe_netpoll_used());
		connect_lingering(ends);
		test::run(2, [&] {
			sn_tcp *conn = nullptr;

			ASSERT_EQ(0, sn_tcp_adopt(&conn, ends[0]));
			EXPECT_TRUE(probe_netpoll_used());
			test::fill(conn);
			closes = std::thread([conn] { EXPECT_EQ(0, sn_tcp_close(conn)); });
			// The number is gone as soon as close() has begun to wait.
			EXPECT_TRUE(test::eventually([&] { return fcntl(ends[0], F_GETFD) < 0; }));
		});
		close(ends[1]);
		closes.join();
		EXPECT_FALSE(probe_netpoll_used());
	}
}

// A waiter may arm its deadline after another thread has woken its task, and that task has closed
// the descriptor. The heap, which ends with the run, must then not be found by the next run, whose
// close takes the timer out of where it is.
TEST(BetweenRuns, ADeadlineThatIsArmedAfterTheCloseIsForgotten)
{
	const void *closed = nullptr;

	for (int i = 0; i < 2; i++) {
		test::run(1, [&] {
			sn_tcp_listener *listener = nullptr;

			ASSERT_EQ(0, sn_tcp_listen(&listener, "127.0.0.1:0"));
			closed = listener;
			ASSERT_EQ(0, sn_tcp_listener_close(listener));
			ASSERT_EQ(0, probe_fd_arm(closed, 0, sn_now() + 3600 * test::second));
			ASSERT_TRUE(probe_fd_has_timer(closed, 0));
		});
		EXPECT_FALSE(probe_fd_has_timer(closed, 0));
	}
}

sn_task *parked, *ended;

// Leaves the handles of two tasks that were not joined.
void leave_handles()
{
	CHILD_CHECK(sn_spawn(
			    &parked, [](void *) { return sn_sleep(INT64_MAX); }, nullptr,
			    nullptr) == 0);
	CHILD_CHECK(sn_spawn(
			    &ended, [](void *) { return 8; }, nullptr, nullptr) == 0);
	CHILD_CHECK(test::eventually([] { return test::stats().tasks_alive == 2; }));
}

// The join has a deadline, so that the test fails, instead of hanging, if the call takes the handle
// for a task of this run.
void expect_stale()
{
	int result = 0;

	for (sn_task *task : {parked, ended}) {
		CHILD_CHECK(sn_task_id(task) == 0);
		CHILD_CHECK(sn_join_until(task, &result, sn_now() + 100 * test::ms) == -ESRCH);
		CHILD_CHECK(sn_detach(task) == -ESRCH);
	}
}

void run_in_child(void (*body)())
{
	const int result = sn_run(
		[](void *arg) {
			(*static_cast<void (**)()>(arg))();
			return 4711;
		},
		&body);

	CHILD_CHECK(result == 4711);
}

// Each test runs in a process of its own, because the handles stay there.
class Handles : public testing::Test
{
protected:
	Handles() { testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE; }
};

TEST_F(Handles, OfAFormerRunAreStale)
{
	EXPECT_EXIT(
		{
			run_in_child(leave_handles);
			run_in_child(expect_stale);
			_exit(0);
		},
		testing::ExitedWithCode(0), "");
}

// A task that never returns makes the run leave its memory as it is.
TEST_F(Handles, OfAFormerRunWithOrphansAreStale)
{
	EXPECT_EXIT(
		{
			run_in_child([] {
				static std::atomic<bool> gone;

				leave_handles();
				CHILD_CHECK(sn_go(
						    [](void *) {
							    gone = true;
							    for (;;)
								    pause();
							    return 0;
						    },
						    nullptr) == 0);
				CHILD_CHECK(test::eventually([] { return gone.load(); }));
			});
			for (int i = 0; i < 3; i++)
				run_in_child(expect_stale);
			_exit(0);
		},
		testing::ExitedWithCode(0), "");
}

// TSan does not let a child of a process with threads start threads. ASan looks for leaks when a
// process exits, and in a forked child that happens on a task's stack.
#if !TEST_TSAN && !TEST_ASAN && !TEST_EMULATED

TEST_F(Handles, OfTheParentAreStaleInAForkedChild)
{
	EXPECT_EXIT(
		{
			run_in_child([] {
				int status = -1;

				leave_handles();
				const pid_t child = fork();
				if (child == 0) {
					for (int i = 0; i < 3; i++)
						run_in_child(expect_stale);
					_exit(0);
				}
				CHILD_CHECK(waitpid(child, &status, 0) == child);
				CHILD_CHECK(status == 0);
				// In the parent, the handles are still valid.
				CHILD_CHECK(sn_join(ended, &status) == 0 && status == 8);
				CHILD_CHECK(sn_detach(parked) == 0);
			});
			_exit(0);
		},
		testing::ExitedWithCode(0), "");
}

#endif

} // namespace
