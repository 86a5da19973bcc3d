// SPDX-License-Identifier: MIT
// Labels: machine checked
//
// Waiting for descriptors that the program owns: every kind of descriptor, every reason for which a
// wait ends, and numbers that are closed and used again.
#include <atomic>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/net.h"

#if !TEST_TSAN // TSan must see each close
namespace
{

// The task that has closed a socket last.
std::atomic<sn_task *> closed_socket;

} // namespace

extern "C" int close(int fd)
{
	struct stat status;

	if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode))
		closed_socket = sn_self();
	return int(syscall(SYS_close, fd));
}
#endif

namespace
{

using namespace test;

class Event
{
public:
	explicit Event(unsigned count = 0) : fd_(eventfd(count, EFD_CLOEXEC)) {}
	~Event() { close(fd_); }
	Event(const Event &) = delete;
	Event &operator=(const Event &) = delete;

	int fd() const { return fd_; }
	void set() const { EXPECT_EQ(0, eventfd_write(fd_, 1)); }
	void clear() const
	{
		eventfd_t count;

		EXPECT_EQ(0, eventfd_read(fd_, &count));
	}

private:
	int fd_;
};

struct Sockets {
	Sockets() { EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)); }
	~Sockets()
	{
		for (const int each : fd)
			if (each >= 0)
				close(each);
	}
	Sockets(const Sockets &) = delete;
	Sockets &operator=(const Sockets &) = delete;

	int fd[2];
};

// Waits until as many tasks wait as expected.
void await_waiting(int fd, int tasks)
{
	EXPECT_TRUE(test::eventually([&] { return probe_watch_waits(fd) == tasks; })) << fd;
}

TASK_TEST(FdWait, ReturnsAtOnceWhatIsReady)
{
	Event event(1);
	Sockets sockets;

	EXPECT_EQ(POLLIN, sn_fd_wait(event.fd(), POLLIN, soon()));
	EXPECT_EQ(POLLIN | POLLOUT, sn_fd_wait(event.fd(), POLLIN | POLLOUT, soon()));
	EXPECT_EQ(POLLOUT, sn_fd_wait(sockets.fd[0], POLLIN | POLLOUT, soon()));
	EXPECT_EQ(POLLIN, sn_fd_wait(event.fd(), POLLIN, 1)) << "with a deadline in the past";
	event.clear();
	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(event.fd(), POLLIN, 1));
}

TASK_TEST(FdWait, EndsWhenItIsReady)
{
	Event event;
	Task waits([&] { return sn_fd_wait(event.fd(), POLLIN, soon()); });

	await_waiting(event.fd(), 1);
	event.set();
	EXPECT_EQ(POLLIN, waits.join());
	// Readiness is a level: it stays, because nothing was read.
	EXPECT_EQ(POLLIN, sn_fd_wait(event.fd(), POLLIN, soon()));
}

TASK_TEST(FdWait, ChangesNothingOfTheDescriptor)
{
	Sockets sockets;
	const int flags = fcntl(sockets.fd[0], F_GETFL);
	Task waits([&] { return sn_fd_wait(sockets.fd[0], POLLIN, soon()); });

	await_waiting(sockets.fd[0], 1);
	EXPECT_EQ(flags, fcntl(sockets.fd[0], F_GETFL));
	EXPECT_EQ(1, write(sockets.fd[1], "x", 1));
	EXPECT_EQ(POLLIN, waits.join());
	EXPECT_EQ(flags, fcntl(sockets.fd[0], F_GETFL));
}

