/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * On SIGHUP a new configuration takes effect as a whole or not at all, and clients do not notice.
 * SENNIT_RELOADS is the number of reloads under traffic (10; the relay promises 100).
 */
#include "harness.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <list>
#include <memory>
#include <sstream>
#include <thread>

using namespace harness;

namespace
{

/* Echoes what it receives, to any number of clients. */
class echo_backend
{
public:
	echo_backend()
	    : accepting_([this] {
		      for (;;) {
			      peer client = door_.accept();
			      if (over_)
				      return;
			      /* Removes threads that have ended, because their stacks would fill a
			       * 32-bit address space. */
			      std::erase_if(talking_, [](talk &each) { return each.is_over(); });
			      talking_.emplace_back(std::move(client));
		      }
	      })
	{
	}
	echo_backend(const echo_backend &) = delete;
	echo_backend &operator=(const echo_backend &) = delete;
	~echo_backend()
	{
		over_ = true;
		const auto last = peer::connect(address());
		accepting_.join();
	}
	const std::string &address() const { return door_.address(); }

private:
	class talk
	{
	public:
		explicit talk(peer client) : client_(std::move(client)), thread_([this] { run(); })
		{
		}
		~talk() { thread_.join(); }
		bool is_over() const { return over_; }

	private:
		void run()
		{
			try {
				for (;;)
					client_.send(client_.receive(5));
			} catch (const std::exception &) {
				/* The client has ended. */
			}
			client_.close();
			over_ = true;
		}

		peer client_;
		std::atomic<bool> over_{false};
		std::thread thread_;
	};

