/* SPDX-License-Identifier: MIT */
/*
 * The PROXY protocol, versions 1 and 2: the header that a proxy writes before the first byte of a
 * connection, to pass on the client's address. This parses and formats, without any input or
 * output.
 *
 * Strict: a header conforms to the protocol's specification, or it is bad. The source address alone
 * decides whether a header must be there, or must not. Whether the bytes look like a header never
 * decides that: otherwise clients could claim any address.
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
	std::string path; /* a Unix socket's; begins with '\0' if abstract */

	bool operator==(const proxy_end &) const = default;
};

/* The record of version 2 about the client's TLS, which ends at the writer of the header. */
struct proxy_tls {
	std::string version; /* "TLSv1.3" */
	std::string cipher;
	bool has_certificate = false; /* the client has a verified one */
	bool shown_now = false;       /* in this connection, not only an earlier one */
	std::string common_name;      /* of it */
	std::string certificate;      /* itself (DER); empty: it is not sent */

	bool operator==(const proxy_tls &) const = default;
};

/* A record that is passed on unchanged. */
struct proxy_record {
	unsigned char type;
	std::string value;

	bool operator==(const proxy_record &) const = default;
};

struct proxy_header {
	enum class family : unsigned char {
		none, /* the connection's own addresses apply: it is the proxy's own, or the
		       * client's are unknown */
		ipv4,
		ipv6,
		local, /* Unix socket */
	};

	family of = family::none;
	/* Version 2's LOCAL: the proxy's own connection (a health check), not one that it relays.
	 * Version 1 has UNKNOWN for both. */
	bool own = false;
	bool datagram = false; /* version 2 only: it describes datagrams */
	proxy_end source;
	proxy_end destination;
	/* Version 2 only; empty if absent. */
	std::string authority;                /* the name that the client asked for (TLS's SNI) */
	std::string unique_id;                /* bytes */
	std::string alpn;                     /* bytes */
	bool tls = false;                     /* the client connected by TLS */
	std::string tls_bytes;                /* the TLS record that was read */
	std::optional<proxy_tls> about_tls{}; /* to write instead; not set by reading */
	std::vector<proxy_record> others{};   /* in order, without padding */
	bool checked = false;                 /* it had a correct checksum */

	bool operator==(const proxy_header &) const = default;
};

/* "10.0.0.1:80", "[::1]:80", "unix:/path" (unprintable characters become '?'). */
std::string to_text(const proxy_header &header, const proxy_end &end);

/* The versions to accept. */
enum class proxy_versions : unsigned char { v1 = 1, v2 = 2, either = 3 };

/* The longest version 1 header, including its line end. */
inline constexpr std::size_t proxy_v1_most = 107;
/* The longest version 2 header that is accepted by default. Addresses take 232 bytes at most, and a
 * client's certificate one or two thousand, but there is no limit to what is in it. Other receivers
 * may accept less. */
inline constexpr std::size_t proxy_v2_most = 16384;

/*
 * Reads the header at the beginning of the bytes. `into` is valid when done. A version 2 header
 * whose length field exceeds `most` is bad as soon as that field is there.
 */
parsed read_proxy_header(std::string_view bytes, proxy_header &into,
			 proxy_versions allowed = proxy_versions::either,
			 std::size_t most = proxy_v2_most);

/*
 * These write a header. A path that is too long, or a name of more than 255 bytes, is cut to fit.
 * Family none becomes "PROXY UNKNOWN" in version 1, and in version 2 LOCAL if it is the proxy's
 * own, or else PROXY with an unspecified family. Version 1 knows neither Unix sockets nor
 * datagrams, and has UNKNOWN for them. A client's certificate is left out of a header that would be
 * longer than proxy_v2_most with it; what else the header says of it stays.
 */
std::string write_proxy_v1(const proxy_header &header);
/* checksum: whether to add one. left_out: set to whether a certificate was left out. */
std::string write_proxy_v2(const proxy_header &header, bool checksum = false,
			   bool *left_out = nullptr);

/* CRC-32C (Castagnoli) of the bytes, as in version 2's checksum. */
std::uint32_t crc32c(std::string_view bytes) noexcept;

} // namespace relay

#endif
