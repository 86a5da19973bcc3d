// SPDX-License-Identifier: MIT
// Labels: machine
//
// Properties of hooked calls that the oracle does not compare: threads, limits, cancellation,
// connect() and names.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <grp.h>
#include <linux/close_range.h>
#include <netdb.h>
#include <poll.h>
#include <pwd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>

#include "hooks/hooks.h"
#include "support/internals.h"
#include "support/sized.h"

namespace
{

using namespace test;

constexpr int Processors = 2;
// The threads of the scheduler, the poller, the monitor, the caller of sn_run(), and those of a
// sanitizer.
constexpr int FewThreads = Processors + 8;
const int Crowd = test::scaled(500);

// Starts n tasks, waits until all of them wait, expects no more threads than that, and ends the
// tasks.
template <class Body, class End>
void expect_few_threads(int n, Body body, End end)
{
	test::run(Processors, [&] {
		const uint64_t before = hooks().parked;
		std::vector<Task> tasks;

		for (int i = 0; i < n; i++)
			tasks.push_back(hooked([&body, i] { body(i); }));
		EXPECT_TRUE(
			test::eventually([&] { return hooks().parked >= before + uint64_t(n); }));
		EXPECT_LE(test::process_status("Threads"), FewThreads);
		end();
		join_all(tasks);
	});
}

// ---- threads ----

TEST(Threads, AreFewWhileTasksReceive)
{
	std::vector<std::unique_ptr<SocketPair>> pairs;
	std::atomic<int> received{0};

	for (int i = 0; i < Crowd; i++)
		pairs.push_back(std::make_unique<SocketPair>());
	expect_few_threads(
		Crowd,
		[&](int i) {
			char byte = 0;

			EXPECT_EQ(1, outcome(recv(pairs[size_t(i)]->fd[0], &byte, 1, 0)));
			EXPECT_EQ('x', byte);
			received++;
		},
		[&] {
			for (auto &pair : pairs)
				EXPECT_EQ(1, write(pair->fd[1], "x", 1));
		});
	EXPECT_EQ(Crowd, received);
}

TEST(Threads, AreFewWhileTasksReadFromOnePipe)
{
	int fd[2];

	ASSERT_EQ(0, pipe(fd));
	expect_few_threads(
		Crowd,
		[&](int) {
			char byte;

			EXPECT_EQ(0, outcome(read(fd[0], &byte, 1)));
		},
		[&] { close(fd[1]); });
	close(fd[0]);
}

TEST(Threads, AreFewWhileTasksPoll)
{
	SocketPair pair;

	expect_few_threads(
		Crowd,
		[&](int i) {
			struct pollfd fds[2] = {{pair.fd[0], POLLIN, 0}, {pair.fd[1], POLLPRI, 0}};
			fd_set set;

			FD_ZERO(&set);
			FD_SET(pair.fd[0], &set);
			if (i % 2) {
				EXPECT_EQ(1, outcome(poll(fds, 2, 600000)));
				EXPECT_EQ(POLLIN, fds[0].revents);
				EXPECT_EQ(0, fds[1].revents);
			} else {
				EXPECT_EQ(1, outcome(select(pair.fd[0] + 1, &set, nullptr, nullptr,
							    nullptr)));
				EXPECT_TRUE(FD_ISSET(pair.fd[0], &set));
			}
		},
		[&] { EXPECT_EQ(1, write(pair.fd[1], "x", 1)); });
}

TEST(Threads, AreFewWhileTasksSleep)
{
	std::atomic<int64_t> until{0};

	until = sn_now() + second;
	expect_few_threads(
		Crowd,
		[&](int i) {
			const int64_t begun = sn_now();
			const struct timespec time = {0, 300 * 1000 * 1000};

			if (i % 4 == 0)
				EXPECT_EQ(0, usleep(300000));
			else if (i % 4 == 1)
				EXPECT_EQ(0, nanosleep(&time, nullptr));
			else if (i % 4 == 2)
				EXPECT_EQ(0, clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr));
			else
				EXPECT_EQ(0u, sleep(1));
			EXPECT_GE(sn_now() - begun, 300 * ms);
		},
		[] {});
}

