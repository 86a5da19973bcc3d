/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as metrics and as JSON: names and values are as documented, and foreign names cannot
 * break out of their quotes. prometheus_test.py and page_test.py check that Prometheus and a
 * browser can read them.
 */
#include "base/text.hpp"
#include "stats/metrics.hpp"
#include "stats/process.hpp"
#include "stats/status.hpp"

#include "support/runtime.h"

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
	now.processors = 4;
	now.threads_blocking = 5;
	now.thread_limit_hits = 6;
	now.revocations = 8;
	now.process = {.cpu = 12345670us,
		       .started = 1699999939500ms,
		       .resident = 4096,
		       .address_space = 8192,
		       .threads = 3,
		       .descriptors = 17,
		       .descriptor_limit = 1024};
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
	now.groups.push_back({.group = "web",
			      .queued = 2,
			      .queue_limit = 1000,
			      .queue_waits = 9,
			      .queue_full = 3,
			      .queue_timeouts = 4,
			      .queue_left = 1,
			      .queue_time = 2500ms,
			      .ready_limit = 8,
			      .ready = 6,
			      .ready_hits = 40,
			      .ready_misses = 11,
			      .ready_failures = 12,
			      .ready_discarded = {13, 14, 15, 16, 17, 18}});
	now.groups.push_back({.group = "plain"});
	relay::backend_snapshot backend;
	backend.route = "web";
	backend.address = "b\xff\xc3\xa4:80";
	backend.state = relay::health::ejected;
	backend.failures = 5;
	backend.throttled_now = {.to_client = 1};
	backend.is_named = true;
	backend.addresses = {"10.0.0.7:80", "[fe80::1%\"]:80"};
	relay::endpoint_snapshot endpoint;
	endpoint.address = "10.0.0.7:80";
	endpoint.state = relay::health::down;
	endpoint.failures = 3;
	endpoint.to_client = {.bytes = 17};
	endpoint.last_error = "timed out";
	endpoint.agent = {.is_there = true,
			  .contact = relay::agent_contact::lost,
			  .percent = 75,
			  .limit = 30,
			  .admin = "maint",
			  .description = "\"new\" kernel",
			  .words = "drained by its agent"};
	backend.agent = endpoint.agent;
	backend.endpoints.push_back(endpoint);
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
	const auto all = lines(to_metrics(example(), relay::metrics_detail::full));
	const auto listener = R"(listener="web \"quoted\\\"\n")"s;
	const auto backend = "group=\"web\",backend=\"b\xef\xbf\xbd\xc3\xa4:80\""s;
	for (const auto &line :
	     {"sennit_relay_info{version=\"0.1.0\"} 1"s,
	      "sennit_relay_ready 1"s,
	      "sennit_relay_uptime_seconds 61.5"s,
	      "sennit_relay_sessions_limit 1000"s,
	      "sennit_relay_access_log_dropped_total 3"s,
	      "sennit_relay_processors 4"s,
	      "sennit_relay_threads_blocking 5"s,
	      "sennit_relay_thread_limit_hits_total 6"s,
	      "sennit_relay_revocations_total 8"s,
	      "sennit_relay_group_backends{group=\"web\",state=\"ejected\"} 1"s,
	      "sennit_relay_group_backends{group=\"web\",state=\"up\"} 0"s,
	      "sennit_relay_group_resolve_failing{group=\"web\"} 1"s,
	      "process_cpu_seconds_total 12.34567"s,
	      "process_open_fds 17"s,
	      "process_max_fds 1024"s,
	      "process_resident_memory_bytes 4096"s,
	      "process_virtual_memory_bytes 8192"s,
	      "process_start_time_seconds 1699999939.5"s,
	      "process_threads 3"s,
	      "sennit_relay_connections{" + listener + "} 7",
	      "sennit_relay_connections_accepted_total{" + listener + "} 10",
	      "sennit_relay_connections_ended_total{" + listener + ",cause=\"client_end\"} 2",
	      "sennit_relay_connections_ended_total{" + listener + ",cause=\"server_reset\"} 1",
	      "sennit_relay_connections_ended_total{" + listener + ",cause=\"killed\"} 0",
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
	      "sennit_relay_backend_up{group=\"web\",backend=\"b\xef\xbf\xbd\xc3\xa4:80\"} 0"s,
	      "sennit_relay_backend_state{group=\"web\",backend=\"b\xef\xbf\xbd\xc3\xa4:80\","
	      "state=\"ejected\"} 1"s,
	      "sennit_relay_backend_failures_total{group=\"web\","
	      "backend=\"b\xef\xbf\xbd\xc3\xa4:80\"} 5"s,
	      "sennit_relay_backend_throttled_connections{" + backend + ",to=\"backend\"} 0",
	      "sennit_relay_backend_throttled_connections{" + backend + ",to=\"client\"} 1",
	      "sennit_relay_backend_addresses{" + backend + "} 2",
	      "sennit_relay_backend_resolve_failing{" + backend + "} 1",
	      "sennit_relay_endpoint_up{" + backend + ",endpoint=\"10.0.0.7:80\"} 0",
	      "sennit_relay_endpoint_state{" + backend +
		      ",endpoint=\"10.0.0.7:80\",state=\"down\"} 1",
	      "sennit_relay_endpoint_failures_total{" + backend + ",endpoint=\"10.0.0.7:80\"} 3",
	      "sennit_relay_backend_agent_answers{" + backend + "} 0",
	      "sennit_relay_backend_agent_weight_percent{" + backend + "} 75",
	      "sennit_relay_endpoint_agent_answers{" + backend + ",endpoint=\"10.0.0.7:80\"} 0",
	      "sennit_relay_endpoint_agent_weight_percent{" + backend +
		      ",endpoint=\"10.0.0.7:80\"} 75",
	      "sennit_relay_endpoint_bytes_total{" + backend +
		      ",endpoint=\"10.0.0.7:80\",to=\"client\"} 17",
	      "sennit_relay_queue_connections{group=\"web\"} 2"s,
	      "sennit_relay_queue_limit{group=\"web\"} 1000"s,
	      "sennit_relay_queue_waits_total{group=\"web\"} 9"s,
	      "sennit_relay_queue_full_total{group=\"web\"} 3"s,
	      "sennit_relay_queue_timeouts_total{group=\"web\"} 4"s,
	      "sennit_relay_queue_left_total{group=\"web\"} 1"s,
	      "sennit_relay_queue_seconds_total{group=\"web\"} 2.5"s,
	      "sennit_relay_preconnect_ready{group=\"web\"} 6"s,
	      "sennit_relay_preconnect_hits_total{group=\"web\"} 40"s,
	      "sennit_relay_preconnect_misses_total{group=\"web\"} 11"s,
	      "sennit_relay_preconnect_failures_total{group=\"web\"} 12"s,
	      "sennit_relay_preconnect_discarded_total{group=\"web\",reason=\"closed\"} 13"s,
	      "sennit_relay_preconnect_discarded_total{group=\"web\",reason=\"config\"} 18"s,
	      "sennit_relay_backend_resolve_failures_total{" + backend + "} 4",
	      "sennit_relay_backend_last_check_timestamp_seconds{group=\"web\","
	      "backend=\"b\xef\xbf\xbd\xc3\xa4:80\"} 1700000000"s})
		EXPECT_EQ(all.count(line), 1U) << line;
}

