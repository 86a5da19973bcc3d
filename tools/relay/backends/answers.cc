/* SPDX-License-Identifier: MIT */
#include "backends/answers.hpp"

#include "backends/endpoint.hpp"
#include "wire/http_status.hpp"

#include <algorithm>
#include <cstddef>

namespace relay
{
namespace
{

std::error_code unexpected() noexcept
{
	return std::make_error_code(std::errc::protocol_error);
}

std::error_code read_http(sn::tcp &from, const check_config &how)
{
	char answer[status_line_most];
	std::size_t size = 0;
	for (;;) {
		const auto n = from.read(answer + size, sizeof answer - size);
		if (!n)
			return n.error();
		size += *n;
		unsigned status = 0;
		const auto line = parse_status_line({answer, size}, status);
		if (line) {
			const bool is_good = std::ranges::any_of(how.status, [&](const auto &each) {
				return status >= each.low && status <= each.high;
			});
			return is_good ? std::error_code() : status_error(status);
		}
		if (line.is == parsed::state::bad || *n == 0 || size == sizeof answer)
			return status_error(0);
	}
}

std::error_code read_beginning(sn::tcp &from, const byte_pattern &expected)
{
	for (std::size_t size = 0; size < expected.bytes.size();) {
		char answer[512];
		const auto n =
			from.read(answer, std::min(sizeof answer, expected.bytes.size() - size));
		if (!n)
			return n.error();
		if (*n == 0 || !expected.fits({answer, *n}, size))
			return unexpected();
		size += *n;
	}
	return {};
}

} // namespace

std::error_code read_answer(sn::tcp &from, const check_config &how)
{
	return how.http.empty() ? read_beginning(from, how.expect) : read_http(from, how);
}

std::error_code judge_datagram(std::string_view whole, const check_config &how)
{
	const bool is_good = whole.size() >= how.expect.bytes.size() && how.expect.fits(whole, 0);
	return is_good ? std::error_code() : unexpected();
}

} // namespace relay