TEST(Threads, AreFewWhileTasksAccept)
{
	TcpListener listener;
	const int n = 50;

	expect_few_threads(
		n,
		[&](int) {
			const int fd = accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC);

			EXPECT_GE(outcome(fd), 0);
			EXPECT_FALSE(test::is_nonblocking(fd));
			close(fd);
		},
		[&] {
			for (int i = 0; i < n; i++) {
				const int fd = test::tcp_socket();

				EXPECT_EQ(0, listener.connect_to(fd));
				close(fd);
			}
		});
	EXPECT_FALSE(test::is_nonblocking(listener.fd));
}

TEST(Threads, AreFewWhileTasksWriteMuch)
{
	const int n = 50;
	const size_t size = 4 << 20;
	const std::string much(size, 'm');
	std::vector<std::unique_ptr<SocketPair>> pairs;
	std::atomic<int64_t> sum{0};

	for (int i = 0; i < n; i++)
		pairs.push_back(std::make_unique<SocketPair>());
	expect_few_threads(
		n,
		[&](int i) {
			EXPECT_EQ(int64_t(size),
				  outcome(write(pairs[size_t(i)]->fd[0], much.data(), size)));
			pairs[size_t(i)]->close_end(0);
		},
		[&] {
			std::vector<char> buf(1 << 20);

			for (auto &pair : pairs)
				for (ssize_t got;
				     (got = read(pair->fd[1], buf.data(), buf.size())) > 0;)
					sum += got;
		});
	EXPECT_EQ(int64_t(n) * int64_t(size), sum);
}

// ---- limits of time ----

