/* SPDX-License-Identifier: MIT */
/*
 * What a client's connection begins with, where the listener looks at it: a PROXY header, which is
 * taken off, and a TLS hello, which is passed on. Read from the connection by a deadline that is for
 * all of it, so that who sends a byte a minute holds nobody up.
 *
 * Nothing beyond what is asked for is read: after a header, the next byte is the first of the client's
 * own; a hello's bytes are what was read. proxy_header.hpp and tls_hello.hpp say what is bad.
 */
#ifndef RELAY_OPENING_HPP
#define RELAY_OPENING_HPP

#include "proxy_header.hpp"
#include "termination.hpp"
#include "tls_hello.hpp"

#include <sennit/sennit.hpp>

#include <optional>
#include <string>

namespace relay
{

/* Why there is no opening: bad_proxy_header, bad_tls_hello, hello_timeout or client_left. */
struct opening_fault {
	termination why;
	std::string text; /* for people */
};

/* Each returns no fault when `into` is there. The read deadline is none afterwards. May park. */
std::optional<opening_fault> receive_proxy_header(sn::tcp &from, sn::deadline until,
						  proxy_header &into);
/* bytes: what was read, to be passed on; as much as came, with a fault. */
std::optional<opening_fault> receive_tls_hello(sn::tcp &from, sn::deadline until, tls_hello &into,
					       std::string &bytes);

/* What tells a TLS client that nobody here has the name that he asks for: a fatal alert. */
inline constexpr std::string_view tls_unrecognized_name{"\x15\x03\x01\x00\x02\x02\x70", 7};

} // namespace relay

#endif
