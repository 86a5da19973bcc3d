// SPDX-License-Identifier: MIT
//
// Deadlines of reading, writing, accepting and connecting: in the past, set during a wait, moved,
// removed. A call that timed out can be repeated.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sennit/when_readable.h>

#include "support/net.h"

namespace
{

using namespace test;

/*
 * The four calls that wait, behind one interface, so that each property is checked for each of
 * them.
 */
struct Waiter {
	const char *name;
	bool writes;
	// Begins a wait that only satisfy() or a deadline ends.
	int (*wait)(Listener &listener, Pair &pair);
	int (*set_deadline)(Listener &listener, Pair &pair, int64_t deadline);
	// Makes the waiting call succeed.
	void (*satisfy)(Listener &listener, Pair &pair);
	const void *(*what)(Listener &listener, Pair &pair);
};

int set_read(Listener &, Pair &pair, int64_t deadline)
{
	return sn_tcp_set_read_deadline(pair.client, deadline);
}

const void *client(Listener &, Pair &pair)
{
	return pair.client;
}

std::atomic<bool> room_was_made;

const Waiter waiters[] = {
	{"Read", false,
	 [](Listener &, Pair &pair) {
		 char c;

		 return int(sn_tcp_read(pair.client, &c, 1));
	 },
	 set_read, [](Listener &, Pair &pair) { EXPECT_EQ(1, sn_tcp_write(pair.server, "x", 1)); },
	 client},
	{"WaitClosed", false,
	 [](Listener &, Pair &pair) { return sn_tcp_wait_closed(pair.client); }, set_read,
	 [](Listener &, Pair &pair) {
		 EXPECT_EQ(0, sn_tcp_shutdown(pair.client, SN_SHUT_WRITE));
		 EXPECT_EQ(0, sn_tcp_shutdown(pair.server, SN_SHUT_WRITE));
	 },
	 client},
	{"Write", true,
	 [](Listener &, Pair &pair) {
		 ssize_t n;

		 // The kernel may make room while it moves bytes to the peer, so fill the buffer
		 // again.
		 room_was_made = false;
		 do {
			 test::fill(pair.client);
			 n = sn_tcp_write(pair.client, "x", 1);
		 } while (n > 0 && !room_was_made.load());
		 return int(n);
	 },
	 [](Listener &, Pair &pair, int64_t deadline) {
		 return sn_tcp_set_write_deadline(pair.client, deadline);
	 },
	 [](Listener &, Pair &pair) {
		 std::string buf(1 << 20, 0);

		 room_was_made = true;
		 // Drains until no more bytes are on their way, so that the writer has room. Bytes
		 // that count as unsent may only lack their acknowledgement, so a blocking read
		 // could wait forever.
		 EXPECT_TRUE(test::eventually([&] {
			 while (test::unread(pair.server) > 0)
				 (void)!sn_tcp_read(pair.server, buf.data(), buf.size());
			 return test::unsent(pair.client) == 0;
		 }));
	 },
	 client},
	{"Accept", false,
	 [](Listener &listener, Pair &) {
		 sn_tcp *conn = nullptr;
		 const int err = sn_tcp_accept(listener.get(), &conn);

		 if (err == 0)
			 sn_tcp_close(conn);
		 return err;
	 },
	 [](Listener &listener, Pair &, int64_t deadline) {
		 return sn_tcp_listener_set_deadline(listener.get(), deadline);
	 },
	 [](Listener &listener, Pair &) { sn_tcp_close(test::connect(listener.address())); },
	 [](Listener &listener, Pair &) -> const void * { return listener.get(); }},
};

class Deadline : public testing::TestWithParam<Waiter>
{
protected:
	void with(const std::function<void(Listener &, Pair &)> &body)
	{
		test::run([&] {
			Listener listener;
			Pair pair(listener);

			body(listener, pair);
		});
	}
	static bool waits(Listener &listener, Pair &pair)
	{
		const void *what = GetParam().what(listener, pair);

		return GetParam().writes ? test::someone_writes(what) : test::someone_reads(what);
	}
};

TEST_P(Deadline, InThePastFailsAtOnce)
{
	with([](Listener &listener, Pair &pair) {
		for (int64_t past : {int64_t(1), sn_now() - 1, sn_now()}) {
			EXPECT_EQ(0, GetParam().set_deadline(listener, pair, past));
			EXPECT_EQ(-ETIMEDOUT, GetParam().wait(listener, pair));
		}
	});
}

TEST_P(Deadline, IsKeptAndNotEarly)
{
	with([](Listener &listener, Pair &pair) {
		const int64_t deadline = sn_now() + 10 * test::ms;

		EXPECT_EQ(0, GetParam().set_deadline(listener, pair, deadline));
		EXPECT_EQ(-ETIMEDOUT, GetParam().wait(listener, pair));
		EXPECT_GE(sn_now(), deadline);
		EXPECT_LT(sn_now(), deadline + test::patience);
	});
}

TEST_P(Deadline, CanBeRepeatedAfterATimeout)
{
	with([](Listener &listener, Pair &pair) {
		for (int i = 0; i < 5; i++) {
			GetParam().set_deadline(listener, pair, sn_now() + test::ms);
			EXPECT_EQ(-ETIMEDOUT, GetParam().wait(listener, pair));
		}
		GetParam().set_deadline(listener, pair, sn_now() + test::patience);
		Task waiter([&] { return GetParam().wait(listener, pair); });
		EXPECT_TRUE(waits(listener, pair));
		GetParam().satisfy(listener, pair);
		EXPECT_GE(waiter.join(), 0) << "the connection is unchanged";
	});
}

TEST_P(Deadline, AppliesToAWaitThatHasBegun)
{
	with([](Listener &listener, Pair &pair) {
		// First no deadline, then a distant one, then an earlier one.
		Task waiter([&] { return GetParam().wait(listener, pair); });
		EXPECT_TRUE(waits(listener, pair));
		GetParam().set_deadline(listener, pair, sn_now() + 3600 * test::second);
		sn_sleep(test::ms);
		const int64_t deadline = sn_now() + 5 * test::ms;
		GetParam().set_deadline(listener, pair, deadline);
		EXPECT_EQ(-ETIMEDOUT, waiter.join());
		EXPECT_GE(sn_now(), deadline);
	});
}

TEST_P(Deadline, SetInThePastWakesAWait)
{
	with([](Listener &listener, Pair &pair) {
		Task waiter([&] { return GetParam().wait(listener, pair); });

		EXPECT_TRUE(waits(listener, pair));
		GetParam().set_deadline(listener, pair, 1);
		EXPECT_EQ(-ETIMEDOUT, waiter.join());
	});
}

TEST_P(Deadline, MovedToLaterOrRemovedDoesNotFire)
{
	with([](Listener &listener, Pair &pair) {
		// If the machine stalls the test until the first deadline, try again with a later
		// one.
		bool in_time = false;
		for (int64_t gap = 150 * test::ms; !in_time; gap *= 2) {
			ASSERT_LT(gap, test::patience);
			const int64_t first = sn_now() + gap;
			std::atomic<bool> done{false};

			GetParam().set_deadline(listener, pair, first);
			Task waiter([&] {
				const int result = GetParam().wait(listener, pair);

				done = true;
				return result;
			});
			EXPECT_TRUE(test::eventually([&] {
				return done || probe_fd_waiting(GetParam().what(listener, pair),
								GetParam().writes);
			}));
			GetParam().set_deadline(listener, pair, first + test::patience);
			in_time = sn_now() < first;
			if (!in_time) {
				GetParam().set_deadline(listener, pair, 1);
				EXPECT_EQ(-ETIMEDOUT, waiter.join());
				continue;
			}
			// The wait must continue past the first deadline.
			sn_sleep_until(first + 5 * test::ms);
			EXPECT_FALSE(done) << "the deadline had been moved before it passed";
			GetParam().set_deadline(listener, pair, SN_NO_DEADLINE);
			GetParam().satisfy(listener, pair);
			EXPECT_GE(waiter.join(), 0);
		}
	});
}

// Deadlines that are postponed again and again, as by an idle timeout, while calls begin and end.
TEST_P(Deadline, PostponedManyTimes)
{
	with([](Listener &listener, Pair &pair) {
		if (std::string(GetParam().name) == "WaitClosed")
			GetParam().set_deadline(listener, pair,
						// this wait can end only once, so the test just
						// sets the deadline
						1);
		for (int i = 0; i < test::scaled(100); i++) {
			GetParam().set_deadline(listener, pair, sn_now() + test::patience + i);
			if (std::string(GetParam().name) == "WaitClosed")
				continue;
			Task waiter([&] { return GetParam().wait(listener, pair); });
			EXPECT_TRUE(waits(listener, pair));
			GetParam().satisfy(listener, pair);
			ASSERT_GE(waiter.join(), 0);
		}
	});
}

void connect_and_close(Listener &listener)
{
	const std::string address = listener.address();
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in in = {};

	in.sin_family = AF_INET;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in.sin_port = htons(uint16_t(std::stoi(address.substr(address.rfind(':') + 1))));
	EXPECT_EQ(0, connect(fd, reinterpret_cast<sockaddr *>(&in), sizeof in));
	close(fd);
}

/*
 * A deadline that passes while the process is stopped, or busy, does not prove that nothing has
 * come. Here the deadline passes just when something comes, before the poller can report it: the
 * only processor stays with the task that does both.
 */
TEST_P(Deadline, ThatPassesAsSomethingComesIsFollowedByAnotherAttempt)
{
	if (GetParam().writes)
		return; // a write cannot get room before the writer waits
	test::run(1, [] {
		for (int round = 0; round < 50; round++) {
			Listener listener;
			Pair pair(listener);
			Task waiter([&] { return GetParam().wait(listener, pair); });

			EXPECT_TRUE(waits(listener, pair));
			if (GetParam().name == std::string("Accept"))
				connect_and_close(listener); // the usual way of connecting parks
			else
				GetParam().satisfy(listener, pair);
			GetParam().set_deadline(listener, pair, sn_now());
			EXPECT_GE(waiter.join(), 0) << "round " << round;
		}
	});
}

INSTANTIATE_TEST_SUITE_P(Calls, Deadline, testing::ValuesIn(waiters),
			 [](const auto &instance) { return instance.param.name; });

TASK_TEST(DeadlineSides, AreIndependent)
{
	Pair pair;
	char c;

	EXPECT_EQ(0, sn_tcp_set_read_deadline(pair.client, 1));
	EXPECT_EQ(1, sn_tcp_write(pair.client, "x", 1));
	EXPECT_EQ(-ETIMEDOUT, sn_tcp_read(pair.client, &c, 1));
	EXPECT_EQ(0, sn_tcp_set_write_deadline(pair.server, 1));
	EXPECT_EQ(1, sn_tcp_read(pair.server, &c, 1));
	EXPECT_EQ(-ETIMEDOUT, sn_tcp_write(pair.server, "x", 1));
	EXPECT_EQ(-ETIMEDOUT, sn_tcp_write_all(pair.server, "x", 1, nullptr));
}

// A call after the deadline fails immediately even if there are bytes to read, because the caller's
// time is over.
TASK_TEST(DeadlineSides, InThePastWinsOverAvailableBytes)
{
	Pair pair;
	char c;

	EXPECT_EQ(1, sn_tcp_write(pair.server, "x", 1));
	EXPECT_TRUE(test::eventually([&] { return test::unread(pair.client) == 1; }));
	EXPECT_EQ(0, sn_tcp_set_read_deadline(pair.client, 1));
	EXPECT_EQ(-ETIMEDOUT, sn_tcp_read(pair.client, &c, 1));
	EXPECT_EQ(0, sn_tcp_set_read_deadline(pair.client, SN_NO_DEADLINE));
	EXPECT_EQ(1, sn_tcp_read(pair.client, &c, 1)) << "nothing was lost";
}

// A low-water mark keeps epoll from reporting a byte, which a read finds nevertheless.
void send_without_an_edge(Pair &pair)
{
	const int most = 100;

	EXPECT_EQ(0,
		  setsockopt(sn_tcp_fd(pair.client), SOL_SOCKET, SO_RCVLOWAT, &most, sizeof most));
	EXPECT_EQ(1, sn_tcp_write(pair.server, "x", 1));
	EXPECT_TRUE(test::eventually([&] { return test::unread(pair.client) == 1; }));
}

TASK_TEST(DeadlineLastAttempt, FindsBytesThatThePollerHasNotReported)
{
	Pair pair;
	char c = 0;
	Task reader([&] { return int(sn_tcp_read(pair.client, &c, 1)); });

	EXPECT_TRUE(test::someone_reads(pair.client.load()));
	send_without_an_edge(pair);
	EXPECT_EQ(0, sn_tcp_set_read_deadline(pair.client, 1));
	EXPECT_EQ(1, reader.join());
	EXPECT_EQ('x', c);
	EXPECT_EQ(-ETIMEDOUT, sn_tcp_read(pair.client, &c, 1)) << "the next call is too late";
}

TEST(DeadlineLastAttempt, IsMadeByATaskThatBeginsAtTheDeadline)
{
	struct Found {
		sn_stream *stream;
		ssize_t first = 0, second = 0;
		std::atomic<bool> ended{false};
	};

	test::run([] {
		Pair pair;
		Found found{sn_tcp_stream(pair.client)};
		sn_fn *const read_twice = [](void *arg) {
			auto *self = static_cast<Found *>(arg);
			char c;

			self->first = sn_stream_read(self->stream, &c, 1);
			self->second = sn_stream_read(self->stream, &c, 1);
			self->ended = true;
			return 0;
		};

		EXPECT_EQ(0, sn_go_when_readable(found.stream, read_twice, &found));
		send_without_an_edge(pair);
		EXPECT_EQ(0, sn_tcp_set_read_deadline(pair.client, 1));
		EXPECT_TRUE(test::eventually([&] { return found.ended.load(); }));
		EXPECT_EQ(1, found.first);
		EXPECT_EQ(-ETIMEDOUT, found.second) << "this call is too late";
	});
}

// A server that never accepts and whose backlog is full: the next connect waits forever.
class FullServer
{
public:
	FullServer()
	{
		struct sockaddr_in in = {};
		socklen_t size = sizeof in;

		in.sin_family = AF_INET;
		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		EXPECT_EQ(0, bind(listener_, reinterpret_cast<sockaddr *>(&in), sizeof in));
		EXPECT_EQ(0, listen(listener_, 0));
		EXPECT_EQ(0, getsockname(listener_, reinterpret_cast<sockaddr *>(&in), &size));
		address_ = "127.0.0.1:" + std::to_string(ntohs(in.sin_port));
		// Connects more often than the backlog of one connection allows, so that some
		// connects stay pending. Wait for the first one, because until it is established
		// the kernel would let others through.
		for (int i = 0; i < 3; i++) {
			const int fd =
				socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
			struct pollfd connected = {fd, POLLOUT, 0};

			(void)!connect(fd, reinterpret_cast<sockaddr *>(&in), sizeof in);
			clients_.push_back(fd);
			if (i == 0) {
				EXPECT_EQ(1, poll(&connected, 1, int(test::patience / test::ms)));
			}
		}
	}
	~FullServer()
	{
		for (int fd : clients_)
			close(fd);
		close(listener_);
	}
	FullServer(const FullServer &) = delete;
	FullServer &operator=(const FullServer &) = delete;
	const std::string &address() const { return address_; }

private:
	int listener_;
	std::vector<int> clients_;
	std::string address_;
};

TASK_TEST(DeadlineConnect, IsKeptAndNotEarly)
{
	FullServer server;
	sn_tcp *conn = nullptr;

	for (int i = 0; i < 2; i++) {
		const int64_t deadline = sn_now() + 20 * test::ms;

		EXPECT_EQ(-ETIMEDOUT, sn_tcp_connect(&conn, server.address().c_str(), deadline));
		EXPECT_GE(sn_now(), deadline);
		EXPECT_EQ(nullptr, conn);
	}
}

TASK_TEST(DeadlineConnect, InThePastFailsAtOnce)
{
	Listener listener;
	sn_tcp *conn = nullptr;

	EXPECT_EQ(-ETIMEDOUT, sn_tcp_connect(&conn, listener.address().c_str(), 1));
	EXPECT_EQ(-ETIMEDOUT, sn_tcp_connect(&conn, listener.address().c_str(), sn_now()));
	EXPECT_EQ(nullptr, conn);
}

// The deadline was for connecting; it must not end reads and writes later.
TASK_TEST(DeadlineConnect, DoesNotOutliveTheConnect)
{
	std::unique_ptr<Listener> listener;
	sn_tcp *conn = nullptr;
	int64_t deadline, gap = 200 * test::ms;
	char c;
	int err;

	do { // with a later deadline each time, in case the machine stalls the test
		listener = std::make_unique<Listener>();
		deadline = sn_now() + gap;
		err = sn_tcp_connect(&conn, listener->address().c_str(), deadline);
	} while (err == -ETIMEDOUT && (gap *= 2) < test::patience);
	ASSERT_EQ(0, err);
	sn_tcp *peer = listener->accept();
	sn_sleep_until(deadline + test::ms);
	EXPECT_EQ(1, sn_tcp_write(conn, "x", 1));
	EXPECT_EQ(1, sn_tcp_read(peer, &c, 1));
	EXPECT_EQ(1, sn_tcp_write(peer, "y", 1));
	EXPECT_EQ(1, sn_tcp_read(conn, &c, 1));
	sn_tcp_close(conn);
	sn_tcp_close(peer);
}

} // namespace