TASK_TEST(Timeouts, OfSocketsAreHonoured)
{
	hooked([] {
		SocketPair pair;
		const struct timeval time = {0, 30000};
		char byte;

		for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
			EXPECT_EQ(0,
				  setsockopt(pair.fd[0], SOL_SOCKET, option, &time, sizeof time));
		for (int i = 0; i < 3; i++) {
			const int64_t begun = sn_now();

			EXPECT_EQ(-EAGAIN, outcome(recv(pair.fd[0], &byte, 1, 0)));
			EXPECT_GE(sn_now() - begun, 30 * ms);
		}
		// A part of the bytes is sent, which is what the call reports.
		const std::string much(8 << 20, 'm');
		const int64_t begun = sn_now();
		const int64_t sent = outcome(send(pair.fd[0], much.data(), much.size(), 0));
		EXPECT_GT(sent, 0);
		EXPECT_LT(sent, int64_t(much.size()));
		EXPECT_GE(sn_now() - begun, 30 * ms);
		EXPECT_EQ(-EAGAIN, outcome(send(pair.fd[0], "x", 1, 0)));

		TcpListener listener;
		EXPECT_EQ(0, setsockopt(listener.fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
		EXPECT_EQ(-EAGAIN, outcome(accept(listener.fd, nullptr, nullptr)));
	}).join();
}

// Sets errno of the thread on which the task is now.
__attribute__((noinline)) void set_error(int err)
{
	__asm__ volatile("" : : : "memory");
	errno = err;
}

// As in the C library, a call that succeeds does not change errno.
TASK_TEST(Timeouts, LeaveErrno)
{
	hooked([] {
		const uint64_t before = hooks().parked;
		SocketPair pair;
		struct pollfd one = {pair.fd[0], POLLIN, 0};
		struct timeval time = {0, 2000};
		struct timespec same = {0, 2000000};
		struct epoll_event event = {};
		const int poller = epoll_create1(EPOLL_CLOEXEC);

		set_error(ENOENT);
		EXPECT_EQ(0, poll(&one, 1, 2));
		EXPECT_EQ(ENOENT, error_now());
		EXPECT_EQ(0, ppoll(&one, 1, &same, nullptr));
		EXPECT_EQ(ENOENT, error_now());
		EXPECT_EQ(0, select(0, nullptr, nullptr, nullptr, &time));
		EXPECT_EQ(ENOENT, error_now());
		EXPECT_EQ(0, epoll_wait(poller, &event, 1, 2));
		EXPECT_EQ(ENOENT, error_now());
		EXPECT_LE(before + 4, hooks().parked);
		close(poller);
	}).join();
}

// The same for calls that have waited: the attempt that found nothing has set errno.
TASK_TEST(Calls, ThatSucceedLeaveErrno)
{
	struct Waiting {
		const char *name;
		std::function<ssize_t()> call;
		std::function<void()> end; // what the call waits for
		std::function<void()> begin = [] {};
	};
	SocketPair pair;
	TcpListener listener;
	const int event = eventfd(0, EFD_CLOEXEC),
		  file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int ends[2];
	char byte, many[64];
	struct iovec iov = {&byte, 1};
	struct msghdr header = {};
	struct mmsghdr several = {};

	ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
	header.msg_iov = &iov;
	header.msg_iovlen = 1;
	several.msg_hdr = header;
	const auto send_byte = [&] { EXPECT_EQ(1, send(pair.fd[1], "x", 1, 0)); };
	const auto write_byte = [&] { EXPECT_EQ(1, write(ends[1], "x", 1)); };
	const auto fill = [&](int fd) {
		const int flags = fcntl(fd, F_GETFL);
		std::string piece(4096, 'x');

		EXPECT_EQ(0, fcntl(fd, F_SETFL, flags | O_NONBLOCK));
		while (write(fd, piece.data(), piece.size()) > 0)
			;
		EXPECT_EQ(0, fcntl(fd, F_SETFL, flags));
	};
	const auto drain = [&](int fd) {
		std::string piece(1 << 20, 0);

		EXPECT_LT(0, read(fd, piece.data(), piece.size()));
	};
	const auto connect_to_it = [&] {
		const int client = test::tcp_socket();

		EXPECT_EQ(0, listener.connect_to(client));
		close(client);
	};
	const Waiting calls[] = {
		{"recv", [&] { return recv(pair.fd[0], &byte, 1, 0); }, send_byte},
		{"recv of all", [&] { return recv(pair.fd[0], &byte, 1, MSG_WAITALL); }, send_byte},
		{"recvfrom", [&] { return recvfrom(pair.fd[0], &byte, 1, 0, nullptr, nullptr); },
		 send_byte},
		{"recvmsg", [&] { return recvmsg(pair.fd[0], &header, 0); }, send_byte},
		{"recvmmsg", [&] { return ssize_t(recvmmsg(pair.fd[0], &several, 1, 0, nullptr)); },
		 send_byte},
		{"read", [&] { return read(pair.fd[0], &byte, 1); }, send_byte},
		{"readv", [&] { return readv(pair.fd[0], &iov, 1); }, send_byte},
		{"read, pipe", [&] { return read(ends[0], &byte, 1); }, write_byte},
		{"readv, pipe", [&] { return readv(ends[0], &iov, 1); }, write_byte},
		{"read, eventfd", [&] { return read(event, many, 8); },
		 [&] { EXPECT_EQ(0, eventfd_write(event, 1)); }},
		{"accept", [&] { return ssize_t(close(accept(listener.fd, nullptr, nullptr))); },
		 connect_to_it},
		{"accept4",
		 [&] { return ssize_t(close(accept4(listener.fd, nullptr, nullptr, 0))); },
		 connect_to_it},
		{"send", [&] { return send(pair.fd[0], "x", 1, 0); }, [&] { drain(pair.fd[1]); },
		 [&] { fill(pair.fd[0]); }},
		{"write, pipe", [&] { return write(ends[1], "x", 1); }, [&] { drain(ends[0]); },
		 [&] { fill(ends[1]); }},
		{"sendfile", [&] { return sendfile(pair.fd[1], file, nullptr, 1); },
		 [&] { drain(pair.fd[0]); }, [&] { fill(pair.fd[1]); }},
	};

	for (const Waiting &each : calls) {
		each.begin();

		const uint64_t before = hooks().parked;
		Task task = hooked([&] {
			set_error(ENOENT);
			EXPECT_LE(0, each.call()) << each.name;
			EXPECT_EQ(ENOENT, error_now()) << each.name;
		});
		EXPECT_TRUE(test::eventually([&] { return hooks().parked > before; })) << each.name;
		each.end();
		task.join();
	}
	close(event);
	close(file);
	close(ends[0]);
	close(ends[1]);
}

// The same for calls that need not wait, or wait for a time.
TASK_TEST(Calls, ThatNeedNotWaitLeaveErrno)
{
	hooked([] {
		TcpListener listener;
		SocketPair pair;
		const int client = test::tcp_socket(), bytes = 1;
		const struct timespec time = {0, 1000000};
		int ends[2];
		char byte = 0;
		struct iovec iov = {&byte, 1};
		struct msghdr header = {};
		struct mmsghdr several = {};
		const auto leaves_errno = [](ssize_t result) {
			const bool same = error_now() == ENOENT;

			set_error(ENOENT);
			return result >= 0 && same;
		};

		header.msg_iov = &iov;
		header.msg_iovlen = 1;
		several.msg_hdr = header;
		EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
		set_error(ENOENT);
		EXPECT_TRUE(leaves_errno(listener.connect_to(client)));
		EXPECT_TRUE(leaves_errno(usleep(1000)));
		EXPECT_TRUE(leaves_errno(nanosleep(&time, nullptr)));
		EXPECT_TRUE(leaves_errno(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr)));
		EXPECT_TRUE(leaves_errno(sendto(pair.fd[0], "x", 1, 0, nullptr, 0)));
		EXPECT_TRUE(leaves_errno(sendmsg(pair.fd[0], &header, 0)));
		EXPECT_TRUE(leaves_errno(sendmmsg(pair.fd[0], &several, 1, 0)));
		EXPECT_TRUE(leaves_errno(writev(pair.fd[0], &iov, 1)));
		EXPECT_TRUE(leaves_errno(read(pair.fd[1], &byte, 1)));
		for (int i = 0; i < 4; i++)
			EXPECT_TRUE(leaves_errno(write(ends[1], "x", 1)));
		EXPECT_TRUE(leaves_errno(writev(ends[1], &iov, 1)));
		EXPECT_TRUE(leaves_errno(read(ends[0], &byte, 1)));
		// From now on, the hooks ask each descriptor for this option.
		EXPECT_TRUE(leaves_errno(
			setsockopt(pair.fd[1], SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes)));
		EXPECT_TRUE(leaves_errno(read(ends[0], &byte, 1)));
		EXPECT_TRUE(leaves_errno(readv(ends[0], &iov, 1)));
		close(client);
		close(ends[0]);
		close(ends[1]);
	}).join();
}

TASK_TEST(Timeouts, OfSelectTellWhatIsLeft)
{
	hooked([] {
		SocketPair pair;
		struct timeval time = {60, 0};
		fd_set set;

		const uint64_t before = hooks().parked;
		Task writer([&] {
			EXPECT_TRUE(test::eventually([&] { return hooks().parked > before; }));
			EXPECT_EQ(1, write(pair.fd[1], "x", 1));
		});
		FD_ZERO(&set);
		FD_SET(pair.fd[0], &set);
		EXPECT_EQ(1, outcome(select(pair.fd[0] + 1, &set, nullptr, nullptr, &time)));
		EXPECT_LT(time.tv_sec, 60);
		EXPECT_GE(time.tv_sec, 20);
		writer.join();

		time = {0, 10000};
		FD_ZERO(&set);
		FD_SET(pair.fd[1], &set);
		EXPECT_EQ(0, outcome(select(pair.fd[1] + 1, &set, nullptr, nullptr, &time)));
		EXPECT_FALSE(FD_ISSET(pair.fd[1], &set));
		EXPECT_EQ(0, time.tv_sec + time.tv_usec);
	}).join();
}

TASK_TEST(Waitall, TakesAllThatComesInPieces)
{
	SocketPair pair;
	Task reader = hooked([&] {
		std::string got(1000, 0);

		EXPECT_EQ(1000, outcome(recv(pair.fd[0], got.data(), 1000, MSG_WAITALL)));
		EXPECT_EQ(std::string(1000, 'p'), got);
		// The stream ends before all bytes have come.
		EXPECT_EQ(5, outcome(recv(pair.fd[0], got.data(), 1000, MSG_WAITALL)));
		EXPECT_EQ(0, outcome(recv(pair.fd[0], got.data(), 1000, MSG_WAITALL)));
	});
	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(10, write(pair.fd[1], "pppppppppp", 10));
		sn_sleep(100 * test::us);
	}
	EXPECT_EQ(5, write(pair.fd[1], "last.", 5));
	pair.close_end(1);
	reader.join();
}

