/* SPDX-License-Identifier: MIT */
/*
 * Connections, listeners, streams of any descriptor, copying between them and relaying, and waiting
 * for descriptors that the program owns (tcp.h, stream.h, copy.h, relay.h, poll.h).
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_NET_HPP
#define SENNIT_NET_HPP

#include <sennit/copy.h>
#include <sennit/poll.h>
#include <sennit/relay.h>
#include <sennit/stream.h>
#include <sennit/tcp.h>
#include <sennit/time.hpp>

#include <chrono>
#include <climits>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace sennit
{

namespace detail
{

template <class Get>
result<std::string> address_text(Get get)
{
	char text[SN_ADDRESS_MAX];
	const int length = get(text, sizeof text);
	if (length < 0)
		return detail::failed(length);
	return std::string(text, static_cast<std::size_t>(length));
}

/* The number of pieces for a C call: one that it refuses if there are too many. */
inline int piece_count(std::span<const iovec> pieces) noexcept
{
	return pieces.size() > INT_MAX ? -1 : static_cast<int>(pieces.size());
}

struct tcp_closer {
	void operator()(sn_tcp *conn) const noexcept { sn_tcp_close(conn); }
};

struct listener_closer {
	void operator()(sn_tcp_listener *listener) const noexcept
	{
		sn_tcp_listener_close(listener);
	}
};

} // namespace detail

/*
 * Waits for a descriptor that the program owns, such as a client library's, for POLLIN, POLLOUT and
 * the like (poll.h). The events that it is ready for, at least one. May park.
 */
inline result<int> wait_fd(int fd, int events, time_limit until = no_deadline)
{
	const int ready = sn_fd_wait(fd, events, detail::to_ns(until));
	if (ready < 0)
		return detail::failed(ready);
	return ready;
}

/* The same for several, as poll(2): how many of them have revents. May park. */
inline result<std::size_t> wait_any_fd(std::span<pollfd> fds, time_limit until = no_deadline)
{
	return detail::size_or_error(sn_fd_wait_any(fds.data(), fds.size(), detail::to_ns(until)));
}

/* The descriptor is about to be closed: tasks that wait for it wake (poll.h). Any thread. */
inline void closing_fd(int fd) noexcept
{
	sn_fd_closing(fd);
}

/*
 * A connection, of TCP or, where the address is "unix:/run/app.sock" or the like, of a Unix socket
 * (tcp.h); the destructor closes it in good order. Movable. Any number of tasks may use one
 * object at a time under the rules of tcp.h, but moving, closing, aborting or destroying it must be
 * the last use. On an empty object (default constructed, moved from, closed) only operator bool,
 * close() and abort() may be called.
 */
class tcp
{
public:
	tcp() = default;

	/* Takes over a connection of the C interface. */
	explicit tcp(sn_tcp *owned) noexcept : conn_(owned) {}

	/* May park. */
	static result<tcp> connect(const std::string &address, time_limit until = no_deadline)
	{
		sn_tcp *conn = nullptr;
		const int err = sn_tcp_connect(&conn, address.c_str(), detail::to_ns(until));
		if (err < 0)
			return detail::failed(err);
		return tcp(conn);
	}

