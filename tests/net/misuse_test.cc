// SPDX-License-Identifier: MIT
//
// Mistakes of programs with connections, listeners and streams: each is reported as an error, and
// never affects another connection.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <sennit/unstable.h>

#include "support/misuse.h"
#include "support/net.h"

namespace
{

using namespace test;

TASK_TEST(Misuse, NullArguments, 1)
{
	Listener listener;
	char buf[SN_ADDRESS_MAX];
	sn_tcp *conn = nullptr;
	sn_tcp_listener *made = nullptr;
	const int64_t soon = sn_now() + ms;
	struct sn_relay_result relayed;
	struct sn_copy_result copied;
	Pair pair(listener);
	sn_stream *stream = sn_tcp_stream(pair.client);

	expect_each({
		MISTAKE(-EINVAL, sn_tcp_listen(nullptr, "127.0.0.1:0")),
		MISTAKE(-EINVAL, sn_tcp_listen(&made, nullptr)),
		MISTAKE(-EINVAL, sn_tcp_listener_adopt(nullptr, 0)),
		MISTAKE(-EINVAL, sn_tcp_adopt(nullptr, 0)),
		MISTAKE(-EINVAL, sn_tcp_accept(nullptr, &conn)),
		MISTAKE(-EINVAL, sn_tcp_accept(listener.get(), nullptr)),
		MISTAKE(-EINVAL, sn_tcp_listener_set_deadline(nullptr, soon)),
		MISTAKE(-EINVAL, sn_tcp_listener_address(nullptr, buf, sizeof buf)),
		MISTAKE(-EINVAL, sn_tcp_listener_address(listener.get(), nullptr, 10)),
		MISTAKE(-EINVAL, sn_tcp_listener_fd(nullptr)),
		MISTAKE(0, sn_tcp_listener_close(nullptr)),
		MISTAKE(-EINVAL, sn_tcp_connect(nullptr, "127.0.0.1:1", soon)),
		MISTAKE(-EINVAL, sn_tcp_connect(&conn, nullptr, soon)),
		MISTAKE(-EINVAL, sn_tcp_connect_to_write(nullptr, "127.0.0.1:1", soon)),
		MISTAKE(-EINVAL, sn_tcp_connect_to_write(&conn, nullptr, soon)),
		MISTAKE(-EINVAL, sn_tcp_read(nullptr, buf, 1)),
		MISTAKE(-EINVAL, sn_tcp_write(nullptr, buf, 1)),
		MISTAKE(-EINVAL, sn_tcp_write_all(nullptr, buf, 1, nullptr)),
		MISTAKE(-EINVAL, sn_tcp_read(nullptr, buf, 0)),
		MISTAKE(-EINVAL, sn_tcp_write(nullptr, buf, 0)),
		MISTAKE(-EINVAL, sn_tcp_write_all(nullptr, buf, 0, nullptr)),
		MISTAKE(-EINVAL, sn_tcp_shutdown(nullptr, SN_SHUT_WRITE)),
		MISTAKE(-EINVAL, sn_tcp_wait_closed(nullptr)),
		MISTAKE(0, sn_tcp_close(nullptr)),
		MISTAKE(0, sn_tcp_abort(nullptr)),
		MISTAKE(-EINVAL, sn_tcp_cancel(nullptr)),
		MISTAKE(-EINVAL, sn_tcp_set_read_deadline(nullptr, soon)),
		MISTAKE(-EINVAL, sn_tcp_set_write_deadline(nullptr, soon)),
		MISTAKE(-EINVAL, sn_tcp_local_address(nullptr, buf, sizeof buf)),
		MISTAKE(-EINVAL, sn_tcp_peer_address(nullptr, buf, sizeof buf)),
		MISTAKE(-EINVAL, sn_tcp_peer_address(pair.client, nullptr, 10)),
		MISTAKE(-EINVAL, sn_tcp_local(pair.client, nullptr)),
		MISTAKE(-EINVAL, sn_tcp_peer(pair.client, nullptr)),
		MISTAKE(-EINVAL, sn_tcp_listener_local(listener.get(), nullptr)),
		MISTAKE(-EINVAL, sn_tcp_fd(nullptr)),
		MISTAKE(0, sn_tcp_stream(nullptr) != nullptr),
		MISTAKE(-EINVAL, sn_stream_adopt(nullptr, 0)),
		MISTAKE(-EINVAL, sn_stream_read(nullptr, buf, 1)),
		MISTAKE(-EINVAL, sn_stream_write(nullptr, buf, 1)),
		MISTAKE(-EINVAL, sn_stream_write_all(nullptr, buf, 1, nullptr)),
		MISTAKE(-EINVAL, sn_stream_read(nullptr, buf, 0)),
		MISTAKE(-EINVAL, sn_stream_write(nullptr, buf, 0)),
		MISTAKE(-EINVAL, sn_stream_write_all(nullptr, buf, 0, nullptr)),
		MISTAKE(-EINVAL, sn_stream_shutdown(nullptr, SN_SHUT_WRITE)),
		MISTAKE(0, sn_stream_close(nullptr)),
		MISTAKE(0, sn_stream_abort(nullptr)),
		MISTAKE(-EINVAL, sn_stream_cancel(nullptr)),
		MISTAKE(-EINVAL, sn_stream_set_read_deadline(nullptr, soon)),
		MISTAKE(-EINVAL, sn_stream_set_write_deadline(nullptr, soon)),
		MISTAKE(-EINVAL, sn_stream_fd(nullptr)),
		MISTAKE(-EINVAL, sn_copy(nullptr, stream, 1, nullptr, nullptr, &copied)),
		MISTAKE(-EINVAL, sn_copy(stream, nullptr, 1, nullptr, nullptr, &copied)),
		MISTAKE(-EINVAL, sn_relay(nullptr, stream, &relayed, nullptr)),
		MISTAKE(-EINVAL, sn_relay(stream, nullptr, &relayed, nullptr)),
		MISTAKE(-EINVAL, sn_copy_stats(nullptr)),
	});
}

// The next connection reuses the structure immediately.
template <class F>
void with_successor(F check)
{
	test::run({1, 2}, [&] {
		Listener listener;

		for (int i = 0; i < 50; i++) {
			Pair former(listener);
			sn_tcp *stale = former.release_client();

			EXPECT_EQ(0, sn_tcp_close(stale));
			Pair next(listener);
			check(stale, next, listener);
		}
	});
}

TEST(Misuse, AClosedConnectionIsNotItsSuccessor)
{
	with_successor([](sn_tcp *stale, Pair &next, Listener &) {
		sn_stream *stream = sn_tcp_stream(stale), *good = sn_tcp_stream(next.client);
		char buf[SN_ADDRESS_MAX] = "x";

		expect_each({
			MISTAKE(-EBADF, sn_tcp_write(stale, buf, 1)),
			MISTAKE(-EBADF, sn_tcp_write_all(stale, buf, 1, nullptr)),
			MISTAKE(-EBADF, sn_tcp_read(stale, buf, 1)),
			MISTAKE(-EBADF, sn_tcp_read(stale, buf, 0)),
			MISTAKE(-EBADF, sn_tcp_write(stale, buf, 0)),
			MISTAKE(-EBADF, sn_tcp_write_all(stale, buf, 0, nullptr)),
			MISTAKE(-EBADF, sn_stream_read(stream, buf, 0)),
			MISTAKE(-EBADF, sn_stream_write(stream, buf, 0)),
			MISTAKE(-EBADF, sn_stream_write_all(stream, buf, 0, nullptr)),
			MISTAKE(0, sn_tcp_read(next.client, buf, 0)),
			MISTAKE(0, sn_tcp_write(next.client, buf, 0)),
			MISTAKE(0, sn_tcp_write_all(next.client, buf, 0, nullptr)),
			MISTAKE(0, sn_stream_read(good, buf, 0)),
			MISTAKE(0, sn_stream_write(good, buf, 0)),
			MISTAKE(0, sn_stream_write_all(good, buf, 0, nullptr)),
			MISTAKE(-EBADF, sn_tcp_wait_closed(stale)),
			MISTAKE(-EBADF, sn_tcp_set_read_deadline(stale, 1)),
			MISTAKE(-EBADF, sn_tcp_set_write_deadline(stale, 1)),
			MISTAKE(-EBADF, sn_tcp_local_address(stale, buf, sizeof buf)),
			MISTAKE(-EBADF, sn_tcp_peer_address(stale, buf, sizeof buf)),
			MISTAKE(-EBADF, sn_tcp_fd(stale)),
			MISTAKE(-EBADF, sn_tcp_shutdown(stale, SN_SHUT_WRITE)),
			MISTAKE(-EBADF, sn_tcp_cancel(stale)),
			MISTAKE(-EBADF, sn_tcp_abort(stale)),
			MISTAKE(-EBADF, sn_tcp_close(stale)),
			MISTAKE(-EBADF, sn_copy(stream, good, 1, nullptr, nullptr, nullptr)),
			MISTAKE(-EBADF, sn_copy(good, stream, 1, nullptr, nullptr, nullptr)),
			MISTAKE(-EBADF, sn_relay(stream, good, nullptr, nullptr)),
			MISTAKE(-EBADF, sn_relay(good, stream, nullptr, nullptr)),
		});
		/* None of these calls has touched the successor. */
		EXPECT_EQ(1, sn_tcp_write(next.client, "a", 1));
		EXPECT_EQ(1, sn_tcp_read(next.server, buf, sizeof buf));
		EXPECT_EQ('a', buf[0]);
		EXPECT_EQ(1, sn_tcp_write(next.server, "b", 1));
		EXPECT_EQ(1, sn_tcp_read(next.client, buf, sizeof buf));
	});
}

// An operation that found the connection before it was closed, but begins afterwards, does not
// claim a side of its successor.
TEST(Misuse, ALateOperationTakesNoSideOfTheSuccessor)
{
	int same_place = 0;

	with_successor([&](sn_tcp *stale, Pair &next, Listener &) {
		same_place += probe_fd_same_place(stale, next.client);
		for (int side = 0; side < 2; side++) {
			EXPECT_EQ(-EBADF, probe_fd_begin(stale, side));
			EXPECT_EQ(0, probe_fd_begin(next.client, side)) << "its first operation";
			EXPECT_EQ(-EBUSY, probe_fd_begin(next.client, side));
			probe_fd_end(next.client, side);
		}
	});
	EXPECT_GT(same_place, 0);
}

TASK_TEST(Misuse, AClosedListenerIsNotItsSuccessor, 1)
{
	for (int i = 0; i < 20; i++) {
		sn_tcp_listener *stale = nullptr;
		sn_tcp *conn = nullptr;
		char buf[SN_ADDRESS_MAX];

		ASSERT_EQ(0, sn_tcp_listen(&stale, "127.0.0.1:0"));
		EXPECT_EQ(0, sn_tcp_listener_close(stale));
		Listener next;
		expect_each({
			MISTAKE(-EBADF, sn_tcp_accept(stale, &conn)),
			MISTAKE(-EBADF, sn_tcp_listener_set_deadline(stale, 1)),
			MISTAKE(-EBADF, sn_tcp_listener_address(stale, buf, sizeof buf)),
			MISTAKE(-EBADF, sn_tcp_listener_fd(stale)),
			MISTAKE(-EBADF, sn_tcp_listener_close(stale)),
		});
		Pair pair(next);
	}
}

TASK_TEST(Misuse, AClosedStreamIsNotItsSuccessor, 1)
{
	for (int i = 0; i < 20; i++) {
		int former[2], pipe_fds[2];
		sn_stream *stale = nullptr, *next = nullptr;
		char byte = 'x';

		ASSERT_EQ(0, pipe2(former, O_CLOEXEC));
		ASSERT_EQ(0, sn_stream_adopt(&stale, former[1]));
		EXPECT_EQ(0, sn_stream_close(stale));
		ASSERT_EQ(0, pipe2(pipe_fds, O_CLOEXEC));
		ASSERT_EQ(0, sn_stream_adopt(&next, pipe_fds[1]));
		expect_each({
			MISTAKE(-EBADF, sn_stream_write(stale, &byte, 1)),
			MISTAKE(-EBADF, sn_stream_write_all(stale, &byte, 1, nullptr)),
			MISTAKE(-EBADF, sn_stream_read(stale, &byte, 1)),
			MISTAKE(-EBADF, sn_stream_shutdown(stale, SN_SHUT_WRITE)),
			MISTAKE(-EBADF, sn_stream_set_read_deadline(stale, 1)),
			MISTAKE(-EBADF, sn_stream_set_write_deadline(stale, 1)),
			MISTAKE(-EBADF, sn_stream_fd(stale)),
			MISTAKE(-EBADF, sn_stream_cancel(stale)),
			MISTAKE(-EBADF, sn_stream_abort(stale)),
			MISTAKE(-EBADF, sn_stream_close(stale)),
		});
		EXPECT_EQ(1, sn_stream_write(next, &byte, 1));
		EXPECT_EQ(0, sn_stream_close(next));
		close(former[0]);
		close(pipe_fds[0]);
	}
}

TASK_TEST(Misuse, AdoptingDescriptorsWithoutBytes, 1)
{
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int event = eventfd(0, EFD_CLOEXEC);
	struct sockaddr_un name = {};
	sn_stream *stream = nullptr;

	name.sun_family = AF_UNIX; /* the system chooses a name */
	ASSERT_EQ(0, bind(listening, (struct sockaddr *)&name, sizeof name.sun_family));
	ASSERT_EQ(0, listen(listening, 1));
	EXPECT_EQ(-EINVAL, sn_stream_adopt(&stream, epoll));
	EXPECT_EQ(-EPROTOTYPE, sn_stream_adopt(&stream, listening));
	EXPECT_EQ(0, close(epoll)) << "the descriptor still belongs to the caller";
	EXPECT_EQ(0, close(listening));
	EXPECT_EQ(0, sn_stream_adopt(&stream, event)) << "the descriptor is a stream of bytes";
	EXPECT_EQ(0, sn_stream_close(stream));
}

// The connection belongs to a run that has ended.
TEST(Misuse, AConnectionEndsWithItsRun)
{
	sn_tcp *stale = nullptr;
	sn_tcp_listener *listener = nullptr;

	test::run(1, [&] {
		Listener own;

		ASSERT_EQ(0, sn_tcp_listen(&listener, "127.0.0.1:0"));
		stale = test::connect(own.address());
	});
	test::run(1, [&] {
		Pair pair;
		sn_tcp *conn = nullptr;

		EXPECT_EQ(-EBADF, sn_tcp_write(stale, "x", 1));
		EXPECT_EQ(-EBADF, sn_tcp_close(stale));
		EXPECT_EQ(-EBADF, sn_tcp_accept(listener, &conn));
		EXPECT_EQ(-EBADF, sn_tcp_listener_close(listener));
	});
}

// A copy keeps the structures of both streams from being reused, even while it waits in neither.
TASK_TEST(Misuse, ClosedWhileItIsCopied, 1, 2)
{
	Listener listener;
	Pair from(listener), to(listener);
	Task copier([&, src = from.server.load(), dst = to.client.load()] {
		return sn_copy(sn_tcp_stream(dst), sn_tcp_stream(src), -1, nullptr, nullptr,
			       nullptr);
	});

	EXPECT_TRUE(test::eventually([&] { return probe_fd_waiting(from.server, 0); }));
	EXPECT_EQ(0, sn_tcp_close(to.release_client()));
	EXPECT_EQ(0, sn_tcp_close(from.release_server()));
	EXPECT_EQ(-EBADF, copier.join());
}

} // namespace