TASK_TEST(LowWater, IsWaitedFor)
{
	TcpListener listener;
	const int client = test::tcp_socket(), bytes = 100;

	ASSERT_EQ(0, listener.connect_to(client));
	const int server = accept(listener.fd, nullptr, nullptr);
	ASSERT_EQ(0, setsockopt(server, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes));
	Task reader = hooked([&] {
		char buf[200];

		// Linux waits for so many bytes beyond those that the call has taken
		// already.
		EXPECT_EQ(150, outcome(recv(server, buf, sizeof buf, 0)));
	});
	ASSERT_EQ(50, write(client, std::string(50, 'x').data(), 50));
	sn_sleep(20 * ms);
	ASSERT_EQ(100, write(client, std::string(100, 'x').data(), 100));
	reader.join();
	close(client);
	close(server);
}

// ---- cancellation ----

TEST(Cancellation, EndsReceiving)
{
	expect_cancelled([] {
		SocketPair pair;
		char byte;

		return outcome(recv(pair.fd[0], &byte, 1, 0));
	});
}

TEST(Cancellation, EndsPolling)
{
	expect_cancelled([] {
		SocketPair pair;
		struct pollfd one = {pair.fd[0], POLLIN, 0};

		return outcome(poll(&one, 1, 600000));
	});
}

