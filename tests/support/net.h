// SPDX-License-Identifier: MIT
//
// Helpers for the tests of the net layer: listeners and connected pairs that close themselves, and
// functions that look at a connection from outside.
#ifndef SENNIT_TESTS_SUPPORT_NET_H
#define SENNIT_TESTS_SUPPORT_NET_H

#include <atomic>
#include <csignal>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "support/internals.h"
#include "support/runtime.h"

namespace test
{

class Listener
{
public:
	explicit Listener(const char *address = "127.0.0.1:0")
	{
		sn_tcp_listener *made = nullptr;

		EXPECT_EQ(0, sn_tcp_listen(&made, address)) << address;
		if (!made)
			abort(); // without this, nothing else in the test would make sense
		listener_ = made;
	}
	~Listener() { close(); }
	Listener(const Listener &) = delete;
	Listener &operator=(const Listener &) = delete;

	// Atomic, because a task may call this while another one closes the listener.
	sn_tcp_listener *get() const { return listener_; }
	std::string address() const
	{
		char text[SN_ADDRESS_MAX];

		EXPECT_GT(sn_tcp_listener_address(listener_, text, sizeof text), 0);
		return text;
	}
	sn_tcp *accept() const
	{
		sn_tcp *conn = nullptr;

		EXPECT_EQ(0, sn_tcp_accept(listener_, &conn));
		return conn;
	}
	void close()
	{
		if (sn_tcp_listener *listener = listener_.exchange(nullptr)) {
			EXPECT_EQ(0, sn_tcp_listener_close(listener));
		}
	}

private:
	std::atomic<sn_tcp_listener *> listener_{nullptr};
};

inline sn_tcp *connect(const std::string &address)
{
	sn_tcp *conn = nullptr;

	EXPECT_EQ(0, sn_tcp_connect(&conn, address.c_str(), sn_now() + patience)) << address;
	return conn;
}

// Both ends of a connection. Atomic, because one task may read an end and another one release it
// without an order between the two: the calls in between need not provide one.
class Pair
{
public:
	explicit Pair(const Listener &listener = Listener())
	    : client(connect(listener.address())), server(listener.accept())
	{
	}
	~Pair()
	{
		if (client)
			sn_tcp_close(client);
		if (server)
			sn_tcp_close(server);
	}
	Pair(const Pair &) = delete;
	Pair &operator=(const Pair &) = delete;

	sn_tcp *release_client() { return client.exchange(nullptr); }
	sn_tcp *release_server() { return server.exchange(nullptr); }
	void close_client() { EXPECT_EQ(0, sn_tcp_close(release_client())); }
	void close_server() { EXPECT_EQ(0, sn_tcp_close(release_server())); }

	std::atomic<sn_tcp *> client, server;
};

// By xorshift, eight bytes at a time: std::mt19937_64, which is not optimized here, was half of
// what some tests did.
inline std::string random_bytes(Random &random, size_t size)
{
	std::vector<uint64_t> words(size / sizeof(uint64_t) + 1);
	uint64_t word = random.next() | 1; // never 0, which has no successor

	for (uint64_t *next = words.data(), *end = next + words.size(); next != end; next++) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		*next = word;
	}
	return {reinterpret_cast<const char *>(words.data()), size};
}

inline std::string read_to_end(sn_tcp *conn)
{
	std::string all;
	char buf[16384];
	ssize_t n;

	while ((n = sn_tcp_read(conn, buf, sizeof buf)) > 0)
		all.append(buf, size_t(n));
	EXPECT_EQ(0, n);
	return all;
}

// Bytes that were written to a connection and that the peer has not acknowledged.
inline int unsent(sn_tcp *conn)
{
	int n = -1;

	ioctl(sn_tcp_fd(conn), SIOCOUTQ, &n);
	return n;
}

// Bytes that could be read from a connection now.
inline int unread(sn_tcp *conn)
{
	int n = -1;

	ioctl(sn_tcp_fd(conn), FIONREAD, &n);
	return n;
}

// The low-water mark: with fewer bytes the kernel does not report the connection as readable.
inline int low_water(sn_tcp *conn)
{
	int value = -1;
	socklen_t length = sizeof value;

	EXPECT_EQ(0, getsockopt(sn_tcp_fd(conn), SOL_SOCKET, SO_RCVLOWAT, &value, &length));
	return value;
}

// Writes without the runtime until the kernel accepts no more.
inline void fill(sn_tcp *conn)
{
	static const std::string chunk(1 << 18, 'f');

	while (send(sn_tcp_fd(conn), chunk.data(), chunk.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		continue;
}

// Waits until a task waits to read (or accept), or to write, on a connection or listener.
inline bool someone_reads(const void *conn)
{
	return eventually([conn] { return probe_fd_waiting(conn, 0); });
}
inline bool someone_writes(const void *conn)
{
	return eventually([conn] { return probe_fd_waiting(conn, 1); });
}

} // namespace test

#endif
