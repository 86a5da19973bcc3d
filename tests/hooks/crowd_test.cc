// SPDX-License-Identifier: MIT
// Labels: machine
//
// Many tasks make the same call on one descriptor, and events come one after the other; each event
// ends one call. The other calls wait without a thread, however often they are too late, and can be
// cancelled.
#include <atomic>
#include <functional>
#include <limits>
#include <string>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#include "hooks/hooks.h"

namespace
{

using namespace test;

constexpr int Processors = 2;
// As in calls_test.cc.
constexpr int FewThreads = Processors + 8;
constexpr int Crowd = 40;
constexpr int Events = 20;

struct Case {
	std::function<int64_t()> call; // each call ends with one event
	std::function<void()> event;
	std::atomic<int> succeeded{0}, cancelled{0};
};

int one_call(void *arg)
{
	Case &one = *static_cast<Case *>(arg);
	const int64_t result = outcome(one.call());

	if (result >= 0)
		one.succeeded++;
	else if (result == -ECANCELED)
		one.cancelled++;
	else
		ADD_FAILURE() << "the call has failed: " << result;
	return 0;
}

void expect_one_each(std::function<int64_t()> call, std::function<void()> event)
{
	Case one;

	one.call = std::move(call);
	one.event = std::move(event);
	test::run(Processors, [&] {
		const uint64_t before = hooks().parked, passed = hooks().passed_other;
		struct sn_task_attr attr = {};
		sn_scope *scope;

		attr.flags = SN_TASK_HOOKED;
		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		for (int i = 0; i < Crowd; i++)
			EXPECT_EQ(0, sn_scope_spawn(scope, one_call, &one, &attr));
		EXPECT_TRUE(test::eventually([&] { return hooks().parked >= before + Crowd; }));
		for (int i = 1; i <= Events; i++) {
			one.event();
			EXPECT_TRUE(test::eventually([&] { return one.succeeded >= i; }));
			EXPECT_LE(test::process_status("Threads"), FewThreads);
		}
		sn_scope_cancel(scope);
		const bool ended =
			test::eventually([&] { return one.succeeded + one.cancelled == Crowd; });
		EXPECT_TRUE(ended) << "cancellation has ended " << one.cancelled;
		// Frees the remaining tasks, so that the scope can be closed.
		for (int i = 0; !ended && i < Crowd; i++)
			one.event();
		sn_scope_close(scope);
		EXPECT_EQ(passed, hooks().passed_other);
	});
	EXPECT_EQ(Events, one.succeeded);
	EXPECT_EQ(Crowd - Events, one.cancelled);
}

struct Pipe {
	Pipe() { EXPECT_EQ(0, pipe2(fd, O_CLOEXEC)); }
	~Pipe()
	{
		close(fd[0]);
		close(fd[1]);
	}
	int fd[2];
};

struct Descriptor {
	explicit Descriptor(int number) : fd(number) { EXPECT_GE(fd, 0); }
	~Descriptor() { close(fd); }
	const int fd;
};

void accept_by(const std::function<int(int listener)> &call)
{
	TcpListener listener;

	expect_one_each(
		[&] {
			const int conn = call(listener.fd);

			return conn < 0 ? conn : close(conn);
		},
		[&] {
			const int fd = test::tcp_socket();

			EXPECT_EQ(0, listener.connect_to(fd));
			close(fd);
		});
	EXPECT_FALSE(test::is_nonblocking(listener.fd));
}

TEST(Crowd, Accepts)
{
	accept_by([](int listener) { return accept(listener, nullptr, nullptr); });
}

TEST(Crowd, AcceptsWithFlags)
{
	accept_by([](int listener) { return accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); });
}

TEST(Crowd, ReceivesFromASocket)
{
	SocketPair pair(SOCK_DGRAM);

	expect_one_each(
		[&] {
			char byte;

			return recv(pair.fd[0], &byte, 1, 0);
		},
		[&] { EXPECT_EQ(1, write(pair.fd[1], "x", 1)); });
}

TEST(Crowd, ReadsFromAPipe)
{
	Pipe pipe;

	expect_one_each(
		[&] {
			char byte;

			return read(pipe.fd[0], &byte, 1);
		},
		[&] { EXPECT_EQ(1, write(pipe.fd[1], "x", 1)); });
	EXPECT_FALSE(test::is_nonblocking(pipe.fd[0]));
}

