/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * PROXY headers: reading those that proxy_headers.py generates independently of the relay's code;
 * writing headers; and what the parser reports before a header is complete.
 * fuzz/relay/properties.hpp has the properties that hold for all headers.
 */
#include "wire/proxy_header.hpp"

#include "harness.hpp"
#include "relay/properties.hpp"

#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <vector>

using namespace std::string_literals;
using namespace std::string_view_literals;
using relay::parsed;
using relay::proxy_header;
using relay::proxy_versions;
using relay::read_proxy_header;

namespace
{

constexpr auto v2_signature = "\r\n\r\n\0\r\nQUIT\n"sv;

std::vector<std::string> split(const std::string &line)
{
	std::vector<std::string> fields;
	std::size_t at = 0;
	for (std::size_t tab; (tab = line.find('\t', at)) != line.npos; at = tab + 1)
		fields.push_back(line.substr(at, tab - at));
	fields.push_back(line.substr(at));
	return fields;
}

std::string from_hex(const std::string &hex)
{
	std::string bytes;
	for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
		bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
	return bytes;
}

std::vector<std::string> output_of(const std::string &command)
{
	std::vector<std::string> lines;
	FILE *pipe = popen(command.c_str(), "r");
	if (!pipe)
		return lines;
	std::string line;
	for (int c; (c = std::fgetc(pipe)) != EOF;) {
		if (c != '\n') {
			line += static_cast<char>(c);
			continue;
		}
		lines.push_back(line);
		line.clear();
	}
	EXPECT_EQ(pclose(pipe), 0) << command;
	return lines;
}

parsed read(std::string_view bytes, proxy_versions allowed = proxy_versions::either)
{
	proxy_header unused;
	return read_proxy_header(bytes, unused, allowed);
}

TEST(ProxyHeader, IsReadAsItsWriterMeantIt)
{
	const auto seed = harness::seed() % 1000000;
	const auto lines = output_of("python3 " RELAY_PROXY_HEADERS " " + std::to_string(seed));
	ASSERT_GT(lines.size(), 1000U);
	for (const auto &line : lines) {
		SCOPED_TRACE("seed " + std::to_string(seed) + ": " + line);
		const auto fields = split(line);
		ASSERT_EQ(fields.size(), 7U);
		const auto bytes = from_hex(fields[0]);
		proxy_header header;
		const auto got = read_proxy_header(bytes, header);
		properties::proxy_header(bytes);
		if (fields[1] == "bad") {
			EXPECT_EQ(got.is, parsed::state::bad);
			continue;
		}
		ASSERT_TRUE(got) << got.why;
		EXPECT_EQ(std::to_string(got.size), fields[1]);
		EXPECT_EQ(to_text(header, header.source), fields[2]);
		EXPECT_EQ(to_text(header, header.destination), fields[3]);
		EXPECT_EQ(header.authority, fields[4]);
		EXPECT_EQ(header.unique_id, from_hex(fields[5]));
		EXPECT_EQ(header.checked, fields[6] == "1");
		EXPECT_FALSE(header.datagram);
	}
}

TEST(ProxyHeader, AsksForNoByteBeyondItself)
{
	const auto line = "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\nrest"s;
	const auto end = line.size() - 4;
	std::size_t have = 0;
	int wakes = 0;
	/* Reads only as much as the parser asks for. */
	for (parsed now = read({}); now.is == parsed::state::more;
	     now = read(std::string_view(line).substr(0, have))) {
		ASSERT_GT(now.size, have);
		ASSERT_LE(now.size, end);
		have = now.size;
		wakes++;
	}
	EXPECT_EQ(have, end);
	EXPECT_LT(wakes, 25);
}

TEST(ProxyHeader, RejectsEarlyWhatCannotBecomeAHeader)
{
	EXPECT_EQ(read("").is, parsed::state::more);
	EXPECT_EQ(read("P").is, parsed::state::more);
	EXPECT_EQ(read("G").is, parsed::state::bad);
	EXPECT_EQ(read("PROXY").is, parsed::state::more);
	EXPECT_EQ(read("PROXX").is, parsed::state::bad);
	EXPECT_EQ(read("\r\n\r\n\0\r\nQUIT"sv), parsed::more(16));
	EXPECT_EQ(read("\r\n\r\n\1").is, parsed::state::bad);
	EXPECT_EQ(read(std::string(v2_signature) + "\x31").is, parsed::state::bad);
	/* A line that never ends. */
	EXPECT_EQ(read("PROXY " + std::string(99, 'x')).is, parsed::state::more);
	EXPECT_EQ(read("PROXY " + std::string(100, 'x')).is, parsed::state::bad);
	/* A header that is longer than allowed is refused before the rest of it has come. */
	EXPECT_EQ(read(std::string(v2_signature) + "\x21\x11\x3f\xf1"s).is, parsed::state::bad);
	EXPECT_EQ(read(std::string(v2_signature) + "\x21\x11\x3f\xf0"s), parsed::more(16384));
}

TEST(ProxyHeader, AcceptsOnlyTheAllowedVersion)
{
	const auto v1 = "PROXY UNKNOWN\r\n"sv;
	const auto v2 = std::string(v2_signature) + "\x20\0\0\0"s;
	EXPECT_TRUE(read(v1, proxy_versions::v1));
	EXPECT_FALSE(read(v1, proxy_versions::v2));
	EXPECT_TRUE(read(v2, proxy_versions::v2));
	EXPECT_EQ(read(v2, proxy_versions::v1).is, parsed::state::bad);
	EXPECT_TRUE(read(v1));
	EXPECT_TRUE(read(v2));
}

TEST(ProxyHeader, IsWrittenAsTheProtocolSays)
{
	proxy_header header;
	EXPECT_EQ(write_proxy_v1(header), "PROXY UNKNOWN\r\n");
	EXPECT_EQ(write_proxy_v2(header), std::string(v2_signature) + "\x21\0\0\0"s);
	header.own = true;
	EXPECT_EQ(write_proxy_v1(header), "PROXY UNKNOWN\r\n");
	EXPECT_EQ(write_proxy_v2(header), std::string(v2_signature) + "\x20\0\0\0"s);
	header.own = false;

	header.of = proxy_header::family::ipv4;
	header.source.ip = {192, 0, 2, 1};
	header.source.port = 56324;
	header.destination.ip = {198, 51, 100, 7};
	header.destination.port = 443;
	EXPECT_EQ(write_proxy_v1(header), "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n");
	EXPECT_EQ(write_proxy_v2(header),
		  std::string(v2_signature) +
			  "\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x07\xdc\x04\x01\xbb"s);
	header.datagram = true;
	EXPECT_EQ(write_proxy_v1(header), "PROXY UNKNOWN\r\n");
	header.datagram = false;

	header.of = proxy_header::family::ipv6;
	header.source.ip.fill(0xff);
	header.destination.ip.fill(0xff);
	header.source.port = header.destination.port = 65535;
	const std::string ip = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
	EXPECT_EQ(write_proxy_v1(header), "PROXY TCP6 " + ip + " " + ip + " 65535 65535\r\n");

	/* No record may be longer than the parser accepts. */
	header.authority.assign(1000, 'a');
	header.unique_id.assign(1000, 'u');
	proxy_header again;
	ASSERT_TRUE(read_proxy_header(write_proxy_v2(header, true), again));
	EXPECT_EQ(again.authority, std::string(255, 'a'));
	EXPECT_EQ(again.unique_id, std::string(128, 'u'));
	EXPECT_TRUE(again.checked);
}

std::string record(char type, std::string_view value)
{
	return type +
	       std::string{static_cast<char>(value.size() >> 8),
			   static_cast<char>(value.size() & 0xff)} +
	       std::string(value);
}

TEST(ProxyHeader, PassesRecordsOn)
{
	const std::string ends = "\xc0\0\x02\x01\xc6\x33\x64\x07\xdc\x04\x01\xbb"s;
	const std::string about_tls = "\x07\0\0\0\0"s + record(0x21, "TLSv1.3");
	const std::string body = ends + record(4, "pad") + record('\xe0', "one") +
				 record(0x20, about_tls) + record(1, "h2") + record(4, "") +
				 record('\xe0', "two") + record(0x30, "") + record(2, "a.test");
	const auto header = [](const std::string &after) {
		return std::string(v2_signature) + "\x21\x11"s + record('\0', after).substr(1);
	};
	proxy_header read;
	ASSERT_TRUE(read_proxy_header(header(body), read));
	EXPECT_TRUE(read.tls);
	EXPECT_EQ(read.tls_bytes, about_tls);
	/* The known records come first, and then the others in their order, without padding. */
	EXPECT_EQ(write_proxy_v2(read),
		  header(ends + record(1, "h2") + record(2, "a.test") + record(0x20, about_tls) +
			 record('\xe0', "one") + record('\xe0', "two") + record(0x30, "")));

	/* If the client's own TLS ended at the relay, the relay's record replaces the proxy's. */
	auto &says = read.about_tls.emplace();
	says.version = "TLSv1.2";
	says.cipher = "ECDHE-RSA-AES128-GCM-SHA256";
	read.others.clear();
	EXPECT_EQ(write_proxy_v2(read),
		  header(ends + record(1, "h2") + record(2, "a.test") +
			 record(0x20, "\x01\0\0\0\x01"s + record(0x21, "TLSv1.2") +
					      record(0x23, "ECDHE-RSA-AES128-GCM-SHA256"))));
	says.has_certificate = true;
	says.common_name = "client";
	EXPECT_NE(write_proxy_v2(read).find("\x05\0\0\0\0"s + record(0x21, "TLSv1.2") +
					    record(0x22, "client")),
		  std::string::npos);
	says.shown_now = true;
	EXPECT_NE(write_proxy_v2(read).find("\x07\0\0\0\0"s + record(0x21, "TLSv1.2")),
		  std::string::npos);
}

TEST(ProxyHeader, HasAClientsCertificateThatFits)
{
	/* What another proxy has said of it is read and passed on as it is. */
	const std::string ends = "\xc0\0\x02\x01\xc6\x33\x64\x07\xdc\x04\x01\xbb"s;
	const std::string theirs =
		record(0x20, "\x07\0\0\0\0"s + record(0x28, std::string(3000, 'c')));
	proxy_header read;
	const std::string header =
		std::string(v2_signature) + "\x21\x11"s + record('\0', ends + theirs).substr(1);
	ASSERT_TRUE(read_proxy_header(header, read));
	EXPECT_EQ(write_proxy_v2(read), header);

	auto &says = read.about_tls.emplace();
	says = {.version = "TLSv1.3",
		.cipher = "TLS_AES_128_GCM_SHA256",
		.has_certificate = true,
		.common_name = "client",
		.certificate = std::string(1000, 'c')};
	read.others.push_back({static_cast<unsigned char>(0xe0), std::string(2000, 'o')});
	for (const bool checksum : {false, true}) {
		says.certificate.resize(1000, 'c');
		const auto small = write_proxy_v2(read, checksum);
		EXPECT_NE(small.find(record(0x28, says.certificate)), std::string::npos);
		says.certificate.resize(1000 + relay::proxy_v2_most - small.size(), 'c');
		bool left_out = true;
		const auto full = write_proxy_v2(read, checksum, &left_out);
		EXPECT_FALSE(left_out);
		EXPECT_EQ(full.size(), relay::proxy_v2_most);
		EXPECT_NE(full.find(record(0x28, says.certificate)), std::string::npos);
		proxy_header again;
		EXPECT_TRUE(read_proxy_header(full, again));
		/* One byte more, or more than a length can say: only the certificate is left
		 * out. */
		for (const std::size_t size : {says.certificate.size() + 1, std::size_t{70000}}) {
			proxy_header longer = read;
			longer.about_tls->certificate.resize(size, 'c');
			const auto without = write_proxy_v2(longer, checksum, &left_out);
			EXPECT_TRUE(left_out);
			EXPECT_EQ(without.size(), small.size() - 1003);
			left_out = false;
			EXPECT_TRUE(read_proxy_header(without, again));
			EXPECT_NE(without.find(record(0x22, "client")), std::string::npos);
		}
	}
}

TEST(ProxyHeader, ChecksumIsCastagnolis)
{
	EXPECT_EQ(relay::crc32c("123456789"), 0xe3069283U);
	EXPECT_EQ(relay::crc32c(""), 0U);
	EXPECT_EQ(relay::crc32c(std::string(32, '\0')), 0x8a9136aaU);
}

} // namespace
