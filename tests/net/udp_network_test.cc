// SPDX-License-Identifier: MIT
//
// UDP beyond plain datagrams: what the network reports, segments, local addresses, types of
// service, groups, broadcasts, settings, and a send buffer that is full.
#include <memory>
#include <vector>

#include <linux/net_tstamp.h>
#include <net/if.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/groups.h"
#include "support/udp.h"

namespace
{

using namespace test;

// Loopback takes whatever is sent immediately, so a full send buffer has to be simulated: while
// this is set, the calls below report one.
std::atomic<bool> buffer_is_full{false};
// The same for the device's queue, for one call.
std::atomic<bool> queue_is_full{false};
// So many calls that receive messages succeed, and the next one fails. Negative: all succeed.
std::atomic<int> receives_before_error{-1};

// Makes the kernel report room again, which it does after each datagram that it has delivered.
void report_room(const Socket &socket, const sn_address &to)
{
	sockaddr_storage storage;
	const int size = sn_address_to_sockaddr(&to, &storage);

	syscall(SYS_sendto, sn_udp_fd(socket.get()), "room", 4, MSG_DONTWAIT, &storage, size);
}

// An address at which nobody receives.
sn_address closed_port(const char *host = "127.0.0.1:0")
{
	Socket socket(host);

	return socket.address();
}

std::unique_ptr<Socket> connect_to(const sn_address &peer)
{
	sn_udp *made = nullptr;

	EXPECT_EQ(0, sn_udp_connect(&made, test::text(peer).c_str(), nullptr, SN_NO_DEADLINE));
	return std::make_unique<Socket>(made);
}

// ---- errors ----

TASK_TEST(UdpErrors, AreReturnedToTheSenderOnASocketForOnePeer, 1, 2)
{
	const auto socket = connect_to(closed_port());
	char buf[10];
	Task receiver([&] {
		EXPECT_EQ(-ECONNREFUSED, sn_udp_recv(socket->get(), buf, sizeof buf, nullptr));
	});

	ASSERT_TRUE(test::receivers_wait(*socket));
	EXPECT_EQ(1, socket->send("x"));
	receiver.join();
	// The call after the error succeeds, and causes the next error.
	EXPECT_EQ(1, socket->send("x"));
	EXPECT_EQ(-ECONNREFUSED, socket->send("x"));
	EXPECT_EQ(1, socket->send("x"));
	EXPECT_EQ("error " + std::to_string(ECONNREFUSED), socket->receive());
}

TASK_TEST(UdpErrors, AreNotNoticedWithoutTheFlag, 1)
{
	Socket socket;
	const sn_address nobody = closed_port();
	sn_udp_error error;

	for (int i = 0; i < 3; i++)
		EXPECT_EQ(1, socket.send("x", nobody));
	EXPECT_TRUE(socket.is_empty());
	EXPECT_EQ(0, sn_udp_next_error(socket.get(), &error));
}

void expect_refused(const sn_udp_error &error, const sn_address &nobody)
{
	const bool v6 = nobody.family == AF_INET6;

	EXPECT_EQ(ECONNREFUSED, error.error);
	EXPECT_TRUE(error.peer == nobody) << test::text(error.peer);
	EXPECT_EQ(v6 ? SN_UDP_FROM_ICMP6 : SN_UDP_FROM_ICMP, error.from);
	EXPECT_EQ(v6 ? 1 : ICMP_DEST_UNREACH, error.type);
	EXPECT_EQ(v6 ? 4 : ICMP_PORT_UNREACH, error.code);
	EXPECT_EQ(0u, error.mtu);
	sn_address reporter = nobody;
	reporter.port = 0;
	if (!TEST_EMULATED) { // the emulator does not report the error
		EXPECT_TRUE(error.reporter == reporter) << test::text(error.reporter);
	}
}

TASK_TEST(UdpErrors, AreKeptForManyPeers, 1, 2)
{
	for (const char *host : {"127.0.0.1:0", "[::1]:0", "[::]:0"}) {
		if (!test::have(host))
			continue;
		Socket socket(host, SN_UDP_ERRORS);
		const sn_address nobody = closed_port(host[3] == ']' ? "127.0.0.1:0" : host);
		sn_udp_error error;
		char buf[10];
		Task receiver([&] {
			EXPECT_EQ(-ECONNREFUSED,
				  sn_udp_recv(socket.get(), buf, sizeof buf, nullptr));
		});

		ASSERT_TRUE(test::receivers_wait(socket));
		EXPECT_EQ(1, socket.send("x", nobody));
		receiver.join();
		EXPECT_EQ(1, sn_udp_next_error(socket.get(), &error));
		expect_refused(error, nobody);
		EXPECT_EQ(0, sn_udp_next_error(socket.get(), &error));
	}
}

TASK_TEST(UdpErrors, OfOnePeerDoNotKeepFromSendingToAnother, 1, 2)
{
	Socket socket("127.0.0.1:0", SN_UDP_ERRORS), friendly;
	const sn_address nobody = closed_port(), to = friendly.address();
	Message refused("x", nobody), good("y", to);
	sn_udp_message both[4];
	sn_udp_error error;

	for (int i = 0; i < 5; i++) {
		EXPECT_EQ(1, socket.send("x", nobody));
		EXPECT_EQ(1, socket.send("y", to));
		EXPECT_EQ("y", friendly.receive());
	}
	both[0] = both[2] = refused, both[1] = both[3] = good;
	EXPECT_EQ(4, sn_udp_send_messages(socket.get(), both, 4));
	EXPECT_EQ("y", friendly.receive());
	EXPECT_EQ("y", friendly.receive());
	// A receiver learns of the error nevertheless, and no error is lost.
	EXPECT_EQ("error " + std::to_string(ECONNREFUSED), socket.receive());
	for (int i = 0; i < 7; i++) {
		EXPECT_EQ(1, sn_udp_next_error(socket.get(), &error)) << i;
		expect_refused(error, nobody);
	}
	EXPECT_EQ(0, sn_udp_next_error(socket.get(), &error));
}

TASK_TEST(UdpErrors, AWaitingReceiverLearnsOfWhatASenderMet, 1, 2)
{
	Socket socket("127.0.0.1:0", SN_UDP_ERRORS), friendly;
	const sn_address nobody = closed_port();
	char buf[10];
	Task receiver([&] {
		EXPECT_EQ(-ECONNREFUSED, sn_udp_recv(socket.get(), buf, sizeof buf, nullptr));
	});

	ASSERT_TRUE(test::receivers_wait(socket));
	// The second call may take the error before the receiver runs.
	EXPECT_EQ(1, socket.send("x", nobody));
	EXPECT_EQ(1, socket.send("y", friendly.address()));
	receiver.join();
}

// The kernel forgets an error that it meets after the first message of a system call.
TASK_TEST(UdpErrors, OfAnotherPeerInABatchAreNotLost, 1, 2)
{
	Socket socket("127.0.0.1:0", SN_UDP_ERRORS), friendly;
	Message refused("x", closed_port()), good("y", friendly.address());
	sn_udp_message all[] = {good, refused, good, good};

	EXPECT_EQ(4, sn_udp_send_messages(socket.get(), all, 4));
	EXPECT_EQ("error " + std::to_string(ECONNREFUSED), socket.receive());
	for (int i = 0; i < 3; i++)
		EXPECT_EQ("y", friendly.receive());
}

// A sender gets another peer's error first, and then meets a full buffer.
TASK_TEST(UdpErrors, AreNotLostWhenASenderWaits, 1, 2)
{
	Socket socket("127.0.0.1:0", SN_UDP_ERRORS), friendly;
	const sn_address to = friendly.address();

	EXPECT_EQ(1, socket.send("x", closed_port()));
	buffer_is_full = true;
	Task sender([&] { EXPECT_EQ(1, socket.send("y", to)); });
	EXPECT_TRUE(test::senders_wait(socket));
	EXPECT_EQ("error " + std::to_string(ECONNREFUSED), socket.receive());
	buffer_is_full = false;
	report_room(socket, to);
	sender.join();
}

// The error comes from this machine, and says nothing about an earlier datagram.
TASK_TEST(UdpErrors, AFullQueueIsTheSendersOwn, 1, 2)
{
	Socket socket("127.0.0.1:0", SN_UDP_ERRORS);
	const sn_address to = socket.address();
	Message message("y", to);

	queue_is_full = true;
	EXPECT_EQ(-ENOBUFS, socket.send("x", to));
	queue_is_full = true;
	EXPECT_EQ(-ENOBUFS, sn_udp_send_messages(socket.get(), &message, 1));
	EXPECT_EQ(1, socket.send("z", to));
	EXPECT_EQ("z", socket.receive());
}

TASK_TEST(UdpErrors, BetweenTheCallsOfABatchAreReturnedNext, 1, 2)
{
	Socket socket;
	Message message("x", socket.address()), got;
	std::vector<sn_udp_message> all(40, message), room(40, got);

	ASSERT_EQ(40, sn_udp_send_messages(socket.get(), all.data(), all.size()));
	receives_before_error = 1;
	EXPECT_EQ(0, sn_udp_set_read_deadline(socket.get(), sn_now() + test::patience));
	EXPECT_EQ(32, sn_udp_recv_messages(socket.get(), room.data(), room.size()));
	EXPECT_EQ(-EHOSTUNREACH, sn_udp_recv_messages(socket.get(), room.data(), room.size()));
	EXPECT_EQ(8, sn_udp_recv_messages(socket.get(), room.data(), room.size()));
}

// A datagram that is too large for its device is refused on this machine: nothing is sent. Loopback
// takes everything, so this needs another device, which has a route at least for groups.
TASK_TEST(UdpErrors, SayWhatThePathTakes, 1)
{
	Socket socket("0.0.0.0:0", SN_UDP_ERRORS);
	const sn_address group = test::address("239.1.2.5:9");
	struct if_nameindex *all = if_nameindex();
	sn_udp_error error = {};
	ssize_t sent = 0;

	EXPECT_EQ(0, sn_udp_set(socket.get(), SN_UDP_DONT_FRAGMENT, 1));
	EXPECT_EQ(0, sn_udp_set(socket.get(), SN_UDP_MULTICAST_TTL, 0));
	for (struct if_nameindex *each = all; each && each->if_name && sent != -EMSGSIZE; each++)
		if (sn_udp_set(socket.get(), SN_UDP_MULTICAST_INTERFACE, int(each->if_index)) == 0)
			sent = socket.send(std::string(65000, 'x'), group);
	if_freenameindex(all);
	if (sent != -EMSGSIZE)
		GTEST_SKIP() << "no device refuses large datagrams";
	ASSERT_EQ(1, sn_udp_next_error(socket.get(), &error));
	EXPECT_EQ(EMSGSIZE, error.error);
	EXPECT_EQ(SN_UDP_FROM_LOCAL, error.from);
	EXPECT_GE(error.mtu, 576u);
	EXPECT_LT(error.mtu, 65028u);
	error.peer.port = 9;
	EXPECT_TRUE(error.peer == group) << test::text(error.peer);
	EXPECT_EQ("none", test::text(error.reporter));
	// The attempt that shows that the error is the sender's own leaves a second error.
	EXPECT_EQ(1, sn_udp_next_error(socket.get(), &error));
	EXPECT_EQ(0, sn_udp_next_error(socket.get(), &error));
}

// ---- segments ----

bool has_segments()
{
	sn_udp_options options = {};
	sn_udp *udp = nullptr;

	options.flags = SN_UDP_GRO;
	const int err = sn_udp_open(&udp, "127.0.0.1:0", &options);
	if (err == 0)
		sn_udp_close(udp);
	else
		EXPECT_EQ(-ENOPROTOOPT, err);
	return err == 0;
}

TASK_TEST(UdpSegments, AreCutByTheSystem, 1)
{
	if (TEST_SWAPPED)
		GTEST_SKIP() << "the emulator passes ancillary data in the kernel's byte order";
	if (!has_segments())
		GTEST_SKIP() << "this kernel has no UDP_SEGMENT";
	Socket from, to;
	std::string bytes;

	for (int i = 0; i < 10; i++)
		bytes += std::string(100, char('a' + i));
	bytes.resize(950);
	Message message(bytes, to.address()), plain("plain", to.address());
	sn_udp_message all[] = {message, plain};
	all[0].segment = 100;
	ASSERT_EQ(2, sn_udp_send_messages(from.get(), all, 2));
	for (size_t i = 0; i < 10; i++)
		EXPECT_EQ(bytes.substr(i * 100, 100), to.receive());
	EXPECT_EQ("plain", to.receive());
	EXPECT_TRUE(to.is_empty());
	// More segments than the kernel accepts.
	Message many(std::string(200, 'x'), to.address());
	many.segment = 1;
	EXPECT_EQ(-EINVAL, sn_udp_send_messages(from.get(), &many, 1));
}

TASK_TEST(UdpSegments, AreJoinedByTheSystem, 1)
{
	if (TEST_SWAPPED)
		GTEST_SKIP() << "the emulator passes ancillary data in the kernel's byte order";
	if (!has_segments())
		GTEST_SKIP() << "this kernel has no UDP_GRO";
	Socket from, to("127.0.0.1:0", SN_UDP_GRO);
	Message message(std::string(950, 'x'), to.address()), got(65536);
	size_t received = 0;
	bool joined = false;

	message.segment = 100;
	ASSERT_EQ(1, sn_udp_send_messages(from.get(), &message, 1));
	while (received < 950) {
		ASSERT_EQ(1, sn_udp_recv_messages(to.get(), &got, 1));
		EXPECT_EQ(0u, got.flags);
		joined |= got.segment == 100 && got.length == 950;
		received += got.length;
	}
	// Loopback passes a datagram on uncut that was to be cut into segments.
	EXPECT_TRUE(joined);
	from.send("alone", to.address());
	ASSERT_EQ(1, sn_udp_recv_messages(to.get(), &got, 1));
	EXPECT_EQ("alone", got.text());
	EXPECT_EQ(0u, got.segment);
}

// ---- local addresses, interfaces, types of service ----

const unsigned lo = if_nametoindex("lo");

TASK_TEST(UdpInfo, TellsToWhatAddressADatagramWasSent, 1)
{
	if (TEST_SWAPPED)
		GTEST_SKIP() << "the emulator passes ancillary data in the kernel's byte order";
	Socket server("0.0.0.0:0", SN_UDP_PACKET_INFO), client;
	sn_address at = test::address("127.0.0.2:0");
	Message got, answer("answer", client.address());
	sn_address from = {};

	at.port = server.address().port;
	client.send("x", at);
	ASSERT_EQ(1, sn_udp_recv_messages(server.get(), &got, 1));
	EXPECT_EQ("127.0.0.2:0", test::text(got.local));
	EXPECT_EQ(lo, got.interface);
	// The answer comes from there, too, and not from 127.0.0.1.
	answer.local = got.local;
	answer.interface = got.interface;
	ASSERT_EQ(1, sn_udp_send_messages(server.get(), &answer, 1));
	EXPECT_EQ("answer", client.receive(&from));
	EXPECT_TRUE(from == at) << test::text(from);
	answer.local = test::address("198.51.100.1:0");
	const int err = sn_udp_send_messages(server.get(), &answer, 1);
	EXPECT_TRUE(err == -EINVAL || err == -ENETUNREACH) << err;
	answer.local = {};
	answer.interface = 1u << 30;
	EXPECT_EQ(-ENODEV, sn_udp_send_messages(server.get(), &answer, 1));
}

TASK_TEST(UdpInfo, WorksForBothFamiliesOnOneSocket, 1)
{
	if (TEST_SWAPPED)
		GTEST_SKIP() << "the emulator passes ancillary data in the kernel's byte order";
	if (!test::have("[::1]:0"))
		GTEST_SKIP() << "this machine has no ::1";
	Socket server(":0", SN_UDP_PACKET_INFO | SN_UDP_TOS);
	for (const char *host : {"127.0.0.3:0", "[::1]:0"}) {
		Socket client(host[0] == '[' ? "[::1]:0" : "127.0.0.1:0");
		sn_address at = test::address(host), from = {};
		Message got, answer("answer", client.address());

		at.port = server.address().port;
		EXPECT_EQ(0, sn_udp_set(client.get(), SN_UDP_TYPE_OF_SERVICE, 0x29));
		client.send("x", at);
		ASSERT_EQ(1, sn_udp_recv_messages(server.get(), &got, 1));
		EXPECT_EQ(host, test::text(got.local));
		EXPECT_EQ(lo, got.interface);
		EXPECT_EQ(SN_UDP_HAS_TOS, got.flags);
		EXPECT_EQ(0x29, got.tos);
		answer.local = got.local;
		answer.interface = got.interface;
		ASSERT_EQ(1, sn_udp_send_messages(server.get(), &answer, 1));
		EXPECT_EQ("answer", client.receive(&from));
		EXPECT_TRUE(from == at) << test::text(from);
	}
}

TASK_TEST(UdpInfo, CarriesTheTypeOfServiceOfEachMessage, 1)
{
	if (TEST_SWAPPED)
		GTEST_SKIP() << "the emulator passes ancillary data in the kernel's byte order";
	for (const char *host : {"127.0.0.1:0", "[::1]:0"}) {
		if (!test::have(host))
			continue;
		Socket from(host), to(host, SN_UDP_TOS);
		Message first("a", to.address()), second("b", to.address()), got;
		sn_udp_message both[] = {first, second};

		both[0].flags = SN_UDP_HAS_TOS;
		both[0].tos = 0xb8 | 2; // expedited forwarding, ECT(0)
		ASSERT_EQ(2, sn_udp_send_messages(from.get(), both, 2));
		ASSERT_EQ(1, sn_udp_recv_messages(to.get(), &got, 1));
		EXPECT_EQ(0xba, got.tos);
		ASSERT_EQ(1, sn_udp_recv_messages(to.get(), &got, 1));
		EXPECT_EQ(0, got.tos);
		EXPECT_EQ(SN_UDP_HAS_TOS, got.flags);
	}
}

// Options of the program's own can ask for more information than there is room for. The kernel cuts
// off the rest, which is left out.
TASK_TEST(UdpInfo, LeavesOutWhatHasNoRoom, 1)
{
	if (TEST_SWAPPED)
		GTEST_SKIP() << "the emulator passes ancillary data in the kernel's byte order";
	Socket socket("127.0.0.1:0", SN_UDP_PACKET_INFO | SN_UDP_TOS);
	const int fd = sn_udp_fd(socket.get()), on = 1;
	const int stamps = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
	Message message("x", socket.address()), got;

	EXPECT_EQ(0, sn_udp_set(socket.get(), SN_UDP_TYPE_OF_SERVICE, 0x28));
	// A record of dropped datagrams, two of time stamps and one of the TTL.
	EXPECT_EQ(0, sn_udp_set(socket.get(), SN_UDP_RECEIVE_BUFFER, 1));
	setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof stamps);
	setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(1, socket.send("x", message.peer));
	while (!socket.is_empty())
		socket.receive();
	ASSERT_EQ(1, socket.send("x", message.peer));
	ASSERT_EQ(1, sn_udp_recv_messages(socket.get(), &got, 1));
	EXPECT_EQ("x", got.text());
	EXPECT_EQ("127.0.0.1:0", test::text(got.local));
	EXPECT_EQ(lo, got.interface);
	// This record may fit where records are smaller.
	EXPECT_EQ(got.flags & SN_UDP_HAS_TOS ? 0x28 : 0, got.tos);
}

