/* SPDX-License-Identifier: MIT */
/* The keys of groups, and of their checks and backends. */
#include "base/regex.hpp"
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

TEST(ConfigGroups, HasTheRetriesOfAGroup)
{
	const std::string start = "[listeners.a]\naddress = ':0'\ngroup = 'g'\n[groups.g]\n"
				  "backends = ['h:1']\n";
	const auto usual = good(start).groups[0].retry;
	EXPECT_EQ(usual.most, 4U);
	EXPECT_EQ(usual.delay, 200ms);
	const auto own = good(start + "retries = 0\nretry_delay = 1\n").groups[0].retry;
	EXPECT_EQ(own.most, 0U);
	EXPECT_EQ(own.delay, 1s);
	const auto errors = bad(start + "retries = 101\nretry_delay = 0\n");
	ASSERT_EQ(errors.size(), 2U);
	EXPECT_TRUE(errors[0].starts_with("f:6:11: groups.g.retries: 101 is out of range"));
	EXPECT_TRUE(errors[1].starts_with("f:7:15: groups.g.retry_delay: \"0\" is too short"));
}

TEST(ConfigGroups, HasTheTimeForAnAttempt)
{
	const std::string start = "[listeners.a]\naddress = ':0'\ngroup = 'g'\n[groups.g]\n"
				  "backends = ['h:1']\n";
	EXPECT_EQ(good(start).groups[0].attempt_timeout, 0s);
	EXPECT_EQ(good(start + "attempt_timeout = '250ms'\n").groups[0].attempt_timeout, 250ms);
	const auto errors = bad(start + "attempt_timeout = 'soon'\n");
	ASSERT_EQ(errors.size(), 1U);
	EXPECT_TRUE(errors[0].starts_with("f:6:19: groups.g.attempt_timeout: ")) << errors[0];
}

TEST(ConfigGroups, HasTheQueueOfAGroup)
{
	const std::string start = "[listeners.a]\naddress = ':0'\ngroup = 'g'\n[groups.g]\n"
				  "backends = ['h:1']\n";
	const auto usual = good(start).groups[0].queue;
	EXPECT_EQ(usual.limit, 1000U);
	EXPECT_EQ(usual.timeout, 5s);
	EXPECT_FALSE(usual.leave_by_half_close);
	const auto own = good(start + "queue = 0\nqueue_timeout = '1m'\n"
				      "queue_half_closed = 'leave'\n")
				 .groups[0]
				 .queue;
	EXPECT_EQ(own.limit, 0U);
	EXPECT_EQ(own.timeout, 1min);
	EXPECT_TRUE(own.leave_by_half_close);
	const auto errors = bad(start + "queue = -1\nqueue_timeout = 'x'\n"
					"queue_half_closed = true\n");
	ASSERT_EQ(errors.size(), 3U);
	EXPECT_TRUE(errors[0].starts_with("f:6:9: groups.g.queue: -1 is out of range"))
		<< errors[0];
	EXPECT_TRUE(errors[1].starts_with("f:7:17: groups.g.queue_timeout: ")) << errors[1];
	EXPECT_TRUE(errors[2].starts_with("f:8:21: groups.g.queue_half_closed: ")) << errors[2];
}

