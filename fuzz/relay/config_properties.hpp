/* SPDX-License-Identifier: MIT */
/*
 * What must hold for the configuration's reader and for changes to its text, whatever the text is;
 * like properties.hpp. The text is read as `--check` reads it, except that files of certificates
 * are not opened.
 */
#ifndef FUZZ_RELAY_CONFIG_PROPERTIES_HPP
#define FUZZ_RELAY_CONFIG_PROPERTIES_HPP

#include "config/config.hpp"
#include "config/edit.hpp"
#include "properties.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace properties
{

/* Whether the line is "f:LINE:COLUMN: " and then some text, without a control character. */
inline bool is_complaint(std::string_view line)
{
	for (const char c : line)
		if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
			return false;
	const auto number = [&line] {
		const auto end = line.find_first_not_of("0123456789");
		const bool is_there = end != 0 && end != line.npos && line[end] == ':';
		line.remove_prefix(is_there ? end + 1 : 0);
		return is_there;
	};
	if (!line.starts_with("f:"))
		return false;
	line.remove_prefix(2);
	return number() && number() && line.starts_with(' ') && line.size() > 1;
}

inline std::optional<relay::config> read_text(std::string_view text)
{
	auto read = relay::parse_config(text, "f");
	if (const auto *errors = std::get_if<relay::config_errors>(&read)) {
		require(!errors->lines.empty(), "an error is reported");
		for (const auto &each : errors->lines)
			require(is_complaint(each), "an error is a line with its place");
		return std::nullopt;
	}
	return std::move(std::get<relay::config>(read));
}

/* Changes one backend, and reads the resulting text. */
inline void change_text(const relay::config &was, const relay::backend_edit &what)
{
	const auto made = relay::edit_config(was.text, was.text, what);
	if (const auto *problem = std::get_if<relay::edit_problem>(&made)) {
		require(!problem->text.empty(), "a reason is given");
		return;
	}
	const auto now = read_text(std::get<std::string>(made));
	if (!now) /* such as the last backend of a group that is removed */
		return;
	require(now->listeners.size() == was.listeners.size() &&
			now->groups.size() == was.groups.size(),
		"a change of a backend leaves listeners and groups");
	using kind = relay::backend_edit::kind;
	for (const auto &before : was.groups) {
		/* The changed text has its keys in another order. */
		const auto after =
			std::ranges::find(now->groups, before.name, &relay::group_config::name);
		require(after != now->groups.end(), "a change of a backend leaves the groups");
		const bool is_it = before.name == what.group;
		const std::size_t added = is_it && what.what == kind::add ? 1 : 0;
		const std::size_t removed = is_it && what.what == kind::remove ? 1 : 0;
		require(after->backends.size() + removed == before.backends.size() + added,
			"only what is asked for comes and goes");
		for (const auto &each : after->backends)
			if (is_it && what.weight && each.address == what.backend)
				require(each.weight == *what.weight, "the weight is as asked for");
	}
}

inline void config_text(std::string_view bytes)
{
	using kind = relay::backend_edit::kind;
	const auto read = read_text(bytes);
	if (!read)
		return;
	require(!read->listeners.empty(), "there is a listener");
	for (const auto &each : read->listeners) {
		require(each.group == relay::listener_config::no_group
				? !each.sni.empty() || !each.alpn.empty()
				: each.group < read->groups.size(),
			"a listener has a group that is there");
		for (const auto &route : each.sni)
			require(route.group < read->groups.size(), "a route's group is there");
		for (const auto &route : each.alpn)
			require(route.group < read->groups.size(), "a route's group is there");
	}
	for (const auto &group : read->groups) {
		require(!group.backends.empty(), "a group has a backend");
		for (const auto &each : group.backends)
			require(each.weight <= relay::weight_max, "a weight is in range");
	}
	require(read_text(read->text).has_value(), "what is printed is read again");
	if (read->groups.empty())
		return;
	const auto &group = read->groups.front();
	const auto &backend = group.backends.front().address;
	change_text(
		*read,
		{.what = kind::set_weight, .group = group.name, .backend = backend, .weight = 7});
	change_text(*read, {.what = kind::drain, .group = group.name, .backend = backend});
	change_text(*read, {.what = kind::enable, .group = group.name, .backend = backend});
	change_text(*read, {.what = kind::remove, .group = group.name, .backend = backend});
	change_text(*read, {.what = kind::add, .group = group.name, .backend = "203.0.113.254:9"});
	change_text(*read, {.what = kind::drain, .group = "none such", .backend = backend});
}

} // namespace properties

#endif
