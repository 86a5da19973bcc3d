/* SPDX-License-Identifier: MIT */
/*
 * Durations as they are written on the command line: a whole number and a unit, ms, s, m or h; a
 * number alone is seconds. Signs, spaces and fractions are not accepted, nor is more than a year.
 */
#ifndef RELAY_DURATION_HPP
#define RELAY_DURATION_HPP

#include <chrono>
#include <optional>
#include <string_view>

namespace relay
{

/* What the text means, or nothing when it is not a duration. */
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

} // namespace relay

#endif
