/* SPDX-License-Identifier: MIT */
/*
 * Why a connection ended: the one list that the session, the access log, the metrics and the manual
 * share. Every connection that was accepted ends with exactly one of them, so their counts add up
 * to the connections that are over. Names are what users see; they do not change.
 */
#ifndef RELAY_TERMINATION_HPP
#define RELAY_TERMINATION_HPP

#include <array>
#include <cstddef>
#include <string_view>

namespace relay
{

enum class termination : unsigned char {
	/* In good order: both streams ended and every byte was delivered. Which ended first. */
	client_end,
	server_end,
	/* A connection was reset or failed: which side's. */
	client_reset,
	server_reset,
	/* Time limits. */
	idle_timeout,       /* no byte in either direction */
	half_close_timeout, /* nor after one stream's end */
	lifetime,           /* it was open for as long as one may be */
	hello_timeout,      /* what routing needs (PROXY header, TLS hello) did not come in time */
	/* It never had a backend. */
	connect_failed,   /* every backend that was tried refused, or was silent too long */
	no_backend,       /* none that is fit to be tried */
	no_route,         /* the server name is nobody's, and there is no default */
	bad_proxy_header, /* cut off, too long, malformed, or missing where it is required */
	bad_tls_hello,    /* malformed, too long, or no TLS at all, where a name is needed */
	client_left,      /* it ended before it was connected */
	refused_limit,    /* as many connections as there may be: listener, backend or source */
	refused_list,     /* its address is denied, or is not among those allowed */
	refused_rate,     /* more connections in a time than there may be */
	no_memory,        /* or another thing that the system ran out of */
	/* The relay's own end. */
	drained, /* ended in good order, while draining */
	cut,   /* reset when the drain's time was over, or by a reload that took its backend away */
	count_ /* how many there are; not a cause */
};

inline constexpr std::size_t terminations = static_cast<std::size_t>(termination::count_);

inline constexpr std::array<std::string_view, terminations> termination_names = {
	"client_end",     "server_end",         "client_reset",  "server_reset",
	"idle_timeout",   "half_close_timeout", "lifetime",      "hello_timeout",
	"connect_failed", "no_backend",         "no_route",      "bad_proxy_header",
	"bad_tls_hello",  "client_left",        "refused_limit", "refused_list",
	"refused_rate",   "no_memory",          "drained",       "cut",
};

constexpr std::string_view to_string(termination why) noexcept
{
	return termination_names[static_cast<std::size_t>(why)];
}

} // namespace relay

#endif
