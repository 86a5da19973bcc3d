/* SPDX-License-Identifier: MIT */
/*
 * The opening of a client's connection, where the listener inspects it: a PROXY header, which is
 * removed, and a TLS hello, which is passed on. One deadline covers all of it, so a client that
 * sends a byte a minute cannot hold resources for long.
 *
 * No byte beyond the opening is read: after a PROXY header, the next byte to read is the client's
 * first one, and a hello consists of exactly the bytes that were read. proxy_header.hpp and
 * tls_hello.hpp define what is malformed.
 */
#ifndef RELAY_OPENING_HPP
#define RELAY_OPENING_HPP

#include "wire/proxy_header.hpp"
#include "wire/termination.hpp"
#include "wire/tls_hello.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <optional>
#include <string>

namespace relay
{

/* Why there is no opening: bad_proxy_header, bad_tls_hello, hello_timeout or client_left. */
struct opening_fault {
	termination why;
	std::string text; /* in words */
};

/* Each returns no fault if `into` is complete; the read deadline is then cleared. May park. */
std::optional<opening_fault> receive_proxy_header(sn::tcp &from, sn::deadline until,
						  proxy_header &into);
/* bytes: the bytes that were read, to be passed on; after a fault, those that arrived. */
std::optional<opening_fault> receive_tls_hello(sn::tcp &from, sn::deadline until, tls_hello &into,
					       std::string &bytes);

/* The fatal TLS alert for a client that asks for a name that no group serves. */
inline constexpr std::string_view tls_unrecognized_name{"\x15\x03\x01\x00\x02\x02\x70", 7};

} // namespace relay

#endif
