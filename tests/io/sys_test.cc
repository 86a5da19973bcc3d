// SPDX-License-Identifier: MIT
//
// System calls on descriptors that do not block.
#include <cerrno>
#include <csignal>

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define _Noreturn [[noreturn]]
extern "C" {
#include "io/sys.h"
}
#include "support/runtime.h"

namespace
{

struct Ends {
	Ends() { EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds)); }
	~Ends()
	{
		close(fds[0]);
		close(fds[1]);
	}
	int fds[2];
};

// Runs the calls in a thread for which a cancellation is pending, and returns whether they all
// returned.
bool survives_cancellation(void *(*calls)(void *), void *arg)
{
	pthread_t thread;
	void *result = nullptr;

	EXPECT_EQ(0, pthread_create(&thread, nullptr, calls, arg));
	EXPECT_EQ(0, pthread_join(thread, &result));
	return result != PTHREAD_CANCELED;
}

TEST(Sys, MovesBytesAndReportsErrors)
{
	Ends ends;
	char buf[8] = {}, tail[2] = {};
	struct iovec parts[2] = {{.iov_base = buf, .iov_len = 2}, {.iov_base = tail, .iov_len = 2}};

	EXPECT_EQ(-EAGAIN, sn_sys_recv(ends.fds[0], buf, sizeof buf));
	EXPECT_EQ(-EAGAIN, sn_sys_peek(ends.fds[0]));
	EXPECT_EQ(-EAGAIN, sn_sys_readv(ends.fds[0], parts, 2));
	EXPECT_EQ(3, sn_sys_send(ends.fds[1], "abc", 3, false));
	EXPECT_EQ(1, sn_sys_peek(ends.fds[0]));
	EXPECT_EQ(3, sn_sys_recv(ends.fds[0], buf, sizeof buf));
	EXPECT_STREQ("abc", buf);
	EXPECT_EQ(4, sn_sys_sendv(ends.fds[1], parts, 2));
	EXPECT_EQ(4, sn_sys_readv(ends.fds[0], parts, 2));
	EXPECT_EQ(0, tail[1]);
	EXPECT_EQ(0, shutdown(ends.fds[0], SHUT_RD));
	// MSG_NOSIGNAL: the test would die of SIGPIPE.
	EXPECT_EQ(-EPIPE, sn_sys_send(ends.fds[1], "abc", 3, true));
	EXPECT_EQ(-EPIPE, sn_sys_sendv(ends.fds[1], parts, 2));
	EXPECT_EQ(-EBADF, sn_sys_recv(-1, buf, sizeof buf));
	EXPECT_EQ(-EBADF, sn_sys_send(-1, buf, 1, false));
	EXPECT_EQ(-EFAULT, sn_sys_send(ends.fds[0], reinterpret_cast<void *>(8), 1, false));
}

TEST(Sys, ACancelledThreadDoesNotEndInACallThatMovesBytes)
{
#if SN_SYS_BY_LIBC
	GTEST_SKIP() << "libc makes the calls in this build";
#endif
	Ends ends;

	EXPECT_TRUE(survives_cancellation(
		[](void *arg) -> void * {
			const int *fds = static_cast<Ends *>(arg)->fds;
			char buf[8] = {};
			struct iovec part = {.iov_base = buf, .iov_len = 1};

			pthread_cancel(pthread_self());
			EXPECT_EQ(-EAGAIN, sn_sys_recv(fds[0], buf, sizeof buf));
			EXPECT_EQ(1, sn_sys_send(fds[1], "a", 1, false));
			EXPECT_EQ(1, sn_sys_peek(fds[0]));
			EXPECT_EQ(1, sn_sys_readv(fds[0], &part, 1));
			EXPECT_EQ(1, sn_sys_sendv(fds[1], &part, 1));
			return nullptr;
		},
		&ends));
}

} // namespace
