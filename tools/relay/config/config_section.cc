/* SPDX-License-Identifier: MIT */
#include "config/config_section.hpp"

#include "base/duration.hpp"
#include "base/size.hpp"
#include "base/text.hpp"
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

complaints::unknown_kind complaints::kind_of(const toml::node &value)
{
	if (value.is_array_of_tables())
		return unknown_kind::tables;
	const auto *table = value.as_table();
	return table && !table->is_inline() ? unknown_kind::table : unknown_kind::key;
}

/* Whether it is a table where tables of tables are expected, such as [listeners.NAME]. */
bool complaints::is_of_tables(const unknown_key &which)
{
	return which.kind != unknown_kind::key && !which.known->tables.empty();
}

/* The present name of a key that has another one now; empty if it never was a key. */
std::string complaints::renamed(const unknown_key &which)
{
	static const std::map<std::string, std::string> names = {{"gather", "coalesce"}};
	const auto now = names.find(which.key);
	return now != names.end() && which.known->all.contains(now->second) ? now->second : "";
}

/* The kinds of tables that have such a key, unless the key is rather a misspelt table of tables:
 * [group] is not a key of a listener. */
key_names complaints::homes_of(const unknown_key &which) const
{
	key_names homes;
	for (const auto &[kind, keys] : kinds_)
		if (keys.contains(which.key))
			homes.insert(kind);
	if (is_of_tables(which) && !near_word(which.key, which.known->tables).empty())
		homes.clear();
	return homes;
}

/* The known key that was probably meant; empty if none is near. */
std::string complaints::meant_by(const unknown_key &which) const
{
	if (const auto now = renamed(which); !now.empty())
		return now;
	if (!homes_of(which).empty())
		return "";
	if (!is_of_tables(which))
		return near_word(which.key, which.known->all);
	/* What other programs call listeners and groups. */
	static const std::map<std::string, std::string> foreign = {
		{"bind", "listeners"},   {"frontend", "listeners"}, {"frontends", "listeners"},
		{"server", "listeners"}, {"servers", "listeners"},  {"backend", "groups"},
		{"cluster", "groups"},   {"clusters", "groups"},    {"pool", "groups"},
		{"pools", "groups"},     {"upstream", "groups"},    {"upstreams", "groups"},
	};
	if (const auto other = foreign.find(which.key); other != foreign.end())
		return other->second;
	return near_word(which.key, which.known->tables);
}

std::string complaints::explain(const unknown_key &which) const
{
	std::string text = which.kind == unknown_kind::key     ? "unknown key"
			   : which.kind == unknown_kind::table ? "unknown table"
							       : "unknown array of tables";
	const auto homes = homes_of(which);
	const auto meant = meant_by(which);
	if (!renamed(which).empty())
		text += ", which is called " + meant + " now";
	else if (!homes.empty())
		text += ", which belongs to " + join(homes, " or ");
	else if (!meant.empty())
		text += ", perhaps " + meant;
	if (!is_of_tables(which))
		return text + "; expected one of " + join(which.known->all, ", ");
	std::string headers;
	for (const auto &each : which.known->tables)
		headers += (headers.empty() ? "[" : " or [") + each + ".NAME]";
	return text + "; expected " + headers;
}

/* Makes each error one line. Keys, values and the parser's quotations come from the file, and
 * may have line breaks. */
config_errors complaints::in_order()
{
	std::set<std::pair<std::string, std::string>> misspelt; /* of a table, a key */
	for (const auto &each : unknown_) {
		misspelt.emplace(each.table, meant_by(each));
		add(each.where, path_of(each.table, each.key), explain(each));
	}
	unknown_.clear();
	for (const auto &each : missing_)
		if (!misspelt.contains({each.table, each.key}))
			add(each.where, path_of(each.table, each.key), each.text);
	missing_.clear();
	std::ranges::stable_sort(found_, {}, [](const auto &each) {
		return std::pair(each.first.line, each.first.column);
	});
	config_errors all{.has_unread = has_unread_};
	for (const auto &[where, text] : found_)
		all.lines.push_back(to_printable(file_ + ':' + std::to_string(where.line) + ':' +
						 std::to_string(where.column) + ": " + text));
	return all;
}

const toml::node *section::take(std::string_view key)
{
	known_.all.emplace(key);
	return table_.get(key);
}

const toml::node *section::take_tables(std::string_view key)
{
	known_.tables.emplace(key);
	return take(key);
}

bool section::required(std::string_view key, const std::string &expected)
{
	if (take(key))
		return true;
	to_.add_missing(where(), path_, key,
			"missing; " +
				(expected.empty() ? "it has no default" : "expected " + expected));
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
		to_.learn(kind, known_.all);
	std::shared_ptr<const complaints::known_keys> known; /* shared by all unknown keys */
	for (const auto &[key, value] : table_) {
		if (known_.all.contains(std::string(key.str())))
			continue;
		if (!known)
			known = std::make_shared<const complaints::known_keys>(known_);
		to_.add_unknown(key, value, path_, known);
	}
}

} // namespace relay
