/* SPDX-License-Identifier: MIT */
/* properties.hpp for libFuzzer, with seeds/tls_hello/ to begin with. scripts/fuzz runs it. */
#include "properties.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	properties::tls_hello({reinterpret_cast<const char *>(data), size});
	return 0;
}
