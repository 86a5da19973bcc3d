/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as metrics and as JSON: names and values as documented, and foreign names that cannot
 * break out of their quotes. prometheus_test.py and page_test.py check that Prometheus and a
 * browser can read them.
 */
#include "metrics.hpp"
#include "status.hpp"
#include "text.hpp"

#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using namespace std::string_literals;

namespace
{

relay::snapshot example()
{
	relay::snapshot now;
	now.version = "0.1.0";
	now.time = 1700000000s + 123ms;
	now.uptime = 61s + 500ms;
	now.ready = true;
	now.active = 7;
	now.limit = 1000;
	now.log_dropped = 3;
	relay::listener_snapshot listener;
	listener.name = "web \"quoted\\\"\n";
	listener.address = "[::]:8080";
	listener.active = 7;
	listener.accepted = 10;
	listener.ended[static_cast<std::size_t>(relay::termination::client_end)] = 2;
	listener.ended[static_cast<std::size_t>(relay::termination::server_reset)] = 1;
	listener.throttled = 20;
	listener.throttled_time = 1500ms;
	listener.throttled_now = {.to_backend = 2, .to_client = 3};
	listener.to_client = {.bytes = 1ULL << 53, .userspace = 100, .splice = 200};
	relay::histogram connect;
	for (int i = 0; i < 99; i++)
		connect.record(100us);
	connect.record(3s);
	listener.times.connect = connect.read();
	now.listeners.push_back(listener);
	relay::backend_snapshot backend;
	backend.route = "web";
	backend.address = "b\xff\xc3\xa4:80";
	backend.state = relay::health::ejected;
	backend.failures = 5;
	backend.throttled_now = {.to_client = 1};
	backend.is_named = true;
	backend.addresses = {"10.0.0.7:80", "[fe80::1%\"]:80"};
	backend.resolve_failures = 4;
	backend.is_resolve_failing = true;
	backend.last_check = 1700000000s;
	backend.last_error = "refused";
	now.backends.push_back(backend);
	return now;
}

std::set<std::string> lines(const std::string &text)
{
	std::set<std::string> all;
	std::istringstream stream(text);
	for (std::string line; std::getline(stream, line);)
		all.insert(line);
	return all;
}

TEST(Metrics, HaveTheValuesOfTheSnapshot)
{
	const auto all = lines(to_metrics(example()));
	const auto listener = R"(listener="web \"quoted\\\"\n")"s;
	const auto backend = "route=\"web\",backend=\"b\xef\xbf\xbd\xc3\xa4:80\""s;
	for (const auto &line :
	     {"sennit_relay_info{version=\"0.1.0\"} 1"s,
	      "sennit_relay_ready 1"s,
	      "sennit_relay_uptime_seconds 61.5"s,
	      "sennit_relay_sessions_limit 1000"s,
	      "sennit_relay_access_log_dropped_total 3"s,
	      "sennit_relay_connections{" + listener + "} 7",
	      "sennit_relay_connections_accepted_total{" + listener + "} 10",
	      "sennit_relay_connections_ended_total{" + listener + ",cause=\"client_end\"} 2",
	      "sennit_relay_connections_ended_total{" + listener + ",cause=\"server_reset\"} 1",
	      "sennit_relay_connections_ended_total{" + listener + ",cause=\"cut\"} 0",
	      "sennit_relay_throttled_total{" + listener + "} 20",
	      "sennit_relay_throttled_seconds_total{" + listener + "} 1.5",
	      "sennit_relay_throttled_connections{" + listener + ",to=\"backend\"} 2",
	      "sennit_relay_throttled_connections{" + listener + ",to=\"client\"} 3",
	      "sennit_relay_bytes_total{" + listener + ",to=\"client\"} 9007199254740992",
	      "sennit_relay_path_bytes_total{" + listener + ",to=\"client\",path=\"splice\"} 200",
	      "sennit_relay_connect_seconds_bucket{" + listener + ",le=\"0.000064\"} 0",
	      "sennit_relay_connect_seconds_bucket{" + listener + ",le=\"0.000128\"} 99",
	      "sennit_relay_connect_seconds_bucket{" + listener + ",le=\"4.194304\"} 100",
	      "sennit_relay_connect_seconds_bucket{" + listener + ",le=\"+Inf\"} 100",
	      "sennit_relay_connect_seconds_sum{" + listener + "} 3.0099",
	      "sennit_relay_connect_seconds_count{" + listener + "} 100",
	      "sennit_relay_backend_up{route=\"web\",backend=\"b\xef\xbf\xbd\xc3\xa4:80\"} 0"s,
	      "sennit_relay_backend_state{route=\"web\",backend=\"b\xef\xbf\xbd\xc3\xa4:80\","
	      "state=\"ejected\"} 1"s,
	      "sennit_relay_backend_failures_total{route=\"web\","
	      "backend=\"b\xef\xbf\xbd\xc3\xa4:80\"} 5"s,
	      "sennit_relay_backend_throttled_connections{" + backend + ",to=\"backend\"} 0",
	      "sennit_relay_backend_throttled_connections{" + backend + ",to=\"client\"} 1",
	      "sennit_relay_backend_addresses{" + backend + "} 2",
	      "sennit_relay_backend_resolve_failing{" + backend + "} 1",
	      "sennit_relay_backend_resolve_failures_total{" + backend + "} 4",
	      "sennit_relay_backend_last_check_timestamp_seconds{route=\"web\","
	      "backend=\"b\xef\xbf\xbd\xc3\xa4:80\"} 1700000000"s})
		EXPECT_EQ(all.count(line), 1U) << line;
}