TASK_TEST(FdWait, KindsOfDescriptors)
{
	const timespec ms = {0, 1000000};
	const itimerspec once = {{}, ms};
	const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	ASSERT_EQ(0, timerfd_settime(timer, 0, &once, nullptr));
	EXPECT_EQ(POLLIN, sn_fd_wait(timer, POLLIN, soon()));
	close(timer);

	int ends[2];
	ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
	EXPECT_EQ(POLLOUT, sn_fd_wait(ends[1], POLLOUT, soon()));
	Task closes([&] { close(ends[1]); });
	closes.join();
	EXPECT_EQ(POLLHUP, sn_fd_wait(ends[0], POLLIN, soon()));
	close(ends[0]);

	Event event;
	const int inner = epoll_create1(EPOLL_CLOEXEC);
	epoll_event wanted = {EPOLLIN, {}};
	ASSERT_EQ(0, epoll_ctl(inner, EPOLL_CTL_ADD, event.fd(), &wanted));
	Task waits([&] { return sn_fd_wait(inner, POLLIN, soon()); });
	await_waiting(inner, 1);
	event.set();
	EXPECT_EQ(POLLIN, waits.join());
	close(inner);

	// A regular file is always ready, though epoll does not accept it.
	const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	EXPECT_EQ(POLLIN | POLLOUT, sn_fd_wait(file, POLLIN | POLLOUT, soon()));
	EXPECT_EQ(-EPERM, sn_fd_wait(file, POLLPRI, soon()));
	close(file);
}

TASK_TEST(FdWait, ForAProcess)
{
	int ends[2];
	ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
	const pid_t child = fork();
	if (child == 0) {
		char byte;

		(void)!read(ends[0], &byte, 1);
		_exit(7);
	}
	const int pidfd = int(syscall(SYS_pidfd_open, child, 0));
	if (pidfd < 0 && (errno == ENOSYS || errno == EPERM)) {
		kill(child, SIGKILL);
		waitpid(child, nullptr, 0);
		close(ends[0]);
		close(ends[1]);
		GTEST_SKIP() << "no pidfd_open() here";
	}
	ASSERT_LE(0, pidfd);
	Task waits([&] { return sn_fd_wait(pidfd, POLLIN, soon()); });
	await_waiting(pidfd, 1);
	EXPECT_EQ(1, write(ends[1], "x", 1));
	EXPECT_EQ(POLLIN, waits.join() & POLLIN);
	int status = 0;
	EXPECT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(7, WEXITSTATUS(status));
	close(pidfd);
	close(ends[0]);
	close(ends[1]);
}

// Each side has its own tasks, and an event of one side ends only the waits for it.
TASK_TEST(FdWait, SidesAreIndependent)
{
	Sockets sockets;
	const int fd = sockets.fd[0];
	const std::string piece(4096, 'x');

	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
	while (write(fd, piece.data(), piece.size()) > 0)
		;
	Task reads([&] { return sn_fd_wait(fd, POLLIN, soon()); });
	Task writes([&] { return sn_fd_wait(fd, POLLOUT, soon()); });
	Task both([&] { return sn_fd_wait(fd, POLLIN | POLLOUT, soon()); });
	await_waiting(fd, 3);
	EXPECT_EQ(1, write(sockets.fd[1], "x", 1));
	EXPECT_EQ(POLLIN, reads.join());
	EXPECT_EQ(POLLIN, both.join());
	await_waiting(fd, 1);
	std::string drained(1 << 20, 0);
	EXPECT_LT(0, recv(sockets.fd[1], &drained[0], drained.size(), MSG_DONTWAIT));
	while (recv(sockets.fd[1], &drained[0], drained.size(), MSG_DONTWAIT) > 0)
		;
	EXPECT_EQ(POLLOUT, writes.join());
}

TASK_TEST(FdWait, EndsAtItsDeadline)
{
	Event event;
	const int64_t deadline = sn_now() + 5 * test::ms;

	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(event.fd(), POLLIN, deadline));
	EXPECT_GE(sn_now(), deadline);
	EXPECT_EQ(0, probe_watch_waits(event.fd()));
}

TASK_TEST(FdWait, EndsWithItsScope)
{
	Event event;
	sn_scope *scope;
	std::atomic<int> result{0};
	auto body = [&] { result = sn_fd_wait(event.fd(), POLLIN, soon()); };
	auto call = [](void *arg) {
		(*static_cast<decltype(body) *>(arg))();
		return 0;
	};

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	ASSERT_EQ(0, sn_scope_go(scope, call, &body));
	await_waiting(event.fd(), 1);
	sn_scope_cancel(scope);
	sn_scope_close(scope);
	EXPECT_EQ(-ECANCELED, result);
	EXPECT_EQ(0, probe_watch_waits(event.fd()));
}