TASK_TEST(UdpInfo, KeepsTheScopeOfLinkLocalAddresses, 1)
{
	if (TEST_SWAPPED)
		GTEST_SKIP() << "the emulator loses the scope of an address";
	struct if_nameindex *all = if_nameindex();
	std::string host;

	// Tests every interface that has such an address.
	for (struct if_nameindex *each = all; each && each->if_name; each++) {
		FILE *file = fopen("/proc/net/if_inet6", "re");
		char address[33], name[32];
		unsigned index, bits, scope, flags;

		while (file && fscanf(file, "%32s %x %x %x %x %31s", address, &index, &bits, &scope,
				      &flags, name) == 6)
			if (scope == 0x20 && index == each->if_index && !(flags & 0x40)) {
				host = "[";
				for (int i = 0; i < 32; i += 4)
					host += (i ? ":" : "") + std::string(address + i, 4);
				host += "%" + std::string(name) + "]:0";
			}
		if (file)
			fclose(file);
	}
	if_freenameindex(all);
	if (host.empty() || !test::have(host.c_str()))
		GTEST_SKIP() << "no interface has a link-local address";
	Socket first(host.c_str()), second(host.c_str());
	sn_address peer = {};

	EXPECT_EQ(1, first.send("x", second.address()));
	EXPECT_EQ("x", second.receive(&peer));
	EXPECT_TRUE(peer == first.address()) << test::text(peer);
	EXPECT_NE(0u, peer.scope);
}

