/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* The control server and its client, `sennit-relay ctl`, with a relay that has connections. */
#include "harness.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace harness;

namespace
{

std::string text(const std::string &control, const std::vector<std::string> &backends)
{
	std::string list;
	for (const auto &each : backends)
		list += (list.empty() ? "\"" : ", \"") + each + '"';
	return "drain = 0\naccess_log = \"stderr\"\n" + control +
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
	       "[groups.g]\nretries = 0\nbackends = [" +
	       list + "]\n";
}

/* A relay with a control server at a Unix socket. */
class controlled
{
public:
	explicit controlled(const std::vector<std::string> &backends)
	    : config_(text("control = \"unix:" + in_ / "ctl" + "\"\n", backends)),
	      relay({"--config", config_.name()})
	{
		relay.await_error(" serves");
	}

	ended ctl(std::vector<std::string> arguments)
	{
		arguments.insert(arguments.begin(), {"ctl", "--at", "unix:" + in_ / "ctl"});
		relay_process client(arguments);
		return client.wait();
	}

	/* Runs a command that has to succeed; returns its output. */
	std::string done(const std::vector<std::string> &arguments)
	{
		const auto how = ctl(arguments);
		EXPECT_EQ(how.status, 0) << how.errors;
		return how.output;
	}

	/* Runs a command that has to fail; returns its errors. */
	std::string refused(const std::vector<std::string> &arguments, int status = 1)
	{
		const auto how = ctl(arguments);
		EXPECT_EQ(how.status, status) << how.output;
		EXPECT_EQ(how.output, "");
		return how.errors;
	}

	std::string socket() const { return in_ / "ctl"; }
	file &config() { return config_; }

private:
	folder in_;
	file config_;

public:
	relay_process relay;
};

/* A backend that sends its name to each client. It keeps only the last connections open, because
 * clients that run as fast as they can would use up the relay's descriptors. */
class named_backend
{
public:
	explicit named_backend(const std::string &name)
	    : accepting_([this, name](const std::stop_token &stop) {
		      while (!stop.stop_requested())
			      try {
				      auto client = door_.accept();
				      client.send(name);
				      kept_.push_back(std::move(client));
				      if (kept_.size() > kept_most)
					      kept_.pop_front();
			      } catch (const std::exception &) {
				      return; /* the test is over */
			      }
	      })
	{
	}
	~named_backend()
	{
		accepting_.request_stop();
		shutdown(door_.fd(), SHUT_RDWR);
	}
	const std::string &address() const { return door_.address(); }

private:
	static constexpr std::size_t kept_most = 16;

