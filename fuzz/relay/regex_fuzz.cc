/* SPDX-License-Identifier: MIT */
/* regex_properties.hpp for libFuzzer, with seeds/regex/ to begin with. scripts/fuzz runs it. */
#include "regex_properties.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	properties::regex({reinterpret_cast<const char *>(data), size});
	return 0;
}
