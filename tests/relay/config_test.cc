/* SPDX-License-Identifier: MIT */
#include "config.hpp"

#include <gtest/gtest.h>

using namespace std::chrono_literals;
using relay::balancing;

namespace
{

relay::config good(const std::string &text)
{
	auto read = relay::parse_config(text, "f");
	if (const auto *errors = std::get_if<relay::config_errors>(&read)) {
		for (const auto &line : *errors)
			ADD_FAILURE() << line;
		return {};
	}
	return std::get<relay::config>(read);
}

relay::config_errors bad(const std::string &text)
{
	auto read = relay::parse_config(text, "f");
	auto *errors = std::get_if<relay::config_errors>(&read);
	return errors ? *errors : relay::config_errors{"it was accepted"};
}

TEST(Config, HasTheValuesOfTheFile)
{
	const auto all = good(R"(
drain = "3s"
stats_interval = 7
admin = "127.0.0.1:9000"
access_log = "stderr"
access_log_format = "json"
[listeners.z]
address = ":8080"
group = "g"
connect_timeout = "500ms"
idle_timeout = 0
half_close_timeout = "1m"
gather = "never"
max_connections = 12
[listeners.a]
address = "[::1]:0"
group = "other"
[groups.other]
backends = ["h:1"]
[groups.g]
balance = "source-hash"
backends = ["h:1", {address = "[::1]:2", weight = 0, max_connections = 3}]
)");
	EXPECT_EQ(all.drain, 3s);
	EXPECT_EQ(all.stats_interval, 7s);
	EXPECT_EQ(all.admin, "127.0.0.1:9000");
	EXPECT_EQ(all.access_log, "stderr");
	EXPECT_TRUE(all.access_log_json);
	ASSERT_EQ(all.listeners.size(), 2U);
	const auto &z = all.listeners[0];
	EXPECT_EQ(z.name, "z") << "the order of the file";
	EXPECT_EQ(z.address, ":8080");
	EXPECT_EQ(z.connect_timeout, 500ms);
	EXPECT_EQ(z.idle_timeout, 0s);
	EXPECT_EQ(z.half_close_timeout, 1min);
	EXPECT_EQ(z.gather, SN_RELAY_GATHER_NEVER);
	EXPECT_EQ(z.max_connections, 12U);
	const auto &g = all.groups[z.group];
	EXPECT_EQ(g.name, "g");
	EXPECT_EQ(g.balance, balancing::source_hash);
	ASSERT_EQ(g.backends.size(), 2U);
	EXPECT_EQ(g.backends[0].address, "h:1");
	EXPECT_EQ(g.backends[0].weight, 1U);
	EXPECT_EQ(g.backends[1].address, "[::1]:2");
	EXPECT_EQ(g.backends[1].weight, 0U);
	EXPECT_EQ(g.backends[1].max_connections, 3U);
	EXPECT_EQ(all.listeners[1].connect_timeout, 5s);
	EXPECT_EQ(all.listeners[1].idle_timeout, 10min);
	EXPECT_EQ(all.listeners[1].gather, SN_RELAY_GATHER_AUTO);
	EXPECT_EQ(all.groups[all.listeners[1].group].name, "other");
}

TEST(Config, ReportsEveryErrorInOrder)
{
	const auto errors = bad(R"(drain = "soon"
colour = 1
[listeners.a]
address = "nowhere"
group = "missing"
max_connections = -1
idle_timeout = true
[listeners.b]
address = ":80"
group = "g"
[listeners.c]
address = ":80"
group = 5
[groups.g]
balance = "fair"
backends = ["h:1", "h:1", {weight = 1001}, 7]
[groups.empty]
backends = []
)");
	const std::vector<std::string> starts = {
		"f:1:9: drain: \"soon\" is not a duration; expected",
		"f:2:1: colour: unknown key; expected one of access_log",
		"f:4:11: listeners.a.address: \"nowhere\": expected ADDRESS:PORT",
		"f:5:9: listeners.a.group: \"missing\" is unknown; expected",
		"f:6:19: listeners.a.max_connections: -1 is out of range; expected 0 to",
		"f:7:16: listeners.a.idle_timeout: is a boolean; expected a duration",
		"f:12:11: listeners.c.address: \":80\" is already used by listeners.b",
		"f:13:9: listeners.c.group: is an integer; expected a string",
		"f:15:11: groups.g.balance: \"fair\" is none of the choices; expected one of round",
		"f:16:20: groups.g.backends[1]: \"h:1\" is already in line 16",
		"f:16:27: groups.g.backends[2].address: missing",
		"f:16:37: groups.g.backends[2].weight: 1001 is out of range; expected 0 to 1000",
		"f:16:44: groups.g.backends[3]: is an integer; expected an address or a table",
		"f:18:12: groups.empty.backends: is empty; expected at least one",
	};
	ASSERT_EQ(errors.size(), starts.size()) << testing::PrintToString(errors);
	for (std::size_t i = 0; i < starts.size(); i++)
		EXPECT_TRUE(errors[i].starts_with(starts[i])) << errors[i] << "\n" << starts[i];
}

TEST(Config, ReportsAddressesThatAreUsedTwice)
{
	const auto errors = bad(R"(admin = "127.0.0.1:80"
[listeners.a]
address = "127.0.0.1:80"
group = "g"
[groups.g]
backends = ["h:1"]
)");
	ASSERT_EQ(errors.size(), 1U) << testing::PrintToString(errors);
	EXPECT_EQ(errors[0], "f:1:9: admin: \"127.0.0.1:80\" is already used by listeners.a");
	/* The system chooses a port for each. */
	good("admin = \"127.0.0.1:0\"\n[listeners.a]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
	     "[groups.g]\nbackends = [\"h:1\"]\n");
}

TEST(Config, ReportsListenersWhoseConnectionsComeBack)
{
	const auto errors = bad(R"([listeners.a]
address = ":80"
sni = {"x.org" = "g"}
[listeners.b]
address = "unix:/run/b"
group = "u"
[listeners.c]
address = "127.0.0.1:81"
group = "u"
[groups.g]
backends = ["h:80", "127.0.0.9:80"]
[groups.u]
backends = ["unix:/run/b", "h:81"]
)");
	ASSERT_EQ(errors.size(), 2U) << testing::PrintToString(errors);
	EXPECT_EQ(errors[0],
		  "f:2:11: listeners.a.address: its connections would come back, because groups.g "
		  "has the backend \"127.0.0.9:80\"; expected another address");
	EXPECT_TRUE(errors[1].starts_with("f:5:11: listeners.b.address: its connections would"))
		<< errors[1];
}

TEST(Config, ReportsWhatIsMissing)
{
	for (const char *text : {"", "# nothing\n", "drain = 1\n"}) {
		const auto errors = bad(text);
		ASSERT_EQ(errors.size(), 2U) << text;
		EXPECT_NE(errors[0].find("groups: missing"), std::string::npos) << errors[0];
		EXPECT_NE(errors[1].find("listeners: missing"), std::string::npos) << errors[1];
	}
	const auto errors = bad("listeners = 1\n[groups]\n");
	ASSERT_EQ(errors.size(), 2U);
	EXPECT_TRUE(errors[0].starts_with("f:1:13: listeners: is an integer; expected tables"));
	EXPECT_NE(errors[1].find("groups: is empty"), std::string::npos) << errors[1];
}

TEST(Config, InvalidTomlIsOneErrorWithItsPlace)
{
	for (const char *text : {"drain = \n", "drain = 1\ndrain = 2\n", "[groups.g\n", "a = \"\n",
				 "\xff\xfe\n", "[listeners.a]\n[listeners.a]\n"}) {
		const auto errors = bad(text);
		ASSERT_EQ(errors.size(), 1U) << text;
		EXPECT_TRUE(errors[0].starts_with("f:1:") || errors[0].starts_with("f:2:"))
			<< errors[0];
	}
}

/* Each prefix of a good file, and the file with any one byte spoilt, gets an answer and no
 * crash. */
TEST(Config, SurvivesTruncatedAndCorruptFiles)
{
	const std::string text = "drain = \"1s\"\n[listeners.a]\naddress = \":1\"\ngroup = \"g\"\n"
				 "[groups.g]\nbackends = [\"h:1\", {address = \"h:2\"}]\n";
	good(text);
	for (std::size_t i = 0; i < text.size(); i++) {
		static_cast<void>(relay::parse_config(text.substr(0, i), "f"));
		for (const char c : {'\0', '"', '\n', '[', '\xff', '9'}) {
			std::string spoilt = text;
			spoilt[i] = c;
			static_cast<void>(relay::parse_config(spoilt, "f"));
		}
	}
}

TEST(Config, AFileThatCannotBeReadIsNamed)
{
	for (const char *name : {"/nonexistent/file", "/"}) {
		auto read = relay::read_config(name);
		const auto *errors = std::get_if<relay::config_errors>(&read);
		ASSERT_TRUE(errors);
		ASSERT_EQ(errors->size(), 1U);
		EXPECT_NE(errors->front().find(std::string(name) + ": cannot be read"),
			  std::string::npos);
	}
}

TEST(Config, HasChecks)
{
	const std::string start = "[listeners.a]\naddress = ':80'\ngroup = 'g'\n"
				  "[groups.g]\nbackends = ['h:1']\n";
	EXPECT_EQ(good(start).groups[0].check.interval, 0s);
	const auto usual = good(start + "[groups.g.check]\n").groups[0].check;
	EXPECT_EQ(usual.interval, 2s);
	EXPECT_EQ(usual.timeout, 1s);
	EXPECT_EQ(usual.rise, 2U);
	EXPECT_EQ(usual.fall, 3U);
	EXPECT_EQ(usual.expect, "");
	const auto own = good(start + "[groups.g.check]\ninterval = '10ms'\ntimeout = '1ms'\n"
				      "rise = 1\nfall = 1000\nsend = \"PING\\r\\n\"\n"
				      "expect = '+PONG'\n")
				 .groups[0]
				 .check;
	EXPECT_EQ(own.interval, 10ms);
	EXPECT_EQ(own.timeout, 1ms);
	EXPECT_EQ(own.rise, 1U);
	EXPECT_EQ(own.fall, 1000U);
	EXPECT_EQ(own.send, "PING\r\n");
	EXPECT_EQ(own.expect, "+PONG");

	const auto errors = bad(start + "[groups.g.check]\ninterval = '9ms'\ntimeout = 0\n"
					"rise = 0\nfall = 1001\nsend = ''\nnothing = 1\n");
	const std::vector<std::string> starts = {
		"f:7:12: groups.g.check.interval: \"9ms\" is too short; expected at least 10ms",
		"f:8:11: groups.g.check.timeout: \"0\" is too short; expected at least 1ms",
		"f:9:8: groups.g.check.rise: 0 is out of range; expected 1 to 1000",
		"f:10:8: groups.g.check.fall: 1001 is out of range; expected 1 to 1000",
		"f:11:8: groups.g.check.send: is empty",
		"f:11:8: groups.g.check.send: is set without expect; expected both keys",
		"f:12:1: groups.g.check.nothing: unknown key; expected one of expect, fall",
	};
	ASSERT_EQ(errors.size(), starts.size()) << testing::PrintToString(errors);
	for (std::size_t i = 0; i < starts.size(); i++)
		EXPECT_TRUE(errors[i].starts_with(starts[i])) << errors[i] << "\n" << starts[i];
}

TEST(Config, HasLimits)
{
	const std::string end = "[groups.g]\nbackends = ['h:1']\n";
	const std::string start = "[listeners.a]\naddress = ':80'\ngroup = 'g'\n";
	const auto usual = good(start + end).listeners[0];
	EXPECT_EQ(usual.lifetime, 0s);
	EXPECT_EQ(usual.max_connections_per_source, 0U);
	EXPECT_EQ(usual.accept_rate, 0U);
	EXPECT_TRUE(usual.allow.empty() && usual.deny.empty());
	const auto own = good(start +
			      "lifetime = '1h'\nmax_connections_per_source = 3\n"
			      "accept_rate = 100\nallow = ['10.0.0.0/8', '::1']\n"
			      "deny = ['10.1.0.0/16']\n" +
			      end)
				 .listeners[0];
	EXPECT_EQ(own.lifetime, 1h);
	EXPECT_EQ(own.max_connections_per_source, 3U);
	EXPECT_EQ(own.accept_rate, 100U);
	EXPECT_EQ(own.accept_burst, 100U) << "as many as in a second";
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
	ASSERT_EQ(errors.size(), starts.size()) << testing::PrintToString(errors);
	for (std::size_t i = 0; i < starts.size(); i++)
		EXPECT_TRUE(errors[i].starts_with(starts[i])) << errors[i] << "\n" << starts[i];
}

TEST(Config, HasKeepalive)
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
	ASSERT_EQ(errors.size(), starts.size()) << testing::PrintToString(errors);
	for (std::size_t i = 0; i < starts.size(); i++)
		EXPECT_TRUE(errors[i].starts_with(starts[i])) << errors[i] << "\n" << starts[i];
	EXPECT_TRUE(errors[3].ends_with("1s to 9h")) << errors[3];
}

TEST(Config, HasProxyHeadersAndServerNames)
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
		"f:8:15: listeners.a.sni.\"d.example\": is an integer; expected a string",
		"f:10:14: groups.g.send_proxy: \"v3\" is none of the choices; expected one of none",
	};
	ASSERT_EQ(errors.size(), starts.size()) << testing::PrintToString(errors);
	for (std::size_t i = 0; i < starts.size(); i++)
		EXPECT_TRUE(errors[i].starts_with(starts[i])) << errors[i] << "\n" << starts[i];
}

TEST(Config, HasUnixSockets)
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
	ASSERT_EQ(errors.size(), starts.size()) << testing::PrintToString(errors);
	for (std::size_t i = 0; i < starts.size(); i++)
		EXPECT_TRUE(errors[i].starts_with(starts[i])) << errors[i] << "\n" << starts[i];
}

TEST(Config, HasModesOfUnixSockets)
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
					 : i == 6 ? "is an integer; expected a string"
					 : i < 9  ? "means nothing here; expected it beside"
						  : "does not let the owner write"),
			  std::string::npos)
			<< errors[i];
}

} // namespace
