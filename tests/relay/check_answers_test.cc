/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* Answers to checks in which a regular expression is searched, in any pieces and of any length. */
#include "backends/answers.hpp"
#include "backends/endpoint.hpp"
#include "base/regex.hpp"
#include "harness.hpp"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

using namespace harness;

namespace
{

std::string text(const std::string &backend, const std::string &check)
{
	return "drain = 0\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
	       "[groups.g]\nslow_return = 0\nbackends = [\"" +
	       backend + "\"]\n[groups.g.check]\ninterval = \"10ms\"\nfall = 1\nrise = 1\n" + check;
}

/* A relay whose only backend is the test, and the connections of its checks. */
class checked
{
public:
	explicit checked(const std::string &check)
	    : config_(text(backend_.address(), "timeout = \"1h\"\n" + check)),
	      relay({"--config", config_.name()})
	{
	}
	~checked() { EXPECT_EQ(relay.stop().status, 0); }

	/* Answers the next check by these pieces, and may end its stream. The connection stays
	 * open, because closing it with a request that is not read would reset it. A check that
	 * has its result may close it before the last piece, which resets it, too. */
	void answer(const std::vector<std::string> &pieces, bool end = false)
	{
		held_.push_back(backend_.accept());
		try {
			for (const auto &each : pieces)
				held_.back().send(each);
			if (end)
				held_.back().shutdown_write();
		} catch (const std::system_error &error) {
			if (error.code() != std::errc::connection_reset &&
			    error.code() != std::errc::broken_pipe &&
			    error.code() != std::errc::not_connected)
				throw;
		}
	}

	/* Whether the next change is this one. */
	void is_up() { EXPECT_EQ(relay.next_error(name()), "up again"); }
	void is_down(const std::string &why = "its answer is not the expected one")
	{
		EXPECT_EQ(relay.next_error(name()), "down: " + why);
	}

	void reload(const std::string &check)
	{
		config_.write(text(backend_.address(), "timeout = \"1h\"\n" + check));
		ASSERT_TRUE(relay.reload());
	}

private:
	std::string name() const { return "backend " + backend_.address() + " of g is "; }

