/* SPDX-License-Identifier: MIT */
/* The keys of listeners for UDP, and the errors that bad ones cause. */
#include "config_case.hpp"
#include "wire/quic_crypto.hpp"

#include <gtest/gtest.h>

using namespace std::chrono_literals;
using config_case::bad;
using config_case::expect_starts;
using config_case::good;

namespace
{

TEST(ConfigUdp, HasItsListeners)
{
	const std::string end = "[groups.g]\nbackends = ['h:1']\n"
				"[groups.v1]\nbackends = ['h:1']\nsend_proxy = 'v1'\n"
				"[groups.local]\nbackends = ['h:1', 'unix:/run/b.sock']\n";
	const auto all = good("[listeners.a]\naddress = 'udp:127.0.0.1:53'\ngroup = 'g'\n"
			      "responses = 1\n"
			      "[listeners.b]\naddress = 'udp:[::1]:53'\ngroup = 'g'\n"
			      "idle_timeout = '2m'\n"
			      "[listeners.c]\naddress = '127.0.0.1:53'\ngroup = 'v1'\n" +
			      end);
	EXPECT_EQ(all.listeners[0].address, "udp:127.0.0.1:53");
	EXPECT_EQ(all.listeners[0].responses, 1U);
	EXPECT_EQ(all.listeners[0].idle_timeout, 30s);
	EXPECT_EQ(all.listeners[1].responses, 0U);
	EXPECT_EQ(all.listeners[1].idle_timeout, 2min);
	EXPECT_EQ(all.listeners[2].idle_timeout, 10min);

	const auto errors =
		bad("admin = 'udp:127.0.0.1:9'\n"
		    "[listeners.a]\naddress = 'udp::53'\ngroup = 'v1'\nkeepalive = '1m'\n"
		    "coalesce = 'auto'\nproxy_from = ['::1']\nconnect_timeout = '1s'\n"
		    "half_close_timeout = '1s'\nuser_timeout = '9s'\n"
		    "bandwidth_per_connection = '1MiB'\nidle_timeout = 0\nresponses = 1001\n"
		    "mode = '0660'\n"
		    "[listeners.b]\naddress = 'udp:53'\ngroup = 'local'\n"
		    "[listeners.c]\naddress = ':80'\ngroup = 'g'\nresponses = 1\n"
		    "[listeners.d]\naddress = 'udp:127.0.0.1:5'\ngroup = 'local'\nresponses = '1'\n"
		    "[listeners.e]\naddress = 'udp:unix:/a'\ngroup = 'g'\n"
		    "[listeners.f]\naddress = 'udp::53'\ngroup = 'u'\n" +
		    end + "[groups.u]\nbackends = ['udp:h:1']\n");
	const std::vector<std::string> starts = {
		"f:1:9: admin: \"udp:127.0.0.1:9\": UDP is for listeners; expected",
		"f:4:9: listeners.a.group: leads to groups.v1, whose send_proxy is \"v1\"",
		"f:5:13: listeners.a.keepalive: means nothing for datagrams",
		"f:6:12: listeners.a.coalesce: means nothing for datagrams",
		"f:7:14: listeners.a.proxy_from: means nothing for datagrams",
		"f:8:19: listeners.a.connect_timeout: means nothing for datagrams",
		"f:9:22: listeners.a.half_close_timeout: means nothing for datagrams",
		"f:10:16: listeners.a.user_timeout: means nothing for datagrams",
		"f:11:28: listeners.a.bandwidth_per_connection: means nothing for datagrams",
		"f:12:16: listeners.a.idle_timeout: is 0, but nothing else ends the sessions",
		"f:13:13: listeners.a.responses: 1001 is out of range; expected 0 to 1000",
		"f:14:8: listeners.a.mode: means nothing here",
		"f:16:11: listeners.b.address: \"udp:53\": expected udp:ADDRESS:PORT, such as",
		"f:21:13: listeners.c.responses: means nothing for connections; expected it beside",
		"f:24:9: listeners.d.group: leads to groups.local, whose backend "
		"\"unix:/run/b.sock\"",
		"f:25:13: listeners.d.responses: is a string; expected an integer",
		"f:27:11: listeners.e.address: \"udp:unix:/a\": a Unix socket has no datagrams",
		"f:30:11: listeners.f.address: \"udp::53\" is already used by listeners.a",
		"f:40:13: groups.u.backends[0]: \"udp:h:1\": a backend gets what its listener does",
	};
	expect_starts(errors, starts);
}

TEST(ConfigUdp, HasNoConnectionsMadeAhead)
{
	const auto errors = bad("[listeners.a]\naddress = 'udp::53'\ngroup = 'g'\n"
				"[groups.g]\nbackends = ['h:1']\npreconnect = 1\n");
	ASSERT_EQ(errors.size(), 1U);
	EXPECT_TRUE(errors[0].starts_with("f:3:9: listeners.a.group: leads to groups.g, which has "
					  "preconnect, but datagrams need no connection"))
		<< errors[0];
}

TEST(ConfigUdp, ReportsListenersWhoseDatagramsComeBack)
{
	const auto errors = bad("[listeners.a]\naddress = 'udp::53'\ngroup = 'g'\n"
				"[groups.g]\nbackends = ['127.0.0.1:53']\n");
	ASSERT_EQ(errors.size(), 1U) << testing::PrintToString(errors);
	EXPECT_NE(errors[0].find("would come back"), std::string::npos) << errors[0];
}

/* The groups of all server names have to accept datagrams. */
TEST(ConfigUdp, HasServerNamesOfQuic)
{
	const std::string end = "[groups.g]\nbackends = ['h:1']\n"
				"[groups.local]\nbackends = ['unix:/run/b.sock']\n";
	const std::string start = "[listeners.a]\naddress = 'udp::443'\nhello_timeout = '2s'\n";
	if (!relay::has_quic_crypto()) {
		const auto errors = bad(start + "sni = { 'a.example' = 'g' }\n" + end);
		ASSERT_EQ(errors.size(), 1U);
		EXPECT_NE(errors[0].find("is built without OpenSSL"), std::string::npos);
		return;
	}
	const auto made = good(start + "sni = { 'A.example' = 'g' }\n" + end);
	ASSERT_EQ(made.listeners.at(0).sni.size(), 1U);
	EXPECT_EQ(made.listeners[0].sni[0].name, "a.example");
	EXPECT_EQ(made.listeners[0].group, relay::listener_config::no_group);
	EXPECT_EQ(made.listeners[0].hello_timeout, 2s);

	const auto tls = bad(start + "alpn = { 'h3' = 'g' }\nsni = { 'a.example' = 'safe' }\n" +
			     end + "[groups.safe]\nbackends = ['h:1']\n[groups.safe.tls]\n");
	ASSERT_EQ(tls.size(), 2U) << testing::PrintToString(tls);
	EXPECT_TRUE(tls[0].starts_with("f:4:8: listeners.a.alpn: means nothing")) << tls[0];
	EXPECT_TRUE(
		tls[1].starts_with("f:5:7: listeners.a.sni: leads to groups.safe, which has tls"))
		<< tls[1];

	const auto errors = bad(start + "sni = { 'a.example' = 'local' }\n" + end);
	ASSERT_EQ(errors.size(), 1U) << testing::PrintToString(errors);
	EXPECT_TRUE(errors[0].starts_with("f:4:7: listeners.a.sni: leads to groups.local, whose "
					  "backend \"unix:/run/b.sock\" takes no datagrams"))
		<< errors[0];
}

} // namespace
