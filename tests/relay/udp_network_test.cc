/* SPDX-License-Identifier: MIT */
/* Sessions in a network of the test's own: what routers report about datagrams, a shortage of
 * ports, and clients at link-local addresses. */
#include "datagrams.hpp"
#include "harness.hpp"
#include "support/own_network.h"

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <net/if.h>
#include <stdexcept>
#include <string>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <utility>
#include <vector>

using namespace harness;
using namespace std::string_literals;

namespace
{

const std::string backend_text = "127.0.0.1:39000";

std::string two_bytes(unsigned number)
{
	return {static_cast<char>(number >> 8), static_cast<char>(number)};
}

unsigned sum_of(const std::string &packet)
{
	std::uint32_t sum = 0;
	for (std::size_t i = 0; i + 1 < packet.size(); i += 2)
		sum += static_cast<unsigned char>(packet[i]) << 8 |
		       static_cast<unsigned char>(packet[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16)) & 0xffff;
}

std::string port_of(const std::string &address)
{
	return two_bytes(static_cast<unsigned>(std::stoul(address.substr(address.rfind(':') + 1))));
}

/* Sends reports about datagrams of a session to a backend: of ICMP if `is_v6` is false. */
class router
{
public:
	explicit router(bool is_v6 = false)
	    : is_v6_(is_v6), fd_(socket(is_v6 ? AF_INET6 : AF_INET, SOCK_RAW | SOCK_CLOEXEC,
					is_v6 ? static_cast<int>(IPPROTO_ICMPV6) : IPPROTO_ICMP))
	{
		if (fd_ < 0)
			throw std::runtime_error("no raw socket: "s + std::strerror(errno));
	}
	router(const router &) = delete;
	router &operator=(const router &) = delete;
	~router() { close(fd_); }

	void report(char type, char code, const std::string &session, const std::string &backend,
		    unsigned mtu = 0)
	{
		const std::string here = is_v6_ ? std::string(15, '\0') + '\1' : "\x7f\0\0\x01"s;
		std::string packet{type, code};
		packet += "\0\0\0\0"s + two_bytes(mtu);
		packet += is_v6_ ? "\x60\0\0\0\0\x0c\x11\x40"s
				 : "\x45\0\0\x20\0\0\x40\0\x40\x11\0\0"s;
		packet += here + here + port_of(session) + port_of(backend) + two_bytes(12) +
			  "\0\0sent"s;
		if (!is_v6_) /* the system computes the other one's */
			packet.replace(2, 2, two_bytes(sum_of(packet)));
		socklen_t size = 0;
		const auto to = to_sockaddr(is_v6_ ? "[::1]:0" : "127.0.0.1:0", size);
		EXPECT_EQ(sendto(fd_, packet.data(), packet.size(), 0,
				 reinterpret_cast<const sockaddr *>(&to), size),
			  static_cast<ssize_t>(packet.size()))
			<< std::strerror(errno);
	}

private:
	const bool is_v6_;
	const int fd_;
};

bool has_ipv6()
{
	try {
		const udp_peer one("[::1]:0");
	} catch (const std::runtime_error &) {
		return false;
	}
	return true;
}

std::string settings_for(const std::string &backend, const std::string &of_group = "")
{
	return "drain = 0\nadmin = '127.0.0.1:39002'\n"
	       "[listeners.a]\naddress = 'udp:127.0.0.1:39001'\ngroup = 'g'\n"
	       "[groups.g]\neject_after = 1\neject_for = '1h'\nbackends = ['" +
	       backend + "']\n" + of_group;
}

std::uint64_t of_backend(relay_process &relay, const std::string &what, const std::string &backend)
{
	return relay.metric("backend_" + what + "_total{group=\"g\",backend=\"" + backend + "\"}");
}

std::uint64_t ended_by(relay_process &relay, const std::string &cause)
{
	return relay.metric("connections_ended_total{listener=\"a\",cause=\"" + cause + "\"}");
}

/* Stops the relay while it lives, so that what arrives is there when the relay looks again. */
class pause_of
{
public:
	explicit pause_of(relay_process &relay) : relay_(relay)
	{
		siginfo_t info{};
		relay_.signal(SIGSTOP);
		EXPECT_EQ(waitid(P_PID, static_cast<id_t>(relay_.pid()), &info, WSTOPPED), 0);
	}
	pause_of(const pause_of &) = delete;
	pause_of &operator=(const pause_of &) = delete;
	~pause_of() { relay_.signal(SIGCONT); }

private:
	relay_process &relay_;
};

class UdpNetwork : public testing::Test
{
protected:
	void SetUp() override
	{
		if (!test::OwnNetwork::exists())
			GTEST_SKIP() << "a network of its own is not permitted";
	}
};

class LinkLocal : public UdpNetwork
{
};

class UdpFamilies : public UdpNetwork, public testing::WithParamInterface<bool>
{
protected:
	void SetUp() override
	{
		UdpNetwork::SetUp();
		if (is_v6 && !has_ipv6())
			GTEST_SKIP() << "this machine has no IPv6";
	}

