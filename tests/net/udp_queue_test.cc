// SPDX-License-Identifier: MIT
//
// Tasks that receive from one socket. One of them is held between a try that found nothing and its
// next step.
#include <cerrno>

#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/udp.h"

namespace
{

using namespace test;

// hold_next: the next call that finds nothing is held, until held is cleared.
std::atomic<bool> hold_next{false}, held{false};

void hold()
{
	hold_next = true;
}

bool is_held()
{
	return test::eventually([] { return held.load(); });
}

void release()
{
	held = false;
}

ssize_t receive(const Socket &socket)
{
	char byte;

	return sn_udp_recv(socket.get(), &byte, 1, nullptr);
}

// Between the other task's try and its wait, the leader takes the edge that reports two datagrams,
// and one of these. (The poller can come between the two datagrams and report two edges, but seldom
// does.)
TASK_TEST(UdpQueue, AnEdgeThatWasTakenSinceATryIsNoticed, 4)
{
	for (int round = 0; round < test::scaled(100); round++) {
		Socket socket, client;
		Message message("x", socket.address());
		sn_udp_message both[] = {message, message};

		Task leader([&] { EXPECT_EQ(1, receive(socket)); });
		ASSERT_TRUE(test::receivers_wait(socket));
		hold();
		Task late([&] { EXPECT_EQ(1, receive(socket)); });
		EXPECT_TRUE(is_held());
		EXPECT_EQ(2, sn_udp_send_messages(client.get(), both, 2));
		leader.join();
		sn_udp_set_read_deadline(socket.get(), sn_now() + test::patience);
		release();
		late.join();
		ASSERT_TRUE(socket.is_empty()) << round;
	}
}

// A task was handed the lead, tries, and is then cancelled, so that it cannot wait.
TASK_TEST(UdpQueue, ALeaderThatIsCancelledBeforeItWaitsPassesItsPlaceOn, 4)
{
	for (int round = 0; round < test::scaled(100); round++) {
		Socket socket, client;
		const sn_address to = socket.address();
		std::atomic<sn_scope *> scope{nullptr};

		Task first([&] { EXPECT_EQ(1, receive(socket)); });
		ASSERT_TRUE(test::receivers_wait(socket));
		Task second([&] {
			sn_scope *own = nullptr;

			ASSERT_EQ(0, sn_scope_open(&own, SN_NO_DEADLINE));
			scope = own;
			EXPECT_EQ(-ECANCELED, receive(socket));
			sn_scope_close(own);
		});
		ASSERT_TRUE(test::receivers_wait(socket, 2));
		Task third([&] { EXPECT_EQ(1, receive(socket)); });
		ASSERT_TRUE(test::receivers_wait(socket, 3));
		hold();
		EXPECT_EQ(1, client.send("x", to));
		first.join();
		EXPECT_TRUE(is_held());
		EXPECT_EQ(0, sn_scope_cancel(scope));
		release();
		second.join();
		sn_udp_set_read_deadline(socket.get(), sn_now() + test::patience);
		EXPECT_EQ(1, client.send("y", to));
		third.join();
		ASSERT_TRUE(socket.is_empty()) << round;
	}
}

} // namespace

// Replaces the function of the C library, for the library under test.
extern "C" ssize_t recvfrom(int fd, void *buf, size_t size, int flags, sockaddr *from,
			    socklen_t *length)
{
	const ssize_t n = syscall(SYS_recvfrom, fd, buf, size, flags, from, length);
	const int error = errno;

	if (n < 0 && error == EAGAIN && hold_next.exchange(false)) {
		held = true;
		while (held)
			sched_yield();
	}
	errno = error;
	return n;
}
