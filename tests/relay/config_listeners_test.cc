/* SPDX-License-Identifier: MIT */
/* The keys of listeners of connections. */
#include "config_case.hpp"

#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using config_case::bad;
using config_case::expect_starts;
using config_case::good;

namespace
{

TEST(ConfigListeners, HasLimits)
{
	const std::string end = "[groups.g]\nbackends = ['h:1']\n";
	const std::string start = "[listeners.a]\naddress = ':80'\ngroup = 'g'\n";
	const auto usual = good(start + end).listeners[0];
	EXPECT_EQ(usual.lifetime, 0s);
	EXPECT_EQ(usual.max_connections_per_source, 0U);
	EXPECT_EQ(usual.accept_rate, 0U);
	EXPECT_EQ(usual.accept_rate_per_source, 0U);
	EXPECT_TRUE(usual.allow.empty() && usual.deny.empty());
	const auto own = good(start +
			      "lifetime = '1h'\nmax_connections_per_source = 3\n"
			      "accept_rate = 100\naccept_rate_per_source = 7\n"
			      "accept_burst_per_source = 9\n"
			      "bandwidth_per_source = { to_client = '2KiB', burst = '3KiB' }\n"
			      "allow = ['10.0.0.0/8', '::1']\n"
			      "deny = ['10.1.0.0/16']\n" +
			      end)
				 .listeners[0];
	EXPECT_EQ(own.lifetime, 1h);
	EXPECT_EQ(own.max_connections_per_source, 3U);
	EXPECT_EQ(own.accept_rate, 100U);
	EXPECT_EQ(own.accept_rate_per_source, 7U);
	EXPECT_EQ(own.accept_burst_per_source, 9U);
	EXPECT_EQ(own.bandwidth_per_source.to_backend, 0U);
	EXPECT_EQ(own.bandwidth_per_source.to_client, 2048U);
	EXPECT_EQ(own.bandwidth_per_source.burst, 3072U);
	EXPECT_EQ(own.accept_burst, 100U) << "the default burst is the rate of one second";
	EXPECT_EQ(own.allow.size(), 2U);
	EXPECT_EQ(own.deny.size(), 1U);

	const auto errors =
		bad(start + "allow = []\ndeny = ['10.0.0.1/8', 5]\naccept_burst = 0\n" + end);
	const std::vector<std::string> starts = {
		"f:4:9: listeners.a.allow: is empty; expected at least one network",
		"f:5:9: listeners.a.deny[0]: \"10.0.0.1/8\": it has bits beyond its prefix; "
		"expected",
		"f:5:23: listeners.a.deny[1]: is an integer; expected a network",
		"f:6:16: listeners.a.accept_burst: 0 is out of range; expected 1 to",
		"f:6:16: listeners.a.accept_burst: limits nothing; expected accept_rate",
	};
	expect_starts(errors, starts);
}

TEST(ConfigListeners, HasKeepalive)
{
	const auto text = [](const std::string &of_listener, const std::string &of_group = "") {
		return "[listeners.a]\naddress = ':80'\ngroup = 'g'\n" + of_listener +
		       "[groups.g]\nbackends = ['h:1']\n" + of_group;
	};
	for (const auto &usual :
	     {good(text("")).listeners[0].keepalive, good(text("")).groups[0].keepalive}) {
		EXPECT_EQ(usual.idle, 1min);
		EXPECT_EQ(usual.interval, 15s);
		EXPECT_EQ(usual.count, 4U);
		EXPECT_EQ(usual.user_timeout, 0s);
	}
	const auto own = good(text("keepalive = '5m'\nuser_timeout = '90s'\n",
				   "keepalive = { idle = 30, interval = '5s', count = 3 }\n"));
	EXPECT_EQ(own.listeners[0].keepalive.idle, 5min);
	EXPECT_EQ(own.listeners[0].keepalive.interval, 15s);
	EXPECT_EQ(own.listeners[0].keepalive.user_timeout, 90s);
	EXPECT_EQ(own.groups[0].keepalive.idle, 30s);
	EXPECT_EQ(own.groups[0].keepalive.interval, 5s);
	EXPECT_EQ(own.groups[0].keepalive.count, 3U);
	for (const auto *none :
	     {"keepalive = 0\n", "keepalive = '0ms'\n", "keepalive = { idle = 0 }\n"}) {
		const auto off = good(text(none, none));
		EXPECT_EQ(off.listeners[0].keepalive.idle, 0s) << none;
		EXPECT_EQ(off.groups[0].keepalive.idle, 0s) << none;
	}

	const auto errors = bad(text("keepalive = '1500ms'\nuser_timeout = '999ms'\n",
				     "keepalive = { idle = '10h', interval = 0, count = 128, "
				     "probes = 1 }\nuser_timeout = true\n") +
				"[listeners.b]\naddress = ':81'\ngroup = 'g'\n"
				"keepalive = true\nuser_timeout = '25h'\n"
				"[listeners.c]\naddress = ':82'\ngroup = 'g'\n"
				"keepalive = 'often'\nuser_timeout = -1\n"
				"[listeners.d]\naddress = ':83'\ngroup = 'g'\n"
				"keepalive = { count = 0, interval = '10h' }\n");
	const std::vector<std::string> starts = {
		"f:4:13: listeners.a.keepalive: \"1500ms\" is not supported; expected whole "
		"seconds, "
		"1s to 9h, or 0 for none",
		"f:5:16: listeners.a.user_timeout: \"999ms\" is out of range; expected 1s to 24h, "
		"or 0 for none",
		"f:8:22: groups.g.keepalive.idle: \"10h\" is not supported; expected whole "
		"seconds, "
		"1s to 9h, or 0 for none",
		"f:8:40: groups.g.keepalive.interval: \"0\" is not supported; expected whole "
		"seconds, 1s to 9h",
		"f:8:51: groups.g.keepalive.count: 128 is out of range; expected 1 to 127",
		"f:8:56: groups.g.keepalive.probes: unknown key; expected one of count, idle",
		"f:9:16: groups.g.user_timeout: is a boolean; expected a duration",
		"f:13:13: listeners.b.keepalive: is a boolean; expected a duration, such as "
		"\"1m\", or a table",
		"f:14:16: listeners.b.user_timeout: \"25h\" is out of range; expected 1s to 24h",
		"f:18:13: listeners.c.keepalive: \"often\" is not a duration; expected 0 to a year",
		"f:19:16: listeners.c.user_timeout: \"-1\" is not a duration; expected 0 to a year",
		"f:23:23: listeners.d.keepalive.count: 0 is out of range; expected 1 to 127",
		"f:23:37: listeners.d.keepalive.interval: \"10h\" is not supported; expected whole",
	};
	expect_starts(errors, starts);
	EXPECT_TRUE(errors[3].ends_with("1s to 9h")) << errors[3];
}

TEST(ConfigListeners, HasProxyHeadersAndServerNames)
{
	const std::string end = "[groups.g]\nbackends = ['h:1']\n"
				"[groups.p]\nsend_proxy = 'v2'\nbackends = ['h:1']\n";
	const auto all = good("[listeners.a]\naddress = ':443'\nproxy_from = ['10.0.0.0/8']\n"
			      "hello_timeout = '1s'\n"
			      "sni = {'A.example' = 'g', '*.Example.org' = 'p'}\n" +
			      end);
	const auto &a = all.listeners[0];
	EXPECT_EQ(a.group, relay::listener_config::no_group);
	EXPECT_EQ(a.proxy_from.size(), 1U);
	EXPECT_EQ(a.hello_timeout, 1s);
	ASSERT_EQ(a.sni.size(), 2U);
	for (const auto &each : a.sni)
		EXPECT_EQ(all.groups[each.group].name, each.name == "a.example" ? "g" : "p");
	EXPECT_EQ(a.sni[0].name.size() + a.sni[1].name.size(), 9U + 12U);
	EXPECT_EQ(all.groups[1].send_proxy, relay::proxy_sending::v2);
	EXPECT_EQ(all.groups[0].send_proxy, relay::proxy_sending::none);

	const auto errors = bad("[listeners.a]\naddress = ':443'\nproxy_from = 'all'\n"
				"[listeners.a.sni]\n'b example' = 'g'\n'*.' = 'g'\n"
				"'c.example' = 'h'\n'd.example' = 5\n"
				"[groups.g]\nsend_proxy = 'v3'\nbackends = ['h:1']\n");
	const std::vector<std::string> starts = {
		"f:3:14: listeners.a.proxy_from: is a string; expected an array of networks",
		"f:5:15: listeners.a.sni.\"b example\": is not the name of a server; expected",
		"f:6:8: listeners.a.sni.\"*.\": is not the name of a server; expected",
		"f:7:15: listeners.a.sni.\"c.example\": \"h\" is unknown; expected the NAME",
		"f:8:15: listeners.a.sni.\"d.example\": is an integer; expected the NAME",
		"f:10:14: groups.g.send_proxy: \"v3\" is none of the choices; expected one of none",
	};
	expect_starts(errors, starts);
}

TEST(ConfigListeners, HasUnixSockets)
{
	const std::string end = "[groups.g]\nbackends = ['unix:/run/b.sock', 'unix:@b', 'h:1']\n";
	const auto all = good("admin = 'unix:@admin'\n"
			      "[listeners.a]\naddress = 'unix:/run/a.sock'\ngroup = 'g'\n"
			      "mode = '0660'\nproxy_from = ['unix']\nallow = ['10.0.0.0/8']\n"
			      "max_connections_per_source = 2\n"
			      "[listeners.b]\naddress = 'unix:@'\ngroup = 'g'\n"
			      "[listeners.c]\naddress = 'unix:@'\ngroup = 'g'\n" +
			      end);
	EXPECT_EQ(all.listeners[0].mode, 0660);
	EXPECT_EQ(all.listeners[1].mode, 0);
	EXPECT_TRUE(all.listeners[0].proxy_from_unix);
	EXPECT_TRUE(all.listeners[0].expects_header());
	EXPECT_FALSE(all.listeners[1].expects_header());
	EXPECT_EQ(all.groups[0].backends[1].address, "unix:@b");

	const auto errors =
		bad("[listeners.a]\naddress = 'unix:/run/a.sock'\ngroup = 'g'\n"
		    "allow = ['10.0.0.0/8']\ndeny = ['::1']\n"
		    "max_connections_per_source = 2\n"
		    "[listeners.b]\naddress = 'unix:/run/a.sock'\ngroup = 'g'\n"
		    "proxy_from = ['10.0.0.0/8']\n"
		    "[listeners.c]\naddress = ':1'\ngroup = 'g'\nproxy_from = ['unix']\n"
		    "deny = ['unix']\n" +
		    end);
	const std::vector<std::string> starts = {
		"f:4:9: listeners.a.allow: means nothing at a Unix socket",
		"f:5:8: listeners.a.deny: means nothing at a Unix socket",
		"f:6:30: listeners.a.max_connections_per_source: means nothing at a Unix socket",
		"f:8:11: listeners.b.address: \"unix:/run/a.sock\" is already used by listeners.a",
		"f:10:14: listeners.b.proxy_from: names networks, but the address is a Unix socket",
		"f:14:14: listeners.c.proxy_from: names \"unix\", but the address is not",
		"f:15:9: listeners.c.deny[0]: \"unix\": expected an address or a network",
	};
	expect_starts(errors, starts);
}

TEST(ConfigListeners, HasModesOfUnixSockets)
{
	std::string text;
	for (const char *mode : {"'0o660'", "'1777'", "'0'", "''", "'rw'", "'-1'", "0o660"})
		text += "[listeners.l" + std::to_string(text.size()) +
			"]\naddress = 'unix:@'\ngroup = 'g'\nmode = " + mode + "\n";
	text += "[listeners.b]\naddress = 'unix:@'\ngroup = 'g'\nmode = '0660'\n"
		"[listeners.c]\naddress = ':1'\ngroup = 'g'\nmode = '0660'\n"
		"[listeners.d]\naddress = 'unix:./d'\ngroup = 'g'\nmode = '0060'\n"
		"[listeners.e]\naddress = 'unix:./e'\ngroup = 'g'\nmode = '0577'\n"
		"[listeners.f]\naddress = 'unix:./f'\ngroup = 'g'\nmode = '0200'\n";
	const auto errors = bad(text + "[groups.g]\nbackends = ['h:1']\n");
	ASSERT_EQ(errors.size(), 11U) << testing::PrintToString(errors);
	for (std::size_t i = 0; i < errors.size(); i++)
		EXPECT_NE(errors[i].find(i < 6    ? "is not the mode of a file; expected octal"
					 : i == 6 ? "is an integer; expected octal digits in quotes"
					 : i < 9  ? "means nothing here; expected it beside"
						  : "does not let the owner write"),
			  std::string::npos)
			<< errors[i];
}

} // namespace
