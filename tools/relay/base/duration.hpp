/* SPDX-License-Identifier: MIT */
/*
 * Durations as written on the command line and in the configuration: a whole number and a unit, ms,
 * s, m or h; a number alone means seconds. Signs, spaces, fractions and more than a year are
 * rejected.
 */
#ifndef RELAY_DURATION_HPP
#define RELAY_DURATION_HPP

#include <chrono>
#include <optional>
#include <string_view>

namespace relay
{

/* The duration, or nothing if the text is not one. */
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

} // namespace relay

#endif
