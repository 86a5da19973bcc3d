// SPDX-License-Identifier: MIT
//
// Saved packets: in a relay, the end of a stream leaves in the packet of its last bytes, and the
// end of a handshake in that of the first bytes.
#include <memory>
#include <string>
#include <vector>

#include <poll.h>

#include <sennit/copy.h>
#include <sennit/unstable.h>

#include "support/packets.h"

#include "support/routes.h"

namespace
{

using namespace test;

struct Route : test::RelayRoute {
	void start(bool closing = false)
	{
		tuning.closing = closing;
		RelayRoute::start();
	}
	int packets() { return test::packets_in(sn_tcp_fd(to.server)); }
	void write(const std::string &bytes)
	{
		EXPECT_EQ(ssize_t(bytes.size()),
			  sn_tcp_write_all(from.client, bytes.data(), bytes.size(), nullptr));
	}
	// Waits until the end of the stream has arrived, so that the relay sees it when it reads.
	void await_end()
	{
		EXPECT_TRUE(test::eventually([this] { return probe_fd_irregular(from.server); }));
	}
};

TEST(Packets, AnEndGoesWithTheLastBytes)
{
	for (const std::string &bytes : {std::string("answer"), std::string(5000, 'x')})
		test::run([&bytes] {
			Route route;

			route.write(bytes);
			EXPECT_EQ(0, sn_tcp_shutdown(route.from.client, SN_SHUT_WRITE));
			route.await_end();
			const int before = route.packets();
			if (before < 0)
				GTEST_SKIP() << "packets are not counted here";
			route.start();
			EXPECT_EQ(bytes, test::read_to_end(route.to.server));
			// the limit of a packet on loopback is 64 KiB
			EXPECT_EQ(before + 1, route.packets());
			EXPECT_EQ(0, sn_tcp_shutdown(route.to.server, SN_SHUT_WRITE));
			EXPECT_EQ(0, route.relay->join());
			EXPECT_EQ(SN_RELAY_FINISHED, route.result.end);
			EXPECT_EQ(bytes.size(), route.result.directions[0].bytes_written);
		});
}

// If a relay closes both connections when it ends, that close passes the last end on, together with
// the bytes before it.
TASK_TEST(Packets, TheLastEndGoesWithTheClose)
{
	Route route;

	EXPECT_EQ(0, sn_tcp_shutdown(route.to.server, SN_SHUT_WRITE));
	route.start(true);
	EXPECT_EQ("", test::read_to_end(route.from.client));
	// The relay is waiting. The bytes and the end may arrive together or one after the
	// other.
	route.write("the last");
	EXPECT_EQ(0, sn_tcp_shutdown(route.from.client, SN_SHUT_WRITE));
	EXPECT_EQ(0, route.relay->join());
	route.from.close_server();
	route.to.close_client();
	EXPECT_EQ("the last", test::read_to_end(route.to.server));
}

// Bytes without an end after them are not held back; a hundred delays of 200 ms would show.
TASK_TEST(Packets, BytesWithoutAnEndGoAtOnce)
{
	const int64_t began = sn_now();
	Route route;

	route.start();
	for (int i = 0; i < 100; i++) {
		const std::string piece = std::to_string(i);
		char buf[16];

		route.write(piece);
		EXPECT_EQ(ssize_t(piece.size()), sn_tcp_read(route.to.server, buf, sizeof buf));
	}
	EXPECT_LT(sn_now() - began, INT64_C(15000000000));
	sn_tcp_cancel(route.from.server);
	EXPECT_EQ(-ECANCELED, route.relay->join());
}

TASK_TEST(Packets, BytesBeforeAResetAreDeliveredFirst)
{
	Route route;
	char buf[16];

	route.write("the last");
	EXPECT_EQ(0, sn_tcp_abort(route.from.release_client()));
	route.await_end();
	route.start();
	EXPECT_EQ(8, sn_tcp_read(route.to.server, buf, sizeof buf));
	EXPECT_EQ(-ECONNRESET, route.relay->join());
	EXPECT_EQ(SN_RELAY_FAILED, route.result.end);
	EXPECT_EQ(8u, route.result.directions[0].bytes_written);
	EXPECT_EQ(0, route.result.side);
}

sn_tcp *connect_to_write(const Listener &listener)
{
	sn_tcp *conn = nullptr;

	EXPECT_EQ(0, sn_tcp_connect_to_write(&conn, listener.address().c_str(),
					     sn_now() + test::patience));
	return conn;
}

bool has_one_to_accept(const Listener &listener)
{
	struct pollfd p = {sn_tcp_listener_fd(listener.get()), POLLIN, 0};

	return poll(&p, 1, 0) > 0;
}

bool holds_acks(sn_tcp *conn)
{
	int as_usual = -1;
	socklen_t length = sizeof as_usual;

	EXPECT_EQ(0, getsockopt(sn_tcp_fd(conn), IPPROTO_TCP, TCP_QUICKACK, &as_usual, &length));
	return !as_usual;
}

// If the machine stalls the test for 200 ms in between, the kernel has stopped waiting. Then the
// test tries again.
TASK_TEST(ConnectToWrite, TheFirstBytesEndTheHandshake)
{
	EXPECT_TRUE(test::eventually([] {
		Listener listener;
		sn_tcp *client = connect_to_write(listener);
		const bool waited = !has_one_to_accept(listener);
		char buf[8];

		EXPECT_EQ(5, sn_tcp_write_all(client, "hello", 5, nullptr));
		EXPECT_TRUE(has_one_to_accept(listener));
		sn_tcp *server = listener.accept();
		EXPECT_EQ(5, sn_tcp_read(server, buf, sizeof buf));
		sn_tcp_close(server);
		sn_tcp_close(client);
		return waited;
	}));
}

// An ordinary connect completes the handshake immediately.
TASK_TEST(ConnectToWrite, APlainConnectDoesNotWait)
{
	Listener listener;
	sn_tcp *client = test::connect(listener.address());

	EXPECT_TRUE(has_one_to_accept(listener));
	EXPECT_FALSE(holds_acks(client));
	sn_tcp_close(client);
}

// A connection that does not write, as it promised, is delayed, but nothing else happens.
TASK_TEST(ConnectToWrite, ASilentClientIsConnectedNevertheless, 2)
{
	Listener listener;
	sn_tcp *client = connect_to_write(listener), *server = listener.accept();
	char buf[8];

	EXPECT_EQ(3, sn_tcp_write_all(server, "220", 3, nullptr));
	EXPECT_EQ(3, sn_tcp_read(client, buf, sizeof buf));
	sn_tcp_close(client);
	EXPECT_EQ(0, sn_tcp_read(server, buf, sizeof buf));
	sn_tcp_close(server);
}

// Otherwise a peer whose second write waits for the acknowledgement of the first one would wait for
// 40 ms.
TASK_TEST(ConnectToWrite, AWaitingReaderAcknowledgesWhatItHasRead)
{
	Listener listener;
	sn_tcp *client = connect_to_write(listener);
	char buf[8];

	EXPECT_EQ(1, sn_tcp_write_all(client, "?", 1, nullptr));
	sn_tcp *server = listener.accept();
	EXPECT_EQ(1, sn_tcp_read(server, buf, sizeof buf));
	EXPECT_EQ(1, sn_tcp_write_all(server, "!", 1, nullptr));
	EXPECT_EQ(1, sn_tcp_read(client, buf, sizeof buf));
	Task reader([&] { return int(sn_tcp_read(client, buf, sizeof buf)); });
	EXPECT_TRUE(test::someone_reads(client));
	EXPECT_FALSE(holds_acks(client));
	EXPECT_EQ(0, test::unsent(server));
	sn_tcp_close(server);
	EXPECT_EQ(0, reader.join());
	sn_tcp_close(client);
}

// The same for a relay, in userspace and, with a large answer, in the kernel.
TEST(ConnectToWrite, RelaysAcknowledgeToo)
{
	for (const size_t size : {size_t(1), size_t(4) << 20})
		test::run([size] {
			Listener listener;
			Pair from(listener);
			sn_tcp *client = connect_to_write(listener);
			struct sn_relay_result result;
			const std::string answer(size, '!');
			char buf[8];

			EXPECT_EQ(1, sn_tcp_write_all(from.client, "?", 1, nullptr));
			Task relay([&] {
				return sn_relay(sn_tcp_stream(from.server), sn_tcp_stream(client),
						&result, nullptr);
			});
			sn_tcp *server = listener.accept();
			EXPECT_EQ(1, sn_tcp_read(server, buf, sizeof buf));
			Task writer([&] {
				return int(sn_tcp_write_all(server, answer.data(), size, nullptr));
			});
			std::string got(size, 0);
			for (size_t n = 0; n < size;)
				n += size_t(sn_tcp_read(from.client, &got[n], size - n));
			EXPECT_EQ(answer, got);
			EXPECT_EQ(int(size), writer.join());
			// This happens as soon as the relay waits for more. The descriptor on which
			// it waits does not show that: if two tasks serve the directions, the other
			// one waits all the time.
			EXPECT_TRUE(test::eventually([&] { return !holds_acks(client); }));
			sn_tcp_close(server);
			sn_tcp_shutdown(from.client, SN_SHUT_WRITE);
			EXPECT_EQ(0, relay.join());
			sn_tcp_close(client);
		});
}

} // namespace
