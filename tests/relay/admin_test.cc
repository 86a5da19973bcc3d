/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * The admin server with clients of every kind: correct, broken and slow ones, and too many of them.
 */
#include "admin/admin.hpp"

#include "harness.hpp"
#include "stats/history.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <gtest/gtest.h>
#include <new>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

using namespace std::string_literals;
using namespace harness;

namespace
{

class source final : public relay::snapshot_source
{
public:
	relay::snapshot read() const override
	{
		if (fails.load())
			throw std::bad_alloc();
		relay::snapshot now;
		now.version = "test";
		now.ready = ready.load();
		now.active = 7;
		now.listeners.resize(listeners.load());
		for (std::size_t i = 0; i < now.listeners.size(); i++)
			now.listeners[i].name = "l" + std::to_string(i);
		return now;
	}

	bool is_ready() const noexcept override { return ready.load(); }

	const relay::history *past() const override { return keeps ? &kept : nullptr; }

	std::atomic<bool> ready{true};
	std::atomic<bool> fails{false};
	std::atomic<std::size_t> listeners{1};
	std::atomic<bool> keeps{true};
	relay::history kept;
};

/* A server in a runtime of its own, until it is destroyed. */
class running
{
public:
	explicit running(const relay::admin_limits &limits = {})
	{
		std::promise<std::string> opened;
		auto address = opened.get_future();
		thread_ = std::jthread([this, limits, &opened] {
			sn::run([&] {
				std::string why;
				auto server = relay::admin_server::open(reported, "127.0.0.1:0", 0,
									why, limits);
				if (!server) {
					opened.set_value("");
					return;
				}
				server->answer_as({{"a", "*.example.org"}, "home.test:9090"});
				server->start();
				opened.set_value(server->address());
				while (!stop_.load())
					sn::sleep(2ms);
				server->close();
			});
		});
		address_ = address.get();
	}
	~running() { stop(); }

	/* Returns when all connections have ended. */
	void stop()
	{
		stop_.store(true);
		if (thread_.joinable())
			thread_.join();
	}

	peer connect() const { return peer::connect(address_); }

