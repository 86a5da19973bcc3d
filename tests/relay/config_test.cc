/* SPDX-License-Identifier: MIT */
/* The keys that apply to the process, rules for the whole file, and files that cannot be read. */
#include "config_case.hpp"

#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using config_case::bad;
using config_case::expect_starts;
using config_case::good;
using relay::balancing;

namespace
{

TEST(Config, HasTheValuesOfTheFile)
{
	const auto all = good(R"(
drain = "3s"
handover_drain = 0
stop_delay = "5s"
stats_interval = 7
admin = "127.0.0.1:9000"
access_log = "stderr"
admin_hosts = ["relay.example.org", "*.svc"]
events = "syslog:/run/log"
control = "unix:/run/ctl"
control_mode = "0660"
access_log_format = "json"
[listeners.z]
address = ":8080"
group = "g"
connect_timeout = "500ms"
idle_timeout = 0
half_close_timeout = "1m"
coalesce = "never"
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
	EXPECT_EQ(all.handover_drain, std::optional<std::chrono::nanoseconds>(0s));
	EXPECT_EQ(all.stop_delay, 5s);
	EXPECT_EQ(all.stats_interval, 7s);
	EXPECT_EQ(all.admin, "127.0.0.1:9000");
	EXPECT_EQ(all.access_log, "stderr");
	EXPECT_EQ(all.admin_hosts, (std::vector<std::string>{"relay.example.org", "*.svc"}));
	EXPECT_EQ(all.events, "syslog:/run/log");
	EXPECT_EQ(all.control, "unix:/run/ctl");
	EXPECT_EQ(all.control_mode, 0660);
	EXPECT_EQ(all.control_token_file, "");
	EXPECT_EQ(all.text.find("drain = \"3s\""), 1U);
	EXPECT_TRUE(all.access_log_format == relay::log_format::json);
	ASSERT_EQ(all.listeners.size(), 2U);
	const auto &z = all.listeners[0];
	EXPECT_EQ(z.name, "z") << "the order of the file";
	EXPECT_EQ(z.address, ":8080");
	EXPECT_EQ(z.connect_timeout, 500ms);
	EXPECT_EQ(z.idle_timeout, 0s);
	EXPECT_EQ(z.half_close_timeout, 1min);
	EXPECT_EQ(z.coalesce, SN_RELAY_COALESCE_NEVER);
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
	EXPECT_EQ(all.listeners[1].coalesce, SN_RELAY_COALESCE_AUTO);
	EXPECT_EQ(all.groups[all.listeners[1].group].name, "other");
}

TEST(Config, HasTheTimesOfStopping)
{
	const std::string rest = "[listeners.a]\naddress = ':0'\ngroup = 'g'\n[groups.g]\n"
				 "backends = ['h:1']\n";
	const auto usual = good(rest);
	EXPECT_EQ(usual.handover_drain, std::nullopt) << "as long as the connections take";
	EXPECT_EQ(usual.stop_delay, 0s);
	const auto errors = bad("handover_drain = 'forever'\nstop_delay = -1\n" + rest);
	ASSERT_EQ(errors.size(), 2U);
	EXPECT_TRUE(errors[0].starts_with("f:1:18: handover_drain: \"forever\" is not a duration"))
		<< errors[0];
	EXPECT_TRUE(errors[1].starts_with("f:2:14: stop_delay: \"-1\" is not a duration"))
		<< errors[1];
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
		"f:13:9: listeners.c.group: is an integer; expected the NAME of a [groups.NAME]",
		"f:15:11: groups.g.balance: \"fair\" is none of the choices; expected one of round",
		"f:16:20: groups.g.backends[1]: \"h:1\" is already in line 16",
		"f:16:27: groups.g.backends[2].address: missing",
		"f:16:37: groups.g.backends[2].weight: 1001 is out of range; expected 0 to 1000",
		"f:16:44: groups.g.backends[3]: is an integer; expected an address or a table",
		"f:18:12: groups.empty.backends: is empty; expected at least one",
	};
	expect_starts(errors, starts);
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
	EXPECT_EQ(errors[0],
		  "f:1:9: admin: \"127.0.0.1:80\" is already used by listeners.a; expected "
		  "another address");
	/* The system chooses a port for each, so they do not clash. */
	good("admin = \"127.0.0.1:0\"\n[listeners.a]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
	     "[groups.g]\nbackends = [\"h:1\"]\n");
}

TEST(Config, HasAControlServerThatNotEverybodyCanUse)
{
	const std::string rest = "[listeners.a]\naddress = \":1\"\ngroup = \"g\"\n"
				 "[groups.g]\nbackends = [\"h:1\"]\n";
	const auto tcp =
		good("control = \"127.0.0.1:7\"\ncontrol_token_file = \"/etc/token\"\n" + rest);
	EXPECT_EQ(tcp.control_token_file, "/etc/token");
	EXPECT_EQ(good("control = \"unix:/run/ctl\"\n" + rest).control_mode, 0600);
	const auto expect_error = [&](const std::string &text, const std::string &part) {
		const auto errors = bad(text + rest);
		ASSERT_EQ(errors.size(), 1U) << testing::PrintToString(errors);
		EXPECT_NE(errors[0].find(part), errors[0].npos) << errors[0];
	};
	for (const char *open : {"127.0.0.1:7", ":7", "unix:@ctl", "[::1]:7"})
		expect_error("control = \"" + std::string(open) + "\"\n",
			     "can be reached by others; expected control_token_file as well, or "
			     "the path of a Unix socket");
	expect_error("control_token_file = \"/etc/token\"\n",
		     "means nothing here; expected control as well");
	expect_error("control = \"unix:@x\"\ncontrol_mode = \"0600\"\n"
		     "control_token_file = \"/t\"\n",
		     "control_mode: means nothing here");
	expect_error("control = \"unix:/x\"\ncontrol_mode = \"0400\"\n",
		     "does not let the owner write");
	expect_error("admin = \"unix:/x\"\ncontrol = \"unix:/x\"\n",
		     "control: \"unix:/x\" is already used by admin");
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

/* Every prefix of a correct file, and the file with any one byte changed, gets an answer and causes
 * no crash. */
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
		ASSERT_EQ(errors->lines.size(), 1U);
		EXPECT_NE(errors->lines.front().find(std::string(name) + ": cannot be read"),
			  std::string::npos);
	}
}

