/* SPDX-License-Identifier: MIT */
/* Changes to the text of a configuration (edit.hpp), and the requests that ask for them. */
#include "admin/control.hpp"
#include "base/regex.hpp"
#include "base/token.hpp"
#include "config/config.hpp"
#include "config/edit.hpp"

#include "harness.hpp"

#include <cstdio>
#include <gtest/gtest.h>
#include <sys/stat.h>

using kind = relay::backend_edit::kind;

namespace
{

const std::string file = R"(# a comment
[listeners.web]
address = "127.0.0.1:80"
group = "web"
[groups.web]
balance = "source-hash"
backends = ["10.0.0.7:80", { address = "b.example:80", weight = 7, max_connections = 3 }]
[groups.web.check]
interval = "1s"
)";

relay::config parsed(const std::string &text)
{
	auto read = relay::parse_config(text, "test");
	if (const auto *errors = std::get_if<relay::config_errors>(&read))
		throw std::runtime_error(errors->lines.front());
	return std::get<relay::config>(read);
}

std::string edited(const std::string &text, const relay::backend_edit &what)
{
	auto made = relay::edit_config(text, file, what);
	if (const auto *problem = std::get_if<relay::edit_problem>(&made))
		return (problem->is_unknown ? "unknown: " : "") + problem->text;
	return std::get<std::string>(made);
}

TEST(Edit, ChangesAWeightAndNothingElse)
{
	for (const auto &[backend, index] :
	     {std::pair("10.0.0.7:80", 0), std::pair("b.example:80", 1)}) {
		const auto text = edited(file, {.what = kind::set_weight,
						.group = "web",
						.backend = backend,
						.weight = 3});
		const auto now = parsed(text);
		const auto &group = now.groups.at(0);
		ASSERT_EQ(group.backends.size(), 2U);
		EXPECT_EQ(group.backends[0].address, "10.0.0.7:80");
		EXPECT_EQ(group.backends[1].address, "b.example:80");
		EXPECT_EQ(group.backends[index].weight, 3U);
		EXPECT_EQ(group.backends[1 - index].weight, index == 0 ? 7U : 1U);
		EXPECT_EQ(group.backends[1].max_connections, 3U);
		EXPECT_EQ(group.balance, relay::balancing::source_hash);
		EXPECT_EQ(group.check.interval, std::chrono::seconds(1));
		EXPECT_EQ(now.listeners.at(0).address, "127.0.0.1:80");
	}
}

TEST(Edit, DrainsAndEnablesWithTheWeightOfTheFile)
{
	for (const auto &[backend, weight] :
	     {std::pair("10.0.0.7:80", 1U), std::pair("b.example:80", 7U)}) {
		const auto drained =
			edited(file, {.what = kind::drain, .group = "web", .backend = backend});
		const auto backends = parsed(drained).groups.at(0).backends;
		EXPECT_EQ(std::ranges::find(backends, backend, &relay::backend_config::address)
				  ->weight,
			  0U);
		const auto enabled =
			edited(drained, {.what = kind::enable, .group = "web", .backend = backend});
		const auto again = parsed(enabled).groups.at(0).backends;
		EXPECT_EQ(
			std::ranges::find(again, backend, &relay::backend_config::address)->weight,
			weight);
	}
}

TEST(Edit, AddsAndRemoves)
{
	const auto more = edited(file, {.what = kind::add,
					.group = "web",
					.backend = "unix:/run/a \"b\".sock",
					.weight = 2,
					.priority = 1,
					.max_connections = 9});
	const auto added = parsed(more).groups.at(0).backends;
	ASSERT_EQ(added.size(), 3U);
	EXPECT_EQ(added[2].address, "unix:/run/a \"b\".sock");
	EXPECT_EQ(added[2].weight, 2U);
	EXPECT_EQ(added[2].priority, 1U);
	EXPECT_EQ(added[2].max_connections, 9U);
	auto less = more;
	for (const char *each : {"10.0.0.7:80", "b.example:80"})
		less = edited(less, {.what = kind::remove, .group = "web", .backend = each});
	ASSERT_EQ(parsed(less).groups.at(0).backends.size(), 1U);
	EXPECT_NE(
		edited(less,
		       {.what = kind::remove, .group = "web", .backend = "unix:/run/a \"b\".sock"})
			.find("is the only backend of web"),
		std::string::npos);
	/* Enabling the backend gives it the default weight. */
	const auto enabled = edited(
		less, {.what = kind::enable, .group = "web", .backend = "unix:/run/a \"b\".sock"});
	EXPECT_EQ(parsed(enabled).groups.at(0).backends.at(0).weight, 1U);
}

