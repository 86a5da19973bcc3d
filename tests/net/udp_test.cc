// SPDX-License-Identifier: MIT
// Labels: machine
//
// UDP as its header describes it: datagrams of all sizes over both families, peers, batches,
// datagrams that are too large, and how waits end that several tasks share.
#include <memory>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/udp.h"

namespace
{

using namespace test;

// ---- datagrams ----

class Udp : public testing::TestWithParam<const char *>
{
protected:
	void SetUp() override
	{
		bool has = false;

		test::run(1, [&] { has = test::have(GetParam()); });
		if (!has)
			GTEST_SKIP() << "this machine has no " << GetParam();
	}
};

TEST_P(Udp, EchoesDatagramsOfAllSizes)
{
	test::run([] {
		Socket server(GetParam()), client(GetParam());
		const sn_address at = server.address();
		Task echo([&] {
			for (;;) {
				sn_address peer = {};
				const std::string bytes = server.receive(&peer);

				ASSERT_TRUE(peer == client.address()) << test::text(peer);
				ASSERT_EQ(ssize_t(bytes.size()), server.send(bytes, peer));
				if (bytes == "end")
					return;
			}
		});

		for (size_t size : {0u, 1u, 64u, 1200u, 1472u, 1473u, 9000u, 65507u}) {
			const std::string bytes(size, 'x');
			sn_address peer = {};

			ASSERT_EQ(ssize_t(size), client.send(bytes, at));
			EXPECT_TRUE(client.receive(&peer) == bytes) << size;
			EXPECT_TRUE(peer == at) << test::text(peer);
		}
		client.send("end", at);
		EXPECT_EQ("end", client.receive());
		echo.join();
	});
}

TEST_P(Udp, MovesBatches)
{
	test::run({1, 2}, [] {
		Socket server(GetParam()), client(GetParam());
		std::vector<std::unique_ptr<Message>> owned;
		std::vector<sn_udp_message> sent, got;
		const int count = 100;
		int received = 0;

		for (int i = 0; i < count; i++) {
			owned.push_back(std::make_unique<Message>(
				std::string(size_t(i), char('a' + i % 26)), server.address()));
			sent.push_back(*owned.back());
		}
		ASSERT_EQ(count, sn_udp_send_messages(client.get(), sent.data(), sent.size()));
		owned.clear();
		for (int i = 0; i < count + 10; i++) {
			owned.push_back(std::make_unique<Message>(size_t(200)));
			got.push_back(*owned.back());
			got.back().interface = 77; // the caller need not set this
			got.back().flags = ~0u;
		}
		while (received < count) {
			const int n = sn_udp_recv_messages(server.get(), &got[size_t(received)],
							   got.size() - size_t(received));

			ASSERT_GT(n, 0);
			received += n;
		}
		ASSERT_EQ(count, received);
		for (int i = 0; i < count; i++) {
			const sn_udp_message &m = got[size_t(i)];

			EXPECT_EQ(size_t(i), m.length);
			EXPECT_EQ(std::string(size_t(i), char('a' + i % 26)),
				  std::string(static_cast<char *>(m.data), m.length));
			EXPECT_TRUE(m.peer == client.address()) << test::text(m.peer);
			EXPECT_EQ(0u, m.interface);
			EXPECT_EQ(0u, m.flags);
			EXPECT_EQ(0u, m.segment);
		}
		EXPECT_EQ(0, sn_udp_recv_messages(server.get(), nullptr, 0));
		EXPECT_EQ(0, sn_udp_send_messages(server.get(), nullptr, 0));
	});
}

TEST_P(Udp, ReportsWhatTheBufferDoesNotHold)
{
	test::run(1, [] {
		Socket socket(GetParam());
		const sn_address at = socket.address();
		Message message(4);
		sn_address peer = {};
		char buf[5] = "....";

		socket.send("too large", at);
		EXPECT_EQ(-EMSGSIZE, sn_udp_recv(socket.get(), buf, 4, &peer));
		EXPECT_STREQ("too ", buf);
		EXPECT_TRUE(peer == at);
		socket.send("fits", at);
		EXPECT_EQ(4, sn_udp_recv(socket.get(), buf, 4, nullptr));
		socket.send("too large", at);
		EXPECT_EQ(1, sn_udp_recv_messages(socket.get(), &message, 1));
		EXPECT_EQ(9u, message.length);
		EXPECT_EQ("too ", message.text());
		EXPECT_EQ(SN_UDP_TRUNCATED, message.flags);
		// A receive without a buffer takes the next datagram, and reports whether that had
		// bytes.
		socket.send("x", at);
		EXPECT_EQ(-EMSGSIZE, sn_udp_recv(socket.get(), nullptr, 0, nullptr));
		socket.send("", at);
		EXPECT_EQ(0, sn_udp_recv(socket.get(), nullptr, 0, nullptr));
	});
}

TEST_P(Udp, RefusesWhatIsTooLargeToSend)
{
	test::run(1, [] {
		Socket socket(GetParam());
		const sn_address at = socket.address();
		const std::string bytes(65536, 'x');

		EXPECT_EQ(-EMSGSIZE, socket.send(bytes, at));
		EXPECT_TRUE(socket.is_empty());
	});
}

TEST_P(Udp, ReceivesFromItsOnePeerOnly)
{
	test::run({1, 2}, [] {
		Socket server(GetParam()), stranger(GetParam());
		sn_udp *made = nullptr;

		ASSERT_EQ(0, sn_udp_connect(&made, test::text(server.address()).c_str(), nullptr,
					    SN_NO_DEADLINE));
		Socket client(made);
		sn_address peer = {};
		char text[SN_ADDRESS_MAX];

		EXPECT_EQ(0, sn_udp_peer(client.get(), &peer));
		EXPECT_TRUE(peer == server.address());
		EXPECT_GT(sn_udp_peer_address(client.get(), text, sizeof text), 0);
		EXPECT_EQ(test::text(server.address()), text);
		EXPECT_EQ(-ENOTCONN, sn_udp_peer(server.get(), &peer));
		if (!TEST_EMULATED) { // qemu does not know the option
			EXPECT_GT(sn_udp_get(client.get(), SN_UDP_MTU), 1000);
			EXPECT_EQ(-ENOTCONN, sn_udp_get(server.get(), SN_UDP_MTU));
		}

		EXPECT_EQ(5, client.send("hello"));
		EXPECT_EQ("hello", server.receive(&peer));
		stranger.send("not for you", peer);
		server.send("for you", peer);
		EXPECT_EQ("for you", client.receive());
		// First another peer, then no fixed one.
		const sn_address other = stranger.address();
		EXPECT_EQ(0, sn_udp_set_peer(client.get(), &other));
		EXPECT_EQ(2, client.send("hi"));
		EXPECT_EQ("hi", stranger.receive());
		EXPECT_EQ(0, sn_udp_set_peer(client.get(), nullptr));
		EXPECT_EQ(-EDESTADDRREQ, client.send("to whom?"));
		EXPECT_EQ(5, client.send("again", server.address()));
		EXPECT_EQ("again", server.receive());
	});
}

INSTANTIATE_TEST_SUITE_P(Families, Udp, testing::Values("127.0.0.1:0", "[::1]:0"),
			 [](const auto &instance) {
				 return instance.param[0] == '[' ? "IPv6" : "IPv4";
			 });

TASK_TEST(UdpBatch, StopsAtTheFirstMessageWithAnError, 1)
{
	Socket socket;
	sn_address bad = socket.address(), at = bad;
	Message first("a", at), second("b", at), wrong("c", at), last("d", at);
	sn_udp_message all[4];

	bad.port = 0;
	wrong.peer = bad;
	all[0] = first, all[1] = second, all[2] = wrong, all[3] = last;
	EXPECT_EQ(2, sn_udp_send_messages(socket.get(), all, 4));
	EXPECT_EQ(-EINVAL, sn_udp_send_messages(socket.get(), all + 2, 2));
	// sennit returns an error of its own, before the kernel sees the message.
	all[2] = first;
	all[2].local = test::address("[::1]:0");
	EXPECT_EQ(2, sn_udp_send_messages(socket.get(), all, 4));
	EXPECT_EQ(-EINVAL, sn_udp_send_messages(socket.get(), all + 2, 2));
	EXPECT_EQ(1, sn_udp_send_messages(socket.get(), all + 3, 1));
	for (const char *text : {"a", "b", "a", "b", "d"})
		EXPECT_EQ(text, socket.receive());
	EXPECT_TRUE(socket.is_empty());
}

// ---- waits that several tasks share ----

// Receivers that all end with the same result.
std::vector<Task> receivers(const Socket &socket, size_t n, ssize_t result)
{
	std::vector<Task> tasks;

	for (size_t i = 0; i < n; i++)
		tasks.emplace_back([udp = socket.get(), result] {
			char buf[10];

			EXPECT_EQ(result, sn_udp_recv(udp, buf, sizeof buf, nullptr));
		});
	return tasks;
}

TASK_TEST(UdpWait, ADeadlineEndsAll)
{
	Socket socket;
	std::vector<Task> tasks = receivers(socket, 5, -ETIMEDOUT);
	char buf[10];

	ASSERT_TRUE(receivers_wait(socket, 5));
	EXPECT_EQ(0, sn_udp_set_read_deadline(socket.get(), sn_now() + test::ms));
	join_all(tasks);
	EXPECT_EQ(-ETIMEDOUT, sn_udp_recv(socket.get(), buf, sizeof buf, nullptr));
	// The socket works as before.
	socket.send("later", socket.address());
	EXPECT_EQ("later", socket.receive());
}

TASK_TEST(UdpWait, ADeadlineThatIsSetBeforeEndsAll)
{
	Socket socket;

	EXPECT_EQ(0, sn_udp_set_read_deadline(socket.get(), sn_now() + 20 * test::ms));
	for (Task &task : receivers(socket, 5, -ETIMEDOUT))
		task.join();
}

TASK_TEST(UdpWait, CancelEndsAll)
{
	Socket socket;
	std::vector<Task> tasks = receivers(socket, 5, -ECANCELED);
	char buf[10];

	ASSERT_TRUE(receivers_wait(socket, 5));
	EXPECT_EQ(0, sn_udp_cancel(socket.get()));
	join_all(tasks);
	EXPECT_EQ(-ECANCELED, sn_udp_recv(socket.get(), buf, sizeof buf, nullptr));
	EXPECT_EQ(-ECANCELED, socket.send("x", socket.address()));
}

TASK_TEST(UdpWait, CloseEndsAll)
{
	Socket socket;
	sn_udp *stale = socket.get();
	std::vector<Task> tasks = receivers(socket, 5, -EBADF);
	char buf[10];
	sn_address address;

	ASSERT_TRUE(receivers_wait(socket, 5));
	// A receiver that the close wakes does not receive what has arrived.
	socket.close();
	join_all(tasks);
	EXPECT_EQ(-EBADF, sn_udp_recv(stale, buf, sizeof buf, nullptr));
	EXPECT_EQ(-EBADF, sn_udp_send(stale, buf, 1, nullptr));
	EXPECT_EQ(-EBADF, sn_udp_local(stale, &address));
	EXPECT_EQ(-EBADF, sn_udp_fd(stale));
	EXPECT_EQ(-EBADF, sn_udp_close(stale));
	// The next socket reuses the place, but is another socket.
	Socket next;
	EXPECT_EQ(-EBADF, sn_udp_recv(stale, buf, sizeof buf, nullptr));
	EXPECT_EQ(-EBADF, sn_udp_cancel(stale));
	next.send("x", next.address());
	EXPECT_EQ("x", next.receive());
}

// Tasks in a scope of their own, which can be cancelled.
class Scoped
{
public:
	explicit Scoped(const Socket &socket) : udp_(socket.get())
	{
		task_ = Task([this] {
			char buf[10];
			sn_scope *scope = nullptr;

			ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
			scope_ = scope;
			EXPECT_EQ(-ECANCELED, sn_udp_recv(udp_, buf, sizeof buf, nullptr));
			EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
		});
		EXPECT_TRUE(test::eventually([&] { return scope_ != nullptr; }));
	}
	void cancel()
	{
		EXPECT_EQ(0, sn_scope_cancel(scope_));
		task_.join();
	}

private:
	sn_udp *udp_;
	std::atomic<sn_scope *> scope_{nullptr};
	Task task_;
};

TASK_TEST(UdpWait, ATaskWhoseScopeIsCancelledPassesItsPlaceOn)
{
	Socket socket;
	Scoped first(socket);
	ASSERT_TRUE(receivers_wait(socket, 1));
	Scoped second(socket);
	ASSERT_TRUE(receivers_wait(socket, 2));
	std::vector<Task> last = receivers(socket, 2, 1);
	ASSERT_TRUE(receivers_wait(socket, 4));

	// The first waits on the side, the second is queued behind another.
	first.cancel();
	ASSERT_TRUE(receivers_wait(socket, 3));
	Scoped third(socket);
	ASSERT_TRUE(receivers_wait(socket, 4));
	third.cancel();
	ASSERT_TRUE(receivers_wait(socket, 3));
	second.cancel();
	ASSERT_TRUE(receivers_wait(socket, 2));
	socket.send("x", socket.address());
	socket.send("x", socket.address());
	join_all(last);
	EXPECT_TRUE(socket.is_empty());
}

TASK_TEST(UdpWait, ACallInACancelledScopeMovesNothing, 1)
{
	Socket socket;
	sn_scope *scope;
	char byte = 'x';
	const sn_address at = socket.address();

	EXPECT_EQ(1, socket.send("y", at));
	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	EXPECT_EQ(0, sn_scope_cancel(scope));
	EXPECT_EQ(-ECANCELED, sn_udp_recv(socket.get(), &byte, 1, nullptr));
	EXPECT_EQ(-ECANCELED, sn_udp_send(socket.get(), &byte, 1, &at));
	EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
	EXPECT_EQ("y", socket.receive());
	EXPECT_TRUE(socket.is_empty());
}

TASK_TEST(UdpWait, ABurstReachesAllThatWait)
{
	for (int round = 0; round < test::scaled(200); round++) {
		Socket socket;
		const size_t tasks_n = 1 + size_t(round) % 6;
		std::vector<Task> tasks = receivers(socket, tasks_n, 1);
		std::vector<sn_udp_message> all;
		Message message("x", socket.address());

		if (round % 2) {
			ASSERT_TRUE(receivers_wait(socket, tasks_n));
		}
		all.assign(tasks_n, message);
		ASSERT_EQ(int(tasks_n), sn_udp_send_messages(socket.get(), all.data(), all.size()));
		join_all(tasks);
		EXPECT_TRUE(socket.is_empty());
	}
}

// ---- opening ----

TASK_TEST(UdpOpen, AddressesGoodAndBad, 1)
{
	sn_udp *udp = nullptr;
	sn_udp_options unknown = {};
	const sn_address none = {};

	unknown.flags = 1u << 20;
	EXPECT_EQ(-EINVAL, sn_udp_open(&udp, "127.0.0.1", nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_open(&udp, "127.0.0.1:65536", nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_open(&udp, "127.0.0.1:0", &unknown));
	EXPECT_EQ(-EINVAL, sn_udp_open(nullptr, "127.0.0.1:0", nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_open(&udp, nullptr, nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_open_at(&udp, &none, nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_connect(&udp, ":1", nullptr, SN_NO_DEADLINE));
	EXPECT_EQ(-EADDRNOTAVAIL, sn_udp_open(&udp, "198.51.100.1:0", nullptr));
	Socket socket;
	const std::string taken = test::text(socket.address());
	EXPECT_EQ(-EADDRINUSE, sn_udp_open(&udp, taken.c_str(), nullptr));
	EXPECT_EQ(0, sn_udp_open(&udp, "localhost:0", nullptr));
	EXPECT_EQ(0, sn_udp_close(udp));
}

TASK_TEST(UdpOpen, AnEmptyHostIsBothFamilies, 1)
{
	Socket socket(":0"), v4;
	sn_address at = test::address("127.0.0.1:0"), peer = {};

	at.port = socket.address().port;
	v4.send("v4", at);
	EXPECT_EQ("v4", socket.receive(&peer));
	EXPECT_EQ(test::text(v4.address()), test::text(peer));
	EXPECT_EQ(2, socket.send("ok", peer));
	EXPECT_EQ("ok", v4.receive());
	if (!test::have("[::1]:0"))
		return;
	Socket v6("[::1]:0");
	at = test::address("[::1]:0");
	at.port = socket.address().port;
	v6.send("v6", at);
	EXPECT_EQ("v6", socket.receive(&peer));
	EXPECT_TRUE(peer == v6.address());
	EXPECT_EQ(2, socket.send("ok", peer));
	EXPECT_EQ("ok", v6.receive());
}

TASK_TEST(UdpOpen, OnlyIPv6LeavesThePortToIPv4, 1)
{
	if (!test::have("[::1]:0"))
		return;
	Socket v6("[::]:0", SN_UDP_V6_ONLY);
	const std::string port = std::to_string(v6.address().port);
	Socket v4(("0.0.0.0:" + port).c_str());
	sn_udp *both = nullptr;

	EXPECT_EQ(-EADDRINUSE, sn_udp_open(&both, ("[::]:" + port).c_str(), nullptr));
	EXPECT_EQ(-ENETUNREACH, v6.send("x", v4.address()));
}

TASK_TEST(UdpOpen, SocketsShareAPort, 1)
{
	Socket first("127.0.0.1:0", SN_UDP_REUSE_PORT);
	const std::string at = test::text(first.address());
	Socket second(at.c_str(), SN_UDP_REUSE_PORT);
	sn_udp *udp = nullptr;
	int received = 0;

	EXPECT_EQ(-EADDRINUSE, sn_udp_open(&udp, at.c_str(), nullptr));
	// Each datagram reaches one of the sockets.
	for (int i = 0; i < 50; i++) {
		Socket client;

		client.send("x", first.address());
		EXPECT_NE(first.is_empty(), second.is_empty());
		received += first.is_empty() ? second.receive() == "x" : first.receive() == "x";
	}
	EXPECT_EQ(50, received);
}

TASK_TEST(UdpOpen, AdoptsADescriptor, 1)
{
	const int fd = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0);
	sockaddr_in any = {};
	sn_udp *udp = nullptr, *twice = nullptr;
	int ends[2];

	any.sin_family = AF_INET;
	ASSERT_EQ(0, bind(fd, reinterpret_cast<sockaddr *>(&any), sizeof any));
	ASSERT_EQ(0, pipe(ends));
	EXPECT_EQ(-EPROTOTYPE, sn_udp_adopt(&udp, tcp, nullptr));
	EXPECT_EQ(-ENOTSOCK, sn_udp_adopt(&udp, ends[0], nullptr));
	EXPECT_EQ(-EBADF, sn_udp_adopt(&udp, -1, nullptr));
	ASSERT_EQ(0, sn_udp_adopt(&udp, fd, nullptr));
	EXPECT_EQ(-EEXIST, sn_udp_adopt(&twice, fd, nullptr));
	EXPECT_EQ(fd, sn_udp_fd(udp));
	EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
	EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	Socket owner(udp), client;
	sn_address at = test::address("127.0.0.1:0");
	at.port = owner.address().port;
	client.send("x", at);
	EXPECT_EQ("x", owner.receive());
	::close(tcp);
	::close(ends[0]);
	::close(ends[1]);
}

// Leaves no free descriptors.
class NoDescriptors
{
public:
	NoDescriptors()
	{
		const int next = dup(0);
		rlimit few;

		EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &former_));
		few = {rlim_t(next), former_.rlim_max};
		::close(next);
		EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &few));
	}
	~NoDescriptors() { EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &former_)); }