/* Found by fuzzing: toml++ assumes that these letters do not occur where a space may be. */
TEST(Config, LettersWhereASpaceMayBeAreMistakes)
{
	for (const char *letter :
	     {"\xc2\xa1", "\xc3\xa9", "\xd0\x96", "\xd2\x99", "\xe2\x80\xa6"}) {
		const auto read =
			relay::parse_config("drain = [1," + std::string(letter) + "]\n", "f");
		const auto *errors = std::get_if<relay::config_errors>(&read);
		ASSERT_NE(errors, nullptr) << letter;
		EXPECT_TRUE(errors->lines.front().starts_with("f:1:1")) << errors->lines.front();
	}
}

/* A program that reads messages by lines would consider the second half another message. */
TEST(Config, ErrorsHaveNoControlCharacters)
{
	for (const char *text :
	     {R"("a\nf:1:1: b" = 1)", R"(admin = "\u001b[31m:x\n")", R"([groups."a\tb"])",
	      R"(events = "\u007f")", "drain = tr\x15ue"}) {
		const auto read = relay::parse_config(text, "f");
		const auto *errors = std::get_if<relay::config_errors>(&read);
		ASSERT_NE(errors, nullptr) << text;
		for (const auto &each : errors->lines)
			for (const char c : each)
				EXPECT_FALSE(static_cast<unsigned char>(c) < ' ' || c == '\x7f')
					<< testing::PrintToString(each);
	}
}

} // namespace
