/* SPDX-License-Identifier: MIT */
/* Labels: memory */
/*
 * Regular expressions in answers: which ones are refused, what a search finds before the end, and
 * that it is bounded. fuzz/relay/regex_properties.hpp has what holds for all of them.
 */
#include "base/regex.hpp"

#include <chrono>
#include <cstddef>
#include <ctime>
#include <gtest/gtest.h>
#include <string>
#include <string_view>

using relay::regex;
using result = relay::regex::result;
using namespace std::string_literals;

namespace relay
{

void PrintTo(regex::result of, std::ostream *to);

void PrintTo(regex::result of, std::ostream *to)
{
	constexpr const char *names[] = {"found", "not yet", "never", "too costly"};
	*to << names[static_cast<std::size_t>(of)];
}

} // namespace relay

namespace
{

TEST(RegexWithoutPcre2, SaysSo)
{
	if (regex::is_built)
		GTEST_SKIP() << "there is PCRE2";
	std::string why;
	EXPECT_FALSE(regex::compile("a", why));
	EXPECT_NE(why.find("built without PCRE2"), why.npos) << why;
}

class Regex : public testing::Test
{
protected:
	void SetUp() override
	{
		if (!regex::is_built)
			GTEST_SKIP() << "there is no PCRE2";
	}

	static result search(const std::string &text, std::string_view bytes, bool is_all = false)
	{
		std::string why;
		const auto compiled = regex::compile(text, why);
		EXPECT_TRUE(compiled) << text << ' ' << why;
		return compiled ? compiled->search(bytes, is_all, sn::no_deadline) : result::never;
	}