// ---- groups and broadcasts ----

TEST(UdpGroups, AreJoinedAndLeft)
{
	if (test::emulator_lacks_groups())
		GTEST_SKIP() << "the emulator does not know MCAST_JOIN_GROUP";
	test::run(1, [] {
		Socket sender, member("0.0.0.0:0", SN_UDP_REUSE_ADDRESS);
		const std::string at = test::text(member.address());
		Socket other(at.c_str(), SN_UDP_REUSE_ADDRESS),
			none(at.c_str(), SN_UDP_REUSE_ADDRESS);
		const sn_address group = test::address("239.1.2.3:0");
		sn_address to = group;
		sn_address host = test::address("127.0.0.1:0");

		to.port = member.address().port;
		EXPECT_EQ(0, sn_udp_join(member.get(), &group, lo));
		EXPECT_EQ(0, sn_udp_join(other.get(), &group, lo));
		EXPECT_EQ(-EADDRINUSE, sn_udp_join(member.get(), &group, lo));
		EXPECT_EQ(-EINVAL, sn_udp_join(member.get(), &host, lo));
		EXPECT_EQ(-EINVAL, sn_udp_join(member.get(), nullptr, lo));
		EXPECT_EQ(-ENODEV, sn_udp_join(member.get(), &group, 1u << 30));
		EXPECT_EQ(0, sn_udp_set(sender.get(), SN_UDP_MULTICAST_INTERFACE, int(lo)));
		EXPECT_EQ(0, sn_udp_set(sender.get(), SN_UDP_MULTICAST_TTL, 0));
		EXPECT_EQ(1, sender.send("x", to));
		EXPECT_EQ("x", member.receive());
		EXPECT_EQ("x", other.receive());
		EXPECT_TRUE(none.is_empty()); // it has not joined
		EXPECT_EQ(0, sn_udp_leave(other.get(), &group, lo));
		EXPECT_EQ(-EADDRNOTAVAIL, sn_udp_leave(other.get(), &group, lo));
		EXPECT_EQ(1, sender.send("y", to));
		EXPECT_EQ("y", member.receive());
		EXPECT_TRUE(other.is_empty());
		// The sender's own address leads to loopback, too. Without one only the setting
		// does.
		for (const char *unbound : {"0.0.0.0:0", "[::]:0"}) {
			if (!test::have(unbound))
				continue;
			Socket anywhere(unbound);

			EXPECT_EQ(0,
				  sn_udp_set(anywhere.get(), SN_UDP_MULTICAST_INTERFACE, int(lo)));
			EXPECT_EQ(0, sn_udp_set(anywhere.get(), SN_UDP_MULTICAST_TTL, 0));
			EXPECT_EQ(1, anywhere.send("z", to)) << unbound;
			EXPECT_EQ("z", member.receive()) << unbound;
		}
	});
}

