/* SPDX-License-Identifier: MIT */
/* Labels: long */
/*
 * Peers that vanish without a FIN or a reset, on either side: the relay notices that if keepalive
 * is configured, and only then.
 *
 * A test makes a peer vanish by a filter on its socket that drops whatever arrives. From then on
 * the peer acknowledges nothing, as after a power failure. This needs no privilege. The kernel's
 * times are whole seconds, so each case takes a few of them. Upper bounds only catch hangs.
 */
#include "config/keepalive.hpp"

#include "harness.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <thread>

using namespace harness;

namespace
{

/* From now on no packet reaches the peer. What the peer sends still goes out. */
void vanish(const peer &one)
{
	sock_filter nothing{BPF_RET | BPF_K, 0, 0, 0};
	const sock_fprog program{1, &nothing};
	ASSERT_EQ(setsockopt(one.fd(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0)
		<< std::strerror(errno);
}

std::string text(const std::string &of_listener, const std::string &of_group,
		 const std::string &backend, const std::string &address = "127.0.0.1:0",
		 const std::string &idle = "0")
{
	return "drain = 0\naccess_log = 'stderr'\nadmin = '127.0.0.1:0'\n[listeners.web]\naddress "
	       "= '" +
	       address + "'\ngroup = 'g'\nidle_timeout = '" + idle + "'\n" + of_listener +
	       "[groups.g]\n" + of_group + "backends = ['" + backend + "']\n";
}

const std::string quick = "keepalive = { idle = '1s', interval = '1s', count = 1 }\n";
const std::string none = "keepalive = 0\n";

struct talking_pair : pair {
	talking_pair(relay_process &relay, listener &door) : pair(relay, door) { exchange(); }
	void exchange()
	{
		client.send("to");
		EXPECT_EQ(backend.receive(2), "to");
		backend.send("back");
		EXPECT_EQ(client.receive(4), "back");
	}
};

std::uint64_t ended(relay_process &relay, const std::string &cause)
{
	return relay.metric("connections_ended_total{listener=\"web\",cause=\"" + cause + "\"}");
}

int option_of(int fd, int level, int name)
{
	int value = -1;
	socklen_t size = sizeof value;
	EXPECT_EQ(getsockopt(fd, level, name, &value, &size), 0);
	return value;
}

struct options {
	int is_on, idle, interval, count, user_timeout;
	bool operator==(const options &) const = default;
};

options options_of(int fd)
{
	return {option_of(fd, SOL_SOCKET, SO_KEEPALIVE), option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE),
		option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL), option_of(fd, IPPROTO_TCP, TCP_KEEPCNT),
		option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT)};
}

TEST(Keepalive, SetsTheSocketOptions)
{
	using namespace relay;
	const keepalive_config usual;
	const keepalive_config both{.idle = 9h, .interval = 1s, .count = 127, .user_timeout = 24h};
	const keepalive_config off{.idle = 0s};
	const options of_usual{1, 60, 15, 4, 0};
	const options of_both{1, 9 * 3600, 1, 127, 24 * 3600 * 1000};

	listener door;
	const auto by_default = options_of(door.fd());
	EXPECT_EQ(by_default.is_on, 0);
	peer one = peer::connect(door.address());
	EXPECT_TRUE(set_keepalive_of_new(one.fd(), off));
	EXPECT_EQ(options_of(one.fd()), by_default);
	EXPECT_TRUE(set_keepalive_of_new(one.fd(), usual));
	EXPECT_EQ(options_of(one.fd()), of_usual);
	EXPECT_TRUE(set_keepalive(one.fd(), both));
	EXPECT_EQ(options_of(one.fd()), of_both);
	EXPECT_TRUE(set_keepalive(one.fd(), off));
	EXPECT_EQ(options_of(one.fd()).is_on, 0);
	EXPECT_EQ(options_of(one.fd()).user_timeout, 0);

	/* Connections in the backlog keep the earlier options, and are counted. Later ones get the
	 * new options. */
	const peer two = peer::connect(door.address());
	EXPECT_TRUE(eventually([&] {
		const auto n = set_keepalive_of_listener(door.fd(), both);
		return n == 3 || n == UINT64_MAX; /* an emulator does not report the value */
	}));
	EXPECT_EQ(options_of(door.accept().fd()), by_default);
	EXPECT_EQ(options_of(door.accept().fd()), by_default);
	const peer three = peer::connect(door.address());
	EXPECT_EQ(options_of(door.accept().fd()), of_both);
	set_keepalive_of_listener(door.fd(), off);
	const peer four = peer::connect(door.address());
	const auto of_four = options_of(door.accept().fd());
	EXPECT_EQ(of_four.is_on, 0);
	EXPECT_EQ(of_four.user_timeout, 0);

	EXPECT_FALSE(set_keepalive(-1, usual));
	EXPECT_FALSE(set_keepalive_of_new(-1, usual));
	EXPECT_EQ(set_keepalive_of_listener(-1, usual), UINT64_MAX);
}

