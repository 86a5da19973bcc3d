/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* What happens to the open connections of a backend when its checks mark it as down. */
#include "backends/balance.hpp"
#include "backends/down_sessions.hpp"
#include "backends/registry.hpp"
#include "harness.hpp"
#include "stats/sessions.hpp"

#include <gtest/gtest.h>
#include <optional>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <sys/socket.h>

using namespace harness;

namespace
{

std::string text(const std::string &policy, const std::string &drain,
		 const std::vector<std::string> &backends)
{
	std::string list;
	for (const auto &each : backends)
		list += (list.empty() ? "\"" : ", \"") + each + '"';
	return "drain = \"" + drain +
	       "\"\naccess_log = \"stderr\"\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
	       "[groups.g]\nslow_return = 0\nbackends = [" +
	       list + "]\n[groups.g.check]\ninterval = \"30ms\"\nfall = 1\nrise = 1\n" +
	       (policy.empty() ? "" : "on_down = \"" + policy + "\"\n");
}

/* Skips the connections of checks, which are reset. */
peer accept_client(listener &at)
{
	for (;;) {
		auto got = at.accept();
		try {
			EXPECT_EQ(got.receive(1), "x");
			return got;
		} catch (const std::exception &) {
		}
	}
}

struct pair {
	pair(relay_process &relay, listener &at) : client(peer::connect(relay.address()))
	{
		client.send("x");
		backend = accept_client(at);
	}
	void expect_open()
	{
		client.send("ping");
		EXPECT_EQ(backend.receive(4), "ping");
		backend.send("pong");
		EXPECT_EQ(client.receive(4), "pong");
	}

	peer client;
	peer backend;
};

void await_down(relay_process &relay, const std::string &backend)
{
	relay.await_error("backend " + backend + " of g is down: ");
}

TEST(OnDown, ConnectionsAreKeptByDefault)
{
	for (const std::string policy : {"", "keep"}) {
		std::optional<listener> door(std::in_place);
		const std::string address = door->address();
		configured_relay relay(text(policy, "0", {address}));
		pair open(relay, *door);
		door.reset();
		await_down(relay, address);
		const auto checks = "backend_checks_total{group=\"g\",backend=\"" + address + "\"}";
		const auto before = relay.metric(checks);
		EXPECT_TRUE(eventually([&] { return relay.metric(checks) > before + 2; }));
		open.expect_open();
		open.client.close();
		EXPECT_EQ(open.backend.receive_end(), ending::fin);
		open.backend.close();
		stop(relay);
	}
}

TEST(OnDown, ConnectionsAreCutOfThisBackendOnly)
{
	std::optional<listener> door(std::in_place);
	listener other;
	const std::string address = door->address();
	configured_relay relay(text("cut", "1h", {address, other.address()}));
	/* The backends take turns. */
	pair first(relay, *door);
	pair second(relay, other);
	door.reset();
	EXPECT_EQ(first.client.receive_end(), ending::reset);
	EXPECT_EQ(first.backend.receive_end(), ending::reset);
	relay.await_error("cause=backend_down listener=web ");
	relay.await_error("backend " + address + " of g is down: reset 1 open connections");
	second.expect_open();
	EXPECT_EQ(relay.counter("backend_down"), 1U);
	EXPECT_EQ(relay.metric("connections_ended_total{listener=\"web\",cause=\"backend_down\"}"),
		  1U);
	second.client.close();
	second.backend.close();
	stop(relay);
}

TEST(OnDown, ConnectionsMayFinishForTheTimeOfDrain)
{
	std::optional<listener> door(std::in_place);
	const std::string address = door->address();
	configured_relay relay(text("drain", "500ms", {address}));
	pair open(relay, *door);
	const auto start = std::chrono::steady_clock::now();
	door.reset();
	await_down(relay, address);
	EXPECT_EQ(open.client.receive_end(), ending::reset);
	EXPECT_GE(std::chrono::steady_clock::now() - start, 500ms);
	EXPECT_EQ(open.backend.receive_end(), ending::reset);
	relay.await_error("cause=backend_down listener=web ");
	stop(relay);
}

/* A reload during that time does not restart it, but may change what happens. */
TEST(OnDown, AReloadCanCut)
{
	std::optional<listener> door(std::in_place);
	const std::string address = door->address();
	configured_relay relay(text("drain", "1h", {address}));
	pair open(relay, *door);
	door.reset();
	await_down(relay, address);
	open.expect_open();
	ASSERT_TRUE(relay.reload(text("cut", "1h", {address})));
	EXPECT_EQ(open.client.receive_end(), ending::reset);
	stop(relay);
}

/* A session that counts how often it is asked whether it is one of that endpoint. */
class counting_session final : public relay::sessions::entry
{
public:
	void cut() noexcept override {}
	bool settle(sn::clock::time_point) noexcept override { return false; }
	bool lose_backend(const relay::endpoint &) noexcept override
	{
		asked++;
		return false;
	}
	bool kill(const relay::session_filter &) noexcept override { return false; }

	int asked = 0;
};

/* It is called at each check for as long as the backend is down, and the sessions may be many. */
TEST(OnDown, AnEndpointWithoutConnectionsCostsNoLookAtTheSessions)
{
	EXPECT_EQ(sn::run([] {
			  relay::registry registry;
			  relay::group_config settings;
			  settings.backends.push_back({.address = "127.0.0.1:1"});
			  relay::registry::generation first(registry);
			  relay::pool group(settings, "g", first);
			  first.commit();
			  relay::sessions all;
			  all.set_most(1);
			  EXPECT_TRUE(all.reserve());
			  counting_session other;
			  all.add(other);
			  const relay::down_sessions open(group, all, relay::when_down::cut, 0ns);
			  const auto down = [since = sn_now()] { return std::optional(since); };
			  relay::ticket place = group.choose(0, {});
			  const auto its = place.get();
			  open.end(*its, sn::after(1s), down);
			  EXPECT_EQ(other.asked, 1);
			  place = {};
			  open.end(*its, sn::after(1s), down);
			  EXPECT_EQ(other.asked, 1) << "the endpoint has no connections";
			  all.leave(other);
			  all.gone();
			  return 0;
		  }),
		  0);
}

} // namespace
