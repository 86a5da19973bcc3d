/* SPDX-License-Identifier: MIT */
/*
 * The result of parsing a connection's first bytes (proxy_header.hpp, tls_hello.hpp). A parser gets
 * all bytes that have arrived so far, and is called again when there are more. The result does not
 * depend on how the bytes were split.
 *
 * Once the result is `done` or `bad`, more bytes do not change it. While it is `more`, `size` is
 * larger than the number of bytes given, and never beyond the end of what is parsed. A reader that
 * waits for that many bytes therefore wakes rarely, and takes no bytes that belong to what follows.
 */
#ifndef RELAY_PARSED_HPP
#define RELAY_PARSED_HPP

#include <cstddef>
#include <string_view>

namespace relay
{

struct parsed {
	enum class state : unsigned char { more, done, bad };

	state is = state::bad;
	/* more: the number of bytes needed at least; done: the number of bytes taken; bad: 0. */
	std::size_t size = 0;
	/* bad: what is wrong, in words; a constant. */
	const char *why = "";

	static constexpr parsed more(std::size_t at_least) noexcept
	{
		return {state::more, at_least, ""};
	}
	static constexpr parsed done(std::size_t taken) noexcept
	{
		return {state::done, taken, ""};
	}
	static constexpr parsed bad(const char *why) noexcept { return {state::bad, 0, why}; }

	explicit operator bool() const noexcept { return is == state::done; }
	bool operator==(const parsed &other) const noexcept
	{
		return is == other.is && size == other.size && std::string_view(why) == other.why;
	}
};

} // namespace relay

#endif