TEST(FdWait, BadArguments)
{
	test::run([] {
		Event event;
		struct pollfd fds[1] = {{event.fd(), POLLIN, 0}};

		EXPECT_EQ(-EBADF, sn_fd_wait(-1, POLLIN, soon()));
		EXPECT_EQ(-EBADF, sn_fd_wait(1 << 19, POLLIN, soon()));
		EXPECT_EQ(-EINVAL, sn_fd_wait(event.fd(), 1 << 20, soon()));
		EXPECT_EQ(-EINVAL, sn_fd_wait(event.fd(), POLLNVAL, soon()));
		EXPECT_EQ(-EINVAL, sn_fd_wait_any(nullptr, 1, soon()));
		fds[0].events = short(0xffff & ~POLLOUT & ~POLLWRNORM & ~POLLWRBAND);
		EXPECT_EQ(-ETIMEDOUT, sn_fd_wait_any(fds, 1, sn_now() + test::ms))
			<< "poll(2) ignores what it does not know";
		EXPECT_EQ(-EBADF, sn_fd_closing(-1));
		EXPECT_EQ(0, sn_fd_closing(event.fd())) << "no task waits for the descriptor";
	});
	EXPECT_EQ(-ENOTSUP, sn_fd_wait(0, POLLIN, 1));
	struct pollfd outside = {0, POLLIN, -1};
	EXPECT_EQ(-ENOTSUP, sn_fd_wait_any(&outside, 1, 1));
	EXPECT_EQ(0, outside.revents);
	EXPECT_EQ(0, sn_fd_closing(0)) << "no runtime runs";
}

TASK_TEST(FdWait, ManyTasksWaitForOneDescriptor)
{
	const int count = test::scaled(5000);
	Event event;
	std::vector<Task> tasks;

	for (int i = 0; i < count; i++)
		tasks.emplace_back([&] { return sn_fd_wait(event.fd(), POLLIN, soon()); });
	await_waiting(event.fd(), count);
	event.set();
	for (Task &task : tasks)
		EXPECT_EQ(POLLIN, task.join());
	EXPECT_EQ(0, probe_watch_waits(event.fd()));
}

// As for poll(2), asking for what is always reported is no mistake.
TASK_TEST(FdWait, ErrorsMayBeAskedFor)
{
	int ends[2];

	ASSERT_EQ(0, pipe(ends));
	Task writer([&] { return sn_fd_wait(ends[1], POLLERR | POLLHUP, soon()); });

	await_waiting(ends[1], 1);
	close(ends[0]);
	EXPECT_EQ(POLLERR, writer.join());
	close(ends[1]);
}

TASK_TEST(FdWait, ClosingEndsAllWaits)
{
	Event event;
	const int fd = event.fd();
	struct pollfd several[2] = {{-1, POLLIN, 0}, {fd, POLLIN, 0}};
	Task first([&] { return sn_fd_wait(fd, POLLIN, SN_NO_DEADLINE); });
	Task second([&] { return sn_fd_wait(fd, POLLIN, soon()); });
	Task any([&] { return sn_fd_wait_any(several, 2, SN_NO_DEADLINE); });

	await_waiting(fd, 3);
	EXPECT_EQ(0, sn_fd_closing(fd));
	EXPECT_EQ(-EBADF, first.join());
	EXPECT_EQ(-EBADF, second.join());
	EXPECT_EQ(1, any.join());
	EXPECT_EQ(0, several[0].revents);
	EXPECT_EQ(POLLNVAL, several[1].revents);
	// The descriptor is still open, and can be waited for again.
	event.set();
	EXPECT_EQ(POLLIN, sn_fd_wait(fd, POLLIN, soon()));
}

TASK_TEST(FdWait, ClosingByAThreadOfTheProgram)
{
	Event event;
	Task waits([&] { return sn_fd_wait(event.fd(), POLLIN, SN_NO_DEADLINE); });

	await_waiting(event.fd(), 1);
	std::thread([&] { EXPECT_EQ(0, sn_fd_closing(event.fd())); }).join();
	EXPECT_EQ(-EBADF, waits.join());
}

