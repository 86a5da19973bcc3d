/* SPDX-License-Identifier: MIT */
/*
 * The packets at the beginning of a client's connection of QUIC: their headers as they are on the
 * wire (RFC 9000, section 17; RFC 8999 for all versions; RFC 9369 for version 2), and the frames of
 * decrypted packets that carry the TLS hello. This parses, without any input or output.
 */
#ifndef RELAY_QUIC_PACKET_HPP
#define RELAY_QUIC_PACKET_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace relay
{

struct quic_packet {
	enum class kind : unsigned char {
		initial,       /* of version 1 or 2 */
		zero_rtt,      /* the same; a client sends it with, or after, its Initial */
		other,         /* of version 1 or 2: Handshake, Retry */
		other_version, /* size and number are unknown, and the rest is not read */
		none,          /* a short header, or not QUIC */
	};

	kind is = kind::none;
	std::uint32_t version = 0;
	std::string_view destination; /* connection ids: at most 20 bytes, in other versions 255 */
	std::string_view source;
	/* Set for Initial, 0-RTT and Handshake packets only. */
	std::size_t size = 0;   /* of the packet; another one may follow in the datagram */
	std::size_t number = 0; /* where its protected part begins, with the packet's number */
};

/* Reads the header at the beginning of the bytes, which the result refers to. */
quic_packet read_quic_packet(std::string_view bytes);

/* A part of the stream of handshake messages. */
struct quic_crypto_part {
	std::uint64_t offset = 0;
	std::string_view bytes;
};

/* Adds the parts in the frames of a decrypted Initial packet. Returns false if a frame is
 * malformed, or must not be in such a packet (RFC 9000, section 12.4), or if there are more parts
 * than that. */
bool read_quic_frames(std::string_view frames, std::size_t most,
		      std::vector<quic_crypto_part> &into);

/* The answer to a packet of another version: it offers version 1. */
std::string write_version_negotiation(const quic_packet &to);

} // namespace relay

#endif