// The answer to a question that was sent to a group copies what is known of the question.
TEST(UdpGroups, AreAnsweredFromAnAddressOfTheHost)
{
	if (test::emulator_lacks_groups() || TEST_SWAPPED)
		GTEST_SKIP() << "the emulator does not know MCAST_JOIN_GROUP";
	test::run(1, [] {
		for (const char *bound : {"0.0.0.0:0", "[::]:0"}) {
			if (!test::have(bound))
				continue;
			Socket sender, member(bound, SN_UDP_PACKET_INFO);
			const sn_address group = test::address("239.1.2.3:0");
			sn_address to = group;
			Message got, answer("answer", sender.address());

			to.port = member.address().port;
			ASSERT_EQ(0, sn_udp_join(member.get(), &group, lo));
			ASSERT_EQ(0, sn_udp_set(sender.get(), SN_UDP_MULTICAST_INTERFACE, int(lo)));
			ASSERT_EQ(0, sn_udp_set(sender.get(), SN_UDP_MULTICAST_TTL, 0));
			ASSERT_EQ(1, sender.send("x", to));
			ASSERT_EQ(1, sn_udp_recv_messages(member.get(), &got, 1));
			EXPECT_EQ("239.1.2.3:0", test::text(got.local));
			answer.local = got.local;
			answer.interface = got.interface;
			EXPECT_EQ(1, sn_udp_send_messages(member.get(), &answer, 1)) << bound;
			EXPECT_EQ("answer", sender.receive());
		}
	});
}

