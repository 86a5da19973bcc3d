/* SPDX-License-Identifier: MIT */
/*
 * What the relay's process reports about its connections, in its log and over HTTP, and its
 * messages when the log or the admin server cannot be opened.
 */
#include "harness.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace std::string_literals;
using namespace harness;

namespace
{

using fields = std::map<std::string, std::string>;

/* The lines of a log, which must not contain quotes. */
std::vector<fields> log_lines(const std::string &path)
{
	std::vector<fields> lines;
	std::ifstream file(path);
	for (std::string line; std::getline(file, line);) {
		std::istringstream words(line);
		fields all;
		for (std::string word; words >> word;)
			all[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
		lines.push_back(std::move(all));
	}
	return lines;
}

/* Waits for the log's only line. */
fields only_line(const std::string &path)
{
	EXPECT_TRUE(eventually([&] { return !log_lines(path).empty(); }));
	const auto lines = log_lines(path);
	EXPECT_EQ(lines.size(), 1U);
	return lines.empty() ? fields() : lines[0];
}

std::string admin_address(relay_process &relay)
{
	std::string found;
	EXPECT_TRUE(eventually([&] {
		const auto text = relay.output();
		const auto at = text.find("admin on ");
		const auto end = text.find('\n', at == text.npos ? 0 : at);
		if (at == text.npos || end == text.npos)
			return false;
		found = text.substr(at + 9, end - at - 9);
		return true;
	}));
	return found;
}

std::string get(const std::string &address, const std::string &path)
{
	auto client = peer::sending("GET " + path + " HTTP/1.0\r\n\r\n", address);
	return client.receive_rest().first;
}

TEST(AccessLogOfTheRelay, RecordsAServedConnection)
{
	const folder in;
	listener backends;
	relay_process relay({"--access-log", in / "log", "127.0.0.1:0", backends.address()});
	auto client = peer::connect(relay.address());
	auto backend = backends.accept();
	client.send("12345");
	EXPECT_EQ(backend.receive(5), "12345");
	backend.send("123");
	EXPECT_EQ(client.receive(3), "123");
	backend.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	client.close();

	auto line = only_line(in / "log");
	EXPECT_EQ(line["cause"], "server_end");
	EXPECT_EQ(line["listener"], relay.address());
	EXPECT_EQ(line["backend"], backends.address());
	EXPECT_EQ(line["client"].substr(0, 10), "127.0.0.1:");
	EXPECT_EQ(line["to_backend"], "5");
	EXPECT_EQ(line["to_client"], "3");
	EXPECT_EQ(line.count("error"), 0U);
	const auto ms = [&line](const char *name) { return std::stod(line[name]); };
	EXPECT_GE(ms("duration_ms"), ms("connect_ms"));
	EXPECT_GE(ms("duration_ms"), ms("first_byte_ms"));
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(AccessLogOfTheRelay, RecordsEachCause)
{
	const auto cause = [](std::vector<std::string> options, auto what) {
		const folder in;
		listener backends;
		options.insert(options.end(),
			       {"--access-log", in / "log", "127.0.0.1:0", backends.address()});
		relay_process relay(options);
		auto client = peer::connect(relay.address());
		auto backend = backends.accept();
		/* The answer shows that the relay has noticed the connection to the backend. Not
		 * for the idle timeout, which may end the connection earlier. */
		if (options[0] != "--idle-timeout") {
			client.send("x");
			EXPECT_EQ(backend.receive(1), "x");
		}
		what(client, backend, relay);
		const auto found = only_line(in / "log")["cause"];
		relay.stop();
		return found;
	};
	EXPECT_EQ(cause({},
			[](peer &client, peer &backend, relay_process &) {
				client.shutdown_write();
				EXPECT_EQ(backend.receive_end(), ending::fin);
				backend.close();
				EXPECT_EQ(client.receive_end(), ending::fin);
			}),
		  "client_end");
	EXPECT_EQ(cause({}, [](peer &client, peer &, relay_process &) { client.reset(); }),
		  "client_reset");
	EXPECT_EQ(cause({}, [](peer &, peer &backend, relay_process &) { backend.reset(); }),
		  "server_reset");
	EXPECT_EQ(cause({"--idle-timeout", "50ms"},
			[](peer &client, peer &, relay_process &) {
				EXPECT_EQ(client.receive_end(), ending::fin);
			}),
		  "idle_timeout");
	EXPECT_EQ(cause({"--drain", "0"},
			[](peer &client, peer &, relay_process &relay) {
				relay.signal(SIGTERM);
				EXPECT_EQ(client.receive_end(), ending::reset);
			}),
		  "cut");
	EXPECT_EQ(cause({"--drain", "1h", "--admin", "127.0.0.1:0"},
			[](peer &client, peer &backend, relay_process &relay) {
				const auto admin = admin_address(relay);
				relay.signal(SIGTERM);
				EXPECT_TRUE(eventually([&] {
					return get(admin, "/ready").find(" 503 ") !=
					       std::string::npos;
				}));
				client.close();
				EXPECT_EQ(backend.receive_end(), ending::fin);
				backend.close();
			}),
		  "drained");
}

TEST(AccessLogOfTheRelay, RecordsABackendThatRefuses)
{
	const folder in;
	const listener nobody("127.0.0.1", -1);
	relay_process relay({"--access-log", in / "log", "--access-log-format", "json", "--retries",
			     "0", "127.0.0.1:0", nobody.address()});
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	EXPECT_EQ(relay.stop().status, 0);
	std::ifstream file(in / "log");
	std::string line;
	ASSERT_TRUE(std::getline(file, line));
	EXPECT_NE(line.find("\"cause\":\"connect_failed\""), line.npos) << line;
	EXPECT_NE(line.find("\"error\":\"Connection refused\""), line.npos) << line;
	EXPECT_EQ(line.find("connect_ms"), line.npos) << line;
	EXPECT_FALSE(std::getline(file, line));
}

TEST(AccessLogOfTheRelay, IsReopenedOnSighup)
{
	const folder in;
	listener backends;
	relay_process relay({"--access-log", in / "log", "127.0.0.1:0", backends.address()});
	const auto once = [&] {
		auto client = peer::connect(relay.address());
		auto backend = backends.accept();
		client.close();
		EXPECT_EQ(backend.receive_end(), ending::fin);
	};
	once();
	only_line(in / "log");
	std::filesystem::rename(in / "log", in / "log.1");
	relay.signal(SIGHUP);
	EXPECT_TRUE(eventually([&] { return std::filesystem::exists(in / "log"); }));
	once();
	only_line(in / "log");
	EXPECT_EQ(log_lines(in / "log.1").size(), 1U);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(AdminOfTheRelay, FollowsDrainingToItsEnd)
{
	listener backends;
	relay_process relay(
		{"--drain", "1h", "--admin", "127.0.0.1:0", "127.0.0.1:0", backends.address()});
	const auto admin = admin_address(relay);
	auto client = peer::connect(relay.address());
	auto backend = backends.accept();
	EXPECT_NE(get(admin, "/ready").find(" 200 OK"), std::string::npos);
	EXPECT_NE(get(admin, "/metrics").find("\nsennit_relay_sessions 1\n"), std::string::npos);

	relay.signal(SIGTERM);
	EXPECT_TRUE(eventually(
		[&] { return get(admin, "/ready").find(" 503 ") != std::string::npos; }));
	EXPECT_NE(get(admin, "/metrics").find("\nsennit_relay_sessions 1\n"), std::string::npos);
	/* A client that sends no request does not keep the relay from ending. */
	auto silent = peer::connect(admin);
	client.close();
	EXPECT_EQ(backend.receive_end(), ending::fin);
	backend.close();
	EXPECT_EQ(relay.wait().status, 0);
}

TEST(BadOptions, OfLogAndAdminAreExplained)
{
	const auto fails = [](std::vector<std::string> options, int status,
			      const std::string &why) {
		options.insert(options.end(), {"127.0.0.1:0", "127.0.0.1:1"});
		relay_process relay(options);
		const auto end = relay.wait();
		EXPECT_EQ(end.status, status) << options[1];
		EXPECT_NE(end.errors.find(why), end.errors.npos) << end.errors;
		EXPECT_EQ(std::count(end.errors.begin(), end.errors.end(), '\n'), 1) << end.errors;
	};
	const listener taken;
	fails({"--admin", "nonsense"}, 2, "--admin");
	fails({"--admin", taken.address()}, 1, "cannot listen on " + taken.address());
	fails({"--access-log", "/nonexistent/log"}, 1,
	      "cannot open the access log /nonexistent/log: No such file");
	fails({"--access-log", "fd:77"}, 1, "fd:77\\\" is not an open descriptor");
	fails({"--access-log-format", "xml"}, 2,
	      "--access-log-format: is neither \"logfmt\" nor \"json\" and has no fields");
	fails({"--access-log-format", "{clint}"}, 2,
	      "--access-log-format: has a { without the name of a field after it at "
	      "character 1; expected {{ for the character itself, or one of time, ");
}

/* A test of the harness: no process is left that could print the text. */
TEST(Harness, AWaitForTheOutputOfADeadRelayEndsAtOnce)
{
	const auto began = std::chrono::steady_clock::now();
	relay_process relay({"--no-such-option"});
	try {
		relay.await_error("this is never printed");
		ADD_FAILURE() << "it was printed";
	} catch (const std::exception &error) {
		EXPECT_NE(std::string(error.what()).find("--no-such-option"), std::string::npos)
			<< error.what();
	}
	EXPECT_LT(std::chrono::steady_clock::now() - began, patience);
	EXPECT_NE(relay.wait().status, 0);
}

} // namespace
