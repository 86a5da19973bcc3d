/* SPDX-License-Identifier: MIT */
/*
 * Command lines that the relay cannot serve: it prints one line that names the mistake, exits with
 * a status, and starts nothing.
 */
#include "harness.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace harness;

namespace
{

struct bad {
	const char *what;
	std::vector<std::string> arguments;
	int status;
	std::vector<std::string> mentioned; /* what the message names: the mistake, and what was
	                                     * expected */
};

/* GoogleTest also uses it to name the tests. */
void PrintTo(const bad &line, std::ostream *out)
{
	*out << line.what;
}

class BadInput : public testing::TestWithParam<bad>
{
};

TEST_P(BadInput, IsOneLineAndAnExitStatus)
{
	relay_process relay(GetParam().arguments);
	const ended end = relay.wait();
	EXPECT_EQ(end.status, GetParam().status);
	EXPECT_EQ(end.output, "") << "nothing may have been started";
	EXPECT_EQ(std::count(end.errors.begin(), end.errors.end(), '\n'), 1) << end.errors;
	/* A line for the user who has made a mistake in a command, or an event. */
	const auto start = GetParam().status == 2 ? "sennit-relay: " : " error cannot_serve ";
	EXPECT_NE(end.errors.find(start), std::string::npos) << end.errors;
	EXPECT_TRUE(end.errors.ends_with("\n")) << end.errors;
	for (const auto &part : GetParam().mentioned)
		EXPECT_NE(end.errors.find(part), std::string::npos)
			<< '"' << part << "\" is not in: " << end.errors;
}

const std::string door = "127.0.0.1:0";
const std::string house = "127.0.0.1:9";

INSTANTIATE_TEST_SUITE_P(
	Usage, BadInput,
	testing::Values(
		bad{"Nothing", {}, 2, {"no addresses", "expected", "127.0.0.1:8080"}},
		bad{"OddNumber", {door, house, "127.0.0.1:1"}, 2, {"\"127.0.0.1:1\"", "pairs"}},
		bad{"UnknownFlag", {door, house, "--fast"}, 2, {"\"--fast\"", "--help"}},
		bad{"UnknownShortFlag", {door, house, "-f"}, 2, {"\"-f\"", "--help"}},
		bad{"UnknownFlagWithValue", {"--fast=1", door, house}, 2, {"--fast", "--help"}},
		bad{"FlagWithoutValue", {door, house, "--drain"}, 2, {"--drain"}},
		bad{"FlagTwice", {"--drain", "1", "--drain", "2", door, house}, 2, {"--drain"}},
		bad{"NoDuration",
		    {"--drain", "soon", door, house},
		    2,
		    {"--drain", "\"soon\"", "10s"}},
		bad{"NoUnit", {"--drain", "5 s", door, house}, 2, {"--drain", "\"5 s\"", "10s"}},
		bad{"Negative", {"--drain=-5", door, house}, 2, {"--drain", "\"-5\""}},
		bad{"TooLong",
		    {"--idle-timeout", "9999999h", door, house},
		    2,
		    {"--idle-timeout", "9999999h"}},
		bad{"KeepaliveInParts",
		    {"--keepalive", "1500ms", door, house},
		    2,
		    {"--keepalive", "\"1500ms\"", "whole seconds, 1s to 9h, or 0"}},
		bad{"KeepaliveTooLong", {"--keepalive=10h", door, house}, 2, {"\"10h\"", "9h"}},
		bad{"KeepaliveTwice",
		    {"--config", "f", "--keepalive", "1m"},
		    2,
		    {"--keepalive", "expected it in the file"}},
		bad{"NoPort", {"127.0.0.1", house}, 2, {"listen", "\"127.0.0.1\"", "expected"}},
		bad{"EmptyPort", {"127.0.0.1:", house}, 2, {"\"127.0.0.1:\"", "expected"}},
		bad{"Empty", {"", house}, 2, {"\"\"", "expected"}},
		bad{"PortTooLarge", {"127.0.0.1:65536", house}, 2, {"127.0.0.1:65536", "65535"}},
		bad{"PortMixed", {"127.0.0.1:80 80", house}, 2, {"127.0.0.1:80 80", "port"}},
		bad{"BadIPv4", {"127.0.0.256:80", house}, 2, {"127.0.0.256:80", "IPv4"}},
		bad{"BadIPv6", {"[::1::2]:80", house}, 2, {"[::1::2]:80", "IPv6"}},
		bad{"BareIPv6", {"::1:80", house}, 2, {"::1:80", "brackets"}},
		bad{"HalfABracket", {"[::1:80", house}, 2, {"[::1:80", "expected"}},
		bad{"BadName", {"a/b:80", house}, 2, {"a/b:80", "name"}},
		bad{"BackendPortZero",
		    {door, "127.0.0.1:0"},
		    2,
		    {"backend", "127.0.0.1:0", "1 to"}},
		bad{"BackendWithoutHost", {door, ":80"}, 2, {"backend", "\":80\"", "HOST:PORT"}},
		bad{"SecondPairBad", {door, house, "x", house}, 2, {"listen", "\"x\""}},
		bad{"UdpWithoutAnAddress",
		    {"udp:53", house},
		    2,
		    {"listen", "\"udp:53\"", "udp:127.0.0.1:53"}},
		bad{"UdpBackend", {door, "udp:127.0.0.1:53"}, 2, {"backend", "without udp:"}},
		bad{"UdpToUnix", {"udp:" + door, "unix:/run/a"}, 2, {"unix:/run/a", "datagrams"}},
		bad{"UdpWithoutIdleTimeout",
		    {"--idle-timeout", "0", "udp:" + door, house},
		    2,
		    {"--idle-timeout", "udp:127.0.0.1:0", "expected more"}},
		bad{"UdpThatComesBack", {"udp::53", "127.0.0.1:53"}, 2, {"come back"}},
		bad{"ConfigAndMore",
		    {"--config", "f", door, house},
		    2,
		    {"--config", "expected it in the file"}},
		bad{"CheckOfNothing", {"--check"}, 2, {"no addresses"}},
		bad{"CheckOfALogWithoutAFolder",
		    {"--check", "--access-log", "/nonexistent/log", door, house},
		    2,
		    {"arguments", "/nonexistent/", "No such file"}},
		bad{"CheckOfALogThatIsAFolder",
		    {"--check", "--access-log", "/tmp", door, house},
		    2,
		    {"/tmp", "is a folder"}},
		bad{"AccessLogToASyslogWithoutAPath",
		    {"--access-log", "syslog:10.0.0.1", door, house},
		    2,
		    {"--access-log", "syslog:10.0.0.1", "no path", "syslog:/dev/log"}},
		bad{"ConnectionsComeBack",
		    {":8080", "localhost:8080"},
		    2,
		    {"listen", "\":8080\"", "come back", "\"localhost:8080\""}},
		bad{"AdminTwice",
		    {"--admin", "127.0.0.1:8080", "127.0.0.1:8080", house},
		    2,
		    {"--admin", "already a listen address"}},
		bad{"NoSuchConfig",
		    {"--config", "/nonexistent"},
		    2,
		    {"/nonexistent", "cannot be read"}},
		bad{"LineBreak", {"a\nb:80", house}, 2, {"a?b:80"}}));

INSTANTIATE_TEST_SUITE_P(Failure, BadInput,
			 testing::Values(bad{"NameThatDoesNotResolve",
					     {"no-such-host.invalid:80", house},
					     1,
					     {"no-such-host.invalid:80", "resolve", "expected"}},
					 bad{"ServiceThatDoesNotExist",
					     {"127.0.0.1:no-such-service", house},
					     1,
					     {"127.0.0.1:no-such-service", "expected"}},
					 /* An address for documentation, which no machine has. */
					 bad{"AddressOfAnotherMachine",
					     {"192.0.2.1:8080", house},
					     1,
					     {"192.0.2.1:8080",
					      "expected an address of this machine"}}),
			 [](const auto &test) { return std::string(test.param.what); });

TEST(Usage, HelpPrintsEverythingOnStdout)
{
	for (const char *flag : {"--help", "-h"}) {
		relay_process relay({flag});
		const ended end = relay.wait();
		EXPECT_EQ(end.status, 0);
		EXPECT_EQ(end.errors, "");
		for (const char *part :
		     {"Usage:", "--connect-timeout", "--idle-timeout", "--drain", "--keepalive",
		      "--stats-interval", "5s", "10m", "500ms", "Example", "SIGTERM", "SIGUSR1"})
			EXPECT_NE(end.output.find(part), std::string::npos) << part;
		std::size_t length = 0;
		for (const char c : end.output) {
			length = c == '\n' ? 0 : length + 1;
			ASSERT_LE(length, 100U) << "lines that a terminal would break";
		}
	}
}

TEST(Usage, VersionIsThatOfTheLibrary)
{
	relay_process relay({"--version"});
	const ended end = relay.wait();
	EXPECT_EQ(end.status, 0);
	EXPECT_TRUE(end.output.starts_with("sennit-relay 0.")) << end.output;
}

TEST(PortInUse, StopsTheRelayBeforeItServesAnything)
{
	listener taken;
	/* The first pair of addresses is correct, but must not be served or announced. */
	relay_process relay({door, house, taken.address(), house});
	const ended end = relay.wait();
	EXPECT_EQ(end.status, 1);
	EXPECT_EQ(end.output, "");
	EXPECT_EQ(std::count(end.errors.begin(), end.errors.end(), '\n'), 1) << end.errors;
	EXPECT_NE(end.errors.find(taken.address()), std::string::npos) << end.errors;
	EXPECT_NE(end.errors.find("in use; expected"), std::string::npos) << end.errors;
}

TEST(PortInUse, IsFreeAgainAtOnceAfterARestart)
{
	listener backends;
	/* An address that no other test uses, because on 127.0.0.1 the client of another test may
	 * be given the port. */
	const auto n = static_cast<unsigned>(getpid());
	std::string address = "127." + std::to_string(1 + n / 65536 % 250) + '.' +
			      std::to_string(n / 256 % 256) + '.' + std::to_string(1 + n % 254) +
			      ":0";
	{
		relay_process relay({address, backends.address()});
		address = relay.address();
		auto client = peer::connect(address);
		auto backend = backends.accept();
		/* The relay closes first, so that its socket is the one in TIME_WAIT. */
		backend.close();
		EXPECT_EQ(client.receive_end(), ending::fin);
		client.close();
		EXPECT_EQ(relay.stop().status, 0);
	}
	relay_process again({address, backends.address()});
	EXPECT_EQ(again.address(), address);
	EXPECT_EQ(again.stop().status, 0);
}

} // namespace
