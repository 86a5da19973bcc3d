/* SPDX-License-Identifier: MIT */
/*
 * The keys of TLS in the configuration file: what they mean, and one mistake for each of them.
 * tls_files_test.py tests mistakes in the files that they name.
 */
#include "config/config.hpp"
#include "tls/tls_context.hpp"

#include <gtest/gtest.h>

using relay::client_certificates;
using relay::tls_version;

namespace
{

std::variant<relay::config, relay::config_errors> read(const std::string &listener,
						       const std::string &group)
{
	return relay::parse_config("[listeners.l]\naddress = ':1'\n" + listener + "\n[groups.g]\n" +
					   group + "\n[groups.h]\nbackends = ['h:2']\n",
				   "f");
}

const std::string to_g = "group = 'g'\n";
const std::string backends = "backends = ['h:1']\n";

relay::config good(const std::string &listener, const std::string &group = backends)
{
	auto made = read(to_g + listener, group);
	if (const auto *errors = std::get_if<relay::config_errors>(&made)) {
		for (const auto &line : errors->lines)
			ADD_FAILURE() << line;
		return {};
	}
	return std::get<relay::config>(made);
}

class ConfigTls : public testing::Test
{
protected:
	void SetUp() override
	{
		if (!relay::tls_is_built)
			GTEST_SKIP() << "there is no OpenSSL";
	}
};

TEST(ConfigWithoutTls, SaysSo)
{
	if (relay::tls_is_built)
		GTEST_SKIP() << "there is OpenSSL";
	const std::string text = "tls: this sennit-relay is built without TLS";
	for (const auto &made : {read(to_g + "tls = { certificate = 'a' }", backends),
				 read(to_g, backends + "tls = true")}) {
		const auto *errors = std::get_if<relay::config_errors>(&made);
		ASSERT_TRUE(errors);
		ASSERT_EQ(errors->lines.size(), 1U);
		EXPECT_NE(errors->lines.front().find(text), std::string::npos)
			<< errors->lines.front();
	}
	/* Passing TLS through needs no OpenSSL. */
	EXPECT_TRUE(std::holds_alternative<relay::config>(
		read("sni = { a = 'g' }\nalpn = { h2 = 'h' }", backends)));
}

TEST_F(ConfigTls, HasTheValuesOfAListener)
{
	auto all = good("tls = { certificate = 'a.pem' }");
	ASSERT_TRUE(all.listeners[0].tls);
	const relay::tls_server_settings expected{.certificates = {{"a.pem", "a.pem"}}};
	EXPECT_EQ(*all.listeners[0].tls, expected);
	EXPECT_FALSE(all.listeners[0].reads_hello());
	EXPECT_FALSE(all.groups[0].tls);

	all = good(R"(
alpn = { h2 = 'h' }
[listeners.l.tls]
certificate = ['a.pem', { certificate = 'b.pem', key = 'b.key' }, { certificate = 'c.pem' }]
alpn = ['h2', 'http/1.1']
min_version = '1.3'
client_certificate = 'optional'
client_ca = 'ca.pem'
client_crl = 'crl.pem'
)");
	const relay::tls_server_settings full{
		.certificates = {{"a.pem", "a.pem"}, {"b.pem", "b.key"}, {"c.pem", "c.pem"}},
		.alpn = {"h2", "http/1.1"},
		.lowest = tls_version::v1_3,
		.clients = client_certificates::optional,
		.client_ca = "ca.pem",
		.client_crl = "crl.pem"};
	EXPECT_EQ(all.listeners[0].tls, full);
	ASSERT_EQ(all.listeners[0].alpn.size(), 1U);
	EXPECT_EQ(all.listeners[0].alpn[0].protocol, "h2");
	EXPECT_EQ(all.listeners[0].alpn[0].group, 1U);
	EXPECT_EQ(good("tls = { certificate = 'a', key = 'k' }")
			  .listeners[0]
			  .tls->certificates[0]
			  .key,
		  "k");
}

/* A client's protocol is not known before the client has connected. */
TEST_F(ConfigTls, HandshakesAheadHaveTheProtocolsOfTheGroup)
{
	const std::string listener = "tls = { certificate = 'a.pem', alpn = ['h2'] }";
	const std::string group = backends + "preconnect = 1\n";
	for (const auto &made : {read(to_g + listener, group + "tls = true"),
				 read("sni = { a = 'g' }\n" + listener, group + "tls = true"),
				 read("alpn = { h2 = 'g' }\n" + listener, group + "tls = true")}) {
		const auto *errors = std::get_if<relay::config_errors>(&made);
		ASSERT_TRUE(errors);
		ASSERT_EQ(errors->lines.size(), 1U);
		EXPECT_TRUE(errors->lines.front().starts_with("f:3:")) << errors->lines.front();
		EXPECT_NE(errors->lines.front().find(
				  ": leads to groups.g, which has preconnect and tls"),
			  std::string::npos)
			<< errors->lines.front();
	}
	good(listener, group);
	good(listener, group + "tls = { alpn = ['h2'] }");
	good(listener, group + "tls = true\nsend_proxy = 'v2'");
	good("tls = { certificate = 'a.pem' }", group + "tls = true");
}

TEST_F(ConfigTls, HasTheValuesOfAGroup)
{
	EXPECT_EQ(good("", backends + "tls = true").groups[0].tls, relay::tls_client_settings{});
	EXPECT_FALSE(good("", backends + "tls = false").groups[0].tls);
	EXPECT_TRUE(good("", backends + "tls = {}").groups[0].tls->verify);
	EXPECT_FALSE(good("", backends + "tls = { verify = false }").groups[0].tls->verify);
	const auto all = good("", backends + R"(
send_proxy = 'v2'
send_proxy_with = ['unique-id', 'crc32c', 'client-certificate']
tls = { ca = 'ca', crl = 'crl', name = 'DB.example', certificate = 'c', key = 'k', alpn = ['x'] }
check = { tls = false }
)");
	const relay::tls_client_settings expected{.ca = "ca",
						  .crl = "crl",
						  .name = "DB.example",
						  .certificate = {"c", "k"},
						  .alpn = {"x"}};
	EXPECT_EQ(all.groups[0].tls, expected);
	EXPECT_EQ(all.groups[0].check.tls, false);
	EXPECT_TRUE(all.groups[0].send_proxy_with.checksum);
	EXPECT_TRUE(all.groups[0].send_proxy_with.unique_id);
	EXPECT_TRUE(all.groups[0].send_proxy_with.client_certificate);
	for (const char *name : {"10.0.0.7", "::1", "a_b.c"})
		EXPECT_EQ(
			good("", backends + "tls = { name = '" + name + "' }").groups[0].tls->name,
			name);
	/* Without verification no name is needed. */
	good("", "backends = ['unix:/a', 'srv:_x._tcp.y']\ntls = { verify = false }");
}

TEST_F(ConfigTls, RoutesByProtocolNeedNoGroup)
{
	const auto made = read("alpn = { 'acme-tls/1' = 'h' }", backends);
	ASSERT_TRUE(std::holds_alternative<relay::config>(made));
	EXPECT_TRUE(std::get<relay::config>(made).listeners[0].reads_hello());
}

struct mistake {
	const char *listener;
	const char *group;
	const char *error; /* the text after the position */
};

TEST_F(ConfigTls, EachMistakeIsNamed)
{
	const mistake all[] = {
		{"tls = true", "", "listeners.l.tls: is a boolean; expected a table"},
		{"tls = {}", "", "listeners.l.tls.certificate: missing; expected a file"},
		{"tls = { certificate = 1 }", "",
		 "listeners.l.tls.certificate: is an integer; expected a file, or an array"},
		{"tls = { certificate = '' }", "", "listeners.l.tls.certificate: is empty"},
		{"tls = { certificate = [] }", "",
		 "listeners.l.tls.certificate: is empty; expected at least one"},
		{"tls = { certificate = [1] }", "",
		 "listeners.l.tls.certificate[0]: is an integer; expected a file, or a table"},
		{"tls = { certificate = ['a', ''] }", "",
		 "listeners.l.tls.certificate[1]: is empty"},
		{"tls = { certificate = [{ key = 'k' }] }", "",
		 "listeners.l.tls.certificate[0].certificate: missing"},
		{"tls = { certificate = [{ certificate = 'a', name = 'n' }] }", "",
		 "listeners.l.tls.certificate[0].name: unknown key; expected one of certificate, "
		 "key"},
		{"tls = { certificate = ['a'], key = 'k' }", "",
		 "listeners.l.tls.key: is set beside an array of certificates"},
		{"tls = { certificate = 'a', key = 7 }", "",
		 "listeners.l.tls.key: is an integer; expected a string"},
		{"tls = { certificate = 'a', alpn = 'h2' }", "",
		 "listeners.l.tls.alpn: is a string; expected an array of protocols"},
		{"tls = { certificate = 'a', alpn = [] }", "",
		 "listeners.l.tls.alpn: is empty; expected 1 to 32 protocols"},
		{"tls = { certificate = 'a', alpn = ['h2,x'] }", "",
		 "listeners.l.tls.alpn[0]: \"h2,x\" is not the name of a protocol"},
		{"tls = { certificate = 'a', alpn = ['h2', 'h2'] }", "",
		 "listeners.l.tls.alpn[1]: \"h2\" is there twice"},
		{"tls = { certificate = 'a', alpn = [2] }", "",
		 "listeners.l.tls.alpn[0]: is an integer; expected a protocol"},
		{"tls = { certificate = 'a', min_version = '1.1' }", "",
		 "listeners.l.tls.min_version: \"1.1\" is none of the choices; expected one of "
		 "1.2, "
		 "1.3"},
		{"tls = { certificate = 'a', client_certificate = 'on' }", "",
		 "listeners.l.tls.client_certificate: \"on\" is none of the choices; expected one "
		 "of "
		 "off, optional, required"},
		{"tls = { certificate = 'a', client_certificate = 'required' }", "",
		 "listeners.l.tls.client_certificate: is set without client_ca"},
		{"tls = { certificate = 'a', client_ca = 'c' }", "",
		 "listeners.l.tls.client_ca: means nothing here; expected client_certificate"},
		{"tls = { certificate = 'a', client_crl = 'c' }", "",
		 "listeners.l.tls.client_crl: means nothing here; expected client_certificate"},
		{"tls = { certificate = 'a', ca = 'c' }", "", "listeners.l.tls.ca: unknown key"},
		{"alpn = 'h2'", "", "listeners.l.alpn: is a string; expected a table"},
		{"alpn = {}", "", "listeners.l.alpn: is empty; expected at least one protocol"},
		{"alpn = { h2 = 'nobody' }", "", "listeners.l.alpn.\"h2\": \"nobody\" is unknown"},
		{"alpn = { 'a b' = 'h' }", "",
		 "listeners.l.alpn.\"a b\": is not the name of a protocol"},
		{"alpn = { h2 = 'h' }\ntls = { certificate = 'a' }", "",
		 "listeners.l.alpn.\"h2\": is never agreed on; expected it in tls.alpn as well"},
		{"", "tls = 'yes'", "groups.g.tls: is a string; expected true, false or a table"},
		{"", "tls = { verify = 'no' }",
		 "groups.g.tls.verify: is a string; expected true or false"},
		{"", "tls = { ca = '' }", "groups.g.tls.ca: is empty"},
		{"", "tls = { crl = 1 }", "groups.g.tls.crl: is an integer; expected a string"},
		{"", "tls = { verify = false, ca = 'c' }",
		 "groups.g.tls.ca: means nothing, because nothing is verified"},
		{"", "tls = { verify = false, crl = 'c' }",
		 "groups.g.tls.crl: means nothing, because nothing is verified"},
		{"", "tls = { name = 'a:443' }",
		 "groups.g.tls.name: \"a:443\" is not the name of a server"},
		{"", "tls = { name = 'a b' }",
		 "groups.g.tls.name: \"a b\" is not the name of a server"},
		{"", "tls = { key = 'k' }",
		 "groups.g.tls.key: is set without certificate; expected both"},
		{"", "tls = { alpn = [''] }",
		 "groups.g.tls.alpn[0]: \"\" is not the name of a protocol"},
		{"", "tls = { min_version = 1.3 }",
		 "groups.g.tls.min_version: is a floating-point number; expected one of"},
		{"", "tls = { certificates = 'a' }", "groups.g.tls.certificates: unknown key"},
		{"", "check = { tls = true }",
		 "groups.g.check.tls: is true, but the group has no tls"},
		{"", "check = { tls = 'yes' }",
		 "groups.g.check.tls: is a string; expected true or false"},
		{"", "send_proxy = 'v2'\nsend_proxy_with = 'crc32c'",
		 "groups.g.send_proxy_with: is not an array of records"},
		{"", "send_proxy = 'v2'\nsend_proxy_with = ['crc']",
		 "groups.g.send_proxy_with[0]: \"crc\" is none of the choices"},
		{"", "send_proxy = 'v1'\nsend_proxy_with = ['crc32c']",
		 "groups.g.send_proxy_with: means nothing here; expected send_proxy = \"v2\""},
	};
	for (const auto &each : all) {
		SCOPED_TRACE(std::string(each.listener) + " | " + each.group);
		const auto made = read(to_g + each.listener, backends + each.group);
		const auto *errors = std::get_if<relay::config_errors>(&made);
		ASSERT_TRUE(errors) << "it was accepted";
		ASSERT_EQ(errors->lines.size(), 1U) << errors->lines.at(1);
		EXPECT_NE(errors->lines.front().find(std::string(": ") + each.error),
			  std::string::npos)
			<< errors->lines.front();
	}
}

TEST_F(ConfigTls, BackendsWithoutANameNeedOne)
{
	for (const std::string address : {"unix:/run/a", "srv:_x._tcp.example.org"}) {
		const auto made = read(to_g, "backends = ['h:1', '" + address + "']\ntls = true");
		const auto *errors = std::get_if<relay::config_errors>(&made);
		ASSERT_TRUE(errors);
		EXPECT_NE(errors->lines.front().find(
				  "groups.g.tls: does not say whose certificate the "
				  "backend \"" +
				  address + "\" has to show; expected tls.name"),
			  std::string::npos)
			<< errors->lines.front();
		EXPECT_TRUE(std::holds_alternative<relay::config>(
			read(to_g, "backends = ['" + address + "']\ntls = { name = 'a' }")));
	}
}

} // namespace
