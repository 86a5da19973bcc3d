// SPDX-License-Identifier: MIT
// Labels: machine
//
// TCP as its header describes it: echo over both families, valid and malformed addresses, both ends
// of a half-close, resets, writing to a closed peer, and which call gets which error.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "support/internals.h"
#include "support/net.h"

namespace
{

using namespace test;

class Echo : public testing::TestWithParam<const char *>
{
};

TEST_P(Echo, ReturnsEveryByte)
{
	test::Random seeds;

	test::run([&] {
		Listener listener(GetParam());
		std::vector<Task> sessions;
		const int clients = 20;
		Task server([&] {
			for (int i = 0; i < clients; i++) {
				sn_tcp *peer = listener.accept();

				sessions.emplace_back([peer] {
					char buf[3000];
					ssize_t n;

					while ((n = sn_tcp_read(peer, buf, sizeof buf)) > 0)
						ASSERT_EQ(n, sn_tcp_write_all(peer, buf, size_t(n),
									      nullptr));
					EXPECT_EQ(0, n);
					EXPECT_EQ(0, sn_tcp_close(peer));
				});
			}
		});
		std::vector<Task> all;
		for (int c = 0; c < clients; c++)
			all.emplace_back([&, seed = seeds.next()] {
				test::Random random(seed);
				sn_tcp *conn = test::connect(listener.address());
				const std::string sent = test::random_bytes(
					random, 1 + random.below(test::scaled(300000)));
				Task writer([&] {
					size_t done = 0;

					while (done < sent.size()) {
						const size_t n =
							std::min(sent.size() - done,
								 size_t(1 + random.below(50000)));
						ASSERT_EQ(ssize_t(n),
							  sn_tcp_write_all(conn, sent.data() + done,
									   n, nullptr));
						done += n;
					}
					EXPECT_EQ(0, sn_tcp_shutdown(conn, SN_SHUT_WRITE));
				});
				const std::string got = test::read_to_end(conn);

				writer.join();
				EXPECT_TRUE(got == sent) << got.size() << " of " << sent.size()
							 << " bytes, seed " << seeds.seed();
				sn_tcp_close(conn);
			});
		join_all(all);
		server.join();
		join_all(sessions);
	});
}

INSTANTIATE_TEST_SUITE_P(Families, Echo, testing::Values("127.0.0.1:0", "[::1]:0"),
			 [](const auto &instance) {
				 return instance.param[0] == '[' ? "IPv6" : "IPv4";
			 });

TEST(Address, WellFormedOnesAreSplit)
{
	char host[300], service[40];
	const struct {
		const char *text, *host, *service;
	} good[] = {
		{"127.0.0.1:80", "127.0.0.1", "80"},           {"[::1]:80", "::1", "80"},
		{"[fe80::1%lo]:65535", "fe80::1%lo", "65535"}, {"name:http", "name", "http"},
		{"a.b-c.example:0", "a.b-c.example", "0"},     {":80", "", "80"},
	};

	for (const auto &g : good) {
		EXPECT_EQ(0,
			  probe_address_split(g.text, host, sizeof host, service, sizeof service))
			<< g.text;
		EXPECT_STREQ(g.host, host);
		EXPECT_STREQ(g.service, service);
	}
}

std::vector<std::string> malformed()
{
	return {"",
		":",
		"80",
		"127.0.0.1",
		"127.0.0.1:",
		"name",
		"[::1",
		"[::1]",
		"[::1]80",
		"[::1]:",
		"[]:80",
		"[::1]]:80",
		"[::1]x:80",
		"::1:80",
		"::1",
		"1:2:3",
		"127.0.0.1:65536",
		"127.0.0.1:99999",
		"127.0.0.1:100000",
		"127.0.0.1:18446744073709551617",
		"127.0.0.1:-1",
		"127.0.0.1:+80",
		"127.0.0.1: 80",
		std::string(256, 'h').append(":80"),
		std::string(100000, 'h').append(":80"),
		std::string("host:").append(33, 's'),
		std::string("127.0.0.1:").append(1000, '0').append("80")};
}

TASK_TEST(Address, MalformedOnesAreRefused, 2)
{
	for (const std::string &text : malformed()) {
		sn_tcp_listener *listener = nullptr;
		sn_tcp *conn = nullptr;

		EXPECT_EQ(-EINVAL, sn_tcp_listen(&listener, text.c_str())) << text.substr(0, 60);
		EXPECT_EQ(-EINVAL, sn_tcp_connect(&conn, text.c_str(), SN_NO_DEADLINE))
			<< text.substr(0, 60);
		EXPECT_EQ(nullptr, listener);
		EXPECT_EQ(nullptr, conn);
	}
	// ":PORT" stands for every address of the machine: a listener can have it, a
	// connection cannot.
	sn_tcp *conn = nullptr;
	EXPECT_EQ(-EINVAL, sn_tcp_connect(&conn, ":80", SN_NO_DEADLINE));
}

TASK_TEST(Address, UnknownNamesAndServicesAreReported, 2)
{
	sn_tcp_listener *listener = nullptr;
	sn_tcp *conn = nullptr;
	int err = sn_tcp_connect(&conn, "no-such-host.invalid:80", SN_NO_DEADLINE);

	// Without a network the resolver cannot know that there is no such name.
	EXPECT_TRUE(err == -ENOENT || err == -EAGAIN) << err;
	err = sn_tcp_listen(&listener, "no-such-host.invalid:80");
	EXPECT_TRUE(err == -ENOENT || err == -EAGAIN) << err;
	EXPECT_EQ(-ENOENT, sn_tcp_connect(&conn, "127.0.0.1:no-such-service", 0));
	EXPECT_EQ(nullptr, listener);
	EXPECT_EQ(nullptr, conn);
}

TASK_TEST(Address, ThatOfAnotherMachineIsNotAvailable, 1)
{
	sn_tcp_listener *listener = nullptr;

	// 192.0.2.0/24 is for documentation: no machine has such an address.
	EXPECT_EQ(-EADDRNOTAVAIL, sn_tcp_listen(&listener, "192.0.2.1:0"));
}

TASK_TEST(Listen, OnAPortInUseIsRefused, 2)
{
	Listener listener;
	sn_tcp_listener *second = nullptr;

	EXPECT_EQ(-EADDRINUSE, sn_tcp_listen(&second, listener.address().c_str()));
	EXPECT_EQ(nullptr, second);
}

TASK_TEST(Listen, TheSamePortAgainAfterTrafficAndClose, 2)
{
	std::string address;
	{
		Listener listener;
		address = listener.address();
		Pair pair(listener);
		// The server's side closes first and is left in TIME_WAIT.
		pair.close_server();
		char c;
		EXPECT_EQ(0, sn_tcp_read(pair.client, &c, 1));
	}
	Listener again(address.c_str());
	Pair pair(again);
}

TASK_TEST(Listen, ReportsItsAddress, 2)
{
	for (const char *text : {"127.0.0.1:0", "[::1]:0"}) {
		Listener listener(text);
		const std::string address = listener.address();
		const size_t colon = address.rfind(':');
		char buf[SN_ADDRESS_MAX];

		EXPECT_EQ(std::string(text).substr(0, std::string(text).rfind(':')),
			  address.substr(0, colon));
		EXPECT_GT(atoi(address.c_str() + colon + 1), 0);
		EXPECT_EQ(-ENOSPC, sn_tcp_listener_address(listener.get(), buf, address.size()));
		EXPECT_EQ(int(address.size()),
			  sn_tcp_listener_address(listener.get(), buf, address.size() + 1));
		EXPECT_EQ(address, buf);
		Pair pair(listener);
		EXPECT_EQ(int(address.size()), sn_tcp_peer_address(pair.client, buf, sizeof buf));
		EXPECT_EQ(address, buf);
		char other[SN_ADDRESS_MAX];
		EXPECT_GT(sn_tcp_local_address(pair.client, buf, sizeof buf), 0);
		EXPECT_GT(sn_tcp_peer_address(pair.server, other, sizeof other), 0);
		EXPECT_STREQ(buf, other) << "both ends agree";
		EXPECT_EQ(-ENOSPC, sn_tcp_peer_address(pair.client, buf, 3));
		sn_address value = {}, peer = {};
		char printed[SN_ADDRESS_MAX];

		EXPECT_EQ(0, sn_tcp_listener_local(listener.get(), &value));
		EXPECT_GT(sn_address_text(&value, printed, sizeof printed), 0);
		EXPECT_EQ(address, printed);
		EXPECT_EQ(0, sn_tcp_peer(pair.client, &peer));
		EXPECT_EQ(0, memcmp(&value, &peer, sizeof peer));
		EXPECT_EQ(0, sn_tcp_local(pair.client, &value));
		EXPECT_EQ(0, sn_tcp_peer(pair.server, &peer));
		EXPECT_EQ(0, memcmp(&value, &peer, sizeof peer));
	}
}

TASK_TEST(Listen, OnEveryAddressTakesBothFamilies, 2)
{
	Listener listener(":0");
	const std::string address = listener.address();
	const std::string port = address.substr(address.rfind(':'));

	for (const char *host : {"127.0.0.1", "[::1]"}) {
		sn_tcp *peer = nullptr, *conn = test::connect(host + port);

		ASSERT_EQ(0, sn_tcp_accept(listener.get(), &peer));
		sn_tcp_close(peer);
		sn_tcp_close(conn);
	}
}

// If another program has the port for IPv6, the listener does not silently take IPv4 alone.
TASK_TEST(Listen, OnEveryAddressNeedsBothFamilies, 2)
{
	const int on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sockaddr_in6 address = {};
	socklen_t length = sizeof address;
	sn_tcp_listener *listener = nullptr;

	address.sin6_family = AF_INET6;
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
	ASSERT_EQ(0, bind(fd, reinterpret_cast<sockaddr *>(&address), length));
	ASSERT_EQ(0, listen(fd, 1));
	ASSERT_EQ(0, getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length));
	const std::string port = ":" + std::to_string(ntohs(address.sin6_port));
	EXPECT_EQ(-EADDRINUSE, sn_tcp_listen(&listener, port.c_str()));
	sn_tcp_listener_close(listener);
	close(fd);
}