TEST(Cancellation, EndsSelecting)
{
	expect_cancelled([] {
		SocketPair pair;
		fd_set set;

		FD_ZERO(&set);
		FD_SET(pair.fd[0], &set);
		return outcome(select(pair.fd[0] + 1, &set, nullptr, nullptr, nullptr));
	});
}

TEST(Cancellation, EndsSleeping)
{
	expect_cancelled([] {
		const struct timespec time = {600, 0};
		struct timespec left = {7, 0};
		const int64_t result = outcome(nanosleep(&time, &left));

		EXPECT_EQ(0, left.tv_sec);
		return result;
	});
}

TEST(Cancellation, IsReportedByEachSleepInItsWay)
{
	expect_cancelled([] { return outcome(usleep(600 * 1000000)); });
	expect_cancelled([] {
		const struct timespec time = {600, 0};
		struct timespec left = {7, 0};
		const int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &left);

		EXPECT_EQ(0, left.tv_sec);
		return int64_t(-error);
	});
	expect_cancelled([] {
		struct timespec until, left = {7, 0};

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += 600;
		const int error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, &left);

		EXPECT_EQ(7, left.tv_sec); // nothing is left of a time
		return int64_t(-error);
	});
	expect_cancelled([] {
		const struct timespec time = {600, 0};

		EXPECT_EQ(-2, thrd_sleep(&time, nullptr));
		return outcome(usleep(1)); // it has no errno of its own
	});
	expect_cancelled([] {
		EXPECT_EQ(0u, sleep(600));
		return outcome(usleep(1)); // nor has this
	});
}

// A loop that takes every failure for a signal, and sleeps for what is left. It must neither go on
// without a limit nor compute for all of that time.
template <class Sleep>
void expect_end_of_loop(Sleep sleep_once)
{
	expect_cancelled([&] {
		struct timespec time = {600, 0};
		int rounds = 0;

		while (sleep_once(&time) != 0 && ++rounds < 100)
			;
		EXPECT_GT(100, rounds);
		return outcome(usleep(1));
	});
}

