/* SPDX-License-Identifier: MIT */
/*
 * Text of others (names of the configuration, addresses, what clients sent) in text of ours: each
 * function appends it so that nothing in it can end the value that it is in, and so that the whole
 * is valid UTF-8: a byte that is not becomes U+FFFD.
 */
#ifndef RELAY_TEXT_HPP
#define RELAY_TEXT_HPP

#include <cstdint>
#include <string>
#include <string_view>

namespace relay
{

/* As JSON's string, with the quotes. */
void append_json(std::string &out, std::string_view text);

/* As the value of a label of Prometheus' text format, without the quotes. */
void append_label(std::string &out, std::string_view text);

/*
 * As the value of a key=value pair (logfmt): as it is when it has only printable characters of
 * ASCII and neither space nor '"', '=' nor '\'; otherwise quoted as JSON's strings are. Empty is "".
 */
void append_logfmt(std::string &out, std::string_view text);

/* The number in units of 10^-digits, as decimal fraction: (1500000, 6) is 1.5. */
void append_decimal(std::string &out, std::uint64_t number, unsigned digits);

} // namespace relay

#endif