	listener backend_;
	file config_;
	std::vector<peer> held_;

public:
	relay_process relay;
};

class CheckAnswers : public testing::Test
{
protected:
	void SetUp() override
	{
		if (!relay::regex::is_built)
			GTEST_SKIP() << "there is no PCRE2";
	}
};

const std::string too_long = "its answer is too long to be searched";

/* No check here ends by its timeout, which is an hour. */
TEST_F(CheckAnswers, AreSearchedAsTheyCome)
{
	checked of("expect_regex = '^220 [^\\n]*?(ready|ESMTP)'\n");
	of.answer({"421 too busy\r\n"}); /* the connection stays open */
	of.is_down();
	of.answer({"220 ma", "il.test ", "ES", "MTP\r\n250"});
	of.is_up();
	of.answer({"220 mail.test\r\nready"}, true);
	of.is_down();
	of.answer({std::string("220 \0\xff\0rea", 10), "dy"});
	of.is_up();
	of.answer({}, true);
	of.is_down();
}

TEST_F(CheckAnswers, EndWithTheConnection)
{
	checked of("expect_regex = 'ok$'\n");
	of.answer({"not o", "k\r\n"}, true);
	of.is_down();
	of.answer({"o", "k\n"}, true);
	of.is_up();
}

/* The text in pieces of that size. */
std::vector<std::string> pieces(const std::string &text, std::size_t size)
{
	std::vector<std::string> made;
	for (std::size_t at = 0; at < text.size(); at += size)
		made.push_back(text.substr(at, size));
	return made;
}

/* Wherever the answer is cut. */
TEST_F(CheckAnswers, HaveALimit)
{
	checked of("expect_regex = 'ok$|no'\n");
	const std::string most(65536, 'x');
	for (const std::size_t size : {65540, 4096, 4095, 1000}) {
		SCOPED_TRACE(size);
		of.answer(pieces(most + "no", size));
		of.is_down(too_long);
		of.answer(pieces(most.substr(2) + "ok", size), true);
		of.is_up();
		of.answer(pieces(most.substr(2) + "ok\n", size), true);
		of.is_down(too_long);
		of.answer(pieces(most.substr(2) + "no and more", size));
		of.is_up();
		of.answer(pieces(most, size), true);
		of.is_down();
		of.answer(pieces("ok\n", 1), true);
		of.is_up();
	}
}

TEST_F(CheckAnswers, ThatWouldTakeTooLongAreNot)
{
	checked of("expect_regex = '^(a+)+$'\n");
	const std::string many(60000, 'a');
	for (const std::size_t size : {70000, 777}) {
		of.answer(pieces(many + '!', size));
		of.is_down("searching its answer for the regular expression takes too long, or too "
			   "much memory");
		of.answer(pieces(many, size), true);
		of.is_up();
	}
}

/* Each check here that is not good ends by its timeout. A thread answers, because the time of a
 * check begins before this test would accept its connection. */
TEST_F(CheckAnswers, OnlyInPartAreNoSilence)
{
	std::atomic<const char *> answer{"o"};
	const serving backend([&](peer &by) {
		by.send(answer.load());
		by.receive_rest();
	});
	const std::string name = "backend " + backend.address() + " of g is ";
	configured_relay relay(text(backend.address(), "timeout = \"1s\"\nexpect_regex = 'ok'\n"));
	EXPECT_EQ(relay.next_error(name), "down: its answer is not the expected one");
	answer = "ok";
	EXPECT_EQ(relay.next_error(name), "up again");
	answer = "";
	EXPECT_EQ(relay.next_error(name), "down: Connection timed out");
	EXPECT_EQ(relay.stop().status, 0);
}

/* The reason tells a search that takes too long from the end of the time for the check. */
TEST_F(CheckAnswers, MayComeWithoutTimeToSearchThem)
{
	std::string why;
	relay::check_config how;
	how.expect_regex = relay::regex::compile("(a|a)+b", why);
	ASSERT_TRUE(how.expect_regex) << why;
	const std::string many = std::string(1000, 'a') + "!b";
	EXPECT_EQ(relay::judge_datagram(many, how, sn::now()), std::errc::timed_out);
	EXPECT_EQ(relay::judge_datagram(many, how, sn::after(std::chrono::hours(1))),
		  relay::costly_answer_error());
}

/* A search that takes until this test lets it end. */
class held_search final : public relay::regex
{
public:
	result search(std::string_view, bool, sn::deadline) const override
	{
		began.release();
		may_end.acquire();
		return result::found;
	}

