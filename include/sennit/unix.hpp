/* SPDX-License-Identifier: MIT */
/*
 * Unix sockets (unix.h): streams of bytes, connections that carry messages, and datagrams, by a
 * path or an abstract name.
 *
 * Threads outside the runtime and signal handlers: what the C header says of the calls underneath.
 */
#ifndef SENNIT_UNIX_HPP
#define SENNIT_UNIX_HPP

#include <sennit/stream.hpp>
#include <sennit/unix.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

namespace sennit
{

/* The type of a Unix socket. */
enum class unix_type : int {
	stream = SN_UNIX_STREAM,
	seqpacket = SN_UNIX_SEQPACKET,
	datagram = SN_UNIX_DATAGRAM,
};

/* How an address is taken: struct sn_unix_options. */
struct unix_options {
	unix_type type = unix_type::stream;
	int mode = 0; /* permission bits of a path, such as 0660; 0: what the umask allows */
};

namespace detail
{

inline sn_stream *stream_of(sn_unix *socket) noexcept
{
	return sn_unix_stream(socket);
}

inline void close_listener(sn_unix_listener *listener) noexcept
{
	sn_unix_listener_close(listener);
}

/* Refuses a string that contains a zero, which would end the address for the C call: "" is
 * -EINVAL. */
inline const char *unix_address(const std::string &address) noexcept
{
	return address.find('\0') == std::string::npos ? address.c_str() : "";
}

} // namespace detail

/* Descriptors that were received, close-on-exec. The destructor closes those that were not
 * taken. */
class received_fds
{
public:
	received_fds() = default;
	received_fds(received_fds &&other) noexcept : fds_(std::exchange(other.fds_, {})) {}
	received_fds &operator=(received_fds &&other) noexcept
	{
		std::swap(fds_, other.fds_);
		return *this;
	}
	received_fds(const received_fds &) = delete;
	received_fds &operator=(const received_fds &) = delete;
	~received_fds()
	{
		for (const int fd : fds_)
			if (fd >= 0)
				::close(fd);
	}

	std::size_t size() const noexcept { return fds_.size(); }
	bool empty() const noexcept { return fds_.empty(); }

	/* The descriptor of that index, which stays this object's; -1 once it was taken. */
	int operator[](std::size_t i) const noexcept { return fds_[i]; }

	/* Hands the descriptor of that index to the caller, who closes it. */
	int take(std::size_t i) noexcept { return std::exchange(fds_[i], -1); }

private:
	friend class unix_socket;
	std::vector<int> fds_;
};

/* What recv() has received. */
struct unix_message {
	std::size_t size = 0; /* bytes in the caller's memory */
	received_fds fds;
	std::string from; /* the sender of a datagram; empty: it has no address */
};

/*
 * A Unix socket that is not a listener; the destructor closes it, and removes the path that bind()
 * has made. stream_ops and unique_handle (stream.hpp) have what it shares with other streams.
 */
class unix_socket : public stream_ops<sn_unix, detail::stream_of>
{
public:
	using stream_ops::stream_ops;

	/* "/run/app.sock", "@name", either with "unix:" before it. May park. */
	static result<unix_socket> connect(const std::string &address,
					   time_limit until = no_deadline,
					   unix_type type = unix_type::stream)
	{
		return detail::made<unix_socket>([&](sn_unix **made) {
			return sn_unix_connect(made, detail::unix_address(address),
					       static_cast<sn_unix_type>(type),
					       detail::to_ns(until));
		});
	}

	/* Opens a datagram socket at an address. May park. */
	static result<unix_socket> bind(const std::string &address, int mode = 0)
	{
		sn_unix_options options = {};
		options.type = SN_UNIX_DATAGRAM;
		options.mode = mode;
		return detail::made<unix_socket>([&](sn_unix **made) {
			return sn_unix_bind(made, detail::unix_address(address), &options);
		});
	}

	/* Makes two sockets that are connected to each other. */
	static result<std::pair<unix_socket, unix_socket>> pair(unix_type type = unix_type::stream)
	{
		sn_unix *ends[2];
		const int err = sn_unix_pair(ends, static_cast<sn_unix_type>(type));
		if (err < 0)
			return detail::failed(err);
		return std::pair(unix_socket(ends[0]), unix_socket(ends[1]));
	}

	/* Takes over a descriptor; on failure it stays the caller's. */
	static result<unix_socket> adopt(int fd)
	{
		return detail::made<unix_socket>(
			[&](sn_unix **made) { return sn_unix_adopt(made, fd); });
	}

	/* ---- messages, and descriptors with the bytes of a stream ---- */

