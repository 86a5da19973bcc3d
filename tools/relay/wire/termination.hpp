/* SPDX-License-Identifier: MIT */
/*
 * Why a connection ended: the one list that the session, the access log, the metrics and the manual
 * share. Every accepted connection ends with exactly one of these causes, so their counts add up to
 * the number of ended connections. Users see the names, so they do not change.
 */
#ifndef RELAY_TERMINATION_HPP
#define RELAY_TERMINATION_HPP

#include <array>
#include <cstddef>
#include <string_view>

namespace relay
{

enum class termination : unsigned char {
	/* In good order, with every byte delivered. The name says whose stream ended first. */
	client_end,
	server_end,
	/* A connection was reset or failed. The name says whose. */
	client_reset,
	server_reset,
	/* Time limits, and decisions about connections that are in order. */
	idle_timeout,       /* no byte moved in either direction */
	half_close_timeout, /* no byte moved after one stream had ended */
	backend_down,       /* the backend's checks failed, and its connections are not kept */
	lifetime,           /* it was open for its whole lifetime */
	killed,             /* the control server was asked to end it */
	hello_timeout,      /* a PROXY header or TLS hello did not arrive in time */
	/* The connection never had a backend. */
	connect_failed,   /* every backend that was tried refused, or did not answer in time */
	no_backend,       /* no backend was available */
	no_route,         /* no group for the server name, and there is no default */
	bad_proxy_header, /* cut off, too long, malformed, or missing where it is required */
	bad_tls_hello,    /* malformed, too long, or not TLS, where a name is needed */
	tls_timeout,      /* the TLS handshake with the client was not complete in time */
	tls_failed,       /* the handshake failed, or the client's certificate was refused */
	client_left,      /* the client ended before it was connected */
	refused_limit,    /* the limit of the listener, the backend or the source was reached */
	refused_list,     /* its address is denied, or is not among those allowed */
	queue_full,       /* every backend was full, and too many clients waited already */
	queue_timeout,    /* it waited too long for a place at a backend */
	refused_rate,     /* connections came faster than the listener's rate */
	no_memory,        /* memory, or another resource of the system, was missing */
	/* The relay shut down. */
	drained, /* ended in good order, while draining */
	cut,     /* reset when the drain time was over */
	count_   /* how many there are; not a cause */
};

inline constexpr std::size_t terminations = static_cast<std::size_t>(termination::count_);

inline constexpr std::array<std::string_view, terminations> termination_names = {
	"client_end",     "server_end",
	"client_reset",   "server_reset",
	"idle_timeout",   "half_close_timeout",
	"backend_down",   "lifetime",
	"killed",         "hello_timeout",
	"connect_failed", "no_backend",
	"no_route",       "bad_proxy_header",
	"bad_tls_hello",  "tls_timeout",
	"tls_failed",     "client_left",
	"refused_limit",  "refused_list",
	"queue_full",     "queue_timeout",
	"refused_rate",   "no_memory",
	"drained",        "cut",
};

constexpr std::string_view to_string(termination why) noexcept
{
	return termination_names[static_cast<std::size_t>(why)];
}

} // namespace relay

#endif
