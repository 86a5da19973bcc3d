/* SPDX-License-Identifier: MIT */
/* agent_properties.hpp for libFuzzer, with seeds/agent_answer/ to begin with. scripts/fuzz runs
 * it. */
#include "agent_properties.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	properties::agent_answer({reinterpret_cast<const char *>(data), size});
	return 0;
}
