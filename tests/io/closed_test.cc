// SPDX-License-Identifier: MIT
//
// A descriptor that is closed while a task waits for it, for every kind of wait: the wait ends
// immediately, with -EBADF, and no descriptor stays open.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/eventfd.h>

#include "support/descriptors.h"
#include "support/streams.h"
#include "support/udp.h"
#include "support/unix.h"

namespace
{

using namespace test;

const std::string much(size_t(8) << 20, 'x');

// A call that waits on a stream, and the side on which it waits.
struct Wait {
	const char *name;
	int side;
	std::function<ssize_t(sn_stream *)> call;
};

std::vector<Wait> waits_of_streams()
{
	static char buf[64];
	static iovec into[2] = {{buf, 16}, {buf + 16, 16}};
	static const iovec from[2] = {{const_cast<char *>(much.data()), much.size() / 2},
				      {const_cast<char *>(much.data()), much.size() / 2}};

	return {
		{"read", 0, [](sn_stream *s) { return sn_stream_read(s, buf, sizeof buf); }},
		{"read_full", 0,
		 [](sn_stream *s) { return sn_stream_read_full(s, buf, sizeof buf, nullptr); }},
		{"readv", 0, [](sn_stream *s) { return sn_stream_readv(s, into, 2); }},
		{"a reader", 0,
		 [](sn_stream *s) {
			 sn_reader reader;
			 char *line;
			 size_t length;

			 EXPECT_EQ(0, sn_reader_init(&reader, s, nullptr, 0));
			 const ssize_t n = sn_reader_line(&reader, &line, &length);
			 sn_reader_free(&reader);
			 return n;
		 }},
		{"write_all", 1,
		 [](sn_stream *s) {
			 return sn_stream_write_all(s, much.data(), much.size(), nullptr);
		 }},
		{"write", 1,
		 [](sn_stream *s) {
			 ssize_t n;

			 while ((n = sn_stream_write(s, much.data(), much.size())) > 0)
				 continue;
			 return n;
		 }},
		{"writev_all", 1,
		 [](sn_stream *s) { return sn_stream_writev_all(s, from, 2, nullptr); }},
		{"a writer", 1,
		 [](sn_stream *s) {
			 sn_writer writer;

			 EXPECT_EQ(0, sn_writer_init(&writer, s, nullptr, 0));
			 const ssize_t n = sn_writer_write(&writer, much.data(), much.size());
			 sn_writer_free(&writer);
			 return n;
		 }},
	};
}

// Closes the stream once a task waits on that side, and expects the wait to end.
void expect_ends(const std::string &name, sn_stream *stream, int side, Task &task)
{
	ASSERT_TRUE(test::eventually([&] { return probe_fd_waiting(stream, side); })) << name;
	EXPECT_EQ(0, sn_stream_close(stream)) << name;
	EXPECT_EQ(-EBADF, task.join()) << name;
}

TASK_TEST(ClosedUnderAWaiter, Streams)
{
	const int before = test::open_descriptors();

	for (const Wait &wait : waits_of_streams()) {
		int pipe_ends[2], pair[2];

		// The end on which the task waits, and the other end.
		ASSERT_EQ(0, pipe2(pipe_ends, O_CLOEXEC));
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		Pair tcp;
		const struct {
			const char *name;
			sn_stream *stream;
		} kinds[] = {
			{"TCP", sn_tcp_stream(tcp.release_client())},
			{"a Unix socket", adopt(pair[0])},
			{"a pipe", adopt(pipe_ends[wait.side])},
		};
		for (const auto &kind : kinds) {
			Task task([&] { return int(wait.call(kind.stream)); });
			expect_ends(std::string(wait.name) + " of " + kind.name, kind.stream,
				    wait.side, task);
		}
		close(pair[1]);
		close(pipe_ends[1 - wait.side]);
	}
	EXPECT_EQ(before, test::open_descriptors());
}

TASK_TEST(ClosedUnderAWaiter, ListenersAndTheEndOfAConnection)
{
	Listener listener;
	test::UnixListener names;
	Pair pair(listener);
	sn_tcp *conn = pair.release_client();
	sn_stream *const stream = sn_tcp_stream(conn);

	Task closed([&] { return sn_tcp_wait_closed(conn); });
	expect_ends("sn_tcp_wait_closed", stream, 0, closed);
	Task tcp([&] {
		sn_tcp *made = nullptr;
		return sn_tcp_accept(listener.get(), &made);
	});
	ASSERT_TRUE(test::someone_reads(listener.get()));
	listener.close();
	EXPECT_EQ(-EBADF, tcp.join());
	Task local([&] {
		sn_unix *made = nullptr;
		return sn_unix_accept(names.get(), &made);
	});
	ASSERT_TRUE(test::someone_reads(names.get()));
	names.close();
	EXPECT_EQ(-EBADF, local.join());
}

TASK_TEST(ClosedUnderAWaiter, Messages)
{
	for (sn_unix_type type : {SN_UNIX_STREAM, SN_UNIX_DATAGRAM, SN_UNIX_SEQPACKET})
		for (int side : {0, 1}) {
			test::UnixPair pair(type);
			Task task([&] {
				char text[1000] = "";
				sn_unix_message message = {};
				ssize_t n;

				message.data = text;
				message.size = sizeof text;
				if (side == 0)
					return int(sn_unix_recv(pair.a, &message));
				while ((n = sn_unix_send(pair.a, &message)) > 0)
					continue;
				return int(n);
			});
			ASSERT_TRUE(test::eventually([&] {
				return probe_fd_waiting(pair.a, side);
			})) << type
			    << ' ' << side;
			pair.close_a();
			EXPECT_EQ(-EBADF, task.join()) << type << ' ' << side;
		}
	for (bool several : {false, true}) {
		test::Socket socket;
		Task task([&] {
			test::Message message;
			sn_udp *const udp = socket.get();

			return several ? sn_udp_recv_messages(udp, &message, 1)
				       : int(sn_udp_recv(udp, message.data, message.size, nullptr));
		});
		ASSERT_TRUE(test::receivers_wait(socket));
		socket.close();
		EXPECT_EQ(-EBADF, task.join()) << several;
	}
}

// The closed descriptor belongs to sennit, or to the program.
TASK_TEST(ClosedUnderAWaiter, PollableDescriptors)
{
	for (bool own : {true, false}) {
		Pair pair;
		const int mine = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		const int fd = own ? sn_tcp_fd(pair.client) : mine;
		pollfd several[] = {{-1, POLLIN, 0}, {fd, POLLIN, 0}};
		sn_case cases[1] = {};

		cases[0].op = SN_CASE_POLL;
		cases[0].poll.fd = fd;
		cases[0].poll.events = POLLIN;
		Task wait([&] { return sn_fd_wait(fd, POLLIN, SN_NO_DEADLINE); });
		Task any([&] { return sn_fd_wait_any(several, 2, SN_NO_DEADLINE); });
		Task select([&] { return sn_select(cases, 1, SN_NO_DEADLINE); });
		ASSERT_TRUE(test::eventually([&] { return probe_watch_waits(fd) == 3; }));
		if (own)
			pair.close_client();
		else
			EXPECT_EQ(0, sn_fd_closing(fd));
		close(mine);
		EXPECT_EQ(-EBADF, wait.join()) << own;
		EXPECT_EQ(1, any.join()) << own;
		EXPECT_EQ(POLLNVAL, several[1].revents) << own;
		EXPECT_EQ(0, select.join()) << own;
		EXPECT_EQ(-EBADF, cases[0].result) << own;
	}
}

TASK_TEST(ClosedUnderAWaiter, CopiesAndRelays)
{
	for (bool source : {true, false}) {
		Listener listener;
		Pair from(listener), to(listener);
		sn_copy_result result = {};
		sn_stream *const src = sn_tcp_stream(from.server);
		sn_stream *const dst = sn_tcp_stream(to.server);
		Task copy([&] { return sn_copy(dst, src, -1, nullptr, nullptr, &result); });

		if (source) {
			ASSERT_TRUE(test::someone_reads(from.server));
			from.close_server();
			EXPECT_EQ(-EBADF, copy.join());
			EXPECT_EQ(SN_COPY_READ, result.failed);
		} else {
			Task sender([&] {
				return int(sn_tcp_write_all(from.client, much.data(), much.size(),
							    nullptr));
			});
			ASSERT_TRUE(test::someone_writes(to.server));
			to.close_server();
			EXPECT_EQ(-EBADF, copy.join());
			EXPECT_EQ(SN_COPY_WRITE, result.failed);
			from.close_server();
			sender.join();
		}
	}
	for (bool first : {true, false}) {
		Listener listener;
		Pair a(listener), b(listener);
		sn_relay_result result = {};
		Task relay([&] {
			return sn_relay(sn_tcp_stream(a.server), sn_tcp_stream(b.server), &result,
					nullptr);
		});

		ASSERT_TRUE(test::eventually([&] {
			return probe_fd_waiting(a.server, 0) || probe_fd_waiting(b.server, 0);
		}));
		(first ? a : b).close_server();
		EXPECT_EQ(-EBADF, relay.join()) << first;
		EXPECT_EQ(SN_RELAY_CANCELED, result.end) << first;
	}
}

TASK_TEST(ClosedUnderAWaiter, AProgramsPipe)
{
	const char *argv[] = {"cat", nullptr};
	sn_process_attr attr = {};
	sn_process *process = nullptr;

	attr.in = attr.out = {SN_PROCESS_PIPE, 0};
	ASSERT_EQ(0, sn_process_start(&process, argv, &attr));
	sn_stream *const out = sn_process_stream(process, 1);
	Task reader([&] {
		char byte;
		return int(sn_stream_read(out, &byte, 1));
	});
	ASSERT_TRUE(test::eventually([&] { return probe_fd_waiting(out, 0); }));
	EXPECT_EQ(0, sn_process_close(process));
	EXPECT_EQ(-EBADF, reader.join());
}

} // namespace
