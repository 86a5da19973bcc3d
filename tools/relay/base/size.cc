/* SPDX-License-Identifier: MIT */
#include "base/size.hpp"

#include <charconv>
#include <utility>

namespace relay
{

std::optional<std::uint64_t> parse_size(std::string_view text)
{
	constexpr std::uint64_t k = 1000;
	constexpr std::uint64_t ki = 1024;
	constexpr std::pair<std::string_view, std::uint64_t> units[] = {
		{"", 1},
		{"B", 1},
		{"kB", k},
		{"MB", k * k},
		{"GB", k * k * k},
		{"TB", k * k * k * k},
		{"KiB", ki},
		{"MiB", ki * ki},
		{"GiB", ki * ki * ki},
		{"TiB", ki * ki * ki * ki},
	};

	std::uint64_t number = 0;
	const auto [rest, err] = std::from_chars(text.data(), text.data() + text.size(), number);
	if (err != std::errc{})
		return std::nullopt;
	const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
	for (const auto &[name, bytes] : units)
		if (name == unit)
			return number <= INT64_MAX / bytes ? std::optional(number * bytes)
							   : std::nullopt;
	return std::nullopt;
}

} // namespace relay