	listener door_;
	std::atomic<bool> over_{false};
	std::list<talk> talking_;
	std::thread accepting_;
};

void echoes(peer &client)
{
	client.send("hello");
	EXPECT_EQ(client.receive(5), "hello");
}

std::string listening(const std::string &name, const std::string &more = "")
{
	return "[listeners." + name + "]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n" + more;
}

std::string group(const std::string &backends, const std::string &more = "")
{
	return "[groups.g]\n" + more + "backends = [" + backends + "]\n";
}

std::string quoted(const std::string &text)
{
	return '"' + text + '"';
}

TEST(Reload, KeepsListenersAndConnections)
{
	listener one;
	listener two;
	const std::string top = "drain = 0\n";
	configured_relay relay(top + listening("web") + group(quoted(one.address())));
	const std::string address = relay.address();
	auto old_client = peer::connect(address);
	auto old_backend = one.accept();

	ASSERT_TRUE(relay.reload(top + listening("web") + group(quoted(two.address()))));
	auto client = peer::connect(address);
	auto backend = two.accept();
	client.send("new");
	EXPECT_EQ(backend.receive(3), "new");
	old_client.send("still here");
	EXPECT_EQ(old_backend.receive(10), "still here");
	old_backend.close();
	EXPECT_EQ(old_client.receive_end(), ending::fin);
	EXPECT_EQ(relay.counter("reloads"), 1U);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Reload, ChangesNothingWhenAnythingIsWrong)
{
	listener one;
	listener two;
	const listener taken;
	const std::string good = "drain = 0\n" + listening("web") + group(quoted(one.address()));
	file config(good);
	relay_process relay({"--config", config.name()});
	const std::string address = relay.address();
	const auto goes_to_one = [&] {
		auto client = peer::connect(address);
		auto backend = one.accept();
		client.send("x");
		EXPECT_EQ(backend.receive(1), "x");
	};

	config.write("drain = \"soon\"\nspeed = 1\n" + listening("web") +
		     group(quoted(two.address())));
	EXPECT_FALSE(relay.reload());
	relay.await_error(config.name() + ":1:9: drain: ");
	relay.await_error(config.name() + ":2:1: speed: unknown key");
	goes_to_one();

	config.write("no = TOML\n");
	EXPECT_FALSE(relay.reload());
	goes_to_one();

	/* A listener that cannot be opened: an earlier one is not opened either. */
	config.write("drain = 0\n" + listening("web") + listening("second") +
		     "[listeners.third]\naddress = \"" + taken.address() + "\"\ngroup = \"g\"\n" +
		     group(quoted(two.address())));
	EXPECT_FALSE(relay.reload());
	relay.await_error(config.name() + ":9:11: listeners.third.address: cannot listen on " +
			  taken.address() + ": ");
	EXPECT_EQ(relay.output(), "listening on " + address + "\n");
	goes_to_one();

	/* The process has only one admin server and one access log: if either of them cannot be
	 * opened, nothing changes. */
	config.write("admin = \"" + taken.address() + "\"\ndrain = 0\n" + listening("web") +
		     group(quoted(two.address())));
	EXPECT_FALSE(relay.reload());
	relay.await_error(config.name() + ":1:9: admin: cannot listen on " + taken.address() +
			  " for administration: ");
	goes_to_one();
	config.write("drain = 0\ncontrol = \"unix:/no/such/folder/socket\"\n" + listening("web") +
		     group(quoted(two.address())));
	EXPECT_FALSE(relay.reload());
	relay.await_error(config.name() + ":2:11: control: cannot listen on "
					  "unix:/no/such/folder/socket for administration: ");
	goes_to_one();
	config.write("admin = \"127.0.0.1:0\"\naccess_log = \"/no/such/folder/log\"\ndrain = 0\n" +
		     listening("web") + group(quoted(two.address())));
	EXPECT_FALSE(relay.reload());
	relay.await_error(config.name() + ":2:14: access_log: cannot open the access log "
					  "/no/such/folder/log: ");
	EXPECT_EQ(relay.output(), "listening on " + address + "\n");
	goes_to_one();

	config.write("drain = 0\n" + listening("web") + group(quoted(two.address())));
	EXPECT_TRUE(relay.reload());
	auto client = peer::connect(address);
	auto backend = two.accept();
	client.send("y");
	EXPECT_EQ(backend.receive(1), "y");
	EXPECT_EQ(relay.counter("reload_failures"), 6U);
	EXPECT_EQ(relay.counter("reloads"), 1U);
	client.close();
	backend.close();
	EXPECT_EQ(relay.stop().status, 0);
}

std::string contents(const std::string &name)
{
	std::ifstream in(name);
	return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t lines_with(const std::string &text, const std::string &part)
{
	std::size_t n = 0;
	std::istringstream in(text);
	for (std::string line; std::getline(in, line);)
		n += line.find(part) != line.npos;
	return n;
}

/* The log changes from none to a file, to other files and formats, and back to none: each
 * connection has its line. */
TEST(Reload, ReplacesTheAccessLogWithoutLosingALine)
{
	echo_backend backend;
	const std::string rest = listening("web") + group(quoted(backend.address()));
	const file first("");
	const file second("");
	const file third("");
	const auto logging = [&](const file &to, const std::string &format) {
		return "access_log = \"" + to.name() + "\"\naccess_log_format = \"" + format +
		       "\"\n" + rest;
	};
	configured_relay relay(rest);
	auto early = peer::connect(relay.address());
	echoes(early);
	EXPECT_TRUE(eventually([&] { return relay.counter("accepted") == 1; }));
	EXPECT_TRUE(relay.reload(logging(first, "logfmt")));

	std::atomic<bool> over{false};
	std::vector<std::thread> clients;
	for (int i = 0; i < 3; i++)
		clients.emplace_back([&] {
			try {
				while (!over) {
					auto client = peer::connect(relay.address());
					echoes(client);
				}
			} catch (const std::exception &error) {
				ADD_FAILURE() << error.what();
			}
		});
	for (int i = 0; i < 6; i++) {
		const auto before = relay.counter("accepted");
		EXPECT_TRUE(eventually([&] { return relay.counter("accepted") > before + 10; }));
		EXPECT_TRUE(
			relay.reload(logging(i % 2 ? first : second, i % 3 ? "json" : "logfmt")));
	}
	for (const char *format :
	     {"own {cause} {client} {tries}", "own {cause} {client} of {listener}"}) {
		const auto before = relay.counter("accepted");
		EXPECT_TRUE(eventually([&] { return relay.counter("accepted") > before + 10; }));
		EXPECT_TRUE(relay.reload(logging(third, format)));
	}
	over = true;
	for (auto &each : clients)
		each.join();
	/* A connection that began when there was no log is logged like the others. */
	early.close();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	const auto accepted = relay.counter("accepted");
	EXPECT_TRUE(relay.reload(rest));
	const std::string all =
		contents(first.name()) + contents(second.name()) + contents(third.name());
	EXPECT_EQ(lines_with(all, "client_end"), accepted);
	EXPECT_EQ(lines_with(all, "127.0.0.1:"), accepted);
	EXPECT_GT(lines_with(all, "cause=client_end"), 0U);
	EXPECT_GT(lines_with(all, "\"cause\":\"client_end\""), 0U);
	EXPECT_GT(lines_with(contents(second.name()), "client_end"), 0U);
	const auto with_own = lines_with(contents(third.name()), "own client_end 127.0.0.1:");
	EXPECT_EQ(with_own, lines_with(contents(third.name()), ""));
	EXPECT_GT(with_own, lines_with(contents(third.name()), " of web"));
	EXPECT_GT(lines_with(contents(third.name()), " of web"), 0U) << "of the second one";

	{
		auto unseen = peer::connect(relay.address());
		echoes(unseen);
	}
	stop(relay);
	EXPECT_EQ(contents(first.name()) + contents(second.name()) + contents(third.name()), all);
}

/* Clients of the old server get their answers, even those that have only connected. */
TEST(Reload, ReplacesTheAdminServerWithoutLosingAScrape)
{
	listener backend;
	const std::string rest =
		"drain = 0\n" + listening("web") + group(quoted(backend.address()));
	configured_relay relay("admin = \"127.0.0.1:0\"\n" + rest);
	const std::string old = relay.admin_address();
	const std::string question = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	const auto expect_answer = [](peer &client) {
		const auto [said, how] = client.receive_rest();
		EXPECT_TRUE(said.starts_with("HTTP/1.1 200 ")) << said;
		EXPECT_NE(said.find("sennit_relay_reloads_total"), said.npos);
		EXPECT_EQ(how, ending::fin);
	};
	const auto refused = [](const std::string &address) {
		try {
			peer::connect(address);
			return false;
		} catch (const std::exception &) {
			return true;
		}
	};
	auto asking = peer::sending(question.substr(0, 20), old);
	auto silent = peer::connect(old);
	EXPECT_TRUE(relay.reload("admin = \"127.0.0.2:0\"\n" + rest));
	EXPECT_TRUE(eventually([&] { return relay.admin_address() != old; }));
	EXPECT_TRUE(relay.admin_address().starts_with("127.0.0.2:"));
	EXPECT_EQ(relay.metric("reloads_total"), 1U);
	asking.send(question.substr(20));
	expect_answer(asking);
	silent.send(question);
	expect_answer(silent);
	EXPECT_TRUE(eventually([&] { return refused(old); }));

	/* If the address does not change, the server stays. */
	const std::string now = relay.admin_address();
	EXPECT_TRUE(relay.reload());
	EXPECT_EQ(relay.admin_address(), now);
	EXPECT_EQ(relay.metric("reloads_total"), 2U);

	EXPECT_TRUE(relay.reload(rest));
	EXPECT_TRUE(eventually([&] { return refused(now); }));
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Reload, OpensAndDrainsListeners)
{
	echo_backend backend;
	const std::string one = "drain = 0\n" + listening("web") + group(quoted(backend.address()));
	const std::string both = one + listening("second");
	configured_relay relay(one);
	relay.address(); /* when it has printed the address, it has read the file */
	ASSERT_TRUE(relay.reload(both));
	const std::string second = relay.address(1);
	auto client = peer::connect(second);
	echoes(client);

	ASSERT_TRUE(relay.reload(one));
	EXPECT_THROW(peer::connect(second), std::exception);
	echoes(client);
	client.close();

	/* When the listener comes back, it is a new one. */
	ASSERT_TRUE(relay.reload(both));
	client = peer::connect(relay.address(2));
	echoes(client);
	client = peer::connect(relay.address(0));
	echoes(client);
	client.close();
	stop(relay);
}

/* No connected client is reset, even if the relay had not yet accepted it. */
TEST(Reload, ServesTheBacklogOfARemovedListener)
{
	echo_backend backend;
	const std::string one = "drain = 0\n" + listening("web") + group(quoted(backend.address()));
	file config(one + listening("second"));
	relay_process relay({"--config", config.name()});
	const std::string second = relay.address(1);

	relay.signal(SIGSTOP);
	std::vector<peer> clients;
	for (int i = 0; i < 50; i++) {
		clients.push_back(peer::connect(second));
		clients.back().send("hello");
	}
	config.write(one);
	relay.signal(SIGHUP);
	relay.signal(SIGCONT);
	relay.await_error("reloaded ");
	for (auto &each : clients)
		EXPECT_EQ(each.receive(5), "hello");
	clients.clear();
	stop(relay);
}

TEST(Reload, KeepsTheStateOfABackend)
{
	echo_backend alive;
	const listener dead("127.0.0.1", -1);
	const auto text = [&](unsigned weight) {
		return "drain = 0\nadmin = \"127.0.0.1:0\"\n" + listening("web") +
		       group("{address = \"" + dead.address() + "\", weight = " +
				     std::to_string(weight) + "}, " + quoted(alive.address()),
			     "eject_after = 2\neject_for = \"1h\"\n");
	};
	configured_relay relay(text(1));
	const auto use = [&] {
		auto client = peer::connect(relay.address());
		echoes(client);
	};
	for (int i = 0; i < 8; i++)
		use();
	EXPECT_EQ(relay.counter("ejections"), 1U);
	EXPECT_EQ(relay.counter("retries"), 2U);
	ASSERT_TRUE(relay.reload(text(5)));
	for (int i = 0; i < 8; i++)
		use();
	EXPECT_EQ(relay.counter("retries"), 2U) << "it is still ejected";
	const std::string labels = "{group=\"g\",backend=\"" + dead.address() + "\"}";
	EXPECT_EQ(relay.metric("backend_weight" + labels), 5U);
	EXPECT_EQ(relay.metric("backend_failures_total" + labels), 2U);
	EXPECT_EQ(relay.metric("backend_ejections_total" + labels), 1U);
	EXPECT_EQ(relay.metric("retries_total{listener=\"web\"}"), 2U);
	EXPECT_EQ(relay.metric("connections_accepted_total{listener=\"web\"}"), 16U);
	EXPECT_EQ(relay.metric("reloads_total"), 1U);

	/* The metrics list a removed backend until its last connection has ended. */
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	auto client = peer::connect(relay.address());
	echoes(client);
	ASSERT_TRUE(relay.reload("drain = 0\nadmin = \"127.0.0.1:0\"\n" + listening("web") +
				 group(quoted(dead.address()))));
	const std::string gone = "{group=\"g\",backend=\"" + alive.address() + "\"}";
	EXPECT_EQ(relay.metric("backend_connections" + gone), 1U);
	echoes(client);
	client.close();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_TRUE(eventually([&] {
		try {
			relay.metric("backend_connections" + gone);
			return false;
		} catch (const std::exception &) {
			return true;
		}
	}));
	EXPECT_EQ(relay.stop().status, 0);
}

/* Limits are exact, and connections that an earlier configuration accepted count, too. */
TEST(Reload, KeepsLimits)
{
	echo_backend backend;
	const auto text = [&](unsigned most) {
		return "drain = 0\n" +
		       listening("web", "max_connections = " + std::to_string(most) + "\n") +
		       group(quoted(backend.address()));
	};
	configured_relay relay(text(3));
	const std::string address = relay.address();
	std::list<peer> open;
	for (int i = 0; i < 3; i++) {
		open.push_back(peer::connect(address));
		echoes(open.back());
	}
	ASSERT_TRUE(relay.reload(text(2)));
	open.pop_front();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 2; }));
	EXPECT_EQ(peer::connect(address).receive_end(), ending::fin);
	open.pop_front();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 1; }));
	open.push_back(peer::connect(address));
	echoes(open.back());
	open.clear();
	stop(relay);
}

