/* SPDX-License-Identifier: MIT */
/*
 * QUIC without encryption, in place of quic_crypto_openssl.cc, so that a fuzzer gets past the
 * decryption, and the seeds can be read. A packet's payload is plaintext, followed by a tag that is
 * not checked. Included once in a program.
 */
#ifndef FUZZ_RELAY_QUIC_CRYPTO_FAKE_HPP
#define FUZZ_RELAY_QUIC_CRYPTO_FAKE_HPP

#include "wire/quic_crypto.hpp"

namespace relay
{

bool has_quic_crypto() noexcept
{
	return true;
}

bool derive_quic_keys(std::uint32_t, std::string_view, quic_keys &)
{
	return true;
}

bool quic_header_mask(const quic_keys &, std::string_view, std::array<unsigned char, 5> &into)
{
	into = {};
	return true;
}

bool open_quic_payload(const quic_keys &, std::uint64_t, std::string_view, std::string_view payload,
		       std::string &into)
{
	if (payload.size() < quic_tag_size)
		return false;
	into = payload.substr(0, payload.size() - quic_tag_size);
	return true;
}

} // namespace relay

#endif
