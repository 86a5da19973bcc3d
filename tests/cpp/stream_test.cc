/* SPDX-License-Identifier: MIT */
/* What connections, Unix sockets and streams have in common: each type has all of these
 * operations. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <gtest/gtest.h>
#include <span>
#include <string>
#include <sys/socket.h>
#include <type_traits>
#include <utility>

using namespace std::chrono_literals;

namespace
{

/* The two ends of a connection, as objects of each type. */
template <class T>
std::pair<T, T> ends();

template <>
std::pair<sn::tcp, sn::tcp> ends()
{
	auto listener = sn::tcp_listener::listen("127.0.0.1:0").value();
	auto connect = sn::spawn(
		[&] { return sn::tcp::connect(listener.address().value(), 1min).value(); });
	auto accepted = listener.accept().value();
	return {connect.join(), std::move(accepted)};
}

template <>
std::pair<sn::unix_socket, sn::unix_socket> ends()
{
	return sn::unix_socket::pair().value();
}

template <>
std::pair<sn::stream, sn::stream> ends()
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		throw std::system_error(errno, std::generic_category());
	return {sn::stream::adopt(pair[0]).value(), sn::stream::adopt(pair[1]).value()};
}

std::string read_text(auto &from, std::size_t size)
{
	std::string text(size, '\0');
	text.resize(from.read_full(text.data(), size).value());
	return text;
}

template <class T>
class StreamOps : public testing::Test
{
};
using types = testing::Types<sn::tcp, sn::unix_socket, sn::stream>;
TYPED_TEST_SUITE(StreamOps, types);

} // namespace

TYPED_TEST(StreamOps, MoveBytes)
{
	sn::run([] {
		auto [a, b] = ends<TypeParam>();
		char one[] = "one", two[] = "two";
		const std::array<iovec, 2> pieces = {{{one, 3}, {two, 3}}};
		std::array<std::byte, 3> bytes{};
		std::size_t done = 0;

		EXPECT_EQ(a.write("x", 1).value(), 1U);
		EXPECT_EQ(a.write(std::span<const std::byte>(bytes)).value(), 3U);
		EXPECT_TRUE(a.write_all("yz"));
		EXPECT_TRUE(a.write_all(std::span<const std::byte>(bytes)));
		EXPECT_EQ(a.writev(pieces).value(), 6U);
		EXPECT_TRUE(a.writev_all(pieces, &done));
		EXPECT_EQ(done, 6U);
		const std::string zeros(3, '\0');
		EXPECT_EQ(read_text(b, 9), "x" + zeros + "yz" + zeros);
		EXPECT_EQ(read_text(b, 9), "onetwoone");
		EXPECT_EQ(b.read(std::span<std::byte>(bytes)).value(), 3U);
		EXPECT_EQ(bytes[0], std::byte{'t'});

		iovec into = {one, 3};
		EXPECT_TRUE(b.write_all("end"));
		EXPECT_EQ(a.readv({&into, 1}).value(), 3U);
		EXPECT_STREQ(one, "end");
	});
}

TYPED_TEST(StreamOps, EndEachHalf)
{
	sn::run([] {
		auto [a, b] = ends<TypeParam>();
		char byte;

		EXPECT_TRUE(a.shutdown_write());
		EXPECT_EQ(b.read(&byte, 1).value(), 0U);
		EXPECT_TRUE(b.write_all("x"));
		EXPECT_EQ(a.read(&byte, 1).value(), 1U);
		EXPECT_TRUE(a.shutdown_read());
		EXPECT_EQ(a.read(&byte, 1).value(), 0U)
			<< "although the peer has not ended its half";
	});
}

TYPED_TEST(StreamOps, StopWaiting)
{
	sn::run([] {
		auto [a, b] = ends<TypeParam>();
		char byte;

		a.set_read_deadline(1ms);
		EXPECT_EQ(a.read(&byte, 1).error(), std::errc::timed_out);
		a.set_write_deadline(-1s);
		EXPECT_EQ(a.write_all(std::string(64 << 20, 'x')).error(), std::errc::timed_out);
		a.set_read_deadline(sn::no_deadline);
		auto waits = sn::spawn([&, &a = a] { return a.read(&byte, 1).error(); });
		a.cancel();
		EXPECT_EQ(waits.join(), std::errc::operation_canceled);
		a.close();
		EXPECT_FALSE(a);
		b.abort();
		EXPECT_FALSE(b);
		b.abort();
	});
}

TYPED_TEST(StreamOps, KnowTheirDescriptor)
{
	sn::run([] {
		auto [a, b] = ends<TypeParam>();
		int type = 0;
		socklen_t size = sizeof type;

		ASSERT_GE(a.native_handle(), 0);
		EXPECT_EQ(getsockopt(a.native_handle(), SOL_SOCKET, SO_TYPE, &type, &size), 0);
		EXPECT_EQ(type, SOCK_STREAM);
		EXPECT_NE(a.native_handle(), b.native_handle());
		EXPECT_EQ(sn_stream_fd(a.as_stream()), a.native_handle());

		const TypeParam moved = std::move(a);
		EXPECT_FALSE(a);
		EXPECT_GE(moved.native_handle(), 0);
	});
}

TEST(NativeHandle, OfWhatHasADescriptor)
{
	sn::run([] {
		const auto tcp = sn::tcp_listener::listen("127.0.0.1:0").value();
		const auto local = sn::unix_listener::listen("@").value();
		const auto udp = sn::udp::open("127.0.0.1:0").value();

		for (const int fd :
		     {tcp.native_handle(), local.native_handle(), udp.native_handle()}) {
			sockaddr_storage address;
			socklen_t size = sizeof address;
			EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size),
				  0);
		}
	});
}

/* An object is as cheap as a pointer. */
static_assert(sizeof(sn::tcp) == sizeof(void *) && sizeof(sn::stream) == sizeof(void *) &&
	      sizeof(sn::unix_socket) == sizeof(void *));
static_assert(std::is_nothrow_move_constructible_v<sn::tcp> &&
	      !std::is_copy_constructible_v<sn::tcp>);
static_assert(sn::byte_stream<sn::tcp> && sn::byte_stream<sn::stream> &&
	      sn::byte_stream<sn::unix_socket> && !sn::byte_stream<sn::udp> &&
	      !sn::byte_stream<std::string>);