/* The text as a TOML string, in escapes. */
std::string in_escapes(std::string_view text)
{
	std::string out = "\"";
	for (const char c : text) {
		char digits[8];
		std::snprintf(digits, sizeof digits, "\\u%04x", static_cast<unsigned char>(c));
		out += digits;
	}
	return out + '"';
}

/* The rest of the text is kept, whatever its form. */
TEST(Edit, KeepsTheRest)
{
	for (const std::string phrase :
	     {"PING\r\n", "\nquit\n", "\n", "\t\"'\\\x01\x7f", "'''\n\"\"\"", "\"", "'''"}) {
		const std::string text = R"(
listeners = { "a b" = { address = '127.0.0.1:80', group = 'g."h' } }
[[groups.'g."h'.backends]]
address = 'srv:_http._tcp.example.org'
[[groups.'g."h'.backends]]
address = "unix:/run/a \"'\\b"
weight = 0x10
[groups.'g."h']
check.send = )" + in_escapes(phrase) +
					 "\ncheck.expect = " + in_escapes(phrase) + '\n';
		const auto now = parsed(edited(text, {.what = kind::set_weight,
						      .group = "g.\"h",
						      .backend = "srv:_http._tcp.example.org",
						      .weight = 3}));
		const auto &group = now.groups.at(0);
		EXPECT_EQ(group.name, "g.\"h");
		EXPECT_EQ(group.check.send, phrase);
		EXPECT_EQ(group.check.expect.bytes, phrase);
		ASSERT_EQ(group.backends.size(), 2U);
		EXPECT_EQ(group.backends[0].weight, 3U);
		EXPECT_EQ(group.backends[1].address, "unix:/run/a \"'\\b");
		EXPECT_EQ(group.backends[1].weight, 16U);
		EXPECT_EQ(now.listeners.at(0).name, "a b");
	}
}

TEST(Edit, KeepsBytesOfChecks)
{
	const std::string text = R"(
listeners = { a = { address = '127.0.0.1:80', group = 'g' } }
[groups.g]
backends = ['h:1', 'h:2']
check.send_hex = "00 FF"
check.expect_hex = """
 6f 6b
8? ?0"""
)";
	const auto edit = [&](kind what) {
		return edited(text, {.what = what, .group = "g", .backend = "h:2"});
	};
	for (const auto what : {kind::drain, kind::remove}) {
		const auto check = parsed(edit(what)).groups.at(0).check;
		EXPECT_EQ(check.send, std::string("\0\xff", 2));
		EXPECT_EQ(check.expect.bytes, std::string("ok\x80\0", 4));
		EXPECT_EQ(check.expect.mask, "\xff\xff\xf0\x0f");
	}
}

TEST(Edit, KeepsRegularExpressions)
{
	if (!relay::regex::is_built)
		GTEST_SKIP() << "there is no PCRE2";
	const std::string text = R"(
listeners = { a = { address = '127.0.0.1:80', group = 'g' } }
groups.g.backends = ['h:1', 'h:2']
groups.g.check.expect_regex = '^\\\d"[[:space:]]\x27$'
)";
	const auto edited_text =
		edited(text, {.what = kind::drain, .group = "g", .backend = "h:2"});
	EXPECT_NE(edited_text.find(R"("^\\\\\\d\"[[:space:]]\\x27$")"), edited_text.npos)
		<< edited_text;
	const auto check = parsed(edited_text).groups.at(0).check;
	ASSERT_TRUE(check.expect_regex);
	EXPECT_EQ(check.expect_regex->search("\\7\"\n'", true, sn::no_deadline),
		  relay::regex::result::found);
}

