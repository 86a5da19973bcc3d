/* SPDX-License-Identifier: MIT */
/*
 * Agents of backends: what their answers mean, what effects these have, and real agents, correct
 * and faulty, with a relay that has clients.
 */
#include "backends/agents.hpp"
#include "backends/balance.hpp"
#include "harness.hpp"
#include "wire/agent_answer.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace harness;
using namespace std::string_literals;
using relay::agent_admin;
using relay::agent_answer;
using relay::agent_effect;
using relay::agent_health;

namespace
{

/* Returns the meaning of a line, in a standard form: "ready up 75% maxconn:30 # description !
 * ignored". */
std::string meaning(const std::string &bytes)
{
	agent_answer says;
	const auto read = relay::parse_agent_answer(bytes, says);
	if (read.is == relay::parsed::state::more)
		return "more";
	if (read.is == relay::parsed::state::bad)
		return "bad: "s + read.why;
	std::string out;
	const auto add = [&out](const std::string &text) {
		out += (out.empty() ? "" : " ") + text;
	};
	if (says.admin)
		add(to_string(*says.admin));
	if (says.health)
		add(to_string(*says.health));
	if (says.percent)
		add(std::to_string(*says.percent) + '%');
	if (says.limit)
		add("maxconn:" + std::to_string(*says.limit));
	if (!says.description.empty())
		add("# " + std::string(says.description));
	if (!says.ignored.empty())
		add("! " + std::string(says.ignored));
	return out;
}

TEST(AgentAnswer, MeansWhatHaproxySays)
{
	const std::vector<std::pair<std::string, std::string>> all = {
		/* The examples of HAProxy's manual. */
		{"75%\n", "75%"},
		{"maxconn:30\n", "maxconn:30"},
		{"ready\n", "ready"},
		{"drain\n", "drain"},
		{"maint\n", "maint"},
		{"down\n", "down"},
		{"fail # no more disks\n", "fail # no more disks"},
		{"stopped\n", "stopped"},
		{"up\n", "up"},
		{"75%,maxconn:30,maint,down\n", "maint down 75% maxconn:30"},
		/* The line ends here; further bytes are ignored. */
		{"up\r\n", "up"},
		{"up\rdown\n", "up"},
		{"up\ndown\n", "up"},
		{"\n", ""},
		{" ,\t,, \n", ""},
		/* Separators in any number, and letters in upper and lower case. */
		{"\t up,,ready \t 5%,\n", "ready up 5%"},
		{"UP Ready MAXCONN:7\n", "ready up maxconn:7"},
		/* The last word of each kind counts. */
		{"up down drain ready 5% 7% maxconn:1 maxconn:2\n", "ready down 7% maxconn:2"},
		/* Numbers. */
		{"0%\n", "0%"},
		{"100%\n", "100%"},
		{"250%\n", "250%"},
		{"99999999999999999999999%\n", "25600%"},
		{"maxconn:0\n", "maxconn:0"},
		{"maxconn:99999999999999999999999\n", "maxconn:1000000000"},
		/* These are not words: they change nothing, and are reported. */
		{"75\n", "! 75"},
		{"%\n", "! %"},
		{"-5%\n", "! -5%"},
		{"7.5%\n", "! 7.5%"},
		{"5%%\n", "! 5%%"},
		{"maxconn:\n", "! maxconn:"},
		{"maxconn:-1\n", "! maxconn:-1"},
		{"maxconn: 30\n", "! maxconn:"},
		{"maxconn\n", "! maxconn"},
		{"drian up foo\n", "up ! drian"},
		{"upp\n", "! upp"},
		{"down#x\n", "! down#x"},
		/* The description goes to the end of the line. */
		{"down # \t a, up: #1\n", "down # a, up: #1"},
		{"down #\n", "down"},
		{"#up\n", "# up"},
		/* Both spellings are accepted, see agent_answer.hpp. */
		{"failed\n", "fail"},
		/* Incomplete answers. */
		{"", "more"},
		{"up", "more"},
		{"maxconn:3", "more"},
		{"up\0\n"s, "bad: the line has a byte of 0"},
		{std::string(relay::agent_answer_most - 1, ' ') + "\n", ""},
		{std::string(relay::agent_answer_most, ' ') + "\n", "bad: the line is too long"},
		{std::string(relay::agent_answer_most - 1, 'x'), "more"},
		{std::string(relay::agent_answer_most, 'x'), "bad: the line is too long"},
	};
	for (const auto &[bytes, expected] : all)
		EXPECT_EQ(meaning(bytes), expected) << testing::PrintToString(bytes);
}

/* A group whose backends have agents, without connections. */
struct group {
	explicit group(const std::vector<std::uint32_t> &weights, std::uint64_t most = 0)
	{
		settings.agent.interval = 1s;
		settings.agent.at.port = 1;
		settings.slow_return = 0s;
		for (std::size_t i = 0; i < weights.size(); i++)
			settings.backends.push_back(
				{"10.0.0." + std::to_string(i) + ":1", weights[i], most});
		use();
	}

