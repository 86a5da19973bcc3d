/* SPDX-License-Identifier: MIT */
/*
 * Amounts of bytes as they are written in the configuration: a whole number and a unit, B, kB, MB,
 * GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (of 1024); a number alone is bytes. Signs, spaces and
 * fractions are not accepted, nor is what does not fit into 63 bits.
 */
#ifndef RELAY_SIZE_HPP
#define RELAY_SIZE_HPP

#include <cstdint>
#include <optional>
#include <string_view>

namespace relay
{

/* What the text means, or nothing when it is no amount of bytes. */
std::optional<std::uint64_t> parse_size(std::string_view text);

} // namespace relay

#endif
