/* SPDX-License-Identifier: MIT */
/* The sockets of clients and backends. */
#include "harness.hpp"

#include "harness_failure.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace harness
{
namespace
{

bool is_reset(int err)
{
	/* A socket that has already been read to its end reports a reset as EPIPE. */
	return err == ECONNRESET || err == EPIPE;
}

/* Waits until poll() reports one of the events, or an error. */
short await(int fd, short events, const char *what)
{
	pollfd entry{fd, events, 0};
	for (;;) {
		const int n = poll(&entry, 1, static_cast<int>(patience / 1ms));
		if (n > 0)
			return entry.revents;
		if (n == 0)
			fail(std::string("waited too long for ") + what);
		if (errno != EINTR)
			fail_errno("poll");
	}
}

/* Numeric addresses only. */
struct resolved {
	explicit resolved(const std::string &address)
	{
		const auto colon = address.rfind(':');
		std::string host = address.substr(0, colon);
		if (host.starts_with('['))
			host = host.substr(1, host.size() - 2);
		addrinfo hints{};
		hints.ai_socktype = SOCK_STREAM;
		hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
		if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &list))
			fail("not a numeric address: " + address);
	}
	resolved(const resolved &) = delete;
	resolved &operator=(const resolved &) = delete;
	~resolved() { freeaddrinfo(list); }

	int make_socket() const
	{
		const int fd = ::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			fail_errno("socket");
		return fd;
	}

	addrinfo *list = nullptr;
};

/* "unix:/path" or "unix:@name". */
struct unix_address {
	explicit unix_address(const std::string &address)
	{
		const std::string name = address.substr(5);
		if (name.size() >= sizeof to.sun_path)
			fail("too long an address: " + address);
		to.sun_family = AF_UNIX;
		std::memcpy(to.sun_path, name.data(), name.size());
		if (name.starts_with('@'))
			to.sun_path[0] = '\0';
		size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
	}

	const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&to); }

	static int make_socket()
	{
		const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			fail_errno("socket");
		return fd;
	}

	sockaddr_un to{};
	socklen_t size;
};

} // namespace

