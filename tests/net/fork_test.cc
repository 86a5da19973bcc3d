// SPDX-License-Identifier: MIT
//
// fork() during a run, and a new sn_run() in the child: the child must not inherit certain things
// from its parent, and all of the runtime works there.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/child.h"
#include "support/net.h"

// TSan does not let the child of a process with threads start threads. ASan looks for leaks when a
// process exits, which the child does on the stack of a task. Under qemu a child cannot start
// threads.
#if !TEST_TSAN && !TEST_ASAN && !TEST_EMULATED

namespace
{

using namespace test;

// Runs the body in a run of the child's own.
template <class F>
void run_anew(F body)
{
	const int result = sn_run(
		[](void *arg) {
			(*static_cast<F *>(arg))();
			return 4711;
		},
		&body);

	CHILD_CHECK(result == 4711);
}

void signals_work()
{
	CHILD_CHECK(sn_signal_wait(SN_NO_DEADLINE) == -EINVAL);
	CHILD_CHECK(sn_signal_catch(SIGUSR1) == 0);
	for (int i = 0; i < 3; i++) {
		CHILD_CHECK(kill(getpid(), SIGUSR1) == 0);
		CHILD_CHECK(sn_signal_wait(sn_now() + test::patience) == SIGUSR1);
	}
	CHILD_CHECK(sn_signal_wait(sn_now() + test::ms) == -ETIMEDOUT);
}

void network_works()
{
	sn_tcp_listener *listener = nullptr;
	sn_tcp *near = nullptr, *far = nullptr;
	char address[SN_ADDRESS_MAX], byte = 0;

	CHILD_CHECK(sn_tcp_listen(&listener, "127.0.0.1:0") == 0);
	CHILD_CHECK(sn_tcp_listener_address(listener, address, sizeof address) > 0);
	Task accepting([&] { return sn_tcp_accept(listener, &far); });
	sn_yield();
	CHILD_CHECK(sn_tcp_connect(&near, address, sn_now() + test::patience) == 0);
	CHILD_CHECK(accepting.join() == 0);
	Task reading([&] { return int(sn_tcp_read(far, &byte, 1)); });
	sn_sleep(test::ms);
	CHILD_CHECK(sn_tcp_write(near, "x", 1) == 1);
	CHILD_CHECK(reading.join() == 1);
	sn_tcp_set_read_deadline(far, sn_now() + test::ms);
	CHILD_CHECK(sn_tcp_read(far, &byte, 1) == -ETIMEDOUT);
	CHILD_CHECK(sn_tcp_close(near) == 0);
	CHILD_CHECK(sn_tcp_close(far) == 0);
	CHILD_CHECK(sn_tcp_listener_close(listener) == 0);
}

void datagrams_work()
{
	sn_udp *udp = nullptr;
	sn_address at;
	char byte = 0;

	CHILD_CHECK(sn_udp_open(&udp, "127.0.0.1:0", nullptr) == 0);
	CHILD_CHECK(sn_udp_local(udp, &at) == 0);
	Task first([&] { return int(sn_udp_recv(udp, &byte, 1, nullptr)); });
	Task second([&] { return int(sn_udp_recv(udp, &byte, 1, nullptr)); });
	sn_yield();
	CHILD_CHECK(sn_udp_send(udp, "x", 1, &at) == 1);
	CHILD_CHECK(sn_udp_send(udp, "x", 1, &at) == 1);
	CHILD_CHECK(first.join() == 1);
	CHILD_CHECK(second.join() == 1);
	CHILD_CHECK(sn_udp_close(udp) == 0);
}

void tasks_and_timers_work()
{
	std::vector<Task> tasks;

	for (int i = 0; i < 50; i++)
		tasks.emplace_back([i] {
			sn_sleep(i % 7 * test::ms);
			return i;
		});
	for (int i = 0; i < 50; i++)
		CHILD_CHECK(tasks[size_t(i)].join() == i);
}

void everything_works()
{
	run_anew([] {
		tasks_and_timers_work();
		signals_work();
		network_works();
		datagrams_work();
	});
}

// Each process's signals reach its own tasks, although the child has copies of the parent's
// descriptors.
TASK_TEST(Fork, SignalsReachTheProcessesOwnTasks)
{
	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	ASSERT_EQ(0, kill(getpid(), SIGUSR1));
	EXPECT_EQ(0, in_child([] {
			  struct sigaction now;

			  CHILD_CHECK(sigaction(SIGUSR1, nullptr, &now) == 0);
			  CHILD_CHECK(now.sa_handler == SIG_DFL);
			  run_anew(signals_work);
			  CHILD_CHECK(sigaction(SIGUSR1, nullptr, &now) == 0);
			  CHILD_CHECK(now.sa_handler == SIG_DFL);
		  }));
	EXPECT_EQ(SIGUSR1, sn_signal_wait(sn_now() + test::patience)) << "the parent's signal";
	EXPECT_EQ(-ETIMEDOUT, sn_signal_wait(sn_now() + test::ms));
	// The parent waits while the child does.
	Task waiting([] { return sn_signal_wait(sn_now() + test::patience); });
	sn_yield();
	EXPECT_EQ(0, in_child([] { run_anew(signals_work); }));
	EXPECT_EQ(0, kill(getpid(), SIGUSR1));
	EXPECT_EQ(SIGUSR1, waiting.join());
}

// In the child, the descriptor numbers of the parent's connections may belong to something else by
// now.
TASK_TEST(Fork, TheEndOfTheChildsRunClosesNoneOfItsDescriptors)
{
	Listener listener;
	Pair pair(listener);
	const int numbers[] = {sn_tcp_fd(pair.client), sn_tcp_fd(pair.server),
			       sn_tcp_listener_fd(listener.get())};

	ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
	EXPECT_EQ(0, in_child([&] {
			  for (int fd = 3; fd < 256; fd++)
				  close(fd);
			  for (int fd = 3; fd < 256; fd++)
				  CHILD_CHECK(open("/dev/null", O_RDONLY) == fd);
			  for (int round = 0; round < 2; round++)
				  everything_works();
			  for (int fd = 3; fd < 256; fd++)
				  CHILD_CHECK(fcntl(fd, F_GETFD) >= 0);
		  }));
	for (const int fd : numbers)
		EXPECT_GE(fcntl(fd, F_GETFD), 0);
	char byte;
	EXPECT_EQ(1, sn_tcp_write(pair.client, "x", 1));
	EXPECT_EQ(1, sn_tcp_read(pair.server, &byte, 1));
}

// In the child, the parent's connections do not count as something that could wake a task.
TASK_TEST(Fork, TheParentsDatagramSocketCanOnlyBeClosedInTheChild)
{
	sn_udp *udp = nullptr;
	sn_address at;
	char byte = 0;

	ASSERT_EQ(0, sn_udp_open(&udp, "127.0.0.1:0", nullptr));
	ASSERT_EQ(0, sn_udp_local(udp, &at));
	// The first waits on the side, the second behind it.
	Task first([&] { return int(sn_udp_recv(udp, &byte, 1, nullptr)); });
	Task second([&] { return int(sn_udp_recv(udp, &byte, 1, nullptr)); });
	ASSERT_TRUE(test::eventually([&] { return probe_udp_waiting(udp, 0) == 2; }));
	EXPECT_EQ(0, in_child([&] {
			  char mine;

			  CHILD_CHECK(sn_udp_recv(udp, &mine, 1, nullptr) == -ENOTSUP);
			  run_anew([&] {
				  CHILD_CHECK(sn_udp_recv(udp, &mine, 1, nullptr) == -EBADF);
				  CHILD_CHECK(sn_udp_send(udp, &mine, 1, &at) == -EBADF);
				  CHILD_CHECK(sn_udp_close(udp) == 0);
				  CHILD_CHECK(sn_udp_close(udp) == -EBADF);
				  // The new socket of the child reuses the place of the
				  // parent's.
				  datagrams_work();
			  });
		  }));
	EXPECT_EQ(1, sn_udp_send(udp, "x", 1, &at));
	EXPECT_EQ(1, sn_udp_send(udp, "x", 1, &at));
	EXPECT_EQ(1, first.join());
	EXPECT_EQ(1, second.join());
	EXPECT_EQ(0, sn_udp_close(udp));
}

TASK_TEST(Fork, DeadlockIsNoticedInTheChild, 1, 2)
{
	Pair pair;
	int said[2];
	std::string text;
	char buf[4096];

	ASSERT_EQ(0, pipe2(said, O_CLOEXEC));
	EXPECT_EQ(2, in_child([&] {
			  dup2(said[1], STDERR_FILENO);
			  run_anew([] {
				  sn_waitgroup group = {};

				  CHILD_CHECK(sn_waitgroup_add(&group, 1) == 0);
				  CHILD_CHECK(sn_waitgroup_wait(&group) == 0);
			  });
		  }));
	close(said[1]);
	for (ssize_t n; (n = read(said[0], buf, sizeof buf)) > 0;)
		text.append(buf, size_t(n));
	close(said[0]);
	EXPECT_NE(std::string::npos, text.find("deadlock: every task is asleep")) << text;
}

// The connections can be closed before, during and after the new run. Every other call on them
// fails.
TASK_TEST(Fork, TheParentsConnectionsCanOnlyBeClosedInTheChild)
{
	Listener listener;
	Pair first(listener), second(listener), third(listener), fourth(listener);
	char byte;
	// These tasks wait in the parent, and do not exist in the child.
	Task reading([&] { return int(sn_tcp_read(first.server, &byte, 1)); });
	Task another([&] { return int(sn_tcp_read(second.server, &byte, 1)); });

	EXPECT_TRUE(test::someone_reads(first.server));
	EXPECT_TRUE(test::someone_reads(second.server));
	EXPECT_EQ(0, in_child([&] {
			  sn_tcp *all[] = {first.server, second.server, third.server};

			  const int numbers[] = {sn_tcp_fd(all[0]), sn_tcp_fd(all[1]),
						 sn_tcp_fd(all[2])};
			  CHILD_CHECK(sn_tcp_close(all[0]) == 0);
			  CHILD_CHECK(fcntl(numbers[0], F_GETFD) < 0);
			  run_anew([&] {
				  char c;

				  CHILD_CHECK(sn_tcp_read(all[1], &c, 1) == -EBADF);
				  CHILD_CHECK(sn_tcp_write(all[1], "x", 1) == -EBADF);
				  CHILD_CHECK(sn_tcp_close(all[1]) == 0);
				  CHILD_CHECK(fcntl(numbers[1], F_GETFD) < 0);
				  network_works();
			  });
			  CHILD_CHECK(sn_tcp_close(all[2]) == 0);
			  CHILD_CHECK(fcntl(numbers[2], F_GETFD) < 0);
			  everything_works();
		  }));
	EXPECT_EQ(1, sn_tcp_write(first.client, "x", 1));
	EXPECT_EQ(1, sn_tcp_write(second.client, "x", 1));
	EXPECT_EQ(1, reading.join());
	EXPECT_EQ(1, another.join());
}

// The socket is the parent's, too: no call of the child ends one of its halves, or makes its close
// a reset.
TASK_TEST(Fork, TheChildDoesNotEndTheParentsConnections)
{
	Pair pair;
	char c;

	EXPECT_EQ(0, in_child([&] {
			  CHILD_CHECK(sn_tcp_shutdown(pair.server, SN_SHUT_WRITE) == -EBADF);
			  CHILD_CHECK(sn_tcp_shutdown(pair.server, SN_SHUT_READ) == -EBADF);
			  CHILD_CHECK(sn_tcp_abort(pair.server) == 0);
		  }));
	EXPECT_EQ(1, sn_tcp_write(pair.server, "x", 1));
	pair.close_server();
	EXPECT_EQ(1, sn_tcp_read(pair.client, &c, 1));
	EXPECT_EQ(0, sn_tcp_read(pair.client, &c, 1));
}

// At the fork, locks may be in any state, and tasks anywhere.
TEST(Fork, WhileEverythingIsBusy)
{
	for (const bool from_task : {true, false})
		test::run({1, 2, 4}, [&] {
			std::atomic<bool> stop = false, closing = false;
			std::vector<Task> busy;
			Listener listener;
			std::string address = listener.address();

			ASSERT_EQ(0, sn_signal_catch(SIGUSR1));
			for (int i = 0; i < 4; i++) {
				busy.emplace_back([&] { // connections
					while (!stop) {
						sn_tcp *near = test::connect(address);

						EXPECT_EQ(1, sn_tcp_write(near, "x", 1));
						sn_tcp_close(near);
					}
				});
				busy.emplace_back([&] { // timers and spawning
					while (!stop) {
						Task task([] { sn_sleep(100 * test::us); });

						task.join();
					}
				});
				busy.emplace_back([&] { // the lock of the signals
					while (!stop) {
						sn_signal_catch(SIGUSR1);
						sn_sleep(50 * test::us);
					}
				});
				busy.emplace_back([&] { // a blocking bracket
					while (!stop) {
						sn_enter_blocking();
						usleep(100);
						sn_exit_blocking();
					}
				});
			}
			Task accepting([&] {
				sn_tcp *far;
				char c;

				while (!closing && sn_tcp_accept(listener.get(), &far) == 0) {
					(void)!sn_tcp_read(far, &c, 1);
					sn_tcp_close(far);
				}
			});
			std::thread dumping([&] {
				const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

				while (!stop) {
					sn_dump(null);
					usleep(200);
				}
				close(null);
			});
			const auto rounds = [] {
				for (int i = 0; i < test::scaled(20); i++)
					EXPECT_EQ(0, in_child([] {
							  everything_works();
							  run_anew([] {
								  const int null = open("/dev/null",
											O_WRONLY);
								  CHILD_CHECK(sn_dump(null) == 0);
							  });
						  }));
			};
			if (from_task) {
				rounds();
			} else {
				std::thread own(rounds);

				sn_enter_blocking();
				own.join();
				sn_exit_blocking();
			}
			stop = true;
			sn_enter_blocking();
			dumping.join();
			sn_exit_blocking();
			join_all(busy);
			closing = true;
			sn_tcp_close(test::connect(address)); // ends an accept that still waits
			accepting.join();
		});
}

void give_42(int)
{
	_exit(42);
}

// In the child, too, the program's own handlers run after the runtime's, once.
TEST(Fork, FaultHandlersAreNotTheirOwnSuccessors)
{
	test::Environment stalls("SENNIT_STALL_MS", "1000");
	struct sigaction action = {}, former_segv, former_urg;

	action.sa_handler = give_42;
	ASSERT_EQ(0, sigaction(SIGSEGV, &action, &former_segv));
	ASSERT_EQ(0, sigaction(SIGURG, &action, &former_urg));
	test::run({1}, [] {
		for (const int signum : {SIGSEGV, SIGURG}) {
			EXPECT_EQ(42, in_child([&] { run_anew([&] { raise(signum); }); }))
				<< signum;
			// After the child's run only the program's handlers are left.
			EXPECT_EQ(42, in_child([&] {
					  run_anew([] {});
					  raise(signum);
				  }))
				<< signum;
		}
	});
	ASSERT_EQ(0, sigaction(SIGSEGV, &former_segv, nullptr));
	ASSERT_EQ(0, sigaction(SIGURG, &former_urg, nullptr));
}

// Without a run there is nothing to dump, so the dump's signal has the action that it had before.
// The test sets that action, because a shell without job control makes commands that it starts with
// & ignore the signal.
TEST(Fork, SigquitEndsTheChild)
{
	const auto former = signal(SIGQUIT, SIG_DFL);

	test::run({1}, [] {
		EXPECT_EQ(1000 + SIGQUIT, in_child([] {
				  struct rlimit none = {0, 0};

				  setrlimit(RLIMIT_CORE, &none);
				  raise(SIGQUIT);
			  }));
	});
	signal(SIGQUIT, former);
}

} // namespace

#endif