TEST(ConfigGroups, HasChecks)
{
	const std::string start = "[listeners.a]\naddress = ':80'\ngroup = 'g'\n"
				  "[groups.g]\nbackends = ['h:1']\n";
	EXPECT_EQ(good(start).groups[0].check.interval, 0s);
	const auto usual = good(start + "[groups.g.check]\n").groups[0].check;
	EXPECT_EQ(usual.interval, 2s);
	EXPECT_EQ(usual.timeout, 1s);
	EXPECT_EQ(usual.rise, 2U);
	EXPECT_EQ(usual.fall, 3U);
	EXPECT_FALSE(usual.starts_down);
	EXPECT_TRUE(usual.expect.empty());
	EXPECT_FALSE(
		good(start + "[groups.g.check]\ninitial = 'up'\n").groups[0].check.starts_down);
	const auto own =
		good(start + "[groups.g.check]\ninterval = '10ms'\ntimeout = '1ms'\n"
			     "rise = 1\nfall = 1000\ninitial = 'down'\nsend = \"PING\\r\\n\"\n"
			     "expect = '+PONG'\n")
			.groups[0]
			.check;
	EXPECT_EQ(own.interval, 10ms);
	EXPECT_EQ(own.timeout, 1ms);
	EXPECT_EQ(own.rise, 1U);
	EXPECT_EQ(own.fall, 1000U);
	EXPECT_TRUE(own.starts_down);
	EXPECT_EQ(own.send, "PING\r\n");
	EXPECT_EQ(own.expect.bytes, "+PONG");
	EXPECT_FALSE(own.udp);
	EXPECT_TRUE(good(start + "[groups.g.check]\nudp = true\nsend = 'a'\nexpect = 'b'\n")
			    .groups[0]
			    .check.udp);

	const auto errors = bad(start + "[groups.g.check]\ninterval = '9ms'\ntimeout = 0\n"
					"rise = 0\nfall = 1001\nsend = ''\nnothing = 1\n");
	const std::vector<std::string> starts = {
		"f:7:12: groups.g.check.interval: \"9ms\" is too short; expected at least 10ms",
		"f:8:11: groups.g.check.timeout: \"0\" is too short; expected at least 1ms",
		"f:9:8: groups.g.check.rise: 0 is out of range; expected 1 to 1000",
		"f:10:8: groups.g.check.fall: 1001 is out of range; expected 1 to 1000",
		"f:11:8: groups.g.check.send: is empty",
		"f:11:8: groups.g.check.send: is set without expect; expected both keys",
		"f:12:1: groups.g.check.nothing: unknown key; expected one of address, "
		"expect, expect_hex, expect_regex, fall",
	};
	expect_starts(errors, starts);
}

TEST(ConfigGroups, HasChecksInHexadecimalDigits)
{
	const std::string start = "[listeners.a]\naddress = ':80'\ngroup = 'g'\n"
				  "[groups.g]\nbackends = ['h:1']\n[groups.g.check]\n";
	const auto check =
		good(start + "send_hex = '00ff\t0A'\nexpect_hex = \"\"\"6f\n 8? ?0??\"\"\"\n")
			.groups[0]
			.check;
	using namespace std::string_literals;
	EXPECT_EQ(check.send, "\0\xff\n"s);
	EXPECT_EQ(check.expect.bytes, "o\x80\0\0"s);
	EXPECT_EQ(check.expect.mask, "\xff\xf0\x0f\0"s);
	EXPECT_TRUE(check.expect.fits("o\x85\xf0\xaa and more", 0));
	EXPECT_TRUE(check.expect.fits("\x8f\x10", 1)) << "the next piece of an answer";
	EXPECT_FALSE(check.expect.fits("o\x75", 0));
	EXPECT_FALSE(check.expect.fits("\x01", 2));
	EXPECT_TRUE(check.expect.fits("anything", 4));
	const std::string longest(8192, '0');
	EXPECT_EQ(good(start + "expect_hex = '" + longest + "'\n").groups[0].check.expect.mask,
		  std::string(4096, '\xff'));
	EXPECT_TRUE(bad(start + "expect_hex = '" + longest + "00'\n")[0].starts_with(
		"f:7:14: groups.g.check.expect_hex: is too long; expected at most 4096 bytes"));
}

TEST(ConfigGroups, HasChecksThatSearch)
{
	const std::string start = "[listeners.a]\naddress = ':80'\ngroup = 'g'\n"
				  "[groups.g]\nbackends = ['h:1']\n[groups.g.check]\n";
	const std::string key = start + "expect_regex = '";
	if (!relay::regex::is_built) {
		const auto errors = bad(key + "a'\n");
		ASSERT_EQ(errors.size(), 1U);
		EXPECT_TRUE(errors[0].starts_with("f:7:16: groups.g.check.expect_regex: "))
			<< errors[0];
		EXPECT_NE(errors[0].find("is built without PCRE2"), errors[0].npos) << errors[0];
		return;
	}
	EXPECT_TRUE(good(key + std::string(1024, 'a') + "'\n").groups[0].check.expect_regex);
	EXPECT_EQ(bad(key + std::string(1025, 'a') + "'\n"),
		  std::vector<std::string>{
			  "f:7:16: groups.g.check.expect_regex: is too long; expected "
			  "at most 1024 bytes"});
}

