// SPDX-License-Identifier: MIT
//
// A read that has left a connection empty makes the next one wait before it tries. Whatever arrives
// after the bytes must end that wait, even if epoll has reported it together with the bytes. A
// mistake there hangs, so each of these tests relies on the test's time limit.
#include <cerrno>
#include <functional>

#include <sys/socket.h>

#include "support/net.h"

namespace
{

using test::Listener;
using test::Pair;

// after this time, the poller has fetched the events of what has arrived
constexpr int64_t WHILE_NS = 5000000;

std::string read_some(sn_tcp *conn)
{
	char buf[100];
	const ssize_t n = sn_tcp_read(conn, buf, sizeof buf);

	EXPECT_LE(0, n);
	return n < 0 ? "" : std::string(buf, size_t(n));
}

// Tests both orders: epoll may report what `arrives` does before the bytes are read, or after that.
void behind_bytes(const std::function<void(Pair &)> &arrives,
		  const std::function<void(Pair &)> &is_read)
{
	test::run({1, 2}, [&] {
		Listener listener;

		for (int round = 0; round < 40; round++) {
			Pair pair(listener);
			ASSERT_EQ(1, sn_tcp_write_all(pair.client, "x", 1, nullptr));
			if (round % 2)
				arrives(pair);
			if (round % 4 >= 2)
				sn_sleep(WHILE_NS);
			ASSERT_EQ("x", read_some(pair.server));
			if (round % 2 == 0)
				arrives(pair);
			is_read(pair);
		}
	});
}

TEST(Drained, TheEndIsSeen)
{
	behind_bytes([](Pair &pair) { pair.close_client(); },
		     [](Pair &pair) { EXPECT_EQ("", read_some(pair.server)); });
}

TEST(Drained, AnEndOfReadingIsSeen)
{
	behind_bytes([](Pair &) {},
		     [](Pair &pair) {
			     sn_stream_shutdown(sn_tcp_stream(pair.server), SN_SHUT_READ);
			     EXPECT_EQ("", read_some(pair.server));
		     });
}

TEST(Drained, AResetIsSeen)
{
	test::run({1, 2}, [&] {
		Listener listener;

		for (int round = 0; round < 20; round++) {
			char byte;
			Pair pair(listener);
			ASSERT_EQ(1, sn_tcp_write_all(pair.client, "x", 1, nullptr));
			ASSERT_EQ("x", read_some(pair.server));
			sn_stream_abort(sn_tcp_stream(pair.release_client()));
			if (round % 2)
				sn_sleep(WHILE_NS);
			EXPECT_EQ(-ECONNRESET, sn_tcp_read(pair.server, &byte, 1));
		}
	});
}

TEST(Drained, BytesBehindAnUrgentOneAreSeen)
{
	behind_bytes(
		[](Pair &pair) {
			ASSERT_EQ(1, send(sn_tcp_fd(pair.client), "u", 1, MSG_OOB));
			ASSERT_EQ(1, sn_tcp_write_all(pair.client, "y", 1, nullptr));
		},
		[](Pair &pair) { EXPECT_EQ("y", read_some(pair.server)); });
}

// When the program has taken the urgent byte, that is no longer reported, but still ends a read
// before it.
TEST(Drained, BytesBehindAnUrgentOneAreSeenThatTheProgramHasTaken)
{
	test::run({1, 2}, [&] {
		Listener listener;

		for (int round = 0; round < 20; round++) {
			char byte = 0;
			Pair pair(listener);
			ASSERT_EQ(1, sn_tcp_write_all(pair.client, "x", 1, nullptr));
			ASSERT_EQ(1, send(sn_tcp_fd(pair.client), "u", 1, MSG_OOB));
			ASSERT_EQ(1, sn_tcp_write_all(pair.client, "y", 1, nullptr));
			ASSERT_EQ(1, recv(sn_tcp_fd(pair.server), &byte, 1, MSG_OOB));
			sn_sleep(WHILE_NS);
			EXPECT_EQ("x", read_some(pair.server));
			EXPECT_EQ("y", read_some(pair.server));
		}
	});
}

TEST(Drained, BytesAreSeenWhoseEdgeAnotherOperationHasTaken)
{
	test::run({1, 2}, [&] {
		Listener listener;

		for (int round = 0; round < 20; round++) {
			Pair pair(listener);
			ASSERT_EQ(1, sn_tcp_write_all(pair.client, "x", 1, nullptr));
			ASSERT_EQ("x", read_some(pair.server));
			ASSERT_EQ(1, sn_tcp_write_all(pair.client, "y", 1, nullptr));
			sn_tcp_set_read_deadline(pair.server, sn_now() + WHILE_NS);
			ASSERT_EQ(-ETIMEDOUT, sn_tcp_wait_closed(pair.server));
			sn_tcp_set_read_deadline(pair.server, 0);
			EXPECT_EQ("y", read_some(pair.server));
		}
	});
}

TEST(Drained, ADeadlineEndsTheWait)
{
	behind_bytes([](Pair &) {},
		     [](Pair &pair) {
			     char byte;
			     sn_tcp_set_read_deadline(pair.server, sn_now() + 1000);
			     EXPECT_EQ(-ETIMEDOUT, sn_tcp_read(pair.server, &byte, 1));
		     });
}

} // namespace
