/* SPDX-License-Identifier: MIT */
/* A UDP socket for the relay's end-to-end tests, like those for streams in harness.hpp: each wait
 * gives up after `patience` and throws. */
#ifndef TESTS_RELAY_DATAGRAMS_HPP
#define TESTS_RELAY_DATAGRAMS_HPP

#include "harness.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace harness
{

/* A numeric address; a leading "udp:" is ignored. */
inline sockaddr_storage to_sockaddr(std::string text, socklen_t &size)
{
	if (text.starts_with("udp:"))
		text.erase(0, 4);
	const auto colon = text.rfind(':');
	const auto port = htons(static_cast<std::uint16_t>(std::stoi(text.substr(colon + 1))));
	std::string host = text.substr(0, colon);
	sockaddr_storage made{};
	if (host.starts_with('[')) {
		sockaddr_in6 at{};
		at.sin6_family = AF_INET6;
		at.sin6_port = port;
		host = host.substr(1, host.size() - 2);
		if (inet_pton(AF_INET6, host.c_str(), &at.sin6_addr) != 1)
			throw std::runtime_error("bad address " + text);
		std::memcpy(&made, &at, size = sizeof at);
	} else {
		sockaddr_in at{};
		at.sin_family = AF_INET;
		at.sin_port = port;
		if (inet_pton(AF_INET, host.c_str(), &at.sin_addr) != 1)
			throw std::runtime_error("bad address " + text);
		std::memcpy(&made, &at, size = sizeof at);
	}
	return made;
}

inline std::string to_text(const sockaddr_storage &from)
{
	char host[INET6_ADDRSTRLEN] = "";
	if (from.ss_family == AF_INET6) {
		sockaddr_in6 at;
		std::memcpy(&at, &from, sizeof at);
		inet_ntop(AF_INET6, &at.sin6_addr, host, sizeof host);
		return '[' + std::string(host) + "]:" + std::to_string(ntohs(at.sin6_port));
	}
	sockaddr_in at;
	std::memcpy(&at, &from, sizeof at);
	inet_ntop(AF_INET, &at.sin_addr, host, sizeof host);
	return std::string(host) + ':' + std::to_string(ntohs(at.sin_port));
}

struct datagram {
	std::string bytes;
	std::string from;
};

class udp_peer
{
public:
	explicit udp_peer(const std::string &at = "127.0.0.1:0")
	{
		socklen_t size = 0;
		const auto to = to_sockaddr(at, size);
		fd_ = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		const int room = 8 << 20;
		if (setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0)
			setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
		if (bind(fd_, reinterpret_cast<const sockaddr *>(&to), size) != 0)
			throw std::runtime_error("cannot bind " + at + ": " + std::strerror(errno));
		sockaddr_storage bound{};
		size = sizeof bound;
		getsockname(fd_, reinterpret_cast<sockaddr *>(&bound), &size);
		address_ = to_text(bound);
	}
	udp_peer(const udp_peer &) = delete;
	udp_peer &operator=(const udp_peer &) = delete;
	~udp_peer() { close(); }

	const std::string &address() const { return address_; }
	int fd() const { return fd_; }

	void send(const std::string &to, std::string_view bytes)
	{
		socklen_t size = 0;
		const auto at = to_sockaddr(to, size);
		ssize_t n = 0;
		do
			n = sendto(fd_, bytes.data(), bytes.size(), 0,
				   reinterpret_cast<const sockaddr *>(&at), size);
		while (n < 0 && errno == EINTR);
		if (n != static_cast<ssize_t>(bytes.size()))
			throw std::runtime_error(std::string("cannot send: ") +
						 std::strerror(errno));
	}

	/* Returns nothing if no datagram comes within that time. */
	std::optional<datagram> receive_within(std::chrono::milliseconds time)
	{
		pollfd in{fd_, POLLIN, 0};
		if (poll(&in, 1, static_cast<int>(time.count())) <= 0)
			return std::nullopt;
		static thread_local char buf[70000];
		sockaddr_storage from{};
		socklen_t size = sizeof from;
		const ssize_t n = recvfrom(fd_, buf, sizeof buf, MSG_DONTWAIT,
					   reinterpret_cast<sockaddr *>(&from), &size);
		if (n < 0)
			return std::nullopt;
		return datagram{std::string(buf, static_cast<std::size_t>(n)), to_text(from)};
	}

	datagram receive()
	{
		auto one = receive_within(patience);
		if (!one)
			throw std::runtime_error("no datagram came to " + address_);
		return *std::move(one);
	}

	/* How many datagrams the system has dropped because the buffer was full. */
	std::uint64_t dropped() const
	{
		std::uint32_t counts[SK_MEMINFO_VARS] = {};
		socklen_t size = sizeof counts;
		getsockopt(fd_, SOL_SOCKET, SO_MEMINFO, counts, &size);
		return counts[SK_MEMINFO_DROPS];
	}

	void close()
	{
		if (fd_ >= 0)
			::close(fd_);
		fd_ = -1;
	}

private:
	int fd_ = -1;
	std::string address_;
};

} // namespace harness

#endif
