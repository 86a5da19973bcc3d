// SPDX-License-Identifier: MIT
/*
 * Requests that need a thread, because of a call that may block, when no thread can be started or
 * there is no memory for one: the relay answers, reports it on stderr, and changes nothing; and the
 * request works as soon as there is a thread.
 */
#include "harness.hpp"

#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>

using namespace harness;

namespace
{

std::string text(const std::string &control, const std::string &backend)
{
	return "drain = 0\ncontrol = \"" + control +
	       "\"\n[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
	       "[groups.g]\nbackends = [\"" +
	       backend + "\"]\n";
}

class Refusal : public testing::TestWithParam<const char *>
{
protected:
	Refusal() : config(text(control, a.address()))
	{
		setenv("RELAY_TEST_REFUSES", refused.name().c_str(), 1);
		program = RELAY_REFUSING_PROGRAM;
	}
	~Refusal() override { program = nullptr; }

	ended ctl(std::vector<std::string> arguments)
	{
		arguments.insert(arguments.begin(), {"ctl", "--at", control});
		relay_process client(arguments);
		return client.wait();
	}
	/* Expects that the next client reaches that backend. */
	void expect_reaches(relay_process &relay, listener &backend)
	{
		auto client = peer::sending("x", relay.address());
		EXPECT_EQ(backend.accept().receive(1), "x");
	}

	folder in;
	const std::string control = "unix:" + in / "ctl";
	file refused{""};
	listener a, b;
	file config;
};

TEST_P(Refusal, AChangeWithoutAThreadIsAnsweredAndChangesNothing)
{
	relay_process relay({"--config", config.name()});
	relay.await_error(" serves");
	const auto before = ctl({"config"}).output;
	refused.write(GetParam());
	const auto how = ctl({"add", "g", b.address()});
	EXPECT_EQ(how.status, 1) << how.output;
	EXPECT_NE(how.errors.find("nothing has changed"), std::string::npos) << how.errors;
	EXPECT_EQ(ctl({"config"}).output, before);
	expect_reaches(relay, a);
	refused.write("");
	EXPECT_EQ(ctl({"add", "g", b.address()}).status, 0);
	EXPECT_NE(ctl({"config"}).output, before);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST_P(Refusal, AReloadWithoutAThreadIsToldAndChangesNothing)
{
	relay_process relay({"--config", config.name()});
	relay.await_error(" serves");
	config.write(text(control, b.address()));
	refused.write(GetParam());
	EXPECT_FALSE(relay.reload());
	expect_reaches(relay, a);
	refused.write("");
	EXPECT_TRUE(relay.reload());
	expect_reaches(relay, b);
	EXPECT_EQ(relay.stop().status, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, Refusal, testing::Values("thread", "memory"),
			 [](const auto &instance) { return std::string(instance.param); });

} // namespace