	source reported;

private:
	std::atomic<bool> stop_{false};
	std::string address_;
	std::jthread thread_;
};

struct answer {
	int status = 0;
	std::string headers;
	std::string body;
};

/* Reads one answer, and expects no byte after it. */
answer receive(peer &from, bool head = false)
{
	answer got;
	while (!got.headers.ends_with("\r\n\r\n"))
		got.headers += from.receive(1);
	got.status = std::stoi(got.headers.substr(9, 3));
	const std::string field = "Content-Length: ";
	const auto at = got.headers.find(field);
	if (at == std::string::npos)
		throw std::runtime_error("an answer without its length: " + got.headers);
	const auto length = std::stoul(got.headers.substr(at + field.size()));
	if (!head && length > 0)
		got.body = from.receive(length);
	return got;
}

answer ask(const running &server, const std::string &request)
{
	auto client = server.connect();
	client.send(request);
	return receive(client, request.starts_with("HEAD"));
}

answer get(const running &server, const std::string &path)
{
	return ask(server, "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
}

bool has(const answer &in, const std::string &header)
{
	return in.headers.find("\r\n" + header + "\r\n") != std::string::npos;
}

TEST(Admin, AnswersEachOfItsPaths)
{
	const running server;
	auto got = get(server, "/healthz");
	EXPECT_EQ(got.status, 200);
	EXPECT_EQ(got.body, "ok\n");
	got = get(server, "/metrics");
	EXPECT_EQ(got.status, 200);
	EXPECT_TRUE(has(got, "Content-Type: text/plain; version=0.0.4; charset=utf-8"));
	EXPECT_NE(got.body.find("\nsennit_relay_sessions 7\n"), std::string::npos);
	for (const auto *full : {"/metrics?detail=full", "/metrics?x=y&detail=full&z"})
		EXPECT_GT(get(server, full).body.size(), got.body.size()) << full;
	for (const auto *usual : {"/metrics?", "/metrics?detail", "/metrics?detail=fuller&&"})
		EXPECT_LT(get(server, usual).body.size(), got.body.size() + 1000) << usual;
	got = get(server, "/json?pretty=no");
	EXPECT_EQ(got.status, 200);
	EXPECT_TRUE(has(got, "Content-Type: application/json"));
	EXPECT_TRUE(got.body.starts_with("{\"version\":\"test\""));
	got = get(server, "/");
	EXPECT_EQ(got.status, 200);
	EXPECT_TRUE(has(got, "Content-Type: text/html; charset=utf-8"));
	EXPECT_NE(got.headers.find("Content-Security-Policy: default-src 'none'"),
		  std::string::npos);
	EXPECT_TRUE(got.body.starts_with("<!doctype html>"));
	EXPECT_TRUE(got.body.ends_with("</html>\n"));
	/* The page loads nothing from elsewhere. */
	EXPECT_EQ(got.body.find("http:"), got.body.find("http://www.w3.org/2000/svg"));
	EXPECT_EQ(got.body.find("https:"), std::string::npos);
	got = get(server, "/nothing");
	EXPECT_EQ(got.status, 404);
}

TEST(Admin, HasTheHistory)
{
	running server;
	const auto times = [&](const std::string &query) {
		const auto got = get(server, "/history" + query);
		EXPECT_EQ(got.status, 200);
		EXPECT_TRUE(has(got, "Content-Type: application/json"));
		return got.body.substr(0, got.body.find(']') + 1);
	};
	EXPECT_EQ(times(""), R"({"uptime_ms":[])");
	for (std::uint64_t time = 1; time <= 4; time++)
		server.reported.kept.add({.uptime_ms = time});
	EXPECT_EQ(times(""), R"({"uptime_ms":[1,2,3,4])");
	EXPECT_EQ(times("?since=2"), R"({"uptime_ms":[3,4])");
	EXPECT_EQ(times("?x&since=3&y"), R"({"uptime_ms":[4])");
	EXPECT_EQ(times("?since=4"), R"({"uptime_ms":[])");
	EXPECT_EQ(times("?since=18446744073709551615"), R"({"uptime_ms":[])");
	/* If the time is malformed, the answer has everything. */
	for (const auto *bad : {"?since=", "?since=-1", "?since=2x", "?since=x", "?since",
				"?since=18446744073709551616", "?sinc=2"})
		EXPECT_EQ(times(bad), R"({"uptime_ms":[1,2,3,4])") << bad;
	server.reported.keeps = false;
	EXPECT_EQ(times(""), R"({"uptime_ms":[])");
}

TEST(Admin, AnswersUnderItsOwnNamesOnly)
{
	const running server;
	const auto status = [&](const std::string &host, const std::string &path = "/json") {
		return ask(server, "GET " + path + " HTTP/1.1\r\nHost: " + host +
					   "\r\nConnection: close\r\n\r\n")
			.status;
	};
	for (const auto *own :
	     {"127.0.0.1", "127.0.0.1:9090", "10.1.2.3:1", "[::1]", "[::1]:9090",
	      "[fe80::1%25eth0]:1", "localhost", "LocalHost:80", "localhost.", "a", "A:1",
	      "home.test", "x.example.org", "x.y.example.org.:80", " a  "})
		EXPECT_EQ(status(own), 200) << own;
	for (const auto *foreign :
	     {"evil.test", "evil.test:9090", "example.org", "xexample.org", "a.evil.test", "aa",
	      "localhost.evil.test", "127.0.0.1.evil.test", "2130706433", "[evil]", "::1.evil",
	      "a@evil.test", "evil.test, a"}) {
		for (const auto *path : {"/", "/json", "/history", "/metrics", "/none"})
			EXPECT_EQ(status(foreign, path), 421) << foreign;
		/* Health checks may use any name; their answers reveal nothing else. */
		EXPECT_EQ(status(foreign, "/healthz"), 200);
		EXPECT_EQ(status(foreign, "/ready"), 200);
	}
	EXPECT_EQ(ask(server, "GET /json HTTP/1.0\r\n\r\n").status, 200) << "a probe";
	EXPECT_EQ(ask(server, "GET /json HTTP/1.1\r\nHost: a\r\nHost: evil\r\n\r\n").status, 400);
	EXPECT_EQ(ask(server, "GET /json HTTP/1.1\r\nHost: evil\r\nX-Host: a\r\n\r\n").status, 421);
}

/* Whoever probes it takes a relay that does not answer out of service. */
TEST(Admin, SaysWhetherItIsReadyWithoutASnapshot)
{
	running server;
	server.reported.fails = true;
	EXPECT_EQ(get(server, "/ready").status, 200);
	server.reported.ready = false;
	EXPECT_EQ(get(server, "/ready").status, 503);
	EXPECT_EQ(get(server, "/healthz").status, 200);
}

TEST(Admin, IsNotReadyWhileTheRelayDrains)
{
	running server;
	EXPECT_EQ(get(server, "/ready").status, 200);
	server.reported.ready = false;
	EXPECT_EQ(get(server, "/ready").status, 503);
	/* The relay stays healthy and keeps answering. */
	EXPECT_EQ(get(server, "/healthz").status, 200);
	EXPECT_EQ(get(server, "/json").status, 200);
	server.reported.ready = true;
	EXPECT_EQ(get(server, "/ready").status, 200);
}

TEST(Admin, KeepsConnectionsForMoreRequests)
{
	const running server;
	auto client = server.connect();
	for (int i = 0; i < 50; i++) {
		client.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
		const auto got = receive(client);
		ASSERT_EQ(got.body, "ok\n");
		ASSERT_TRUE(has(got, "Connection: keep-alive"));
	}
	/* Several requests together, and then one byte at a time. */
	client.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
		    "HEAD /json HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n");
	EXPECT_EQ(receive(client).body, "ok\n");
	EXPECT_EQ(receive(client, true).status, 200);
	EXPECT_EQ(receive(client).status, 404);
	for (const char c : "GET /healthz HTTP/1.0\r\n\r\n"s)
		client.send({&c, 1});
	const auto got = receive(client);
	EXPECT_EQ(got.body, "ok\n");
	EXPECT_TRUE(has(got, "Connection: close"));
	EXPECT_EQ(client.receive_end(), ending::fin);
}

TEST(Admin, ReportsWhatIsWrongWithARequest)
{
	const running server;
	const auto status = [&](const std::string &request) {
		auto client = server.connect();
		client.send(request);
		const int answered = receive(client).status;
		/* The server closes in order, so that the answer arrives. */
		EXPECT_EQ(client.receive_end(), ending::fin) << request.substr(0, 40);
		return answered;
	};
	EXPECT_EQ(status("NONSENSE / HTTP/1.1\r\n\r\n"), 501);
	EXPECT_EQ(status("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s), 501);
	EXPECT_EQ(status("GET / HTTP/1.1\r\nno colon\r\n\r\n"), 400);
	EXPECT_EQ(status("GET / HTTP/3.0\r\n\r\n"), 505);
	EXPECT_EQ(status("GET /" + std::string(2000, 'a') + " HTTP/1.1\r\n\r\n"), 414);
	EXPECT_EQ(status("GET / HTTP/1.1\r\nA: " + std::string(9000, 'a') + "\r\n\r\n"), 431);
	EXPECT_EQ(status("GET / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"), 413);
	const auto got = ask(server, "POST / HTTP/1.1\r\nHost: a\r\n\r\n");
	EXPECT_EQ(got.status, 405);
	EXPECT_TRUE(has(got, "Allow: GET, HEAD"));
	/* The server does not want to read this megabyte: the client may be cut off before the
	 * answer. */
	auto client = server.connect();
	try {
		client.send("GET / HTTP/1.1\r\nA: " + std::string(1 << 20, 'a'));
		EXPECT_EQ(receive(client).status, 431);
	} catch (const std::exception &) {
	}
	EXPECT_EQ(get(server, "/healthz").status, 200);
}

TEST(Admin, DropsClientsThatTakeTooLong)
{
	{
		const running server(
			{.request_time = 100ms, .answer_time = 100ms, .idle_time = 300ms});
		/* A request that is never complete, although bytes keep coming. */
		auto slow = server.connect();
		const auto start = std::chrono::steady_clock::now();
		slow.send("GET /healthz HTTP/1.1\r\nA: ");
		std::jthread trickle([&slow](const std::stop_token &stop) {
			while (!stop.stop_requested()) {
				std::this_thread::sleep_for(20ms);
				try {
					slow.send("x");
				} catch (const std::exception &) {
					return;
				}
			}
		});
		EXPECT_EQ(receive(slow).status, 408);
		EXPECT_GE(std::chrono::steady_clock::now() - start, 90ms);
		/* A client that sends nothing. */
		auto silent = server.connect();
		EXPECT_EQ(silent.receive_end(), ending::fin);
	}
	/* Waiting for the next request does not count towards the time of a request. */
	const running server({.request_time = 100ms, .idle_time = patience});
	auto patient = server.connect();
	for (int i = 0; i < 2; i++) {
		patient.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
		EXPECT_EQ(receive(patient).status, 200);
		std::this_thread::sleep_for(150ms);
	}
}

TEST(Admin, DropsClientsThatDoNotReadTheAnswer)
{
	running server({.connections_most = 1, .answer_time = 200ms});
	/* An answer that no buffer holds, four times. */
	server.reported.listeners = 1000;
	auto stuck = server.connect();
	const auto request = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"s;
	stuck.send(request + request + request + request);
	/* This client has the only place until the server drops it. */
	EXPECT_TRUE(eventually([&] {
		try {
			return get(server, "/healthz").status == 200;
		} catch (const std::exception &) {
			return false;
		}
	}));
}

TEST(Admin, RefusesAClientWhileAllOthersAreAnswered)
{
	/* Few, because the large pages take a while under a sanitizer. */
	running server({.connections_most = 2});
	server.reported.listeners = 1000;
	std::vector<peer> stuck;
	for (int i = 0; i < 2; i++) {
		stuck.push_back(server.connect());
		for (int k = 0; k < 4; k++) /* more than any buffer holds */
			stuck.back().send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
		stuck.back().receive(1);
	}
	for (int i = 0; i < 100; i++) {
		auto more = server.connect();
		EXPECT_EQ(receive(more).status, 503);
		EXPECT_EQ(more.receive_end(), ending::fin);
	}
	/* A client that leaves makes room. */
	stuck.pop_back();
	EXPECT_TRUE(eventually([&] {
		auto client = server.connect();
		try {
			client.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
			return receive(client).status == 200;
		} catch (const std::exception &) {
			return false;
		}
	}));
}

TEST(Admin, ClientsThatWaitMakeRoomForOthers)
{
	const auto request = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"s;
	const running server({.connections_most = 3, .request_time = 1h, .idle_time = 1h});
	auto kept = server.connect(); /* has had an answer, and is silent since */
	kept.send(request);
	ASSERT_EQ(receive(kept).status, 200);
	auto begun = server.connect();
	begun.send("GET /hea");
	auto silent = server.connect();
	/*
	 * Other clients come, of which three stay. Now and then one is refused while the earlier
	 * ones still count as being answered, because a client has its answer before the server
	 * knows that.
	 */
	const auto is_closed = [](const peer &client) {
		char byte;
		return recv(client.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
	};
	std::deque<peer> others;
	std::size_t served = 0;
	EXPECT_TRUE(eventually([&] {
		others.push_back(server.connect());
		others.back().send(request);
		served += receive(others.back()).status == 200;
		if (others.size() > 3)
			others.pop_front();
		return is_closed(kept) && is_closed(begun) && is_closed(silent);
	}));
	EXPECT_GE(served, 3U);
	/* As many as a careless scanner may leave behind. */
	std::vector<peer> crowd;
	for (int i = 0; i < 200; i++)
		crowd.push_back(server.connect());
	EXPECT_EQ(get(server, "/healthz").status, 200);
}

TEST(Admin, ClosesWithClientsInEveryState)
{
	running server;
	server.reported.listeners = 1000;
	std::vector<peer> clients;
	/* Each third one has eight large pages made, which takes a while under a sanitizer. */
	const auto most = std::max<std::size_t>(scaled(30), 6);
	for (std::size_t i = 0; i < most; i++) {
		clients.push_back(server.connect());
		switch (i % 3) {
		case 0: /* silent */
			break;
		case 1:
			clients.back().send("GET / HT");
			break;
		case 2: /* takes no answer */
			for (int k = 0; k < 8; k++)
				clients.back().send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
			break;
		}
	}
	EXPECT_EQ(get(server, "/healthz").status, 200);
	const auto start = std::chrono::steady_clock::now();
	server.stop();
	/* Less than the time after which silent clients are dropped. Large pages take a while under
	 * a sanitizer or an emulator. */
	EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

TEST(Admin, SaysWhyItCannotListen)
{
	const listener there;
	source reported;
	sn::run([&] {
		std::string why;
		EXPECT_FALSE(relay::admin_server::open(reported, there.address(), 0, why));
		EXPECT_NE(why.find("cannot listen on " + there.address()), why.npos) << why;
		EXPECT_FALSE(relay::admin_server::open(reported, "nonsense", 0, why));
		EXPECT_NE(why.find("nonsense"), why.npos);
	});
}

} // namespace
