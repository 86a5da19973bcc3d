/* SPDX-License-Identifier: MIT */
#include "config/config_section.hpp"

#include "base/duration.hpp"
#include "base/size.hpp"
#include "config/near_word.hpp"

#include <algorithm>

namespace relay
{
namespace
{

std::string kind(const toml::node &node)
{
	switch (node.type()) {
	case toml::node_type::table:
		return "a table";
	case toml::node_type::array:
		return "an array";
	case toml::node_type::string:
		return "a string";
	case toml::node_type::integer:
		return "an integer";
	case toml::node_type::floating_point:
		return "a floating-point number";
	case toml::node_type::boolean:
		return "a boolean";
	default:
		return "a date or time";
	}
}

std::string join(const key_names &names, const char *between)
{
	std::string all;
	for (const auto &each : names)
		all += (all.empty() ? "" : between) + each;
	return all;
}

} // namespace

std::string complaints::explain(const unknown_key &which) const
{
	/* Keys that have another name now. */
	static const std::map<std::string, std::string> renamed = {{"gather", "coalesce"}};
	key_names where;
	for (const auto &[kind, keys] : kinds_)
		if (keys.contains(which.key))
			where.insert(kind);
	const auto near = near_word(which.key, *which.known);
	const auto now = renamed.find(which.key);
	const bool is_renamed = now != renamed.end() && which.known->contains(now->second);
	return "unknown key" +
	       (is_renamed       ? ", which is called " + now->second + " now"
		: !where.empty() ? ", which belongs to " + join(where, " or ")
		: !near.empty()  ? ", perhaps " + near
				 : "") +
	       "; expected one of " + join(*which.known, ", ");
}

/* Makes each error one line. Keys, values and the parser's quotations come from the file, and
 * may have line breaks. */
config_errors complaints::in_order()
{
	for (const auto &each : unknown_)
		add(each.where, each.path, explain(each));
	unknown_.clear();
	std::ranges::stable_sort(found_, {}, [](const auto &each) {
		return std::pair(each.first.line, each.first.column);
	});
	config_errors lines;
	for (const auto &[where, text] : found_)
		lines.push_back(file_ + ':' + std::to_string(where.line) + ':' +
				std::to_string(where.column) + ": " + text);
	for (auto &line : lines)
		for (char &c : line)
			if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
				c = '?';
	return lines;
}

const toml::node *section::take(std::string_view key)
{
	known_.emplace(key);
	return table_.get(key);
}

bool section::required(std::string_view key, const std::string &expected)
{
	if (take(key))
		return true;
	to_.add(where(), path(key),
		"missing; " + (expected.empty() ? "it has no default" : "expected " + expected));
	return false;
}

bool section::text(std::string_view key, std::string &into)
{
	const auto *node = take(key);
	if (!node)
		return false;
	const auto *value = node->as_string();
	if (!value)
		return mistyped(*node, key, "a string");
	into = value->get();
	return true;
}

bool section::nonempty(std::string_view key, std::string &into)
{
	if (!text(key, into))
		return false;
	if (!into.empty())
		return true;
	complain(*table_.get(key), key, "is empty; expected a text, or no such key");
	return false;
}

bool section::address(std::string_view key, std::string &into, address_use use)
{
	const auto *node = take(key);
	if (!node)
		return false;
	if (!node->is_string())
		return mistyped(*node, key,
				std::string("an address in quotes, such as ") +
					(use == address_use::listen || use == address_use::serve
						 ? "\":8080\""
						 : "\"10.0.0.7:80\""));
	into = node->as_string()->get();
	const auto problem = address_problem(into, use);
	if (problem)
		complain(*node, key, '"' + into + "\": " + *problem);
	return !problem;
}

bool section::flag(std::string_view key, bool &into)
{
	const auto *node = take(key);
	if (!node)
		return false;
	const auto *value = node->as_boolean();
	if (!value)
		return mistyped(*node, key, "true or false");
	into = value->get();
	return true;
}

std::optional<std::string> section::duration(std::string_view key, std::chrono::nanoseconds &into,
					     std::chrono::milliseconds least)
{
	const auto *node = take(key);
	if (!node)
		return std::nullopt;
	std::string written;
	if (const auto *string = node->as_string())
		written = string->get();
	else if (const auto *seconds = node->as_integer())
		written = std::to_string(seconds->get());
	else {
		mistyped(*node, key, "a duration, such as \"500ms\", \"10s\" or \"2m\"");
		return std::nullopt;
	}
	const auto read = parse_duration(written);
	if (!read) {
		complain(*node, key,
			 '"' + written +
				 "\" is not a duration; expected 0 to a year, such as "
				 "\"500ms\", \"10s\", \"2m\" or \"1h\"");
		return std::nullopt;
	}
	into = *read;
	if (into < least) {
		complain(*node, key,
			 '"' + written + "\" is too short; expected at least " +
				 std::to_string(least.count()) + "ms");
		return std::nullopt;
	}
	return written;
}

bool section::size(std::string_view key, std::uint64_t &into, std::uint64_t least,
		   std::uint64_t most, const std::string &range)
{
	const auto *node = take(key);
	if (!node)
		return false;
	std::string written;
	if (const auto *string = node->as_string())
		written = string->get();
	else if (const auto *bytes = node->as_integer())
		written = std::to_string(bytes->get());
	else
		return mistyped(*node, key, "a number of bytes, such as \"512KiB\" or 65536");
	const auto read = parse_size(written);
	if (!read)
		complain(*node, key,
			 '"' + written +
				 "\" is not a number of bytes; expected one such as 65536, "
				 "\"512KiB\" or \"10MB\"");
	else if (*read < least || *read > most)
		complain(*node, key, '"' + written + "\" is out of range; expected " + range);
	else
		into = *read;
	return read && into == *read;
}

const toml::table *section::table(std::string_view key, const std::string &expected)
{
	const auto *node = take(key);
	if (!node)
		return nullptr;
	if (const auto *found = node->as_table())
		return found;
	mistyped(*node, key, expected);
	return nullptr;
}

bool section::mistyped(const toml::node &node, std::string_view key, const std::string &expected)
{
	complain(node, key, "is " + kind(node) + "; expected " + expected);
	return false;
}

void section::finish(const std::string &kind)
{
	if (!kind.empty())
		to_.learn(kind, known_);
	std::shared_ptr<const key_names> known; /* shared by all unknown keys of the table */
	for (const auto &[key, value] : table_) {
		if (known_.contains(std::string(key.str())))
			continue;
		if (!known)
			known = std::make_shared<const key_names>(known_);
		to_.add_unknown(key.source().begin, key.str(), path(key.str()), known);
	}
}

} // namespace relay