/* The library would write these names so that they are not TOML, or mean another name. */
TEST(Edit, IsRefusedIfItWouldChangeMore)
{
	for (const std::string name : {"it's", "\ta", "a\nb"}) {
		const std::string text = "[listeners." + in_escapes(name) +
					 "]\naddress = '127.0.0.1:80'\ngroup = 'g'\n"
					 "[groups.g]\nbackends = ['10.0.0.7:80']\n";
		EXPECT_EQ(parsed(text).listeners.at(0).name, name);
		const auto made =
			edited(text, {.what = kind::drain, .group = "g", .backend = "10.0.0.7:80"});
		EXPECT_TRUE(made.starts_with("the configuration cannot be written again; "))
			<< made;
	}
}

TEST(Edit, SaysWhatIsNotThere)
{
	EXPECT_EQ(edited(file, {.what = kind::drain, .group = "mail", .backend = "10.0.0.7:80"}),
		  "unknown: there is no group \"mail\"");
	EXPECT_EQ(edited(file, {.what = kind::drain, .group = "web", .backend = "10.0.0.8:80"}),
		  "unknown: the group web has no backend \"10.0.0.8:80\"");
	EXPECT_EQ(edited(file, {.what = kind::add, .group = "web", .backend = "10.0.0.7:80"}),
		  "\"10.0.0.7:80\" is already a backend of web");
}

/* Remembers the requests that it gets. */
class asked final : public relay::controller
{
public:
	outcome configuration() override { return {200, "configuration"}; }
	outcome edit(const relay::backend_edit &what, const relay::requester &) override
	{
		edits.push_back(what);
		return {};
	}
	outcome reload(const relay::requester &) override { return {409, "no"}; }
	outcome kill(const relay::session_filter &which) override
	{
		kills.push_back(which);
		return {};
	}

	std::vector<relay::backend_edit> edits;
	std::vector<relay::session_filter> kills;
};

class patient final : public relay::requester
{
public:
	bool has_left() const noexcept override { return false; }
};

class no_source final : public relay::snapshot_source
{
public:
	relay::snapshot read() const override { return {}; }
	bool is_ready() const noexcept override { return true; }
};

/* Returns the status, and the text if there is one; 0 if the request is not for the control
 * server. */
std::pair<int, std::string> answer(asked &by, const std::string &method, const std::string &target)
{
	const auto mark = target.find('?');
	relay::http_request request;
	request.method = method;
	request.path = target.substr(0, mark);
	request.query = mark == target.npos ? "" : target.substr(mark + 1);
	const auto got = relay::answer_control(by, no_source(), request, patient());
	return got ? std::pair(got->status, got->text) : std::pair(0, std::string());
}

TEST(ControlRequests, AreUnderstood)
{
	asked by;
	EXPECT_EQ(answer(by, "GET", "/config").second, "configuration");
	EXPECT_EQ(answer(by, "POST", "/reload").first, 409);
	EXPECT_EQ(answer(by, "GET", "/json").first, 0);
	EXPECT_EQ(answer(by, "POST",
			 "/backends/"
			 "add?group=a%20b&backend=unix:%2Frun%2fx+y&weight=3&max_connections=7")
			  .first,
		  200);
	ASSERT_EQ(by.edits.size(), 1U);
	EXPECT_EQ(by.edits[0].what, kind::add);
	EXPECT_EQ(by.edits[0].group, "a b");
	EXPECT_EQ(by.edits[0].backend, "unix:/run/x y");
	EXPECT_EQ(by.edits[0].weight, 3U);
	EXPECT_EQ(by.edits[0].max_connections, 7U);
	EXPECT_FALSE(by.edits[0].priority);
	EXPECT_EQ(answer(by, "POST", "/connections/kill?client=[::1]&group=g").first, 200);
	EXPECT_EQ(answer(by, "POST", "/connections/kill?all=1").first, 200);
	ASSERT_EQ(by.kills.size(), 2U);
	EXPECT_EQ(by.kills[0].client, "::1");
	EXPECT_EQ(by.kills[0].client_ip, relay::parse_ip("::1"));
	EXPECT_EQ(by.kills[0].group, "g");
}

