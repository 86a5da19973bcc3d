/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* Checks by datagrams: what is lost is sent again, and the first answer decides. */
#include "base/regex.hpp"
#include "datagrams.hpp"
#include "harness.hpp"

#include <gtest/gtest.h>
#include <string>

using namespace harness;

namespace
{

/* The PROXY header of the relay's own connection. */
const std::string own_header("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", 16);

std::string group_of(const std::string &backend)
{
	return "drain = 0\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.u]\naddress = \"udp:127.0.0.1:0\"\ngroup = \"g\"\n"
	       "[groups.g]\nslow_return = 0\nbackends = [\"" +
	       backend + "\"]\n";
}

std::string text(const std::string &backend, const std::string &check, const std::string &more = "")
{
	return group_of(backend) + more +
	       "[groups.g.check]\nudp = true\nsend = \"ok?\"\nexpect = \"yes!\"\n" + check;
}

/* A check each 10 ms, of which one decides. */
std::string often(const std::string &backend, const std::string &check)
{
	return group_of(backend) +
	       "[groups.g.check]\nudp = true\ninterval = \"10ms\"\ntimeout = \"1m\"\n"
	       "fall = 1\nrise = 1\n" +
	       check;
}

bool is_state(relay_process &relay, const std::string &address, const std::string &state)
{
	return relay.metric("backend_state{group=\"g\",backend=\"" + address + "\",state=\"" +
			    state + "\"}") == 1;
}

std::uint64_t checks(relay_process &relay, const std::string &address, const std::string &which)
{
	return relay.metric("backend_" + which + "_total{group=\"g\",backend=\"" + address + "\"}");
}

TEST(DatagramChecks, SendAgainWhatIsLost)
{
	udp_peer backend;
	configured_relay relay(text(backend.address(), "interval = \"1h\"\ntimeout = \"12s\"\n",
				    "send_proxy = \"v2\"\n"));
	const auto first = backend.receive();
	EXPECT_EQ(first.bytes, own_header + "ok?");
	const auto again = backend.receive();
	EXPECT_EQ(again.bytes, first.bytes);
	EXPECT_EQ(again.from, first.from) << "an answer to either is one to the check";
	backend.send(again.from, "yes! and more");
	EXPECT_TRUE(eventually([&] { return is_state(relay, backend.address(), "up"); }));
	EXPECT_TRUE(eventually([&] { return checks(relay, backend.address(), "checks") == 1; }));
	EXPECT_EQ(checks(relay, backend.address(), "check_failures"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(DatagramChecks, TheFirstAnswerOfTheBackendDecides)
{
	for (const char *answer : {"", "yes", "no", "yes?"}) {
		SCOPED_TRACE(answer);
		udp_peer backend;
		udp_peer other;
		configured_relay relay(
			text(backend.address(), "interval = \"1h\"\ntimeout = \"1m\"\n"));
		const auto asked = backend.receive();
		EXPECT_EQ(asked.bytes, "ok?");
		other.send(asked.from, "yes!");
		backend.send(asked.from, answer);
		relay.await_error("backend " + backend.address() +
				  " of g is down: its answer is not the expected one");
		EXPECT_EQ(relay.stop().status, 0);
	}
}

/* The reply code of DNS is half a byte, and an echo of the question is not an answer. */
TEST(DatagramChecks, TellReplyCodesApart)
{
	const std::string question("ok\1\0\0\1\0\0\0\0\0\0\0\0\2\0\1", 17);
	const std::string rest = question.substr(4);
	udp_peer backend;
	configured_relay relay(often(backend.address(),
				     "send_hex = \"6f6b 0100 0001 0000 0000 0000 00 0002 0001\"\n"
				     "expect_hex = \"6f6b 8? ?0\"\n"));
	const auto answer = [&](const std::string &by) {
		const auto asked = backend.receive();
		EXPECT_EQ(asked.bytes, question);
		backend.send(asked.from, by);
	};
	const std::string name = "backend " + backend.address() + " of g is ";
	for (const auto &bad : {question, "ok\x81\x85" + rest, "ok\x85\x02" + rest,
				"on\x81\x80" + rest, std::string("ok\x81")}) {
		answer(bad);
		EXPECT_EQ(relay.next_error(name), "down: its answer is not the expected one");
		answer("ok\x85\xa0" + rest);
		EXPECT_EQ(relay.next_error(name), "up again");
	}
	EXPECT_EQ(relay.stop().status, 0);
}

/* The end of a datagram is that of the answer. */
TEST(DatagramChecks, SearchTheWholeDatagram)
{
	if (!relay::regex::is_built)
		GTEST_SKIP() << "there is no PCRE2";
	udp_peer backend;
	configured_relay relay(
		often(backend.address(), "send = \"?\"\nexpect_regex = '[^x]ok$'\n"));
	const auto answer = [&](const std::string &by) {
		const auto asked = backend.receive();
		backend.send(asked.from, by);
	};
	const std::string much(60000, 'x');
	const std::string name = "backend " + backend.address() + " of g is ";
	for (const auto &bad : {std::string(), std::string("ok"), much + "ok", much + "!ok."}) {
		answer(bad);
		EXPECT_EQ(relay.next_error(name), "down: its answer is not the expected one");
		answer(much + "!ok");
		EXPECT_EQ(relay.next_error(name), "up again");
	}
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(DatagramChecks, SilenceAndRefusalsAreFailures)
{
	udp_peer backend;
	const std::string name = "backend " + backend.address() + " of g is ";
	configured_relay relay(text(backend.address(), "interval = \"20ms\"\ntimeout = \"40ms\"\n"
						       "fall = 50\nrise = 1\n"));
	relay.await_error(name + "down: Connection timed out");
	for (bool is_up = false; !is_up; is_up = is_state(relay, backend.address(), "up"))
		if (const auto asked = backend.receive_within(std::chrono::milliseconds(5)))
			backend.send(asked->from, "yes!");
	relay.await_error(name + "up again");
	backend.close();
	relay.await_error(name + "down: Connection refused");
	EXPECT_EQ(relay.stop().status, 0);
}

} // namespace