	mutable sn::semaphore began;
	mutable sn::semaphore may_end;
};

TEST(CheckSearches, TakeTurns)
{
	const auto held = std::make_shared<held_search>();
	relay::check_config how;
	how.expect_regex = held;
	const auto judge = [&](sn::deadline until) {
		return relay::judge_datagram("?", how, until);
	};
	sn::run([&] {
		std::vector<sn::task<std::error_code>> checks;
		for (int i = 0; i < relay::searches_most; i++)
			checks.push_back(
				sn::spawn([&] { return judge(sn::after(std::chrono::hours(1))); }));
		for (int i = 0; i < relay::searches_most; i++)
			held->began.acquire();
		EXPECT_THROW(judge(sn::after(std::chrono::milliseconds(1))), std::bad_alloc);
		EXPECT_FALSE(held->began.try_acquire()) << "it has searched without a turn";
		held->may_end.release(relay::searches_most + 1);
		for (auto &check : checks)
			EXPECT_FALSE(check.join());
		EXPECT_FALSE(judge(sn::after(std::chrono::hours(1))));
	});
}

const std::string start = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";

TEST_F(CheckAnswers, OfHttpAreSearchedInTheirBody)
{
	checked of("http = 'GET /health'\nexpect_regex = '^\\{\"db\": *\"up\"}$'\n");
	const std::string good = "{\"db\": \"up\"}";
	of.answer({start + "Content-Length: 5\r\n\r\n" + good});
	of.is_down();
	of.answer({start + "Content-Length: 12\r\n\r\n" + good}); /* stays open */
	of.is_up();
	of.answer({start + "X: " + good + "\r\n\r\nno"}, true);
	of.is_down();
	of.answer({start + "\r\n" + good}, true);
	of.is_up();
	of.answer({"HTTP/1.1 503 No\r\n\r\n" + good}, true);
	of.is_down("its answer has the status 503");
	/* The text is in two chunks, and the pieces are others. */
	of.answer({start + "Transfer-Encoding: chunked\r\n\r\n5\r", "\n{\"db\"\r\n7\r\n: \"u",
		   "p\"}\r\n0\r\n\r\n"});
	of.is_up();
	of.answer({start + "Content-Length: 13\r\n\r\n" + good}, true);
	of.is_down("its answer is not one of HTTP/1");
	of.answer({start + "Content-Length: 12\r\n\r\n" + good});
	of.is_up();
	of.answer({start + "Transfer-Encoding: chunked\r\n\r\nno chunk\r\n"});
	of.is_down("its answer is not one of HTTP/1");
}

TEST_F(CheckAnswers, OfHttpHaveALimit)
{
	checked of("http = 'GET /'\nexpect_regex = 'ok$|no'\n");
	const std::string most(65536, 'x');
	/* An answer of that size. */
	const auto padded = [](std::size_t whole, const std::string &body) {
		const std::string before = start + "X-Pad: ";
		const std::string after = "\r\n\r\n" + body;
		return before + std::string(whole - before.size() - after.size(), 'x') + after;
	};
	for (const std::size_t size : {200000, 4096, 1000}) {
		SCOPED_TRACE(size);
		of.answer(pieces(start + "\r\n" + most + "no", size));
		of.is_down(too_long);
		of.answer(pieces(start + "\r\n" + most.substr(2) + "ok", size), true);
		of.is_up();
		of.answer(pieces(padded(131073, "no"), size));
		of.is_down(too_long);
		of.answer(pieces(padded(131072, "no"), size));
		of.is_up();
		of.answer(pieces(padded(131073, "ok"), size), true);
		of.is_down(too_long);
		of.answer(pieces(padded(131072, "ok"), size), true);
		of.is_up();
		/* The piece that goes beyond the limit is also the end. */
		of.answer(pieces(start + "Content-Length: 65537\r\n\r\n" + most.substr(2) + "ok\n",
				 size));
		of.is_down(too_long);
		of.answer(pieces(start + "Content-Length: 65536\r\n\r\n" + most.substr(2) + "ok",
				 size));
		of.is_up();
	}
}

/* What follows such an answer is not its body, whatever its headers say. */
TEST_F(CheckAnswers, OfHttpMayHaveNoBody)
{
	checked of("http = 'GET /'\nstatus = ['1xx', '2xx', 304]\nexpect_regex = 'ok'\n");
	for (const char *line : {"HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified",
				 "HTTP/1.1 100 Continue", "HTTP/1.1 200 OK"}) {
		SCOPED_TRACE(line);
		const std::string length =
			std::string(line).find("200") == std::string::npos ? "2" : "0";
		of.answer({std::string(line) + "\r\nContent-Length: " + length + "\r\n\r\nok"});
		of.is_down();
		of.answer({start + "Content-Length: 2\r\n\r\nok"});
		of.is_up();
	}
}

/* Whoever reads further than such an answer says may be deceived. */
TEST_F(CheckAnswers, OfHttpMustSayHowLongTheyAre)
{
	checked of("http = 'GET /'\nexpect_regex = 'ok'\n");
	const std::string chunked = start + "Transfer-Encoding: chunked\r\n";
	for (const auto &bad : {start + "Content-Length: 18446744073709551618\r\n\r\nok",
				start + "Content-Length: -2\r\n\r\nok",
				chunked + "Content-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n",
				chunked + "\r\n10000000000000002\r\nok\r\n0\r\n\r\n"}) {
		SCOPED_TRACE(bad);
		of.answer({bad});
		of.is_down("its answer is not one of HTTP/1");
		of.answer({chunked + "\r\n2\r\nok\r\n0\r\nX: trailer\r\n\r\n"});
		of.is_up();
	}
	of.answer({"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: "
		   "upgrade\r\n\r\nok"});
	of.is_down("its answer has the status 101");
}

TEST_F(CheckAnswers, AreTakenByAReload)
{
	checked of("expect_regex = 'a'\n");
	of.answer({"b"}, true);
	of.is_down();
	/* The first one may answer a check that has begun before the reload. */
	const auto answer_both = [&] {
		of.answer({"b"});
		of.answer({"b"});
	};
	of.reload("expect_regex = 'b'\n");
	answer_both();
	of.is_up();
	of.reload("expect_hex = 'ff'\n");
	answer_both();
	of.is_down();
	of.reload(""); /* connecting is enough again */
	of.is_up();
}

} // namespace