TASK_TEST(Listen, FdIsASocketAndNonBlocking, 1)
{
	Listener listener;
	Pair pair(listener);
	int value = 0;
	socklen_t size = sizeof value;

	ASSERT_EQ(0, getsockopt(sn_tcp_listener_fd(listener.get()), SOL_SOCKET, SO_ACCEPTCONN,
				&value, &size));
	EXPECT_EQ(1, value);
	for (sn_tcp *conn : {pair.client.load(), pair.server.load()}) {
		EXPECT_TRUE(fcntl(sn_tcp_fd(conn), F_GETFL) & O_NONBLOCK);
		EXPECT_TRUE(fcntl(sn_tcp_fd(conn), F_GETFD) & FD_CLOEXEC);
		ASSERT_EQ(0, getsockopt(sn_tcp_fd(conn), IPPROTO_TCP, TCP_NODELAY, &value, &size));
		EXPECT_NE(0, value);
	}
}

TASK_TEST(Connect, RefusalIsReported)
{
	std::string address;
	{
		Listener listener;
		address = listener.address();
	}
	sn_tcp *conn = nullptr;

	EXPECT_EQ(-ECONNREFUSED, sn_tcp_connect(&conn, address.c_str(), SN_NO_DEADLINE));
	EXPECT_EQ(-ECONNREFUSED, sn_tcp_connect(&conn, address.c_str(), sn_now() + test::second));
	EXPECT_EQ(nullptr, conn);
}

