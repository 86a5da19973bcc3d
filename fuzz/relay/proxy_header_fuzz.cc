/* SPDX-License-Identifier: MIT */
/* properties.hpp for libFuzzer, with seeds/proxy_header/ to begin with. scripts/fuzz runs it. */
#include "properties.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	properties::proxy_header({reinterpret_cast<const char *>(data), size});
	return 0;
}
