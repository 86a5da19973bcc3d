/* SPDX-License-Identifier: MIT */
/* config_properties.hpp for libFuzzer, with seeds/config/ to begin with. scripts/fuzz runs it. */
#include "config_properties.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	properties::config_text({reinterpret_cast<const char *>(data), size});
	return 0;
}
