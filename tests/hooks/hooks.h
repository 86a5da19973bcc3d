// SPDX-License-Identifier: MIT
//
// Helpers for the tests of the hooks.
#ifndef SENNIT_TESTS_HOOKS_HOOKS_H
#define SENNIT_TESTS_HOOKS_HOOKS_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sennit/hooks.h>

#include "support/runtime.h"

namespace test
{

inline struct sn_hooks_stats hooks()
{
	struct sn_hooks_stats counters = {};

	EXPECT_EQ(0, sn_hooks_stats(&counters));
	return counters;
}

// A task with hooks.
template <class F>
Task hooked(F body)
{
	struct sn_task_attr attr = {};

	attr.flags = SN_TASK_HOOKED;
	return Task(std::move(body), &attr);
}

// errno of the thread on which the task is now. A separate function, because compilers assume that
// its address is constant.
__attribute__((noinline)) inline int error_now()
{
	__asm__ volatile("" : : : "memory");
	return errno;
}

// The result of a call that may park; if it has failed, -errno.
inline int64_t outcome(int64_t result)
{
	return result < 0 ? -error_now() : result;
}

class SocketPair
{
public:
	explicit SocketPair(int type = SOCK_STREAM)
	{
		EXPECT_EQ(0, socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fd));
	}
	~SocketPair()
	{
		for (int i = 0; i < 2; i++)
			close_end(i);
	}
	SocketPair(const SocketPair &) = delete;
	SocketPair &operator=(const SocketPair &) = delete;

	void close_end(int i)
	{
		if (fd[i] >= 0)
			close(fd[i]);
		fd[i] = -1;
	}

	int fd[2];
};

// A listening TCP socket on loopback, which is blocking.
class TcpListener
{
public:
	explicit TcpListener(int backlog = 1000)
	    : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
	{
		socklen_t length = sizeof address;

		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		EXPECT_EQ(0, bind(fd, (struct sockaddr *)&address, length));
		if (backlog >= 0) {
			EXPECT_EQ(0, listen(fd, backlog));
		}
		EXPECT_EQ(0, getsockname(fd, (struct sockaddr *)&address, &length));
	}
	~TcpListener() { close(fd); }
	TcpListener(const TcpListener &) = delete;
	TcpListener &operator=(const TcpListener &) = delete;

	int connect_to(int socket) const
	{
		return ::connect(socket, (const struct sockaddr *)&address, sizeof address);
	}

	int fd;
	struct sockaddr_in address = {};
};

inline int tcp_socket()
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	EXPECT_GE(fd, 0);
	return fd;
}

inline bool is_nonblocking(int fd)
{
	return fcntl(fd, F_GETFL) & O_NONBLOCK;
}

// Expects that more calls have parked, or were passed through, than before. Called in a hooked
// task.
template <class F>
void expect_count(uint64_t sn_hooks_stats::*which, F body)
{
	const uint64_t before = hooks().*which;

	body();
	EXPECT_GT(hooks().*which, before);
}

// Makes a call in a scope that is cancelled while it waits, or whose deadline passes. It returns
// -errno.
template <class F>
void expect_cancelled(F call)
{
	test::run({1, 2}, [&] {
		for (const bool by_deadline : {false, true}) {
			Task waiter = hooked([&] {
				sn_scope *scope;

				EXPECT_EQ(0, sn_scope_open(&scope,
							   by_deadline ? sn_now() + 20 * ms : 0));
				const uint64_t before = hooks().parked;
				Task canceller([&, scope] {
					EXPECT_TRUE(test::eventually(
						[&] { return hooks().parked > before; }));
					if (!by_deadline)
						sn_scope_cancel(scope);
				});
				EXPECT_EQ(by_deadline ? -ETIMEDOUT : -ECANCELED, call());
				sn_cancel_mask();
				canceller.join();
				sn_cancel_unmask();
				sn_scope_close(scope);
			});
			waiter.join();
		}
	});
}

} // namespace test

#endif
