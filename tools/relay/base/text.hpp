/* SPDX-License-Identifier: MIT */
/*
 * Escaping of foreign text (names from the configuration, addresses, bytes that clients sent) in
 * the relay's output. Each function appends the text so that nothing in it can end the value that
 * contains it, and the result is valid UTF-8: an invalid byte becomes U+FFFD.
 */
#ifndef RELAY_TEXT_HPP
#define RELAY_TEXT_HPP

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace relay
{

/* Appends the text as a JSON string, with the quotes. Control characters are escaped, also those
 * from U+007F to U+009F, which JSON would allow. */
void append_json(std::string &out, std::string_view text);

/* Appends it as a label value of Prometheus' text format, without the quotes. */
void append_label(std::string &out, std::string_view text);

/*
 * Appends it as the value of a key=value pair (logfmt). Text of printable ASCII characters without
 * space, '"', '=' and '\' is appended as it is, anything else as a JSON string. Empty text becomes
 * "".
 */
void append_logfmt(std::string &out, std::string_view text);

/* Appends it as one line of valid UTF-8, with a '?' for each control character. */
void append_printable(std::string &out, std::string_view text);
std::string to_printable(std::string_view text);

/* "2026-11-21T09:55:14.123Z", from the time since 1970. */
std::string to_time(std::chrono::nanoseconds since_1970);

/* The number in units of 10^-digits, as a decimal fraction: (1500000, 6) is 1.5. */
void append_decimal(std::string &out, std::uint64_t number, unsigned digits);

} // namespace relay

#endif