// A descriptor is closed without notice, and no task waits for its number again: the wait notices
// that by itself. It does not report the descriptor that now has the number.
TASK_TEST(FdWait, NoticesThatItsDescriptorIsGone, 2)
{
	Event other;
	const int closed = eventfd(0, EFD_CLOEXEC), replaced = eventfd(0, EFD_CLOEXEC);
	struct pollfd several[2] = {{-1, POLLIN, 0}, {replaced, POLLIN, 0}};
	Task one([&] { return sn_fd_wait(closed, POLLIN, SN_NO_DEADLINE); });
	Task another([&] { return sn_fd_wait(replaced, POLLIN, SN_NO_DEADLINE); });
	Task any([&] { return sn_fd_wait_any(several, 2, SN_NO_DEADLINE); });

	await_waiting(closed, 1);
	await_waiting(replaced, 2);
	EXPECT_EQ(replaced, dup3(other.fd(), replaced, O_CLOEXEC));
	close(closed);
	EXPECT_EQ(-EBADF, one.join());
	EXPECT_EQ(-EBADF, another.join());
	EXPECT_EQ(1, any.join());
	EXPECT_EQ(POLLNVAL, several[1].revents);
	close(replaced);
}

// The periodic look at the descriptor does not disturb a wait: neither its events nor its deadline.
TASK_TEST(FdWait, LastsLongerThanALook, 2)
{
	Event event, never;
	Task waits([&] { return sn_fd_wait(event.fd(), POLLIN, SN_NO_DEADLINE); });
	const int64_t begun = sn_now();

	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(never.fd(), POLLIN, begun + 1500 * test::ms));
	EXPECT_GE(sn_now() - begun, 1500 * test::ms);
	await_waiting(event.fd(), 1);
	event.set();
	EXPECT_EQ(POLLIN, waits.join());
}

// A descriptor is closed without notice, and its number is used again: the next wait for the number
// ends the earlier one, and only the new descriptor wakes it.
TASK_TEST(FdWait, NumbersAreUsedAgain)
{
	for (int i = 0; i < 20; i++) {
		Event event;
		const int fd = event.fd();
		const int kept = i % 2 ? dup(fd) : -1; // so that epoll does not forget it
		Task former([&] { return sn_fd_wait(fd, POLLIN, SN_NO_DEADLINE); });

		await_waiting(fd, 1);
		Event successor;
		ASSERT_EQ(fd, dup2(successor.fd(), fd));
		Task later([&] { return sn_fd_wait(fd, POLLIN, soon()); });
		EXPECT_EQ(-EBADF, former.join());
		await_waiting(fd, 1);
		if (kept >= 0) {
			EXPECT_EQ(0, eventfd_write(kept, 1));
			EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(fd, POLLIN, sn_now() + test::ms));
			EXPECT_EQ(1, probe_watch_waits(fd));
			close(kept);
		}
		successor.set();
		EXPECT_EQ(POLLIN, later.join());
	}
}

// sennit's own descriptors are in its epoll already.
TASK_TEST(FdWait, ForAConnection)
{
	Pair pair;
	const int fd = sn_tcp_fd(pair.server);
	char byte = 0;

	for (int i = 0; i < 3; i++) {
		Task waits([&] { return sn_fd_wait(fd, POLLIN, soon()); });
		await_waiting(fd, 1);
		Task reads([&] { return int(sn_tcp_read(pair.server, &byte, 1)); });
		EXPECT_TRUE(test::someone_reads(pair.server));
		EXPECT_EQ(1, sn_tcp_write_all(pair.client, "x", 1, nullptr));
		EXPECT_EQ(1, reads.join());
		const int got = waits.join();
		EXPECT_EQ(POLLIN, got);
	}
	Task waits([&] { return sn_fd_wait(fd, POLLIN, SN_NO_DEADLINE); });
	await_waiting(fd, 1);
	pair.close_server();
	EXPECT_EQ(-EBADF, waits.join());
	// The copy is closed, so the peer sees the end.
	EXPECT_EQ(0, sn_tcp_read(pair.client, &byte, 1));
}

