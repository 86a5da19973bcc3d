/* SPDX-License-Identifier: MIT */
/* UDP through the C++ interface. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <array>
#include <gtest/gtest.h>
#include <net/if.h>
#include <string>
#include <sys/socket.h>
#include <unordered_map>
#include <utility>

#include "support/groups.h"

using namespace std::chrono_literals;

namespace
{

TEST(Address, IsAValue)
{
	const auto v4 = sn::address::parse("127.0.0.1:53").value();
	const auto v6 = sn::address::parse("[::1]:53").value();
	std::unordered_map<sn::address, std::string> names{{v4, "four"}, {v6, "six"}};

	EXPECT_EQ("127.0.0.1:53", v4.text());
	EXPECT_EQ("[::1]:53", v6.text());
	EXPECT_EQ("six", names.at(sn::address::parse("[::1]:53").value()));
	EXPECT_TRUE(v4 != v6 && (v4 < v6 || v6 < v4));
	EXPECT_TRUE(v4);
	EXPECT_FALSE(sn::address());
	EXPECT_EQ("", sn::address().text());
	EXPECT_EQ(sn::address::parse("name:53").error(), std::errc::invalid_argument);
}

TEST(Udp, Echo)
{
	sn::run([] {
		auto server = sn::udp::open("127.0.0.1:0").value();
		auto client = sn::udp::connect(server.local().value().text()).value();
		sn::task<void> echo = sn::spawn([&] {
			char buf[100];
			const sn::received got = server.receive(buf, sizeof buf).value();
			server.send(buf, got.size, got.peer).value();
		});
		char buf[100];

		EXPECT_EQ(server.local().value(), client.peer().value());
		EXPECT_TRUE(client.send("hello"));
		const auto got = client.receive(buf, sizeof buf).value();
		EXPECT_EQ("hello", std::string(buf, got.size));
		EXPECT_EQ(server.local().value(), got.peer);
		echo.join();
	});
}

TEST(Udp, Messages)
{
	sn::run([] {
		auto server = sn::udp::open(sn::address::parse("127.0.0.1:0").value(),
					    {.flags = SN_UDP_PACKET_INFO,
					     .receive_buffer = 100000,
					     .send_buffer = 100000})
				      .value();
		auto client = sn::udp::open("127.0.0.1:0").value();
		std::array<std::array<char, 100>, 3> room{};
		std::array<sn::udp_message, 3> all{};
		char text[] = "abc";

		for (std::size_t i = 0; i < 3; i++) {
			all[i].data = text;
			all[i].size = i;
			all[i].peer = server.local().value();
		}
		EXPECT_EQ(3u, client.send(all).value());
		for (std::size_t i = 0; i < 3; i++) {
			all[i].data = room[i].data();
			all[i].size = room[i].size();
		}
		ASSERT_EQ(3u, server.receive(all).value());
		for (std::size_t i = 0; i < 3; i++) {
			EXPECT_EQ(i, all[i].length);
			EXPECT_EQ(client.local().value(), sn::address(all[i].peer));
			EXPECT_EQ("127.0.0.1:0", sn::address(all[i].local).text());
		}
		EXPECT_EQ(100000, server.get(SN_UDP_RECEIVE_BUFFER).value());
	});
}

TEST(Udp, Errors)
{
	sn::run([] {
		auto socket = sn::udp::open("127.0.0.1:0", {.flags = SN_UDP_ERRORS,
							    .receive_buffer = 0,
							    .send_buffer = 0})
				      .value();
		const auto nobody = sn::udp::open("127.0.0.1:0").value().local().value();
		char buf[10];

		EXPECT_FALSE(socket.next_error().value());
		EXPECT_TRUE(socket.send("x", nobody));
		EXPECT_EQ(socket.receive(buf, sizeof buf).error(), std::errc::connection_refused);
		const auto error = socket.next_error().value();
		ASSERT_TRUE(error);
		EXPECT_EQ(ECONNREFUSED, error->error);
		EXPECT_EQ(nobody, sn::address(error->peer));

		EXPECT_EQ(sn::udp::open("127.0.0.1").error(), std::errc::invalid_argument);
		EXPECT_EQ(sn::udp::connect("name").error(), std::errc::invalid_argument);
		EXPECT_EQ(sn::udp::adopt(-1).error(), std::errc::bad_file_descriptor);
		EXPECT_EQ(socket.peer().error(), std::errc::not_connected);
		EXPECT_EQ(socket.send("x").error(), std::errc::destination_address_required);
		EXPECT_EQ(socket.set(SN_UDP_TTL, 0).error(), std::errc::invalid_argument);
		EXPECT_TRUE(socket.set_peer(nobody));
		EXPECT_EQ(nobody, socket.peer().value());
		EXPECT_TRUE(socket.clear_peer());
		socket.set_read_deadline(sn::clock::now() + 1ms);
		EXPECT_EQ(socket.receive(buf, sizeof buf).error(), std::errc::timed_out);
		socket.set_read_deadline(sn::no_deadline);
		socket.set_write_deadline(sn::clock::now() - 1ms);
		EXPECT_EQ(socket.send("x", nobody).error(), std::errc::timed_out);
		socket.cancel();
		EXPECT_EQ(socket.receive(buf, sizeof buf).error(), std::errc::operation_canceled);
		socket.close();
		EXPECT_FALSE(socket);
	});
}

TEST(Udp, Groups)
{
	if (test::emulator_lacks_groups())
		GTEST_SKIP() << "the emulator does not know MCAST_JOIN_GROUP";
	sn::run([] {
		auto member = sn::udp::open("0.0.0.0:0").value();
		const auto group = sn::address::parse("239.1.2.3:0").value();
		const unsigned lo = if_nametoindex("lo");

		EXPECT_TRUE(member.join(group, lo));
		EXPECT_EQ(member.join(group, lo).error(), std::errc::address_in_use);
		EXPECT_TRUE(member.leave(group, lo));
		EXPECT_EQ(member.leave(group, lo).error(), std::errc::address_not_available);
	});
}

} // namespace
