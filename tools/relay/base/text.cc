/* SPDX-License-Identifier: MIT */
#include "base/text.hpp"

#include <algorithm>
#include <ctime>
#include <optional>

namespace relay
{
namespace
{

/* How many bytes the character at the front of text has; 0 when it is not UTF-8. */
std::size_t character(std::string_view text)
{
	const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
	const unsigned char first = at(0);
	if (first < 0x80)
		return 1;
	std::size_t size = 0;
	unsigned char least = 0x80; /* lowest second byte */
	unsigned char most = 0xbf;
	if (first >= 0xc2 && first <= 0xdf) {
		size = 2;
	} else if (first >= 0xe0 && first <= 0xef) {
		size = 3;
		if (first == 0xe0)
			least = 0xa0; /* below that, two bytes would have been enough */
		if (first == 0xed)
			most = 0x9f; /* surrogates */
	} else if (first >= 0xf0 && first <= 0xf4) {
		size = 4;
		if (first == 0xf0)
			least = 0x90;
		if (first == 0xf4)
			most = 0x8f; /* past U+10FFFF */
	}
	if (size == 0 || text.size() < size || at(1) < least || at(1) > most)
		return 0;
	for (std::size_t i = 2; i < size; i++)
		if (at(i) < 0x80 || at(i) > 0xbf)
			return 0;
	return size;
}

/* Calls each(character) for every character, with U+FFFD for an invalid byte. */
template <class Each>
void for_characters(std::string_view text, Each each)
{
	while (!text.empty()) {
		const std::size_t size = character(text);
		each(size ? text.substr(0, size) : std::string_view("\xef\xbf\xbd"));
		text.remove_prefix(std::max<std::size_t>(size, 1));
	}
}

/* The code of a control character; nothing for any other character. U+0080 to U+009F are some, too:
 * terminals may take U+009B for ESC [. */
std::optional<unsigned char> control_code(std::string_view character)
{
	const auto first = static_cast<unsigned char>(character[0]);
	if (first < 0x20 || first == 0x7f)
		return first;
	const auto last = static_cast<unsigned char>(character.back());
	if (first == 0xc2 && last < 0xa0)
		return last;
	return std::nullopt;
}

} // namespace

void append_json(std::string &out, std::string_view text)
{
	static constexpr char hex[] = "0123456789abcdef";
	out += '"';
	for_characters(text, [&out](std::string_view character) {
		if (character == "\"" || character == "\\") {
			out += '\\';
			out += character;
		} else if (const auto code = control_code(character)) {
			out += "\\u00";
			out += hex[*code >> 4];
			out += hex[*code & 15];
		} else {
			out += character;
		}
	});
	out += '"';
}

void append_label(std::string &out, std::string_view text)
{
	for_characters(text, [&out](std::string_view character) {
		if (character == "\n")
			out += "\\n";
		else if (character == "\"" || character == "\\")
			(out += '\\') += character;
		else
			out += character;
	});
}

void append_logfmt(std::string &out, std::string_view text)
{
	const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
		return c > ' ' && c <= '~' && c != '"' && c != '=' && c != '\\';
	});
	if (plain)
		out += text;
	else
		append_json(out, text);
}

void append_printable(std::string &out, std::string_view text)
{
	for_characters(text, [&out](std::string_view character) {
		out += control_code(character) ? "?" : character;
	});
}

std::string to_printable(std::string_view text)
{
	std::string out;
	append_printable(out, text);
	return out;
}

std::string to_time(std::chrono::nanoseconds since_1970)
{
	const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
	const std::time_t seconds = ms / 1000;
	std::tm parts{};
	gmtime_r(&seconds, &parts);
	char text[40];
	const auto size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
	const auto rest = std::to_string(1000 + ms % 1000);
	return std::string(text, size) + '.' + rest.substr(1) + 'Z';
}

void append_decimal(std::string &out, std::uint64_t number, unsigned digits)
{
	std::uint64_t unit = 1;
	for (unsigned i = 0; i < digits; i++)
		unit *= 10;
	out += std::to_string(number / unit);
	std::uint64_t rest = number % unit;
	if (rest == 0)
		return;
	out += '.';
	while (rest != 0) {
		unit /= 10;
		out += static_cast<char>('0' + rest / unit);
		rest %= unit;
	}
}

} // namespace relay