	/* Applies the settings, as a reload does. */
	void use()
	{
		relay::registry::generation next(registry);
		made = std::make_unique<relay::pool>(settings, "g", next);
		next.commit();
	}

	relay::endpoint &at(std::size_t i) const
	{
		return *made->backends()[i].endpoints.now()->front().at;
	}

	/* Reports a line of the agent that is in effect. */
	relay::agent_state::change says(std::size_t i, const std::string &line)
	{
		const std::string bytes = line + '\n';
		agent_answer answer;
		EXPECT_TRUE(relay::parse_agent_answer(bytes, answer));
		return made->heard(at(i), relay::agent_of(settings, settings.backends[i]), answer);
	}

	/* Returns how often each backend is chosen in so many choices. */
	std::vector<int> chosen(int times)
	{
		std::vector<int> counts(settings.backends.size());
		for (int i = 0; i < times; i++)
			if (const auto one = made->choose(0, {}))
				counts[static_cast<std::size_t>(one->address[7] - '0')]++;
		return counts;
	}

	std::string state(std::size_t i) const
	{
		const auto now = registry.read().backends[i];
		return to_string(now.state) + ": "s + now.agent.words;
	}

	relay::registry registry;
	relay::group_config settings;
	std::unique_ptr<relay::pool> made;
};

using counts = std::vector<int>;

TEST(AgentEffect, IsAFactorOfTheWeight)
{
	group g({4, 4, 2});
	EXPECT_EQ(g.chosen(10), (counts{4, 4, 2})) << "the effect is the same as without agents";
	g.says(0, "50%");
	g.says(2, "200%");
	EXPECT_EQ(g.chosen(10), (counts{2, 4, 4}));
	EXPECT_EQ(g.state(0), "not checked: ") << "the agent's weight is not a state";
	g.says(0, "0%");
	g.says(2, "100%");
	EXPECT_EQ(g.chosen(6), (counts{0, 4, 2}));
	EXPECT_EQ(g.state(0), "drained: drained by its agent (weight 0%)");
	/* Almost nothing is left of the weight, but the result is not 0. */
	g.settings.backends[0].weight = 1;
	g.settings.backends[2].weight = 0;
	g.says(0, "1%");
	EXPECT_EQ(g.chosen(401), (counts{1, 400, 0}));
	/* If the operator has set the weight to 0, it is 0, whatever the agent says. */
	g.says(2, "1000% ready up");
	EXPECT_EQ(g.chosen(401), (counts{1, 400, 0}));
	/* The product is no larger than any weight that can be configured. */
	g.settings.backends[0].weight = relay::weight_max;
	g.settings.backends[1].weight = relay::weight_max;
	g.says(0, "25600%");
	EXPECT_EQ(g.chosen(20), (counts{10, 10, 0}));
}

TEST(AgentEffect, IsNotUndoneByOthers)
{
	group g({1, 1});
	g.settings.check.interval = 1s;
	g.settings.check.rise = g.settings.check.fall = 1;
	g.use();
	const auto check = [&](bool well) {
		g.made->checked(g.at(0), well ? std::error_code()
					      : std::make_error_code(std::errc::timed_out));
	};
	const auto serves = [&] { return g.chosen(4)[0] > 0; };
	/* The operator, the two kinds of words of the agent, and the checks: the backend serves if
	 * all of them allow it. */
	for (unsigned bits = 0; bits < 16; bits++) {
		g.settings.backends[0].weight = bits & 1;
		g.says(0, bits & 2 ? "ready" : "drain");
		g.says(0, bits & 4 ? "up" : "down");
		check(bits & 8);
		EXPECT_EQ(serves(), bits == 15) << bits;
		EXPECT_EQ(g.made->has_other({g.made->backends()[1].endpoints.now()->front().at}),
			  bits == 15);
	}
	g.says(0, "maint");
	g.says(0, "up 100%");
	EXPECT_FALSE(serves());
	g.says(0, "ready");
	EXPECT_TRUE(serves());
}

TEST(AgentEffect, IsInWords)
{
	group g({1});
	const std::vector<std::pair<std::string, std::string>> all = {
		{"down # disk full", "down: down by its agent: disk full"},
		{"50%", "down: down by its agent: disk full"},
		{"maint # new kernel", "down: down by its agent: new kernel"},
		{"up", "drained: drained by its agent (maintenance)"},
		{"drain # soon\x01gone", "drained: drained by its agent: soon?gone"},
		{"ready # all is well", "not checked: "},
		{"drain # \xc2\x9b\x31m\xc2\x80\xc2\x9f\xc2\xa0\xc3\x9b",
		 "drained: drained by its agent: ?1m??\xc2\xa0\xc3\x9b"},
		{"ready # all is well", "not checked: "},
		{"drain # cut off\xc2", "drained: drained by its agent: cut off\xef\xbf\xbd"},
		{"ready # all is well", "not checked: "},
		{"fail", "down: down by its agent (fail)"},
		{"stopped #\xff", "down: down by its agent (stopped): \xef\xbf\xbd"},
		{"up drian", "not checked: its agent says \"drian\", which is unknown"},
		{"up", "not checked: "},
	};
	for (const auto &[line, words] : all) {
		g.says(0, line);
		EXPECT_EQ(g.state(0), words) << line;
	}
	g.says(0, "down #" + std::string(900, 'x'));
	EXPECT_LT(g.state(0).size(), 250U);
}

TEST(AgentEffect, LimitsConnections)
{
	for (const std::uint64_t most : {0, 3}) {
		group g({1}, most);
		const auto places = [&] {
			std::vector<relay::ticket> open;
			while (open.size() < 10) {
				open.push_back(g.made->choose(0, {}));
				if (!open.back())
					return open.size() - 1;
			}
			return open.size();
		};
		const auto limit = [&] { return g.registry.read().backends[0].limit; };
		const std::size_t all = most ? most : 10;
		EXPECT_EQ(places(), all);
		EXPECT_EQ(limit(), most);
		g.says(0, "maxconn:2");
		EXPECT_EQ(places(), 2U);
		EXPECT_EQ(limit(), 2U);
		g.says(0, "maxconn:7");
		EXPECT_EQ(places(), most ? 3U : 7U) << "the lower one";
		g.says(0, "maxconn:0");
		EXPECT_EQ(places(), all) << "0 is no limit";
	}
}

TEST(AgentEffect, ReturnsSlowlyFromDownAndMaint)
{
	for (const auto &[away, back, is_slow] :
	     {std::tuple("down", "up", true), std::tuple("maint", "ready", true),
	      std::tuple("maint", "drain", true), std::tuple("drain", "ready", false),
	      std::tuple("0%", "100%", false)}) {
		group g({1});
		g.settings.slow_return = 1h;
		g.says(0, away);
		g.says(0, back);
		EXPECT_EQ(sn_now() < g.at(0).counts.slow_until, is_slow) << away;
		/* The backend is returning slowly already. */
		g.at(0).counts.slow_until = INT64_MAX;
		g.says(0, away);
		g.says(0, back);
		EXPECT_EQ(g.at(0).counts.slow_until, INT64_MAX);
	}
}

TEST(AgentEffect, BelongsToOneAgent)
{
	group g({1, 1});
	const auto before = g.settings;
	const auto old = relay::agent_of(before, before.backends[0]);
	g.says(0, "down 50% maxconn:3");
	const auto said = g.at(0).agent.effect();
	EXPECT_TRUE(g.at(0).agent.missed(old, "refused")) << "the first time";
	EXPECT_FALSE(g.at(0).agent.missed(old, "timed out"));
	EXPECT_EQ(g.state(0), "down: down by its agent; its agent does not answer: timed out");
	/* A reload keeps the state if the agent is the same, even if other settings change. */
	g.settings.agent.interval = 10s;
	g.settings.backends[0].weight = 3;
	g.use();
	EXPECT_EQ(g.at(0).agent.effect(), said);
	EXPECT_FALSE(g.at(0).agent.missed(old, "refused")) << "the loss was reported already";
	EXPECT_TRUE(g.says(0, "").answers_again);
	EXPECT_FALSE(g.says(0, "").answers_again);
	/* Another agent, about which nothing is known. */
	agent_answer late;
	ASSERT_TRUE(relay::parse_agent_answer("down\n", late));
	const std::vector<std::function<void()>> changes = {
		[&] { g.settings.agent.at.port = 2; },
		[&] { g.settings.agent.at = {.address = "10.0.0.9:1"}; },
		[&] { g.settings.agent.send = "web\n"; },
		[&] { g.settings.backends[0].agent_send = "a\n"; },
		[&] { g.settings.backends[0].agent.port = 7; },
		[&] { g.settings.agent.interval = 0s; },
	};
	for (const auto &change : changes) {
		g.says(0, "down");
		g.says(1, "down");
		const auto former = relay::agent_of(g.settings, g.settings.backends[0]);
		change();
		g.use();
		EXPECT_EQ(g.at(0).agent.effect(), agent_effect{});
		EXPECT_FALSE(g.made->heard(g.at(0), former, late).counts) << "too late";
		EXPECT_FALSE(g.at(0).agent.missed(former, "refused"));
		EXPECT_EQ(g.at(0).agent.effect(), agent_effect{});
	}
	EXPECT_FALSE(g.registry.read().backends[0].agent.is_there);
	/* An agent that was removed and is added again. */
	g.settings = before;
	g.use();
	g.says(0, "down");
	const auto held = g.made->backends()[0].shared;
	g.settings.backends.erase(g.settings.backends.begin());
	g.use();
	g.settings = before;
	g.use();
	EXPECT_EQ(g.made->backends()[0].shared, held);
	EXPECT_EQ(g.at(0).agent.effect(), agent_effect{});
	/* The agent is no longer asked. */
	g.says(0, "down");
	g.made->unheard();
	EXPECT_EQ(g.at(0).agent.effect(), agent_effect{});
}

/* Choices, answers, reloads and snapshots at the same time: each of them sees whole answers. */
TEST(AgentEffect, IsSeenWhole)
{
	group g({1, 1});
	const auto id = relay::agent_of(g.settings, g.settings.backends[0]);
	const auto other = std::make_shared<const std::string>("another");
	auto &its = g.at(0).agent;
	std::atomic<bool> over{false};
	std::vector<std::thread> threads;
	threads.emplace_back([&] {
		for (std::uint32_t i = 0; !over; i++) {
			agent_answer answer;
			answer.percent = i % 200;
			answer.limit = 1000 + i % 200;
			answer.description = i % 2 ? "odd" : "a description that needs memory";
			answer.admin = agent_admin::ready;
			static_cast<void>(g.made->heard(g.at(0), id, answer));
			static_cast<void>(its.missed(id, "refused"));
		}
	});
	threads.emplace_back([&] {
		while (!over) {
			its.belongs_to(other);
			its.belongs_to(id);
		}
	});
	threads.emplace_back([&] {
		while (!over)
			static_cast<void>(g.made->choose(0, {}));
	});
	for (std::size_t i = scaled(20000); i > 0; i--) {
		const auto now = its.effect();
		EXPECT_TRUE(now == agent_effect{} || now.limit == 1000U + now.percent);
		if (i % 100 == 0)
			static_cast<void>(g.registry.read());
	}
	over = true;
	for (auto &each : threads)
		each.join();
	its.belongs_to(nullptr);
	EXPECT_EQ(its.effect(), agent_effect{});
}

/* Answers a client's "who" with a name. A client that connects and sends nothing is held until it
 * leaves. */
struct answering : serving {
	explicit answering(char name)
	    : serving([name](peer &client) {
		      if (client.receive(3) == "who")
			      client.send(std::string(1, name));
	      })
	{
	}
};

/* An agent, whose behaviour on each connection can be replaced. */
class agent
{
public:
	using deed = std::function<void(peer &)>;

