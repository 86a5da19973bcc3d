/* SPDX-License-Identifier: MIT */
/*
 * Why a datagram was not passed on: the one list that UDP sessions, the metrics and the manual
 * share. Every datagram that a UDP listener receives, and every answer, is either passed on once or
 * counted under one of these reasons. Users see the names, so they do not change.
 */
#ifndef RELAY_UDP_DROP_HPP
#define RELAY_UDP_DROP_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace relay
{

enum class udp_drop : unsigned char {
	/* Datagrams of a client that has no session and does not get one. */
	refused_list,  /* its address is denied, or is not among those allowed */
	refused_rate,  /* sessions began faster than the rate of the listener or the source */
	refused_limit, /* the limit of sessions of the listener or the source was reached */
	no_backend,    /* no backend is available, or all are full */
	no_room,       /* descriptors, ports or memory have run out, or all places for sessions */
	stopping,      /* the listener serves only the sessions that it has */
	bad_source,    /* nothing can be sent there, or it is the relay's own or a backend's */
	bad_hello,     /* the listener needs QUIC's hello, and there was none in time, or not yet */
	no_route,      /* the hello asks for a name that no group serves */
	/* Of a session. */
	bandwidth,      /* faster than the bandwidth of the listener or the backend */
	too_large,      /* larger than a datagram can be, with the PROXY header */
	backend_failed, /* an earlier datagram did not reach the backend */
	not_sent,       /* the system did not send it, for lack of buffers or for another reason */
	/* The socket's buffer was full, because the relay was too slow for a burst. */
	receive_buffer,
	count_
};

inline constexpr std::size_t udp_drops = static_cast<std::size_t>(udp_drop::count_);

inline constexpr std::array<std::string_view, udp_drops> udp_drop_names = {
	"refused_list", "refused_rate",   "refused_limit", "no_backend",     "no_room",
	"stopping",     "bad_source",     "bad_hello",     "no_route",       "bandwidth",
	"too_large",    "backend_failed", "not_sent",      "receive_buffer",
};

/* Totals of a listener. */
struct datagram_counts {
	bool are_there = false; /* it is a listener of UDP */
	std::uint64_t to_backend = 0;
	std::uint64_t to_client = 0;
	std::array<std::uint64_t, udp_drops> dropped{};
};

} // namespace relay

#endif