/* Each line is a comment or a sample. Each metric is described once, before its samples. */
TEST(Metrics, AreWellFormed)
{
	const std::regex sample(
		R"re(([a-z_]+)(\{([a-z]+="([^"\\]|\\["\\n])*",?)+\})? ([0-9.]+))re");
	const std::regex comment(R"re(# (HELP|TYPE) ([a-z_]+) (.+))re");
	std::set<std::string> helped;
	std::map<std::string, std::string> types;
	std::set<std::string> seen;
	std::istringstream stream(to_metrics(example()));
	for (std::string line; std::getline(stream, line);) {
		std::smatch match;
		if (std::regex_match(line, match, comment)) {
			if (match[1] == "HELP")
				EXPECT_TRUE(helped.insert(match[2]).second) << line;
			else
				EXPECT_TRUE(types.emplace(match[2], match[3]).second) << line;
			continue;
		}
		ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
		EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << line;
		std::string name = match[1];
		if (!types.count(name))
			name = std::regex_replace(name, std::regex("_(bucket|sum|count)$"), "");
		ASSERT_TRUE(types.count(name) && helped.count(name)) << line;
		EXPECT_EQ(types[name] == "counter", name.ends_with("_total")) << name;
	}
	EXPECT_EQ(helped.size(), types.size());
}

TEST(Metrics, AreAllInTheManual)
{
	std::ifstream file(RELAY_SOURCE_DIR "/docs/relay-operation.md");
	const std::string manual{std::istreambuf_iterator<char>(file),
				 std::istreambuf_iterator<char>()};
	std::istringstream stream(to_metrics(example()));
	for (std::string line; std::getline(stream, line);)
		if (line.starts_with("# TYPE sennit_relay_")) {
			const auto name = line.substr(20, line.find(' ', 20) - 20);
			EXPECT_NE(manual.find("`" + name + "`"), manual.npos) << name;
		}
	for (const auto name : relay::termination_names)
		EXPECT_NE(manual.find("`" + std::string(name) + "`"), manual.npos) << name;
	for (const auto *name : relay::health_names)
		EXPECT_NE(manual.find("`" + std::string(name) + "`"), manual.npos) << name;
}

/* Python decides whether it is JSON. */
std::string asked_of_json(const std::string &json, const std::string &expression)
{
	const std::string path = testing::TempDir() + "exposition." + std::to_string(getpid());
	std::ofstream(path) << json;
	const auto command =
		"python3 -c 'import json,sys; now=json.load(open(sys.argv[1])); print(" +
		expression + ")' " + path;
	std::string answer;
	if (FILE *pipe = popen(command.c_str(), "r")) {
		for (int c; (c = std::fgetc(pipe)) != EOF;)
			answer += static_cast<char>(c);
		EXPECT_EQ(pclose(pipe), 0);
	}
	std::remove(path.c_str());
	return answer;
}

