/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * Backends by name whose addresses behave differently: some are dead, some are ill, some come and
 * go under load. The name server is a thread of this test (name_server.hpp).
 */
#include "harness.hpp"
#include "name_server.hpp"

#include <arpa/inet.h>
#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

using namespace harness;

namespace
{

using how = name_server::how;

sockaddr_in address_of(const std::string &host, const std::string &port)
{
	sockaddr_in at{};
	at.sin_family = AF_INET;
	at.sin_port = htons(static_cast<std::uint16_t>(std::stoul(port)));
	inet_pton(AF_INET, host.c_str(), &at.sin_addr);
	return at;
}

/* A host at which nothing answers the port: its backlog stays full. */
class black_hole
{
public:
	black_hole(const std::string &host, const std::string &port)
	{
		const auto at = address_of(host, port);
		const auto *as_any = reinterpret_cast<const sockaddr *>(&at);
		fds_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
		if (bind(fds_[0], as_any, sizeof at) != 0 || listen(fds_[0], 0) != 0)
			throw std::runtime_error("cannot listen at " + host);
		for (int i = 0; i < 8; i++) {
			fds_.push_back(
				socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
			static_cast<void>(connect(fds_.back(), as_any, sizeof at));
		}
	}
	black_hole(const black_hole &) = delete;
	black_hole &operator=(const black_hole &) = delete;
	~black_hole()
	{
		for (const int fd : fds_)
			close(fd);
	}

private:
	std::vector<int> fds_;
};

/* Serves each connection at every address of 127.0.0.0/8, or at one: it answers one byte by another
 * one, which is the last number of the address. */
struct answering : serving {
	explicit answering(const std::string &host = "0.0.0.0") : serving(answer, host) {}

	static void answer(peer &client)
	{
		sockaddr_in at{};
		socklen_t length = sizeof at;
		getsockname(client.fd(), reinterpret_cast<sockaddr *>(&at), &length);
		const char last = static_cast<char>(ntohl(at.sin_addr.s_addr));
		client.receive(1);
		client.send(std::string(1, last));
	}
};

/* The last number of the address that serves a new client. */
int served_at(relay_process &relay)
{
	auto client = peer::sending("x", relay.address());
	const int at = static_cast<unsigned char>(client.receive(1)[0]);
	client.close();
	return at;
}

std::set<int> served_at(relay_process &relay, int clients)
{
	std::set<int> all;
	for (int i = 0; i < clients; i++)
		all.insert(served_at(relay));
	return all;
}

class ManyAddresses : public testing::Test
{
protected:
	void SetUp() override
	{
		if (!test::OwnNetwork::exists())
			GTEST_SKIP() << "this machine allows no user, network and mount namespaces";
		names_.emplace();
	}

	std::string text(const std::string &of_group, const std::string &of_listener = "") const
	{
		return "drain = 0\nadmin = \"127.0.0.1:0\"\naccess_log = \"stderr\"\n"
		       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n" +
		       of_listener +
		       "[groups.g]\nresolve = \"100ms\"\nslow_return = 0\n"
		       "backends = [\"" +
		       backend() + "\"]\n" + of_group;
	}
	virtual std::string backend() const { return "backend.test:" + all_.port(); }

	std::string labels(int last) const
	{
		return "{group=\"g\",backend=\"" + backend() + "\",endpoint=\"127.0.0." +
		       std::to_string(last) + ':' + all_.port() + '"';
	}
	std::uint64_t metric(relay_process &relay, const std::string &name, int last) const
	{
		return relay.metric("endpoint_" + name + labels(last) + '}');
	}
	bool is_listed(relay_process &relay, int last) const
	{
		try {
			metric(relay, "up", last);
			return true;
		} catch (const std::exception &) {
			return false;
		}
	}

