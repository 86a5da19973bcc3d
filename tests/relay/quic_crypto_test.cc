/* SPDX-License-Identifier: MIT */
/* The keys of QUIC's first packets, and a complete packet of each version: the examples in the
 * appendices A of RFC 9001 and RFC 9369. */
#include "quic_examples.hpp"
#include "wire/quic_crypto.hpp"
#include "wire/quic_hello.hpp"

#include <gtest/gtest.h>

using namespace quic_examples;

namespace
{

template <std::size_t Size>
std::string text(const std::array<unsigned char, Size> &bytes)
{
	return {bytes.begin(), bytes.end()};
}

struct example;
void PrintTo(const example &one, std::ostream *out);

struct example {
	std::uint32_t version;
	std::string key, iv, header, sample, mask;
	std::string_view packet;
};

const example examples[] = {
	{relay::quic_version_1, "1f369613dd76d5467730efcbe3b1a22d", "fa044b2f42a3fd3b46fb255c",
	 "9f50449e04a0e810283a1e9933adedd2", "d1b1c98dd7689fb8ec11d242b123dc9b", "437b9aec36",
	 packet_1},
	{relay::quic_version_2, "8b1a0bc121284290a29e0971b5cd045d", "91f73e2351d8fa91660e909f",
	 "45b95e15235d6f45a6b19cbcb0294ba9", "ffe67b6abcdb4298b485dd04de806071", "94a0c95e80",
	 packet_2},
};

void PrintTo(const example &one, std::ostream *out)
{
	*out << "version " << one.version;
}

class QuicCrypto : public testing::TestWithParam<example>
{
protected:
	void SetUp() override
	{
		if (!relay::has_quic_crypto())
			GTEST_SKIP() << "this build is without OpenSSL";
	}
};

TEST_P(QuicCrypto, HasTheKeysOfTheExample)
{
	relay::quic_keys keys;
	ASSERT_TRUE(
		relay::derive_quic_keys(GetParam().version, from_hex("8394c8f03e515708"), keys));
	EXPECT_EQ(text(keys.key), from_hex(GetParam().key));
	EXPECT_EQ(text(keys.iv), from_hex(GetParam().iv));
	EXPECT_EQ(text(keys.header), from_hex(GetParam().header));
	std::array<unsigned char, 5> mask;
	ASSERT_TRUE(relay::quic_header_mask(keys, from_hex(GetParam().sample), mask));
	EXPECT_EQ(text(mask), from_hex(GetParam().mask));
	EXPECT_FALSE(relay::quic_header_mask(keys, "short", mask));
}

TEST_P(QuicCrypto, ReadsThePacketOfTheExample)
{
	const auto packet = from_hex(GetParam().packet);
	ASSERT_EQ(packet.size(), 1200U);
	relay::quic_hello reading;
	relay::tls_hello hello;
	EXPECT_EQ(reading.add(packet, hello), relay::quic_hello::state::done);
	EXPECT_EQ(hello.name, "example.com");
	EXPECT_EQ(hello.alpn, "\x04"
			      "alpn");
	/* Another packet may follow, or bytes that are not a packet. */
	relay::quic_hello again;
	EXPECT_EQ(again.add(packet + packet + "\x40", hello), relay::quic_hello::state::done);
}

/* A changed byte is detected wherever it is, because all bytes are authenticated. */
TEST_P(QuicCrypto, DoesNotReadAPacketThatWasChanged)
{
	const auto packet = from_hex(GetParam().packet);
	for (std::size_t at = 0; at < packet.size(); at += at < 64 ? 1 : 97) {
		auto changed = packet;
		changed[at] = static_cast<char>(changed[at] ^ 1);
		relay::quic_hello reading;
		relay::tls_hello hello;
		EXPECT_NE(reading.add(changed, hello), relay::quic_hello::state::done) << at;
	}
	for (std::size_t size = 0; size < packet.size(); size += size < 64 ? 1 : 97) {
		relay::quic_hello reading;
		relay::tls_hello hello;
		EXPECT_NE(reading.add(std::string_view(packet).substr(0, size), hello),
			  relay::quic_hello::state::done)
			<< size;
	}
}

/* The bit is a part of what is authenticated. */
TEST(QuicCryptoBits, TheFixedBitMayBeClear)
{
	if (!relay::has_quic_crypto())
		GTEST_SKIP() << "this build is without OpenSSL";
	relay::tls_hello hello;
	auto packet = from_hex(clear_bit);
	EXPECT_EQ(relay::quic_hello().add(packet, hello), relay::quic_hello::state::done);
	EXPECT_EQ(hello.name, "example.com");
	packet[0] = static_cast<char>(packet[0] ^ 0x40);
	EXPECT_EQ(relay::quic_hello().add(packet, hello), relay::quic_hello::state::bad);
}

INSTANTIATE_TEST_SUITE_P(All, QuicCrypto, testing::ValuesIn(examples),
			 [](const auto &of) { return of.index == 0 ? "Version1" : "Version2"; });

} // namespace
