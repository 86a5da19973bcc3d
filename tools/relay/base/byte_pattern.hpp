/* SPDX-License-Identifier: MIT */
/*
 * Bytes in hexadecimal digits, for what text of TOML cannot have, because it is UTF-8. A question
 * mark is a digit that may be anything: "8? ?0" is a byte from 0x80 to 0x8f, and then one whose
 * lower half is 0.
 */
#ifndef RELAY_BYTE_PATTERN_HPP
#define RELAY_BYTE_PATTERN_HPP

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace relay
{

struct byte_pattern {
	std::string bytes{}; /* bits that may be anything are 0 */
	std::string mask{};  /* as long; the bits that count */

	bool empty() const noexcept { return bytes.empty(); }

	/* Whether the bytes that begin at `at` of an answer are as expected there. Bytes after the
	 * pattern's end may be anything. */
	bool fits(std::string_view piece, std::size_t at) const noexcept;
};

/* Exactly these bytes. */
byte_pattern to_byte_pattern(std::string_view exactly);

/*
 * Parses two digits for each byte; white space may be between bytes. any: whether there may be
 * question marks. If the text is bad, or has no bytes, why says what is wrong and what was
 * expected.
 */
std::optional<byte_pattern> parse_hex(std::string_view text, bool any, std::string &why);

} // namespace relay

#endif
