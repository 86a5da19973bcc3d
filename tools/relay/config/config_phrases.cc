/* SPDX-License-Identifier: MIT */
#include "config/config_phrases.hpp"

#include <cstddef>
#include <initializer_list>
#include <utility>

namespace relay
{
namespace
{

/* A longer text is a mistake. */
constexpr std::size_t longest_phrase = 4096;

void complain_of_length(section &in, std::string_view key)
{
	in.complain(*in.take(key), key,
		    "is too long; expected at most " + std::to_string(longest_phrase) + " bytes");
}

/* Takes bytes in hexadecimal digits. */
bool read_hex(section &in, std::string_view key, bool any, byte_pattern &into)
{
	std::string text;
	if (!in.nonempty(key, text))
		return false;
	std::string why;
	auto parsed = parse_hex(text, any, why);
	if (!parsed)
		in.complain(*in.take(key), key, why);
	else if (parsed->bytes.size() > longest_phrase)
		complain_of_length(in, key);
	else
		into = *std::move(parsed);
	return true;
}

/* A longer expression is a mistake, too, and takes long to compile. */
constexpr std::size_t longest_regex = 1024;

void read_regex(section &in, check_config &into)
{
	std::string text;
	if (!in.nonempty("expect_regex", text))
		return;
	const auto complain = [&](const std::string &why) {
		in.complain(*in.take("expect_regex"), "expect_regex", why);
	};
	if (text.size() > longest_regex)
		return complain("is too long; expected at most " + std::to_string(longest_regex) +
				" bytes");
	std::string why;
	into.expect_regex = regex::compile(text, why);
	if (!into.expect_regex)
		complain(why);
}

/* Complains of each of the keys that is set although another one before it is. Returns whether one
 * is set. */
bool at_most_one_of(section &in, std::initializer_list<const char *> keys)
{
	const char *first = nullptr;
	for (const char *key : keys) {
		const auto *node = in.take(key);
		if (node && first)
			in.complain(*node, key,
				    std::string("is set beside ") + first +
					    "; expected one or the other");
		else if (node)
			first = key;
	}
	return first != nullptr;
}

} // namespace

bool read_phrase(section &in, std::string_view key, std::string &into)
{
	if (!in.nonempty(key, into))
		return false;
	if (into.size() > longest_phrase)
		complain_of_length(in, key);
	return true;
}

void read_phrases(section &in, check_config &into)
{
	read_phrase(in, "send", into.send);
	if (byte_pattern bytes; read_hex(in, "send_hex", false, bytes))
		into.send = bytes.bytes;
	if (std::string exactly; read_phrase(in, "expect", exactly))
		into.expect = to_byte_pattern(exactly);
	read_hex(in, "expect_hex", true, into.expect);
	read_regex(in, into);
	at_most_one_of(in, {"send", "send_hex"});
	if (at_most_one_of(in, {"expect", "expect_hex", "expect_regex"}))
		return;
	for (const char *key : {"send", "send_hex"})
		if (const auto *said = in.take(key))
			in.complain(*said, key, "is set without expect; expected both keys");
}

} // namespace relay
