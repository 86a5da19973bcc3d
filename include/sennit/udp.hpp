/* SPDX-License-Identifier: MIT */
/*
 * UDP sockets (udp.h).
 *
 * A sn::udp owns a socket; its destructor closes it, which only a task can do. Any number of tasks
 * may receive and send through one object at the same time, but moving, closing or destroying it
 * must be the last use of it. The memory of datagrams is the caller's: a call reads or fills it,
 * and keeps no pointer to it.
 *
 * Opening by name, connecting, receiving and sending may park; nothing else does. All errors are
 * results.
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_UDP_HPP
#define SENNIT_UDP_HPP

#include <sennit/address.hpp>
#include <sennit/stream.hpp>
#include <sennit/udp.h>

#include <optional>
#include <string_view>

namespace sennit
{

/* What udp::receive() returns. */
struct received {
	std::size_t size; /* of the datagram */
	address peer;     /* its sender */
};

/* A datagram and what is known about it or wanted for it: struct sn_udp_message. */
using udp_message = sn_udp_message;
/* How a socket is opened: struct sn_udp_options. */
using udp_options = sn_udp_options;
/* What the network has reported of a datagram that was sent earlier: struct sn_udp_error. */
using udp_error = sn_udp_error;

namespace detail
{

inline void close_udp(sn_udp *socket) noexcept
{
	sn_udp_close(socket);
}

} // namespace detail

/* A UDP socket; closes when destroyed. Movable. */
class udp : public unique_handle<sn_udp, detail::close_udp>
{
public:
	using unique_handle::get;
	using unique_handle::unique_handle;

	/* Opens a socket for many peers, at an address such as ":53". May park. */
	static result<udp> open(const std::string &at, const udp_options &options = {})
	{
		if (!detail::lacks_zeros(at))
			return unexpected(detail::zero_inside);
		return detail::made<udp>(
			[&](sn_udp **made) { return sn_udp_open(made, at.c_str(), &options); });
	}
	static result<udp> open(const address &at, const udp_options &options = {})
	{
		return detail::made<udp>(
			[&](sn_udp **made) { return sn_udp_open_at(made, &at, &options); });
	}

	/* Opens a socket for one peer. The deadline limits the lookup of its name. May park. */
	static result<udp> connect(const std::string &peer, time_limit until = no_deadline,
				   const udp_options &options = {})
	{
		if (!detail::lacks_zeros(peer))
			return unexpected(detail::zero_inside);
		return detail::made<udp>([&](sn_udp **made) {
			return sn_udp_connect(made, peer.c_str(), &options, detail::to_ns(until));
		});
	}

	/* Takes over a descriptor; on failure it stays the caller's. */
	static result<udp> adopt(int fd, const udp_options &options = {})
	{
		return detail::made<udp>(
			[&](sn_udp **made) { return sn_udp_adopt(made, fd, &options); });
	}

	/* Receives one datagram. Fails with std::errc::message_size when it is larger than the
	 * buffer. May park. */
	result<received> receive(void *buf, std::size_t size)
	{
		address peer;
		const ssize_t n = sn_udp_recv(get(), buf, size, &peer);
		if (n < 0)
			return detail::failed(n);
		return received{static_cast<std::size_t>(n), peer};
	}

	/* Receives one datagram, and what else has arrived. Returns how many. May park. */
	result<std::size_t> receive(std::span<udp_message> messages)
	{
		return detail::size_or_error(
			sn_udp_recv_messages(get(), messages.data(), messages.size()));
	}

	/* Sends one datagram, to a peer, or to the socket's one peer. May park. */
	result<void> send(const void *buf, std::size_t size, const address &peer)
	{
		return detail::nothing_or_error(
			static_cast<long>(sn_udp_send(get(), buf, size, &peer)));
	}
	result<void> send(const void *buf, std::size_t size)
	{
		return detail::nothing_or_error(
			static_cast<long>(sn_udp_send(get(), buf, size, nullptr)));
	}
	result<void> send(std::string_view bytes, const address &peer)
	{
		return send(bytes.data(), bytes.size(), peer);
	}
	result<void> send(std::string_view bytes) { return send(bytes.data(), bytes.size()); }

	/* Sends all messages, or those before the first that fails. Returns how many. May park. */
	result<std::size_t> send(std::span<const udp_message> messages)
	{
		return detail::size_or_error(
			sn_udp_send_messages(get(), messages.data(), messages.size()));
	}

	/* The oldest error that the network has reported, if there is one: SN_UDP_ERRORS. */
	result<std::optional<udp_error>> next_error()
	{
		udp_error error;
		const int n = sn_udp_next_error(get(), &error);
		if (n < 0)
			return detail::failed(n);
		return n > 0 ? std::optional<udp_error>(error) : std::nullopt;
	}

	result<void> set(sn_udp_setting setting, int value)
	{
		return detail::nothing_or_error(sn_udp_set(get(), setting, value));
	}
	/* A setting's value. */
	result<int> get(sn_udp_setting setting) const
	{
		const int value = sn_udp_get(get(), setting);
		if (value < 0)
			return detail::failed(value);
		return value;
	}

	/* Joins and leaves multicast groups, on the interface with that index; 0: by the routes. */
	result<void> join(const address &group, unsigned interface = 0)
	{
		return detail::nothing_or_error(sn_udp_join(get(), &group, interface));
	}
	result<void> leave(const address &group, unsigned interface = 0)
	{
		return detail::nothing_or_error(sn_udp_leave(get(), &group, interface));
	}

	/* Makes the socket one for this peer, in place of an earlier one, or one for many again. */
	result<void> set_peer(const address &peer)
	{
		return detail::nothing_or_error(sn_udp_set_peer(get(), &peer));
	}
	result<void> clear_peer()
	{
		return detail::nothing_or_error(sn_udp_set_peer(get(), nullptr));
	}

	result<address> local() const
	{
		address at;
		const int err = sn_udp_local(get(), &at);
		if (err < 0)
			return detail::failed(err);
		return at;
	}
	result<address> peer() const
	{
		address at;
		const int err = sn_udp_peer(get(), &at);
		if (err < 0)
			return detail::failed(err);
		return at;
	}

	void set_read_deadline(time_limit until) noexcept
	{
		sn_udp_set_read_deadline(get(), detail::to_ns(until));
	}
	void set_write_deadline(time_limit until) noexcept
	{
		sn_udp_set_write_deadline(get(), detail::to_ns(until));
	}

	/* Makes calls that receive or send fail with std::errc::operation_canceled, from now on.
	 * Any task. */
	void cancel() noexcept { sn_udp_cancel(get()); }

	/* The descriptor, which stays this object's; negative when it is closed. */
	int native_handle() const noexcept { return sn_udp_fd(get()); }
};

} // namespace sennit

#endif
