/* SPDX-License-Identifier: MIT */
/*
 * Reads the server name (SNI) in the hello that a TLS client sends first, for routing without
 * terminating TLS: the inspected bytes are passed on unchanged.
 *
 * It reads hellos of SSL 3.0 to TLS 1.3, which may be split into any number of records, and the
 * records into any pieces. A hello is parsed only as a whole, but an error in the bytes that have
 * arrived (such as another protocol) is reported immediately, so that the client does not wait. In
 * an encrypted client hello, the outer name counts.
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
	/* The server name, in lower case and without a final dot; letters, digits, '-', '_' and
	 * dots between labels, 1 to 253 bytes. Empty: the client sent no name. */
	std::string name;
	/* The protocols that the client offers (ALPN), in order of preference: for each, one
	 * byte with its length, then its bytes. Empty: none. */
	std::string alpn;
	/* If the result is bad: what the bytes are instead of a hello. */
	enum class other : unsigned char { none, not_tls, ssl2, too_large } is = other::none;

	bool operator==(const tls_hello &) const = default;
};

/*
 * Reads the hello at the beginning of the bytes. `into` is valid when done, `into.is` when bad.
 * When done, the size is that of the records that contain the hello. A hello is bad as soon as it
 * is known that its records exceed `most`, by its length field or because it is split into many.
 */
parsed read_tls_hello(std::string_view bytes, tls_hello &into, std::size_t most = tls_hello_most);

/*
 * The same for bytes that arrive in pieces. A call continues where the one before has stopped,
 * because a client may send a hello in thousands of records, each of which needs a call of its own.
 */
class tls_hello_reader
{
public:
	explicit tls_hello_reader(std::size_t most = tls_hello_most) noexcept : most_(most) {}

	/* bytes: those of the call before, and what has come since. */
	parsed read(std::string_view bytes, tls_hello &into);

	/* How often a record was looked at. */
	std::size_t looks() const noexcept { return looks_; }

private:
	const std::size_t most_;
	std::string message_;   /* the handshake message, as far as it has arrived */
	std::size_t at_ = 0;    /* where the record begins that is being read */
	std::size_t taken_ = 0; /* how many bytes of its content are in the message */
	std::size_t looks_ = 0;
};

} // namespace relay

#endif
