/* SPDX-License-Identifier: MIT */
/* Connections through the C++ interface. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <sennit/unstable.hpp>

#include <array>
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <utility>

#include "support/runtime.h"

using namespace std::chrono_literals;

namespace
{

struct pair {
	sn::tcp near;
	sn::tcp far;
};

/* Returns both ends of a connection. Call it in a task. */
pair connected()
{
	auto listener = sn::tcp_listener::listen("127.0.0.1:0").value();
	auto near = sn::tcp::connect(listener.address().value()).value();
	auto far = listener.accept().value();
	return {std::move(near), std::move(far)};
}

/* Such as a host that a peer has sent. C would take it for "127.0.0.1:0". */
TEST(Tcp, RefusesStringsWithAZeroInside)
{
	using namespace std::string_literals;

	sn::run([] {
		const std::string at = "127.0.0.1:0\0.example.org"s,
				  host = "127.0.0.1\0.example.org"s;
		const std::errc refused = std::errc::invalid_argument;

		EXPECT_EQ(sn::address::parse(at).error(), refused);
		EXPECT_EQ(sn::tcp::connect(at).error(), refused);
		EXPECT_EQ(sn::unstable::connect_to_write(at).error(), refused);
		EXPECT_EQ(sn::tcp_listener::listen(at).error(), refused);
		EXPECT_EQ(sn::udp::open(at).error(), refused);
		EXPECT_EQ(sn::udp::connect(at).error(), refused);
		EXPECT_EQ(sn::resolve(host, "80").error(), refused);
		EXPECT_EQ(sn::resolve("127.0.0.1", "80\0x"s).error(), refused);
		EXPECT_EQ(sn::resolve_srv(host).error(), refused);
	});
}

TEST(TcpListener, IsAdopted)
{
	sn::run([] {
		auto first = sn::tcp_listener::listen("127.0.0.1:0").value();
		const int fd = dup(first.native_handle());
		auto second = sn::tcp_listener::adopt(fd).value();
		first.close();
		const auto near = sn::tcp::connect(second.address().value()).value();
		EXPECT_TRUE(second.accept());
		EXPECT_EQ(sn::tcp_listener::adopt(-1).error(), std::errc::bad_file_descriptor);
	});
}

std::string read_all(sn::tcp &from)
{
	std::string text;
	char chunk[100];
	while (const std::size_t n = from.read(chunk, sizeof chunk).value())
		text.append(chunk, n);
	return text;
}

TEST(Tcp, Echo)
{
	sn::run([] {
		auto listener = sn::tcp_listener::listen("127.0.0.1:0").value();
		const auto address = listener.address().value();
		auto server = sn::spawn([&listener] {
			for (int i = 0; i < 3; i++)
				sn::go([peer = listener.accept().value()]() mutable {
					char chunk[64];
					while (const auto n =
						       peer.read(chunk, sizeof chunk).value_or(0))
						peer.write_all(chunk, n).value();
				});
		});
		for (int i = 0; i < 3; i++) {
			auto client = sn::tcp::connect(address, sn::after(10s)).value();
			client.write_all("hello " + std::to_string(i)).value();
			client.shutdown_write().value();
			EXPECT_EQ(read_all(client), "hello " + std::to_string(i));
		}
		server.join();
	});
}

TEST(Tcp, BytesWrittenAtOnceArrive)
{
	sn::run([] {
		auto listener = sn::tcp_listener::listen("127.0.0.1:0").value();
		const auto address = listener.address().value();
		auto near = sn::unstable::connect_to_write(address, sn::after(10s)).value();
		near.write_all("at once").value();
		auto far = listener.accept().value();
		near.shutdown_write().value();
		EXPECT_EQ(read_all(far), "at once");
		listener.close();
		EXPECT_EQ(sn::unstable::connect_to_write(address).error(),
			  std::errc::connection_refused);
	});
}

TEST(Tcp, AddressesOfBothEnds)
{
	sn::run([] {
		auto [near, far] = connected();
		EXPECT_EQ(near.local_address().value(), far.peer_address().value());
		EXPECT_EQ(near.peer_address().value(), far.local_address().value());
		EXPECT_TRUE(near.peer_address().value().starts_with("127.0.0.1:"));
	});
}

TEST(Tcp, ErrorsAreResults)
{
	sn::run([] {
		EXPECT_EQ(sn::tcp::connect("no port").error(), std::errc::invalid_argument);
		EXPECT_EQ(sn::tcp_listener::listen("127.0.0.1:no-such-service").error(),
			  std::errc::no_such_file_or_directory);

		auto listener = sn::tcp_listener::listen("127.0.0.1:0").value();
		const auto address = listener.address().value();
		EXPECT_EQ(sn::tcp_listener::listen(address).error(), std::errc::address_in_use);
		listener.set_deadline(sn::after(1ms));
		EXPECT_EQ(listener.accept().error(), std::errc::timed_out);
		listener.close();
		EXPECT_FALSE(listener);
		EXPECT_EQ(sn::tcp::connect(address).error(), std::errc::connection_refused);
	});
}

TEST(Tcp, DeadlinesCanBeMoved)
{
	sn::run([] {
		auto [near, far] = connected();
		char byte;
		near.set_read_deadline(sn::after(2ms));
		EXPECT_EQ(near.read(&byte, 1).error(), std::errc::timed_out);
		near.set_read_deadline(sn::no_deadline);
		far.write_all("x").value();
		EXPECT_EQ(near.read(&byte, 1).value(), 1U);
	});
}

