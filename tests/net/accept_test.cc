// SPDX-License-Identifier: MIT
//
// Accepting when no descriptors are left: the listener pauses, counts the pause, uses almost no
// processor time, and resumes by itself when there are descriptors again. Open sessions are not
// affected.
#include <atomic>
#include <ctime>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/descriptors.h"
#include "support/net.h"

namespace
{

using namespace test;

// Clients whose sockets exist already, so that they only need to connect.
class Clients
{
public:
	Clients(Listener &listener, int n)
	{
		socklen_t size = sizeof address_;

		EXPECT_EQ(0, getsockname(sn_tcp_listener_fd(listener.get()),
					 reinterpret_cast<sockaddr *>(&address_), &size));
		for (int i = 0; i < n; i++)
			fds_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	}
	~Clients()
	{
		for (int fd : fds_)
			close(fd);
	}
	Clients(const Clients &) = delete;
	Clients &operator=(const Clients &) = delete;

	// The kernel puts the connection into the backlog without an accept.
	void connect(int i)
	{
		EXPECT_EQ(0, ::connect(fds_[size_t(i)], reinterpret_cast<sockaddr *>(&address_),
				       sizeof address_));
	}

private:
	struct sockaddr_in address_ = {};
	std::vector<int> fds_;
};

uint64_t pauses()
{
	return test::stats().accept_pauses;
}

TASK_TEST(AcceptPause, ResumesByItselfAndCostsLittle)
{
	const int n = 10;
	Listener listener;
	Pair session(listener);
	Clients clients(listener, n);
	NoDescriptors none;
	std::atomic<int> accepted{0};
	std::atomic<bool> failed{false};
	Task echo([&] {
		char c;

		while (sn_tcp_read(session.server, &c, 1) == 1)
			(void)!sn_tcp_write(session.server, &c, 1);
	});
	EXPECT_EQ(0u, pauses());
	Task accepter([&] {
		std::vector<sn_tcp *> conns;

		while (accepted.load() < n) {
			sn_tcp *conn = nullptr;

			if (sn_tcp_accept(listener.get(), &conn) != 0) {
				failed = true;
				break;
			}
			conns.push_back(conn);
			accepted++;
		}
		for (sn_tcp *conn : conns)
			sn_tcp_close(conn);
	});

	for (int i = 0; i < n - 1; i++)
		clients.connect(i);
	EXPECT_TRUE(test::eventually([] { return pauses() > 0; }));
	const int64_t before = cpu_ns();
	const uint64_t pauses_before = pauses();
	const int64_t end = sn_now() + test::second;
	int echoed = 0;
	while (sn_now() < end) {
		char c = 'e';

		// The running session is untouched.
		ASSERT_EQ(1, sn_tcp_write(session.client, &c, 1));
		ASSERT_EQ(1, sn_tcp_read(session.client, &c, 1));
		echoed++;
		sn_sleep(10 * test::ms);
	}
	EXPECT_LT(cpu_ns() - before, test::second / 2) << "of one second";
	EXPECT_LT(pauses() - pauses_before, 30u);
	EXPECT_GT(echoed, 0);
	EXPECT_EQ(0, accepted.load());
	EXPECT_FALSE(failed.load());

	// With one descriptor one connection is accepted. For the others the pause
	// continues.
	none.give_back(1);
	EXPECT_TRUE(test::eventually([&] { return accepted.load() == 1; }));
	clients.connect(n - 1); // an edge during the pause
	none.give_back();
	EXPECT_TRUE(test::eventually([&] { return accepted.load() == n; }));
	EXPECT_FALSE(failed.load());
	accepter.join();
	sn_tcp_shutdown(session.client, SN_SHUT_WRITE);
	echo.join();
}

// An accepter that pauses for lack of descriptors.
class Paused
{
public:
	Paused()
	    : clients(listener, 1), accepter_([raw = listener.get()] {
		      sn_tcp *conn = nullptr;

		      return sn_tcp_accept(raw, &conn);
	      })
	{
		clients.connect(0);
		EXPECT_TRUE(test::eventually([] { return pauses() > 3; }));
	}
	int join() { return accepter_.join(); }

	Listener listener;
	Clients clients;

private:
	NoDescriptors none_;
	Task accepter_;
};

TASK_TEST(AcceptPause, EndsWhenTheListenerIsClosed)
{
	Paused paused;
	const int64_t before = sn_now();

	paused.listener.close();
	EXPECT_EQ(-EBADF, paused.join());
	EXPECT_LT(sn_now() - before, test::patience);
}

TASK_TEST(AcceptPause, KeepsTheDeadline)
{
	Paused paused;
	const int64_t deadline = sn_now() + 20 * test::ms;

	EXPECT_EQ(0, sn_tcp_listener_set_deadline(paused.listener.get(), deadline));
	EXPECT_EQ(-ETIMEDOUT, paused.join());
	EXPECT_GE(sn_now(), deadline);
}

TASK_TEST(NoDescriptors, ListenAndConnectFail, 2)
{
	Listener listener;
	const std::string address = listener.address();
	NoDescriptors none;
	sn_tcp_listener *made = nullptr;
	sn_tcp *conn = nullptr;

	EXPECT_EQ(-EMFILE, sn_tcp_listen(&made, "127.0.0.1:0"));
	EXPECT_EQ(-EMFILE, sn_tcp_connect(&conn, address.c_str(), SN_NO_DEADLINE));
	EXPECT_EQ(nullptr, made);
	EXPECT_EQ(nullptr, conn);
	none.give_back();
	Pair pair(listener);
}

// Connections that are reset in the backlog do not make the listener fail: the next connection is
// accepted.
TASK_TEST(Accept, SkipsConnectionsThatAreGone)
{
	Listener listener;

	for (int i = 0; i < 5; i++)
		sn_tcp_abort(test::connect(listener.address()));
	sn_tcp *last = test::connect(listener.address());
	EXPECT_EQ(1, sn_tcp_write(last, "l", 1));
	// Linux also returns the connections that were reset; only the last one has a byte
	// to read.
	for (int i = 0; i < 6; i++) {
		sn_tcp *conn = listener.accept();
		char c = 0;
		const ssize_t n = sn_tcp_read(conn, &c, 1);

		sn_tcp_close(conn);
		if (n == 1) {
			EXPECT_EQ('l', c);
			break;
		}
		EXPECT_EQ(-ECONNRESET, n);
		ASSERT_LT(i, 5);
	}
	sn_tcp_close(last);
}

} // namespace
