// SPDX-License-Identifier: MIT
// Labels: machine
//
// Calls that wait for several descriptors: numbers that are used again, events that poll() does not
// know, and long times.
#include <vector>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>

#include "hooks/hooks.h"
#include "support/internals.h"

namespace
{

using namespace test;

// ---- a number that another task closes, and that is used again ----

// A task waits in `wait`. Another one closes the descriptor, and gives its number to one that is
// ready, before the first task has run.
template <class Wait, class Reuse>
void expect_closed(int fd, Wait wait, Reuse reuse)
{
	const uint64_t before = hooks().parked;
	Task waiter = hooked([&] { EXPECT_EQ(-EBADF, outcome(wait(fd))); });

	EXPECT_TRUE(test::eventually([&] { return hooks().parked > before; }));
	hooked([&] {
		EXPECT_EQ(0, close(fd));
		reuse();
	}).join();
	waiter.join();
}

TASK_TEST(Reuse, OfAnEpollDescriptorIsNoticed, 1)
{
	const int poller = epoll_create1(EPOLL_CLOEXEC), ready = eventfd(1, EFD_CLOEXEC);

	expect_closed(
		poller,
		[](int fd) {
			struct epoll_event event = {};

			return epoll_wait(fd, &event, 1, 600000);
		},
		[&] {
			struct epoll_event event = {};

			event.events = EPOLLIN | EPOLLONESHOT;
			EXPECT_EQ(poller, epoll_create1(EPOLL_CLOEXEC));
			EXPECT_EQ(0, epoll_ctl(poller, EPOLL_CTL_ADD, ready, &event));
		});
	// The event is still there for those who wait for the new one.
	struct epoll_event event = {};
	EXPECT_EQ(1, epoll_wait(poller, &event, 1, 0));
	close(poller);
	close(ready);
}

TASK_TEST(Reuse, OfASelectedDescriptorIsNoticed, 1)
{
	int ends[2], others[2];

	ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
	expect_closed(
		ends[0],
		[](int fd) {
			fd_set set;

			FD_ZERO(&set);
			FD_SET(fd, &set);
			return select(fd + 1, &set, nullptr, nullptr, nullptr);
		},
		[&] {
			EXPECT_EQ(0, pipe2(others, O_CLOEXEC));
			EXPECT_EQ(ends[0], others[0]);
			EXPECT_EQ(1, write(others[1], "x", 1));
		});
	for (const int fd : {ends[1], others[0], others[1]})
		close(fd);
}

// A call that fails, and closes nothing, ends no wait.
TASK_TEST(Reuse, ThatFailsEndsNoWait, 2)
{
	SocketPair pair;
	const uint64_t before = hooks().parked;
	Task reader = hooked([&] {
		char byte = 0;

		EXPECT_EQ(1, outcome(recv(pair.fd[0], &byte, 1, 0)));
		EXPECT_EQ('x', byte);
	});

	EXPECT_TRUE(test::eventually([&] { return probe_watch_waits(pair.fd[0]) == 1; }));
	EXPECT_LT(before, hooks().parked);
	hooked([&] {
		EXPECT_EQ(-EBADF, outcome(dup2(-1, pair.fd[0])));
		EXPECT_EQ(-EBADF, outcome(dup3(-1, pair.fd[0], 0)));
		EXPECT_EQ(-EINVAL, outcome(dup3(pair.fd[1], pair.fd[0], O_NONBLOCK)));
		EXPECT_EQ(pair.fd[0], outcome(dup2(pair.fd[0], pair.fd[0])));
		EXPECT_EQ(1, probe_watch_waits(pair.fd[0]));
		EXPECT_EQ(1, write(pair.fd[1], "x", 1));
	}).join();
	reader.join();
}

// ---- events that poll() does not know ----

TASK_TEST(Events, ThatPollIgnoresAreIgnored, 2)
{
	constexpr int Many = 100;
	SocketPair pair;
	const uint64_t parked = hooks().parked, passed = hooks().passed_other;
	const int threads = test::process_status("Threads");
	std::vector<Task> tasks;

	for (int i = 0; i < Many; i++)
		tasks.push_back(hooked([&] {
			constexpr short Usual = POLLIN | POLLERR | POLLHUP | POLLNVAL;
			struct pollfd fds[2] = {{pair.fd[0], Usual, 0}, {-1, short(0xffff), 5}};

			EXPECT_EQ(1, outcome(poll(fds, 2, 600000)));
			EXPECT_EQ(POLLIN, fds[0].revents);
			EXPECT_EQ(0, fds[1].revents);
			EXPECT_EQ(short(0xffff), fds[1].events);
			fds[0].events = short(0xffff & ~(POLLOUT | POLLWRNORM | POLLWRBAND));
			EXPECT_EQ(1, outcome(poll(fds, 1, 600000)));
		}));
	EXPECT_TRUE(test::eventually([&] { return hooks().parked >= parked + Many; }));
	// Each of those that block has a thread; the scheduler may have begun some of its own.
	EXPECT_GT(threads + Many / 2, test::process_status("Threads"));
	EXPECT_EQ(1, write(pair.fd[1], "x", 1));
	join_all(tasks);
	EXPECT_EQ(passed, hooks().passed_other);
}

TEST(Events, ThatPollIgnoresLeaveTheCallCancellable)
{
	SocketPair pair;

	for (const int events : {POLLIN | POLLNVAL, 0x7fff & ~POLLOUT & ~POLLWRNORM & ~POLLWRBAND})
		expect_cancelled([&] {
			struct pollfd one = {pair.fd[0], short(events), 0};

			return outcome(poll(&one, 1, 600000));
		});
}

// ---- times of more than an int of milliseconds ----

constexpr time_t ThreeYears = 100000000;

TEST(LongTimes, AreThoseOfCallsThatPark)
{
	SocketPair pair;
	const struct timespec time = {ThreeYears, 0};
	const auto set_of = [](fd_set *set, int fd) {
		FD_ZERO(set);
		FD_SET(fd, set);
	};

	expect_cancelled([&] {
		struct timeval left = {ThreeYears, 0};
		fd_set set;

		set_of(&set, pair.fd[0]);
		const int64_t result =
			outcome(select(pair.fd[0] + 1, &set, nullptr, nullptr, &left));

		EXPECT_LT(ThreeYears - 1000, left.tv_sec);
		EXPECT_GT(ThreeYears, left.tv_sec);
		return result;
	});
	expect_cancelled([&] {
		fd_set set;

		set_of(&set, pair.fd[0]);
		return outcome(pselect(pair.fd[0] + 1, &set, nullptr, nullptr, &time, nullptr));
	});
	expect_cancelled([&] {
		struct pollfd one = {pair.fd[0], POLLIN, 0};

		return outcome(ppoll(&one, 1, &time, nullptr));
	});
}

} // namespace