// Sends to a group of IPv6 on the interface. Few systems have a route for that on lo; returns 0 if
// there is none.
ssize_t send_to_group(Socket &sender, sn_address &to, unsigned interface)
{
	to.scope = interface;
	if (sn_udp_set(sender.get(), SN_UDP_MULTICAST_INTERFACE, int(interface)) < 0 ||
	    sn_udp_set(sender.get(), SN_UDP_MULTICAST_TTL, 0) < 0)
		return 0;
	const ssize_t n = sender.send("x", to);

	return n == -ENETUNREACH || n == -EADDRNOTAVAIL || n == -ENETDOWN ? 0 : n;
}

TEST(UdpGroups, OfIPv6)
{
	if (test::emulator_lacks_groups())
		GTEST_SKIP() << "the emulator does not know MCAST_JOIN_GROUP";
	test::run(1, [] {
		if (!test::have("[::1]:0"))
			GTEST_SKIP() << "this machine has no ::1";
		Socket sender("[::]:0"), member("[::]:0");
		sn_address group = test::address("[ff02::4711%lo]:0"), to = group;
		struct if_nameindex *all = if_nameindex();
		ssize_t sent = 0;

		to.port = member.address().port;
		for (struct if_nameindex *each = all; each && each->if_name && sent == 0; each++) {
			EXPECT_EQ(0, sn_udp_join(member.get(), &group, each->if_index));
			EXPECT_EQ(-EADDRINUSE, sn_udp_join(member.get(), &group, each->if_index));
			sent = send_to_group(sender, to, each->if_index);
			if (sent == 0) {
				EXPECT_EQ(0, sn_udp_leave(member.get(), &group, each->if_index));
			}
		}
		if_freenameindex(all);
		// A socket of both families joins groups of both.
		const sn_address v4 = test::address("239.1.2.4:0");
		EXPECT_EQ(0, sn_udp_join(member.get(), &v4, lo));
		if (sent == 0)
			GTEST_SKIP() << "no interface has a route for groups";
		EXPECT_EQ(1, sent);
		EXPECT_EQ("x", member.receive());
		EXPECT_EQ(0, sn_udp_leave(member.get(), &group, to.scope));
		EXPECT_EQ(-EADDRNOTAVAIL, sn_udp_leave(member.get(), &group, to.scope));
		EXPECT_EQ(1, send_to_group(sender, to, to.scope));
		EXPECT_TRUE(member.is_empty());
	});
}