// A descriptor for which tasks have waited may be adopted.
TASK_TEST(FdWait, BeforeItIsAdopted)
{
	Sockets sockets;
	sn_stream *stream = nullptr;
	char byte = 0;

	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(sockets.fd[0], POLLIN, sn_now() + test::ms));
	ASSERT_EQ(0, sn_stream_adopt(&stream, sockets.fd[0]));
	Task reads([&] { return int(sn_stream_read(stream, &byte, 1)); });
	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(sockets.fd[0], POLLIN, sn_now() + test::ms));
	EXPECT_EQ(1, write(sockets.fd[1], "x", 1));
	EXPECT_EQ(1, reads.join());
	EXPECT_EQ('x', byte);
	EXPECT_EQ(0, sn_stream_close(stream));
	sockets.fd[0] = -1;
}

TASK_TEST(FdWaitAny, ReportsWhatIsReady)
{
	const int n = 20; // more descriptors than fit on the stack
	std::vector<Event> events(n);
	std::vector<struct pollfd> fds;

	for (const Event &event : events)
		fds.push_back({event.fd(), POLLIN, -1});
	fds.push_back({-1, POLLIN, -1});
	Task waits([&] { return sn_fd_wait_any(fds.data(), fds.size(), soon()); });
	await_waiting(events[n - 1].fd(), 1);
	await_waiting(events[0].fd(), 1);
	events[13].set();
	EXPECT_EQ(1, waits.join());
	for (int i = 0; i <= n; i++)
		EXPECT_EQ(i == 13 ? POLLIN : 0, fds[i].revents) << i;
	for (const Event &event : events)
		EXPECT_EQ(0, probe_watch_waits(event.fd()));
	events[2].set();
	fds[5].fd = 1 << 19;
	EXPECT_EQ(3, sn_fd_wait_any(fds.data(), fds.size(), soon()));
	EXPECT_EQ(POLLIN, fds[2].revents);
	EXPECT_EQ(POLLNVAL, fds[5].revents);
	EXPECT_EQ(POLLIN, fds[13].revents);
}

TASK_TEST(FdWaitAny, OfNothingSleeps)
{
	const int64_t deadline = sn_now() + 2 * test::ms;

	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait_any(nullptr, 0, deadline));
	EXPECT_GE(sn_now(), deadline);
}

// The same descriptor is given twice, once for each side.
TASK_TEST(FdWaitAny, TheSameDescriptorTwice)
{
	Event event;
	struct pollfd fds[2] = {{event.fd(), POLLIN, 0}, {event.fd(), POLLPRI, 0}};
	Task waits([&] { return sn_fd_wait_any(fds, 2, soon()); });

	await_waiting(event.fd(), 2);
	event.set();
	EXPECT_EQ(1, waits.join());
	EXPECT_EQ(POLLIN, fds[0].revents);
	EXPECT_EQ(0, fds[1].revents);
}

TEST(FdWait, TheRunEndsWhileTasksWait)
{
	for (int i = 0; i < 3; i++) {
		Event event;

		test::run([&] {
			Task([&] { sn_fd_wait(event.fd(), POLLIN, SN_NO_DEADLINE); }).detach();
			await_waiting(event.fd(), 1);
		});
		EXPECT_EQ(0, probe_watch_waits(event.fd()));
	}
}

