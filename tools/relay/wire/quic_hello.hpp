/* SPDX-License-Identifier: MIT */
/*
 * Reads the TLS hello with which a QUIC client begins from its first datagrams, for routing by the
 * server name without terminating QUIC: the datagrams are passed on unchanged.
 *
 * The hello is in CRYPTO frames of one Initial packet or several, in one datagram or several, in
 * any order and any pieces. A hello with post-quantum keys takes two datagrams. If bytes are
 * received twice, the first ones count. The hello is parsed up to the first gap, by tls_hello.hpp,
 * so that an error is found early.
 *
 * Anybody can make a packet that can be decrypted, and one task reads the datagrams of all clients.
 * So a datagram with a part of a hello has at most 9 KiB, 4 packets and 256 CRYPTO frames. Clients
 * send far less: a datagram of 1,200 to 1,500 bytes, or as many as fit into a jumbo frame (9,000
 * bytes); an Initial packet and one of 0-RTT; and some ten or twenty frames, in which Chromium
 * scatters its hello.
 */
#ifndef RELAY_QUIC_HELLO_HPP
#define RELAY_QUIC_HELLO_HPP

#include "wire/quic_packet.hpp"
#include "wire/tls_hello.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace relay
{

class quic_hello
{
public:
	enum class state : unsigned char {
		more,          /* the hello is not complete */
		done,          /* into has it */
		bad,           /* there is no hello: it cannot be decrypted, or is malformed */
		other_version, /* the client must be sent a list of versions */
		early,         /* 0-RTT that has overtaken the hello; into is as it was */
		not_first,     /* it is not a client's first packet, or not QUIC */
	};

	/* Reads the client's next datagram. Throws std::bad_alloc. */
	state add(std::string_view datagram, tls_hello &into);

private:
	void insert(const quic_crypto_part &part);

	std::string destination_; /* of the first packet; the keys are derived from it */
	std::uint32_t version_ = 0;
	std::string bytes_; /* of the CRYPTO stream, with gaps */
	/* The beginnings and ends of the parts that have arrived, in order, with gaps between
	 * them. */
	std::vector<std::pair<std::size_t, std::size_t>> there_;
};

} // namespace relay

#endif
