/* SPDX-License-Identifier: MIT */
/*
 * Reading requests: whole, in pieces, several together, and with every mistake that has an answer
 * of its own. Writing answers.
 */
#include "wire/http.hpp"

#include "harness.hpp"

#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

using namespace std::string_literals;
using relay::http_reader;
using relay::to_http;

namespace
{

/* The status with which the text is refused; 0 if it is accepted. */
int refused(std::string_view text)
{
	http_reader reader;
	while (!text.empty() && !reader.complete() && !reader.http_error())
		text.remove_prefix(reader.feed(text));
	return reader.http_error();
}

TEST(HttpReader, ReadsARequestInAnyPieces)
{
	const auto text = "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"s;
	for (std::size_t piece = 1; piece <= text.size(); piece++) {
		http_reader reader;
		EXPECT_FALSE(reader.begun());
		for (std::size_t at = 0; at < text.size(); at += piece) {
			ASSERT_FALSE(reader.complete());
			const auto part = std::string_view(text).substr(at, piece);
			ASSERT_EQ(reader.feed(part), part.size());
			ASSERT_EQ(reader.http_error(), 0);
			ASSERT_TRUE(reader.begun());
		}
		ASSERT_TRUE(reader.complete());
		EXPECT_EQ(reader.request().method, "GET");
		EXPECT_EQ(reader.request().path, "/metrics");
		EXPECT_TRUE(reader.request().keep_alive);
	}
}

/* RFC 9112, section 3.2.2. */
TEST(HttpReader, TakesAWholeUrl)
{
	const auto read = [](const std::string &target) {
		http_reader reader;
		reader.feed("GET " + target + " HTTP/1.1\r\nHost: other\r\n\r\n");
		EXPECT_TRUE(reader.complete()) << target;
		return reader.request();
	};
	const struct {
		const char *target, *host, *path, *query;
	} cases[] = {
		{"http://a.example", "a.example", "/", ""},
		{"http://a.example:80/", "a.example:80", "/", ""},
		{"http://a.example?x=1", "a.example", "/", "x=1"},
		{"http://[::1]:9/b/c?d", "[::1]:9", "/b/c", "d"},
		{"/http://a.example", "other", "/http://a.example", ""},
		{"/?to=http://a.example", "other", "/", "to=http://a.example"},
	};
	for (const auto &each : cases) {
		const auto got = read(each.target);
		EXPECT_EQ(got.host, each.host) << each.target;
		EXPECT_EQ(got.path, each.path) << each.target;
		EXPECT_EQ(got.query, each.query) << each.target;
	}
}

TEST(HttpReader, ReadsOneRequestAfterAnother)
{
	const auto text = "GET /a HTTP/1.1\r\nHost: a\r\n\r\nHEAD /b HTTP/1.1\r\nHost: a\r\n\r\n"
			  "GET /c HTTP/1.0\r\n\r\nrest"s;
	std::string_view rest = text;
	http_reader reader;
	for (const char *path : {"/a", "/b", "/c"}) {
		rest.remove_prefix(reader.feed(rest));
		ASSERT_TRUE(reader.complete()) << path;
		EXPECT_EQ(reader.feed(rest), 0U);
		EXPECT_EQ(reader.request().path, path);
		EXPECT_EQ(reader.request().keep_alive, path != "/c"s);
		reader.next();
		EXPECT_FALSE(reader.begun());
	}
	EXPECT_EQ(rest, "rest");
}

TEST(HttpReader, KeepsAliveAsTheClientSays)
{
	const auto keeps = [](std::string_view text) {
		http_reader reader;
		reader.feed(text);
		EXPECT_TRUE(reader.complete());
		return reader.request().keep_alive;
	};
	EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
	EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
	EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n"
			   "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"));
}

TEST(HttpReader, ReportsOtherMethods)
{
	for (const char *method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"}) {
		http_reader reader;
		reader.feed(method + " / HTTP/1.1\r\nHost: a\r\n\r\n"s);
		ASSERT_TRUE(reader.complete()) << method;
		EXPECT_EQ(reader.request().method, method);
	}
}