	const bool is_v6 = GetParam();
	const std::string address = is_v6 ? "[::1]:39000" : backend_text;
	/* Types of reports. */
	const char unreachable = is_v6 ? 1 : 3, time_exceeded = is_v6 ? 3 : 11;

	/* Reports about one datagram alone. The system does not pass on those of ICMP about
	 * fragments. */
	void report_lost_fragments(router &by, const std::string &session) const
	{
		by.report(time_exceeded, 1, session, address);
		if (!is_v6)
			by.report(unreachable, 4, session, address, 1400);
	}
};

INSTANTIATE_TEST_SUITE_P(Of, UdpFamilies, testing::Bool(),
			 [](const auto &instance) { return instance.param ? "IPv6" : "IPv4"; });

/* A router whose next link accepts only smaller packets reports that, and the system sends smaller
 * packets from then on. The backend has not failed, and no datagram is too large. */
TEST_F(UdpNetwork, ASmallerPathEndsNothing)
{
	router router;
	udp_peer backend(backend_text), client;
	configured_relay relay(settings_for(backend_text));
	client.send(relay.address(), "q");
	const auto session = backend.receive().from;
	for (int i = 0; i < 20; i++) {
		/* Usually the session's task gets the error first, but the listener's task does if
		 * its datagram is there. */
		router.report(3, 4, session, backend_text, 1400);
		const std::string bytes(1450, static_cast<char>('a' + i));
		client.send(relay.address(), bytes);
		const auto arrived = backend.receive();
		EXPECT_EQ(arrived.from, session);
		EXPECT_TRUE(arrived.bytes == bytes);
	}
	EXPECT_EQ(relay.metric("connections_accepted_total{listener=\"a\"}"), 1U);
	EXPECT_EQ(of_backend(relay, "failures", backend_text), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* So does one that has got only some of a datagram's fragments: the others were lost. A report that
 * is final is found among these, by the session or by the next datagram. */
TEST_P(UdpFamilies, LostFragmentsEndNothing)
{
	router router(is_v6);
	udp_peer backend(address), client;
	configured_relay relay(settings_for(address));
	client.send(relay.address(), "q");
	const auto session = backend.receive().from;
	for (int i = 0; i < 20; i++) {
		report_lost_fragments(router, session);
		client.send(relay.address(), "q");
		EXPECT_EQ(backend.receive().from, session);
	}
	EXPECT_EQ(of_backend(relay, "failures", address), 0U);
	for (std::uint64_t round = 1; round <= 12; round++) {
		while (backend.receive_within(0ms))
			continue;
		client.send(relay.address(), "q");
		const auto now = backend.receive().from;
		{
			const pause_of all(relay);
			report_lost_fragments(router, now);
			router.report(unreachable, 0, now, address);
			report_lost_fragments(router, now);
			if (round % 2 == 0)
				client.send(relay.address(), "q");
		}
		ASSERT_TRUE(eventually([&] { return ended_by(relay, "connect_failed") == round; }))
			<< round;
		ASSERT_EQ(of_backend(relay, "failures", address), round);
	}
	EXPECT_EQ(relay.stop().status, 0);
}

/* As for connections that are being made. */
TEST_P(UdpFamilies, BeforeAnAnswerEachReportIsAFailure)
{
	/* The network, the host, prohibited, and the time to live. */
	const std::vector<std::pair<char, char>> reports = {{unreachable, 0},
							    {unreachable, is_v6 ? 3 : 1},
							    {unreachable, is_v6 ? 1 : 13},
							    {time_exceeded, 0}};
	router router(is_v6);
	udp_peer backend(address), client;
	configured_relay relay(settings_for(address));
	std::uint64_t failures = 0;
	for (const auto &[type, code] : reports) {
		client.send(relay.address(), "q");
		const auto session = backend.receive().from;
		router.report(type, code, session, address);
		failures++;
		EXPECT_TRUE(eventually([&] {
			return ended_by(relay, "connect_failed") == failures;
		})) << failures;
		EXPECT_EQ(of_backend(relay, "failures", address), failures);
	}
	EXPECT_EQ(of_backend(relay, "ejections", address), 1U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* What may pass ends nothing then, whoever gets the report: the session or the next datagram. */
TEST_P(UdpFamilies, AfterAnAnswerOnlyRefusalsEndTheSession)
{
	router router(is_v6);
	udp_peer backend(address), client;
	configured_relay relay(settings_for(address));
	client.send(relay.address(), "q");
	const auto session = backend.receive().from;
	backend.send(session, "a");
	EXPECT_EQ(client.receive().bytes, "a");
	for (int i = 0; i < 20; i++) {
		router.report(unreachable, is_v6 ? 3 : 1, session, address);
		client.send(relay.address(), "q");
		EXPECT_EQ(backend.receive().from, session);
	}
	EXPECT_EQ(of_backend(relay, "failures", address), 0U);
	router.report(unreachable, is_v6 ? 4 : 3, session, address);
	EXPECT_TRUE(eventually([&] { return ended_by(relay, "server_reset") == 1; }));
	EXPECT_EQ(of_backend(relay, "failures", address), 1U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* As for a check by TCP, which ends when the connection fails. */
TEST_F(UdpNetwork, AReportEndsACheck)
{
	router router;
	udp_peer backend(backend_text);
	configured_relay relay(settings_for(backend_text,
					    "[groups.g.check]\nudp = true\nsend = 'q'\n"
					    "expect = 'a'\ninterval = '1h'\ntimeout = '1h'\n"));
	router.report(3, 1, backend.receive().from, backend_text);
	EXPECT_TRUE(
		eventually([&] { return of_backend(relay, "check_failures", backend_text) == 1; }));
	EXPECT_EQ(relay.stop().status, 0);
}

/* A question of which fragments were lost is lost, and says nothing about the backend. A report
 * that is final is found among such reports. */
TEST_P(UdpFamilies, LostFragmentsEndNoCheck)
{
	router router(is_v6);
	udp_peer backend(address);
	configured_relay relay(
		settings_for(address, "[groups.g.check]\nudp = true\nsend = 'q'\nexpect = 'a'\n"
				      "interval = '10ms'\ntimeout = '1h'\n"));
	for (std::uint64_t i = 1; i <= 10; i++) {
		const auto check = backend.receive().from;
		report_lost_fragments(router, check);
		report_lost_fragments(router, check);
		backend.send(check, "a");
		ASSERT_TRUE(eventually([&] { return of_backend(relay, "checks", address) == i; }));
		EXPECT_EQ(of_backend(relay, "check_failures", address), 0U);
	}
	const auto check = backend.receive().from;
	{
		const pause_of all(relay);
		report_lost_fragments(router, check);
		router.report(unreachable, 0, check, address);
		report_lost_fragments(router, check);
	}
	ASSERT_TRUE(eventually([&] { return of_backend(relay, "check_failures", address) == 1; }));
	EXPECT_EQ(relay.stop().status, 0);
}

/* A queue of the interface into which no packet fits. */
class full_queue
{
public:
	full_queue()
	    : is_there(std::system("tc qdisc add dev lo root bfifo limit 10 2>/dev/null") == 0)
	{
	}
	full_queue(const full_queue &) = delete;
	full_queue &operator=(const full_queue &) = delete;
	~full_queue()
	{
		if (is_there)
			EXPECT_EQ(std::system("tc qdisc del dev lo root"), 0);
	}

	const bool is_there;
};

/* The system tells a socket that keeps errors of what it drops, as of a lack of memory. */
TEST_F(UdpNetwork, AFullQueueLosesTheQuestionsOfChecks)
{
	udp_peer backend(backend_text);
	auto queue = std::make_unique<full_queue>();
	if (!queue->is_there)
		GTEST_SKIP() << "tc cannot change the queue of the interface";
	configured_relay relay(settings_for(backend_text,
					    "[groups.g.check]\nudp = true\nsend = 'q'\n"
					    "expect = 'a'\ninterval = '20ms'\ntimeout = '40ms'\n"
					    "fall = 1\nrise = 1\n"));
	const std::string name = "backend " + backend_text + " of g is ";
	relay.await_error(name + "down: Connection timed out");
	queue.reset();
	EXPECT_TRUE(eventually([&] {
		if (const auto asked = backend.receive_within(5ms))
			backend.send(asked->from, "a");
		return relay.errors().find(name + "up again") != std::string::npos;
	}));
	EXPECT_EQ(relay.stop().status, 0);
}

/* The system keeps reports in the buffer for answers, which is full with fewer than 300. */
TEST_F(UdpNetwork, ReportsTakeNoRoomFromAnswers)
{
	for (const bool by_router : {true, false}) {
		router router;
		udp_peer backend(backend_text), client;
		configured_relay relay(settings_for(backend_text, "send_proxy = 'v2'\n"));
		client.send(relay.address(), "q");
		const auto session = backend.receive().from;
		for (std::uint64_t i = 1; by_router && i <= 1000; i++)
			router.report(3, 4, session, backend_text, 1400);
		/* With the header it does not fit, which the system reports as well. */
		const std::string large(65507, 'x');
		for (std::uint64_t i = 1; !by_router && i <= 200; i++) {
			client.send(relay.address(), large);
			ASSERT_TRUE(eventually([&] {
				return relay.metric("datagrams_dropped_total{listener=\"a\",reason="
						    "\"too_large\"}") == i;
			}));
		}
		const std::string answer(60000, 'a');
		/* What the router has reported may still be about to be removed. */
		EXPECT_TRUE(eventually([&] {
			backend.send(session, answer);
			const auto got = client.receive_within(100ms);
			return got && got->bytes == answer;
		})) << by_router;
		EXPECT_EQ(of_backend(relay, "failures", backend_text), 0U);
		EXPECT_EQ(relay.stop().status, 0);
	}
}

/* A lack of ports is not a failure of the backend, for which it would be ejected. */
TEST_F(UdpNetwork, WithoutAFreePortNewClientsAreDropped)
{
	std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
	if (!(range << "40000 40007\n" << std::flush))
		GTEST_SKIP() << "the range of ports cannot be changed";
	udp_peer backend(backend_text);
	configured_relay relay(settings_for(backend_text));
	std::vector<std::unique_ptr<udp_peer>> crowd;
	for (int i = 0; i < 20; i++) {
		crowd.push_back(
			std::make_unique<udp_peer>("127.0.0.1:" + std::to_string(39100 + i)));
		crowd.back()->send(relay.address(), "q");
	}
	for (int i = 0; i < 8; i++)
		backend.send(backend.receive().from, "a");
	EXPECT_EQ(crowd.front()->receive().bytes, "a");
	EXPECT_TRUE(eventually([&] {
		return relay.metric("datagrams_dropped_total{listener=\"a\",reason=\"no_room\"}") ==
		       12;
	}));
	relay.await_error("error no_room");
	EXPECT_EQ(of_backend(relay, "failures", backend_text), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* Adds fe80::1 to the interface; returns whether that is possible. */
bool add_link_local(int interface)
{
	struct { /* in6_ifreq of <linux/ipv6.h>, which does not go with other headers */
		in6_addr address;
		std::uint32_t prefix;
		int interface;
	} what{{}, 64, interface};
	const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const bool is_done = inet_pton(AF_INET6, "fe80::1", &what.address) == 1 &&
			     ioctl(fd, SIOCSIFADDR, &what) == 0;
	close(fd);
	return is_done;
}

/* The log has the interface's name, but a client may also ask for its number. */
TEST_F(LinkLocal, ClientsAreResetByAddressAndInterface)
{
	const auto interface = if_nametoindex("lo");
	if (!add_link_local(static_cast<int>(interface)))
		GTEST_SKIP() << "the interface has no IPv6";
	listener backend;
	udp_peer datagrams;
	for (const std::string log : {"", "access_log = 'stderr'\n"}) {
		const folder in;
		const std::string control = "unix:" + in / "control";
		configured_relay relay("drain = 0\ncontrol = '" + control + "'\n" + log +
				       "[listeners.t]\naddress = '[::]:39001'\ngroup = 't'\n"
				       "[listeners.u]\naddress = 'udp:[::]:39001'\ngroup = 'u'\n"
				       "[groups.t]\nbackends = ['" +
				       backend.address() + "']\n[groups.u]\nbackends = ['" +
				       datagrams.address() + "']\n");
		relay.await_error(" serves");
		auto client = peer::sending("x", "[fe80::1%lo]:39001");
		auto served = backend.accept();
		EXPECT_EQ(served.receive(1), "x");
		udp_peer other("[::]:0");
		ASSERT_EQ(setsockopt(other.fd(), SOL_SOCKET, SO_BINDTODEVICE, "lo", 2), 0);
		other.send("[fe80::1]:39001", "x");
		EXPECT_EQ(datagrams.receive().bytes, "x");
		const auto kill = [&](const std::string &which) {
			relay_process ctl({"ctl", "--at", control, "kill", "--client", which});
			return ctl.wait().output;
		};
		EXPECT_EQ(kill("fe80::1%" + std::to_string(interface + 1)),
			  "reset 0 connections\n");
		EXPECT_EQ(kill("fe80::1%no-such"), "");
		EXPECT_EQ(kill("fe80:0::1%" + std::to_string(interface)), "reset 2 connections\n");
		EXPECT_EQ(client.receive_end(), ending::reset);
		EXPECT_EQ(relay.stop().status, 0);
	}
}

} // namespace

int main(int argc, char **argv)
{
	test::OwnNetwork::enter(argc, argv, {});
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