TEST(ControlRequests, AreRefusedIfTheyAreNotWhole)
{
	asked by;
	for (const char *each : {"/backends/drain",
				 "/backends/drain?group=g",
				 "/backends/drain?group=g&backend=",
				 "/backends/drain?group=g&backend=b&weight=1",
				 "/backends/drain?group=g&backend=b&backend=c",
				 "/backends/weight?group=g&backend=b",
				 "/backends/weight?group=g&backend=b&weight=1001",
				 "/backends/weight?group=g&backend=b&weight=-1",
				 "/backends/weight?group=g&backend=b&weight=1x",
				 "/backends/weight?group=g&backend=b&weight=99999999999999999999",
				 "/backends/add?group=g&backend=%4",
				 "/backends/add?group=g&backend=%4g",
				 "/backends/add?group=g&backend=b&priority=1001",
				 "/connections/kill",
				 "/connections/kill?all=0",
				 "/connections/kill?all=1&group=g",
				 "/connections/kill?pid=1",
				 "/reload?now=1",
				 "/connections/kill?group=g&client=",
				 "/connections/kill?group=g&client",
				 "/connections/kill?listener=&group=g",
				 "/backends/add?group=g&backend=b&weight=",
				 "/connections/kill?client=localhost",
				 "/connections/kill?client=10.0.0.1:80",
				 "/connections/kill?client=10.0.0.0/8",
				 "/connections/kill?group=g&client=[]",
				 "/connections/kill?all=1&client=%5b%5d",
				 "/connections/kill?group=g&client=[[]]",
				 "/connections/kill?group=g&client=[",
				 "/connections/kill?group=g&client=[]:",
				 "/connections/kill?group=g&client=:",
				 "/connections/kill?group=g&client=+",
				 "/connections/kill?group=g&client=[+]",
				 "/connections/kill?group=g&client=%00",
				 "/connections/kill?group=g&client=%25eth0"}) {
		const auto [status, text] = answer(by, "POST", each);
		EXPECT_EQ(status, 400) << each;
		EXPECT_TRUE(text.ends_with('\n')) << each;
	}
	for (const char *each : {"/backends/drain?group=g&backend=b", "/connections/kill?all=1",
				 "/reload", "/backends/add"})
		EXPECT_EQ(answer(by, "GET", each).first, 405) << each;
	EXPECT_EQ(answer(by, "POST", "/config").first, 0);
	EXPECT_TRUE(by.edits.empty());
	EXPECT_TRUE(by.kills.empty());
}

TEST(Token, IsReadFromAPrivateFile)
{
	std::string token;
	std::string why;
	const auto read = [&](const std::string &text, mode_t mode) {
		const harness::file with(text);
		EXPECT_EQ(chmod(with.name().c_str(), mode), 0);
		token.clear();
		why.clear();
		return relay::read_token(with.name(), token, why);
	};
	EXPECT_TRUE(read("  0123456789abcdef \r\nmore\n", 0640)) << why;
	EXPECT_EQ(token, "0123456789abcdef");
	EXPECT_TRUE(read(std::string(512, 'x'), 0600)) << why;
	EXPECT_FALSE(read("0123456789abcdef\n", 0644));
	EXPECT_NE(why.find("accessible to every user"), why.npos);
	for (const auto &bad :
	     {std::string(), std::string("\n0123456789abcdef"), std::string("0123456789abcde"),
	      std::string(513, 'x'), std::string(5000, 'x'), std::string("0123456789 abcdef"),
	      std::string("0123456789\x01"
			  "bcdef")}) {
		EXPECT_FALSE(read(bad, 0600));
		EXPECT_NE(why.find("is not a token"), why.npos);
	}
	EXPECT_FALSE(relay::read_token("/nonexistent/token", token, why));
	EXPECT_NE(why.find("cannot be read: No such file"), why.npos);
}

TEST(Token, IsComparedAsAWhole)
{
	const std::string token = "0123456789abcdef";
	EXPECT_TRUE(relay::has_token("Bearer 0123456789abcdef", token));
	EXPECT_TRUE(relay::has_token("bearer 0123456789abcdef", token));
	for (const char *bad : {"", "Bearer ", "0123456789abcdef", "Bearer 0123456789abcdeF",
				"Bearer 0123456789abcdef ", "Bearer 1123456789abcdef",
				"Basic  0123456789abcdef", "Bearer 0123456789abcde"})
		EXPECT_FALSE(relay::has_token(bad, token)) << bad;
}

} // namespace
