/* SPDX-License-Identifier: MIT */
/* The keys of QUIC's first packets, and a complete packet of each version: the examples in the
 * appendices A of RFC 9001 and RFC 9369. */
#include "wire/quic_crypto.hpp"
#include "wire/quic_hello.hpp"

#include <gtest/gtest.h>

namespace
{

std::string from_hex(std::string_view digits)
{
	std::string bytes;
	for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
		bytes +=
			static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
	return bytes;
}

template <std::size_t Size>
std::string text(const std::array<unsigned char, Size> &bytes)
{
	return {bytes.begin(), bytes.end()};
}

constexpr std::string_view packet_1 =
	"c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9bd8bab936"
	"b47d92ec356c0bab7df5976d27cd449f63300099f3991c260ec4c60d17b31f8429157bb35a1282a643a8"
	"d2262cad67500cadb8e7378c8eb7539ec4d4905fed1bee1fc8aafba17c750e2c7ace01e6005f80fcb7df"
	"621230c83711b39343fa028cea7f7fb5ff89eac2308249a02252155e2347b63d58c5457afd84d05dfffd"
	"b20392844ae812154682e9cf012f9021a6f0be17ddd0c2084dce25ff9b06cde535d0f920a2db1bf362c2"
	"3e596d11a4f5a6cf3948838a3aec4e15daf8500a6ef69ec4e3feb6b1d98e610ac8b7ec3faf6ad760b7ba"
	"d1db4ba3485e8a94dc250ae3fdb41ed15fb6a8e5eba0fc3dd60bc8e30c5c4287e53805db059ae0648db2"
	"f64264ed5e39be2e20d82df566da8dd5998ccabdae053060ae6c7b4378e846d29f37ed7b4ea9ec5d82e7"
	"961b7f25a9323851f681d582363aa5f89937f5a67258bf63ad6f1a0b1d96dbd4faddfcefc5266ba66117"
	"22395c906556be52afe3f565636ad1b17d508b73d8743eeb524be22b3dcbc2c7468d54119c7468449a13"
	"d8e3b95811a198f3491de3e7fe942b330407abf82a4ed7c1b311663ac69890f4157015853d91e923037c"
	"227a33cdd5ec281ca3f79c44546b9d90ca00f064c99e3dd97911d39fe9c5d0b23a229a234cb36186c481"
	"9e8b9c5927726632291d6a418211cc2962e20fe47feb3edf330f2c603a9d48c0fcb5699dbfe5896425c5"
	"bac4aee82e57a85aaf4e2513e4f05796b07ba2ee47d80506f8d2c25e50fd14de71e6c418559302f939b0"
	"e1abd576f279c4b2e0feb85c1f28ff18f58891ffef132eef2fa09346aee33c28eb130ff28f5b76695333"
	"4113211996d20011a198e3fc433f9f2541010ae17c1bf202580f6047472fb36857fe843b19f5984009dd"
	"c324044e847a4f4a0ab34f719595de37252d6235365e9b84392b061085349d73203a4a13e96f5432ec0f"
	"d4a1ee65accdd5e3904df54c1da510b0ff20dcc0c77fcb2c0e0eb605cb0504db87632cf3d8b4dae6e705"
	"769d1de354270123cb11450efc60ac47683d7b8d0f811365565fd98c4c8eb936bcab8d069fc33bd801b0"
	"3adea2e1fbc5aa463d08ca19896d2bf59a071b851e6c239052172f296bfb5e72404790a2181014f3b94a"
	"4e97d117b438130368cc39dbb2d198065ae3986547926cd2162f40a29f0c3c8745c0f50fba3852e566d4"
	"4575c29d39a03f0cda721984b6f440591f355e12d439ff150aab7613499dbd49adabc8676eef023b15b6"
	"5bfc5ca06948109f23f350db82123535eb8a7433bdabcb909271a6ecbcb58b936a88cd4e8f2e6ff58001"
	"75f113253d8fa9ca8885c2f552e657dc603f252e1a8e308f76f0be79e2fb8f5d5fbbe2e30ecadd220723"
	"c8c0aea8078cdfcb3868263ff8f0940054da48781893a7e49ad5aff4af300cd804a6b6279ab3ff3afb64"
	"491c85194aab760d58a606654f9f4400e8b38591356fbf6425aca26dc85244259ff2b19c41b9f96f3ca9"
	"ec1dde434da7d2d392b905ddf3d1f9af93d1af5950bd493f5aa731b4056df31bd267b6b90a079831aaf5"
	"79be0a39013137aac6d404f518cfd46840647e78bfe706ca4cf5e9c5453e9f7cfd2b8b4c8d169a44e55c"
	"88d4a9a7f9474241e221af44860018ab0856972e194cd934";

constexpr std::string_view packet_2 =
	"d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485dd04de806071bf03dcee"
	"bfa162e75d6c96058bdbfb127cdfcbf903388e99ad049f9a3dd4425ae4d0992cfff18ecf0fdb5a842d09"
	"747052f17ac2053d21f57c5d250f2c4f0e0202b70785b7946e992e58a59ac52dea6774d4f03b55545243"
	"cf1a12834e3f249a78d395e0d18f4d766004f1a2674802a747eaa901c3f10cda5500cb9122faa9f1df66"
	"c392079a1b40f0de1c6054196a11cbea40afb6ef5253cd6818f6625efce3b6def6ba7e4b37a40f7732e0"
	"93daa7d52190935b8da58976ff3312ae50b187c1433c0f028edcc4c2838b6a9bfc226ca4b4530e7a4cce"
	"e1bfa2a3d396ae5a3fb512384b2fdd851f784a65e03f2c4fbe11a53c7777c023462239dd6f7521a3f6c7"
	"d5dd3ec9b3f233773d4b46d23cc375eb198c63301c21801f6520bcfb7966fc49b393f0061d974a2706df"
	"8c4a9449f11d7f3d2dcbb90c6b877045636e7c0c0fe4eb0f697545460c806910d2c355f1d253bc9d2452"
	"aaa549e27a1fac7cf4ed77f322e8fa894b6a83810a34b361901751a6f5eb65a0326e07de7c1216ccce2d"
	"0193f958bb3850a833f7ae432b65bc5a53975c155aa4bcb4f7b2c4e54df16efaf6ddea94e2c50b4cd1df"
	"e06017e0e9d02900cffe1935e0491d77ffb4fdf85290fdd893d577b1131a610ef6a5c32b2ee0293617a3"
	"7cbb08b847741c3b8017c25ca9052ca1079d8b78aebd47876d330a30f6a8c6d61dd1ab5589329de714d1"
	"9d61370f8149748c72f132f0fc99f34d766c6938597040d8f9e2bb522ff99c63a344d6a2ae8aa8e51b7b"
	"90a4a806105fcbca31506c446151adfeceb51b91abfe43960977c87471cf9ad4074d30e10d6a7f03c63b"
	"d5d4317f68ff325ba3bd80bf4dc8b52a0ba031758022eb025cdd770b44d6d6cf0670f4e990b22347a7db"
	"848265e3e5eb72dfe8299ad7481a408322cac55786e52f633b2fb6b614eaed18d703dd84045a274ae8bf"
	"a73379661388d6991fe39b0d93debb41700b41f90a15c4d526250235ddcd6776fc77bc97e7a417ebcb31"
	"600d01e57f32162a8560cacc7e27a096d37a1a86952ec71bd89a3e9a30a2a26162984d7740f81193e823"
	"8e61f6b5b984d4d3dfa033c1bb7e4f0037febf406d91c0dccf32acf423cfa1e7071010d3f270121b493c"
	"e85054ef58bada42310138fe081adb04e2bd901f2f13458b3d6758158197107c14ebb193230cd1157380"
	"aa79cae1374a7c1e5bbcb80ee23e06ebfde206bfb0fcbc0edc4ebec309661bdd908d532eb0c6adc38b7c"
	"a7331dce8dfce39ab71e7c32d318d136b6100671a1ae6a6600e3899f31f0eed19e3417d134b90c9058f8"
	"632c798d4490da4987307cba922d61c39805d072b589bd52fdf1e86215c2d54e6670e07383a27bbffb5a"
	"ddf47d66aa85a0c6f9f32e59d85a44dd5d3b22dc2be80919b490437ae4f36a0ae55edf1d0b5cb4e9a3ec"
	"abee93dfc6e38d209d0fa6536d27a5d6fbb17641cde27525d61093f1b28072d111b2b4ae5f89d5974ee1"
	"2e5cf7d5da4d6a31123041f33e61407e76cffcdcfd7e19ba58cf4b536f4c4938ae79324dc402894b44fa"
	"f8afbab35282ab659d13c93f70412e85cb199a37ddec600545473cfb5a05e08d0b209973b2172b4d21fb"
	"69745a262ccde96ba18b2faa745b6fe189cf772a9f84cbfc";

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

INSTANTIATE_TEST_SUITE_P(All, QuicCrypto, testing::ValuesIn(examples),
			 [](const auto &of) { return of.index == 0 ? "Version1" : "Version2"; });

} // namespace
