/* SPDX-License-Identifier: MIT */
#include "base/byte_pattern.hpp"

#include <algorithm>

namespace relay
{
namespace
{

/* The value of a digit; nothing if it is none. */
std::optional<unsigned> to_digit(char c) noexcept
{
	if (c >= '0' && c <= '9')
		return static_cast<unsigned>(c - '0');
	if (c >= 'a' && c <= 'f')
		return static_cast<unsigned>(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return static_cast<unsigned>(c - 'A') + 10;
	return std::nullopt;
}

bool is_space(char c) noexcept
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

} // namespace

bool byte_pattern::fits(std::string_view piece, std::size_t at) const noexcept
{
	if (at >= bytes.size())
		return true;
	const auto n = std::min(piece.size(), bytes.size() - at);
	for (std::size_t i = 0; i < n; i++)
		if ((piece[i] & mask[at + i]) != bytes[at + i])
			return false;
	return true;
}

byte_pattern to_byte_pattern(std::string_view exactly)
{
	return {std::string(exactly), std::string(exactly.size(), '\xff')};
}

std::optional<byte_pattern> parse_hex(std::string_view text, bool any, std::string &why)
{
	const std::string expected =
		any ? "; expected two hexadecimal digits for each byte, or ? for any digit, such "
		      "as \"6f 6b 8? ?0\""
		    : "; expected two hexadecimal digits for each byte, such as \"6f 6b 01 00\"";
	byte_pattern made;
	bool is_second = false;
	unsigned byte = 0;
	unsigned mask = 0;
	for (std::size_t i = 0; i < text.size(); i++) {
		const char c = text[i];
		if (is_space(c) && !is_second)
			continue;
		const bool is_any = any && c == '?';
		const auto digit = is_any ? std::optional(0U) : to_digit(c);
		if (!digit) {
			why = (is_space(c) ? "a byte has only one digit before character "
					   : "there is no digit at character ") +
			      std::to_string(i + 1) + expected;
			return std::nullopt;
		}
		byte = byte << 4U | *digit;
		mask = mask << 4U | (is_any ? 0U : 15U);
		if (is_second) {
			made.bytes += static_cast<char>(byte & 255U);
			made.mask += static_cast<char>(mask & 255U);
		}
		is_second = !is_second;
	}
	if (is_second)
		why = "the last byte has only one digit" + expected;
	else if (made.empty())
		why = "has no bytes" + expected;
	else
		return made;
	return std::nullopt;
}

} // namespace relay