	explicit agent(const std::string &line = "up") : does_(sends(line + '\n'))
	{
		thread_ = std::thread([this] { run(); });
	}
	agent(const agent &) = delete;
	agent &operator=(const agent &) = delete;
	~agent() { vanish(); }

	static deed sends(const std::string &bytes)
	{
		return [bytes](peer &to) { to.send(bytes); };
	}
	void does(deed what)
	{
		const std::lock_guard lock(lock_);
		does_ = std::move(what);
		done_ = 0;
	}
	void says(const std::string &line) { does(sends(line + '\n')); }
	/* How many connections it has served since its behaviour was set. */
	unsigned done() const { return done_; }
	std::string port() const { return door_->port(); }
	const std::string &address() const { return door_->address(); }
	/* From now on, connections to it are refused. */
	void vanish()
	{
		if (!thread_.joinable())
			return;
		over_ = true;
		const auto last = peer::connect(address());
		thread_.join();
		door_.reset();
	}

private:
	void run()
	{
		while (!over_) {
			try {
				auto client = door_->accept();
				if (over_)
					return;
				deed what;
				{
					const std::lock_guard lock(lock_);
					what = does_;
				}
				what(client);
				done_++;
			} catch (const std::exception &) {
				/* The relay has closed the connection first. */
				done_++;
			}
		}
	}

