/* SPDX-License-Identifier: MIT */
/*
 * Messages for a configuration file that is not TOML. The parser's own messages seldom help: for
 * drain = 10s it says that it expected a digit. This recognizes the usual mistakes by the line.
 */
#ifndef RELAY_CONFIG_SYNTAX_HPP
#define RELAY_CONFIG_SYNTAX_HPP

#include <string>
#include <string_view>

namespace relay
{

/* Explains a syntax error. line: the line of the error; column: where the parser has stopped, from
 * 1; words: the parser's message. */
std::string explain_syntax(std::string_view line, std::size_t column, std::string_view words);

/* Line `number` of a text, from 1, without its end. */
std::string_view line_of(std::string_view text, std::size_t number);

} // namespace relay

#endif