TASK_TEST(UdpGroups, BroadcastsNeedPermission, 1)
{
	Socket receiver("0.0.0.0:0"), shy, loud("127.0.0.1:0", SN_UDP_BROADCAST);
	sn_address to = test::address("127.255.255.255:0");

	to.port = receiver.address().port;
	EXPECT_EQ(-EACCES, shy.send("x", to));
	EXPECT_EQ(1, loud.send("y", to));
	EXPECT_EQ("y", receiver.receive());
}

// ---- settings ----

TASK_TEST(UdpSettings, AreKept, 1)
{
	for (const char *host : {"127.0.0.1:0", "[::1]:0", ":0"}) {
		if (!test::have(host))
			continue;
		Socket socket(host);
		sn_udp *udp = socket.get();
		const struct {
			sn_udp_setting setting;
			int value, bad;
		} all[] = {
			{SN_UDP_RECEIVE_BUFFER, 50000, -1},
			{SN_UDP_SEND_BUFFER, 40000, -1},
			{SN_UDP_TTL, 7, 0},
			{SN_UDP_TTL, 255, 256},
			{SN_UDP_TYPE_OF_SERVICE, 0x28, 256},
			{SN_UDP_DONT_FRAGMENT, 1, 2},
			{SN_UDP_DONT_FRAGMENT, 0, -1},
			{SN_UDP_MULTICAST_TTL, 3, 256},
			{SN_UDP_MULTICAST_TTL, 0, -1},
			{SN_UDP_MULTICAST_LOOP, 0, 2},
			{SN_UDP_MULTICAST_LOOP, 1, -1},
			{SN_UDP_MULTICAST_INTERFACE, int(lo), -1},
			{SN_UDP_MULTICAST_INTERFACE, 0, -1},
		};

		for (const auto &each : all) {
			EXPECT_EQ(0, sn_udp_set(udp, each.setting, each.value));
			EXPECT_EQ(each.value, sn_udp_get(udp, each.setting))
				<< host << " " << each.setting;
			EXPECT_EQ(-EINVAL, sn_udp_set(udp, each.setting, each.bad));
			EXPECT_EQ(each.value, sn_udp_get(udp, each.setting));
		}
		EXPECT_EQ(-EINVAL, sn_udp_set(udp, SN_UDP_MTU, 1500));
		EXPECT_EQ(-EINVAL, sn_udp_set(udp, sn_udp_setting(99), 1));
		EXPECT_EQ(-EINVAL, sn_udp_get(udp, sn_udp_setting(99)));
		EXPECT_EQ(-EINVAL, sn_udp_get(nullptr, SN_UDP_TTL));
	}
}