	std::mutex lock_;
	deed does_;
	std::optional<listener> door_{std::in_place};
	std::atomic<bool> over_{false};
	std::atomic<unsigned> done_{0};
	std::thread thread_;
};

struct pair {
	std::string backend;
	std::string agent; /* keys of the agent's table in the backend; empty: no such table */
};

std::string text(const std::vector<pair> &backends, const std::string &more,
		 const std::string &agents = "interval = \"10ms\"\ntimeout = \"10s\"\n",
		 const std::string &top = "")
{
	std::string list;
	for (const auto &each : backends)
		list += "{ address = \"" + each.backend + "\"" +
			(each.agent.empty() ? "" : ", agent = { " + each.agent + " }") + " },";
	return "drain = 0\nadmin = \"127.0.0.1:0\"\n" + top +
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
	       "[groups.g]\nslow_return = 0\nretries = 0\nbackends = [" +
	       list + "]\n" + more + (agents.empty() ? "" : "[groups.g.agent]\n" + agents);
}

std::ptrdiff_t share(relay_process &relay, char name, int clients)
{
	return std::ranges::count(served_by(relay, clients), name);
}

std::uint64_t metric(relay_process &relay, const std::string &name, const std::string &backend)
{
	return relay.metric(name + "{group=\"g\",backend=\"" + backend + "\"}");
}

bool has_percent(relay_process &relay, const std::string &backend, std::uint64_t percent)
{
	return eventually(
		[&] { return metric(relay, "backend_agent_weight_percent", backend) == percent; });
}

bool is_state(relay_process &relay, const std::string &backend, const std::string &state)
{
	return eventually([&] {
		return relay.metric("backend_state{group=\"g\",backend=\"" + backend +
				    "\",state=\"" + state + "\"}") == 1;
	});
}

std::size_t count(const std::string &in, const std::string &text)
{
	std::size_t n = 0;
	for (auto at = in.find(text); at != in.npos; at = in.find(text, at + 1))
		n++;
	return n;
}

TEST(Agent, ClientsFollowTheWeight)
{
	answering a('a');
	answering b('b');
	agent of_a("50% up ready");
	agent of_b("100%");
	configured_relay relay(text(
		{{a.address(), "port = " + of_a.port()}, {b.address(), "port = " + of_b.port()}},
		""));
	ASSERT_TRUE(has_percent(relay, a.address(), 50));
	EXPECT_NEAR(share(relay, 'a', 30), 10, 1);
	of_a.says("300%");
	ASSERT_TRUE(has_percent(relay, a.address(), 300));
	EXPECT_NEAR(share(relay, 'a', 40), 30, 1);
	of_a.says("0%");
	ASSERT_TRUE(has_percent(relay, a.address(), 0));
	EXPECT_EQ(served_by(relay, 4), "bbbb");
	EXPECT_TRUE(is_state(relay, a.address(), "drained"));
	EXPECT_EQ(metric(relay, "backend_agent_answers", a.address()), 1U);
	stop(relay);
}

/* The text that is sent comes from the backend's own table, or from the group's. */
TEST(Agent, IsToldWhatItIsAskedFor)
{
	answering a('a');
	answering b('b');
	agent both;
	/* One agent that answers for all backends. */
	both.does([](peer &to) {
		std::string asked;
		while (!asked.ends_with('\n'))
			asked += to.receive(1);
		to.send(asked == "web a\n" ? "maint # by hand\n" : "ready 40%\n");
	});
	configured_relay relay(text({{a.address(), "send = \"web a\\n\""}, {b.address(), ""}}, "",
				    "interval = \"10ms\"\ntimeout = \"10s\"\nsend = \"web\\n\"\n"
				    "address = \"" +
					    both.address() + "\"\n"));
	relay.await_error("the agent of backend " + a.address() + " of g says maint: by hand");
	ASSERT_TRUE(has_percent(relay, b.address(), 40));
	EXPECT_EQ(served_by(relay, 3), "bbb");
	EXPECT_EQ(metric(relay, "backend_agent_weight_percent", a.address()), 100U);
	stop(relay);
}

TEST(Agent, DrainLetsConnectionsFinish)
{
	listener door;
	answering b('b');
	agent of_a;
	agent of_b;
	configured_relay relay(text(
		{{door.address(), "port = " + of_a.port()}, {b.address(), "port = " + of_b.port()}},
		"", "interval = \"10ms\"\ntimeout = \"10s\"\non_down = \"cut\"\n"));
	auto client = peer::sending("x", relay.address());
	auto at_backend = door.accept();
	EXPECT_EQ(at_backend.receive(1), "x");
	of_a.says("drain");
	relay.await_error("the agent of backend " + door.address() + " of g says drain");
	EXPECT_TRUE(is_state(relay, door.address(), "drained"));
	EXPECT_EQ(served_by(relay, 4), "bbbb");
	const auto asked = of_a.done();
	EXPECT_TRUE(eventually([&] { return of_a.done() > asked + 3; }));
	client.send("ping");
	EXPECT_EQ(at_backend.receive(4), "ping");
	at_backend.send("pong");
	EXPECT_EQ(client.receive(4), "pong");
	/* Maintenance ends the connections, because on_down says so. */
	of_a.says("maint");
	EXPECT_EQ(client.receive_end(), ending::reset);
	EXPECT_EQ(at_backend.receive_end(), ending::reset);
	relay.await_error("backend " + door.address() + " of g is down: reset 1 open connections");
	stop(relay);
}

TEST(Agent, DownMovesClients)
{
	answering a('a');
	answering b('b');
	agent of_a;
	agent of_b;
	configured_relay relay(text(
		{{a.address(), "port = " + of_a.port()}, {b.address(), "port = " + of_b.port()}},
		""));
	EXPECT_EQ(share(relay, 'a', 4), 2);
	of_a.says("fail # no database");
	relay.await_error("warning agent_down group=g backend=" + a.address() + " says=fail ");
	relay.await_error("backend " + a.address() + " of g is down by its agent: no database");
	EXPECT_EQ(served_by(relay, 4), "bbbb");
	of_b.says("stopped");
	relay.await_error("backend " + b.address() + " of g is down by its agent");
	auto client = peer::connect(relay.address());
	EXPECT_EQ(client.receive_end(), ending::fin);
	of_a.says("up");
	relay.await_error("notice agent_up group=g backend=" + a.address() + " says=up ");
	EXPECT_EQ(served_by(relay, 4), "aaaa");
	EXPECT_EQ(count(relay.errors(), " agent_down "), 2U) << "each event is reported once";
	stop(relay);
}

/* The agent, the checks and the operator: none of them undoes a decision of another. */
TEST(Agent, AndTheOperatorHaveToAgree)
{
	answering a('a');
	answering b('b');
	agent of_a;
	const folder in;
	const std::string control = "unix:" + in / "ctl";
	configured_relay relay(
		text({{a.address(), ""}, {b.address(), "address = \"127.0.0.1:1\""}}, "",
		     "interval = \"10ms\"\ntimeout = \"10s\"\nport = " + of_a.port() + '\n',
		     "control = \"" + control + "\"\n"));
	relay.await_error(" serves");
	const auto ctl = [&](std::vector<std::string> arguments) {
		arguments.insert(arguments.begin(), {"ctl", "--at", control});
		relay_process client(arguments);
		const auto end = client.wait();
		EXPECT_EQ(end.status, 0) << end.errors;
		return end.output;
	};
	const auto heard = [&] {
		const auto before = of_a.done();
		return eventually([&] { return of_a.done() > before + 3; });
	};
	EXPECT_EQ(share(relay, 'a', 4), 2);
	ctl({"drain", "g", a.address()});
	of_a.says("ready up 100%");
	ASSERT_TRUE(heard());
	EXPECT_EQ(served_by(relay, 4), "bbbb") << "an agent does not undo the operator's drain";
	of_a.says("maint # new kernel");
	relay.await_error("says maint: new kernel");
	ctl({"enable", "g", a.address()});
	EXPECT_EQ(served_by(relay, 4), "bbbb") << "the operator does not undo the agent's drain";
	const auto status = ctl({"status"});
	EXPECT_NE(status.find("drained by its agent (maintenance): new kernel"), status.npos)
		<< status;
	EXPECT_NE(status.find("its agent does not answer: Connection refused"), status.npos)
		<< status;
	of_a.says("ready 50%");
	ASSERT_TRUE(has_percent(relay, a.address(), 50));
	ctl({"weight", "g", a.address(), "4"});
	EXPECT_NE(ctl({"status"}).find("4 x 50%"), std::string::npos);
	EXPECT_NE(ctl({"json"}).find("\"weight_percent\":50,"), std::string::npos);
	EXPECT_NEAR(share(relay, 'a', 30), 20, 1) << "2 of 3";
	stop(relay);
}

TEST(Agent, LimitsConnectionsAndLetsWaitersIn)
{
	listener door;
	agent its("maxconn:1");
	configured_relay relay(
		text({{door.address(), ""}}, "queue_timeout = 0\n",
		     "interval = \"10ms\"\ntimeout = \"10s\"\nport = " + its.port() + '\n'));
	EXPECT_TRUE(eventually(
		[&] { return metric(relay, "backend_connections_limit", door.address()) == 1; }));
	auto first = peer::sending("1", relay.address());
	auto at_first = door.accept();
	EXPECT_EQ(at_first.receive(1), "1");
	auto second = peer::sending("2", relay.address());
	EXPECT_TRUE(
		eventually([&] { return relay.metric("queue_connections{group=\"g\"}") == 1; }));
	its.says("maxconn:2");
	auto at_second = door.accept();
	EXPECT_EQ(at_second.receive(1), "2");
	first.close();
	second.close();
	at_first.close();
	at_second.close();
	stop(relay);
}

TEST(Agent, ThatVanishesLeavesWhatItSaid)
{
	answering a('a');
	answering b('b');
	const std::string name = "backend " + a.address() + " of g";
	auto its = std::make_unique<agent>("down");
	const std::string port = its->port();
	configured_relay relay(text(
		{{a.address(), "port = " + port}, {b.address(), "address = \"127.0.0.1:1\""}}, ""));
	relay.await_error(name + " is down by its agent");
	its->vanish();
	/* The connection is refused; or reset, if the agent was just being asked. */
	relay.await_error("the agent of " + name +
			  " does not answer, so its last answer stays in effect: ");
	relay.await_error("warning agent_lost group=g backend=" + b.address());
	EXPECT_EQ(metric(relay, "backend_agent_answers", a.address()), 0U);
	EXPECT_EQ(served_by(relay, 4), "bbbb") << "an agent that has never answered does no harm";
	EXPECT_TRUE(is_state(relay, a.address(), "down"));
	EXPECT_EQ(count(relay.errors(), " agent_lost "), 2U) << "each event is reported once";
	stop(relay);
}

TEST(Agent, ThatMisbehavesSaysNothing)
{
	answering a('a');
	agent its("50%");
	configured_relay relay(
		text({{a.address(), ""}}, "",
		     "interval = \"10ms\"\ntimeout = \"10s\"\nport = " + its.port() + '\n'));
	ASSERT_TRUE(has_percent(relay, a.address(), 50));
	const std::vector<std::pair<agent::deed, std::string>> all = {
		{[](peer &to) {
			 for (;;)
				 to.send("down down down ");
		 },
		 "its answer is malformed: the line is too long"},
		{agent::sends("maxconn:3"), "its answer has no line end"},
		{agent::sends(""), "it closes the connection without an answer"},
		{[](peer &to) { to.reset(); }, "Connection reset by peer"},
		{agent::sends("\x16\x03\x01\0\x02down\n"s),
		 "its answer is malformed: the line has a byte of 0"},
	};
	std::size_t times = 0;
	for (const auto &[deed, why] : all) {
		its.does(deed);
		relay.await_error(why);
		EXPECT_TRUE(eventually([&] { return its.done() > 3; }))
			<< "the relay keeps asking the agent";
		EXPECT_EQ(metric(relay, "backend_agent_answers", a.address()), 0U);
		EXPECT_EQ(metric(relay, "backend_agent_weight_percent", a.address()), 50U);
		EXPECT_EQ(served_by(relay, 2), "aa");
		its.says("50%");
		times++;
		EXPECT_TRUE(eventually([&] {
			return count(relay.errors(), " agent_answers ") == times;
		})) << why;
		EXPECT_EQ(count(relay.errors(), " agent_lost "), times) << "each time once";
	}
	stop(relay);
}

TEST(Agent, ThatIsSilentSaysNothing)
{
	answering a('a');
	agent its("50%");
	/* On a machine that stalls, a correct answer may also be late. Another one follows then. */
	configured_relay relay(
		text({{a.address(), ""}}, "",
		     "interval = \"10ms\"\ntimeout = \"200ms\"\nport = " + its.port() + '\n'));
	ASSERT_TRUE(has_percent(relay, a.address(), 50));
	for (const std::string beginning : {"", "7", "maxconn:3"}) {
		its.does([beginning](peer &to) {
			to.send(beginning);
			static_cast<void>(to.receive_rest());
		});
		EXPECT_TRUE(eventually([&] { return its.done() > 1; })) << beginning;
		EXPECT_TRUE(eventually([&] {
			return metric(relay, "backend_agent_answers", a.address()) == 0;
		})) << beginning;
		EXPECT_EQ(metric(relay, "backend_agent_weight_percent", a.address()), 50U);
		EXPECT_EQ(metric(relay, "backend_connections_limit", a.address()), 0U);
		EXPECT_EQ(served_by(relay, 2), "aa");
		its.says("50%");
		EXPECT_TRUE(eventually([&] {
			return metric(relay, "backend_agent_answers", a.address()) == 1;
		})) << beginning;
	}
	relay.await_error("its last answer stays in effect: Connection timed out");
	stop(relay);
}

TEST(Agent, MayAnswerInAnyWay)
{
	answering a('a');
	agent its;
	configured_relay relay(
		text({{a.address(), ""}}, "",
		     "interval = \"10ms\"\ntimeout = \"10s\"\nsend = \"hello\\n\"\nport = " +
			     its.port() + '\n'));
	const std::vector<agent::deed> all = {
		agent::sends("1%\r\n"),
		agent::sends("2%\r"),
		agent::sends("3%\n50%\ndown\n"),
		[](peer &to) {
			for (const char c : "4% # slowly\n"s) {
				to.send(std::string(1, c));
				std::this_thread::sleep_for(1ms);
			}
		},
		agent::sends("5%\n" + std::string(100000, 'x')),
		agent::sends("\xff\xfe 6% \x01\x02\n"),
		[](peer &to) {
			to.send("7%\n");
			static_cast<void>(to.receive_rest());
		},
	};
	std::uint64_t percent = 0;
	for (const auto &deed : all) {
		its.does(deed);
		EXPECT_TRUE(has_percent(relay, a.address(), ++percent));
		EXPECT_EQ(served_by(relay, 1), "a");
	}
	EXPECT_TRUE(is_state(relay, a.address(), "not checked"));
	stop(relay);
}

TEST(Agent, ComesAndGoesWithReloads)
{
	answering a('a');
	answering b('b');
	agent of_a("down");
	agent of_b;
	const auto with = [&](const std::string &more = "") {
		return text({{a.address(), "port = " + of_a.port()},
			     {b.address(), "port = " + of_b.port()}},
			    more);
	};
	configured_relay relay(with());
	relay.await_error("backend " + a.address() + " of g is down by its agent");
	/* The agent stops answering; its state is kept. */
	of_a.says("");
	ASSERT_TRUE(relay.reload(with("eject_after = 7\n")));
	EXPECT_EQ(served_by(relay, 4), "bbbb");
	/* Without an agent, the state that it caused is gone. */
	ASSERT_TRUE(relay.reload(text({{a.address(), ""}, {b.address(), ""}}, "", "")));
	EXPECT_EQ(share(relay, 'a', 4), 2);
	EXPECT_TRUE(is_state(relay, a.address(), "not checked"));
	EXPECT_THROW(metric(relay, "backend_agent_answers", a.address()), std::exception);
	/* An agent that is added again has no state. */
	ASSERT_TRUE(relay.reload(with()));
	EXPECT_EQ(share(relay, 'a', 4), 2);
	of_a.says("drain");
	relay.await_error("the agent of backend " + a.address() + " of g says drain");
	/* Another agent, which has not answered yet. */
	agent another("");
	ASSERT_TRUE(relay.reload(text(
		{{a.address(), "port = " + another.port()}, {b.address(), "port = " + of_b.port()}},
		"")));
	EXPECT_EQ(share(relay, 'a', 4), 2);
	stop(relay);
}

/* Each address of a name has its own agent, at that address. */
TEST(Agent, IsAskedAtEachAddress)
{
	answering a('a');
	agent its("30%");
	const std::string name = "localhost" + a.address().substr(a.address().rfind(':'));
	configured_relay relay(
		text({{name, ""}}, "eject_after = 0\n",
		     "interval = \"10ms\"\ntimeout = \"10s\"\nport = " + its.port() + '\n'));
	relay.await_error(" serves");
	const std::string labels =
		"{group=\"g\",backend=\"" + name + "\",endpoint=\"" + a.address() + "\"}";
	EXPECT_TRUE(eventually([&] {
		try {
			return relay.metric("endpoint_agent_weight_percent" + labels) == 30 &&
			       relay.metric("endpoint_agent_answers" + labels) == 1;
		} catch (const std::exception &) {
			return false; /* the name has not been looked up yet */
		}
	}));
	EXPECT_EQ(served_by(relay, 1), "a");
	stop(relay);
}

/* An agent of a backend at a Unix socket needs an address of its own, which may be a Unix socket,
 * too. */
TEST(Agent, OfAUnixSocket)
{
	const folder in;
	listener door("unix:" + in / "backend");
	listener its("unix:" + in / "agent");
	configured_relay relay(text({{door.address(), "address = \"" + its.address() + "\""}}, ""));
	its.accept().send("20%\n");
	EXPECT_TRUE(has_percent(relay, door.address(), 20));
	stop(relay);
}

/* The relay ends immediately even while an agent is silent. */
TEST(Agent, DoesNotDelayShutdown)
{
	const listener silent;
	const silent_backend unreachable;
	configured_relay relay(
		text({{"127.0.0.1:1", "address = \"" + silent.address() + "\""},
		      {"127.0.0.1:2", "address = \"" + unreachable.address() + "\""}},
		     "", "interval = \"1h\"\ntimeout = \"1h\"\n"));
	relay.await_error(" serves");
	const auto start = std::chrono::steady_clock::now();
	const ended end = relay.stop();
	EXPECT_EQ(end.status, 0) << end.errors;
	EXPECT_LT(std::chrono::steady_clock::now() - start, patience);
	EXPECT_EQ(end.errors.find("agent_"), end.errors.npos) << end.errors;
}

} // namespace