TEST(Status, HasTheValuesOfTheSnapshot)
{
	const auto json = to_json(example());
	EXPECT_EQ(json.find('\n'), json.size() - 1);
	EXPECT_EQ(asked_of_json(json, R"(now["version"], now["time_ms"], now["uptime_ms"],
		now["ready"], now["active"], now["log_dropped"])"),
		  "0.1.0 1700000000123 61500 True 7 3\n");
	EXPECT_EQ(asked_of_json(json, R"(repr(now["listeners"][0]["name"]),
		now["listeners"][0]["ended"]["server_reset"], len(now["listeners"][0]["ended"]),
		now["listeners"][0]["to_client"], now["listeners"][0]["connect"])"),
		  R"('web "quoted\\"\n' )"
		  "1 20 {'bytes': 9007199254740992, 'userspace': 100, 'splice': 200} "
		  "{'count': 100, 'sum_us': 3009900, 'p50_us': 104, 'p90_us': 104, "
		  "'p99_us': 104, 'p999_us': 3145728, 'buckets': [[104, 99], "
		  "[3145728, 1]]}\n");
	EXPECT_EQ(asked_of_json(json, R"(now["backends"][0]["state"],
		ascii(now["backends"][0]["address"]), now["backends"][0]["last_error"])"),
		  "ejected 'b\\ufffd\\xe4:80' refused\n");
	EXPECT_EQ(asked_of_json(json, R"(now["listeners"][0]["throttled_now"],
		now["listeners"][0]["throttled_ms"])"),
		  "{'to_backend': 2, 'to_client': 3} 1500\n");
	EXPECT_EQ(asked_of_json(json, R"(now["backends"][0]["throttled_now"],
		now["backends"][0]["named"], now["backends"][0]["addresses"],
		now["backends"][0]["resolved"], now["backends"][0]["resolve_failing"])"),
		  "{'to_backend': 0, 'to_client': 1} True 2 ['10.0.0.7:80', '[fe80::1%\"]:80'] "
		  "True\n");
	/* With nothing in it. */
	EXPECT_EQ(asked_of_json(relay::to_json({}), R"(now["listeners"], now["backends"])"),
		  "[] []\n");
}

TEST(Text, IsEscapedForItsFormat)
{
	const auto json = [](std::string_view text) {
		std::string out;
		relay::append_json(out, text);
		return out;
	};
	EXPECT_EQ(json("a\"b\\c\n\x01\x7f"), R"("a\"b\\c\u000a\u0001\u007f")");
	EXPECT_EQ(json("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
		  "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
	/* Overlong, a surrogate, past the end of Unicode, cut off, a lone continuation byte. */
	EXPECT_EQ(json("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	EXPECT_EQ(json("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	EXPECT_EQ(json("\xf4\x90\x80\x80").size(), 2 + 4 * 3U);
	EXPECT_EQ(json("\xe2\x82"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	EXPECT_EQ(json("\x80"), "\"\xef\xbf\xbd\"");

	const auto logfmt = [](std::string_view text) {
		std::string out;
		relay::append_logfmt(out, text);
		return out;
	};
	EXPECT_EQ(logfmt("10.0.0.1:80"), "10.0.0.1:80");
	EXPECT_EQ(logfmt(""), "\"\"");
	EXPECT_EQ(logfmt("a b"), "\"a b\"");
	EXPECT_EQ(logfmt("a=b"), "\"a=b\"");
	EXPECT_EQ(logfmt("a\nb"), "\"a\\u000ab\"");

	const auto decimal = [](std::uint64_t n, unsigned digits) {
		std::string out;
		relay::append_decimal(out, n, digits);
		return out;
	};
	EXPECT_EQ(decimal(1500000, 6), "1.5");
	EXPECT_EQ(decimal(64, 6), "0.000064");
	EXPECT_EQ(decimal(1000000, 6), "1");
	EXPECT_EQ(decimal(0, 6), "0");
	EXPECT_EQ(decimal(~0ULL, 6), "18446744073709.551615");
}

} // namespace
