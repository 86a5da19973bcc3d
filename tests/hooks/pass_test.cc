// SPDX-License-Identifier: MIT
// Labels: machine
//
// Which hooked calls are passed through to the C library, and which tasks have hooks.
#include <atomic>
#include <csignal>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <threads.h>

#include <sennit/profile.h>
#include <sennit/trace.h>

#include "hooks/hooks.h"
#include "support/net.h"

namespace
{

using namespace test;

using Counters = struct sn_hooks_stats;

// Makes a call that has to wait, and that a thread ends by a byte.
void wait_for_a_byte(useconds_t late = 5000)
{
	SocketPair pair;
	char byte = 0;
	std::thread writer([&] {
		usleep(late);
		EXPECT_EQ(1, write(pair.fd[1], "x", 1));
	});

	EXPECT_EQ(1, outcome(recv(pair.fd[0], &byte, 1, 0)));
	EXPECT_EQ('x', byte);
	writer.join();
}

// Expects that a call that has to wait is counted by this counter. Repeats, because on a busy
// machine the byte may have come before the call.
void expect_waits(uint64_t Counters::*which)
{
	const uint64_t before = hooks().*which;

	for (int64_t late = 5000; late * 1000 < test::patience; late *= 2) {
		wait_for_a_byte((useconds_t)late);
		if (hooks().*which > before)
			return;
	}
	FAIL() << "no call has waited in that way";
}

// Expects that the call is passed through, and that it stays on its thread.
void expect_passed(uint64_t Counters::*which)
{
	const uint64_t parked = hooks().parked;
	const pid_t thread = gettid();

	expect_waits(which);
	EXPECT_EQ(parked, hooks().parked);
	EXPECT_EQ(thread, gettid());
}

TASK_TEST(Pass, WithALock)
{
	hooked([] {
		pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
		pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
		std::mutex outer;
		std::shared_mutex shared;
		struct timespec past = {1, 0};

		{
			std::lock_guard<std::mutex> hold(outer);
			expect_passed(&Counters::passed_held);
			EXPECT_EQ(0, pthread_mutex_trylock(&mutex));
			EXPECT_EQ(EBUSY, pthread_mutex_trylock(&mutex));
			EXPECT_EQ(ETIMEDOUT, pthread_mutex_timedlock(&mutex, &past));
			EXPECT_EQ(ETIMEDOUT, pthread_cond_timedwait(&cond, &mutex, &past));
			expect_passed(&Counters::passed_held);
			EXPECT_EQ(0, pthread_mutex_unlock(&mutex));
			expect_passed(&Counters::passed_held);
		}
		expect_waits(&Counters::parked);
		{
			std::shared_lock<std::shared_mutex> hold(shared);
			expect_passed(&Counters::passed_held);
		}
		{
			std::unique_lock<std::shared_mutex> hold(shared);
			expect_passed(&Counters::passed_held);
		}
		expect_waits(&Counters::parked);
	}).join();
}

TEST(Pass, InAFunctionThatRunsOnce)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static once_flag flag = ONCE_FLAG_INIT;

	test::run(1, [] {
		hooked([] {
			pthread_once(&once, [] { expect_passed(&Counters::passed_held); });
			expect_waits(&Counters::parked);
			call_once(&flag, [] { expect_passed(&Counters::passed_held); });
			expect_waits(&Counters::parked);
		}).join();
	});
}

TASK_TEST(Pass, WithALockOfC11)
{
	hooked([] {
		struct timespec past = {1, 0};
		mtx_t mutex, recursive;

		ASSERT_EQ(thrd_success, mtx_init(&mutex, mtx_timed));
		ASSERT_EQ(thrd_success, mtx_init(&recursive, mtx_plain | mtx_recursive));
		EXPECT_EQ(thrd_success, mtx_lock(&mutex));
		expect_passed(&Counters::passed_held);
		EXPECT_EQ(thrd_busy, mtx_trylock(&mutex));
		EXPECT_EQ(thrd_timedout, mtx_timedlock(&mutex, &past));
		EXPECT_EQ(thrd_success, mtx_unlock(&mutex));
		expect_waits(&Counters::parked);
		EXPECT_EQ(thrd_success, mtx_timedlock(&mutex, &past));
		expect_passed(&Counters::passed_held);
		EXPECT_EQ(thrd_success, mtx_unlock(&mutex));
		EXPECT_EQ(thrd_success, mtx_trylock(&recursive));
		EXPECT_EQ(thrd_success, mtx_lock(&recursive));
		EXPECT_EQ(thrd_success, mtx_unlock(&recursive));
		expect_passed(&Counters::passed_held);
		EXPECT_EQ(thrd_success, mtx_unlock(&recursive));
		expect_waits(&Counters::parked);
		mtx_destroy(&mutex);
		mtx_destroy(&recursive);
	}).join();
}