TEST(HttpReader, RefusesWithTheStatusThatFits)
{
	EXPECT_EQ(refused("NONSENSE / HTTP/1.1\r\n\r\n"), 501);
	EXPECT_EQ(refused("\x16\x03\x01\x02"s), 501);
	EXPECT_EQ(refused("GET / HTTP/2.7\r\n\r\n"), 505);
	EXPECT_EQ(refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
	EXPECT_EQ(refused("GET / HTTX/1.1\r\n\r\n"), 400);
	EXPECT_EQ(refused("GET /\1 HTTP/1.1\r\n\r\n"), 400);
	EXPECT_EQ(refused("GET / HTTP/1.1\r\nno colon\r\n\r\n"), 400);
	EXPECT_EQ(refused("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"), 400);
	EXPECT_EQ(refused("GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n"
			  "\r\n"),
		  400);
	EXPECT_EQ(refused("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde"), 413);
	EXPECT_EQ(refused("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"), 413);
	EXPECT_EQ(refused("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), 0);
}

TEST(HttpReader, RefusesWhatIsTooLarge)
{
	const auto url = [](std::size_t n) {
		return "GET /" + std::string(n - 1, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n";
	};
	EXPECT_EQ(refused(url(http_reader::url_most)), 0);
	EXPECT_EQ(refused(url(http_reader::url_most + 1)), 414);
	EXPECT_EQ(refused(url(1 << 20)), 414);

	const auto headers = [](std::size_t n) {
		const auto start = "GET / HTTP/1.1\r\nX: "s;
		return start + std::string(n - start.size() - 4, 'a') + "\r\n\r\n";
	};
	EXPECT_EQ(refused(headers(http_reader::request_most)), 0);
	EXPECT_EQ(refused(headers(http_reader::request_most + 1)), 431);
	EXPECT_EQ(refused(headers(1 << 20)), 431);
	std::string many = "GET / HTTP/1.1\r\n";
	for (int i = 0; i < 100000; i++)
		many += "A: b\r\n";
	EXPECT_EQ(refused(many), 431);
}

TEST(HttpReader, ReadsNothingMoreOnceItHasRefused)
{
	http_reader reader;
	reader.feed("NONSENSE / HTTP/1.1\r\n\r\n");
	ASSERT_EQ(reader.http_error(), 501);
	EXPECT_EQ(reader.feed("GET / HTTP/1.1\r\n\r\n"), 0U);
	EXPECT_FALSE(reader.complete());
}

/* What the reader returned for a text that is fed in pieces of at most size() bytes. */
struct outcome {
	std::size_t took = 0;
	bool complete = false;
	int error = 0;
	std::string path;

	bool operator==(const outcome &) const = default;
};

template <class Size>
outcome fed(std::string_view text, Size size)
{
	http_reader reader;
	outcome now;
	while (now.took < text.size() && !reader.complete() && !reader.http_error()) {
		/* A separate copy, in which AddressSanitizer notices reads past the end. */
		const std::string piece(text.substr(now.took, size()));
		const auto took = reader.feed(piece);
		EXPECT_LE(took, piece.size());
		now.took += took;
	}
	now.complete = reader.complete();
	now.error = reader.http_error();
	EXPECT_FALSE(now.complete && now.error);
	/* How much of a refused text was read depends on the pieces. */
	if (now.error)
		now.took = 0;
	if (now.complete)
		now.path = reader.request().path;
	return now;
}

TEST(HttpReader, DoesNotDependOnHowBytesAreCut)
{
	const std::string seeds[] = {
		"GET /metrics?a=b HTTP/1.1\r\nHost: localhost:9090\r\nUser-Agent: x\r\n"
		"Accept: text/plain;q=0.5,*/*;q=0.1\r\nAccept-Encoding: gzip\r\n\r\n",
		"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
		"POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
		"chunked\r\n\r\n5\r\nabcde\r\n",
		"\r\n\r\nGET / HTTP/1.1\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
		"GET /" + std::string(1015, 'a') + " HTTP/1.1\r\nA: " + std::string(7000, 'b') +
			"\r\n\r\n",
	};
	const auto seed = harness::seed();
	SCOPED_TRACE("seed " + std::to_string(seed));
	std::mt19937_64 random(seed);
	const auto below = [&random](std::size_t n) {
		return static_cast<std::size_t>(random() % n);
	};
	for (std::size_t i = harness::scaled(3000); i > 0; i--) {
		auto text = seeds[below(std::size(seeds))];
		for (auto changes = below(4); changes > 0; changes--) {
			const auto at = below(text.size());
			switch (below(4)) {
			case 0:
				text[at] = static_cast<char>(below(256));
				break;
			case 1:
				text.insert(at, 1 + below(300), "ab \r\n:/"[below(7)]);
				break;
			case 2:
				text.erase(at, 1 + below(8));
				break;
			case 3:
				text[at] = "\r\n :/0"[below(6)];
				break;
			}
			if (text.empty())
				text = "G";
		}
		const auto whole = fed(text, [] { return std::size_t{1} << 20; });
		ASSERT_EQ(fed(text, [] { return std::size_t{1}; }), whole) << text;
		ASSERT_EQ(fed(text, [&] { return 1 + below(50); }), whole) << text;
	}
}

TEST(HttpAnswer, HasAllThatAClientNeeds)
{
	EXPECT_EQ(to_http({.status = 404, .body = "no\n"}),
		  "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
		  "Content-Length: 3\r\nCache-Control: no-store\r\n"
		  "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nno\n");
	const auto head = to_http({.type = "text/html",
				   .body = "12345",
				   .more_headers = "A: b\r\n",
				   .keep_alive = true,
				   .head = true});
	EXPECT_NE(head.find("Content-Length: 5\r\n"), head.npos);
	EXPECT_NE(head.find("Connection: keep-alive\r\nA: b\r\n"), head.npos);
	EXPECT_EQ(head.substr(head.size() - 4), "\r\n\r\n");
}

} // namespace