TEST(Reload, FailsNoClientUnderTraffic)
{
	const char *const asked = std::getenv("SENNIT_RELOADS");
	const unsigned reloads = asked ? static_cast<unsigned>(std::atoi(asked)) : 10;
	echo_backend backends[3];
	/* Backends and a second listener are added and removed; limits and balancing methods
	 * change. */
	const auto text = [&](unsigned round) {
		std::string chosen = quoted(backends[0].address());
		if (round % 2)
			chosen += ", " + quoted(backends[1].address());
		if (round % 3)
			chosen += ", {address = " + quoted(backends[2].address()) +
				  ", weight = " + std::to_string(round % 7 + 1) + "}";
		return "drain = 0\n" +
		       listening("web", round % 5 ? "max_connections = 1000\n" : "") +
		       (round % 4 ? listening("second") : "") +
		       group(chosen, round % 2 ? "balance = \"two-choices\"\n" : "");
	};
	configured_relay relay(text(0));
	const std::string address = relay.address();

	auto lasting = peer::connect(address);
	std::atomic<bool> over{false};
	std::atomic<unsigned> served{0};
	std::atomic<unsigned> failed{0};
	std::vector<std::thread> clients;
	for (int i = 0; i < 4; i++)
		clients.emplace_back([&] {
			while (!over) {
				try {
					auto client = peer::sending("hello", address);
					if (client.receive(5) != "hello")
						failed++;
					served++;
				} catch (const std::exception &error) {
					ADD_FAILURE() << error.what();
					failed++;
				}
			}
		});
	for (unsigned round = 1; round <= reloads; round++) {
		const unsigned before = served;
		EXPECT_TRUE(relay.reload(text(round)));
		echoes(lasting);
		EXPECT_TRUE(eventually([&] { return served > before + 10 || failed > 0; }));
	}
	over = true;
	for (auto &each : clients)
		each.join();
	lasting.close();
	EXPECT_EQ(failed, 0U);
	std::printf("%u reloads, %u connections\n", reloads, served.load());
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	const auto counts = relay.counters();
	EXPECT_EQ(counts.at("reloads"), reloads);
	for (const char *name : {"connect_failed", "resets", "refused", "no_memory", "cut"})
		EXPECT_EQ(counts.at(name), 0U) << name;
	EXPECT_EQ(relay.stop().status, 0);
}

/* If there is no configuration file, only the log is reopened. */
TEST(Reload, WithoutAFileDoesNothing)
{
	echo_backend backend;
	relay_process relay({"127.0.0.1:0", backend.address()});
	const std::string address = relay.address();
	relay.signal(SIGHUP);
	auto client = peer::connect(address);
	echoes(client);
	const auto counts = relay.counters();
	EXPECT_EQ(counts.at("reloads") + counts.at("reload_failures"), 0U);
	client.close();
	stop(relay);
}

} // namespace
