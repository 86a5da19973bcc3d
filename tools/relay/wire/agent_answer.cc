/* SPDX-License-Identifier: MIT */
#include "wire/agent_answer.hpp"

#include <algorithm>

namespace relay
{
namespace
{

constexpr std::string_view between_words = " \t,";

constexpr char to_lower(char c) noexcept
{
	return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/* Whether the word is `lower`, in any case. `lower` has no capitals. */
bool is_word(std::string_view word, std::string_view lower) noexcept
{
	return std::ranges::equal(word, lower, {}, to_lower);
}

/* Parses a number that consists of digits alone; more than `most` counts as `most`. */
std::optional<std::uint32_t> to_number(std::string_view digits, std::uint32_t most) noexcept
{
	std::uint64_t value = 0;
	for (const char c : digits) {
		if (c < '0' || c > '9')
			return std::nullopt;
		value = std::min<std::uint64_t>(value * 10 + static_cast<unsigned>(c - '0'), most);
	}
	if (digits.empty())
		return std::nullopt;
	return static_cast<std::uint32_t>(value);
}

/* Takes a word of the answer; returns false if it is unknown. */
bool take_word(std::string_view word, agent_answer &into) noexcept
{
	constexpr std::string_view limit = "maxconn:";

	for (const auto each : {agent_admin::ready, agent_admin::drain, agent_admin::maint})
		if (is_word(word, to_string(each))) {
			into.admin = each;
			return true;
		}
	for (const auto each :
	     {agent_health::up, agent_health::down, agent_health::fail, agent_health::stopped})
		if (is_word(word, to_string(each))) {
			into.health = each;
			return true;
		}
	if (is_word(word, "failed")) {
		into.health = agent_health::fail;
		return true;
	}
	std::optional<std::uint32_t> number;
	if (word.ends_with('%')) {
		number = to_number(word.substr(0, word.size() - 1), agent_percent_most);
		if (number)
			into.percent = number;
	} else if (is_word(word.substr(0, limit.size()), limit)) {
		number = to_number(word.substr(limit.size()), agent_limit_most);
		if (number)
			into.limit = number;
	}
	return number.has_value();
}

void take_line(std::string_view line, agent_answer &into) noexcept
{
	for (;;) {
		line.remove_prefix(std::min(line.find_first_not_of(between_words), line.size()));
		if (line.empty())
			return;
		if (line[0] == '#') {
			line.remove_prefix(1);
			line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
			into.description = line;
			return;
		}
		const auto word = line.substr(0, line.find_first_of(between_words));
		if (!take_word(word, into) && into.ignored.empty())
			into.ignored = word;
		line.remove_prefix(word.size());
	}
}

} // namespace

parsed parse_agent_answer(std::string_view bytes, agent_answer &into) noexcept
{
	using namespace std::string_view_literals;

	into = {};
	const auto end = bytes.substr(0, agent_answer_most).find_first_of("\r\n\0"sv);
	if (end == bytes.npos)
		return bytes.size() < agent_answer_most ? parsed::more(bytes.size() + 1)
							: parsed::bad("the line is too long");
	if (bytes[end] == '\0')
		return parsed::bad("the line has a byte of 0");
	take_line(bytes.substr(0, end), into);
	return parsed::done(end + 1);
}

} // namespace relay
