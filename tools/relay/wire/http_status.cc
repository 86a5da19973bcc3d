/* SPDX-License-Identifier: MIT */
#include "wire/http_status.hpp"

#include <algorithm>

namespace relay
{
namespace
{

bool is_digit_of_status(char c) noexcept
{
	return c >= '0' && c <= '9';
}

/* Whether a reason may not have the character. Tabs and bytes above ASCII are allowed. */
bool is_control_of_reason(char c) noexcept
{
	return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f;
}

/* Whether the bytes that have arrived can be the beginning of a status line. Checks the part
 * whose form is fixed, in which '0' stands for a digit. */
bool begins_well(std::string_view bytes) noexcept
{
	constexpr std::string_view form = "HTTP/1.x 000";
	for (std::size_t i = 0; i < std::min(form.size(), bytes.size()); i++) {
		const char c = bytes[i];
		if (form[i] == 'x'   ? c != '0' && c != '1'
		    : form[i] == '0' ? !is_digit_of_status(c)
				     : c != form[i])
			return false;
	}
	return true;
}

} // namespace

parsed parse_status_line(std::string_view bytes, unsigned &status) noexcept
{
	constexpr std::size_t fixed = 12;
	constexpr std::size_t shortest = fixed + 2;

	if (!begins_well(bytes))
		return parsed::bad("the answer is not one of HTTP/1");
	if (bytes.size() < shortest)
		return parsed::more(shortest);
	const auto rest = bytes.substr(fixed);
	if (rest[0] != ' ' && rest[0] != '\r')
		return parsed::bad("the status is not three digits");
	const auto end = std::ranges::find_if(rest, is_control_of_reason);
	const auto length = static_cast<std::size_t>(end - rest.begin());
	if (fixed + length + 2 > status_line_most)
		return parsed::bad("the status line is too long");
	if (end == rest.end() || (*end == '\r' && end + 1 == rest.end()))
		return parsed::more(bytes.size() + 1);
	if (*end != '\r' || end[1] != '\n')
		return parsed::bad("the status line has a control character");
	const unsigned value = static_cast<unsigned>(bytes[9] - '0') * 100 +
			       static_cast<unsigned>(bytes[10] - '0') * 10 +
			       static_cast<unsigned>(bytes[11] - '0');
	if (value < 100 || value > 599)
		return parsed::bad("the status is out of range");
	status = value;
	return parsed::done(fixed + length + 2);
}

} // namespace relay