TEST(Cancellation, EndsLoopsThatSleepForWhatIsLeft)
{
	expect_end_of_loop([](struct timespec *time) {
		time->tv_sec = sleep(unsigned(time->tv_sec));
		return time->tv_sec;
	});
	expect_end_of_loop([](struct timespec *time) { return nanosleep(time, time); });
	expect_end_of_loop([](struct timespec *time) { return thrd_sleep(time, time); });
	expect_end_of_loop([](struct timespec *time) {
		return clock_nanosleep(CLOCK_MONOTONIC, 0, time, time);
	});
	expect_end_of_loop([](struct timespec *time) {
		if (time->tv_sec == 600) {
			clock_gettime(CLOCK_MONOTONIC, time);
			time->tv_sec += 600;
		} else {
			*time = {1, 0}; // has passed
		}
		return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, time, nullptr);
	});
}

TEST(Cancellation, EndsAccepting)
{
	expect_cancelled([] {
		TcpListener listener;

		return outcome(accept(listener.fd, nullptr, nullptr));
	});
}

TASK_TEST(Cancellation, LeavesWhatNeedNotWait)
{
	hooked([] {
		SocketPair pair;
		sn_scope *scope;
		char byte;

		ASSERT_EQ(0, sn_scope_open(&scope, 0));
		sn_scope_cancel(scope);
		EXPECT_EQ(1, outcome(write(pair.fd[0], "x", 1)));
		EXPECT_EQ(1, outcome(read(pair.fd[1], &byte, 1)));
		EXPECT_EQ(-ECANCELED, outcome(read(pair.fd[1], &byte, 1)));
		sn_scope_close(scope);
	}).join();
}

// ---- closing ----

TASK_TEST(Close, ByAnotherTaskEndsTheWait)
{
	SocketPair pair;
	const uint64_t before = hooks().parked;
	Task reader = hooked([&] {
		char byte;

		EXPECT_EQ(-EBADF, outcome(recv(pair.fd[0], &byte, 1, 0)));
	});

	EXPECT_TRUE(test::eventually([&] { return hooks().parked > before; }));
	hooked([&] { pair.close_end(0); }).join();
	reader.join();
}

// Ways to close a descriptor without calling close(). at_once: the wait has ended when the call
// returns, and need not notice the close by itself.
void expect_closing(const std::function<void(int fd)> &close_it, bool at_once = true)
{
	test::run(Processors, [&] {
		SocketPair pair;
		const uint64_t before = hooks().parked;
		Task reader = hooked([&] {
			char byte;

			EXPECT_EQ(-EBADF, outcome(recv(pair.fd[0], &byte, 1, 0)));
		});

		EXPECT_TRUE(test::eventually([&] { return hooks().parked > before; }));
		EXPECT_TRUE(test::eventually([&] { return probe_watch_waits(pair.fd[0]) == 1; }));
		hooked([&] {
			close_it(pair.fd[0]);
			if (at_once) {
				EXPECT_EQ(0, probe_watch_waits(pair.fd[0]));
			}
		}).join();
		reader.join();
		EXPECT_EQ(-1, fcntl(pair.fd[0], F_GETFD)) << "no other descriptor has the number";
		pair.fd[0] = -1;
	});
}

TEST(Close, OfAFileEndsTheWait)
{
	expect_closing([](int fd) { EXPECT_EQ(0, fclose(fdopen(fd, "r+"))); });
}

TEST(Close, OfAFileThatIsOpenedAgainEndsTheWait)
{
	expect_closing([](int fd) {
		FILE *file = freopen("/dev/null", "r", fdopen(fd, "r+"));

		ASSERT_NE(nullptr, file);
		EXPECT_EQ(0, fclose(file));
	});
}

TEST(Close, OfARangeEndsTheWait)
{
	expect_closing([](int fd) {
		EXPECT_EQ(0, close_range(unsigned(fd), unsigned(fd), CLOSE_RANGE_CLOEXEC));
		EXPECT_EQ(0, close_range(unsigned(fd), unsigned(fd), 0));
	});
}

// The waiting call notices the close by itself.
TEST(Close, ByASystemCallEndsTheWait)
{
	expect_closing([](int fd) { EXPECT_EQ(0, syscall(SYS_close, fd)); }, false);
}

