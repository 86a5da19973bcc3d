/* SPDX-License-Identifier: MIT */
/* Labels: memory */
/*
 * The hello in the first datagrams of QUIC, in pieces of all kinds. The packets are made here
 * without encryption, which quic_crypto_test.cc tests, so that the short form of fuzzing reaches
 * the code behind it.
 */
#include "mutations.hpp"
#include "relay/quic_crypto_fake.hpp"
#include "relay/quic_properties.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

using relay::quic_hello;
using relay::tls_hello;
using state = relay::quic_hello::state;
using namespace std::string_literals;

namespace
{

std::string varint(std::size_t n)
{
	if (n < 64)
		return {static_cast<char>(n)};
	if (n < 16384)
		return {static_cast<char>(0x40 | n >> 8), static_cast<char>(n & 0xff)};
	return {static_cast<char>(0x80 | n >> 24), static_cast<char>(n >> 16 & 0xff),
		static_cast<char>(n >> 8 & 0xff), static_cast<char>(n & 0xff)};
}

std::string crypto(const std::string &of, std::size_t from, std::size_t size)
{
	const auto part = of.substr(from, size);
	return "\x06" + varint(from) + varint(part.size()) + part;
}

std::string initial(const std::string &frames, const std::string &destination = "abcdefgh")
{
	return "\xc0\0\0\0\x01"s + static_cast<char>(destination.size()) + destination + "\x02xy"s +
	       '\0' + varint(1 + frames.size() + relay::quic_tag_size) + '\0' + frames +
	       std::string(relay::quic_tag_size, 't');
}

/* A hello that asks for the name, with a padding extension of so many bytes (RFC 7685). */
std::string hello_for(const std::string &name, std::size_t padding = 0)
{
	const auto number = [](std::size_t n) {
		return std::string{static_cast<char>(n >> 8), static_cast<char>(n & 0xff)};
	};
	const auto entry = "\0"s + number(name.size()) + name;
	const auto list = number(entry.size()) + entry;
	const auto extensions = "\0\0"s + number(list.size()) + list + "\0\x15"s + number(padding) +
				std::string(padding, '\0');
	const auto body = "\x03\x03" + std::string(32, 'r') + '\0' + "\0\x02\x13\x01\x01\0"s +
			  number(extensions.size()) + extensions;
	return "\x01\0"s + number(body.size()) + body;
}

TEST(QuicHello, IsReadFromOneDatagram)
{
	quic_hello reading;
	tls_hello hello;
	const auto message = hello_for("www.example.org");
	EXPECT_EQ(reading.add(initial(crypto(message, 0, 1000) + std::string(500, '\0')), hello),
		  state::done);
	EXPECT_EQ(hello.name, "www.example.org");
}

/* Three overlapping pieces are put together in every order, from one datagram or three. */
TEST(QuicHello, IsPutTogether)
{
	const auto message = hello_for("a.example", 700);
	std::vector<std::string> frames = {crypto(message, 0, 310), crypto(message, 300, 210),
					   crypto(message, 500, 1000)};
	std::ranges::sort(frames);
	do {
		quic_hello one, three, twice;
		tls_hello hello;
		EXPECT_EQ(one.add(initial(frames[0] + "\x01" + frames[1] + frames[2]), hello),
			  state::done);
		EXPECT_EQ(hello.name, "a.example");
		for (std::size_t i = 0; i < 3; i++) {
			const auto expected = i < 2 ? state::more : state::done;
			EXPECT_EQ(three.add(initial(frames[i]), hello), expected);
		}
		EXPECT_EQ(hello.name, "a.example");
		const auto coalesced = initial(frames[0]) + initial(frames[1]) + initial(frames[2]);
		EXPECT_EQ(twice.add(coalesced, hello), state::done);
	} while (std::ranges::next_permutation(frames).found);
}

TEST(QuicHello, OfOneByteEach)
{
	const auto message = hello_for("a.example");
	std::vector<std::size_t> order(message.size());
	for (std::size_t i = 0; i < order.size(); i++)
		order[i] = i;
	SCOPED_TRACE("seed " + std::to_string(harness::seed()));
	std::mt19937_64 random(harness::seed());
	std::ranges::shuffle(order, random);
	quic_hello reading;
	tls_hello hello;
	for (std::size_t i = 0; i < order.size(); i++)
		EXPECT_EQ(reading.add(initial(crypto(message, order[i], 1)), hello),
			  i + 1 < order.size() ? state::more : state::done);
	EXPECT_EQ(hello.name, "a.example");
}

/* Clients of servers that allow it may clear the fixed bit (RFC 9287). */
TEST(QuicHello, TheFixedBitMayBeClear)
{
	quic_hello reading;
	tls_hello hello;
	auto packet = initial(crypto(hello_for("a.example"), 0, 900));
	packet[0] = '\x80';
	EXPECT_EQ(reading.add(packet, hello), state::done);
	EXPECT_EQ(hello.name, "a.example");
}

/* What clients send is within the bounds, and nothing beyond them is read. */
TEST(QuicHello, TheWorkForADatagramIsBounded)
{
	const auto message = hello_for("a.example", 200);
	const auto scattered = [&](std::size_t frames) {
		std::string made;
		for (std::size_t i = 0; i + 1 < frames; i++)
			made += crypto(message, i % (message.size() - 1), 1);
		return made + crypto(message, 0, 900);
	};
	const auto packets = [&](std::size_t n) {
		std::string made;
		for (std::size_t i = 0; i < n; i++)
			made += initial(crypto(message, i, i + 1 < n ? 1 : 900));
		return made;
	};
	tls_hello hello;
	for (const auto &good : {initial(scattered(256)), packets(4),
				 initial(scattered(200) + std::string(7500, '\0'))}) {
		quic_hello reading;
		EXPECT_EQ(reading.add(good, hello), state::done) << good.size();
		EXPECT_EQ(hello.name, "a.example");
	}
	for (const auto &bad :
	     {initial(scattered(257)), packets(5),
	      initial(scattered(200) + std::string(9000, '\0')), initial(scattered(13'000))}) {
		quic_hello reading;
		EXPECT_EQ(reading.add(bad, hello), state::bad) << bad.size();
	}
	quic_hello other;
	EXPECT_EQ(other.add(std::string(60'000, 'x'), hello), state::not_first);
}

TEST(QuicHello, OtherFramesAreSkipped)
{
	const auto message = hello_for("a.example");
	quic_hello reading;
	tls_hello hello;
	EXPECT_EQ(
		reading.add(initial("\x02\x05\0\x01\x02\0\x01"s + "\x03\x05\0\0\x02\x01\x02\x03"s +
				    "\x1c\x01\x06\x02no\x01"s + crypto(message, 0, 900)),
			    hello),
		state::done);
	for (const auto &bad : {"\x04"s, "\x08\x01x"s, "\x1d\0\0"s, "\x06\0\x40"s, "\x02\x05"s,
				"\x40"s, "\x06\x05\x7f\xff"s}) {
		quic_hello other;
		EXPECT_EQ(other.add(initial(bad + std::string()), hello), state::bad)
			<< testing::PrintToString(bad);
	}
}

TEST(QuicHello, TellsWhatItIsNot)
{
	tls_hello hello;
	const auto message = hello_for("a.example");
	for (const auto &none :
	     {""s, "\x40 short header"s, "\x80\0\0\0\x01"s, "GET / HTTP/1.1"s,
	      "\xc0\0\0\0\0\x01x\x01y\0\0\0\x01"s, "\xc0\0\0\0\x01\x15"s + std::string(60, 'x')}) {
		quic_hello reading;
		EXPECT_EQ(reading.add(none, hello), state::not_first)
			<< testing::PrintToString(none);
	}
	quic_hello other, too_large, of_two, server, gap;
	EXPECT_EQ(other.add("\xc0\x1a\x2a\x3a\x4a\x01x\x01yrest"s, hello), state::other_version);
	EXPECT_EQ(too_large.add(initial("\x06\x80\0\x40\0\x01x"s), hello), state::bad);
	EXPECT_EQ(of_two.add(initial(crypto(message, 0, 9)), hello), state::more);
	EXPECT_EQ(of_two.add(initial(crypto(message, 9, 900), "another"), hello), state::bad);
	EXPECT_EQ(of_two.add("\x40 of no interest", hello), state::more);
	EXPECT_EQ(of_two.add(initial(crypto(message, 9, 900)), hello), state::done);
	EXPECT_EQ(server.add(initial(crypto("\x02" + message.substr(1), 0, 900)), hello),
		  state::bad);
	EXPECT_EQ(gap.add(initial(crypto(message, 1, 900)), hello), state::more);
}

/* 0-RTT may overtake the Initial, which then decides. In a datagram after an Initial, or after the
 * beginning of a hello, it is part of the same. */
TEST(QuicHello, ZeroRttBeforeItIsEarly)
{
	tls_hello hello;
	const auto message = hello_for("a.example");
	const auto rest = "\x08"s + "abcdefgh\x02xy"s + varint(20) + std::string(20, 'e');
	const auto early = "\xd0\0\0\0\x01"s + rest;
	const auto early_2 = "\xe0\x6b\x33\x43\xcf"s + rest;
	const auto handshake = "\xe0\0\0\0\x01"s + rest;
	quic_hello reading;
	for (const auto &each : {early, early_2, early + "\x40 short header"})
		EXPECT_EQ(reading.add(each, hello), state::early) << testing::PrintToString(each);
	EXPECT_EQ(reading.add(handshake, hello), state::not_first);
	EXPECT_EQ(reading.add(handshake + early, hello), state::not_first);
	EXPECT_EQ(reading.add(initial(crypto(message, 0, 50)), hello), state::more);
	EXPECT_EQ(reading.add(early, hello), state::more);
	EXPECT_EQ(reading.add(early + initial(crypto(message, 50, 900)), hello), state::done);
	EXPECT_EQ(hello.name, "a.example");
}

TEST(QuicHello, AnotherVersionIsAnswered)
{
	const auto packet = relay::read_quic_packet("\xc0\x1a\x2a\x3a\x4a\x03"
						    "abc\x02yzrest");
	ASSERT_EQ(packet.is, relay::quic_packet::kind::other_version);
	EXPECT_EQ(relay::write_version_negotiation(packet),
		  "\xc0\0\0\0\0\x02yz\x03"s + "abc\0\0\0\x01"s);
}

TEST(QuicHello, HoldsItsProperties)
{
	const auto change = [](std::string &bytes, std::size_t at, mutations::dice &below) {
		switch (below(4)) {
		case 0:
			bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
			break;
		case 1: /* headers are at the start */
			bytes[at % 40 % bytes.size()] = static_cast<char>(below(256));
			break;
		case 2:
			bytes.erase(at, 1 + below(8));
			break;
		case 3:
			bytes.insert(at, 1 + below(8), static_cast<char>(below(256)));
			break;
		}
	};
	mutations::check_all(mutations::seeds("quic_hello"), 20000, 4, change,
			     [](const auto &bytes) { properties::quic_hello(bytes); });
}

} // namespace