TASK_TEST(Connect, ByName, 2)
{
	Listener listener;
	const std::string port = listener.address().substr(listener.address().rfind(':'));
	sn_tcp *peer = nullptr, *conn = test::connect("localhost" + port);

	ASSERT_EQ(0, sn_tcp_accept(listener.get(), &peer));
	sn_tcp_close(peer);
	sn_tcp_close(conn);
}

TASK_TEST(HalfClose, BothWays)
{
	Pair pair;
	char buf[100];

	EXPECT_EQ(5, sn_tcp_write_all(pair.client, "hello", 5, nullptr));
	EXPECT_EQ(0, sn_tcp_shutdown(pair.client, SN_SHUT_WRITE));
	EXPECT_EQ("hello", test::read_to_end(pair.server));
	EXPECT_EQ(0, sn_tcp_read(pair.server, buf, sizeof buf))
		<< "no bytes can come after the end";
	EXPECT_EQ(-EPIPE, sn_tcp_write(pair.client, "x", 1));
	EXPECT_EQ(5, sn_tcp_write_all(pair.server, "world", 5, nullptr))
		<< "the other half is open";
	EXPECT_EQ(5, sn_tcp_read(pair.client, buf, sizeof buf));
	EXPECT_EQ(0, sn_tcp_shutdown(pair.server, SN_SHUT_WRITE));
	EXPECT_EQ("", test::read_to_end(pair.client));
}

