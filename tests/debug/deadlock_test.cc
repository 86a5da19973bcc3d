// SPDX-License-Identifier: MIT
// Labels: long
//
// A program in which every task sleeps and nothing can wake one is ended with a dump. A program in
// which something could wake a task is left alone, however long the tasks sleep. Each case runs in
// a child process. TSan and emulators add a thread of their own to every program, so under these a
// deadlock is never reported.
#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/full_stderr.h"
#include "support/runtime.h"

namespace
{

class Deadlock : public testing::Test
{
protected:
	Deadlock() { testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE; }
};

// Waits until an element is sent, which may be never.
int receive()
{
	sn_chan *chan;
	int item;

	CHILD_CHECK(sn_chan_new(&chan, sizeof item, 0) == 0);
	return sn_chan_recv(chan, &item);
}

[[noreturn]] void all_wait(int processors)
{
	test::run(processors, [] {
		struct sn_task_attr attr = {};

		attr.name = "stuck";
		test::Task task([] { return receive(); }, &attr);
		task.join();
	});
	_exit(0);
}

TEST_F(Deadlock, IsReportedWithADumpAndEndsTheProgram)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "here every program has an extra thread";
	for (int processors : {1, 2, 4})
		EXPECT_EXIT(all_wait(processors), testing::ExitedWithCode(2),
			    "sennit: deadlock: every task is asleep.*"
			    "sennit: [0-9]+ tasks, [0-9]+ parked");
}

TEST_F(Deadlock, EndsTheProgramAlsoIfNobodyReadsTheReport)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "here every program has an extra thread";
	EXPECT_EXIT(
		{
			alarm(60); // if it does not
			test::full_pipe();
			all_wait(2);
		},
		testing::ExitedWithCode(2), "^$");
}

// The deadlock comes after everything that could rule one out has been there and is gone.
[[noreturn]] void lives_first()
{
	test::run(2, [] {
		int ends[2];
		sn_mutex mutex = SN_MUTEX_INIT;

		CHILD_CHECK(pipe(ends) == 0);
		std::thread([&] { CHILD_CHECK(write(ends[1], "x", 1) == 1); }).join();
		test::Task reader([&] {
			char byte;
			return int(read(ends[0], &byte, 1));
		});
		reader.join();
		sn_sleep(20 * test::ms);
		sn_tcp_listener *listener;
		CHILD_CHECK(sn_tcp_listen(&listener, "127.0.0.1:0") == 0);
		sn_tcp_listener_close(listener);
		CHILD_CHECK(sn_mutex_lock(&mutex) == 0);
		test::Task task([&] { return sn_mutex_lock(&mutex); });
		task.join();
	});
	_exit(0);
}

TEST_F(Deadlock, IsReportedAfterOtherActivity)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "here every program has an extra thread";
	EXPECT_EXIT(lives_first(), testing::ExitedWithCode(2), "waits for a mutex");
}

// A wait for no descriptors at all, as by a client library that has none open.
[[noreturn]] void waits_for_none()
{
	test::run(2, [] {
		struct pollfd skipped = {-1, POLLIN, 0};

		sn_fd_wait_any(&skipped, 1, SN_NO_DEADLINE);
	});
	_exit(0);
}

TEST_F(Deadlock, IsReportedOfAWaitForNoDescriptor)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "here every program has an extra thread";
	EXPECT_EXIT(waits_for_none(), testing::ExitedWithCode(2), "waits for a descriptor");
}

// The handler releases the semaphore, on the thread that waits in sn_run(). All other threads block
// the signal.
sn_semaphore from_handler = SN_SEMAPHORE_INIT(0);

[[noreturn]] void waits_for_its_handler(int processors)
{
	struct sigaction action = {};
	const pid_t self = getpid();
	sigset_t signals;

	action.sa_handler = [](int) { sn_semaphore_release(&from_handler, 1); };
	CHILD_CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	// The signal comes later than a deadlock is usually reported.
	if (fork() == 0) {
		sleep(2);
		_exit(kill(self, SIGUSR1));
	}
	test::Environment procs("SENNIT_PROCS", std::to_string(processors));
	CHILD_CHECK(sn_run(
			    [](void *arg) {
				    pthread_sigmask(SIG_BLOCK, static_cast<sigset_t *>(arg),
						    nullptr);
				    return sn_semaphore_acquire(&from_handler);
			    },
			    &signals) == 0);
	_exit(42);
}

