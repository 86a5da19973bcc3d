/* SPDX-License-Identifier: MIT */
/*
 * The protection of the first packets of QUIC, versions 1 and 2 (RFC 9001, section 5; RFC 9369), by
 * keys that everybody can derive from the packet itself. It keeps middleboxes from depending on the
 * content of packets, but hides nothing from those who want to read them.
 *
 * It needs OpenSSL (quic_crypto_openssl.cc). A relay that is built without OpenSSL has
 * quic_crypto_none.cc, where every call fails, and rejects configurations that need this.
 */
#ifndef RELAY_QUIC_CRYPTO_HPP
#define RELAY_QUIC_CRYPTO_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace relay
{

inline constexpr std::uint32_t quic_version_1 = 0x00000001;
inline constexpr std::uint32_t quic_version_2 = 0x6b3343cf;

/* Whether the relay is built with OpenSSL. */
bool has_quic_crypto() noexcept;

struct quic_keys {
	std::array<unsigned char, 16> key{};
	std::array<unsigned char, 12> iv{};
	std::array<unsigned char, 16> header{};
};

/* Derives the keys of a client's Initial packets of one of these versions from the destination
 * id of the first packet. Returns false if there is no memory. */
bool derive_quic_keys(std::uint32_t version, std::string_view destination, quic_keys &into);

inline constexpr std::size_t quic_sample_size = 16;
inline constexpr std::size_t quic_tag_size = 16;

/* Computes the mask of a packet's header from a sample of quic_sample_size bytes. */
bool quic_header_mask(const quic_keys &with, std::string_view sample,
		      std::array<unsigned char, 5> &into);

/* Decrypts a packet's payload, which ends with its tag. Returns false if it is not authentic. */
bool open_quic_payload(const quic_keys &with, std::uint64_t number, std::string_view header,
		       std::string_view payload, std::string &into);

} // namespace relay

#endif