/* Each line is a comment or a sample. Each metric is described once, before its samples. */
TEST(Metrics, HaveConnectionsMadeAheadOnlyWhereThereAreSome)
{
	auto now = example();
	EXPECT_EQ(to_metrics(now, relay::metrics_detail::full).find("preconnect_ready{group=\"p"),
		  std::string::npos);
	now.groups.erase(now.groups.begin());
	EXPECT_EQ(to_metrics(now, relay::metrics_detail::full).find("preconnect"),
		  std::string::npos);
}

TEST(Metrics, AreWellFormed)
{
	const std::regex sample(
		R"re(([a-z_]+)(\{([a-z]+="([^"\\]|\\["\\n])*",?)+\})? ([0-9.]+))re");
	const std::regex comment(R"re(# (HELP|TYPE) ([a-z_]+) (.+))re");
	std::set<std::string> helped;
	std::map<std::string, std::string> types;
	std::set<std::string> seen;
	std::istringstream stream(to_metrics(example(), relay::metrics_detail::full));
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

TEST(Metrics, AreFewByDefault)
{
	relay::snapshot many;
	many.listeners.resize(2);
	for (int i = 0; i < 200; i++) {
		auto &each = many.backends.emplace_back();
		each.route = "web";
		each.address = "backend-" + std::to_string(i) + ".web.svc:8080";
		each.is_named = true;
		each.connected = each.failures = each.active = 1000000 + i;
	}
	const auto usual = relay::to_metrics(many);
	const auto full = relay::to_metrics(many, relay::metrics_detail::full);
	EXPECT_LT(usual.size(), 120000U) << "of names as long as these";
	EXPECT_GT(full.size(), 3 * usual.size());
	/* The other names are the same, and have the same values. */
	const auto all = lines(full);
	for (const auto &line : lines(usual))
		EXPECT_EQ(all.count(line), 1U) << line;
	for (auto &each : many.backends) {
		each.is_named = false;
		each.address = "10.20." + std::to_string(&each - many.backends.data()) + ".7:8080";
	}
	EXPECT_LT(relay::to_metrics(many).size(), 100000U);
}

TEST(Process, SaysWhatItTakes)
{
	const auto now = relay::read_process_use();
	EXPECT_GT(now.cpu, 0us);
	EXPECT_GT(now.descriptors, 2U);
	EXPECT_GT(now.descriptor_limit, now.descriptors);
	/* Emulators answer for /proc/self/stat, and leave these values out. */
	if (!TEST_EMULATED) {
		EXPECT_GE(now.threads, 1U);
		EXPECT_GT(now.resident, 1U << 16);
		EXPECT_GE(now.address_space, now.resident);
	}
	/* The process has started before now, and after this source was written. */
	const auto wall = std::chrono::system_clock::now().time_since_epoch();
	EXPECT_LT(now.started, wall + 24h);
	EXPECT_GT(now.started, 365 * 24h);
}

TEST(Metrics, AreAllInTheManual)
{
	std::ifstream file(RELAY_SOURCE_DIR "/docs/relay-operation.md");
	const std::string manual{std::istreambuf_iterator<char>(file),
				 std::istreambuf_iterator<char>()};
	std::istringstream stream(to_metrics(example(), relay::metrics_detail::full));
	for (std::string line; std::getline(stream, line);)
		if (line.starts_with("# TYPE ")) {
			auto name = line.substr(7, line.find(' ', 7) - 7);
			if (name.starts_with("sennit_relay_"))
				name.erase(0, 13);
			EXPECT_NE(manual.find("`" + name + "`"), manual.npos) << name;
		}
	for (const auto name : relay::termination_names)
		EXPECT_NE(manual.find("`" + std::string(name) + "`"), manual.npos) << name;
	for (const auto *name : relay::health_names)
		EXPECT_NE(manual.find("`" + std::string(name) + "`"), manual.npos) << name;
}

/* Uses Python to read the JSON and to evaluate an expression over it. */
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
	EXPECT_EQ(asked_of_json(json, R"([now[each] for each in ("processors", "threads_blocking",
		"thread_limit_hits", "revocations")])"),
		  "[4, 5, 6, 8]\n");
	EXPECT_EQ(asked_of_json(json, R"(repr(now["listeners"][0]["name"]),
		now["listeners"][0]["ended"]["server_reset"], len(now["listeners"][0]["ended"]),
		now["listeners"][0]["to_client"], now["listeners"][0]["connect"])"),
		  R"('web "quoted\\"\n' )"
		  "1 26 {'bytes': 9007199254740992, 'userspace': 100, 'splice': 200} "
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
	EXPECT_EQ(asked_of_json(json, R"([(e["address"], e["state"], e["last_error"])
		for e in now["backends"][0]["endpoints"]])"),
		  "[('10.0.0.7:80', 'down', 'timed out')]\n");
	EXPECT_EQ(asked_of_json(json, R"(now["backends"][0]["endpoints"][0]["agent"])"),
		  "{'contact': 'lost', 'weight_percent': 75, 'limit': 30, 'admin': 'maint', "
		  "'health': 'up', 'description': '\"new\" kernel', 'words': 'drained by its "
		  "agent'}\n");
	EXPECT_EQ(asked_of_json(json, R"([now["groups"][0]["preconnect" + each]
		for each in ("", "_ready", "_hits", "_misses", "_failures")],
		now["groups"][0]["preconnect_discarded"], len(now["groups"]),
		"preconnect" in now["groups"][1])"),
		  "[8, 6, 40, 11, 12] {'closed': 13, 'spoke': 14, 'age': 15, 'backend': 16, "
		  "'room': 17, 'config': 18} 2 False\n");
	/* An empty snapshot. */
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