	/* At least one byte; 0 is the end of the stream. May park. */
	result<std::size_t> read(void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_tcp_read(conn_.get(), buf, size));
	}
	result<std::size_t> read(std::span<std::byte> buf) { return read(buf.data(), buf.size()); }

	/*
	 * Exactly so many bytes; fewer only at the end of the stream. With an error all that were
	 * read before are in buf: *done, if it is given, says how many, and the same call continues
	 * (sn_stream_read_full()). May park.
	 */
	result<std::size_t> read_full(void *buf, std::size_t size, std::size_t *done = nullptr)
	{
		return detail::size_or_error(sn_tcp_read_full(conn_.get(), buf, size, done));
	}
	result<std::size_t> read_full(std::span<std::byte> buf, std::size_t *done = nullptr)
	{
		return read_full(buf.data(), buf.size(), done);
	}

	/* As read(), into several pieces of memory: at most IOV_MAX. May park. */
	result<std::size_t> readv(std::span<const iovec> pieces)
	{
		return detail::size_or_error(
			sn_tcp_readv(conn_.get(), pieces.data(), detail::piece_count(pieces)));
	}

	/* Some of the bytes, at least one. May park. */
	result<std::size_t> write(const void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_tcp_write(conn_.get(), buf, size));
	}
	result<std::size_t> write(std::span<const std::byte> bytes)
	{
		return write(bytes.data(), bytes.size());
	}

	/* As write(), from several pieces of memory: at most IOV_MAX. May park. */
	result<std::size_t> writev(std::span<const iovec> pieces)
	{
		return detail::size_or_error(
			sn_tcp_writev(conn_.get(), pieces.data(), detail::piece_count(pieces)));
	}

	/* All of the bytes. May park. */
	result<void> write_all(const void *buf, std::size_t size)
	{
		return detail::nothing_or_error(sn_tcp_write_all(conn_.get(), buf, size, nullptr));
	}
	result<void> write_all(std::string_view text)
	{
		return write_all(text.data(), text.size());
	}
	result<void> write_all(std::span<const std::byte> bytes)
	{
		return write_all(bytes.data(), bytes.size());
	}

	/*
	 * All bytes of several pieces of memory, of which there may be any number. *done, if it is
	 * given, is how many were written, also with an error, after which the same call continues
	 * (sn_stream_writev_all()). May park.
	 */
	result<void> writev_all(std::span<const iovec> pieces, std::size_t *done = nullptr)
	{
		return detail::nothing_or_error(sn_tcp_writev_all(
			conn_.get(), pieces.data(), detail::piece_count(pieces), done));
	}

	/* Sends the end of the stream; reading continues. */
	result<void> shutdown_write()
	{
		return detail::nothing_or_error(sn_tcp_shutdown(conn_.get(), SN_SHUT_WRITE));
	}

	/* Reads return 0 from now on; writing continues. */
	result<void> shutdown_read()
	{
		return detail::nothing_or_error(sn_tcp_shutdown(conn_.get(), SN_SHUT_READ));
	}

	/* Waits until both halves have ended in good order, or the connection was reset. May
	 * park. */
	result<void> wait_closed()
	{
		return detail::nothing_or_error(sn_tcp_wait_closed(conn_.get()));
	}

	/* In good order. */
	void close() noexcept { conn_.reset(); }

	/* With a reset. */
	void abort() noexcept
	{
		if (conn_)
			sn_tcp_abort(conn_.release());
	}

	/* Makes every call fail with std::errc::operation_canceled, from now on. Any task. */
	void cancel() noexcept { sn_tcp_cancel(conn_.get()); }

	void set_read_deadline(time_limit until) noexcept
	{
		sn_tcp_set_read_deadline(conn_.get(), detail::to_ns(until));
	}
	void set_write_deadline(time_limit until) noexcept
	{
		sn_tcp_set_write_deadline(conn_.get(), detail::to_ns(until));
	}

	result<std::string> local_address() const
	{
		return detail::address_text([this](char *text, std::size_t size) {
			return sn_tcp_local_address(conn_.get(), text, size);
		});
	}
	result<std::string> peer_address() const
	{
		return detail::address_text([this](char *text, std::size_t size) {
			return sn_tcp_peer_address(conn_.get(), text, size);
		});
	}

	explicit operator bool() const noexcept { return conn_ != nullptr; }

	/* The connection for calls of the C interface; it still belongs to this object. */
	sn_tcp *get() const noexcept { return conn_.get(); }

private:
	std::unique_ptr<sn_tcp, detail::tcp_closer> conn_;
};

/* A listening socket, of TCP or, by its address, a Unix socket; closes when destroyed. Movable. */
class tcp_listener
{
public:
	tcp_listener() = default;

	/* Takes over a listener of the C interface. */
	explicit tcp_listener(sn_tcp_listener *owned) noexcept : listener_(owned) {}

	/* May park. */
	static result<tcp_listener> listen(const std::string &address)
	{
		sn_tcp_listener *listener = nullptr;
		const int err = sn_tcp_listen(&listener, address.c_str());
		if (err < 0)
			return detail::failed(err);
		return tcp_listener(listener);
	}

	/* Takes over a descriptor that listens already; on failure it stays the caller's. */
	static result<tcp_listener> adopt(int fd)
	{
		sn_tcp_listener *listener = nullptr;
		const int err = sn_tcp_listener_adopt(&listener, fd);
		if (err < 0)
			return detail::failed(err);
		return tcp_listener(listener);
	}

	/* May park. */
	result<tcp> accept()
	{
		sn_tcp *conn = nullptr;
		const int err = sn_tcp_accept(listener_.get(), &conn);
		if (err < 0)
			return detail::failed(err);
		return tcp(conn);
	}

	void set_deadline(time_limit until) noexcept
	{
		sn_tcp_listener_set_deadline(listener_.get(), detail::to_ns(until));
	}