	std::optional<name_server> names_;
	answering all_;
};

/* Once the dead address is ejected, no client waits for it, and no connection to it is tried. */
TEST_F(ManyAddresses, OneThatIsDeadIsEjected)
{
	const answering well("127.0.0.2");
	const black_hole dead("127.0.0.3", well.port());
	const std::string backend = "backend.test:" + well.port();
	names_->set(how::answers, {"127.0.0.2", "127.0.0.3"});
	configured_relay relay("drain = 0\nadmin = \"127.0.0.1:0\"\n"
			       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
			       "connect_timeout = \"400ms\"\n"
			       "[groups.g]\neject_after = 1\neject_for = \"1h\"\nbackends = [\"" +
			       backend + "\"]\n");
	const auto labels = [&](const char *host) {
		return "{group=\"g\",backend=\"" + backend + "\",endpoint=\"" + host + ':' +
		       well.port() + "\"}";
	};
	/* On a machine that stalls, a client may miss its 400 ms at both addresses. */
	EXPECT_TRUE(eventually([&] {
		auto client = peer::sending("x", relay.address());
		static_cast<void>(client.receive_rest());
		return relay.metric("endpoint_ejections_total" + labels("127.0.0.3")) == 1;
	}));
	EXPECT_EQ(relay.metric("endpoint_up" + labels("127.0.0.3")), 0U);
	EXPECT_EQ(relay.metric("endpoint_failures_total" + labels("127.0.0.3")), 1U);
	const auto before = relay.counter("retries");
	EXPECT_EQ(served_at(relay, 20), std::set<int>{2});
	EXPECT_EQ(relay.counter("retries"), before);
	EXPECT_EQ(relay.metric("endpoint_failures_total" + labels("127.0.0.3")), 1U);
	EXPECT_EQ(relay.metric("endpoint_up" + labels("127.0.0.2")), 1U);
	EXPECT_EQ(relay.metric("backend_up{group=\"g\",backend=\"" + backend + "\"}"), 1U);
	EXPECT_GE(relay.metric("endpoint_connected_total" + labels("127.0.0.2")), 20U);
	stop(relay);
}

/* The addresses change every 50 ms, and each time one of them cannot be reached. */
TEST_F(ManyAddresses, ThatChangeUnderLoadFailNoClient)
{
	const auto address = [](int i) { return "127.0.0." + std::to_string(2 + i % 100); };
	names_->set(how::answers, {address(0), address(1)});
	configured_relay relay(text("eject_after = 1\neject_for = \"1h\"\n"));
	std::set<int> seen;
	int served = 0;
	std::atomic<int> changed{0};
	std::jthread changing([&](const std::stop_token &over) {
		for (int i = 1; !over.stop_requested(); i++) {
			names_->set(how::answers, {address(i), address(i + 1),
						   "198.51.100." + std::to_string(1 + i % 200)});
			changed = i;
			std::this_thread::sleep_for(50ms);
		}
	});
	/* Until enough of them have been seen, however slow the machine is. */
	EXPECT_TRUE(eventually([&] {
		for (int i = 0; i < 20; i++, served++)
			seen.insert(served_at(relay));
		return seen.size() >= 10;
	}));
	changing.request_stop();
	changing.join();
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	EXPECT_EQ(
		relay.metric("backend_connected_total{group=\"g\",backend=\"" + backend() + "\"}"),
		static_cast<std::uint64_t>(served))
		<< "the totals of removed addresses still count for the name";
	names_->set(how::answers, {"127.0.0.200"});
	EXPECT_TRUE(eventually([&] { return is_listed(relay, 200) && !is_listed(relay, 2); }));
	EXPECT_EQ(served_at(relay, 5), std::set<int>{200});
	for (int i = 0; i < 100; i++)
		EXPECT_FALSE(is_listed(relay, 2 + i)) << "all others are forgotten";
	stop(relay);
}

/* An address that is gone is listed for as long as it has a connection. */
TEST_F(ManyAddresses, OneThatIsGoneIsListedWhileItHasAConnection)
{
	names_->set(how::answers, {"127.0.0.2"});
	configured_relay relay(text(""));
	auto client = peer::connect(relay.address());
	EXPECT_TRUE(eventually(
		[&] { return is_listed(relay, 2) && metric(relay, "connections", 2) == 1; }));
	names_->set(how::answers, {"127.0.0.3"});
	EXPECT_TRUE(eventually([&] { return is_listed(relay, 3); }));
	EXPECT_EQ(relay.metric("endpoint_state" + labels(2) + ",state=\"drained\"}"), 1U);
	EXPECT_EQ(relay.metric("endpoint_state" + labels(3) + ",state=\"not checked\"}"), 1U);
	EXPECT_EQ(metric(relay, "connections", 2), 1U);
	client.send("x");
	EXPECT_EQ(client.receive(1), "\2");
	client.close();
	EXPECT_TRUE(eventually([&] { return !is_listed(relay, 2); }));
	relay.await_error(" backend=" + backend() + " endpoint=127.0.0.2:" + all_.port() + ' ');
	stop(relay);
}

/* Each address is checked, including one that comes later, and the results survive a reload. */
TEST_F(ManyAddresses, EachIsChecked)
{
	const answering well("127.0.0.2");
	const std::string backend = "backend.test:" + well.port();
	const auto with = [&](const std::string &more) {
		return "drain = 0\nadmin = \"127.0.0.1:0\"\n"
		       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
		       "[groups.g]\nresolve = \"100ms\"\nslow_return = 0\nbackends = [\"" +
		       backend + "\"]\n" + more +
		       "[groups.g.check]\ninterval = \"20ms\"\ntimeout = \"10s\"\nfall = 1\n";
	};
	names_->set(how::answers, {"127.0.0.2"});
	configured_relay relay(with(""));
	const auto state = [&](const char *host, const char *is) {
		try {
			return relay.metric("endpoint_state{group=\"g\",backend=\"" + backend +
					    "\",endpoint=\"" + host + ':' + well.port() +
					    "\",state=\"" + is + "\"}") == 1;
		} catch (const std::exception &) {
			return false;
		}
	};
	EXPECT_TRUE(eventually([&] { return state("127.0.0.2", "up"); }));
	names_->set(how::answers, {"127.0.0.2", "127.0.0.3"});
	relay.await_error("backend " + backend + " (127.0.0.3:" + well.port() + ") of g is down: ");
	EXPECT_TRUE(state("127.0.0.3", "down"));
	const auto before = relay.counter("retries");
	EXPECT_EQ(served_at(relay, 10), std::set<int>{2});
	ASSERT_TRUE(relay.reload(with("eject_after = 7\n")));
	EXPECT_TRUE(state("127.0.0.3", "down"));
	EXPECT_EQ(served_at(relay, 10), std::set<int>{2});
	EXPECT_EQ(relay.counter("retries"), before);
	EXPECT_EQ(relay.metric("backend_up{group=\"g\",backend=\"" + backend + "\"}"), 1U);
	/* The only address that is left is down. */
	names_->set(how::answers, {"127.0.0.3"});
	EXPECT_TRUE(eventually([&] {
		return relay.metric("backend_up{group=\"g\",backend=\"" + backend + "\"}") == 0;
	}));
	stop(relay);
}

class Services : public ManyAddresses
{
protected:
	std::string backend() const override { return "srv:_http._tcp.example.test"; }
	unsigned port() const { return static_cast<unsigned>(std::stoul(all_.port())); }
	void set_hosts()
	{
		names_->set(how::answers);
		for (const char last : {'2', '3', '4', '5'})
			names_->set_host(std::string("h") + last + ".test",
					 {std::string("127.0.0.") + last});
	}
};

/* The relay uses the ports, weights and priorities of the records. */
TEST_F(Services, GoWhereTheirRecordsSay)
{
	set_hosts();
	const answering other;
	names_->set_srv({{10, 3, port(), "h2.test"},
			 {10, 1, port(), "h3.test"},
			 {20, 1, port(), "h4.test"},
			 {10, 1, port(), "missing.test"}});
	configured_relay relay(text("eject_after = 1\neject_for = \"1h\"\n"));
	std::map<int, int> served;
	for (int i = 0; i < 8; i++)
		served[served_at(relay)]++;
	EXPECT_EQ(served, (std::map<int, int>{{2, 6}, {3, 2}}));
	EXPECT_EQ(relay.metric("backend_addresses{group=\"g\",backend=\"" + backend() + "\"}"), 3U);
	EXPECT_EQ(metric(relay, "connected_total", 4), 0U);
	EXPECT_EQ(metric(relay, "connected_total", 2), 6U);

	/* If the hosts of a lower value cannot be reached, those of a higher value get the
	 * clients. */
	names_->set_host("gone.test", {"198.51.100.1"});
	names_->set_srv({{5, 1, port(), "gone.test"}, {20, 0, port(), "h4.test"}});
	EXPECT_TRUE(eventually([&] { return !is_listed(relay, 2); }));
	EXPECT_EQ(served_at(relay, 6), std::set<int>{4});
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	EXPECT_EQ(relay.counter("ejections"), 1U);

	/* A new port of the same host is another endpoint. */
	names_->set_srv({{0, 0, static_cast<unsigned>(std::stoul(other.port())), "h5.test"}});
	EXPECT_TRUE(eventually([&] { return !is_listed(relay, 4); }));
	EXPECT_EQ(served_at(relay, 3), std::set<int>{5});
	EXPECT_EQ(relay.metric("endpoint_connected_total{group=\"g\",backend=\"" + backend() +
			       "\",endpoint=\"127.0.0.5:" + other.port() + "\"}"),
		  3U);
	stop(relay);
}

TEST_F(Services, KeepTheirAddressesWhenALookupFails)
{
	set_hosts();
	configured_relay relay(text(""));
	relay.await_error("backend " + backend() + " of g does not resolve: ");
	relay.await_error("; it is down until it does");
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	names_->set_srv({{0, 0, port(), "h2.test"}});
	relay.await_error("backend " + backend() + " of g resolves again");
	EXPECT_EQ(served_at(relay), 2);
	/* The service has records, but none of its hosts has an address. */
	names_->set_srv({{0, 0, port(), "missing.test"}});
	relay.await_error("does not resolve: it has no address; its earlier addresses stay in use");
	EXPECT_EQ(served_at(relay), 2);
	names_->set_srv({{0, 0, port(), "h3.test"}, {0, 0, port(), "missing.test"}});
	EXPECT_TRUE(eventually([&] { return served_at(relay) == 3; }));
	stop(relay);
}

/* If one of the hosts cannot be looked up, the relay uses the others only if it has no earlier
 * answer that is complete. */
TEST_F(Services, LackAHostOnlyIfThereIsNoOtherAnswer)
{
	set_hosts();
	names_->set_srv({{0, 0, port(), "h2.test"}, {0, 0, port(), "failing.test"}});
	configured_relay relay(text(""));
	EXPECT_EQ(served_at(relay), 2);
	names_->set_srv({{0, 0, port(), "h3.test"}, {0, 0, port(), "failing.test"}});
	relay.await_error("does not resolve: the name service has failed for now; its earlier "
			  "addresses stay in use");
	EXPECT_EQ(served_at(relay, 3), std::set<int>{2});
	names_->set_srv({{0, 0, port(), "h3.test"}});
	relay.await_error(" of g resolves again");
	EXPECT_EQ(served_at(relay, 3), std::set<int>{3});
	stop(relay);
}

/* The library returns the records in another order each time, but the endpoints stay the same. */
TEST_F(Services, WithTooManyHostsUseTheSameOnes)
{
	constexpr int hosts = 30;
	names_->set(how::answers);
	std::vector<name_server::srv> records;
	for (int host = 1; host <= hosts; host++) {
		const std::string name = 'h' + std::to_string(100 + host) + ".test";
		std::vector<std::string> addresses;
		for (int i = 1; i <= 10; i++)
			addresses.push_back("127.1." + std::to_string(100 + host) + '.' +
					    std::to_string(i));
		names_->set_host(name, addresses);
		records.push_back({1, 1, port(), name});
	}
	names_->set_srv(records);
	configured_relay relay(text(""));
	const std::string of = "{group=\"g\",backend=\"" + backend() + '"';
	ASSERT_TRUE(
		eventually([&] { return relay.metric("backend_addresses" + of + '}') == 256; }));
	/* 260 addresses of 26 hosts are looked up; further hosts are not. */
	for (int lookup = 0; lookup < 4; lookup++) {
		const std::string page = relay.metrics();
		for (int host = 1; host <= hosts; host++) {
			const std::string first = "127.1." + std::to_string(100 + host) +
						  ".1:" + all_.port() + "\"} ";
			const bool is_used = page.find("\nsennit_relay_endpoint_up" + of +
						       ",endpoint=\"" + first) != page.npos;
			EXPECT_EQ(is_used, host <= 26) << host;
		}
		const unsigned before = names_->asked();
		ASSERT_TRUE(eventually([&] { return names_->asked() > before + 4 * hosts; }));
	}
	stop(relay);
}

} // namespace

int main(int argc, char **argv)
{
	enter_network_with_names(argc, argv);
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
