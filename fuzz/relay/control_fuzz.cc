/* SPDX-License-Identifier: MIT */
/* control_properties.hpp for libFuzzer, with seeds/control/ to begin with. scripts/fuzz runs it. */
#include "control_properties.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	properties::control({reinterpret_cast<const char *>(data), size});
	return 0;
}
