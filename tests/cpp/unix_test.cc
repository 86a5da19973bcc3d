/* SPDX-License-Identifier: MIT */
/* Unix sockets through the C++ interface. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <utility>

using namespace std::chrono_literals;

namespace
{

TEST(Unix, StreamsAreRelayedAndRead)
{
	sn::run([] {
		auto front = sn::unix_listener::listen("@").value();
		auto back = sn::unix_listener::listen("unix:@").value();
		auto echo = sn::spawn([&] {
			auto peer = back.accept().value();
			auto end = sn::copy(peer, peer);
			EXPECT_TRUE(end);
		});
		auto relay = sn::spawn([&] {
			auto in = front.accept().value();
			auto out = sn::unix_socket::connect(back.address().value()).value();
			EXPECT_TRUE(sn::relay(in, out));
		});
		auto client = sn::unix_socket::connect(front.address().value()).value();
		char got[4];

		EXPECT_TRUE(client.write_all("echo"));
		EXPECT_EQ(4u, client.read_full(got, 4).value());
		EXPECT_EQ("echo", std::string(got, 4));
		EXPECT_TRUE(client.shutdown_write());
		EXPECT_EQ(0u, client.read(got, 4).value());
		relay.join();
		echo.join();
		EXPECT_EQ(getpid(), client.peer_credentials().value().pid);
		EXPECT_EQ(front.address().value(), client.peer_address().value());
		EXPECT_EQ("", client.local_address().value());
	});
}

TEST(Unix, MessagesCarryDescriptors)
{
	sn::run([] {
		auto [a, b] = sn::unix_socket::pair(sn::unix_type::seqpacket).value();
		int ends[2];
		char buf[16];

		ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
		EXPECT_EQ(3u, a.send("two", ends).value());
		int kept = -1, closed = -1;
		{
			auto got = b.recv(buf, sizeof buf, 2).value();
			EXPECT_EQ("two", std::string(buf, got.size));
			ASSERT_EQ(2u, got.fds.size());
			closed = got.fds[0];
			kept = got.fds.take(1);
			EXPECT_EQ(-1, got.fds[1]);
			EXPECT_EQ(0, fcntl(closed, F_GETFD) & ~FD_CLOEXEC);
		}
		EXPECT_EQ(-1, fcntl(closed, F_GETFD));
		EXPECT_EQ(1, write(kept, "x", 1));
		EXPECT_EQ(1, read(ends[0], buf, 1));
		close(kept);
		EXPECT_TRUE(a.send("too long"));
		EXPECT_EQ(b.recv(buf, 3).error(), std::errc::message_size);
		EXPECT_EQ(a.read(buf, 1).error(), std::errc::wrong_protocol_type);
		close(ends[0]);
		close(ends[1]);
	});
}

TEST(Unix, DatagramsAndErrors)
{
	sn::run([] {
		auto a = sn::unix_socket::bind("@").value(), b = sn::unix_socket::bind("@").value();
		char buf[16];

		EXPECT_EQ(2u, a.send_to(b.local_address().value(), "hi").value());
		const auto got = b.recv(buf, sizeof buf).value();
		EXPECT_EQ(2u, got.size);
		EXPECT_EQ(a.local_address().value(), got.from);
		b.set_read_deadline(sn::clock::now() + 1ms);
		EXPECT_EQ(b.recv(buf, 1).error(), std::errc::timed_out);
		using std::string_literals::operator""s;
		EXPECT_EQ(sn::unix_listener::listen("@a\0b"s).error(), std::errc::invalid_argument);
		EXPECT_EQ(sn::unix_socket::bind(a.local_address().value()).error(),
			  std::errc::address_in_use);
		EXPECT_EQ(sn::unix_socket::connect("/nowhere/at/all").error(),
			  std::errc::no_such_file_or_directory);
	});
}

TEST(Unix, TcpTakesItsAddresses)
{
	sn::run([] {
		auto front = sn::tcp_listener::listen("unix:@").value();
		auto back = sn::tcp_listener::listen("127.0.0.1:0").value();
		auto relay = sn::spawn([&] {
			auto in = front.accept().value();
			auto out = sn::tcp::connect(back.address().value()).value();
			EXPECT_EQ("unix:", in.peer_address().value());
			EXPECT_TRUE(sn::relay(in, out));
		});
		auto client = sn::tcp::connect(front.address().value()).value();
		auto served = back.accept().value();
		char got[4];

		EXPECT_TRUE(client.write_all("ping"));
		EXPECT_EQ(4u, served.read_full(got, 4).value());
		EXPECT_EQ("ping", std::string(got, 4));
		EXPECT_EQ(front.address().value(), client.peer_address().value());
		client.close();
		served.close();
		relay.join();
	});
}

TEST(Unix, ListenersGiveTheirPathAway)
{
	char folder[] = "/tmp/sennit-cpp-XXXXXX";
	ASSERT_NE(nullptr, mkdtemp(folder));
	const std::string path = std::string(folder) + "/socket";
	sn::run([&] {
		auto listener = sn::unix_listener::listen(path).value();
		EXPECT_TRUE(listener.set_unlink(false).value());
		EXPECT_FALSE(listener.set_unlink(false).value());
		listener.close();
		EXPECT_EQ(0, access(path.c_str(), F_OK));
	});
	EXPECT_EQ(0, unlink(path.c_str()));
	EXPECT_EQ(0, rmdir(folder));
}

} // namespace