TEST(ConfigGroups, HasChecksElsewhereAndOfHttp)
{
	const std::string start = "[listeners.a]\naddress = ':80'\ngroup = 'g'\n[groups.g]\n";
	const auto group = good(start + "backends = ['h:1', {address = 'i:1', check = {port = 9}}, "
					"{address = 'unix:/s', check = {address = '[::1]:7'}}]\n"
					"[groups.g.check]\nport = 8008\nhttp = 'GET /primary?a=b'\n"
					"host = 'db.test'\nstatus = [200, '503-504', '2xx']\n")
				   .groups[0];
	EXPECT_EQ(group.check.at.port, 8008U);
	EXPECT_EQ(group.check.http, "GET /primary?a=b");
	EXPECT_EQ(group.check.host, "db.test");
	ASSERT_EQ(group.check.status.size(), 3U);
	EXPECT_EQ(group.check.status[0].low, 200U);
	EXPECT_EQ(group.check.status[0].high, 200U);
	EXPECT_EQ(group.check.status[1].low, 503U);
	EXPECT_EQ(group.check.status[1].high, 504U);
	EXPECT_EQ(group.check.status[2].low, 200U);
	EXPECT_EQ(group.check.status[2].high, 299U);
	EXPECT_FALSE(group.backends[0].check.is_other());
	EXPECT_EQ(group.backends[1].check.port, 9U);
	EXPECT_EQ(group.backends[2].check.address, "[::1]:7");
	const auto usual = good(start + "backends = ['h:1']\n[groups.g.check]\nhttp = 'OPTIONS *'\n"
					"address = 'unix:/run/health'\n")
				   .groups[0]
				   .check;
	EXPECT_EQ(usual.at.address, "unix:/run/health");
	ASSERT_EQ(usual.status.size(), 1U);
	EXPECT_EQ(usual.status[0].low, 200U);
	EXPECT_EQ(usual.status[0].high, 399U);

	const auto expect = [&](const std::string &text, const std::vector<std::string> &starts) {
		expect_starts(bad(start + text), starts);
	};
	const std::string check = "backends = ['h:1']\n[groups.g.check]\n";
	expect(check + "port = 0\naddress = 'x'\nhttp = 'POST /'\nhost = 'a b'\n"
		       "status = [99, '300-200', 'ok', 200.0]\n",
	       {"f:7:8: groups.g.check.port: 0 is out of range; expected 1 to 65535",
		"f:8:11: groups.g.check.address: \"x\": expected HOST:PORT",
		"f:8:11: groups.g.check.address: is set beside port; expected one of them",
		"f:9:8: groups.g.check.http: \"POST /\" is not a request; expected GET",
		"f:10:8: groups.g.check.host: is not the name of a host",
		"f:11:11: groups.g.check.status[0]: is not a status of HTTP; expected an integer",
		"f:11:15: groups.g.check.status[1]: is not a status", "f:11:26: ", "f:11:32: "});
	for (const std::string request : {"", "GET", "GET x", "get /", "GET  /", "GET /a b",
					  "GET *", "GET /\\r\\n", "GET /#a", "GET http://a/"})
		expect(check + "http = \"" + request + "\"\n",
		       {"f:7:8: groups.g.check.http: \"" + request.substr(0, 5)});
	expect(check + "http = 'GET /'\nsend = 'a'\nexpect = 'b'\nstatus = []\n",
	       {"f:8:8: groups.g.check.send: is set beside http; expected one or the other",
		"f:9:10: groups.g.check.expect: is set beside http",
		"f:10:10: groups.g.check.status: is empty; expected at least one"});
	expect(check + "host = 'a'\nstatus = 200\n",
	       {"f:7:8: groups.g.check.host: means nothing without http",
		"f:8:10: groups.g.check.status: means nothing without http"});
	expect("backends = ['h:1', 'unix:/s']\n[groups.g.check]\nport = 1\n",
	       {"f:5:20: groups.g.backends[1]: \"unix:/s\" has no ports, so check.port means "
		"nothing; expected check = { address = ... } here"});
	expect("backends = [{address = 'h:1', check = {port = 1}}]\n",
	       {"f:5:13: groups.g.backends[0].check: means nothing, because the group has no "
		"checks; expected a table [groups.NAME.check] as well"});
	expect("backends = [{address = 'h:1', check = {}}, {address = 'i:1', check = {rise = 1}}]\n"
	       "[groups.g.check]\n",
	       {"f:5:39: groups.g.backends[0].check: says nothing; expected port or address",
		"f:5:71: groups.g.backends[1].check.rise: unknown key, which belongs to "
		"[groups.NAME.check]; expected one of address, port"});
}