TASK_TEST(Pass, WithAFileLocked)
{
	hooked([] {
		FILE *file = tmpfile();

		ASSERT_NE(nullptr, file);
		flockfile(file);
		expect_passed(&Counters::passed_held);
		EXPECT_EQ(0, ftrylockfile(file));
		funlockfile(file);
		expect_passed(&Counters::passed_held);
		funlockfile(file);
		expect_waits(&Counters::parked);
		EXPECT_EQ(0, ftrylockfile(file));
		expect_passed(&Counters::passed_held);
		std::thread([&] { EXPECT_NE(0, ftrylockfile(file)); }).join();
		funlockfile(file);
		expect_waits(&Counters::parked);
		fclose(file);
	}).join();
}

TASK_TEST(Pass, WithASpinLock)
{
	hooked([] {
		pthread_spinlock_t lock;

		ASSERT_EQ(0, pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE));
		EXPECT_EQ(0, pthread_spin_lock(&lock));
		expect_passed(&Counters::passed_held);
		EXPECT_EQ(EBUSY, pthread_spin_trylock(&lock));
		EXPECT_EQ(0, pthread_spin_unlock(&lock));
		expect_waits(&Counters::parked);
		EXPECT_EQ(0, pthread_spin_trylock(&lock));
		expect_passed(&Counters::passed_held);
		EXPECT_EQ(0, pthread_spin_unlock(&lock));
		expect_waits(&Counters::parked);
		pthread_spin_destroy(&lock);
	}).join();
}

// A lock that a task holds does not affect other tasks on the thread.
TASK_TEST(Pass, ConcernsTheTask, 1)
{
	std::mutex mutex;
	Task holder = hooked([&] {
		std::lock_guard<std::mutex> hold(mutex);
		// Parking with a lock is a mistake, but must not spoil the counts.
		sn_sleep(20 * ms);
		expect_passed(&Counters::passed_held);
	});
	Task other = hooked([&] { expect_waits(&Counters::parked); });

	holder.join();
	other.join();
}

TASK_TEST(Pass, PinnedAndInBrackets)
{
	hooked([] {
		ASSERT_EQ(0, sn_pin());
		expect_passed(&Counters::passed_busy);
		ASSERT_EQ(0, sn_unpin());
		expect_waits(&Counters::parked);
		sn_enter_blocking();
		expect_passed(&Counters::passed_busy);
		sn_exit_blocking();
		expect_waits(&Counters::parked);
	}).join();
}

TASK_TEST(Pass, InSignalHandlersAndWithAnotherMask)
{
	hooked([] {
		struct sigaction action = {}, former;
		sigset_t set, before;

		action.sa_handler = [](int) {
			struct pollfd none = {-1, 0, 0};

			EXPECT_EQ(0, poll(&none, 1, 5));
		};
		ASSERT_EQ(0, sigaction(SIGUSR2, &action, &former));
		const uint64_t parked = hooks().parked;
		expect_count(&Counters::passed_mask, [] { raise(SIGUSR2); });
		EXPECT_EQ(parked, hooks().parked);
		sigaction(SIGUSR2, &former, nullptr);

		sigemptyset(&set);
		sigaddset(&set, SIGPIPE);
		ASSERT_EQ(0, pthread_sigmask(SIG_BLOCK, &set, &before));
		expect_passed(&Counters::passed_mask);
		ASSERT_EQ(0, pthread_sigmask(SIG_SETMASK, &before, nullptr));
		expect_waits(&Counters::parked);
	}).join();
}

// A wait without descriptors and without a time can only wait for a signal, but a signal ends no
// wait of a task. So the call is passed through.
TEST(Pass, WaitingForASignalAlone)
{
	struct sigaction action = {}, former;

	action.sa_handler = [](int) {};
	ASSERT_EQ(0, sigaction(SIGUSR2, &action, &former));
	test::run(2, [] {
		const uint64_t before = hooks().passed_other;
		std::atomic<pid_t> waits{0};
		std::atomic<bool> done{false};
		std::thread signaller([&] {
			while (!done) {
				if (waits && hooks().passed_other > before)
					tgkill(getpid(), waits, SIGUSR2);
				usleep(1000);
			}
		});

		hooked([&] {
			const uint64_t parked = hooks().parked;
			struct pollfd none = {-1, POLLIN, 0};

			waits = gettid();
			expect_count(&Counters::passed_other,
				     [] { EXPECT_EQ(-EINTR, outcome(poll(nullptr, 0, -1))); });
			EXPECT_EQ(-EINTR, outcome(poll(&none, 1, -1)));
			EXPECT_EQ(-EINTR, outcome(ppoll(nullptr, 0, nullptr, nullptr)));
			EXPECT_EQ(-EINTR, outcome(select(0, nullptr, nullptr, nullptr, nullptr)));
			EXPECT_EQ(parked, hooks().parked);
			done = true;
		}).join();
		signaller.join();
	});
	sigaction(SIGUSR2, &former, nullptr);
}

