/* SPDX-License-Identifier: MIT */
#include "config/config_places.hpp"

#include "base/token.hpp"
#include "config/config_section.hpp"
#include "stats/access_log.hpp"

#include <charconv>
#include <cstddef>
#include <system_error>

namespace relay
{
namespace
{

/* A part of a key, and the rest after it. */
struct step {
	const toml::node *to;
	std::string_view rest;
};

bool is_end_of_name(std::string_view rest)
{
	return rest.starts_with('.') || rest.starts_with('[') || rest.starts_with(": ");
}

/* Names may have dots, so the longest that fits is taken. */
step into_table(const toml::table &in, std::string_view path)
{
	step found{nullptr, path};
	std::size_t longest = 0;
	for (const auto &[key, value] : in) {
		const std::string_view name = key.str();
		if (name.size() >= longest && path.starts_with(name) &&
		    is_end_of_name(path.substr(name.size()))) {
			longest = name.size();
			found = {&value, path.substr(name.size())};
		}
	}
	return found;
}

/* path: "[3]..." */
step into_array(const toml::array &in, std::string_view path)
{
	std::size_t index = 0;
	const char *const end = path.data() + path.size();
	const auto [rest, err] = std::from_chars(path.data() + 1, end, index);
	if (err != std::errc{} || rest == end || *rest != ']' || index >= in.size())
		return {nullptr, path};
	return {in.get(index), path.substr(static_cast<std::size_t>(rest + 1 - path.data()))};
}

source_position place_of(const toml::table &whole, std::string_view path)
{
	source_position found{};
	for (step at{&whole, path}; at.to;) {
		if (at.to != &whole)
			found = at.to->source().begin;
		if (const auto *table = at.to->as_table())
			at = into_table(*table, at.rest.substr(at.rest.starts_with('.') ? 1 : 0));
		else if (const auto *array = at.to->as_array(); array && at.rest.starts_with('['))
			at = into_array(*array, at.rest);
		else
			break;
	}
	return found;
}

} // namespace

std::string with_place(const config &of, const std::string &file, const std::string &problem)
{
	const auto parsed = toml::parse(of.text, file);
	const auto at = parsed ? place_of(parsed.table(), problem) : source_position{};
	if (at.line == 0)
		return file + ": " + problem;
	return file + ':' + std::to_string(at.line) + ':' + std::to_string(at.column) + ": " +
	       problem;
}

std::vector<std::string> file_problems(const config &of, const std::string &file)
{
	std::vector<std::string> found;
	if (const auto problem = log_target_problem(of.access_log))
		found.push_back(with_place(of, file, "access_log: " + *problem));
	std::string token;
	std::string why;
	if (!of.control_token_file.empty() && !read_token(of.control_token_file, token, why))
		found.push_back(with_place(of, file, "control_token_file: " + why));
	return found;
}

} // namespace relay