TEST_F(Deadlock, IsNotReportedIfAHandlerMayWakeATask)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "here every program has an extra thread";
	EXPECT_EXIT(waits_for_its_handler(1), testing::ExitedWithCode(42), "");
}

struct Wake {
	sn_chan *chan;
	std::atomic<int> calls{0};
};

TEST_F(Deadlock, AHookMayResolveIt)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "here every program has an extra thread";
	Wake wake{};

	sn_on_deadlock(
		[](void *arg) {
			auto *w = static_cast<Wake *>(arg);
			int item = 7;

			w->calls++;
			EXPECT_EQ(0, sn_chan_send(w->chan, &item));
		},
		&wake);
	test::run([&] {
		int item = 0;

		ASSERT_EQ(0, sn_chan_new(&wake.chan, sizeof item, 1));
		ASSERT_EQ(0, sn_chan_recv(wake.chan, &item));
		EXPECT_EQ(7, item);
		sn_chan_unref(wake.chan);
	});
	sn_on_deadlock(nullptr, nullptr);
	EXPECT_EQ(3, wake.calls);
}

struct Blocks {
	Wake wake{};
	int gate[2];
	std::atomic<bool> out{false};
};

// If the monitor called the hook, it would not revoke processors of tasks that compute, and the run
// would not end.
TEST_F(Deadlock, AHookThatBlocksHoldsUpNobody)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "here every program has an extra thread";
	static Blocks blocks;

	ASSERT_EQ(0, pipe(blocks.gate));
	sn_on_deadlock(
		[](void *) {
			int item = 7;
			char byte;

			EXPECT_EQ(0, sn_chan_send(blocks.wake.chan, &item));
			EXPECT_EQ(1, read(blocks.gate[0], &byte, 1));
			blocks.out = true;
		},
		nullptr);
	test::run(1, [&] {
		std::atomic<int> turns{0};
		int item = 0;

		ASSERT_EQ(0, sn_chan_new(&blocks.wake.chan, sizeof item, 1));
		ASSERT_EQ(0, sn_chan_recv(blocks.wake.chan, &item));
		test::Task other([&] { turns++; });
		while (turns == 0)
			; // until its processor is revoked
		other.join();
		sn_chan_unref(blocks.wake.chan);
	});
	sn_on_deadlock(nullptr, nullptr);
	EXPECT_FALSE(blocks.out);
	EXPECT_EQ(1, write(blocks.gate[1], "x", 1));
	EXPECT_TRUE(test::eventually_in_thread([] { return blocks.out.load(); }));
}

TEST_F(Deadlock, ReportsCanBeSwitchedOff)
{
	test::Environment off("SENNIT_DEADLOCK", "0");

	EXPECT_EXIT(
		{
			alarm(1);
			all_wait(2);
		},
		testing::KilledBySignal(SIGALRM), "");
}

// ---- what must not count as a deadlock: all tasks sleep for a second, and then one is woken ----

[[noreturn]] void woken_by(const std::function<void()> &body)
{
	alarm(60);
	test::run(2, body);
	_exit(42);
}

TEST_F(Deadlock, NotATimer)
{
	EXPECT_EXIT(woken_by([] { sn_sleep(test::second); }), testing::ExitedWithCode(42), "^$");
}

// A timer for the last moment of the clock counts like any other. The alarm comes later than a
// report would.
TEST_F(Deadlock, NotATimerOfTheLastMoment)
{
	EXPECT_EXIT(
		{
			alarm(3);
			test::run(2, [] { sn_sleep_until(INT64_MAX); });
		},
		testing::KilledBySignal(SIGALRM), "^$");
}

TEST_F(Deadlock, NotIfAForeignThreadMayWake)
{
	EXPECT_EXIT(woken_by([] {
			    sn_chan *chan;
			    int item = 1;

			    CHILD_CHECK(sn_chan_new(&chan, sizeof item, 0) == 0);
			    std::thread thread([=] {
				    usleep(1000000);
				    int one = 1;
				    CHILD_CHECK(sn_chan_send(chan, &one) == 0);
			    });
			    CHILD_CHECK(sn_chan_recv(chan, &item) == 0);
			    thread.join();
		    }),
		    testing::ExitedWithCode(42), "^$");
}