TASK_TEST(HalfClose, OfTheReadingSideEndsAPendingRead)
{
	Pair pair;
	Task reader([&] {
		char c;

		return int(sn_tcp_read(pair.client, &c, 1));
	});

	EXPECT_TRUE(test::someone_reads(pair.client));
	EXPECT_EQ(0, sn_tcp_shutdown(pair.client, SN_SHUT_READ));
	EXPECT_EQ(0, reader.join());
	EXPECT_EQ(2, sn_tcp_write(pair.client, "ok", 2));
}

TASK_TEST(HalfClose, OfNoHalfIsInvalid, 1)
{
	// As C passes them: in C++ the type has no such values.
	auto *shut = reinterpret_cast<int (*)(sn_stream *, unsigned)>(sn_stream_shutdown);
	Pair pair;

	EXPECT_EQ(-EINVAL, shut(sn_tcp_stream(pair.client), 2));
	EXPECT_EQ(-EINVAL, shut(sn_tcp_stream(pair.client), -1U));
	sn_tcp_abort(pair.server);
	char c;
	EXPECT_EQ(-ECONNRESET, sn_tcp_read(pair.client, &c, 1));
	EXPECT_EQ(-ENOTCONN, sn_tcp_shutdown(pair.client, SN_SHUT_WRITE));
	char text[SN_ADDRESS_MAX];
	EXPECT_EQ(-ENOTCONN, sn_tcp_peer_address(pair.client, text, sizeof text));
}

TASK_TEST(Reset, IsSeenByAWaitingReader)
{
	Pair pair;
	Task reader([&] {
		char c;

		return int(sn_tcp_read(pair.client, &c, 1));
	});

	EXPECT_TRUE(test::someone_reads(pair.client));
	EXPECT_EQ(0, sn_tcp_abort(pair.release_server()));
	EXPECT_EQ(-ECONNRESET, reader.join());
}

TASK_TEST(Reset, IsSeenByAWaitingWriter)
{
	Pair pair;
	const std::string much(size_t(64) << 20, 'x'); // more than all buffers hold
	Task writer([&] {
		return int(sn_tcp_write_all(pair.client, much.data(), much.size(), nullptr));
	});

	EXPECT_TRUE(test::someone_writes(pair.client));
	EXPECT_EQ(0, sn_tcp_abort(pair.release_server()));
	const int err = writer.join();
	EXPECT_TRUE(err == -ECONNRESET || err == -EPIPE) << err;
}

TEST(Write, ToAClosedPeerIsEpipeWithoutASignal)
{
	signal(SIGPIPE, SIG_DFL); // the signal would kill the test
	test::run([] {
		Listener listener;
		Pair pair(listener);

		EXPECT_EQ(0, sn_tcp_abort(pair.release_server()));
		char c;
		EXPECT_EQ(-ECONNRESET, sn_tcp_read(pair.client, &c, 1));
		EXPECT_EQ(-EPIPE, sn_tcp_write(pair.client, "x", 1));
		EXPECT_EQ(-EPIPE, sn_tcp_write_all(pair.client, "x", 1, nullptr));

		// After an orderly close the first write still succeeds, and is answered by a
		// reset.
		Pair second(listener);
		EXPECT_EQ(0, sn_tcp_close(second.release_server()));
		ssize_t n = 1;
		EXPECT_TRUE(test::eventually([&] {
			n = sn_tcp_write(second.client, "x", 1);
			return n < 0;
		}));
		EXPECT_TRUE(n == -EPIPE || n == -ECONNRESET) << n;
	});
}

TASK_TEST(ReadWrite, OfZeroBytesReturnsZero, 1)
{
	Pair pair;
	char c;

	EXPECT_EQ(0, sn_tcp_read(pair.client, &c, 0));
	EXPECT_EQ(0, sn_tcp_write(pair.client, &c, 0));
	EXPECT_EQ(0, sn_tcp_write_all(pair.client, &c, 0, nullptr));
}