private:
	rlimit former_;
};

TASK_TEST(UdpOpen, SaysWhenDescriptorsHaveRunOut, 1)
{
	Socket before;
	sn_udp *udp = nullptr;

	{
		NoDescriptors none;

		EXPECT_EQ(-EMFILE, sn_udp_open(&udp, "127.0.0.1:0", nullptr));
		EXPECT_EQ(-EMFILE, sn_udp_connect(&udp, "127.0.0.1:1", nullptr, SN_NO_DEADLINE));
		// Open sockets need no more descriptors.
		before.send("x", before.address());
		EXPECT_EQ("x", before.receive());
	}
	Socket after;
}

TASK_TEST(UdpOpen, NullAndForeignThreads, 1)
{
	Socket socket;
	sn_udp *udp = socket.get(), *made = nullptr;
	const sn_address at = socket.address();
	char buf[SN_ADDRESS_MAX];
	sn_address address;
	sn_udp_error error;
	Message message("x", at);

	EXPECT_EQ(-EINVAL, sn_udp_recv(nullptr, buf, 1, nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_recv(udp, nullptr, 1, nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_send(nullptr, buf, 1, nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_send(udp, nullptr, 1, nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_recv_messages(nullptr, &message, 1));
	EXPECT_EQ(-EINVAL, sn_udp_recv_messages(udp, nullptr, 1));
	EXPECT_EQ(-EINVAL, sn_udp_send_messages(nullptr, &message, 1));
	EXPECT_EQ(-EINVAL, sn_udp_send_messages(udp, nullptr, 1));
	EXPECT_EQ(-EINVAL, sn_udp_next_error(nullptr, &error));
	EXPECT_EQ(-EINVAL, sn_udp_next_error(udp, nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_local(udp, nullptr));
	EXPECT_EQ(-EINVAL, sn_udp_local_address(udp, nullptr, 10));
	EXPECT_EQ(-ENOSPC, sn_udp_local_address(udp, buf, 3));
	EXPECT_EQ(-EINVAL, sn_udp_set_read_deadline(nullptr, 0));
	EXPECT_EQ(-EINVAL, sn_udp_cancel(nullptr));
	EXPECT_EQ(0, sn_udp_close(nullptr));
	std::thread foreign([&] {
		EXPECT_EQ(-ENOTSUP, sn_udp_open(&made, "127.0.0.1:0", nullptr));
		EXPECT_EQ(-ENOTSUP, sn_udp_recv(udp, buf, 1, nullptr));
		EXPECT_EQ(-ENOTSUP, sn_udp_send(udp, buf, 1, &at));
		EXPECT_EQ(-ENOTSUP, sn_udp_set_read_deadline(udp, 0));
		EXPECT_EQ(0, sn_udp_local(udp, &address));
		EXPECT_EQ(0, sn_udp_next_error(udp, &error));
		EXPECT_EQ(0, sn_udp_set(udp, SN_UDP_TTL, 9));
		EXPECT_EQ(9, sn_udp_get(udp, SN_UDP_TTL));
	});
	foreign.join();
}

// ---- addresses ----

TEST(Address, ParsesWhatItPrints)
{
	for (const char *text : {"127.0.0.1:53", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:53",
				 "[::]:0", "[2001:db8::1]:443", "[fe80::1%lo]:1"})
		EXPECT_EQ(text, test::text(test::address(text)));
	EXPECT_EQ("1.2.3.4:5", test::text(test::address("[::ffff:1.2.3.4]:5")));
	EXPECT_EQ("[::]:53", test::text(test::address(":53")));
}

TEST(Address, RefusesTheRest)
{
	sn_address address = {};

	for (const char *text :
	     {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:dns", "name:53", "::1:53", "[::1]",
	      "[::1%]:1", "[fe80::1%no-such]:1", "[fe80::1%-1]:1", "1.2.3:4", "127.0.0.1:65536"})
		EXPECT_EQ(-EINVAL, sn_address_parse(&address, text)) << text;
	EXPECT_EQ(-EINVAL, sn_address_parse(nullptr, "127.0.0.1:1"));
	EXPECT_EQ("none", test::text(address));
}

TEST(Address, ConvertsToAndFromSockaddr)
{
	for (const char *text : {"127.0.0.1:53", "[2001:db8::1]:443"}) {
		const sn_address address = test::address(text);
		sockaddr_storage storage;
		sn_address back = {};
		const int size = sn_address_to_sockaddr(&address, &storage);
		auto *any = reinterpret_cast<sockaddr *>(&storage);

		ASSERT_GT(size, 0);
		EXPECT_EQ(0, sn_address_from_sockaddr(&back, any, socklen_t(size)));
		EXPECT_TRUE(back == address);
		EXPECT_EQ(-EINVAL, sn_address_from_sockaddr(&back, any, socklen_t(size - 1)));
		any->sa_family = AF_UNIX;
		EXPECT_EQ(-EAFNOSUPPORT, sn_address_from_sockaddr(&back, any, socklen_t(size)));
	}
}

} // namespace