TEST(ConfigGroups, HasServicesAndBackups)
{
	const std::string start = "[listeners.a]\naddress = ':80'\ngroup = 'g'\n[groups.g]\n";
	const auto group = good(start + "backends = ['srv:_http._tcp.example.org', "
					"{address = 'h:1', priority = 7}]\n")
				   .groups[0];
	EXPECT_EQ(group.backends[0].address, "srv:_http._tcp.example.org");
	EXPECT_EQ(group.backends[0].priority, 0U);
	EXPECT_EQ(group.backends[1].priority, 7U);
	const auto errors =
		bad("[listeners.a]\naddress = 'srv:_http._tcp.a'\ngroup = 'g'\n[groups.g]\n"
		    "backends = ['srv:_http.', {address = 'h:1', priority = 1001}]\n"
		    "[groups.g.check]\naddress = 'srv:_http._tcp.a'\n");
	const std::vector<std::string> starts = {
		"f:2:11: listeners.a.address: \"srv:_http._tcp.a\": only a backend can be",
		"f:5:56: groups.g.backends[1].priority: 1001 is out of range; expected 0 to 1000",
		"f:7:11: groups.g.check.address: \"srv:_http._tcp.a\": only a backend can be",
	};
	expect_starts(errors, starts);
}

TEST(ConfigGroups, ReadsAgents)
{
	const std::string start = "[listeners.a]\naddress = ':80'\ngroup = 'g'\n[groups.g]\n";
	const auto group =
		good(start + "backends = ['h:1', {address = 'i:1', agent = {port = 9}}, "
			     "{address = 'unix:/s', agent = {address = '[::1]:7', "
			     "send = 's'}}]\n"
			     "[groups.g.agent]\nport = 9707\nsend = 'web'\ninterval = '5s'\n"
			     "timeout = '3s'\non_down = 'drain'\n")
			.groups[0];
	EXPECT_TRUE(group.agent.is_there());
	EXPECT_EQ(group.agent.interval, std::chrono::seconds(5));
	EXPECT_EQ(group.agent.timeout, std::chrono::seconds(3));
	EXPECT_EQ(group.agent.at.port, 9707U);
	EXPECT_EQ(group.agent.send, "web");
	EXPECT_EQ(group.agent.on_down, relay::when_down::drain);
	EXPECT_FALSE(group.backends[0].agent.is_other() || group.backends[0].agent_send);
	EXPECT_EQ(group.backends[1].agent.port, 9U);
	EXPECT_EQ(group.backends[2].agent.address, "[::1]:7");
	EXPECT_EQ(group.backends[2].agent_send, "s");
	/* Each backend may set where its agent is; listeners for datagrams do not change that. */
	const auto each = good("[listeners.a]\naddress = 'udp::53'\ngroup = 'g'\n[groups.g]\n"
			       "backends = [{address = 'h:1', agent = {port = 9}}]\n"
			       "[groups.g.agent]\n")
				  .groups[0];
	EXPECT_EQ(each.agent.interval, std::chrono::seconds(2));
	EXPECT_EQ(each.agent.timeout, std::chrono::seconds(1));
	EXPECT_FALSE(each.agent.on_down);

	const auto expect = [&](const std::string &text, const std::vector<std::string> &starts) {
		expect_starts(bad(start + text), starts);
	};
	const std::string agent = "[groups.g.agent]\n";
	expect("backends = ['h:1', {address = 'i:1', agent = {port = 9}}]\n" + agent,
	       {"f:6:1: groups.g.agent: does not say where the agents are; expected port or "
		"address"});
	expect("backends = ['unix:/s']\n" + agent + "port = 9\n",
	       {"f:5:13: groups.g.backends[0]: \"unix:/s\" has no ports, so agent.port means "
		"nothing; expected agent = { address = ... } here"});
	expect("backends = [{address = 'i:1', agent = {send = 'x'}}]\n",
	       {"f:5:13: groups.g.backends[0].agent: means nothing, because the group has no "
		"agents; expected a table"});
	expect("backends = [{address = 'i:1', agent = {}}]\n" + agent + "port = 9\n",
	       {"f:5:39: groups.g.backends[0].agent: says nothing; expected port, address or "
		"send"});
	expect("backends = ['h:1']\n" + agent +
		       "port = 70000\ninterval = '9ms'\ntimeout = 0\nsend = ''\non_down = 'x'\n"
		       "rise = 2\n",
	       {"f:7:8: groups.g.agent.port: 70000 is out of range; expected 1 to 65535",
		"f:8:12: groups.g.agent.interval: \"9ms\" is too short; expected at least 10ms",
		"f:9:11: groups.g.agent.timeout: \"0\" is too short; expected at least 1ms",
		"f:10:8: groups.g.agent.send: is empty",
		"f:11:11: groups.g.agent.on_down: \"x\" is none of the choices; expected one of "
		"keep",
		"f:12:1: groups.g.agent.rise: unknown key, which belongs to [groups.NAME.check]; "
		"expected one of address, interval"});
	expect("backends = ['h:1']\n" + agent + "port = 1\naddress = 'x:1'\nsend = '" +
		       std::string(4097, 'x') + "'\n",
	       {"f:8:11: groups.g.agent.address: is set beside port; expected one of them",
		"f:9:8: groups.g.agent.send: is too long; expected at most 4096 bytes"});
}