// Random waits, events, deadlines and announcements on a few descriptors by many tasks: each event
// is taken once, and none is missed.
void attack(uint64_t seed)
{
	const int descriptors = 4, tasks = 16, rounds = test::scaled(300);

	test::run({1, 2, 4}, [&] {
		std::vector<Event> events(descriptors);
		std::atomic<int> given{0}, taken{0};
		std::vector<Task> all;

		for (const Event &event : events)
			ASSERT_EQ(0, fcntl(event.fd(), F_SETFL, O_NONBLOCK));
		for (int t = 0; t < tasks; t++)
			all.emplace_back([&, t] {
				test::Random random(seed + uint64_t(t));
				std::vector<struct pollfd> fds;

				for (int i = 0; i < rounds; i++) {
					const int which = int(random.below(descriptors));
					const int fd = events[which].fd();
					eventfd_t count;

					switch (random.below(8)) {
					case 0:
						EXPECT_EQ(0, sn_fd_closing(fd));
						break;
					case 1: {
						const int err = sn_fd_wait(
							fd, POLLIN, sn_now() + 20 * test::us);

						if (err < 0 && err != -ETIMEDOUT && err != -EBADF)
							ADD_FAILURE() << err;
						break;
					}
					case 2:
						fds.clear();
						for (const Event &event : events)
							fds.push_back({event.fd(), POLLIN, 0});
						if (sn_fd_wait_any(fds.data(), fds.size(),
								   sn_now() + 50 * test::us) < 0)
							break;
						[[fallthrough]];
					case 3:
						if (eventfd_read(fd, &count) == 0)
							taken += int(count);
						break;
					default:
						given++;
						events[which].set();
					}
				}
			});
		join_all(all);
		for (const Event &event : events) {
			eventfd_t count;

			if (eventfd_read(event.fd(), &count) == 0)
				taken += int(count);
			EXPECT_EQ(0, probe_watch_waits(event.fd()));
		}
		EXPECT_EQ(given.load(), taken.load());
	});
}

TEST(FdWaitStress, RandomWaits)
{
	attack(test::Random().seed());
}

TEST(FdWaitStress, RandomWaitsInWideWindows)
{
	test::Environment race("SENNIT_RACE", "1");

	attack(test::Random().seed());
}

// Pairs of tasks that wake each other through two eventfds: if a wake-up is missed, the test does
// not end.
TASK_TEST(FdWaitStress, NoEventIsMissed, 1, 2, 4)
{
	std::vector<Task> all;
	std::vector<Event> events(8);
	const int rounds = test::scaled(500);

	for (int t = 0; t < 8; t++)
		all.emplace_back([&, t] {
			const Event &mine = events[t], &other = events[t ^ 1];

			for (int i = 0; i < rounds; i++) {
				if (t & 1 || i > 0) {
					ASSERT_EQ(POLLIN, sn_fd_wait(mine.fd(), POLLIN, soon()));
					mine.clear();
				}
				other.set();
			}
		});
	join_all(all);
}

// The same after an error of one descriptor: no events are reported for the others, whatever the
// stack held before.
TASK_TEST(FdWaitAny, FailsIfOneCannotBeWaitedFor)
{
	Event ready(1), idle;
	const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct pollfd full[3] = {
		{idle.fd(), POLLIN, 0}, {ready.fd(), POLLIN, 0}, {ready.fd(), POLLIN, 0}};
	struct pollfd fds[3] = {
		{file, POLLPRI, -1}, {idle.fd(), POLLIN, -1}, {idle.fd(), POLLIN, -1}};

	ready.clear();
	Task sets([&] {
		await_waiting(ready.fd(), 2);
		ready.set();
	});
	EXPECT_EQ(2, sn_fd_wait_any(full, 3, soon()));
	EXPECT_EQ(-EPERM, sn_fd_wait_any(fds, 3, soon()));
	for (const struct pollfd &each : fds)
		EXPECT_EQ(0, each.revents);
	sets.join();
	close(file);
}

// A descriptor that is closed at any moment of the call is reported as POLLNVAL.
TASK_TEST(FdWaitAny, NeverFailsForAClosedDescriptor)
{
	Event event;
	const int number = 700; // no other part of the process takes this number
	std::atomic<bool> over{false};
	// Hidden from TSan, which rightly considers it a mistake.
	std::thread closes([&] {
		while (!over) {
			EXPECT_EQ(number, syscall(SYS_dup3, event.fd(), number, O_CLOEXEC));
			syscall(SYS_close, number);
		}
	});

	for (int i = 0; i < test::scaled(20000) && !testing::Test::HasFailure(); i++) {
		struct pollfd fds[2] = {{event.fd(), POLLIN, 0}, {number, POLLIN, 0}};
		const int found = sn_fd_wait_any(fds, 2, sn_now() + 5 * test::us);

		EXPECT_TRUE(found == 1 || found == -ETIMEDOUT) << found;
		EXPECT_EQ(found == 1 ? POLLNVAL : 0, fds[1].revents);
	}
	over = true;
	closes.join();
}

