/* SPDX-License-Identifier: MIT */
/* quic_properties.hpp for libFuzzer, with seeds/quic_hello/ to begin with. scripts/fuzz runs it. */
#include "quic_crypto_fake.hpp"
#include "quic_properties.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	properties::quic_hello({reinterpret_cast<const char *>(data), size});
	return 0;
}
