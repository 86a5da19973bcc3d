/* SPDX-License-Identifier: MIT */
#include "units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <system_error>

namespace tracing
{
namespace
{

/* Of UTF-8. */
bool begins_character(char c)
{
	return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
}

} // namespace

std::string duration_text(std::int64_t ns)
{
	constexpr std::array<const char *, 4> units = {"ns", "µs", "ms", "s"};
	double value = static_cast<double>(ns);
	std::size_t unit = 0;
	std::array<char, 64> text{};

	/* A value that would be rounded to 1000 is written as one of the next unit. */
	for (; std::fabs(value) >= 999.5 && unit + 1 < units.size(); unit++)
		value /= 1000;
	const double size = std::fabs(value);
	const int digits = unit == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
	std::snprintf(text.data(), text.size(), "%.*f %s", digits, value, units[unit]);
	return text.data();
}

std::string time_text(std::int64_t ns)
{
	std::array<char, 64> text{};

	std::snprintf(text.data(), text.size(), "%.3f", static_cast<double>(ns) / 1e6);
	return text.data();
}

std::string count_text(std::uint64_t n)
{
	std::string text = std::to_string(n);

	for (std::size_t i = text.size(); i > 3;)
		text.insert(i -= 3, 1, ',');
	return text;
}

std::string share_text(std::int64_t part, std::int64_t whole)
{
	std::array<char, 64> text{};

	if (whole <= 0)
		return "";
	const double share = 100 * static_cast<double>(part) / static_cast<double>(whole);
	if (part > 0 && share < 1)
		return "<1 %";
	std::snprintf(text.data(), text.size(), "%.0f %%", share);
	return text.data();
}

std::string clean(std::string_view text)
{
	std::string to(text);

	std::ranges::replace_if(
		to, [](char c) { return c < ' ' || c > '~'; }, '?');
	return to;
}

std::string cut(std::string text, std::size_t most)
{
	std::size_t end = 0;

	if (width(text) <= most)
		return text;
	/* Ends before the character that does not fit beside the mark. */
	for (std::size_t n = 0; end < text.size(); end++)
		if (begins_character(text[end]) && ++n == most)
			break;
	text.replace(end, std::string::npos, "…");
	return text;
}

std::size_t width(std::string_view text)
{
	return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::optional<std::int64_t> parse_time(std::string_view text)
{
	struct unit {
		std::string_view name;
		double ns;
	};
	constexpr std::array<unit, 6> units = {
		{{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"", 1e6}}};
	double value = 0;

	const auto [rest, err] = std::from_chars(text.data(), text.data() + text.size(), value,
						 std::chars_format::fixed);
	if (err != std::errc{} || !std::isfinite(value))
		return std::nullopt;
	text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
	if (text.starts_with(' '))
		text.remove_prefix(1);
	for (const auto &each : units) {
		if (text != each.name)
			continue;
		const double ns = std::round(value * each.ns);
		if (std::fabs(ns) > 1e18)
			return std::nullopt;
		return static_cast<std::int64_t>(ns);
	}
	return std::nullopt;
}

} // namespace tracing
