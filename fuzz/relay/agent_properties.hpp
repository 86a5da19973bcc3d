/* SPDX-License-Identifier: MIT */
/*
 * What must hold for the answers of agents, whatever the bytes are: they can be read in any pieces
 * (properties.hpp), numbers are in their ranges, and each text is a part of the line.
 */
#ifndef FUZZ_RELAY_AGENT_PROPERTIES_HPP
#define FUZZ_RELAY_AGENT_PROPERTIES_HPP

#include "properties.hpp"
#include "wire/agent_answer.hpp"

#include <string>
#include <string_view>

namespace properties
{

inline bool is_same(const relay::agent_answer &a, const relay::agent_answer &b)
{
	return a.admin == b.admin && a.health == b.health && a.percent == b.percent &&
	       a.limit == b.limit && a.description == b.description && a.ignored == b.ignored;
}

inline void agent_answer(std::string_view bytes)
{
	agree_with_beginnings(bytes, [](std::string_view part) {
		relay::agent_answer unused;
		return relay::parse_agent_answer(part, unused);
	});

	relay::agent_answer says;
	const auto read = relay::parse_agent_answer(bytes, says);
	if (!read) {
		require(is_same(says, {}), "an answer that is not read sets nothing");
		return;
	}
	require(read.size <= relay::agent_answer_most, "no line is longer than allowed");
	const std::string_view line = bytes.substr(0, read.size - 1);
	require(line.find_first_of("\r\n") == line.npos, "it is the first line");
	require(says.percent.value_or(0) <= relay::agent_percent_most &&
			says.limit.value_or(0) <= relay::agent_limit_most,
		"numbers are in their ranges");
	for (const auto text : {says.description, says.ignored})
		require(text.empty() || (text.data() >= line.data() &&
					 text.data() + text.size() <= line.data() + line.size()),
			"texts are parts of the line");
	require(says.ignored.find_first_of(" \t,") == says.ignored.npos, "a word is one word");

	/* Other separators, another line end, and bytes after it must not change the meaning. */
	if (line.find('#') != line.npos)
		return;
	std::string other(line);
	for (char &c : other)
		c = c == ' ' ? ',' : c == ',' ? ' ' : c;
	other += "\rdown 7%\n";
	relay::agent_answer again;
	require(relay::parse_agent_answer(other, again) && is_same(says, again),
		"separators are alike");
}

} // namespace properties

#endif