	/* The address it is bound to, with the port that the system chose. */
	result<std::string> address() const
	{
		return detail::address_text([this](char *text, std::size_t size) {
			return sn_tcp_listener_address(listener_.get(), text, size);
		});
	}

	void close() noexcept { listener_.reset(); }
	explicit operator bool() const noexcept { return listener_ != nullptr; }
	sn_tcp_listener *get() const noexcept { return listener_.get(); }

private:
	std::unique_ptr<sn_tcp_listener, detail::listener_closer> listener_;
};

/* ---- streams ---- */

class unix_socket;

namespace detail
{

/* In unix.hpp, which includes this header. */
inline sn_stream *as_stream(const unix_socket &each) noexcept;

struct stream_closer {
	void operator()(sn_stream *stream) const noexcept { sn_stream_close(stream); }
};

} // namespace detail

/* Any descriptor that carries bytes: sn_stream. Closed by the destructor. */
class stream
{
public:
	stream() = default;

	/* Takes over a stream of the C interface. */
	explicit stream(sn_stream *owned) noexcept : stream_(owned) {}

	/* Takes over a descriptor; on failure it stays the caller's. */
	static result<stream> adopt(int fd)
	{
		sn_stream *adopted = nullptr;
		const int err = sn_stream_adopt(&adopted, fd);
		if (err < 0)
			return detail::failed(err);
		return stream(adopted);
	}

	/* At least one byte; 0 is the end of the stream. May park. */
	result<std::size_t> read(void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_stream_read(stream_.get(), buf, size));
	}
	result<std::size_t> read(std::span<std::byte> buf) { return read(buf.data(), buf.size()); }

	/*
	 * Exactly so many bytes; fewer only at the end of the stream. With an error all that were
	 * read before are in buf: *done, if it is given, says how many, and the same call continues
	 * (sn_stream_read_full()). May park.
	 */
	result<std::size_t> read_full(void *buf, std::size_t size, std::size_t *done = nullptr)
	{
		return detail::size_or_error(sn_stream_read_full(stream_.get(), buf, size, done));
	}
	result<std::size_t> read_full(std::span<std::byte> buf, std::size_t *done = nullptr)
	{
		return read_full(buf.data(), buf.size(), done);
	}

	/* As read(), into several pieces of memory: at most IOV_MAX. May park. */
	result<std::size_t> readv(std::span<const iovec> pieces)
	{
		return detail::size_or_error(
			sn_stream_readv(stream_.get(), pieces.data(), detail::piece_count(pieces)));
	}

	/* Some of the bytes, at least one. May park. */
	result<std::size_t> write(const void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_stream_write(stream_.get(), buf, size));
	}
	result<std::size_t> write(std::span<const std::byte> bytes)
	{
		return write(bytes.data(), bytes.size());
	}

	/* As write(), from several pieces of memory: at most IOV_MAX. May park. */
	result<std::size_t> writev(std::span<const iovec> pieces)
	{
		return detail::size_or_error(sn_stream_writev(stream_.get(), pieces.data(),
							      detail::piece_count(pieces)));
	}

	/* All of the bytes. May park. */
	result<void> write_all(const void *buf, std::size_t size)
	{
		return detail::nothing_or_error(
			sn_stream_write_all(stream_.get(), buf, size, nullptr));
	}
	result<void> write_all(std::string_view text)
	{
		return write_all(text.data(), text.size());
	}
	result<void> write_all(std::span<const std::byte> bytes)
	{
		return write_all(bytes.data(), bytes.size());
	}

	/*
	 * All bytes of several pieces of memory, of which there may be any number. *done, if it is
	 * given, is how many were written, also with an error, after which the same call continues
	 * (sn_stream_writev_all()). May park.
	 */
	result<void> writev_all(std::span<const iovec> pieces, std::size_t *done = nullptr)
	{
		return detail::nothing_or_error(sn_stream_writev_all(
			stream_.get(), pieces.data(), detail::piece_count(pieces), done));
	}

	result<void> shutdown_write()
	{
		return detail::nothing_or_error(sn_stream_shutdown(stream_.get(), SN_SHUT_WRITE));
	}

	void set_read_deadline(time_limit until) noexcept
	{
		sn_stream_set_read_deadline(stream_.get(), detail::to_ns(until));
	}

	void set_write_deadline(time_limit until) noexcept
	{
		sn_stream_set_write_deadline(stream_.get(), detail::to_ns(until));
	}

	void cancel() noexcept { sn_stream_cancel(stream_.get()); }
	void close() noexcept { stream_.reset(); }

	sn_stream *get() const noexcept { return stream_.get(); }
	explicit operator bool() const noexcept { return stream_ != nullptr; }