TASK_TEST(UdpSettings, BuffersOfTheOptions, 1)
{
	sn_udp_options options = {};
	sn_udp *made = nullptr;

	options.receive_buffer = 30000;
	options.send_buffer = 20000;
	ASSERT_EQ(0, sn_udp_open(&made, "127.0.0.1:0", &options));
	Socket socket(made);
	EXPECT_EQ(30000, sn_udp_get(made, SN_UDP_RECEIVE_BUFFER));
	EXPECT_EQ(20000, sn_udp_get(made, SN_UDP_SEND_BUFFER));
	options.send_buffer = -1;
	EXPECT_EQ(-EINVAL, sn_udp_open(&made, "127.0.0.1:0", &options));
}

// ---- a full send buffer ----

TASK_TEST(UdpRoom, SendersWaitForIt)
{
	Socket socket, peer;
	const sn_address to = peer.address();
	std::vector<Task> senders;
	int received = 0;

	buffer_is_full = true;
	for (int i = 0; i < 4; i++)
		senders.emplace_back([&, i] {
			Message first("one", to), second("two", to);
			sn_udp_message both[] = {first, second};

			EXPECT_EQ(i % 2 ? 3 : 2,
				  i % 2 ? socket.send("one", to)
					: sn_udp_send_messages(socket.get(), both, 2));
		});
	ASSERT_TRUE(test::senders_wait(socket, 4));
	buffer_is_full = false;
	report_room(socket, to);
	join_all(senders);
	// two senders of one datagram, two of two, and that of report_room()
	while (received < 7)
		received += peer.receive() != "";
	EXPECT_TRUE(peer.is_empty());
}

