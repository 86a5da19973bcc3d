// SPDX-License-Identifier: MIT
//
// Helpers for the tests of UDP: sockets that close themselves.
#ifndef SENNIT_TESTS_SUPPORT_UDP_H
#define SENNIT_TESTS_SUPPORT_UDP_H

#include <atomic>
#include <cstring>
#include <string>

#include "support/internals.h"
#include "support/runtime.h"

inline bool operator==(const sn_address &a, const sn_address &b)
{
	return memcmp(&a, &b, sizeof a) == 0;
}

namespace test
{

inline sn_address address(const std::string &text)
{
	sn_address parsed = {};

	EXPECT_EQ(0, sn_address_parse(&parsed, text.c_str())) << text;
	return parsed;
}

inline std::string text(const sn_address &address)
{
	char buf[SN_ADDRESS_MAX];
	const int n = sn_address_text(&address, buf, sizeof buf);

	return n < 0 ? "none" : std::string(buf, size_t(n));
}

// Whether the machine has the address, such as ::1.
inline bool have(const char *at)
{
	sn_udp *udp;

	if (sn_udp_open(&udp, at, nullptr) < 0)
		return false;
	return sn_udp_close(udp) == 0;
}

class Socket
{
public:
	explicit Socket(const char *address = "127.0.0.1:0", unsigned flags = 0)
	{
		sn_udp_options options = {};
		sn_udp *made = nullptr;

		options.flags = flags;
		EXPECT_EQ(0, sn_udp_open(&made, address, &options)) << address;
		if (!made)
			abort(); // without this, nothing else in the test would make sense
		udp_ = made;
	}
	explicit Socket(sn_udp *owned) : udp_(owned) {}
	~Socket() { close(); }
	Socket(const Socket &) = delete;
	Socket &operator=(const Socket &) = delete;

	// Atomic, because a task may call this while another one closes the socket.
	sn_udp *get() const { return udp_; }
	sn_address address() const
	{
		sn_address local = {};

		EXPECT_EQ(0, sn_udp_local(udp_, &local));
		return local;
	}
	ssize_t send(const std::string &bytes, const sn_address &peer)
	{
		return sn_udp_send(udp_, bytes.data(), bytes.size(), &peer);
	}
	// Sends on a socket with one peer.
	ssize_t send(const std::string &bytes)
	{
		return sn_udp_send(udp_, bytes.data(), bytes.size(), nullptr);
	}
	// Receives a datagram that should come soon; returns "error " and its number after an
	// error.
	std::string receive(sn_address *peer = nullptr)
	{
		std::string bytes(65536, 0);
		ssize_t n;

		sn_udp_set_read_deadline(udp_, sn_now() + patience);
		n = sn_udp_recv(udp_, bytes.data(), bytes.size(), peer);
		sn_udp_set_read_deadline(udp_, SN_NO_DEADLINE);
		if (n < 0)
			return "error " + std::to_string(-n);
		bytes.resize(size_t(n));
		return bytes;
	}
	// Whether nothing has arrived. Loopback delivers a datagram before the send returns.
	bool is_empty()
	{
		char byte;
		const ssize_t n =
			::recv(sn_udp_fd(udp_), &byte, 1, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);

		return n < 0 && errno == EAGAIN;
	}
	void close()
	{
		if (sn_udp *udp = udp_.exchange(nullptr)) {
			EXPECT_EQ(0, sn_udp_close(udp));
		}
	}

private:
	std::atomic<sn_udp *> udp_{nullptr};
};

// A message together with its buffer.
struct Message : sn_udp_message {
	explicit Message(size_t room = 2048) : sn_udp_message(), bytes(room, 0)
	{
		data = bytes.data();
		size = room;
	}
	explicit Message(const std::string &text, const sn_address &to)
	    : sn_udp_message(), bytes(text)
	{
		data = bytes.data();
		size = bytes.size();
		peer = to;
	}
	Message(const Message &) = delete;
	Message &operator=(const Message &) = delete;
	std::string text() const { return bytes.substr(0, std::min(length, size)); }

	std::string bytes;
};

// Waits until so many tasks wait to receive, or to send.
inline bool receivers_wait(const Socket &socket, size_t n = 1)
{
	return eventually([&] { return probe_udp_waiting(socket.get(), 0) == n; });
}
inline bool senders_wait(const Socket &socket, size_t n = 1)
{
	return eventually([&] { return probe_udp_waiting(socket.get(), 1) == n; });
}

} // namespace test

#endif