private:
	std::unique_ptr<sn_stream, detail::stream_closer> stream_;
};

namespace detail
{

inline sn_stream *as_stream(const stream &each) noexcept
{
	return each.get();
}

inline sn_stream *as_stream(const tcp &each) noexcept
{
	return sn_tcp_stream(each.get());
}

} // namespace detail

/* A stream or a connection. */
template <class T>
concept byte_stream = requires(const T &each)
{
	detail::as_stream(each);
};

/* ---- copying ---- */

/* The outcome of copy(): struct sn_copy_result, with the error that ended it, if one did. */
struct copied : sn_copy_result {
	std::error_code error;

	/* Whether the end of the stream was reached. */
	explicit operator bool() const noexcept { return !error; }
};

/*
 * Copies from src to dst until the end of the stream. progress(std::size_t) is called after each
 * chunk that was delivered; it must not park and must not throw. May park.
 */
template <byte_stream Dst, byte_stream Src, class Progress>
requires std::invocable<Progress &, std::size_t> copied copy(Dst &dst, Src &src,
							     Progress &&progress)
{
	copied done{};
	const int err = sn_copy(
		detail::as_stream(dst), detail::as_stream(src), -1,
		[](void *arg, std::size_t bytes) noexcept {
			(*static_cast<std::remove_reference_t<Progress> *>(arg))(bytes);
		},
		const_cast<void *>(static_cast<const void *>(std::addressof(progress))), &done);

	done.error = std::error_code(err < 0 ? -err : 0, std::generic_category());
	return done;
}

/* The same without progress reports. */
template <byte_stream Dst, byte_stream Src>
copied copy(Dst &dst, Src &src)
{
	copied done{};
	const int err = sn_copy(detail::as_stream(dst), detail::as_stream(src), -1, nullptr,
				nullptr, &done);

	done.error = std::error_code(err < 0 ? -err : 0, std::generic_category());
	return done;
}

/* Limits of relay(); zero is none. */
struct relay_limits {
	std::chrono::nanoseconds idle{0};
	std::chrono::nanoseconds half_close{0};
	const sn_relay_pace *pace = nullptr;     /* how fast: struct sn_relay_pace */
	const sn_relay_tuning *tuning = nullptr; /* unstable.h */
};

/* The outcome of relay(): struct sn_relay_result, whose `error` is an error code here. */
struct relayed {
	sn_copy_result a_to_b{}, b_to_a{};
	sn_relay_end end = SN_RELAY_FINISHED;
	bool lost_bytes = false;
	int side = -1; /* the side that caused the end: 0 a, 1 b, -1 neither */
	std::error_code error;

	/* Whether both streams ended in good order. */
	explicit operator bool() const noexcept { return !error; }
};

/*
 * Passes bytes on in both directions: sn_relay(). progress(sn_relay_direction, std::size_t) is
 * called after each chunk that was delivered, from either of two tasks; it must not park and must
 * not throw. May park.
 */
template <byte_stream A, byte_stream B, class Progress>
requires std::invocable<Progress &, sn_relay_direction, std::size_t>
	relayed relay(A &a, B &b, const relay_limits &limits, Progress &&progress)
{
	sn_relay_options options{};
	sn_relay_result c_result{};
	relayed done;

	options.idle_timeout = limits.idle.count();
	options.half_close_timeout = limits.half_close.count();
	options.pace = limits.pace;
	options.tuning = limits.tuning;
	options.progress = [](void *arg, sn_relay_direction way, std::size_t bytes) noexcept {
		(*static_cast<std::remove_reference_t<Progress> *>(arg))(way, bytes);
	};
	options.arg = const_cast<void *>(static_cast<const void *>(std::addressof(progress)));
	const int err = sn_relay(detail::as_stream(a), detail::as_stream(b), &c_result, &options);
	done.a_to_b = c_result.directions[SN_RELAY_A_TO_B];
	done.b_to_a = c_result.directions[SN_RELAY_B_TO_A];
	done.end = c_result.end;
	done.lost_bytes = c_result.lost != 0;
	done.side = c_result.side;
	done.error = std::error_code(err < 0 ? -err : 0, std::generic_category());
	return done;
}

/* The same without progress reports. */
template <byte_stream A, byte_stream B>
relayed relay(A &a, B &b, const relay_limits &limits = {})
{
	return relay(a, b, limits, [](sn_relay_direction, std::size_t) noexcept {});
}

} // namespace sennit

#endif