TASK_TEST(UdpRoom, ADeadlineACancellationAndACloseEndTheWait)
{
	for (int how = 0; how < 3; how++) {
		Socket socket, peer;
		const sn_address to = peer.address();
		const ssize_t expected[] = {-ETIMEDOUT, -ECANCELED, -EBADF};
		std::vector<Task> senders;

		buffer_is_full = true;
		for (int i = 0; i < 3; i++)
			senders.emplace_back([&, udp = socket.get()] {
				EXPECT_EQ(expected[how], sn_udp_send(udp, "x", 1, &to));
			});
		ASSERT_TRUE(test::senders_wait(socket, 3));
		if (how == 0)
			sn_udp_set_write_deadline(socket.get(), sn_now() + test::ms);
		else if (how == 1)
			sn_udp_cancel(socket.get());
		else
			socket.close();
		join_all(senders);
		buffer_is_full = false;
		EXPECT_TRUE(peer.is_empty());
	}
}

TASK_TEST(UdpRoom, OfABatchThatWasSentInPart, 1)
{
	Socket socket, peer;
	const sn_address to = peer.address();
	Message message("x", to);
	std::vector<sn_udp_message> all(40, message);

	// The first system call of the batch succeeds, and the rest waits until the
	// deadline.
	buffer_is_full = true;
	EXPECT_EQ(0, sn_udp_set_write_deadline(socket.get(), sn_now() + 50 * test::ms));
	EXPECT_EQ(-ETIMEDOUT, sn_udp_send_messages(socket.get(), all.data(), all.size()));
	buffer_is_full = false;
	EXPECT_EQ(0, sn_udp_set_write_deadline(socket.get(), SN_NO_DEADLINE));
	EXPECT_EQ(40, sn_udp_send_messages(socket.get(), all.data(), all.size()));
	for (int i = 0; i < 40; i++)
		EXPECT_EQ("x", peer.receive());
}

} // namespace

// Returns the error of a call that sends, or 0 if it may continue. The kernel looks for an error
// before it looks for room.
static int refusal(int fd)
{
	int error = 0;
	socklen_t size = sizeof error;

	if (queue_is_full.exchange(false))
		return ENOBUFS;
	if (!buffer_is_full)
		return 0;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	return error ? error : EAGAIN;
}

// Replaces the function of the C library, for the library under test.
extern "C" ssize_t sendto(int fd, const void *buf, size_t size, int flags, const sockaddr *to,
			  socklen_t length)
{
	if (const int error = refusal(fd)) {
		errno = error;
		return -1;
	}
	return syscall(SYS_sendto, fd, buf, size, flags, to, length);
}

extern "C" int sendmmsg(int fd, mmsghdr *messages, unsigned n, int flags)
{
	if (const int error = refusal(fd)) {
		errno = error;
		return -1;
	}
	return int(syscall(SYS_sendmmsg, fd, messages, n, flags));
}

extern "C" int recvmmsg(int fd, mmsghdr *messages, unsigned n, int flags, timespec *timeout)
{
	if (receives_before_error >= 0 && receives_before_error-- == 0) {
		errno = EHOSTUNREACH;
		return -1;
	}
	return int(syscall(SYS_recvmmsg, fd, messages, n, flags, timeout));
}
