/* SPDX-License-Identifier: MIT */
#include "config/config_syntax.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace relay
{
namespace
{

constexpr std::string_view spaces = " \t\r";

/* How much of a value is quoted in a message, because it may be anything. */
constexpr std::size_t longest_quoted = 40;

bool has(std::string_view text, std::string_view part)
{
	return text.find(part) != text.npos;
}

std::string_view trimmed(std::string_view text)
{
	const auto first = text.find_first_not_of(spaces);
	return first == text.npos ? std::string_view{}
				  : text.substr(first, text.find_last_not_of(spaces) + 1 - first);
}

/* The end of the string that begins at `at`; npos if the string does not end in this line. */
std::size_t end_of_string(std::string_view line, std::size_t at)
{
	const char quote = line[at];
	for (std::size_t i = at + 1; i < line.size(); i++) {
		if (line[i] == '\\' && quote == '"')
			i++;
		else if (line[i] == quote)
			return i;
	}
	return line.npos;
}

/* KEY = VALUE, where the value may be cut off. */
struct pair_of_line {
	std::string_view key;
	std::string_view value;
};

/* The last KEY = VALUE that begins before the column; it may be in a table in braces. */
std::optional<pair_of_line> to_pair(std::string_view line, std::size_t column)
{
	std::optional<pair_of_line> found;
	std::size_t from = trimmed(line).starts_with('[') ? line.size() : 0;
	bool is_in_braces = false;
	for (std::size_t i = from; i < line.size() && i + 1 < column && line[i] != '#'; i++) {
		switch (line[i]) {
		case '"':
		case '\'':
			i = end_of_string(line, i);
			if (i == line.npos)
				return found;
			break;
		case '{':
			is_in_braces = true;
			from = i + 1;
			break;
		case '}':
			is_in_braces = false;
			break;
		case ',':
			from = i + 1;
			break;
		case '=': {
			const auto value = line.substr(i + 1);
			found = {trimmed(line.substr(from, i - from)),
				 trimmed(is_in_braces ? value.substr(0, value.find_first_of(",}"))
						      : value)};
			break;
		}
		default:
			break;
		}
	}
	return found;
}

/* The quotation mark of a string that begins in this line and does not end there. */
std::optional<char> open_string(std::string_view line)
{
	for (std::size_t i = 0; i < line.size() && line[i] != '#'; i++) {
		if (line[i] != '"' && line[i] != '\'')
			continue;
		if (line.substr(i, 3) == std::string(3, line[i]))
			return std::nullopt;
		const auto end = end_of_string(line, i);
		if (end == line.npos)
			return line[i];
		i = end;
	}
	return std::nullopt;
}

/* The name in front of the next = if it has a character that a key without quotes cannot have, such
 * as "*.example.org"; else empty. */
std::string_view unquoted_name(std::string_view line, std::size_t column)
{
	const auto first = column > 1 ? line.find_last_of("{,", column - 2) : line.npos;
	const auto from = first == line.npos ? 0 : first + 1;
	const auto end = line.find('=', from);
	if (end == line.npos)
		return {};
	const auto name = trimmed(line.substr(from, end - from));
	const bool is_bare = std::ranges::all_of(name, [](char c) {
		return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		       c == '_' || c == '-' || c == '.';
	});
	return is_bare || name.find_first_of(" \t\"'#:[]{}<>") != name.npos ? std::string_view{}
									    : name;
}

bool is_word(std::string_view value, std::string_view word)
{
	return std::ranges::equal(value, word, [](char a, char b) {
		return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
	});
}

bool is_octal(std::string_view value)
{
	return value.size() > 1 && value.starts_with('0') &&
	       std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
}

std::string shortened(std::string_view text)
{
	return std::string(text.substr(0, longest_quoted)) +
	       (text.size() > longest_quoted ? "..." : "");
}

/* Explains a value without quotes, which is usually one that needs them. */
std::string explain_value(const pair_of_line &in, std::string_view words)
{
	const auto value = trimmed(in.value.substr(0, in.value.find('#')));
	const std::string key(in.key);
	if (value.empty())
		return key + ": has no value; expected one after the =";
	if (is_word(value, "true") || is_word(value, "false"))
		return key + ": " + shortened(value) +
		       " has capital letters; expected true or "
		       "false";
	if (value.starts_with("\xe2\x80"))
		return key + ": is in other quotation marks; expected \" on both sides";
	if (is_octal(value))
		return key + ": " + shortened(value) +
		       " has a zero in front; expected a number without it, or a text in quotes, "
		       "such as \"" +
		       shortened(value) + '"';
	if (has(words, "not representable"))
		return key + ": " + shortened(value) + " is too large; expected a smaller number";
	return key + ": " + shortened(value) +
	       " is not a number, true or false, or a date; expected it in quotes if it is a text, "
	       "as in " +
	       key + " = \"" + shortened(value) + '"';
}

/* The parser's message, without the words for what it was parsing. */
std::string_view told(std::string_view words)
{
	constexpr std::string_view doing = "Error while parsing ";
	const auto colon = words.find(": ");
	return words.starts_with(doing) && colon != words.npos ? words.substr(colon + 2) : words;
}

/* The part of the parser's message that is in quotation marks. */
std::string quoted_name(std::string_view said)
{
	const auto first = said.find('\'');
	const auto last = said.rfind('\'');
	return first < last ? std::string(said.substr(first + 1, last - first - 1))
			    : std::string(said);
}

std::string explain_string(std::string_view line, std::string_view words)
{
	if (const auto quote = open_string(line))
		return "a text is not closed in its line; expected " + std::string(1, *quote) +
		       " at its end";
	if (has(words, "end-of-file"))
		return "a text of several lines is not closed; expected its three quotation marks "
		       "once more at its end";
	if (has(words, "control characters"))
		return "a control character in a text; expected its escape, such as \\t or \\u001b";
	return std::string(told(words)) +
	       "; expected an escape of TOML, or a text in single quotes, which has none";
}

} // namespace

std::string_view line_of(std::string_view text, std::size_t number)
{
	for (; number > 1; number--) {
		const auto end = text.find('\n');
		if (end == text.npos)
			return {};
		text.remove_prefix(end + 1);
	}
	return text.substr(0, text.find('\n'));
}

std::string explain_syntax(std::string_view line, std::size_t column, std::string_view words)
{
	const std::string said(told(words));
	if (has(words, "utf-8"))
		return "is not in UTF-8; expected a file in this encoding";
	if (has(words, "cannot redefine"))
		return quoted_name(said) + " is there already; expected it once";
	if (has(words, "nested"))
		return "values are nested too deeply; expected at most 256 levels";
	if (has(words, "after '\\r'"))
		return "a carriage return without a line feed; expected both, or a line feed alone";
	if (has(words, "parsing string") || has(words, "unicode scalar"))
		return explain_string(line, words);
	if (has(words, "table header") && has(words, "expected ']'"))
		return "the name of a table is not closed; expected ] there";
	if (has(words, "table header"))
		return said + "; expected [NAME] in a line of its own";
	if (const auto name = unquoted_name(line, column); !name.empty())
		return shortened(name) +
		       " has a character that needs quotes; expected them, as in \"" +
		       shortened(name) + "\" = ...";
	if (has(words, "expected a comment or whitespace"))
		return "there is more in the line than a value; expected its end, or a comment "
		       "after #; several values are an array, as in [\"a\", \"b\"]";
	const auto pair = to_pair(line, column);
	const bool is_bare =
		pair && (pair->value.empty() ||
			 std::string_view("\"'[{").find(pair->value.front()) == std::string::npos);
	if (is_bare && !has(words, "parsing date") && !has(words, "parsing array") &&
	    !has(words, "inline table"))
		return explain_value(*pair, words);
	if (has(words, "inline table")) {
		if (has(words, "'\\n'") || has(words, "end-of-file"))
			return "a table in braces continues in the next line; expected all of it "
			       "in one line, or a table of its own, such as [groups.NAME.check]";
		if (has(words, "dangling comma"))
			return "a comma after the last key of a table in braces; expected none";
		return "a table in braces is not closed; expected , or } there";
	}
	if (has(words, "array"))
		return has(words, "end-of-file")
			       ? "an array is not closed; expected ] at its end"
			       : "neither a comma nor the end of an array; expected , or ] there";
	if (!pair)
		return "is not a line of TOML; expected KEY = VALUE, [NAME] or a comment after #";
	return said + "; expected a value of TOML, such as 10, true or \"text\"";
}

} // namespace relay
