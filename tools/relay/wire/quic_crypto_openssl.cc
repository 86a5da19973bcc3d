/* SPDX-License-Identifier: MIT */
/* quic_crypto.hpp with OpenSSL. */
#include "wire/quic_crypto.hpp"

#include <algorithm>
#include <memory>
#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace relay
{
namespace
{

using hash_bytes = std::array<unsigned char, 32>;

const unsigned char *bytes_of(std::string_view text)
{
	return reinterpret_cast<const unsigned char *>(text.data());
}

bool hmac(std::string_view key, std::string_view text, hash_bytes &into)
{
	unsigned size = 0;
	return HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(text),
		    text.size(), into.data(), &size) != nullptr;
}

/* TLS 1.3's HKDF-Expand-Label without a context, for results up to the size of a hash, for which
 * its first block is enough. */
template <std::size_t Size>
bool expand(const hash_bytes &secret, std::string_view label, std::array<unsigned char, Size> &into)
{
	static_assert(Size <= sizeof(hash_bytes));
	const std::string name = "tls13 " + std::string(label);
	std::string info{'\0', static_cast<char>(Size), static_cast<char>(name.size())};
	info += name;
	info += '\0';
	info += '\x01';
	hash_bytes block;
	if (!hmac({reinterpret_cast<const char *>(secret.data()), secret.size()}, info, block))
		return false;
	std::copy_n(block.begin(), Size, into.begin());
	return true;
}

constexpr std::string_view salt_1{"\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad"
				  "\xcc\xbb\x7f\x0a",
				  20};
constexpr std::string_view salt_2{"\x0d\xed\xe3\xde\xf7\x00\xa6\xdb\x81\x93\x81\xbe\x6e\x26\x9d\xcb"
				  "\xf9\xbd\x2e\xd9",
				  20};

using context = std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX *)>;

context make_context()
{
	return {EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free};
}

} // namespace

bool has_quic_crypto() noexcept
{
	return true;
}

bool derive_quic_keys(std::uint32_t version, std::string_view destination, quic_keys &into)
{
	const bool is_2 = version == quic_version_2;
	hash_bytes initial, client;
	return hmac(is_2 ? salt_2 : salt_1, destination, initial) &&
	       expand(initial, "client in", client) &&
	       expand(client, is_2 ? "quicv2 key" : "quic key", into.key) &&
	       expand(client, is_2 ? "quicv2 iv" : "quic iv", into.iv) &&
	       expand(client, is_2 ? "quicv2 hp" : "quic hp", into.header);
}

bool quic_header_mask(const quic_keys &with, std::string_view sample,
		      std::array<unsigned char, 5> &into)
{
	unsigned char block[32];
	int size = 0;
	const auto aes = make_context();
	if (!aes || sample.size() != quic_sample_size ||
	    EVP_EncryptInit_ex(aes.get(), EVP_aes_128_ecb(), nullptr, with.header.data(),
			       nullptr) != 1 ||
	    EVP_EncryptUpdate(aes.get(), block, &size, bytes_of(sample),
			      static_cast<int>(sample.size())) != 1 ||
	    size < static_cast<int>(into.size()))
		return false;
	std::copy_n(block, into.size(), into.begin());
	return true;
}

bool open_quic_payload(const quic_keys &with, std::uint64_t number, std::string_view header,
		       std::string_view payload, std::string &into)
{
	if (payload.size() < quic_tag_size)
		return false;
	auto nonce = with.iv;
	for (std::size_t i = 0; i < 8; i++)
		nonce[nonce.size() - 1 - i] ^= static_cast<unsigned char>(number >> 8 * i);
	const auto text = payload.substr(0, payload.size() - quic_tag_size);
	std::string tag(payload.substr(text.size()));
	into.resize(text.size() + 1); /* OpenSSL needs a pointer even for no bytes */
	auto *const out = reinterpret_cast<unsigned char *>(into.data());
	int size = 0;
	const auto aes = make_context();
	const bool good = aes &&
			  EVP_DecryptInit_ex(aes.get(), EVP_aes_128_gcm(), nullptr, with.key.data(),
					     nonce.data()) == 1 &&
			  EVP_DecryptUpdate(aes.get(), nullptr, &size, bytes_of(header),
					    static_cast<int>(header.size())) == 1 &&
			  EVP_DecryptUpdate(aes.get(), out, &size, bytes_of(text),
					    static_cast<int>(text.size())) == 1 &&
			  EVP_CIPHER_CTX_ctrl(aes.get(), EVP_CTRL_AEAD_SET_TAG, quic_tag_size,
					      tag.data()) == 1 &&
			  EVP_DecryptFinal_ex(aes.get(), out + text.size(), &size) == 1;
	into.resize(good ? text.size() : 0);
	return good;
}

} // namespace relay