TASK_TEST(Close, OfAPipeToAProgramEndsTheWait)
{
	FILE *pipe = popen("read line", "w");

	ASSERT_NE(nullptr, pipe);
	const uint64_t before = hooks().parked;
	Task waiter = hooked([&] {
		struct pollfd one = {fileno(pipe), POLLERR, 0};

		EXPECT_EQ(1, outcome(poll(&one, 1, -1)));
		EXPECT_EQ(POLLNVAL, one.revents);
	});

	EXPECT_TRUE(test::eventually([&] { return hooks().parked > before; }));
	hooked([&] { EXPECT_NE(-1, pclose(pipe)); }).join();
	waiter.join();
}

// ---- connect ----

TASK_TEST(Connect, ReportsItsOutcome)
{
	hooked([] {
		TcpListener listener, silent(-1);
		const int fd = test::tcp_socket();
		struct sockaddr_in peer;
		socklen_t length = sizeof peer;

		for (int i = 0; i < 3; i++) {
			EXPECT_EQ(-ECONNREFUSED, outcome(silent.connect_to(fd)));
			EXPECT_FALSE(test::is_nonblocking(fd));
		}
		EXPECT_EQ(0, outcome(listener.connect_to(fd)));
		EXPECT_FALSE(test::is_nonblocking(fd));
		EXPECT_EQ(-EISCONN, outcome(listener.connect_to(fd)));
		EXPECT_EQ(0, getpeername(fd, (struct sockaddr *)&peer, &length));
		close(fd);

		const int other = test::tcp_socket();
		EXPECT_EQ(0, outcome(listener.connect_to(other)));
		EXPECT_FALSE(test::is_nonblocking(other));
		close(other);
	}).join();
}

// A socket whose backlog is full: the kernel does not answer further connections, so they wait.
class Full
{
public:
	Full() : listener(0)
	{
		for (int i = 0; i < 8; i++) {
			const int fd =
				socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

			listener.connect_to(fd);
			held.push_back(fd);
		}
	}
	~Full()
	{
		for (const int fd : held)
			close(fd);
	}
	TcpListener listener;
	std::vector<int> held;
};

TASK_TEST(Connect, ParksUntilItsTimeout, 2)
{
	Full full;
	std::vector<Task> tasks;
	const uint64_t before = hooks().parked;

	for (int i = 0; i < 20; i++)
		tasks.push_back(hooked([&] {
			const int fd = test::tcp_socket();
			const struct timeval time = {0, 300000};
			const int64_t begun = sn_now();

			setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
			EXPECT_EQ(-EINPROGRESS, outcome(full.listener.connect_to(fd)));
			EXPECT_GE(sn_now() - begun, 300 * ms);
			EXPECT_FALSE(test::is_nonblocking(fd));
			close(fd);
		}));
	EXPECT_TRUE(test::eventually([&] { return hooks().parked >= before + 20; }));
	EXPECT_LE(test::process_status("Threads"), FewThreads);
	join_all(tasks);
}

TEST(Connect, IsCancelled)
{
	Full full;

	expect_cancelled([&] {
		const int fd = test::tcp_socket();
		const int64_t result = outcome(full.listener.connect_to(fd));

		close(fd);
		return result;
	});
}

// If others may have the socket, the hooks never set its flag, not even for a moment.
TASK_TEST(Connect, PassesDuplicatesThrough, 2)
{
	hooked([] {
		TcpListener listener;

		for (int way = 0; way < 4; way++) {
			const int fd = test::tcp_socket();
			const int copy = way == 0   ? dup(fd)
					 : way == 1 ? fcntl(fd, F_DUPFD_CLOEXEC, 0)
					 : way == 2 ? dup2(fd, 900)
						    : dup3(fd, 901, O_CLOEXEC);
			const uint64_t before = hooks().parked;

			EXPECT_GE(copy, 0);
			EXPECT_EQ(0, outcome(listener.connect_to(fd)));
			EXPECT_EQ(before, hooks().parked) << way;
			close(copy);
			close(fd);
		}
	}).join();
}