	/*
	 * Receives a message, or on a stream some bytes, and up to `most_fds` descriptors. If the
	 * message has more bytes or descriptors than there is room for, the call fails with
	 * std::errc::message_size, and the message is lost (sn_unix_recv()). May park.
	 */
	result<unix_message> recv(void *buf, std::size_t size, std::size_t most_fds = 0)
	{
		char from[SN_UNIX_ADDRESS_MAX];
		unix_message got;
		sn_unix_message message{};

		got.fds.fds_.resize(most_fds < SN_UNIX_FDS_MAX ? most_fds : SN_UNIX_FDS_MAX, -1);
		message.data = buf;
		message.size = size;
		message.fds = got.fds.fds_.data();
		message.fd_count = static_cast<int>(got.fds.size());
		message.from = from;
		message.from_size = sizeof from;
		const ssize_t n = sn_unix_recv(get(), &message);
		if (n < 0)
			return detail::failed(n);
		got.size = static_cast<std::size_t>(n);
		got.fds.fds_.resize(static_cast<std::size_t>(message.fd_count));
		got.from = from;
		return got;
	}
	result<unix_message> recv(std::span<std::byte> buf, std::size_t most_fds = 0)
	{
		return recv(buf.data(), buf.size(), most_fds);
	}

	/*
	 * Sends a whole message, or some of a stream's bytes, with the descriptors, which stay the
	 * caller's. Returns the number of bytes. May park.
	 */
	result<std::size_t> send(const void *buf, std::size_t size, std::span<const int> fds = {})
	{
		return send_message(buf, size, fds, nullptr);
	}
	result<std::size_t> send(std::string_view text, std::span<const int> fds = {})
	{
		return send(text.data(), text.size(), fds);
	}

	/* Sends a datagram to an address. May park. */
	result<std::size_t> send_to(const std::string &address, std::string_view text,
				    std::span<const int> fds = {})
	{
		return send_message(text.data(), text.size(), fds, detail::unix_address(address));
	}

	/* ---- what is known ---- */

	/* The address as text; empty when there is none. */
	result<std::string> local_address() const
	{
		return detail::text_of<SN_UNIX_ADDRESS_MAX>(sn_unix_local_address, get());
	}
	result<std::string> peer_address() const
	{
		return detail::text_of<SN_UNIX_ADDRESS_MAX>(sn_unix_peer_address, get());
	}

	/* The identity of a connection's peer, as the kernel reports it. */
	result<sn_unix_credentials> peer_credentials() const
	{
		sn_unix_credentials peer{};
		const int err = sn_unix_peer_credentials(get(), &peer);
		if (err < 0)
			return detail::failed(err);
		return peer;
	}

	/* A pidfd of that process, which the caller closes (Linux 6.5). */
	result<int> peer_pidfd() const
	{
		const int fd = sn_unix_peer_pidfd(get());
		if (fd < 0)
			return detail::failed(fd);
		return fd;
	}

private:
	result<std::size_t> send_message(const void *buf, std::size_t size,
					 std::span<const int> fds, const char *to)
	{
		sn_unix_message message{};

		/* The C call refuses more, and changes neither the bytes nor the descriptors. */
		message.data = const_cast<void *>(buf);
		message.size = size;
		message.fds = const_cast<int *>(fds.data());
		message.fd_count = static_cast<int>(
			fds.size() <= SN_UNIX_FDS_MAX ? fds.size() : SN_UNIX_FDS_MAX + 1);
		message.to = to;
		return detail::size_or_error(sn_unix_send(get(), &message));
	}
};

/* A listening Unix socket; closes when destroyed, and removes its path. Movable. */
class unix_listener : public unique_handle<sn_unix_listener, detail::close_listener>
{
public:
	using unique_handle::unique_handle;

	/* May park. */
	static result<unix_listener> listen(const std::string &address,
					    const unix_options &options = {})
	{
		sn_unix_options c_options = {};
		c_options.type = static_cast<sn_unix_type>(options.type);
		c_options.mode = options.mode;
		return detail::made<unix_listener>([&](sn_unix_listener **made) {
			return sn_unix_listen(made, detail::unix_address(address), &c_options);
		});
	}

	/* Takes over a descriptor that listens already; on failure it stays the caller's. */
	static result<unix_listener> adopt(int fd)
	{
		return detail::made<unix_listener>(
			[&](sn_unix_listener **made) { return sn_unix_listener_adopt(made, fd); });
	}

	/* May park. */
	result<unix_socket> accept()
	{
		return detail::made<unix_socket>(
			[&](sn_unix **made) { return sn_unix_accept(get(), made); });
	}

	void set_deadline(time_limit until) noexcept
	{
		sn_unix_listener_set_deadline(get(), detail::to_ns(until));
	}

	/* The address it is bound to, with the name that the system chose. */
	result<std::string> address() const
	{
		return detail::text_of<SN_UNIX_ADDRESS_MAX>(sn_unix_listener_address, get());
	}

	/* Sets whether closing removes the path. Returns the previous setting:
	 * sn_unix_listener_set_unlink(). */
	result<bool> set_unlink(bool on)
	{
		const int before = sn_unix_listener_set_unlink(get(), on);
		if (before < 0)
			return detail::failed(before);
		return before != 0;
	}

	/* The descriptor, which stays this object's; negative when it is closed. */
	int native_handle() const noexcept { return sn_unix_listener_fd(get()); }
};

} // namespace sennit

#endif