TEST(Keepalive, AcceptsTheKernelsRange)
{
	using relay::to_keepalive;
	EXPECT_EQ(to_keepalive(1s), 1s);
	EXPECT_EQ(to_keepalive(60000ms), 1min);
	EXPECT_EQ(to_keepalive(9h), 9h);
	for (const std::chrono::nanoseconds wrong :
	     {std::chrono::nanoseconds(0), std::chrono::nanoseconds(1500ms),
	      std::chrono::nanoseconds(9h + 1s), std::chrono::nanoseconds(24h * 366)})
		EXPECT_EQ(to_keepalive(wrong), std::nullopt);
}

TEST(Keepalive, NoticesAClientThatHasVanished)
{
	listener door;
	configured_relay relay(text(quick, none, door.address()));
	talking_pair at(relay, door);
	vanish(at.client);
	EXPECT_EQ(at.backend.receive_end(), ending::reset);
	EXPECT_TRUE(eventually([&] { return ended(relay, "client_reset") == 1; }));
	at.client.reset();
	stop(relay);
}

TEST(Keepalive, NoticesABackendThatHasVanished)
{
	listener door;
	configured_relay relay(text(none, quick, door.address()));
	talking_pair at(relay, door);
	vanish(at.backend);
	EXPECT_EQ(at.client.receive_end(), ending::reset);
	EXPECT_TRUE(eventually([&] { return ended(relay, "server_reset") == 1; }));
	at.backend.reset();
	stop(relay);
}

/* The time until the kernel probes the backend at that port, in hundredths of a second; -1:
 * never. */
long until_asked(const std::string &port)
{
	char remote[8];
	std::snprintf(remote, sizeof remote, ":%04X", std::stoi(port));
	std::ifstream connections("/proc/net/tcp");
	std::string line, slot, from, to, state, queues, timer;
	while (std::getline(connections, line)) {
		std::istringstream fields(line);
		fields >> slot >> from >> to >> state >> queues >> timer;
		if (to.ends_with(remote) && state == "01")
			return timer.starts_with("02:") ? std::stol(timer.substr(3), nullptr, 16)
							: -1;
	}
	return -1;
}

/* The relay sets the option late, but the kernel counts from the last packet of the peer. */
TEST(Keepalive, IsSetOnBackendConnectionsThatLast)
{
	listener door;
	const auto address = door.address();
	configured_relay relay(text(none, "keepalive = '1m'\n", address));
	talking_pair at(relay, door);
	const auto lived = std::chrono::steady_clock::now();
	/* The options are set in several calls, between which the kernel uses its default times. */
	EXPECT_TRUE(eventually([&] {
		const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(
			std::chrono::steady_clock::now() - lived);
		const long left = until_asked(address.substr(address.rfind(':') + 1));
		return left >= 0 && left * 10 <= 60000 - silent.count() + 1000;
	}));
	at.client.reset();
	at.backend.reset();
	stop(relay);
}