TASK_TEST(ReadWrite, ReturnsWhatIsThereAndNoMore)
{
	Pair pair;
	char buf[10] = {};

	EXPECT_EQ(6, sn_tcp_write_all(pair.server, "abcdef", 6, nullptr));
	EXPECT_EQ(4, sn_tcp_read(pair.client, buf, 4));
	EXPECT_EQ(2, sn_tcp_read(pair.client, buf + 4, 6));
	EXPECT_STREQ("abcdef", buf);
}

TASK_TEST(Busy, ASecondReaderOrWriterIsRefused)
{
	Pair pair;
	const std::string much(size_t(64) << 20, 'x');
	char c;
	Task reader([&] { return int(sn_tcp_read(pair.client, &c, 1)); });
	Task writer([&] {
		return int(sn_tcp_write_all(pair.client, much.data(), much.size(), nullptr));
	});

	char other;

	EXPECT_TRUE(test::someone_reads(pair.client));
	EXPECT_TRUE(test::someone_writes(pair.client));
	EXPECT_EQ(-EBUSY, sn_tcp_read(pair.client, &other, 1));
	EXPECT_EQ(-EBUSY, sn_tcp_write(pair.client, "x", 1));
	EXPECT_EQ(-EBUSY, sn_tcp_write_all(pair.client, "x", 1, nullptr));
	EXPECT_EQ(-EBUSY, sn_tcp_wait_closed(pair.client)) << "counts as reading";
	EXPECT_EQ(0, sn_tcp_cancel(pair.client));
	EXPECT_EQ(-ECANCELED, reader.join());
	EXPECT_EQ(-ECANCELED, writer.join());
}

TASK_TEST(Busy, ASecondAccepterIsRefused)
{
	Listener listener;
	std::atomic<int> busy{0}, closed{0};
	std::vector<Task> tasks;

	for (int i = 0; i < 3; i++)
		tasks.emplace_back([&] {
			sn_tcp *conn;
			const int err = sn_tcp_accept(listener.get(), &conn);

			busy += err == -EBUSY;
			closed += err == -EBADF;
		});
	EXPECT_TRUE(test::eventually([&] { return busy.load() == 2; }));
	listener.close();
	join_all(tasks);
	EXPECT_EQ(1, closed.load());
}

TEST(Outside, CallsAreRefused)
{
	sn_tcp_listener *made = nullptr;
	sn_tcp *conn = nullptr;

	EXPECT_EQ(-ENOTSUP, sn_tcp_listen(&made, "127.0.0.1:0"));
	EXPECT_EQ(-ENOTSUP, sn_tcp_connect(&conn, "127.0.0.1:1", SN_NO_DEADLINE));
	test::run(1, [] {
		Listener listener;
		Pair pair(listener);

		std::thread([&] {
			sn_tcp *c = nullptr;
			struct sn_copy_result result;
			char byte;

			EXPECT_EQ(-ENOTSUP, sn_tcp_accept(listener.get(), &c));
			EXPECT_EQ(-ENOTSUP, sn_tcp_read(pair.client, &byte, 1));
			EXPECT_EQ(-ENOTSUP, sn_tcp_write(pair.client, &byte, 1));
			EXPECT_EQ(-ENOTSUP, sn_tcp_write_all(pair.client, &byte, 1, nullptr));
			EXPECT_EQ(-ENOTSUP, sn_tcp_wait_closed(pair.client));
			EXPECT_EQ(-ENOTSUP,
				  sn_copy(sn_tcp_stream(pair.client), sn_tcp_stream(pair.server),
					  -1, nullptr, nullptr, &result));
		}).join();
	});
}

// A task whose connection always has data to read must let others run, even on one processor.
TASK_TEST(Fairness, ABusyConnectionDoesNotStarveOthers, 1, 2)
{
	Pair pair;
	Task flood([&] {
		const std::string chunk(65536, 'x');

		while (sn_tcp_write(pair.server, chunk.data(), chunk.size()) > 0)
			continue;
	});
	Task drain([&] {
		char c; // a byte at a time, so that there is always more

		while (sn_tcp_read(pair.client, &c, 1) > 0)
			continue;
	});
	const int64_t before = sn_now();
	Task other([&] {
		for (int i = 0; i < 200; i++)
			sn_yield();
		for (int i = 0; i < 5; i++)
			sn_sleep(test::ms);
	});
	other.join();
	EXPECT_LT(sn_now() - before, test::patience);
	sn_tcp_cancel(pair.client);
	sn_tcp_cancel(pair.server);
	drain.join();
	flood.join();
}

} // namespace
