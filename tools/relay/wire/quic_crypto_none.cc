/* SPDX-License-Identifier: MIT */
/* Replaces quic_crypto_openssl.cc in a build without OpenSSL: every call fails. */
#include "wire/quic_crypto.hpp"

namespace relay
{

bool has_quic_crypto() noexcept
{
	return false;
}

bool derive_quic_keys(std::uint32_t, std::string_view, quic_keys &)
{
	return false;
}

bool quic_header_mask(const quic_keys &, std::string_view, std::array<unsigned char, 5> &)
{
	return false;
}

bool open_quic_payload(const quic_keys &, std::uint64_t, std::string_view, std::string_view,
		       std::string &)
{
	return false;
}

} // namespace relay
