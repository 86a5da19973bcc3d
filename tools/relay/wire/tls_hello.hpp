/* SPDX-License-Identifier: MIT */
/*
 * The server name (SNI) in the hello that a TLS client sends first, for routing without terminating
 * TLS: the bytes that were inspected are passed on unchanged.
 *
 * Reads SSL 3.0 to TLS 1.3 hellos, in as many records, and the records in as many pieces, as the
 * client likes. A hello is parsed only as a whole, but an error in what has already arrived (it is
 * not TLS at all, say) is reported at once, so that a client of another protocol does not wait. Of
 * an encrypted client hello it sees the outer name.
 */
#ifndef RELAY_TLS_HELLO_HPP
#define RELAY_TLS_HELLO_HPP

#include "base/parsed.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace relay
{

/* The longest hello, including record headers, that is accepted by default. Browsers send 500 to
 * 2,000 bytes; post-quantum keys and long session tickets are at the upper end. */
inline constexpr std::size_t tls_hello_most = 16 * 1024;

struct tls_hello {
	/* In lower case and without a final dot; letters, digits, '-', '_' and dots between
	 * labels, 1 to 253 bytes. Empty: the client sent no name. */
	std::string name;
	/* The protocols that the client offers (ALPN), in order of preference: for each, one
	 * byte with its length, then its bytes. Empty: none. */
	std::string alpn;
	/* If bad: what the bytes are instead. */
	enum class other : unsigned char { none, not_tls, ssl2, too_large } is = other::none;

	bool operator==(const tls_hello &) const = default;
};

/*
 * Reads the hello at the beginning of the bytes. `into` is valid when done, `into.is` when bad.
 * When done, the size is that of the records that contain the hello. A hello whose length field
 * exceeds `most`, or that exceeds it because it is split into many records, is bad as soon as that
 * is known.
 */
parsed read_tls_hello(std::string_view bytes, tls_hello &into, std::size_t most = tls_hello_most);

} // namespace relay

#endif