// The same holds if a child of fork() has the socket, too.
TASK_TEST(Connect, PassesSocketsOfTheChildrenThrough, 2)
{
	hooked([] {
		TcpListener listener;
		const int before_fork = test::tcp_socket();
		const pid_t child = fork();

		if (child == 0)
			_exit(0);
		const int after_fork = test::tcp_socket();
		while (waitpid(child, nullptr, 0) < 0 && errno == EINTR)
			;
		const uint64_t before = hooks().parked;
		EXPECT_EQ(0, outcome(listener.connect_to(before_fork)));
		EXPECT_EQ(before, hooks().parked);
		EXPECT_EQ(0, outcome(listener.connect_to(after_fork)));
		close(before_fork);
		close(after_fork);
	}).join();
}

// ---- names ----

struct Found {
	int error;
	std::vector<std::string> addresses;

	bool operator==(const Found &other) const = default;
};

Found find(const char *node, const char *service, const struct addrinfo *hints)
{
	struct addrinfo *list = nullptr;
	Found found;

	found.error = getaddrinfo(node, service, hints, &list);
	for (struct addrinfo *at = found.error ? nullptr : list; at; at = at->ai_next)
		found.addresses.push_back(std::to_string(at->ai_family) + " " +
					  std::to_string(at->ai_socktype) + " " +
					  std::to_string(at->ai_protocol) + " " +
					  std::string((const char *)at->ai_addr, at->ai_addrlen) +
					  (at->ai_canonname ? at->ai_canonname : ""));
	if (!found.error)
		freeaddrinfo(list);
	return found;
}

TEST(Names, AreWhatTheResolverSays)
{
	struct addrinfo stream = {};
	struct {
		const char *node, *service;
		const struct addrinfo *hints;
	} const questions[] = {
		{"localhost", "80", nullptr},      {"localhost", "http", &stream},
		{"127.0.0.1", "http", &stream},    {"127.0.0.1", "80", nullptr},
		{nullptr, "80", &stream},          {"localhost", nullptr, &stream},
		{"localhost", "no-such", &stream}, {"::1", nullptr, nullptr},
		{nullptr, nullptr, nullptr},
	};
	stream.ai_socktype = SOCK_STREAM;
	stream.ai_flags = AI_CANONNAME;
	for (const auto &question : questions) {
		const Found expected = find(question.node, question.service, question.hints);

		test::run({2}, [&] {
			std::vector<Task> tasks;

			for (int i = 0; i < 20; i++)
				tasks.push_back(hooked([&] {
					EXPECT_EQ(expected, find(question.node, question.service,
								 question.hints));
				}));
			join_all(tasks);
		});
	}
}

// The modules of the name service make hooked calls while they hold locks of the C library.
TASK_TEST(Names, ThatAreAskedForOtherwiseDoNotPark, 1)
{
	hooked([] {
		const uint64_t before = hooks().parked;

		EXPECT_NE(nullptr, gethostbyname("localhost"));
		EXPECT_NE(nullptr, getpwuid(0));
		EXPECT_NE(nullptr, getgrgid(0));
		EXPECT_EQ(nullptr, getservbyname("no-such", "tcp"));
		EXPECT_EQ(before, hooks().parked);
		usleep(1000);
		EXPECT_EQ(before + 1, hooks().parked) << "a lock is still held";
	}).join();
}

TASK_TEST(Names, AreLeftWhenCancelled)
{
	hooked([] {
		sn_scope *scope;

		ASSERT_EQ(0, sn_scope_open(&scope, 0));
		sn_scope_cancel(scope);
		EXPECT_EQ(EAI_SYSTEM, find("localhost", "80", nullptr).error);
		EXPECT_EQ(ECANCELED, error_now());
		sn_scope_close(scope);
	}).join();
}

// The structure in a program that was compiled with an older header.
struct OldStats {
	size_t size;
	uint64_t parked;
	uint64_t passed_held;
};

TEST(Hooks, StatisticsOfAnOlderHeaderAreFilled)
{
	test::expect_gives<struct sn_hooks_stats, OldStats>(
		[](struct sn_hooks_stats *each) { return sn_hooks_stats(each); },
		[](const OldStats &stats) {
			struct sn_hooks_stats now = {};

			EXPECT_EQ(0, sn_hooks_stats(&now));
			EXPECT_EQ(now.parked, stats.parked);
			EXPECT_EQ(now.passed_held, stats.passed_held);
		});
}

} // namespace
