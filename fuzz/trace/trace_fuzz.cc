/* SPDX-License-Identifier: MIT */
/* trace_properties.hpp for libFuzzer, with seeds/trace/ to begin with. scripts/fuzz runs it. */
#include "trace_properties.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	properties::trace_file({reinterpret_cast<const char *>(data), size});
	return 0;
}
