/* SPDX-License-Identifier: MIT */
/* http_answer_properties.hpp for libFuzzer, with seeds/http_answer/ to begin with. */
#include "http_answer_properties.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	properties::http_answer({reinterpret_cast<const char *>(data), size});
	return 0;
}