TEST(ConfigGroups, HasConnectionsMadeAhead)
{
	const std::string listener = "[listeners.a]\naddress = ':1'\ngroup = 'g'\n";
	const auto has = [&](const std::string &keys) {
		return good(listener + "[groups.g]\nbackends = ['h:1']\n" + keys)
			.groups[0]
			.preconnect;
	};
	EXPECT_EQ(has("").most, 0U);
	EXPECT_EQ(has("preconnect = 0\n").most, 0U);
	EXPECT_EQ(has("preconnect = 1000\n").most, 1000U);
	EXPECT_EQ(has("preconnect = 1\n").age, 10s);
	EXPECT_EQ(has("preconnect = 1\npreconnect_age = '100ms'\n").age, 100ms);

	const auto errors = bad(listener + "[groups.g]\nbackends = ['h:1']\npreconnect = -1\n"
					   "preconnect_age = '99ms'\n"
					   "[groups.h]\nbackends = ['h:2']\npreconnect = 1001\n"
					   "preconnect_age = 'long'\n"
					   "[groups.i]\nbackends = ['h:3']\npreconnect = true\n"
					   "[groups.j]\nbackends = ['h:4']\n"
					   "preconnect_age = '1s'\n"
					   "[groups.k]\nbackends = [{address = 'h:5', "
					   "preconnect = 1}]\n");
	const std::vector<std::string> starts = {
		"f:6:14: groups.g.preconnect: -1 is out of range; expected 0 to 1000",
		"f:7:18: groups.g.preconnect_age: \"99ms\" is too short; expected at least 100ms",
		"f:10:14: groups.h.preconnect: 1001 is out of range; expected 0 to 1000",
		"f:11:18: groups.h.preconnect_age: \"long\" is not a duration",
		"f:14:14: groups.i.preconnect: is a boolean; expected an integer",
		"f:17:18: groups.j.preconnect_age: means nothing without preconnect",
		"f:19:31: groups.k.backends[0].preconnect: unknown key",
	};
	expect_starts(errors, starts);
}

} // namespace
