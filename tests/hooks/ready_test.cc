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

} // namespace
