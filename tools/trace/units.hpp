/* SPDX-License-Identifier: MIT */
/*
 * How times, durations, numbers and names are written, and how times are read. A time is a number
 * of milliseconds since the first event of the trace, to the microsecond.
 */
#ifndef TRACE_UNITS_HPP
#define TRACE_UNITS_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tracing
{

/* Three digits and a unit: 870 ns, 3.21 µs, 12.4 ms, 1.03 s. */
std::string duration_text(std::int64_t ns);

/* A time in nanoseconds as milliseconds: 12.345. */
std::string time_text(std::int64_t ns);

/* 12,345 */
std::string count_text(std::uint64_t n);

/* 4 %, <1 %; "" if the whole is 0. */
std::string share_text(std::int64_t part, std::int64_t whole);

/* A text for a terminal. Names come from a file, so characters that a terminal could act on are
 * replaced. */
std::string clean(std::string_view text);

/* At most `most` characters of a text, which is built in or clean. most > 0. */
std::string cut(std::string text, std::size_t most);

/* The width on a terminal. The only characters outside ASCII in the output are as wide as
 * others. */
std::size_t width(std::string_view text);

/*
 * Parses a time: a decimal number and a unit, ns, us, µs, ms or s; without a unit, ms. Returns
 * nanoseconds, which may be negative, and as large as any time in a trace; or nothing if the text
 * is not a time.
 */
std::optional<std::int64_t> parse_time(std::string_view text);

} // namespace tracing

#endif