TEST(Tcp, CancelWakesTheReaderAndKeepsTheConnection)
{
	sn::run([] {
		auto [near, far] = connected();
		sn::tcp &reads = near;
		auto reader = sn::spawn([&reads] {
			char byte;
			return reads.read(&byte, 1).error();
		});
		sn::sleep(2ms);
		near.cancel();
		EXPECT_EQ(reader.join(), std::errc::operation_canceled);
		EXPECT_EQ(near.write_all("x").error(), std::errc::operation_canceled);
		near.close();
		EXPECT_EQ(read_all(far), "");
	});
}

TEST(Tcp, AbortResetsAndCloseDoesNot)
{
	sn::run([] {
		char byte;
		auto [near, far] = connected();
		near.abort();
		near.abort();
		EXPECT_FALSE(near);
		EXPECT_EQ(far.read(&byte, 1).error(), std::errc::connection_reset);

		auto [other_near, other_far] = connected();
		other_near = sn::tcp();
		EXPECT_EQ(other_far.read(&byte, 1).value(), 0U);
	});
}

TEST(Tcp, WaitClosedEndsWithTheSecondHalf)
{
	sn::run([] {
		auto [near, far] = connected();
		near.shutdown_write().value();
		EXPECT_EQ(read_all(far), "");
		sn::tcp &ends = far;
		auto end = sn::spawn([&ends] { ends.shutdown_write().value(); });
		EXPECT_TRUE(near.wait_closed());
		end.join();
	});
}

TEST(Copy, CopiesToTheEndAndReportsProgress)
{
	sn::run([] {
		auto [in, src] = connected();
		auto [dst, out] = connected();
		const std::string text(300'000, 't');
		sn::tcp &writes = in;
		auto writer = sn::spawn([&writes, &text] {
			writes.write_all(text).value();
			writes.shutdown_write().value();
		});
		sn::tcp &reads = out;
		auto reader = sn::spawn([&reads] { return read_all(reads); });

		std::size_t reported = 0;
		const auto done = sn::copy(dst, src, [&reported](std::size_t n) { reported += n; });
		EXPECT_TRUE(done);
		EXPECT_EQ(done.bytes_read, text.size());
		EXPECT_EQ(done.bytes_written, text.size());
		EXPECT_EQ(reported, text.size());
		dst.shutdown_write().value();
		EXPECT_EQ(reader.join(), text);
		writer.join();
	});
}

TEST(Copy, ReportsWhichSideFailed)
{
	sn::run([] {
		auto [in, src] = connected();
		auto [dst, out] = connected();
		in.abort();
		const auto done = sn::copy(dst, src);
		EXPECT_FALSE(done);
		EXPECT_EQ(done.error, std::errc::connection_reset);
		EXPECT_EQ(done.failed, SN_COPY_READ);
	});
}

TEST(Descriptors, AreWaitedFor)
{
	sn::run([] {
		int ends[2];
		ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
		EXPECT_EQ(sn::wait_fd(ends[1], POLLOUT).value(), POLLOUT);
		EXPECT_EQ(sn::wait_fd(ends[0], POLLIN, sn::after(1ms)).error(),
			  std::errc::timed_out);
		auto waits = sn::spawn([&] { return sn::wait_fd(ends[0], POLLIN).value(); });
		EXPECT_EQ(1, write(ends[1], "x", 1));
		EXPECT_EQ(waits.join(), POLLIN);
		std::array<pollfd, 2> fds = {{{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}}};
		EXPECT_EQ(sn::wait_any_fd(fds).value(), 1u);
		EXPECT_EQ(fds[0].revents, POLLIN);
		EXPECT_EQ(fds[1].revents, 0);
		sn::closing_fd(ends[0]);
		close(ends[0]);
		close(ends[1]);
		EXPECT_EQ(sn::wait_fd(-1, POLLIN).error(), std::errc::bad_file_descriptor);
	});
}

TEST(Signals, AreWaitedForInATask)
{
	sn::run([] {
		sn::catch_signal(SIGUSR2).value();
		EXPECT_EQ(sn::wait_signal(sn::after(1ms)).error(), std::errc::timed_out);
		std::raise(SIGUSR2);
		EXPECT_EQ(sn::wait_signal().value(), SIGUSR2);
		EXPECT_EQ(sn::catch_signal(SIGSEGV).error(), std::errc::invalid_argument);
	});
}

struct echo {
	std::atomic<int> *ended;

	void operator()(sn::tcp peer) const
	{
		char c;
		const auto got = peer.read(&c, 1);

		if (got && *got == 1 && peer.write(&c, 1) &&
		    sn::go_when_readable(std::move(peer), *this))
			return;
		++*ended;
	}
};

TASK_TEST(Tcp, TasksBeginWhenThereIsSomethingToRead)
{
	auto [client, server] = connected();
	std::atomic<int> ended{0};
	char c = 0;

	ASSERT_TRUE(sn::go_when_readable(std::move(server), echo{&ended}));
	for (const char sent : {'a', 'b', 'c'}) {
		ASSERT_TRUE(client.write(&sent, 1));
		ASSERT_TRUE(client.read(&c, 1));
		EXPECT_EQ(sent, c);
	}
	EXPECT_EQ(0, ended);
	client.close();
	EXPECT_TRUE(test::eventually([&] { return ended == 1; }));
}

TASK_TEST(Tcp, AScopesTasksBeginWhenItIsCancelled)
{
	auto [client, server] = connected();
	std::error_code found;
	sn::scope scope;

	ASSERT_TRUE(sn::go_when_readable(scope, std::move(server), [&](sn::tcp peer) {
		char c;
		found = peer.read(&c, 1).error();
	}));
	scope.cancel();
	EXPECT_EQ(std::errc::operation_canceled, scope.join().error());
	EXPECT_EQ(std::errc::operation_canceled, found);
	EXPECT_EQ(std::errc::invalid_argument,
		  sn::go_when_readable(scope, std::move(client), [](sn::tcp) {}).error());
}

} // namespace