TEST(Pass, WithoutTasksAndInChildren)
{
	const uint64_t parked = hooks().parked;

	sn_hooks_set_default(SN_HOOKS_ON);
	wait_for_a_byte();
	EXPECT_EQ(parked, hooks().parked);
	test::run(2, [] {
		const pid_t child = fork();

		if (child == 0) {
			int fd[2];
			char byte;
			struct pollfd one;

			CHILD_CHECK(pipe(fd) == 0);
			one = {fd[0], POLLIN, 0};
			CHILD_CHECK(poll(&one, 1, 10) == 0);
			CHILD_CHECK(write(fd[1], "x", 1) == 1);
			CHILD_CHECK(read(fd[0], &byte, 1) == 1);
			_exit(0);
		}
		int status = 1;
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		EXPECT_EQ(0, status);
	});
	sn_hooks_set_default(SN_HOOKS_OFF);
}

// A child of vfork() has the parent's memory, including its thread-locals, so it looks like the
// task.
TASK_TEST(Pass, InChildrenThatShareTheMemory, 2)
{
	SocketPair pair;
	const uint64_t before = hooks().parked;
	Task reader = hooked([&] {
		char byte;

		EXPECT_EQ(1, outcome(recv(pair.fd[0], &byte, 1, 0)));
	});
	EXPECT_TRUE(test::eventually([&] { return hooks().parked > before; }));
	hooked([&] {
		const int fd = pair.fd[0];
		struct pollfd none = {-1, 0, 0};
		// Does not count calls that have parked, because the reader may park again.
		const uint64_t passed = hooks().passed_busy;
		const pid_t child = vfork();

		if (child == 0) {
			close(fd);
			_exit(poll(&none, 1, 5));
		}
		int status = 1;
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		EXPECT_EQ(0, status);
		// The thread sanitizer turns vfork() into fork(), and so does an emulator.
		if (!TEST_TSAN && !TEST_EMULATED) {
			EXPECT_EQ(passed + 1, hooks().passed_busy);
		}
	}).join();
	EXPECT_EQ(1, write(pair.fd[1], "x", 1));
	reader.join();
}

// The runtime's own calls are not hooked, even if all tasks have hooks.
TEST(Pass, TheRuntimesOwnCalls)
{
	sn_hooks_set_default(SN_HOOKS_ON);
	test::run([] {
		test::Listener listener;
		const uint64_t parked = hooks().parked;
		Task server([&] {
			sn_tcp *conn = listener.accept();
			char byte;

			while (sn_tcp_read(conn, &byte, 1) == 1)
				EXPECT_EQ(1, sn_tcp_write_all(conn, &byte, 1, nullptr));
			sn_tcp_close(conn);
		});
		sn_tcp *conn = test::connect(listener.address());
		char byte = 'a';
		for (int i = 0; i < 100; i++) {
			EXPECT_EQ(1, sn_tcp_write_all(conn, &byte, 1, nullptr));
			EXPECT_EQ(1, sn_tcp_read(conn, &byte, 1));
		}
		sn_tcp_close(conn);
		server.join();
		sn_resolved *resolved;
		ASSERT_EQ(0, sn_resolve(&resolved, "localhost", "80", 0, 0));
		sn_resolved_free(resolved);
		EXPECT_EQ(0, sn_sleep(ms));
		EXPECT_EQ(parked, hooks().parked);
	});
	sn_hooks_set_default(SN_HOOKS_OFF);
}

// Profiles do not park either, so a task makes each of them in one piece.
TEST(Pass, ThoseOfProfiles)
{
	sn_hooks_set_default(SN_HOOKS_ON);
	test::run(2, [] {
		const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		const uint64_t parked = hooks().parked;

		EXPECT_EQ(0, sn_profile_waits(fd, ms, 0));
		const int err = sn_profile_cpu(fd, ms, 0);
		EXPECT_TRUE(err == 0 || (TEST_EMULATED && err == -ENOTSUP)) << err;
		EXPECT_EQ(0, sn_profile_tasks(fd));
		EXPECT_EQ(parked, hooks().parked);
		close(fd);
	});
	sn_hooks_set_default(SN_HOOKS_OFF);
}