TEST_F(Deadlock, NotASignal)
{
	EXPECT_EXIT(woken_by([] {
			    CHILD_CHECK(sn_signal_catch(SIGUSR1) == 0);
			    pid_t child = fork();
			    if (child == 0) {
				    usleep(1000000);
				    kill(getppid(), SIGUSR1);
				    _exit(0);
			    }
			    CHILD_CHECK(sn_signal_wait(SN_NO_DEADLINE) == SIGUSR1);
		    }),
		    testing::ExitedWithCode(42), "^$");
}

TEST_F(Deadlock, NotForeignCode)
{
	EXPECT_EXIT(woken_by([] {
			    test::Task sleeper([] { usleep(1000000); });
			    test::Task blocker([] {
				    sn_blocking([](void *) { return usleep(1000000); }, nullptr);
			    });
			    sleeper.join();
			    blocker.join();
		    }),
		    testing::ExitedWithCode(42), "^$");
}

TEST_F(Deadlock, NotADescriptor)
{
	EXPECT_EXIT(woken_by([] {
			    int ends[2];
			    char byte = 0;
			    sn_stream *stream;

			    CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
			    if (fork() == 0) {
				    usleep(1000000);
				    _exit(write(ends[1], "x", 1) != 1);
			    }
			    CHILD_CHECK(sn_stream_adopt(&stream, ends[0]) == 0);
			    CHILD_CHECK(sn_stream_read(stream, &byte, 1) == 1);
			    CHILD_CHECK(byte == 'x');
			    sn_stream_close(stream);
		    }),
		    testing::ExitedWithCode(42), "^$");
}

[[noreturn]] void selects_what_never_comes()
{
	test::run(2, [] {
		struct sn_case cases[3] = {};

		cases[0].poll.fd = -1;
		cases[0].op = SN_CASE_POLL;
		cases[1].op = SN_CASE_TIME;
		cases[2].op = SN_CASE_JOIN;
		(void)!sn_select(cases, 3, SN_NO_DEADLINE);
	});
	_exit(0);
}

TEST_F(Deadlock, IsReportedOfASelectOfWhatNeverComes)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "here every program has an extra thread";
	EXPECT_EXIT(selects_what_never_comes(), testing::ExitedWithCode(2),
		    "waits for one of several events");
}

TEST_F(Deadlock, NotASelectWithADescriptor)
{
	EXPECT_EXIT(woken_by([] {
			    struct sn_case one = {};
			    int ends[2];

			    CHILD_CHECK(pipe(ends) == 0);
			    if (fork() == 0) {
				    usleep(1000000);
				    _exit(write(ends[1], "x", 1) != 1);
			    }
			    one.poll = {ends[0], POLLIN};
			    one.op = SN_CASE_POLL;
			    CHILD_CHECK(sn_select(&one, 1, SN_NO_DEADLINE) == 0);
			    CHILD_CHECK(one.result == POLLIN);
		    }),
		    testing::ExitedWithCode(42), "^$");
}

TEST_F(Deadlock, NotADescriptorOfTheProgram)
{
	EXPECT_EXIT(woken_by([] {
			    int ends[2];

			    CHILD_CHECK(pipe(ends) == 0);
			    if (fork() == 0) {
				    usleep(1000000);
				    _exit(write(ends[1], "x", 1) != 1);
			    }
			    CHILD_CHECK(sn_fd_wait(ends[0], POLLIN, SN_NO_DEADLINE) == POLLIN);
		    }),
		    testing::ExitedWithCode(42), "^$");
}

// Tasks sleep for a long time, again and again.
TEST_F(Deadlock, NotRepeatedSleeps)
{
	EXPECT_EXIT(woken_by([] {
			    for (int i = 0; i < 8; i++)
				    sn_sleep((100 + 20 * i) * test::ms);
		    }),
		    testing::ExitedWithCode(42), "^$");
}

} // namespace
