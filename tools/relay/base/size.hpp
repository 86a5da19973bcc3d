/* SPDX-License-Identifier: MIT */
/*
 * Amounts of bytes as written in the configuration: a whole number and a unit, B, kB, MB, GB, TB
 * (powers of 1000) or KiB, MiB, GiB, TiB (of 1024); a number alone means bytes. Signs, spaces,
 * fractions and values that do not fit into 63 bits are rejected.
 */
#ifndef RELAY_SIZE_HPP
#define RELAY_SIZE_HPP

#include <cstdint>
#include <optional>
#include <string_view>

namespace relay
{

/* The number of bytes, or nothing if the text is not an amount of bytes. */
std::optional<std::uint64_t> parse_size(std::string_view text);

} // namespace relay

#endif
