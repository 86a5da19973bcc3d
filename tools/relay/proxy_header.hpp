/* SPDX-License-Identifier: MIT */
/*
 * The PROXY protocol, versions 1 and 2: what a proxy writes before the first byte of a connection
 * to tell whose it is. Reading and writing, without any input or output of their own.
 *
 * Strict: a header is what the protocol's text says, or it is bad. Who is believed is decided by
 * the source address before (a header must be there, or must not be), never by looking whether the
 * bytes look like one: clients could claim to be anyone.
 */
#ifndef RELAY_PROXY_HEADER_HPP
#define RELAY_PROXY_HEADER_HPP

#include "parsed.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace relay
{

/* An end of a connection, as a PROXY header tells it. */
struct proxy_end {
	std::array<unsigned char, 16> ip{}; /* in network order; IPv4 has the first four */
	std::uint16_t port = 0;
	std::string path; /* of a Unix socket; begins with '\0' in the abstract namespace */

	bool operator==(const proxy_end &) const = default;
};

struct proxy_header {
	enum class family : unsigned char {
		none, /* the proxy's own connection (a health check), or it does not know or say:
		       * the addresses of the connection itself are right */
		ipv4,
		ipv6,
		local, /* Unix socket */
	};

	family of = family::none;
	bool datagram = false; /* version 2 only: it tells of UDP or the like */
	proxy_end source;
	proxy_end destination;
	/* Version 2 only; empty when not there. */
	std::string authority; /* the name that the client asked for (TLS's SNI) */
	std::string unique_id; /* bytes */
	std::string alpn;      /* bytes */
	bool tls = false;      /* the client came by TLS */
	bool checked = false;  /* a checksum was there, and was right */

	bool operator==(const proxy_header &) const = default;
};

/* "10.0.0.1:80", "[::1]:80", "unix:/path" (other than printable characters become '?'). */
std::string to_text(const proxy_header &header, const proxy_end &end);

/* What may come. */
enum class proxy_versions : unsigned char { v1 = 1, v2 = 2, either = 3 };

/* No version 1 header is longer, its line end included. */
inline constexpr std::size_t proxy_v1_most = 107;
/* The longest version 2 header that is accepted by default. Addresses take 232 bytes at most, the
 * names of a client certificate a few hundred. */
inline constexpr std::size_t proxy_v2_most = 2048;

/*
 * Reads the header that the bytes begin with. `into` is valid when done. A version 2 header that
 * says that it is longer than `most` is bad as soon as it says so.
 */
parsed read_proxy_header(std::string_view bytes, proxy_header &into,
			 proxy_versions allowed = proxy_versions::either,
			 std::size_t most = proxy_v2_most);

/* For who routes by it: neither a path that is too long nor a name of more than 255 bytes is
 * written, but what there is room for. Family none gives "PROXY UNKNOWN", and LOCAL. Version 1
 * knows no Unix sockets and no datagrams, and says UNKNOWN of them. */
std::string write_proxy_v1(const proxy_header &header);
/* With a checksum when asked for. */
std::string write_proxy_v2(const proxy_header &header, bool checksum = false);

/* CRC-32C (Castagnoli) of the bytes, as version 2's checksum is. */
std::uint32_t crc32c(std::string_view bytes) noexcept;

} // namespace relay

#endif
