/* SPDX-License-Identifier: MIT */
/*
 * The PROXY protocol, versions 1 and 2: what a proxy writes before the first byte of a connection,
 * to pass on the client's address. Parsing and formatting, without any input or output.
 *
 * Strict: a header conforms to the protocol's specification, or it is bad. Whether a header is
 * trusted is decided beforehand by the source address (a header must be there, or must not be),
 * never by inspecting whether the bytes look like one: otherwise clients could claim any address.
 */
#ifndef RELAY_PROXY_HEADER_HPP
#define RELAY_PROXY_HEADER_HPP

#include "base/parsed.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay
{

/* An end of a connection, as a PROXY header reports it. */
struct proxy_end {
	std::array<unsigned char, 16> ip{}; /* in network order; IPv4 has the first four */
	std::uint16_t port = 0;
	std::string path; /* of a Unix socket; begins with '\0' in the abstract namespace */

	bool operator==(const proxy_end &) const = default;
};

/* What version 2 says of the client's TLS, where that ends at the writer. */
struct proxy_tls {
	std::string version; /* "TLSv1.3" */
	std::string cipher;
	bool has_certificate = false; /* the client's, which was verified */
	bool shown_now = false;       /* in this connection, not only when its session was made */
	std::string common_name;      /* of it */

	bool operator==(const proxy_tls &) const = default;
};

/* A record that is passed on as it came. */
struct proxy_record {
	unsigned char type;
	std::string value;

	bool operator==(const proxy_record &) const = default;
};

struct proxy_header {
	enum class family : unsigned char {
		none, /* own, or the client's address is unknown: the addresses of the connection
		       * itself apply */
		ipv4,
		ipv6,
		local, /* Unix socket */
	};

	family of = family::none;
	/* Version 2's LOCAL: the proxy's own connection (a health check), not one that it relays.
	 * Version 1 has UNKNOWN for both. */
	bool own = false;
	bool datagram = false; /* version 2 only: it describes UDP or the like */
	proxy_end source;
	proxy_end destination;
	/* Version 2 only; empty if absent. */
	std::string authority;                /* the name that the client asked for (TLS's SNI) */
	std::string unique_id;                /* bytes */
	std::string alpn;                     /* bytes */
	bool tls = false;                     /* the client connected by TLS */
	std::string tls_bytes;                /* what the header that was read says of that */
	std::optional<proxy_tls> about_tls{}; /* written instead; not read */
	std::vector<proxy_record> others{};   /* in their order; padding is left out */
	bool checked = false;                 /* there was a checksum, and it was right */

	bool operator==(const proxy_header &) const = default;
};

/* "10.0.0.1:80", "[::1]:80", "unix:/path" (unprintable characters become '?'). */
std::string to_text(const proxy_header &header, const proxy_end &end);

/* The versions to accept. */
enum class proxy_versions : unsigned char { v1 = 1, v2 = 2, either = 3 };

/* The longest version 1 header, including its line end. */
inline constexpr std::size_t proxy_v1_most = 107;
/* The longest version 2 header that is accepted by default. Addresses take 232 bytes at most,
 * the names in a client certificate a few hundred. */
inline constexpr std::size_t proxy_v2_most = 2048;

/*
 * Reads the header at the beginning of the bytes. `into` is valid when done. A version 2 header
 * whose length field exceeds `most` is bad as soon as that field is there.
 */
parsed read_proxy_header(std::string_view bytes, proxy_header &into,
			 proxy_versions allowed = proxy_versions::either,
			 std::size_t most = proxy_v2_most);

/*
 * Too long a path, and a name of more than 255 bytes, is cut to what there is room for. Family none
 * becomes "PROXY UNKNOWN" in version 1, and in version 2 LOCAL if it is the proxy's own, or else
 * PROXY with an unspecified family. Version 1 has no Unix sockets and no datagrams, and writes
 * UNKNOWN for them.
 */
std::string write_proxy_v1(const proxy_header &header);
/* With a checksum if asked for. */
std::string write_proxy_v2(const proxy_header &header, bool checksum = false);

/* CRC-32C (Castagnoli) of the bytes, as in version 2's checksum. */
std::uint32_t crc32c(std::string_view bytes) noexcept;

} // namespace relay

#endif
