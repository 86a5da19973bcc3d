/* SPDX-License-Identifier: MIT */
#include "config/edit.hpp"

#include "config/config_section.hpp"

#include <cstddef>
#include <sstream>
#include <utility>

namespace relay
{
namespace
{

/* The address of an element of `backends`; empty if the element has none. */
std::string address_of(const toml::node &of)
{
	if (const auto *string = of.as_string())
		return string->get();
	if (const auto *table = of.as_table())
		return table->get("address") ? table->get("address")->value_or(std::string()) : "";
	return "";
}

toml::array *find_backends(toml::table &in, const std::string &group)
{
	auto *const groups = in.get_as<toml::table>("groups");
	auto *const found = groups ? groups->get_as<toml::table>(group) : nullptr;
	return found ? found->get_as<toml::array>("backends") : nullptr;
}

std::optional<std::size_t> find_backend(const toml::array &among, const std::string &address)
{
	for (std::size_t i = 0; i < among.size(); i++)
		if (address_of(among[i]) == address)
			return i;
	return std::nullopt;
}

/* The backend's weight in the file; 1 if it has none there, or was added later. */
std::uint32_t weight_in(const std::string &file, const backend_edit &what)
{
	auto parsed = toml::parse(file);
	if (!parsed)
		return 1;
	const auto *const among = find_backends(parsed.table(), what.group);
	const auto at = among ? find_backend(*among, what.backend) : std::nullopt;
	const auto *const table = at ? (*among)[*at].as_table() : nullptr;
	const auto *const weight = table ? table->get("weight") : nullptr;
	return weight ? weight->value_or(std::uint32_t{1}) : 1;
}

void set_weight(toml::array &among, std::size_t at, std::uint32_t weight)
{
	if (auto *const table = among[at].as_table()) {
		table->insert_or_assign("weight", std::int64_t{weight});
		return;
	}
	toml::table made;
	made.insert("address", address_of(among[at]));
	made.insert("weight", std::int64_t{weight});
	among.replace(among.cbegin() + static_cast<std::ptrdiff_t>(at), std::move(made));
}

void add(toml::array &among, const backend_edit &what)
{
	toml::table made;
	made.insert("address", what.backend);
	if (what.weight)
		made.insert("weight", std::int64_t{*what.weight});
	if (what.priority)
		made.insert("priority", std::int64_t{*what.priority});
	if (what.max_connections)
		made.insert("max_connections", static_cast<std::int64_t>(*what.max_connections));
	among.push_back(std::move(made));
}

std::optional<edit_problem> apply(toml::array &among, const std::string &file,
				  const backend_edit &what)
{
	const auto at = find_backend(among, what.backend);
	if (what.what == backend_edit::kind::add) {
		if (at)
			return edit_problem{.text = '"' + what.backend +
						    "\" is already a backend of " + what.group};
		add(among, what);
		return std::nullopt;
	}
	if (!at)
		return edit_problem{.is_unknown = true,
				    .text = "the group " + what.group + " has no backend \"" +
					    what.backend + '"'};
	switch (what.what) {
	case backend_edit::kind::remove:
		if (among.size() == 1)
			return edit_problem{.text = '"' + what.backend +
						    "\" is the only backend of " + what.group +
						    ", and a group needs one; drain it instead"};
		among.erase(among.cbegin() + static_cast<std::ptrdiff_t>(*at));
		break;
	case backend_edit::kind::drain:
		set_weight(among, *at, 0);
		break;
	case backend_edit::kind::enable:
		set_weight(among, *at, weight_in(file, what));
		break;
	default:
		set_weight(among, *at, what.weight.value_or(1));
		break;
	}
	return std::nullopt;
}

/*
 * Returns nothing if the table cannot be written so that it reads the same again: toml++ does not
 * quote a key that contains a quote or a line end. Strings are written in the escaped form, because
 * it is the only one that keeps a line end at the beginning.
 */
std::optional<std::string> to_text(const toml::table &whole)
{
	constexpr auto unsafe = toml::format_flags::allow_literal_strings |
				toml::format_flags::allow_multi_line_strings |
				toml::format_flags::allow_real_tabs_in_strings;
	std::ostringstream out;
	out << toml::toml_formatter{whole, toml::toml_formatter::default_flags & ~unsafe} << '\n';
	auto text = std::move(out).str();
	const auto again = toml::parse(text);
	if (!again || again.table() != whole)
		return std::nullopt;
	return text;
}

} // namespace

std::variant<std::string, edit_problem>
edit_config(const std::string &text, const std::string &file, const backend_edit &what)
{
	auto parsed = toml::parse(text);
	if (!parsed)
		return edit_problem{.text = std::string(parsed.error().description())};
	auto *const among = find_backends(parsed.table(), what.group);
	if (!among)
		return edit_problem{.is_unknown = true,
				    .text = "there is no group \"" + what.group + '"'};
	if (auto problem = apply(*among, file, what))
		return *std::move(problem);
	auto written = to_text(parsed.table());
	if (!written)
		return edit_problem{
			.text = "the configuration cannot be written again; expected "
				"names of listeners and groups without quotes, tabs and "
				"line ends"};
	return *std::move(written);
}

} // namespace relay