	listener door_;
	std::deque<peer> kept_;
	std::jthread accepting_;
};

/* Makes so many connections, and returns the names of their backends, each once, in order. */
std::string reached(relay_process &relay, int connections = 6)
{
	std::string all;
	for (int i = 0; i < connections; i++) {
		const auto name = peer::connect(relay.address()).receive(1);
		if (all.find(name) == all.npos)
			all += name;
	}
	std::ranges::sort(all);
	return all;
}

TEST(Control, DrainsAndEnablesABackend)
{
	named_backend a("a");
	named_backend b("b");
	controlled with({a.address(), b.address()});
	EXPECT_EQ(reached(with.relay), "ab");
	auto open = peer::connect(with.relay.address());
	const auto name = open.receive(1);
	const auto &its = name == "a" ? a.address() : b.address();
	EXPECT_EQ(with.done({"drain", "g", its}),
		  "backend " + its + " of g gets no new connections\n");
	with.relay.await_error("notice changed group=g backend=" + its);
	EXPECT_EQ(reached(with.relay), name == "a" ? "b" : "a");
	EXPECT_NE(with.done({"status"}).find("drained"), std::string::npos);
	with.done({"enable", "g", its});
	EXPECT_EQ(reached(with.relay), "ab");
	/* The open connection has survived all of this. */
	open.shutdown_write();
	EXPECT_EQ(with.relay.stop().status, 0);
}

TEST(Control, AddsAndRemovesBackends)
{
	named_backend a("a");
	named_backend b("b");
	controlled with({a.address()});
	EXPECT_EQ(reached(with.relay), "a");
	with.done({"add", "g", b.address(), "--weight", "2"});
	EXPECT_EQ(reached(with.relay), "ab");
	with.done({"remove", "g", a.address()});
	EXPECT_EQ(reached(with.relay), "b");
	EXPECT_NE(with.refused({"remove", "g", b.address()}).find("is the only backend of g"),
		  std::string::npos);
	EXPECT_EQ(reached(with.relay), "b");
	EXPECT_EQ(with.relay.stop().status, 0);
}

/* The printed text can be saved as the configuration file. */
TEST(Control, PrintsTheConfigurationInEffect)
{
	named_backend a("a");
	named_backend b("b");
	controlled with({a.address(), b.address()});
	EXPECT_NE(with.done({"config"}).find("[groups.g]\nretries = 0\n"), std::string::npos);
	with.done({"weight", "g", b.address(), "0"});
	const file kept(with.done({"config"}));
	relay_process check({"--config", kept.name(), "--check"});
	EXPECT_EQ(check.wait().status, 0);
	EXPECT_EQ(reached(with.relay), "a");
	/* The file is in effect again, as an event reports. */
	with.done({"reload"});
	with.relay.await_error("warning changes_lost ");
	EXPECT_EQ(reached(with.relay), "ab");
	EXPECT_EQ(with.relay.stop().status, 0);
}

mode_t mode_of(const std::string &path)
{
	struct stat found {
	};
	return lstat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
}

TEST(Control, ItsFileHasTheModeOfTheConfiguration)
{
	named_backend a("a");
	controlled with({a.address()});
	EXPECT_EQ(mode_of(with.socket()), 0600U);
	const auto set = [&](const std::string &mode) {
		with.config().write(text("control = \"unix:" + with.socket() +
						 "\"\ncontrol_mode = \"" + mode + "\"\n",
					 {a.address()}));
	};
	set("0660");
	EXPECT_TRUE(with.relay.reload());
	EXPECT_EQ(mode_of(with.socket()), 0660U);
	with.done({"drain", "g", a.address()});
	EXPECT_EQ(mode_of(with.socket()), 0660U);
	/* If another file has replaced the relay's, it is not removed. */
	ASSERT_EQ(rename(with.socket().c_str(), (with.socket() + "-moved").c_str()), 0);
	const file other("x");
	ASSERT_EQ(link(other.name().c_str(), with.socket().c_str()), 0);
	const auto before = mode_of(with.socket());
	set("0666");
	EXPECT_TRUE(with.relay.reload());
	EXPECT_EQ(mode_of(with.socket()), before);
	EXPECT_EQ(mode_of(with.socket() + "-moved"), 0660U);
	EXPECT_EQ(with.relay.stop().status, 0);
	unlink(with.socket().c_str());
	unlink((with.socket() + "-moved").c_str());
}

TEST(Control, ResetsTheConnectionsThatAreMeant)
{
	named_backend a("a");
	named_backend b("b");
	controlled with({a.address(), b.address()});
	std::vector<std::pair<std::string, peer>> open;
	for (int i = 0; i < 4; i++) {
		auto made = peer::connect(with.relay.address());
		auto name = made.receive(1);
		open.emplace_back(std::move(name), std::move(made));
	}
	auto other = peer::connect(with.relay.address(), "127.0.0.2");
	other.receive(1);
	for (const auto &filter : {std::vector<std::string>{"--client", "127.0.0.3"},
				   {"--group", "h"},
				   {"--listener", "mail"},
				   {"--endpoint", "127.0.0.1:1"},
				   {"--backend", a.address(), "--client", "127.0.0.9"}}) {
		std::vector<std::string> arguments{"kill"};
		arguments.insert(arguments.end(), filter.begin(), filter.end());
		EXPECT_EQ(with.done(arguments), "reset 0 connections\n");
	}
	with.relay.await_error("notice killed connections=0 endpoint=127.0.0.1:1 message=");
	EXPECT_EQ(with.done({"kill", "--backend", a.address(), "--client", "127.0.0.1"}),
		  "reset 2 connections\n");
	/* The address may be written in other ways than the relay does. */
	EXPECT_EQ(with.done({"kill", "--client", "::FFFF:127.0.0.4"}), "reset 0 connections\n");
	const auto expect_reset = [&open](const std::string &which) {
		for (auto &[name, each] : open) {
			if (name != which)
				continue;
			EXPECT_EQ(each.receive_end(), ending::reset);
		}
	};
	expect_reset("a");
	with.relay.await_error("cause=killed listener=web");
	EXPECT_EQ(with.done({"kill", "--client", "127.0.0.2"}), "reset 1 connection\n");
	EXPECT_EQ(other.receive_end(), ending::reset);
	EXPECT_EQ(with.done({"kill", "--all"}), "reset 2 connections\n");
	expect_reset("b");
	const auto counts = with.relay.counters();
	EXPECT_EQ(counts.at("killed"), 5U);
	EXPECT_EQ(counts.at("cut"), 0U);
	EXPECT_EQ(with.relay.stop().status, 0);
}

TEST(Control, ReloadsAsSighupDoes)
{
	named_backend a("a");
	const folder in;
	const std::string log = in / "log";
	controlled with({a.address()});
	const auto all = text("control = \"unix:" + with.socket() + "\"\n", {a.address()});
	const auto at = all.find("\"stderr\"");
	const auto logged = std::string(all).replace(at, 8, '"' + log + '"');
	with.config().write(logged);
	with.done({"reload"});
	/* The lines of counters begin, and they end with the reload: not even the next one comes,
	 * unless it was just due. */
	const auto lines = [&] { return count_of(" counters ", with.relay.errors()); };
	EXPECT_TRUE(eventually([&] {
		const auto first = lines();
		with.config().write("stats_interval = \"200ms\"\n" + logged);
		with.done({"reload"});
		EXPECT_TRUE(eventually([&] { return lines() > first; }));
		with.config().write(logged);
		with.done({"reload"});
		const auto last = lines();
		std::this_thread::sleep_for(400ms);
		return lines() == last;
	}));
	/* The log is reopened, also by a reload that fails. */
	for (const auto &content : {logged, std::string("nonsense")}) {
		std::filesystem::rename(log, log + ".1");
		with.config().write(content);
		EXPECT_EQ(with.ctl({"reload"}).status, content == logged ? 0 : 1);
		peer::connect(with.relay.address()).receive(1);
		EXPECT_TRUE(eventually([&] { return std::filesystem::exists(log); }));
	}
	EXPECT_EQ(with.relay.stop().status, 0);
}

/* A terminal acts on them. */
TEST(Control, PrintsNoControlCharacters)
{
	controlled with({"127.0.0.1:9"});
	auto config = with.done({"config"});
	const std::string name = R"("g\u001b[31m\u009b1m")";
	config.replace(config.find("\"g\""), 3, name);
	config.replace(config.find("groups.g]"), 9, "groups." + name + ']');
	with.config().write(config);
	ASSERT_TRUE(with.relay.reload()) << config;
	const auto status = with.done({"status"});
	EXPECT_NE(status.find("\ng?[31m?1m  127.0.0.1:9 "), status.npos) << status;
	const auto errors = with.refused({"drain",
					  "h\x1b[31m\xc2\x9b"
					  "1m",
					  "b"});
	EXPECT_NE(errors.find("there is no group \"h?[31m?1m\""), errors.npos) << errors;
	EXPECT_EQ(with.relay.stop().status, 0);
}

TEST(Control, RefusesWhatItCannotDoAndChangesNothing)
{
	named_backend a("a");
	controlled with({a.address()});
	const auto before = with.done({"config"});
	EXPECT_NE(with.refused({"drain", "h", a.address()}).find("there is no group \"h\""),
		  std::string::npos);
	EXPECT_NE(with.refused({"drain", "g", "127.0.0.1:1"}).find("has no backend"),
		  std::string::npos);
	EXPECT_NE(with.refused({"add", "g", a.address()}).find("is already a backend"),
		  std::string::npos);
	EXPECT_NE(with.refused({"add", "g", "nonsense"}).find("expected HOST:PORT"),
		  std::string::npos);
	EXPECT_NE(with.refused({"add", "g", "127.0.0.1:1", "--weight", "1001"})
			  .find("is not a number from 0 to 1000"),
		  std::string::npos);
	EXPECT_NE(with.refused({"kill"}).find("expected listener, group"), std::string::npos);
	/* A filter that is empty without its brackets would be met by every client. */
	EXPECT_NE(with.refused({"kill", "--group", "g", "--client", "[]"})
			  .find("client: \"[]\" is not an IP address"),
		  std::string::npos);
	const std::vector<std::pair<std::vector<std::string>, std::string>> misused = {
		{{}, "no command"},
		{{"weight", "g"}, "weight: an argument is missing; expected group backend weight"},
		{{"frobnicate"}, "unknown command \"frobnicate\""},
		{{"--admin", "a", "status"}, "unknown option \"--admin\""},
		{{"kill", "--group", "g", "--client", ""}, "kill: --client is empty"},
		{{"kill", "--client", "", "--all"}, "kill: --client is empty"},
		{{"add", "g", "b", "--weight", ""}, "add: --weight is empty"},
		{{"drain", "g", ""}, "drain: backend is empty"},
		{{"drain", "g", "b", "--now"}, "unknown option \"--now\""},
		{{"status", "now"}, "status: unexpected argument \"now\""},
		{{"--timeout", "soon", "status"}, "--timeout: \"soon\" is not a duration"}};
	for (const auto &[wrong, text] : misused)
		EXPECT_NE(with.refused(wrong, 2).find("ctl: " + text), std::string::npos)
			<< with.refused(wrong, 2);
	with.config().write("nonsense");
	EXPECT_NE(with.refused({"reload"}).find("not reloaded"), std::string::npos);
	EXPECT_EQ(with.done({"config"}), before);
	EXPECT_EQ(reached(with.relay), "a");
	struct stat about {
	};
	ASSERT_EQ(stat(with.socket().c_str(), &about), 0);
	EXPECT_EQ(about.st_mode & 0777, 0600U);
	EXPECT_EQ(with.relay.stop().status, 0);
	EXPECT_NE(with.refused({"status"}).find("unix:"), std::string::npos);
}

std::string ask(const std::string &address, const std::string &request,
		const std::string &authorization)
{
	auto client = peer::sending(
		request + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
			(authorization.empty() ? "" : "Authorization: " + authorization + "\r\n") +
			"\r\n",
		address);
	return client.receive_rest().first.substr(9, 3);
}

TEST(Control, OverTcpNeedsTheToken)
{
	named_backend a("a");
	file token("first-token-of-24-bytes\n");
	ASSERT_EQ(chmod(token.name().c_str(), 0600), 0);
	configured_relay relay(
		text("control = \"127.0.0.1:0\"\ncontrol_token_file = \"" + token.name() + "\"\n",
		     {a.address()}));
	std::string output;
	ASSERT_TRUE(eventually([&] {
		output = relay.output();
		return output.find("control on ") != output.npos &&
		       output.find('\n', output.find("control on ")) != output.npos;
	}));
	const auto at = output.find("control on ") + 11;
	const auto address = output.substr(at, output.find('\n', at) - at);
	const std::string first = "Bearer first-token-of-24-bytes";
	for (const char *each : {"GET /json", "GET /backends", "POST /connections/kill?all=1",
				 "POST /reload", "GET /", "GET /nothing"}) {
		EXPECT_EQ(ask(address, each, ""), "401") << each;
		EXPECT_EQ(ask(address, each, "Bearer first-token-of-24-byteS"), "401") << each;
	}
	relay.await_error("warning control_refused method=GET path=/json");
	EXPECT_EQ(ask(address, "GET /healthz", ""), "200");
	EXPECT_EQ(ask(address, "GET /json", first), "200");
	EXPECT_EQ(ask(address, "POST /reload", first), "200");
	relay.await_error("notice reloaded"); /* or the next reload might take it for its own */
	EXPECT_EQ(ask(address, "DELETE /json", first), "405");
	EXPECT_EQ(ask(address, "POST /json", first), "404");

	relay_process client({"ctl", "--at", address, "--token-file", token.name(), "names"});
	const auto names = client.wait();
	EXPECT_EQ(names.output, "g " + a.address() + '\n') << names.errors;

	/* Another token takes effect with a reload, unless others can read its file. */
	token.write("second-token-of-25-bytes\n");
	ASSERT_EQ(chmod(token.name().c_str(), 0604), 0);
	EXPECT_FALSE(relay.reload());
	relay.await_error(":4:22: control_token_file: " + token.name() +
			  ": is accessible to every user");
	EXPECT_EQ(ask(address, "GET /names", first), "200");
	ASSERT_EQ(chmod(token.name().c_str(), 0600), 0);
	EXPECT_TRUE(relay.reload());
	EXPECT_EQ(ask(address, "GET /names", first), "401");
	EXPECT_EQ(ask(address, "GET /names", "Bearer second-token-of-25-bytes"), "200");
	EXPECT_EQ(relay.stop().status, 0);
}

/* Clients do not notice changes that never leave them without a backend. */
TEST(Control, ChangesUnderTrafficLoseNoConnection)
{
	named_backend a("a");
	named_backend b("b");
	controlled with({a.address(), b.address()});
	const std::string address = with.relay.address();
	std::atomic<bool> is_over{false};
	std::atomic<int> served{0};
	std::vector<std::jthread> clients;
	for (int i = 0; i < 2; i++)
		clients.emplace_back([&] {
			while (!is_over.load())
				try {
					peer::connect(address).receive(1);
					served++;
				} catch (const std::exception &error) {
					ADD_FAILURE() << error.what();
					return;
				}
		});
	for (std::size_t i = 0; i < std::max<std::size_t>(scaled(20), 2); i++) {
		with.done({"drain", "g", a.address()});
		with.done({"enable", "g", a.address()});
		with.done({"remove", "g", b.address()});
		with.done({"add", "g", b.address()});
	}
	EXPECT_TRUE(eventually([&] { return served.load() > 0; }));
	is_over = true;
	clients.clear();
	EXPECT_EQ(with.relay.counter("connect_failed"), 0U);
	EXPECT_EQ(with.relay.counter("reload_failures"), 0U);
	EXPECT_EQ(with.relay.stop().status, 0);
}

} // namespace