TEST(Crowd, ReadsPiecesFromAPipe)
{
	Pipe pipe;

	expect_one_each(
		[&] {
			char bytes[2];
			const struct iovec pieces[2] = {{bytes, 1}, {bytes + 1, 1}};

			return readv(pipe.fd[0], pieces, 2);
		},
		[&] { EXPECT_EQ(2, write(pipe.fd[1], "xy", 2)); });
}

TEST(Crowd, WritesToAPipe)
{
	const std::string page(4096, 'p');
	std::string taken(page.size(), 0);
	Pipe pipe;

	if (sysconf(_SC_PAGESIZE) != 4096)
		GTEST_SKIP() << "the pieces of a pipe are larger";
	ASSERT_EQ(4096, fcntl(pipe.fd[1], F_SETPIPE_SZ, 4096));
	ASSERT_EQ(4096, write(pipe.fd[1], page.data(), page.size()));
	expect_one_each([&] { return write(pipe.fd[1], page.data(), page.size()); },
			[&] { EXPECT_EQ(4096, read(pipe.fd[0], taken.data(), taken.size())); });
	EXPECT_FALSE(test::is_nonblocking(pipe.fd[1]));
}

TEST(Crowd, ReadsFromAnEventfd)
{
	Descriptor event(eventfd(0, EFD_CLOEXEC));
	uint64_t one = 1;

	expect_one_each(
		[&] {
			uint64_t value;

			return read(event.fd, &value, sizeof value);
		},
		[&] { EXPECT_EQ(8, write(event.fd, &one, sizeof one)); });
}

void write_to_eventfd(const std::function<int64_t(int fd, uint64_t *one)> &call)
{
	Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
	uint64_t most = std::numeric_limits<uint64_t>::max() - 1, one = 1, value;

	ASSERT_EQ(8, write(event.fd, &most, sizeof most));
	expect_one_each([&] { return call(event.fd, &one); },
			[&] { EXPECT_EQ(8, read(event.fd, &value, sizeof value)); });
}

TEST(Crowd, WritesToAnEventfd)
{
	write_to_eventfd([](int fd, uint64_t *one) { return write(fd, one, sizeof *one); });
}

TEST(Crowd, WritesAPieceToAnEventfd)
{
	write_to_eventfd([](int fd, uint64_t *one) {
		const struct iovec piece = {one, sizeof *one};

		return writev(fd, &piece, 1);
	});
}

TEST(Crowd, ReadsFromATimerfd)
{
	Descriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
	const struct itimerspec soon = {{0, 0}, {0, 1}};

	expect_one_each(
		[&] {
			uint64_t value;

			return read(timer.fd, &value, sizeof value);
		},
		[&] { EXPECT_EQ(0, timerfd_settime(timer.fd, 0, &soon, nullptr)); });
}

// A terminal supports neither flag.
TEST(Crowd, ReadsFromATerminal)
{
	Descriptor master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));

	ASSERT_EQ(0, grantpt(master.fd));
	ASSERT_EQ(0, unlockpt(master.fd));
	Descriptor terminal(open(ptsname(master.fd), O_RDWR | O_NOCTTY | O_CLOEXEC));
	expect_one_each(
		[&] {
			char line[8];

			return read(terminal.fd, line, sizeof line);
		},
		[&] { EXPECT_EQ(2, write(master.fd, "x\n", 2)); });
}

TEST(Crowd, WaitsForOneEpoll)
{
	Descriptor poller(epoll_create1(EPOLL_CLOEXEC)), event(eventfd(0, EFD_CLOEXEC));
	struct epoll_event wanted = {};
	uint64_t one = 1;

	wanted.events = EPOLLIN | EPOLLET; // so that each event is reported to only one task
	ASSERT_EQ(0, epoll_ctl(poller.fd, EPOLL_CTL_ADD, event.fd, &wanted));
	expect_one_each(
		[&] {
			struct epoll_event found;

			return epoll_wait(poller.fd, &found, 1, -1);
		},
		[&] { EXPECT_EQ(8, write(event.fd, &one, sizeof one)); });
}

} // namespace