peer::peer(int fd) : fd_(fd)
{
	const timeval limit{patience.count(), 0};
	setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

peer &peer::operator=(peer &&other) noexcept
{
	if (this != &other) {
		close();
		fd_ = std::exchange(other.fd_, -1);
	}
	return *this;
}

peer peer::connect(const std::string &address, const std::string &from)
{
	if (address.starts_with("unix:")) {
		const unix_address target(address);
		peer made(unix_address::make_socket());
		if (again([&] { return ::connect(made.fd_, target.get(), target.size); }) < 0)
			fail_errno("connect to " + address);
		return made;
	}
	const resolved target(address);
	peer made(target.make_socket());
	if (!from.empty()) {
		const resolved source(from + ":0");
		if (bind(made.fd_, source.list->ai_addr, source.list->ai_addrlen) < 0)
			fail_errno("bind " + from);
	}
	if (::connect(made.fd_, target.list->ai_addr, target.list->ai_addrlen) < 0) {
		/* An interrupted connect continues in the background. */
		if (errno == EINTR) {
			socklen_t size = sizeof errno;
			await(made.fd_, POLLOUT, "a connection");
			getsockopt(made.fd_, SOL_SOCKET, SO_ERROR, &errno, &size);
		}
		if (errno != 0)
			fail_errno("connect to " + address);
	}
	return made;
}

void peer::send(std::string_view bytes)
{
	while (!bytes.empty()) {
		const ssize_t n = again(
			[&] { return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
		if (n < 0)
			fail_errno("send");
		bytes.remove_prefix(static_cast<std::size_t>(n));
	}
}

std::size_t peer::send_until_stuck()
{
	const std::string chunk(65536, 'x');
	std::size_t sent = 0;
	for (;;) {
		pollfd entry{fd_, POLLOUT, 0};
		if (again([&] { return poll(&entry, 1, 500); }) == 0)
			return sent;
		const ssize_t n =
			::send(fd_, chunk.data(), chunk.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			fail_errno("send");
		sent += n < 0 ? 0 : static_cast<std::size_t>(n);
	}
}

std::string peer::receive(std::size_t exactly)
{
	std::string bytes(exactly, '\0');
	std::size_t have = 0;
	while (have < exactly) {
		const ssize_t n = again([&] { return recv(fd_, &bytes[have], exactly - have, 0); });
		if (n < 0)
			fail_errno("receive, after " + std::to_string(have) + " bytes");
		if (n == 0)
			fail("the stream ended after " + std::to_string(have) + " of " +
			     std::to_string(exactly) + " bytes");
		have += static_cast<std::size_t>(n);
	}
	return bytes;
}

std::pair<std::string, ending> peer::receive_rest()
{
	std::string bytes;
	std::string chunk(65536, '\0');
	for (;;) {
		const ssize_t n = again([&] { return recv(fd_, chunk.data(), chunk.size(), 0); });
		if (n == 0)
			return {std::move(bytes), ending::fin};
		if (n < 0 && is_reset(errno))
			return {std::move(bytes), ending::reset};
		if (n < 0)
			fail_errno("receive the rest, after " + std::to_string(bytes.size()) +
				   " bytes");
		bytes.append(chunk, 0, static_cast<std::size_t>(n));
	}
}

ending peer::receive_end()
{
	const auto [bytes, how] = receive_rest();
	if (!bytes.empty())
		fail("got " + std::to_string(bytes.size()) +
		     " bytes where the stream was to end: " + bytes.substr(0, 64));
	return how;
}

void peer::await_reset()
{
	if (!(await(fd_, 0, "a reset") & POLLERR))
		fail("the connection ended, but not by a reset");
	int err = 0;
	socklen_t size = sizeof err;
	getsockopt(fd_, SOL_SOCKET, SO_ERROR, &err, &size);
	if (!is_reset(err))
		fail(std::string("expected a reset, got: ") + std::strerror(err));
}

void peer::shutdown_write()
{
	if (shutdown(fd_, SHUT_WR) < 0)
		fail_errno("shutdown");
}

void peer::reset()
{
	const linger none{1, 0};
	setsockopt(fd_, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close();
}

void peer::close()
{
	if (fd_ >= 0)
		::close(std::exchange(fd_, -1));
}

listener::listener(const std::string &host, int backlog)
{
	if (host.starts_with("unix:")) {
		const unix_address target(host);
		fd_ = unix_address::make_socket();
		address_ = host;
		if (bind(fd_, target.get(), target.size) < 0) {
			const int err = errno;
			::close(fd_);
			errno = err;
			fail_errno("bind " + host);
		}
		if (backlog >= 0)
			listen(backlog);
		return;
	}
	const resolved target(host + ":0");
	fd_ = target.make_socket();
	sockaddr_storage bound{};
	socklen_t size = sizeof bound;
	if (bind(fd_, target.list->ai_addr, target.list->ai_addrlen) < 0 ||
	    getsockname(fd_, reinterpret_cast<sockaddr *>(&bound), &size) < 0) {
		const int err = errno;
		::close(fd_);
		errno = err;
		fail_errno("bind " + host);
	}
	/* Both families have the port at the same offset of the structure. */
	const auto port = ntohs(reinterpret_cast<const sockaddr_in *>(&bound)->sin_port);
	address_ = host + ":" + std::to_string(port);
	if (backlog >= 0)
		listen(backlog);
}

listener::~listener()
{
	::close(fd_);
}

void listener::listen(int backlog)
{
	if (::listen(fd_, backlog) < 0)
		fail_errno("listen");
}

peer listener::accept()
{
	await(fd_, POLLIN, "a connection");
	const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
	if (fd < 0)
		fail_errno("accept");
	return peer(fd);
}

serving::serving(std::function<void(peer &)> serve, const std::string &host)
    : door_(host), serve_(std::move(serve)), thread_([this] {
	      while (!over_) {
		      try {
			      peer client = door_.accept();
			      serve_(client);
		      } catch (const std::exception &) {
		      }
	      }
      })
{
}

serving::~serving()
{
	over_ = true;
	shutdown(door_.fd(), SHUT_RDWR);
	thread_.join();
}

silent_backend::silent_backend()
{
	const resolved target(address());
	for (;;) {
		const int fd = target.make_socket();
		queue_.emplace_back(fd);
		fcntl(fd, F_SETFL, O_NONBLOCK);
		::connect(fd, target.list->ai_addr, target.list->ai_addrlen);
		/* A backlog of 0 still takes one connection. Wait for that one, because others
		 * would get through while it is being established. */
		pollfd entry{fd, POLLOUT, 0};
		const bool is_first = queue_.size() == 1;
		const int longest = is_first ? static_cast<int>(patience / 1ms) : 300;
		if (again([&] { return poll(&entry, 1, longest); }) == 0)
			return;
		if (queue_.size() > 100)
			fail("a listener with a backlog of 0 takes more and more connections");
	}
}

listener &silent_backend::answer()
{
	full_.listen();
	queue_.clear();
	return full_;
}

} // namespace harness