/* The client has no backend yet, and there is no limit on the time for its PROXY header. */
TEST(Keepalive, NoticesAClientThatHasVanishedBeforeItsFirstByte)
{
	listener door;
	configured_relay relay(text(quick + "hello_timeout = 0\nproxy_from = ['127.0.0.1']\n", none,
				    door.address()));
	peer client = peer::sending("PRO", relay.address());
	vanish(client);
	EXPECT_TRUE(eventually([&] { return ended(relay, "client_left") == 1; }));
	EXPECT_EQ(relay.counter("bad_openings"), 0U);
	client.reset();
	stop(relay);
}

/* A peer that answers probes is probed again and again, and its connection is kept. Probes do not
 * defer the idle timeout. */
TEST(Keepalive, KeepsPeersThatAnswer)
{
	const std::string often = "keepalive = { idle = '1s', interval = '1s', count = 20 }\n";
	listener door;
	configured_relay relay(text(often, often, door.address(), "127.0.0.1:0", "3s"));
	talking_pair at(relay, door);
	EXPECT_EQ(at.client.receive_end(), ending::fin);
	EXPECT_EQ(at.backend.receive_end(), ending::fin);
	EXPECT_TRUE(eventually([&] { return ended(relay, "idle_timeout") == 1; }));
	stop(relay);
}

/* While bytes are unacknowledged, the kernel sends no probes. */
TEST(UserTimeout, EndsConnectionsWithoutAcknowledgements)
{
	listener door;
	configured_relay relay(text("keepalive = 0\nuser_timeout = '1s'\n", none, door.address()));
	talking_pair at(relay, door);
	vanish(at.client);
	at.backend.send("x");
	EXPECT_EQ(at.backend.receive_end(), ending::reset);
	EXPECT_TRUE(eventually([&] { return ended(relay, "client_reset") == 1; }));
	at.client.reset();
	stop(relay);
}

/* On a socket that listened before the relay started, such as systemd's, connections in the backlog
 * have no keepalive. */
TEST(Keepalive, AppliesToConnectionsInTheBacklog)
{
	listener door;
	listener handed;
	std::vector<peer> clients;
	for (int i = 0; i < 3; i++)
		clients.push_back(peer::connect(handed.address()));
	const file config(text(quick, none, door.address(), handed.address()));
	relay_process relay({"--config", config.name()}, 0, {handed.fd()});
	for (auto &each : clients)
		each.send("x");
	std::vector<peer> backends;
	for (std::size_t i = 0; i < clients.size(); i++) {
		backends.push_back(door.accept());
		EXPECT_EQ(backends.back().receive(1), "x");
	}
	for (auto &each : clients)
		vanish(each);
	for (auto &each : backends)
		EXPECT_EQ(each.receive_end(), ending::reset);
	for (auto &each : clients)
		each.reset();
	stop(relay);
}

/* Like other settings, it applies to connections that are accepted after the reload. */
TEST(Keepalive, ChangesByReload)
{
	listener door;
	configured_relay relay(text(none, none, door.address()));
	talking_pair before(relay, door);
	ASSERT_TRUE(relay.reload(text(quick, quick, door.address())));
	talking_pair one(relay, door);
	talking_pair two(relay, door);
	vanish(before.client);
	vanish(before.backend);
	vanish(one.client);
	vanish(two.backend);
	EXPECT_EQ(one.backend.receive_end(), ending::reset);
	EXPECT_EQ(two.client.receive_end(), ending::reset);
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 1; }));

	EXPECT_FALSE(relay.reload(text("keepalive = '10h'\n", none, door.address())));
	relay.await_error(
		"listeners.web.keepalive: \"10h\" is not supported; expected whole seconds");

	ASSERT_TRUE(relay.reload(text(none, none, door.address())));
	talking_pair after(relay, door);
	vanish(after.client);
	vanish(after.backend);
	/* Longer than the relay would need to notice. */
	std::this_thread::sleep_for(3s);
	EXPECT_EQ(relay.counter("active"), 2U);
	for (talking_pair *each : {&before, &one, &two, &after}) {
		each->client.reset();
		each->backend.reset();
	}
	stop(relay);
}

} // namespace