// Writes a profile of more than the 4 KiB that the pipe takes; on machines with larger pages it
// fits.
int profile_to_pipe(void *fd)
{
	for (int i = 0; i < SN_LABELS_MAX; i++)
		EXPECT_EQ(0, sn_label(std::to_string(i).c_str(),
				      std::string(SN_LABEL_VALUE_MAX, char('a' + i)).c_str()));
	sn_profile_waits(*static_cast<int *>(fd), ms, 0);
	return 0;
}

// Writes a trace, which is also larger than what the pipe takes.
int trace_to_pipe(void *fd)
{
	for (int i = 0; i < 1000; i++)
		sn_yield();
	sn_trace_write(*static_cast<int *>(fd));
	return 0;
}

int take_profile(int fd)
{
	return sn_profile_waits(fd, 0, 0);
}

// The run ends while one of its tasks writes to a full pipe. The write still ends when the pipe is
// closed, and further profiles or traces can be written after that.
void outlasts_the_run(sn_fn *writer, int (*write_another)(int fd))
{
	static int fd[2];

	signal(SIGPIPE, SIG_IGN);
	ASSERT_EQ(0, pipe2(fd, O_CLOEXEC));
	ASSERT_LE(0, fcntl(fd[1], F_SETPIPE_SZ, 4096));
	test::run(2, [&] {
		struct sn_task_attr attr = {};

		attr.flags = SN_TASK_HOOKED;
		EXPECT_EQ(0, sn_spawn(nullptr, writer, &fd[1], &attr));
		EXPECT_TRUE(test::eventually([] {
			int there = 0;

			return ioctl(fd[0], FIONREAD, &there) == 0 && there > 0;
		}));
	});
	close(fd[0]);
	test::run(2, [&] {
		const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		int err = -EBUSY;

		EXPECT_TRUE(
			test::eventually([&] { return (err = write_another(null)) != -EBUSY; }));
		EXPECT_EQ(0, err);
		close(null);
	});
	close(fd[1]);
}

TEST(Pass, ThoseOfAProfileThatOutlastsTheRun)
{
	outlasts_the_run(profile_to_pipe, take_profile);
}

TEST(Pass, ThoseOfATraceThatOutlastsTheRun)
{
	outlasts_the_run(trace_to_pipe, sn_trace_write);
}

TEST(Choice, IsTheTasks)
{
	EXPECT_EQ(-ENOTSUP, sn_hooks_set(SN_HOOKS_ON));
	EXPECT_EQ(-EINVAL, sn_hooks_set_default(SN_HOOKS_DEFAULT));
	EXPECT_EQ(-EINVAL, sn_hooks_set_default(7));
	EXPECT_EQ(-EINVAL, sn_hooks_stats(nullptr));
	test::run([] {
		const auto parks = [] {
			const uint64_t before = hooks().parked;

			wait_for_a_byte();
			return hooks().parked > before;
		};
		struct sn_task_attr off = {};

		off.flags = SN_TASK_UNHOOKED;
		EXPECT_FALSE(parks());
		EXPECT_EQ(-EINVAL, sn_hooks_set(3));
		EXPECT_EQ(SN_HOOKS_DEFAULT, sn_hooks_set(SN_HOOKS_ON));
		expect_waits(&Counters::parked);
		Task([&] { EXPECT_FALSE(parks()) << "inherited"; }).join();
		EXPECT_EQ(SN_HOOKS_ON, sn_hooks_set(SN_HOOKS_OFF));
		EXPECT_FALSE(parks());
		EXPECT_EQ(SN_HOOKS_OFF, sn_hooks_set(SN_HOOKS_DEFAULT));
		EXPECT_FALSE(parks());
		EXPECT_EQ(0, sn_hooks_set_default(SN_HOOKS_ON));
		expect_waits(&Counters::parked);
		Task([&] { EXPECT_FALSE(parks()); }, &off).join();
		off.flags |= SN_TASK_HOOKED;
		EXPECT_EQ(-EINVAL, sn_spawn(
					   nullptr, [](void *) { return 0; }, nullptr, &off));
		EXPECT_EQ(0, sn_hooks_set_default(SN_HOOKS_OFF));
		EXPECT_FALSE(parks());
	});
}

} // namespace
