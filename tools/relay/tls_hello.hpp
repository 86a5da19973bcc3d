/* SPDX-License-Identifier: MIT */
/*
 * The server name (SNI) in the hello that a TLS client begins with, for routing without taking TLS
 * apart: the bytes that were looked at are passed on as they are.
 *
 * Reads SSL 3.0 to TLS 1.3 hellos, in as many records, and the record in as many pieces, as the
 * client likes. A hello is only taken apart as a whole; what is malformed in what is there already
 * (no TLS at all, say) is told at once, so that a client of another protocol does not wait. Of an
 * encrypted client hello it sees the outer name.
 */
#ifndef RELAY_TLS_HELLO_HPP
#define RELAY_TLS_HELLO_HPP

#include "parsed.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace relay
{

/* The longest hello, records' headers included, that is accepted by default: browsers send 500 to
 * 2,000 bytes, with post-quantum keys and long session tickets at the upper end. */
inline constexpr std::size_t tls_hello_most = 16 * 1024;

struct tls_hello {
	/* In lower case and without a dot at its end; letters, digits, '-', '_' and dots between
	 * labels, 1 to 253 bytes. Empty: the client named none. */
	std::string name;
	/* The protocols that the client offers (ALPN), by its preference: each its length in one
	 * byte, then its bytes. Empty: none. */
	std::string alpn;
	/* What the bytes are instead, when bad. */
	enum class other : unsigned char { none, not_tls, ssl2, too_large } is = other::none;

	bool operator==(const tls_hello &) const = default;
};

/*
 * Reads the hello that the bytes begin with. `into` is valid when done, `into.is` when bad. When
 * done, the size is that of the records that have the hello. A hello that says that it is larger
 * than `most`, or is cut into so many records that it becomes so, is bad as soon as that is seen.
 */
parsed read_tls_hello(std::string_view bytes, tls_hello &into, std::size_t most = tls_hello_most);

} // namespace relay

#endif
