/* SPDX-License-Identifier: MIT */
/*
 * Connections, listeners, copying between streams and relaying, and waiting for descriptors that
 * the program owns (tcp.h, copy.h, relay.h, fd.h).
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_NET_HPP
#define SENNIT_NET_HPP

#include <sennit/copy.h>
#include <sennit/fd.h>
#include <sennit/relay.h>
#include <sennit/stream.hpp>
#include <sennit/tcp.h>
#include <sennit/time.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>

namespace sennit
{

/*
 * Waits until a descriptor that the program owns, such as a client library's, is ready for POLLIN,
 * POLLOUT and the like (fd.h). Returns the events that it is ready for, at least one. May park.
 */
inline result<int> wait_fd(int fd, int events, time_limit until = no_deadline)
{
	const int ready = sn_fd_wait(fd, events, detail::to_ns(until));
	if (ready < 0)
		return detail::failed(ready);
	return ready;
}

/* The same for several descriptors, as poll(2). Returns how many of them have revents. May park. */
inline result<std::size_t> wait_any_fd(std::span<pollfd> fds, time_limit until = no_deadline)
{
	return detail::size_or_error(sn_fd_wait_any(fds.data(), fds.size(), detail::to_ns(until)));
}

/* Announces that the descriptor is about to be closed, and wakes tasks that wait for it (fd.h).
 * Any thread. */
inline void closing_fd(int fd) noexcept
{
	sn_fd_closing(fd);
}

namespace detail
{

inline sn_stream *stream_of(sn_tcp *conn) noexcept
{
	return sn_tcp_stream(conn);
}

inline void close_listener(sn_tcp_listener *listener) noexcept
{
	sn_tcp_listener_close(listener);
}

} // namespace detail

/*
 * A connection, of TCP or, where the address is "unix:/run/app.sock" or the like, of a Unix socket
 * (tcp.h); the destructor closes it, in good order unless there are bytes of the peer that were not
 * read (sn_stream_close()). stream_ops and unique_handle (stream.hpp) have most of what it can do.
 */
class tcp : public stream_ops<sn_tcp, detail::stream_of>
{
public:
	using stream_ops::stream_ops;

	/* May park. */
	static result<tcp> connect(const std::string &address, time_limit until = no_deadline)
	{
		if (!detail::lacks_zeros(address))
			return unexpected(detail::zero_inside);
		return detail::made<tcp>([&](sn_tcp **conn) {
			return sn_tcp_connect(conn, address.c_str(), detail::to_ns(until));
		});
	}

	/* Waits until both halves have ended in good order, or the connection is reset. May
	 * park. */
	result<void> wait_closed() { return detail::nothing_or_error(sn_tcp_wait_closed(get())); }

	/* The addresses as text. */
	result<std::string> local_address() const
	{
		return detail::text_of<SN_ADDRESS_MAX>(sn_tcp_local_address, get());
	}
	result<std::string> peer_address() const
	{
		return detail::text_of<SN_ADDRESS_MAX>(sn_tcp_peer_address, get());
	}
};

/* A listening socket, of TCP or, by its address, a Unix socket; closes when destroyed. Movable. */
class tcp_listener : public unique_handle<sn_tcp_listener, detail::close_listener>
{
public:
	using unique_handle::unique_handle;

	/* May park. */
	static result<tcp_listener> listen(const std::string &address)
	{
		if (!detail::lacks_zeros(address))
			return unexpected(detail::zero_inside);
		return detail::made<tcp_listener>([&](sn_tcp_listener **listener) {
			return sn_tcp_listen(listener, address.c_str());
		});
	}

	/* Takes over a descriptor that listens already; on failure it stays the caller's. */
	static result<tcp_listener> adopt(int fd)
	{
		return detail::made<tcp_listener>([fd](sn_tcp_listener **listener) {
			return sn_tcp_listener_adopt(listener, fd);
		});
	}

	/* May park. */
	result<tcp> accept()
	{
		return detail::made<tcp>(
			[this](sn_tcp **conn) { return sn_tcp_accept(get(), conn); });
	}

	void set_deadline(time_limit until) noexcept
	{
		sn_tcp_listener_set_deadline(get(), detail::to_ns(until));
	}

	/* The address that the socket is bound to, with the port that the system chose. */
	result<std::string> address() const
	{
		return detail::text_of<SN_ADDRESS_MAX>(sn_tcp_listener_address, get());
	}

	/* The descriptor, which stays this object's; negative when it is closed. */
	int native_handle() const noexcept { return sn_tcp_listener_fd(get()); }
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
		dst.as_stream(), src.as_stream(), -1,
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
	const int err = sn_copy(dst.as_stream(), src.as_stream(), -1, nullptr, nullptr, &done);

	done.error = std::error_code(err < 0 ? -err : 0, std::generic_category());
	return done;
}

/* Limits of relay(); zero is none. */
struct relay_limits {
	std::chrono::nanoseconds idle{0};
	std::chrono::nanoseconds half_close{0};
	const sn_relay_rate_limit *rate_limit = nullptr; /* how fast: struct sn_relay_rate_limit */
	const sn_relay_tuning *tuning = nullptr;         /* unstable.h */
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
	options.rate_limit = limits.rate_limit;
	options.tuning = limits.tuning;
	options.progress = [](void *arg, sn_relay_direction way, std::size_t bytes) noexcept {
		(*static_cast<std::remove_reference_t<Progress> *>(arg))(way, bytes);
	};
	options.arg = const_cast<void *>(static_cast<const void *>(std::addressof(progress)));
	const int err = sn_relay(a.as_stream(), b.as_stream(), &c_result, &options);
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
