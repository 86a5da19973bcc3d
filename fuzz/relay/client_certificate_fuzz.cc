/* SPDX-License-Identifier: MIT */
/*
 * For libFuzzer, with seeds/client_certificate/ to begin with: whatever the certificate (DER) of a
 * client is, its common name is text that logs and headers can have, and a PROXY header has the
 * certificate whenever it fits, is one that the relay accepts, and is passed on unchanged.
 * scripts/fuzz runs it. OpenSSL's own parser is not instrumented.
 */
#include "properties.hpp"
#include "tls/tls_material.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace
{

using properties::require;

/* The longest name, as tls_material.hpp has it. */
constexpr std::size_t name_most = 256;

void is_text(std::string_view name)
{
	require(name.size() <= name_most, "a name is not longer than allowed");
	std::size_t missing = 0; /* bytes of the character that has begun */
	for (const char c : name) {
		const auto byte = static_cast<unsigned char>(c);
		require(byte >= ' ' && byte != 0x7f, "a name has no control characters");
		require(((byte & 0xc0) == 0x80) == (missing > 0), "a name is UTF-8");
		if (missing > 0)
			missing--;
		else
			missing = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
	}
	require(missing == 0, "a name ends with a whole character");
}

void is_sent(const std::string &der, const std::string &name)
{
	relay::proxy_header header;
	header.of = relay::proxy_header::family::ipv4;
	auto &says = header.about_tls.emplace();
	says.version = "TLSv1.3";
	says.has_certificate = true;
	says.common_name = name;
	const auto without = relay::write_proxy_v2(header);
	says.certificate = der;
	const auto with = relay::write_proxy_v2(header);

	const bool fits = without.size() + 3 + der.size() <= relay::proxy_v2_most;
	require(with.size() == without.size() + (fits ? 3 + der.size() : 0),
		"a certificate is there if it fits");
	require(!fits || with.ends_with(der), "it is whole");
	relay::proxy_header again;
	require(relay::read_proxy_header(with, again) && again.tls, "the header is accepted");
	require(relay::write_proxy_v2(again) == with, "the header is passed on unchanged");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	if (size == 0)
		return 0;
	const auto *bytes = reinterpret_cast<const std::byte *>(data);
	const std::string name = relay::common_name_of(std::vector<std::byte>(bytes, bytes + size));
	is_text(name);
	std::string der(reinterpret_cast<const char *>(data), size);
	is_sent(der, name);
	/* One of up to 20,400 bytes more, so that the fuzzer need not invent long ones. */
	der.append(std::size_t{80} * data[size - 1], '\0');
	is_sent(der, name);
	return 0;
}