std::string link_of(int fd)
{
	char name[64] = "";

	(void)!readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1);
	return name;
}

// How many descriptors of the process are the same socket. It compares names, because the
// descriptors may be closed at the same time, which TSan would report if their numbers were used in
// system calls.
int copies(int fd)
{
	int count = 0;

	for (int i = 0; i < 1024; i++)
		count += link_of(i) == link_of(fd);
	return count;
}

// For a descriptor of sennit's, a task waits through a copy, which is closed when the waits have
// ended.
TASK_TEST(FdWait, LeavesNoCopyBehind)
{
	Pair pair;
	const int fd = sn_tcp_fd(pair.server);

	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(fd, POLLIN, sn_now() + test::ms));
	EXPECT_EQ(1, copies(fd)) << "after a deadline";
	Task first([&] { return sn_fd_wait(fd, POLLIN, soon()); });
	Task second([&] { return sn_fd_wait(fd, POLLIN, soon()); });
	await_waiting(fd, 2);
	EXPECT_EQ(2, copies(fd)) << "one for both";
	EXPECT_EQ(1, sn_tcp_write_all(pair.client, "x", 1, nullptr));
	EXPECT_EQ(POLLIN, first.join());
	EXPECT_EQ(POLLIN, second.join());
	EXPECT_EQ(1, copies(fd)) << "after an event";
}

// The copy through which a descriptor of the library is watched is closed by that thread, too.
TASK_TEST(FdWait, ClosingACopyByAThreadOfTheProgram)
{
	Pair pair;
	const int fd = sn_tcp_fd(pair.server);
	Task waits([&] { return sn_fd_wait(fd, POLLIN, SN_NO_DEADLINE); });

	await_waiting(fd, 1);
	EXPECT_EQ(2, copies(fd));
	std::thread([fd] { EXPECT_EQ(0, sn_fd_closing(fd)); }).join();
	EXPECT_EQ(1, copies(fd));
	EXPECT_EQ(-EBADF, waits.join());
}

#if !TEST_TSAN
// Closing a copy may wait, and the thread that reports an event must not: it may be the monitor.
TASK_TEST(FdWait, IsOverBeforeItsCopyIsClosed, 1)
{
	Pair pair;
	const int fd = sn_tcp_fd(pair.server);
	Task waits([&] { return sn_fd_wait(fd, POLLIN, soon()); });

	await_waiting(fd, 1);
	EXPECT_EQ(2, copies(fd));
	closed_socket = nullptr;
	EXPECT_EQ(1, sn_tcp_write_all(pair.client, "x", 1, nullptr));
	sn_task *const task = waits.get();
	EXPECT_EQ(POLLIN, waits.join());
	EXPECT_EQ(1, copies(fd));
	EXPECT_EQ(task, closed_socket);
}
#endif

// epoll may still have a previous descriptor of a number. Its events are not taken for those of the
// present one.
TASK_TEST(FdWait, NumbersReturnToAFormerDescriptor)
{
	Event first, second, third;
	const int fd = dup(first.fd());

	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(fd, POLLIN, sn_now() + test::ms));
	ASSERT_EQ(fd, dup2(second.fd(), fd));
	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(fd, POLLIN, sn_now() + test::ms));
	EXPECT_EQ(0, sn_fd_closing(fd));
	ASSERT_EQ(fd, dup2(first.fd(), fd));
	Task former([&] { return sn_fd_wait(fd, POLLIN, SN_NO_DEADLINE); });
	await_waiting(fd, 1);
	ASSERT_EQ(fd, dup2(third.fd(), fd));
	Task later([&] { return sn_fd_wait(fd, POLLIN, soon()); });
	EXPECT_EQ(-EBADF, former.join());
	await_waiting(fd, 1);
	first.set();
	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(fd, POLLIN, sn_now() + test::ms));
	third.set();
	EXPECT_EQ(POLLIN, later.join());
	close(fd);
}

