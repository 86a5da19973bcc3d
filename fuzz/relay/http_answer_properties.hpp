/* SPDX-License-Identifier: MIT */
/*
 * What must hold for answers over HTTP to checks, whatever the bytes are: the pieces in which they
 * arrive change neither the status (properties.hpp) nor the body.
 */
#ifndef FUZZ_RELAY_HTTP_ANSWER_PROPERTIES_HPP
#define FUZZ_RELAY_HTTP_ANSWER_PROPERTIES_HPP

#include "properties.hpp"
#include "wire/http_body.hpp"
#include "wire/http_status.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace properties
{

class whole_body final : public relay::http_body
{
public:
	/* Feeds it in pieces of that size, each in memory of just that size. */
	whole_body(std::string_view bytes, std::size_t piece)
	{
		while (!bytes.empty()) {
			const std::size_t n = std::min(piece, bytes.size());
			const std::unique_ptr<char[]> copy(new char[n]);
			bytes.copy(copy.get(), n);
			feed({copy.get(), n});
			bytes.remove_prefix(n);
		}
		is = finish();
	}

	std::string text;
	state is;

private:
	void take(std::string_view piece) noexcept override
	{
		require(!piece.empty(), "no piece is empty");
		text += piece;
	}
};

inline void http_answer(std::string_view bytes)
{
	unsigned status = 0;
	agree_with_beginnings(bytes, [](std::string_view part) {
		unsigned unused = 0;
		return relay::parse_status_line(part, unused);
	});
	const auto line = relay::parse_status_line(bytes, status);
	require(line ? status >= 100 && status <= 599 : status == 0, "a status is one of HTTP");

	const whole_body whole(bytes, std::max<std::size_t>(bytes.size(), 1));
	require(whole.text.size() <= bytes.size(), "a body is a part of the answer");
	for (const std::size_t piece : {1, 2, 7}) {
		const whole_body other(bytes, piece);
		require(other.is == whole.is && other.text == whole.text,
			"pieces make no difference");
	}
}

} // namespace properties

#endif