	static std::string reason(const std::string &text)
	{
		std::string why;
		EXPECT_FALSE(regex::compile(text, why)) << text;
		return why;
	}
};

TEST_F(Regex, IsFoundOnceNothingThatFollowsCanChangeIt)
{
	struct meaning {
		std::string text;
		std::string bytes;
		result before_end;
		result at_end;
	};
	const auto found = result::found;
	const auto not_yet = result::not_yet;
	const auto never = result::never;
	const meaning all[] = {
		{"ok", "it is ok.", found, found},
		{"ok", "it is o", not_yet, not_yet},
		{"^ok", "ok", found, found},
		{"^ok", "o", not_yet, never},
		{"^ok", "no\nok", never, never},
		{"(?m)^ok", "no\nok", found, found},
		{"ok$", "ok", not_yet, found},
		{"ok$", "ok\n", not_yet, found},
		{"ok$", "ok\r\n", not_yet, not_yet},
		{"ok$", "ok\n\n", not_yet, not_yet},
		{"(*ANYCRLF)ok$", "ok\r\n", not_yet, found},
		{"ok\\z", "ok\n", not_yet, not_yet},
		{"ok\\Z", "ok\n", not_yet, found},
		{"(?m)ok$", "ok\nno", found, found},
		{"ok\\b", "ok", not_yet, found},
		{"ok(?!!)", "ok", not_yet, found},
		{"ok(?!!)", "ok!", not_yet, not_yet},
		{"a|ab", "a", found, found},
		{"ab|a", "a", not_yet, found},
		{"^220 .*ready", "220 ready", not_yet, found},
		{"^220 .*ready", "220 ready\r\n", found, found},
		{"^220 .*?ready", "220 ready", found, found},
		{"a.c", "a\0c"s, found, found},
		{"a.c", "a\nc", not_yet, not_yet},
		{"(?s)a.c", "a\nc", found, found},
		{"\\x00\\xff", "\0\xff"s, found, found},
		{"a\0b"s, "a\0b"s, found, found},
		{"h\u00e9llo", "h\u00e9llo", found, found},
		{"(?i)OK [a-c]", "ok C", found, found},
		{"(.)\\1", "abb", found, found},
	};
	for (const auto &each : all) {
		SCOPED_TRACE(each.text + " in " + testing::PrintToString(each.bytes));
		EXPECT_EQ(search(each.text, each.bytes), each.before_end);
		EXPECT_EQ(search(each.text, each.bytes, true), each.at_end);
		EXPECT_EQ(search(each.text, ""), not_yet);
		EXPECT_EQ(search(each.text, "", true), never);
	}
}

TEST_F(Regex, ThatMayMatchNothingIsRefused)
{
	for (const char *text :
	     {"^",    "$",   "^$",     "\\b",    "\\A\\z", "a*", "(ok)?",       "a{0}",
	      "ok|",  "|ok", "(a|b*)", "(?=ok)", "(?!no)", "()", "(*ACCEPT)ok", "(?:(*ACCEPT)|ok)",
	      "(?#)", "a??", "(?i)",   "x*$"})
		EXPECT_EQ(reason(text),
			  "can match the empty string; expected one that needs at least a byte")
			<< text;
	/* With a byte, as the manual says. */
	EXPECT_EQ(search("(?s)^(?!.*error).", "all\nis well", true), result::found);
	EXPECT_EQ(search("(?s)^(?!.*error).", "all\nis well"), result::not_yet);
	EXPECT_EQ(search("(?s)^(?!.*error).", "all\nerror!", true), result::never);
}

TEST_F(Regex, ThatIsBadIsExplained)
{
	EXPECT_EQ(reason("a(b"),
		  "is not a regular expression: missing closing parenthesis, at byte "
		  "4; expected the syntax of pcre2pattern(3)");
	for (const auto &text :
	     {"*a"s, "[a"s, "a)"s, "a{3,2}"s, "(?<n"s, "\\x{100}"s, "(*UTF)a"s, "(*UCP)a"s, "\\"s,
	      std::string(51, '(') + 'a' + std::string(51, ')')})
		EXPECT_TRUE(reason(text).starts_with("is not a regular expression: ")) << text;
	EXPECT_EQ(search(std::string(50, '(') + 'a' + std::string(50, ')'), "a"), result::found);
}

std::string times(int n, const std::string &text)
{
	std::string all;
	for (int i = 0; i < n; i++)
		all += text;
	return all;
}

std::chrono::nanoseconds cpu_time()
{
	timespec now{};
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/*
 * Without bounds these take seconds to hours, or as much memory as there is. The bytes have the
 * last one that the expression needs, because without it PCRE2 does not even begin.
 */
TEST_F(Regex, IsBounded)
{
	struct costly {
		std::string text;
		std::string bytes;
	};
	const std::string many(65500, 'a');
	const costly all[] = {
		{"(a+)+$", many + '!'},
		{"(a*)*b", many + "!b"},
		{"(a|a)+b", many + "!b"},
		{"(a|aa)+$", many + '!'},
		{"(.*.*.*.*.*)x", many + "\nx"},
		{"^(([a-z])+.)+[A-Z]$", many + "!!A"},
		{"(a?){240}(a){240}b", many + "!b"},
		{"(?:a+)+\\1?(b)", many + "!b"},
		{"(a+)\\1b", many + "!b"},
		{"(a|b)+c", many + "!c"},
		{"\\w+ready", many + " ready"},
		{"[a-z]+\\d", many + " 1"},
	};
	for (const auto &each : all)
		for (const bool is_all : {false, true}) {
			SCOPED_TRACE(each.text);
			EXPECT_EQ(search(each.text, each.bytes, is_all), result::too_costly);
		}
	EXPECT_EQ(search("(a+)+$", many, true), result::found);
}

/* Few steps, each of which passes over many bytes. Without a bound of the time, the first of them
 * takes long, and its result is not_yet. */
TEST_F(Regex, IsBoundedIfItsStepsAreLong)
{
	const std::string half(32766, 'a');
	EXPECT_EQ(search("(?:[^b]{32767}" + times(39, "|[^b]{32767}") + ")c",
			 half + 'b' + half + "bc"),
		  result::too_costly);
	EXPECT_EQ(search("(a{20000})a*?\\1b", std::string(39999, 'a') + '!'), result::too_costly);
}

/* An ordinary search of an answer as long, and one that begins with a repeat in a shorter one. */
TEST_F(Regex, IsNotBoundedBeforeItHasTo)
{
	/* On a slow machine it may take longer than a search may. */
	const auto expect_found = [](const std::string &text, const std::string &bytes) {
		const auto began = cpu_time();
		const auto got = search(text, bytes, true);
		if (got != result::too_costly ||
		    cpu_time() - began < std::chrono::milliseconds(50)) {
			EXPECT_EQ(got, result::found) << text;
		}
	};
	const std::string many(65500, 'a');
	expect_found("(.|\\n)*\"status\": *\"(ok|up)\"", many + "\"status\": \"up\"");
	expect_found("a[^b]*?c", many + 'c');
	expect_found("\\b\\w+ready", many + " ready? ready, isready");
	expect_found("\\wready", many + " ready? ready, isready");
	expect_found("\\w+ready", many.substr(0, 1500) + " isready");
	expect_found("[a-z]+\\d", many.substr(0, 8000) + " up2");
}

TEST_F(Regex, ASearchEndsByTheDeadline)
{
	std::string why;
	const auto compiled = regex::compile("(a|a)+b", why);
	ASSERT_TRUE(compiled) << why;
	EXPECT_EQ(compiled->search("aab", true, sn::now()), result::found) << "a short one";
	const std::string many(20, 'a');
	EXPECT_EQ(compiled->search(many, true, sn::no_deadline), result::not_yet);
	EXPECT_EQ(compiled->search(many + "xb", true, sn::now()), result::too_costly);
}

} // namespace