// The copy may get the number under which sennit had the same socket before.
TASK_TEST(FdWait, ThroughACopyWithAFormerNumber)
{
	Sockets sockets;
	sn_stream *stream = nullptr;
	const int kept = dup(sockets.fd[0]);

	ASSERT_EQ(0, sn_stream_adopt(&stream, sockets.fd[0]));
	EXPECT_EQ(0, sn_stream_close(stream));
	ASSERT_EQ(0, sn_stream_adopt(&stream, kept));
	Task waits([&] { return sn_fd_wait(kept, POLLIN, soon()); });
	await_waiting(kept, 1);
	EXPECT_EQ(1, write(sockets.fd[1], "x", 1));
	EXPECT_EQ(POLLIN, waits.join());
	EXPECT_EQ(0, sn_stream_close(stream));
	sockets.fd[0] = -1;
}

// A previous descriptor of a number is still open elsewhere, has the number again, and is still
// known to epoll. When it becomes ready, the waits for the descriptor that had the number in
// between do not report it.
TASK_TEST(FdWait, NumbersReturnWithoutAWord)
{
	Event first, second;
	const int fd = dup(first.fd());

	EXPECT_EQ(-ETIMEDOUT, sn_fd_wait(fd, POLLIN, sn_now() + test::ms));
	ASSERT_EQ(fd, dup2(second.fd(), fd));
	bool seen = false; // on a busy machine the wait may be over before
	for (int64_t ns = 50 * test::ms; !seen; ns *= 2) {
		std::atomic<bool> over{false};
		Task waits([&] {
			const int found = sn_fd_wait(fd, POLLIN, sn_now() + ns);

			over = true;
			return found;
		});
		ASSERT_TRUE(test::eventually([&] {
			seen = probe_watch_waits(fd) == 1;
			return seen || over;
		}));
		if (seen) {
			ASSERT_EQ(fd, dup2(first.fd(), fd));
			first.set();
		}
		EXPECT_EQ(-ETIMEDOUT, waits.join());
	}
	close(fd);
}

// A wait reports what happens after it began, not an earlier event that the poller has not passed
// on yet.
TEST(FdWaitStress, NothingStaleIsReported)
{
	test::Environment race("SENNIT_RACE", "1");

	test::run({2, 4}, [] {
		Event event;
		std::atomic<bool> over{false};
		std::vector<Task> others;

		for (int i = 0; i < 2; i++)
			others.emplace_back([&] {
				while (!over)
					sn_fd_wait(event.fd(), POLLIN, sn_now() + 50 * test::us);
			});
		for (int i = 0; i < test::scaled(5000) && !HasFailure(); i++) {
			event.set();
			if (i % 2)
				sn_yield();
			event.clear();
			EXPECT_EQ(-ETIMEDOUT,
				  sn_fd_wait(event.fd(), POLLIN, sn_now() + 20 * test::us));
		}
		over = true;
		join_all(others);
	});
}

// A descriptor is adopted while tasks begin to wait for it: these waits end, and the descriptor is
// sennit's.
TEST(FdWaitStress, AdoptedWhileTasksWait)
{
	test::Environment race("SENNIT_RACE", "1");

	test::run({2, 4}, [] {
		for (int i = 0; i < test::scaled(1000); i++) {
			Sockets sockets;
			sn_stream *stream = nullptr;
			std::atomic<bool> over{false};
			Task waits([&] {
				while (!over)
					sn_fd_wait(sockets.fd[0], POLLIN, sn_now() + 5 * test::us);
			});
			if (i % 2)
				sn_sleep(10 * test::us);
			const int err = sn_stream_adopt(&stream, sockets.fd[0]);
			over = true;
			waits.join();
			ASSERT_EQ(0, err);
			EXPECT_EQ(0, sn_stream_close(stream));
			sockets.fd[0] = -1;
		}
	});
}

} // namespace
