/* SPDX-License-Identifier: MIT */
#include "base/duration.hpp"

#include <charconv>
#include <cstdint>

namespace relay
{

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text)
{
	using namespace std::chrono;

	std::uint64_t number = 0;
	const auto [rest, err] = std::from_chars(text.data(), text.data() + text.size(), number);
	if (err != std::errc{})
		return std::nullopt;

	const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
	nanoseconds one{};
	if (unit.empty() || unit == "s")
		one = seconds(1);
	else if (unit == "ms")
		one = milliseconds(1);
	else if (unit == "m")
		one = minutes(1);
	else if (unit == "h")
		one = hours(1);
	else
		return std::nullopt;

	/* The longest duration is so short that adding it to the clock cannot overflow. */
	constexpr nanoseconds longest = hours(24 * 366);
	if (number > static_cast<std::uint64_t>(longest / one))
		return std::nullopt;
	return one * static_cast<std::int64_t>(number);
}

} // namespace relay
